// Windows that slide over pictures: `op` over neighbors, put together in pairs, pairs in fours and so on.
//
// Compiled once for each instruction set.
#pragma once
#include <algorithm>
#include <cstdint>

namespace lrmc::LRMC_ISA {

struct Or {
  template <class T> T operator()(T a, T b) const { return T(a | b); }
};
struct And {
  template <class T> T operator()(T a, T b) const { return T(a & b); }
};
struct Most {
  template <class T> T operator()(T a, T b) const { return std::max(a, b); }
};
struct Add {
  template <class T> T operator()(T a, T b) const { return T(a + b); }
};

// `op` over `size` values that are `stride` apart: out[i] of x[i], x[i + stride], ... x is lost; out has
// n - (size - 1) stride values.
template <class T, class Op> void along(T *x, int64_t n, int size, int64_t stride, T *out, Op op) {
  const int64_t length = n - (size - 1) * stride;
  for (int done = 0, width = 1;; width *= 2) {
    if (size & width) {
      const T *part = x + done * stride;
      if (done == 0) std::copy(part, part + length, out);
      else
        for (int64_t i = 0; i < length; i++) out[i] = op(out[i], part[i]);
      done += width;
    }
    if (done == size) return;
    n -= width * stride;
    const T *next = x + width * stride;
#pragma GCC ivdep  // reads are ahead of writes
    for (int64_t i = 0; i < n; i++) x[i] = op(x[i], next[i]);
  }
}

}  // namespace lrmc::LRMC_ISA
