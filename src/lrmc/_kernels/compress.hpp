// The observed entries of a dense matrix, by row (CSR) or by column: what a sparse pass reads.
#pragma once
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

inline constexpr int WORD = 64;  // entries whose bits are one number

// Which of up to 64 entries are observed, one bit each.
template <class S> inline uint64_t observed(const S *y, const uint8_t *mask, int n) {
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
  for (int64_t first = 0; first < n2; first += AT_ONCE)
    for (int64_t i = 0; i < n1; i++) {
      int64_t to = next[by_column ? first : i];
      for (int64_t j = first, end = std::min(n2, first + AT_ONCE); j < end; j += WORD) {
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
