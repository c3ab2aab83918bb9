// Pieces of a pass that live in the first-level cache: reading a stretch of a row, and weighing its residuals.
#pragma once
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include "kernels.hpp"
#include "simd.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace lrmc::LRMC_ISA {

template <class T> inline constexpr int TILE = 2048 / sizeof(T);  // columns at a time: 2 kB of a row
inline constexpr int ROWS = 4;                                    // rows at a time: each load of R serves four

struct Free { void operator()(void *p) const { std::free(p); } };
template <class T> using Buffer = std::unique_ptr<T[], Free>;
template <class T> Buffer<T> zeros(int64_t n) {
  size_t bytes = (size_t(n > 0 ? n : 1) * sizeof(T) + 63) / 64 * 64;
  void *p = std::aligned_alloc(64, bytes);
  if (!p) throw std::bad_alloc();
  std::memset(p, 0, bytes);
  return Buffer<T>(static_cast<T *>(p));
}

inline int thread_index() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

inline int team_size() {
#ifdef _OPENMP
  return omp_get_num_threads();
#else
  return 1;
#endif
}
template <class T, class Out> void add(const T *x, int64_t n, Out *out) {
  for (int64_t i = 0; i < n; i++) out[i] += x[i];
}

// Reads n numbers into `out` as T, NaN where they are not observed, and fills up to `padded` with NaN.
template <class T, class S> void read_as(const S *in, const uint8_t *mask, int n, int padded, T *__restrict out) {
  const T missing = std::numeric_limits<T>::quiet_NaN();
  if (mask)
    for (int j = 0; j < n; j++) out[j] = mask[j] ? T(in[j]) : missing;
  else
    for (int j = 0; j < n; j++) out[j] = T(in[j]);
  for (int j = n; j < padded; j++) out[j] = missing;
}
template <class T>
void read(const void *data, Storage storage, int64_t at, const uint8_t *mask, int n, int padded, T *out) {
  switch (storage) {
    case Storage::f32: return read_as(static_cast<const float *>(data) + at, mask, n, padded, out);
    case Storage::f64: return read_as(static_cast<const double *>(data) + at, mask, n, padded, out);
    case Storage::u8: return read_as(static_cast<const uint8_t *>(data) + at, mask, n, padded, out);
    case Storage::i16: return read_as(static_cast<const int16_t *>(data) + at, mask, n, padded, out);
    case Storage::u16: return read_as(static_cast<const uint16_t *>(data) + at, mask, n, padded, out);
  }
}

// ---- weights: e -> (w, inlier). A new rule is a new struct here. `e` may be NaN: then nothing is an inlier.

template <class T> struct Clip {
  static constexpr bool sums = false;  // whether weights are summed per row and column
  Vec<T> z;
  Clip(const Weight<T> &weight, T, T, bool) : z(fill<T>(weight.z)) {}
  Vec<T> operator()(Vec<T> e, Vec<T>, Vec<T>, Vec<T> &c, Mask<T> &inlier) const {
    Vec<T> kept = smaller(larger(e, -z), z);
    inlier = kept == e;
    c = kept;
    return Vec<T>{};
  }
};

template <class T> struct Sided {  // the size of a residual where one side may not count
  Vec<T> up, down;
  Vec<T> operator()(Vec<T> e) const { return larger(up * e, -(down * e)); }
};

template <class T> struct Threshold {
  static constexpr bool sums = true;
  Sided<T> size;
  Vec<T> z, protect;
  bool clips;  // some outliers are clipped: spares the division elsewhere
  Threshold(const Weight<T> &weight, T row_z, T row_protect, bool col_clips)
      : size{fill<T>(weight.up), fill<T>(weight.down)}, z(fill<T>(row_z)), protect(fill<T>(row_protect)),
        clips(col_clips || row_protect > 0) {}
  Vec<T> operator()(Vec<T> e, Vec<T> col_z, Vec<T> col_protect, Vec<T> &c, Mask<T> &inlier) const {
    Vec<T> size_e = size(e), zij = larger(z, col_z), one = fill<T>(1), w = Vec<T>{};
    inlier = size_e <= zij;
    if (clips) w = larger(protect, col_protect) * zij / size_e;
    w = inlier ? one : w;
    c = w * e;
    return w;
  }
};

template <class T> struct Cauchy {
  static constexpr bool sums = true;
  Sided<T> size;
  Vec<T> z;
  Cauchy(const Weight<T> &weight, T row_z, T, bool)
      : size{fill<T>(weight.up), fill<T>(weight.down)}, z(fill<T>(row_z)) {}
  Vec<T> operator()(Vec<T> e, Vec<T> col_z, Vec<T>, Vec<T> &c, Mask<T> &inlier) const {
    Vec<T> size_e = size(e), zij = larger(z, col_z), q = size_e / zij;
    inlier = size_e <= zij;
    Vec<T> w = fill<T>(1) / (fill<T>(1) + q * q);
    c = w * e;
    return w;
  }
};

// What the weights of one tile need and give: M rows, and columns as long as the tile. Columns are missing for `clip`.
template <class T> struct Sides {
  const T *row_z, *row_protect, *col_z, *col_protect;
  bool col_clips;  // some column of this tile is protected
  Count<T> *row_inliers, *col_inliers;
  T *row_weight, *col_weight;
};

template <class T, template <class> class Rule_, int... m>
std::array<Rule_<T>, sizeof...(m)> rules_of(const Weight<T> &weight, const Sides<T> &side, std::integer_sequence<int, m...>) {
  constexpr bool sums = Rule_<T>::sums;
  return {Rule_<T>(weight, sums ? side.row_z[m] : T(0), sums ? side.row_protect[m] : T(0), side.col_clips)...};
}

// Turns M rows of residuals E into pulls, in place. Missing entries (NaN) become 0.
template <class T, int M, template <class> class Rule_>
void weigh_tile(const Weight<T> &weight, const Sides<T> &side, int n, T *__restrict E) {
  constexpr int W = width<T>;
  constexpr bool sums = Rule_<T>::sums;
  auto rules = rules_of<T, Rule_>(weight, side, std::make_integer_sequence<int, M>{});
  Mask<T> inliers[M] = {};
  Vec<T> weights[M] = {};
  for (int j = 0; j < n; j += W) {
    Vec<T> zc = {}, pc = {}, col_w = {};
    Mask<T> col_k = {};
    if constexpr (sums) {
      zc = load<Vec<T>>(side.col_z + j);
      pc = load<Vec<T>>(side.col_protect + j);
      col_w = load<Vec<T>>(side.col_weight + j);
      col_k = load<Mask<T>>(side.col_inliers + j);
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; m++) {
      Vec<T> e = load<Vec<T>>(E + m * TILE<T> + j), c;
      Mask<T> inlier, seen = e == e;
      Vec<T> w = rules[m](e, zc, pc, c, inlier);
      store(E + m * TILE<T> + j, seen ? c : Vec<T>{});
      inliers[m] -= inlier;
      if constexpr (sums) {
        w = seen ? w : Vec<T>{};
        weights[m] += w;
        col_w += w;
        col_k -= inlier;
      }
    }
    if constexpr (sums) {
      store(side.col_weight + j, col_w);
      store(side.col_inliers + j, col_k);
    }
  }
  for (int m = 0; m < M; m++) {
    for (int t = 0; t < W; t++) side.row_inliers[m] += inliers[m][t];
    if constexpr (sums) side.row_weight[m] += sum<T>(weights[m]);
  }
}
template <class T, int M> void weigh(const Weight<T> &weight, const Sides<T> &side, int n, T *E) {
  switch (weight.rule) {
    case Rule::clip: return weigh_tile<T, M, Clip>(weight, side, n, E);
    case Rule::threshold: return weigh_tile<T, M, Threshold>(weight, side, n, E);
    case Rule::cauchy: return weigh_tile<T, M, Cauchy>(weight, side, n, E);
  }
}

}  // namespace lrmc::LRMC_ISA
