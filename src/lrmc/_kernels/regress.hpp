// A robust regression for each row: all its iterations are made while the row is in the first-level cache.
//
// A row starts at the mean with a wide threshold, which falls as the fit improves: first entries beyond it are weighed
// down, then rejected, and at the noise the loss of the model takes over. Where many entries are missing, the others
// are put side by side first.
#pragma once
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>
#include "cholesky.hpp"
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

inline constexpr int SMOOTH = 3, MOST = 40,
                     FINAL = 8;  // passes: with a smooth weight; until the threshold is at the noise; after that

template <class T> struct RowRoom {  // one thread's scratch
  Buffer<T> own, y, seen, w, e,
      now;                  // own: rank x stride, V at the observed entries; now: the scores; the others: one per entry
  const T *U = nullptr;     // rank x stride: `own`, or V where the row has nearly all entries
  std::vector<int32_t> at;  // the columns of the observed entries
  std::vector<double> G, A, t, x;  // rank x (rank + 1): sums of w v v' and w v e; a system; scores; a step
  int64_t n = 0, full = 0;  // observed entries; all that are looked at, whole vectors: `seen` is 0 where there is none
};
struct PassSums {
  double square = 0, inliers = 0;
};
template <class T>
inline constexpr int64_t LONG = int64_t(width<T>) * SETTLE;  // entries summed in T before the sum goes on in double

// e = y - V t. R is the rank, or 0 for any.
template <class T, int R> void residual_row(int64_t stride, int rank, RowRoom<T> &room) {
  const T *__restrict U = room.U, *__restrict y = room.y.get();
  T *__restrict E = room.e.get();
  Vec<T> t[R ? R : 1];
  for (int a = 0; a < R; a++) t[a] = fill<T>(room.now[a]);
  for (int64_t k = 0; k < room.full; k += width<T>) {
    Vec<T> e = load<Vec<T>>(y + k);
    if constexpr (R > 0) {
#pragma GCC unroll 8
      for (int a = 0; a < R; a++) e -= t[a] * load<Vec<T>>(U + a * stride + k);
    } else {
      for (int a = 0; a < rank; a++) e -= fill<T>(room.now[a]) * load<Vec<T>>(U + a * stride + k);
    }
    store(E + k, e);
  }
}
template <class T> auto residual_row_for(int rank) {
  static constexpr decltype(&residual_row<T, 0>) table[] = {
      &residual_row<T, 0>, &residual_row<T, 1>, &residual_row<T, 2>, &residual_row<T, 3>, &residual_row<T, 4>,
      &residual_row<T, 5>, &residual_row<T, 6>, &residual_row<T, 7>, &residual_row<T, 8>};
  return table[rank <= 8 ? rank : 0];
}

template <class T, template <class> class Rule_>
PassSums weigh_row(const Weight<T> &weight, T z, T col_z, RowRoom<T> &room) {
  const Rule_<T> rule(weight, z, 0, false);
  const T *__restrict E = room.e.get(), *__restrict observed = room.seen.get();
  T *__restrict weights = room.w.get();
  Vec<T> squares = {}, inliers = {};
  for (int64_t k = 0; k < room.full; k += width<T>) {
    Vec<T> c, e = load<Vec<T>>(E + k), seen = load<Vec<T>>(observed + k);
    Mask<T> inlier;
    const Vec<T> w = seen * rule(e, fill<T>(col_z), Vec<T>{}, c, inlier);
    c = w * e;
    squares += c * c;
    inliers += inlier ? seen : Vec<T>{};
    store(weights + k, w);
  }
  return {double(sum<T>(squares)), double(sum<T>(inliers))};
}

// Adds the sums of w u v for A columns u of V and B columns v to the A x B ones in G, whose rows are `across` apart.
template <class T, int A, int B>
void gram_block(const T *w, const T *const (&left)[2], const T *const (&right)[4], int64_t full, double *G,
                int across) {
  constexpr int W = width<T>, slots = (A * B + W - 1) / W * W;
  Vec<T> total[slots] = {};
  for (int64_t k = 0; k < full; k += W) {
    const Vec<T> weight = load<Vec<T>>(w + k);
    Vec<T> v[B];
#pragma GCC unroll 4
    for (int b = 0; b < B; b++) v[b] = load<Vec<T>>(right[b] + k);
#pragma GCC unroll 2
    for (int a = 0; a < A; a++) {
      const Vec<T> u = weight * load<Vec<T>>(left[a] + k);
#pragma GCC unroll 4
      for (int b = 0; b < B; b++) total[a * B + b] += u * v[b];
    }
  }
  T sums[slots];
#pragma GCC unroll 8
  for (int s = 0; s < slots; s += W) store(sums + s, sum_each<T>(total + s));
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++) G[a * across + b] += double(sums[a * B + b]);
}
template <class T, int A> void gram_rows(int a, int64_t stride, int rank, int64_t from, RowRoom<T> &room) {
  auto column = [&](int b) { return (b < rank ? room.U + b * stride : room.e.get()) + from; };
  const T *const left[2] = {column(a), column(a + A - 1)}, *const w = room.w.get() + from;
  const int64_t n = std::min(LONG<T>, room.full - from);
  for (int b = a; b <= rank; b += 4) {
    const T *const right[4] = {column(b), column(b + 1), column(b + 2), column(b + 3)};
    double *G = room.G.data() + a * (rank + 1) + b;
    switch (rank + 1 - b) {
      case 1: gram_block<T, A, 1>(w, left, right, n, G, rank + 1); break;
      case 2: gram_block<T, A, 2>(w, left, right, n, G, rank + 1); break;
      case 3: gram_block<T, A, 3>(w, left, right, n, G, rank + 1); break;
      default: gram_block<T, A, 4>(w, left, right, n, G, rank + 1);
    }
  }
}

template <class T, class Data> struct Regress {
  const Data &data;
  const Regression<T> &job;
  const int r = job.rank;
  const int64_t stride = whole_vectors(job.n2);
  Buffer<T> V = by_component();  // rank x stride
  decltype(residual_row_for<T>(0)) residual = residual_row_for<T>(job.rank);

  static int64_t whole_vectors(int64_t n) { return (n + width<T> - 1) / width<T> * width<T>; }
  Buffer<T> by_component() const {
    auto out = zeros<T>(stride * r);
    for (int64_t j = 0; j < job.n2; j++)
      for (int a = 0; a < r; a++) out[a * stride + j] = job.V[j * r + a];
    return out;
  }

  RowRoom<T> room() const {
    RowRoom<T> out;
    out.own = zeros<T>(stride * r);
    for (auto *one : {&out.y, &out.seen, &out.w, &out.e}) *one = zeros<T>(stride);
    out.now = zeros<T>(r);
    out.at.resize(stride);
    out.G.resize(r * (r + 1));
    for (auto *one : {&out.t, &out.x}) one->resize(r);
    out.A.resize(r * r);
    return out;
  }

  // ---- reading: the observed entries of row i less the offset, and V there

  void gather(int64_t i, RowRoom<T> &room) const {
    const int64_t n2 = job.n2;
    T *y = room.y.get(), *seen = room.seen.get();
    int64_t n = 0;
    if constexpr (std::is_same_v<Data, Dense>) {
      const uint8_t *mask = data.mask ? data.mask + i * data.mask_stride : nullptr;
      read<T>(data.data, data.storage, i * data.stride, mask, int(n2), int(n2), y);
      for (int64_t j = 0; j < n2; j++) n += y[j] == y[j];
      if (10 * n > 7 * n2) {
        for (int64_t j = 0; j < n2; j++) {
          seen[j] = y[j] == y[j] ? T(1) : T(0);
          y[j] = y[j] == y[j] ? job.gain * y[j] - job.offset[j] : T(0);
        }
        return pad(room, n, n2, V.get());
      }
      for (int64_t j = 0, k = 0; j < n2; j++) {  // without a branch: gaps cannot be foreseen
        room.at[k] = int32_t(j);
        k += y[j] == y[j];
      }
      for (int64_t k = 0; k < n; k++) y[k] = job.gain * y[room.at[k]] - job.offset[room.at[k]];
    } else {
      const int32_t *at = data.indices + data.indptr[i];
      n = data.indptr[i + 1] - data.indptr[i];
      read<T>(data.data, data.storage, data.indptr[i], nullptr, int(n), int(n), y);
      std::copy(at, at + n, room.at.begin());
      for (int64_t k = 0; k < n; k++) y[k] = job.gain * y[k] - job.offset[at[k]];
    }
    std::fill(seen, seen + n, T(1));
    for (int a = 0; a < r; a++)
      for (int64_t k = 0; k < n; k++) room.own[a * stride + k] = V[a * stride + room.at[k]];
    pad(room, n, n, room.own.get());
  }
  void pad(RowRoom<T> &room, int64_t n, int64_t looked_at, const T *U) const {
    room.n = n;
    room.full = whole_vectors(looked_at);
    room.U = U;
    for (int64_t k = looked_at; k < room.full; k++) room.y[k] = room.seen[k] = 0;
  }

  // ---- one step: scores move to the least-squares value of the weighed entries and the prior; gives how far

  double move(RowRoom<T> &room, double deviation) const {
    const double trust = 1 / (deviation * deviation);
    const double *G = room.G.data();
    double *A = room.A.data(), *x = room.x.data(), *t = room.t.data(), far = 0;
    for (int a = 0; a < r; a++) {
      x[a] = trust * G[a * (r + 1) + r];
      for (int b = 0; b < r; b++) x[a] -= job.prior[a * r + b] * (t[b] - job.mean[b]);
      for (int b = a; b < r; b++) A[a * r + b] = trust * G[a * (r + 1) + b] + job.prior[a * r + b];
    }
    solve_small(A, r, x);
    for (int a = 0; a < r; a++) {
      t[a] += x[a];
      far += x[a] * x[a];
    }
    return std::sqrt(far);
  }

  PassSums pass(Rule rule, double z, RowRoom<T> &room) const {
    const Weight<T> weight{rule, job.odds, nullptr, nullptr, nullptr, nullptr, false, job.up, job.down};
    for (int a = 0; a < r; a++) room.now[a] = T(room.t[a]);
    residual(stride, r, room);
    PassSums sums;
    switch (rule) {
      case Rule::threshold: sums = weigh_row<T, Threshold>(weight, T(z), 0, room); break;
      case Rule::cauchy: sums = weigh_row<T, Cauchy>(weight, T(z), 1, room); break;
      case Rule::huber: sums = weigh_row<T, Huber>(weight, T(z), 1, room); break;
      default: sums = weigh_row<T, Mixture>(weight, T(z), 1, room);
    }
    std::fill(room.G.begin(), room.G.end(), 0.0);
    for (int64_t from = 0; from < room.full; from += LONG<T>) {
      int a = 0;
      for (; a + 2 <= r; a += 2) gram_rows<T, 2>(a, stride, r, from, room);
      if (a < r) gram_rows<T, 1>(a, stride, r, from, room);
    }
    return sums;
  }

  // ---- all passes over one row

  double narrow(RowRoom<T> &room) const {  // until the threshold is down at the noise; gives the threshold
    const double lowest = 2 * double(job.lowest);
    double z = job.widest;
    for (int k = 0; k < MOST; k++) {
      const bool smooth = k < SMOOTH;
      const PassSums sums = pass(smooth ? Rule::cauchy : Rule::threshold, z, room);
      const double far = move(room, z / 2), before = z;
      // About twice the root mean square of what is pulled: residuals spread evenly up to z would keep it where it is,
      // all others make it fall. At least half of the entries must be within.
      const double square = sums.square / (smooth ? double(room.n) : std::max(sums.inliers, 1.0));
      z = 2 * sums.inliers < double(room.n) ? 2 * z : std::min(z, (smooth ? 2 : 1.8) * std::sqrt(square));
      z = std::max(z, lowest);
      if (z <= lowest || (!smooth && z > 0.9 * before && far < 0.05 * z)) break;
    }
    return z;
  }
  void row(int64_t i, RowRoom<T> &room) const {
    gather(i, room);
    std::copy(job.mean, job.mean + r, room.t.begin());
    double deviation = job.lowest, distance = 0;
    if (room.n) {
      deviation = narrow(room) / 2;
      const double z = deviation * (job.loss == Rule::mixture ? 1 : job.reach);
      for (int k = 0; k < FINAL; k++) {
        pass(job.loss, z, room);
        if (move(room, deviation) < 0.3 * deviation) break;
      }
      distance = far_off(room);
    }
    for (int a = 0; a < r; a++) job.scores[i * r + a] = T(room.t[a]);
    job.deviation[i] = T(deviation);
    job.distance[i] = T(distance);
  }
  double far_off(RowRoom<T> &room) const {  // how far the row is from the model
    const Vec<T> most = fill<T>(job.most * job.lowest);
    Vec<T> total = {};
    for (int a = 0; a < r; a++) room.now[a] = T(room.t[a]);
    residual(stride, r, room);
    for (int64_t k = 0; k < room.full; k += width<T>) {
      Vec<T> e = load<Vec<T>>(room.e.get() + k);
      e = smaller(larger(e, -most), most);
      total += load<Vec<T>>(room.seen.get() + k) * (e * e);
    }
    return std::sqrt(double(sum<T>(total)) / double(room.n)) / double(job.lowest);
  }

  void run() const {
    constexpr int64_t some = 64;  // rows take more or fewer passes: who is done fetches the next ones
    std::atomic<int64_t> next{0};
    in_shares(shares_of(job.threads, (job.n1 + some - 1) / some), [&](int) {
      RowRoom<T> own = room();
      for (int64_t first = next.fetch_add(some); first < job.n1; first = next.fetch_add(some))
        for (int64_t i = first; i < std::min(job.n1, first + some); i++) row(i, own);
    });
  }
};

}  // namespace lrmc::LRMC_ISA
