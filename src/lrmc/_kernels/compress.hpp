// The observed entries of a dense matrix, by row (CSR) or by column: what a sparse pass reads.
#pragma once
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

// The columns among n that are observed, in order; how many. No branch depends on what is observed.
template <class S> int observed(const S *y, const uint8_t *mask, int n, int32_t *at) {
  int found = 0;
  for (int j = 0; j < n; j++) {
    at[found] = j;
    found += mask ? (mask[j] != 0) & (y[j] == y[j]) : y[j] == y[j];
  }
  return found;
}

inline constexpr int AT_ONCE = 4096;  // columns: by column, their entries stay in the second-level cache

template <class S> void compress_as(const Dense &data, int64_t n1, int64_t n2, const Compressed &out) {
  const S *Y = static_cast<const S *>(data.data);
  S *values = static_cast<S *>(out.values);
  auto seen = zeros<int32_t>(AT_ONCE);
  auto next = zeros<int64_t>(out.by_column ? AT_ONCE : n1);
  if (!out.by_column) std::copy_n(out.indptr, n1, next.get());
  for (int64_t j = 0; j < n2; j += AT_ONCE) {
    const int n = int(std::min<int64_t>(AT_ONCE, n2 - j));
    if (out.by_column) std::copy_n(out.indptr + j, n, next.get());
    for (int64_t i = 0; i < n1; i++) {
      const S *y = Y + i * data.stride + j;
      const int found = observed(y, data.mask ? data.mask + i * data.mask_stride + j : nullptr, n, seen.get());
      for (int t = 0; t < found; t++) {
        const int64_t to = next[out.by_column ? seen[t] : i]++;
        out.indices[to] = int32_t(out.by_column ? i : j + seen[t]);
        values[to] = y[seen[t]];
      }
    }
  }
}

inline void compress(const Dense &data, int64_t n1, int64_t n2, const Compressed &out) {
  switch (data.storage) {
    case Storage::f32: return compress_as<float>(data, n1, n2, out);
    case Storage::f64: return compress_as<double>(data, n1, n2, out);
    case Storage::u8: return compress_as<uint8_t>(data, n1, n2, out);
    case Storage::i16: return compress_as<int16_t>(data, n1, n2, out);
    case Storage::u16: return compress_as<uint16_t>(data, n1, n2, out);
  }
}

}  // namespace lrmc::LRMC_ISA
