// The observed entries of a dense matrix, by row (CSR) or by column: what a sparse pass reads.
#pragma once
#if LRMC_VECTOR_BYTES > 16
#include <immintrin.h>
#endif
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

inline constexpr int WORD = 64;  // entries whose bits are one number

#if LRMC_VECTOR_BYTES > 16
// Which of 32 bytes are not 0; which of 32 bytes of numbers are not NaN. A bit each.
inline uint64_t bits_of(const uint8_t *mask) {
  return uint32_t(~_mm256_movemask_epi8(_mm256_cmpeq_epi8(load<__m256i>(mask), _mm256_setzero_si256())));
}
inline uint64_t numbers_in(const float *y) {
  const auto x = load<__m256>(y);
  return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_ORD_Q)));
}
inline uint64_t numbers_in(const double *y) {
  const auto x = load<__m256d>(y);
  return uint32_t(_mm256_movemask_pd(_mm256_cmp_pd(x, x, _CMP_ORD_Q)));
}
// The same of 64 entries.
template <class S> inline uint64_t observed(const S *y, const uint8_t *mask) {
  uint64_t bits = mask ? bits_of(mask) | bits_of(mask + 32) << 32 : ~uint64_t(0);
  if constexpr (std::is_floating_point_v<S>) {
    constexpr int few = 32 / sizeof(S);
    uint64_t numbers = 0;
    for (int j = 0; j < WORD; j += few) numbers |= numbers_in(y + j) << j;
    bits &= numbers;
  }
  return bits;
}
#endif

// Which of up to 64 entries are observed, one bit each.
template <class S> inline uint64_t observed(const S *y, const uint8_t *mask, int n) {
#if LRMC_VECTOR_BYTES > 16
  if (n == WORD) return observed(y, mask);
#endif
  alignas(64) uint8_t seen[WORD] = {};
  const auto look = [&](int count) {
    if (mask)
      for (int j = 0; j < count; j++) seen[j] = (mask[j] != 0) & (y[j] == y[j]);
    else
      for (int j = 0; j < count; j++) seen[j] = y[j] == y[j];
  };
  if (n == WORD) look(WORD);  // in vectors
  else look(n);
  uint64_t bits = 0;
  for (int j = 0; j < WORD; j += 8)  // 8 bytes, each 0 or 1, to 8 bits
    bits |= (load<uint64_t>(seen + j) * 0x0102040810204080u >> 56) << j;
  return bits;
}

inline constexpr int AT_ONCE = 4096;  // columns: by column, their entries stay in the second-level cache

template <class S, bool by_column> void compress_as(const Dense &data, int64_t n1, int64_t n2, const Compressed &out) {
  const S *Y = static_cast<const S *>(data.data);
  const int64_t lines = by_column ? n2 : n1;
  auto places = zeros<int64_t>(lines);  // where the next entry of a line goes
  std::copy_n(out.indptr, lines, places.get());
  // copies: bytes may be written anywhere, so that what is not local would be read again after every one
  int64_t *const next = places.get();
  int32_t *const indices = out.indices;
  S *const values = static_cast<S *>(out.values);
  const int64_t at_once = by_column ? AT_ONCE : n2;
  for (int64_t first = 0; first < n2; first += at_once)
    for (int64_t i = 0; i < n1; i++) {
      int64_t to = next[by_column ? first : i];
      for (int64_t j = first, end = std::min(n2, first + at_once); j < end; j += WORD) {
        const S *const y = Y + i * data.stride + j;
        const uint8_t *mask = data.mask ? data.mask + i * data.mask_stride + j : nullptr;
        for (uint64_t left = observed(y, mask, int(std::min<int64_t>(WORD, end - j))); left; left &= left - 1) {
          const int t = __builtin_ctzll(left);
          if constexpr (by_column) to = next[j + t]++;
          indices[to] = int32_t(by_column ? i : j + t);
          values[to] = y[t];
          to++;
        }
      }
      if constexpr (!by_column) next[i] = to;
    }
}

template <class S> void compress_to(const Dense &data, int64_t n1, int64_t n2, const Compressed &out) {
  out.by_column ? compress_as<S, true>(data, n1, n2, out) : compress_as<S, false>(data, n1, n2, out);
}

inline void compress(const Dense &data, int64_t n1, int64_t n2, const Compressed &out) {
  switch (data.storage) {
    case Storage::f32: return compress_to<float>(data, n1, n2, out);
    case Storage::f64: return compress_to<double>(data, n1, n2, out);
    case Storage::u8: return compress_to<uint8_t>(data, n1, n2, out);
    case Storage::i16: return compress_to<int16_t>(data, n1, n2, out);
    case Storage::u16: return compress_to<uint16_t>(data, n1, n2, out);
  }
}

}  // namespace lrmc::LRMC_ISA
