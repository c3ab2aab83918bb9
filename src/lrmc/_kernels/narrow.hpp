// Products of long matrices with few columns, beside the data. BLAS computes with whatever its buffers held before
// where columns are fewer than its registers: numbers near underflow there make it fifty times slower (OpenBLAS
// 0.3.31).
#pragma once
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

// out = X S, where X is n x k and S k x m.
template <class T> void times(const Narrow<T> &job) {
  constexpr int W = width<T>;
  const int k = job.k, m = job.m, vectors = (m + W - 1) / W;
  auto S = zeros<T>(int64_t(k) * vectors * W);
  for (int a = 0; a < k; a++)
    for (int b = 0; b < m; b++) S[a * vectors * W + b] = job.Z[a * m + b];
  for (int64_t i = 0; i < job.n; i++)
    for (int v = 0; v < vectors; v++) {
      Vec<T> sums = {};
      for (int a = 0; a < k; a++) sums += fill<T>(job.X[i * k + a]) * load<Vec<T>>(S.get() + (a * vectors + v) * W);
      T *out = job.out + i * m + v * W;
      // whole vectors: what lies beyond the row is written again by the rows after it
      if ((job.n - i) * m - v * W >= W) store(out, sums);
      else
        for (int b = 0; b < m - v * W && b < W; b++) out[b] = sums[b];
    }
}

// Four rows of X' Z in registers, for one vector of the columns of Z and n rows.
template <class T> void cross_some(const T *X, const T *Z, int64_t n, int k, int m, const int *rows, double *G) {
  constexpr int W = width<T>;
  Vec<T> sums[2][4] = {};
  auto add = [&](int64_t i, Vec<T> *into) __attribute__((always_inline)) {
    const Vec<T> z = load<Vec<T>>(Z + i * m);
#pragma GCC unroll 4
    for (int a = 0; a < 4; a++) into[a] += fill<T>(X[i * k + rows[a]]) * z;
  };
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    add(i, sums[0]);
    add(i + 1, sums[1]);
  }
  if (i < n) add(i, sums[0]);
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < W; b++) G[a * W + b] = double(sums[0][a][b] + sums[1][a][b]);
}

// X' Z for n rows, where X has k and Z has m columns: in single precision SETTLE rows long, then in double.
template <class T> void cross(const Narrow<T> &job, double *G) {
  constexpr int W = width<T>;
  const int k = job.k, m = job.m, last = (m - 1) / W * W;
  // rows whose vectors lie within Z; the few others one number after another
  const int64_t whole = std::max<int64_t>(0, (job.n * m - last - W) / m + (job.n * m >= last + W));
  for (int64_t i = 0; i < whole; i += SETTLE) {
    const int64_t n = std::min<int64_t>(SETTLE, whole - i);
    for (int a = 0; a < k; a += 4)
      for (int b = 0; b < m; b += W) {
        const int rows[4] = {a, std::min(a + 1, k - 1), std::min(a + 2, k - 1), std::min(a + 3, k - 1)};
        double some[4 * W];
        cross_some<T>(job.X + i * k, job.Z + i * m + b, n, k, m, rows, some);
        for (int c = 0; c < 4 && a + c < k; c++)
          for (int d = 0; d < W && b + d < m; d++) G[(a + c) * m + b + d] += some[c * W + d];
      }
  }
  for (int64_t i = whole; i < job.n; i++)
    for (int a = 0; a < k; a++)
      for (int b = 0; b < m; b++) G[a * m + b] += double(job.X[i * k + a]) * double(job.Z[i * m + b]);
}

// Rows in the lanes of vectors: a layer of LRMC in one sweep over what it takes and gives.
template <class T, int K> struct LayerOf {
  static constexpr int W = width<T>;
  typedef T Lines[K][W];
  const LayerRows<T> &job;
  Vec<T> DD[K][K] = {}, DL[K][K] = {};

  static void take(const T *X, int here, Lines &out) {  // zeros beyond the last row
    if (here < W) std::memset(out, 0, sizeof out);
    if (here == W)
      for (int t = 0; t < W; t++)
        for (int c = 0; c < K; c++) out[c][t] = X[t * K + c];
    else
      for (int t = 0; t < here; t++)
        for (int c = 0; c < K; c++) out[c][t] = X[t * K + c];
  }
  static void give(const Vec<T> *x, int here, T *X) {
    Lines lines;
    for (int c = 0; c < K; c++) store(lines[c], x[c]);
    if (here == W)
      for (int t = 0; t < W; t++)
        for (int c = 0; c < K; c++) X[t * K + c] = lines[c][t];
    else
      for (int t = 0; t < here; t++)
        for (int c = 0; c < K; c++) X[t * K + c] = lines[c][t];
  }
  static void taken(const T *X, int here, Vec<T> *out) {
    alignas(64) Lines lines;
    take(X, here, lines);
    for (int c = 0; c < K; c++) out[c] = load<Vec<T>>(lines[c]);
  }

  void some(int64_t i, int here) {
    Vec<T> l[K], p[K], d[K] = {}, m[K], after[K];
    taken(job.L + i * K, here, l);
    taken(job.pull + i * K, here, p);
    for (int a = 0; a < K; a++)
      for (int c = 0; c < K; c++) d[c] += p[a] * job.scale[a * K + c];
    give(d, here, job.pull + i * K);
    if (job.shared)
      for (int a = 0; a < K; a++)
        for (int c = 0; c < K; c++) d[c] -= l[a] * job.shared[a * K + c];
    if (job.momentum) {
      taken(job.momentum + i * K, here, m);
      for (int c = 0; c < K; c++) d[c] += job.gamma * m[c];
    }
    if (job.direction) give(d, here, job.direction + i * K);
    for (int c = 0; c < K; c++) {
      d[c] *= job.eta;
      after[c] = l[c] + d[c];
    }
    give(after, here, job.after + i * K);
    for (int a = 0; a < K; a++)
      for (int c = 0; c < K; c++) {
        if (c >= a) DD[a][c] += d[a] * d[c];
        DL[a][c] += d[a] * l[c];
      }
  }
  void settle() {
    for (int a = 0; a < K; a++)
      for (int c = 0; c < K; c++)
        for (int t = 0; t < W; t++) {
          job.DD[a * K + c] += double(DD[std::min(a, c)][std::max(a, c)][t]);
          job.DL[a * K + c] += double(DL[a][c][t]);
        }
    for (int a = 0; a < K; a++)
      for (int c = 0; c < K; c++) DD[a][c] = DL[a][c] = Vec<T>{};
  }
  void run() {
    for (int64_t i = 0; i < job.n; i += W) {
      some(i, int(std::min<int64_t>(W, job.n - i)));
      if ((i / W + 1) % SETTLE == 0) settle();
    }
    settle();
  }
};
template <class T, int K = MOST_LAYER_RANK> void layer_rows(const LayerRows<T> &job) {
  if constexpr (K > 0) {
    if (job.rank == K) LayerOf<T, K>{job}.run();
    else layer_rows<T, K - 1>(job);
  }
}

}  // namespace lrmc::LRMC_ISA
