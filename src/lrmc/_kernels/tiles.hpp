// Pieces of a pass that live in the first-level cache: reading a stretch of a row, and weighing its residuals.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include "elementary.hpp"
#include "kernels.hpp"
#include "team.hpp"

namespace lrmc::LRMC_ISA {

template <class T> inline constexpr int TILE = 1024 / sizeof(T);  // columns at a time: 1 kB of a row
inline constexpr int ROWS = 4;                                    // rows at a time: each load of R serves four

struct Free {
  void operator()(void *p) const { std::free(p); }
};
template <class T> using Buffer = std::unique_ptr<T[], Free>;
template <class T> Buffer<T> zeros(int64_t n) {
  size_t bytes = (size_t(n > 0 ? n : 1) * sizeof(T) + 63) / 64 * 64;
  void *p = std::aligned_alloc(64, bytes);
  if (!p) throw NoMemory(bytes);
  std::memset(p, 0, bytes);
  return Buffer<T>(static_cast<T *>(p));
}

template <class T, class Out> void add(const T *x, int64_t n, Out *out) {
  for (int64_t i = 0; i < n; i++) out[i] += x[i];
}
template <class T, class Out> void add_all(const T *x, int64_t n, Out &out) {
  for (int64_t i = 0; i < n; i++) out += x[i];
}
template <class P> P *after(P *p, int64_t n) { return p ? p + n : nullptr; }  // what is missing stays so

// Sums of many terms, made in S (single precision, 32 bits) for some time and then settled in a type twice as wide: the
// error does not grow with the number of terms, and the inner loops stay as fast as they are.
inline constexpr int SETTLE = 1024;  // rows, at the latest
template <class S> struct Sums {
  using Wide = std::conditional_t<std::is_integral_v<S>, int64_t, double>;
  int64_t n = 0;
  Buffer<S> now;
  Buffer<Wide> settled;  // missing until it is needed

  Sums() = default;
  explicit Sums(int64_t n_) : n(n_), now(zeros<S>(n_)) {}
  S *get() const { return now.get(); }
  Wide operator[](int64_t i) const { return settled ? settled[i] + Wide(now[i]) : Wide(now[i]); }
  __attribute__((noinline, cold)) void settle(int64_t from,
                                              int64_t to) {  // seldom: not in the way of the loops around it
    if constexpr (!std::is_same_v<S, Wide>) {
      if (!now || from >= to) return;
      if (!settled) settled = zeros<Wide>(n);
      add(now.get() + from, to - from, settled.get() + from);
      std::fill(now.get() + from, now.get() + to, S(0));
    }
  }
  void settle() { settle(0, n); }
  void clear() {
    std::fill_n(now.get(), n, S(0));
    if (settled) std::fill_n(settled.get(), n, Wide(0));
  }
};

// entries that a column of a sparse matrix has had when the sums by column are settled: their cost is small then
inline constexpr int64_t TYPICAL = 128;

// Rows of a sparse matrix are divided so that every thread has as many entries; always in the same way.
inline int64_t first_of_share(const Sparse &data, int64_t n1, int t, int threads) {
  const int64_t entries = data.indptr[n1] / threads * t;
  return t == threads ? n1 : std::lower_bound(data.indptr, data.indptr + n1, entries) - data.indptr;
}

// Reads n numbers into `out` as T, NaN where they are not observed, and fills up to `padded` with NaN.
template <class T, class S> void read_as(const S *in, const uint8_t *mask, int n, int padded, T *__restrict out) {
  const T missing = std::numeric_limits<T>::quiet_NaN();
  if (mask) {
    // without branches, which a random mask makes ten times slower: what is missing gets all bits of a NaN
    for (int j = 0; j < n; j++) {
      const T x = T(in[j]);
      Count<T> bits;
      std::memcpy(&bits, &x, sizeof x);
      bits |= -Count<T>(mask[j] == 0);
      std::memcpy(out + j, &bits, sizeof bits);
    }
  } else
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
  static constexpr bool sums = false;      // whether weights are summed per row and column
  static constexpr bool counts = false;    // whether weights are 0 or 1, so that to sum them is to count inliers
  static constexpr bool energies = false;  // whether w e^2 is summed
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
  explicit Sided(const Weight<T> &weight) : up(fill<T>(weight.up)), down(fill<T>(weight.down)) {}
  Vec<T> operator()(Vec<T> e) const { return larger(up * e, -(down * e)); }
};

template <class T> struct Threshold {
  static constexpr bool sums = true, counts = false, energies = false;
  Sided<T> size;
  Vec<T> z, protect;
  bool clips;  // some outliers are clipped: spares the division elsewhere
  Threshold(const Weight<T> &weight, T row_z, T row_protect, bool col_clips)
      : size(weight), z(fill<T>(row_z)), protect(fill<T>(row_protect)), clips(col_clips || row_protect > 0) {}
  Vec<T> operator()(Vec<T> e, Vec<T> col_z, Vec<T> col_protect, Vec<T> &c, Mask<T> &inlier) const {
    Vec<T> size_e = size(e), zij = larger(z, col_z), one = fill<T>(1), w = Vec<T>{};
    inlier = size_e <= zij;
    if (clips) w = larger(protect, col_protect) * zij / size_e;
    w = inlier ? one : w;
    c = w * e;
    return w;
  }
};

// `Threshold` where nothing is clipped and outliers lie on both sides: half the work. What is missing is no inlier.
template <class T> struct Reject {
  static constexpr bool sums = true, counts = true, energies = false;
  Vec<T> z;
  Reject(const Weight<T> &, T row_z, T, bool) : z(fill<T>(row_z)) {}
  Vec<T> operator()(Vec<T> e, Vec<T> col_z, Vec<T>, Vec<T> &c, Mask<T> &inlier) const {
    inlier = larger(e, -e) <= larger(z, col_z);
    c = Vec<T>(Mask<T>(e) & inlier);
    return Vec<T>(Mask<T>(fill<T>(1)) & inlier);
  }
};

// The same where no column has a wider threshold than the row.
template <class T> struct RejectAlike : Reject<T> {
  using Reject<T>::Reject;
  Vec<T> operator()(Vec<T> e, Vec<T>, Vec<T> none, Vec<T> &c, Mask<T> &inlier) const {
    return Reject<T>::operator()(e, this->z, none, c, inlier);
  }
};

template <class T> bool may_reject(const Weight<T> &w) {  // unless a row or column is protected
  return w.rule == Rule::threshold && !w.squares && w.up == 1 && w.down == 1;
}

// The weight of a residual that is q times its threshold, by a smooth rule, and whether it is an inlier.
template <class T, Rule which> inline Vec<T> weight_of(Vec<T> q, T odds, Mask<T> &inlier) {
  const Vec<T> one = fill<T>(1);
  inlier = q <= one;
  if constexpr (which == Rule::huber) return smaller(one, one / larger(q, fill<T>(std::numeric_limits<T>::min())));
  Vec<T> x = q * q;
  if constexpr (which == Rule::power)  // of infinity there is no logarithm
    return exponential<T>(-odds * logarithm<T>(one + smaller(x, fill<T>(std::numeric_limits<T>::max()))));
  if constexpr (which ==
                Rule::mixture) {  // (1 + q^2 / 32)^16 is near exp(q^2 / 2), and where it is not, its tail is heavier
    x = one + x / 32;
    x *= x;
    x *= x;
    x *= x;
    x *= x;
    x = odds * smaller(x, fill<T>(std::numeric_limits<T>::max()));  // not 0 times infinity
    inlier = x <= one;
  }
  return one / (one + x);
}

template <class T, Rule which> struct Smooth {
  static constexpr bool sums = true, counts = false, energies = true;
  Sided<T> size;
  Vec<T> z;
  T odds;
  Smooth(const Weight<T> &weight, T row_z, T, bool) : size(weight), z(fill<T>(row_z)), odds(weight.z) {}
  Vec<T> operator()(Vec<T> e, Vec<T> col_z, Vec<T>, Vec<T> &c, Mask<T> &inlier) const {
    const Vec<T> smallest = fill<T>(std::numeric_limits<T>::min());  // 0 / 0 would be NaN
    const Vec<T> w = weight_of<T, which>(size(e) / larger(z * col_z, smallest), odds, inlier);
    c = w * e;
    return w;
  }
};
template <class T> using Cauchy = Smooth<T, Rule::cauchy>;
template <class T> using Huber = Smooth<T, Rule::huber>;
template <class T> using Mixture = Smooth<T, Rule::mixture>;
template <class T> using Power = Smooth<T, Rule::power>;

// What the weights of one tile need and give: M rows, and columns as long as the tile. Columns are missing for `clip`.
// Where weights are counts, col_weight is not touched.
template <class T> struct Sides {
  const T *row_z, *row_protect, *col_z, *col_protect;
  bool col_clips;  // some column of this tile is protected
  Count<T> *row_inliers, *col_inliers;
  T *row_weight, *col_weight;
  double *row_energy;
  T *col_energy;  // both missing where the rule has none
};

// One tile of 4 rows, as it meets the weights and the model.
template <class T> struct Tile {
  const T *source[ROWS];
  T gain;
  int n;  // columns, a multiple of two vectors
  int rank;
  const T *L, *R;  // 4 x rank, rank x TILE
  const T *P, *Q;  // 4 x rank, rank x TILE; only for the adjoint
  T *B;            // rank x TILE, where P' C is added; only if P is L, or for the adjoint
  T *C;            // 4 x TILE: the answer
  T *W;            // 4 x TILE: its weights, if wanted; for the adjoint D
  Sides<T> side;
  double *z_slope;  // for the adjoint
};

// Turns residuals of M rows into pulls, one vector of columns after another, and keeps the sums.
template <class T, int M, template <class> class Rule_> struct Weigher {
  static constexpr bool sums = Rule_<T>::sums, counts = Rule_<T>::counts, energies = Rule_<T>::energies;
  const Sides<T> &side;
  const std::array<Rule_<T>, M> rules;
  const bool squares;
  Mask<T> inliers[M] = {};
  Vec<T> weights[M] = {}, energy[M] = {};

  Weigher(const Weight<T> &weight, const Sides<T> &side)
      : Weigher(weight, side, std::make_integer_sequence<int, M>{}) {}
  template <int... m>
  Weigher(const Weight<T> &weight, const Sides<T> &side_, std::integer_sequence<int, m...>)
      : side(side_),
        rules{Rule_<T>(weight, sums ? side_.row_z[m] : T(0), sums ? side_.row_protect[m] : T(0), side_.col_clips)...},
        squares(weight.squares) {}

  // e: the residuals in columns j, j + 1, ... of each row. Missing entries (NaN) become 0. The weights go to `kept`,
  // rows being `stride` apart, if it is there.
  inline __attribute__((always_inline)) void operator()(int j, Vec<T> *e, T *kept, int stride) {
    Vec<T> zc = {}, pc = {}, col_w = {}, col_e = {};
    Mask<T> col_k = {};
    if constexpr (sums) {
      zc = load<Vec<T>>(side.col_z + j);
      pc = load<Vec<T>>(side.col_protect + j);
      if constexpr (!counts) col_w = load<Vec<T>>(side.col_weight + j);
      col_k = load<Mask<T>>(side.col_inliers + j);
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; m++) {
      Vec<T> c;
      Mask<T> inlier, seen = e[m] == e[m];
      Vec<T> w = rules[m](e[m], zc, pc, c, inlier);
      inliers[m] -= inlier;
      if constexpr (counts) {
        col_k -= inlier;
        if (kept) store(kept + m * stride + j, w);
        e[m] = c;
        continue;
      }
      c = seen ? c : Vec<T>{};
      if constexpr (sums) {
        w = seen ? w : Vec<T>{};
        if constexpr (energies) {
          const Vec<T> we2 = seen ? c * e[m] : Vec<T>{};
          energy[m] += we2;
          col_e += we2;
        }
        if (kept) store(kept + m * stride + j, w);
        if (squares) w = c * c;
        weights[m] += w;
        col_w += w;
        col_k -= inlier;
      }
      e[m] = c;
    }
    if constexpr (sums) {
      if constexpr (!counts) store(side.col_weight + j, col_w);
      store(side.col_inliers + j, col_k);
    }
    if constexpr (energies) store(side.col_energy + j, load<Vec<T>>(side.col_energy + j) + col_e);
  }
  inline __attribute__((always_inline)) void finish() {
    for (int m = 0; m < M; m++) {
      Count<T> n = 0;
      for (int t = 0; t < width<T>; t++) n += inliers[m][t];
      side.row_inliers[m] += n;
      if constexpr (sums) side.row_weight[m] += counts ? T(n) : sum<T>(weights[m]);
      if constexpr (energies) side.row_energy[m] += double(sum<T>(energy[m]));
    }
  }
};

}  // namespace lrmc::LRMC_ISA
