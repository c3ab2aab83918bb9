// The pass over a dense matrix by the rule clip, with both products and the model's own factors, at ranks up to 4: a
// few rows at a time, one vector of columns after another. The residual is made, clipped and multiplied with both
// factors in registers, so that nothing as long as a row is written and read again but the sums by column.
#pragma once
#include "tiles.hpp"
#include "widen.hpp"

namespace lrmc::LRMC_ISA {

// A number where a comparison holds, or does not; one more where it holds. AVX-512 has masks of its own, which ?:
// takes.
#if LRMC_VECTOR_BYTES == 64
template <class T> inline Vec<T> only(Vec<T> x, Mask<T> where) { return where ? x : Vec<T>{}; }
template <class T> inline Vec<T> without(Vec<T> x, Mask<T> where) {
  return where ? fill<T>(std::numeric_limits<T>::quiet_NaN()) : x;
}
template <class T> inline Mask<T> one_more(Mask<T> n, Mask<T> where) { return where ? n + 1 : n; }
#else
template <class T> inline Vec<T> only(Vec<T> x, Mask<T> where) { return Vec<T>(Mask<T>(x) & where); }
template <class T> inline Vec<T> without(Vec<T> x, Mask<T> where) { return Vec<T>(Mask<T>(x) | where); }
template <class T> inline Mask<T> one_more(Mask<T> n, Mask<T> where) { return n - where; }
#endif

template <class T, class S, int K, bool masked> struct LeanRows {
  static constexpr int W = width<T>;
  static constexpr bool many_registers = LRMC_VECTOR_BYTES == 64;
  static constexpr int ROWS_AT_ONCE = (many_registers ? 16 : 8) / (K > 2 ? 4 : 2);  // sums of their products: registers
  const S *Y;
  const uint8_t *mask;
  int64_t stride, mask_stride, n1, n2, padded;
  const T *L, *R;  // n1 x K; K x padded
  T *A, *B;        // n1 x K; K x padded
  T gain, z;
  Mask<T> beyond;  // lanes of the last vector of a row that are not of the row

  template <int M> struct Some {
    const S *y[M];
    const uint8_t *seen[M];
    T l[M][K];
    Vec<T> a[M][K] = {};
    Mask<T> inliers = {};
  };

  // One vector of columns, from j on, of M rows.
  template <int M, bool whole> inline __attribute__((always_inline)) void entries(int64_t j, Some<M> &rows) const {
    Vec<T> r[K], b[K];
#pragma GCC unroll 4
    for (int k = 0; k < K; k++) {
      r[k] = load<Vec<T>>(R + k * padded + j);
      b[k] = load<Vec<T>>(B + k * padded + j);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) {
      Vec<T> e = gain * numbers_at<T, S>(rows.y[m] + j);
#pragma GCC unroll 4
      for (int k = 0; k < K; k++) e -= fill<T>(rows.l[m][k]) * r[k];
      if constexpr (masked) e = without<T>(e, integers_at<T>(rows.seen[m] + j) == 0);
      if constexpr (!whole) e = without<T>(e, beyond);
      Vec<T> c = smaller(larger(e, fill<T>(-z)), fill<T>(z));
      rows.inliers = one_more<T>(rows.inliers, c == e);
      c = only<T>(c, e == e);
#pragma GCC unroll 4
      for (int k = 0; k < K; k++) {
        rows.a[m][k] += c * r[k];
        b[k] += c * fill<T>(rows.l[m][k]);
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < K; k++) store(B + k * padded + j, b[k]);
  }

  // M rows from row i on; how many inliers they have. Of the last rows, what lies beyond the data is not read.
  template <int M> inline __attribute__((always_inline)) int64_t some(int64_t i) const {
    Some<M> rows;
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) {
      rows.y[m] = Y + (i + m) * stride;
      if constexpr (masked) rows.seen[m] = mask + (i + m) * mask_stride;
#pragma GCC unroll 4
      for (int k = 0; k < K; k++) rows.l[m][k] = L[(i + m) * K + k];
    }
    const int64_t end = n2 / W * W;
    for (int64_t j = 0; j < end; j += W) entries<M, true>(j, rows);
    if (end < n2) last_of(i, end, rows);
    finish(i, rows);
    Count<T> n = 0;
    for (int t = 0; t < W; t++) n += rows.inliers[t];
    return n;
  }
  template <int M> inline __attribute__((always_inline)) void last_of(int64_t i, int64_t j, Some<M> &rows) const {
    if (__builtin_expect(i + M + W < n1, 1)) return entries<M, false>(j, rows);  // what is read is of the rows below
    S y[M][W] = {};
    uint8_t seen[M][W] = {};
    for (int m = 0; m < M; m++) {
      std::copy(rows.y[m] + j, rows.y[m] + n2, y[m]);
      rows.y[m] = y[m] - j;
      if constexpr (masked) {
        std::copy(rows.seen[m] + j, rows.seen[m] + n2, seen[m]);
        rows.seen[m] = seen[m] - j;
      }
    }
    entries<M, false>(j, rows);
  }
  template <int M> inline __attribute__((always_inline)) void finish(int64_t i, Some<M> &rows) const {
    constexpr int count = (M * K + W - 1) / W * W;
    Vec<T> flat[count] = {};
    T sums[count];
#pragma GCC unroll 16
    for (int x = 0; x < M * K; x++) flat[x] = rows.a[x / K][x % K];
#pragma GCC unroll 4
    for (int x = 0; x < count; x += W) store(sums + x, sum_each<T>(flat + x));
    std::copy(sums, sums + M * K, A + i * K);
  }
};

template <class T> struct LeanPass {
  static constexpr int64_t MOST_COLUMNS = 16384;  // whose factor and sums stay in the second-level cache
  static constexpr int MOST_RANK = 4;
  const Dense &data;
  const Products<T> &job;
  const int64_t padded = (job.n2 + width<T> - 1) / width<T> * width<T>;
  const Buffer<T> R = laid_out();

  static bool serves(const Products<T> &job) {
    const bool pull = job.P && job.Q && job.P == job.L && job.Q == job.R && job.rank == job.width;
    return pull && job.weight.rule == Rule::clip && !job.adjoint && job.rank > 0 && job.rank <= MOST_RANK &&
           job.n2 <= MOST_COLUMNS && job.n2 <= job.n1;
  }

  Buffer<T> laid_out() const {
    auto out = zeros<T>(padded * job.rank);
    for (int64_t j = 0; j < job.n2; j++)
      for (int k = 0; k < job.rank; k++) out[k * padded + j] = job.R[j * job.rank + k];
    return out;
  }

  // How many entries of some rows are inliers.
  template <class S, int K, bool masked> int64_t work_as(int64_t from, int64_t to, Sums<T> &B) const {
    Mask<T> beyond = {};
    for (int t = 0; t < width<T>; t++) beyond[t] = t < job.n2 % width<T> ? 0 : -1;
    const LeanRows<T, S, K, masked> rows{static_cast<const S *>(data.data),
                                         data.mask,
                                         data.stride,
                                         data.mask_stride,
                                         job.n1,
                                         job.n2,
                                         padded,
                                         job.L,
                                         R.get(),
                                         job.CQ,
                                         B.get(),
                                         job.gain,
                                         job.weight.z,
                                         beyond};
    constexpr int M = LeanRows<T, S, K, masked>::ROWS_AT_ONCE;
    int64_t inliers = 0;
    for (int64_t i = from; i < to;) {
      if (i > from && (i - from) % SETTLE == 0) B.settle();
      const bool all = i + M <= to;
      inliers += all ? rows.template some<M>(i) : rows.template some<1>(i);
      i += all ? M : 1;
    }
    return inliers;
  }
  template <class S, int K> int64_t work_in(int64_t from, int64_t to, Sums<T> &B) const {
    return data.mask ? work_as<S, K, true>(from, to, B) : work_as<S, K, false>(from, to, B);
  }
  template <class S> int64_t work_of(int64_t from, int64_t to, Sums<T> &B) const {
    switch (job.rank) {
      case 1: return work_in<S, 1>(from, to, B);
      case 2: return work_in<S, 2>(from, to, B);
      case 3: return work_in<S, 3>(from, to, B);
      case 4: return work_in<S, 4>(from, to, B);
    }
    return 0;
  }
  int64_t work(int64_t from, int64_t to, Sums<T> &B) const {
    if constexpr (sizeof(T) == 8) return work_of<double>(from, to, B);
    else switch (data.storage) {
        case Storage::u8: return work_of<uint8_t>(from, to, B);
        case Storage::i16: return work_of<int16_t>(from, to, B);
        case Storage::u16: return work_of<uint16_t>(from, to, B);
        default: return work_of<float>(from, to, B);
      }
  }

  void run() const {
    const int64_t groups = (job.n1 + SETTLE - 1) / SETTLE;
    const int threads = shares_of(job.threads, groups);
    std::unique_ptr<Sums<T>[]> sums(new Sums<T>[threads]);
    std::unique_ptr<int64_t[]> inliers(new int64_t[threads]());
    in_shares(threads, [&](int t) {
      sums[t] = Sums<T>(padded * job.rank);
      inliers[t] = work(groups * t / threads * SETTLE, std::min(job.n1, groups * (t + 1) / threads * SETTLE), sums[t]);
    });
    add_all(inliers.get(), threads, *job.inliers);
    for (int t = 0; t < threads; t++)
      for (int64_t j = 0; j < job.n2; j++)
        for (int k = 0; k < job.rank; k++)
          job.CtP[j * job.rank + k] = T(job.CtP[j * job.rank + k] + sums[t][k * padded + j]);
  }
};

}  // namespace lrmc::LRMC_ISA
