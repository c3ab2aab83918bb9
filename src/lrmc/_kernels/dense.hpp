// The pass over a dense matrix: tiles of 4 rows x 2 kB stay in the first-level cache while the residual is made, weighed and
// multiplied with both factors. The rank is known at compile time up to 16; K = 0 serves every other rank.
#pragma once
#include <algorithm>
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

// E = gain * source - L R' for 4 rows. L: 4 x rank, R: rank x TILE.
template <class T, int K>
void subtract(const T *const source[ROWS], T gain, const T *L, const T *R, int rank, int n, T *__restrict E) {
  constexpr int W = width<T>;
  const int r = K ? K : rank;
  for (int j = 0; j < n; j += 2 * W) {
    Vec<T> e[ROWS][2];
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++)
      for (int h = 0; h < 2; h++) e[m][h] = gain * load<Vec<T>>(source[m] + j + h * W);
#pragma GCC unroll 16
    for (int k = 0; k < r; k++) {
      Vec<T> r0 = load<Vec<T>>(R + k * TILE<T> + j), r1 = load<Vec<T>>(R + k * TILE<T> + j + W);
#pragma GCC unroll 4
      for (int m = 0; m < ROWS; m++) {
        Vec<T> l = fill<T>(L[m * r + k]);
        e[m][0] -= l * r0;
        e[m][1] -= l * r1;
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++)
      for (int h = 0; h < 2; h++) store(E + m * TILE<T> + j + h * W, e[m][h]);
  }
}

// A += C Q for 4 rows and G columns of Q.
template <class T, int G> void gather_some(const T *C, const T *Q, int n, T *A, int stride) {
  constexpr int W = width<T>;
  Vec<T> a[ROWS][G] = {};
  for (int j = 0; j < n; j += W) {
    Vec<T> q[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; g++) q[g] = load<Vec<T>>(Q + g * TILE<T> + j);
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++) {
      Vec<T> c = load<Vec<T>>(C + m * TILE<T> + j);
#pragma GCC unroll 4
      for (int g = 0; g < G; g++) a[m][g] += c * q[g];
    }
  }
  for (int m = 0; m < ROWS; m++)
    for (int g = 0; g < G; g++) A[m * stride + g] += sum<T>(a[m][g]);
}
template <class T> void gather(const T *C, const T *Q, int width_q, int n, T *A) {
  int k = 0;
  for (; k + 3 <= width_q; k += 3) gather_some<T, 3>(C, Q + k * TILE<T>, n, A + k, width_q);
  if (width_q - k == 2) gather_some<T, 2>(C, Q + k * TILE<T>, n, A + k, width_q);
  if (width_q - k == 1) gather_some<T, 1>(C, Q + k * TILE<T>, n, A + k, width_q);
}

// B += P' C for 4 rows. P: 4 x width, B: width x TILE.
template <class T, int K> void scatter(const T *C, const T *P, int width_p, int n, T *__restrict B) {
  constexpr int W = width<T>;
  const int r = K ? K : width_p;
  for (int j = 0; j < n; j += 2 * W) {
    Vec<T> c[ROWS][2];
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++)
      for (int h = 0; h < 2; h++) c[m][h] = load<Vec<T>>(C + m * TILE<T> + j + h * W);
#pragma GCC unroll 16
    for (int k = 0; k < r; k++) {
      T *b = B + k * TILE<T> + j;
      Vec<T> b0 = load<Vec<T>>(b), b1 = load<Vec<T>>(b + W);
#pragma GCC unroll 4
      for (int m = 0; m < ROWS; m++) {
        Vec<T> p = fill<T>(P[m * r + k]);
        b0 += p * c[m][0];
        b1 += p * c[m][1];
      }
      store(b, b0);
      store(b + W, b1);
    }
  }
}

template <class T> struct ForRank {
  decltype(&subtract<T, 0>) subtract_rank;
  decltype(&scatter<T, 0>) scatter_rank;
};
template <class T, int... K> const ForRank<T> &for_rank(int rank, std::integer_sequence<int, K...>) {
  static const ForRank<T> table[] = {{&subtract<T, K>, &scatter<T, K>}...};
  return table[rank < int(sizeof...(K)) ? rank : 0];
}
template <class T> const ForRank<T> &for_rank(int rank) {
  return for_rank<T>(rank, std::make_integer_sequence<int, 17>{});
}

// n x k, one row after another -> tiles of k x TILE, padded with zeros. And back.
template <class T> Buffer<T> tiled(const T *X, int64_t n, int k) {
  int64_t tiles = (n + TILE<T> - 1) / TILE<T>;
  auto out = zeros<T>(tiles * k * TILE<T>);
  for (int64_t j = 0; j < n; j++)
    for (int c = 0; c < k; c++) out[(j / TILE<T> * k + c) * TILE<T> + j % TILE<T>] = X[j * k + c];
  return out;
}
template <class T, class Out> void add_untiled(const T *tiles, int64_t n, int k, Out *X) {
  for (int64_t j = 0; j < n; j++)
    for (int c = 0; c < k; c++) X[j * k + c] += Out(tiles[(j / TILE<T> * k + c) * TILE<T> + j % TILE<T>]);
}

// What one thread adds up over its rectangle. Sums over columns are tiled. Sums over rows are written where they belong if no
// other thread has those rows (`own` is empty then).
template <class T> struct RowSums { T *CQ; int64_t *inliers; T *weight; };
template <class T> struct Share {
  RowSums<T> rows;
  Buffer<T> own_CQ, own_weight;
  Buffer<int64_t> own_inliers;
  Buffer<T> CtP, col_weight;
  Buffer<Count<T>> col_inliers;
};

template <class T> struct Rectangle { int64_t i0, i1, t0, t1; };  // rows, and tiles of columns

template <class T> struct DensePass {
  const Dense &data;
  const Products<T> &job;
  const int64_t n_tiles = (job.n2 + TILE<T> - 1) / TILE<T>;
  const bool weighted = job.weight.rule != Rule::clip;
  Buffer<T> R = job.rank ? tiled(job.R, job.n2, job.rank) : nullptr;
  Buffer<T> other_Q = job.Q && job.Q != job.R ? tiled(job.Q, job.n2, job.width) : nullptr;
  const T *Q = job.Q == job.R ? R.get() : other_Q.get();
  Buffer<T> col_z = weighted ? tiled(job.weight.col_z, job.n2, 1) : nullptr;
  Buffer<T> col_protect = weighted ? tiled(job.weight.col_protect, job.n2, 1) : nullptr;
  Buffer<bool> tile_clips = clips();  // which tiles have a protected column
  const ForRank<T> &model = for_rank<T>(job.rank), &products = for_rank<T>(job.width);

  // Where n numbers of row i can be read as T: the data themselves, or `room` after conversion.
  const T *source(int64_t i, int64_t j, int n, int padded, T *room) const {
    constexpr Storage own = sizeof(T) == 4 ? Storage::f32 : Storage::f64;
    const int64_t at = i * data.stride + j;
    if (data.storage == own && !data.mask && n == padded) return static_cast<const T *>(data.data) + at;
    read<T>(data.data, data.storage, at, data.mask ? data.mask + i * data.mask_stride + j : nullptr, n, padded, room);
    return room;
  }

  Buffer<bool> clips() const {
    auto out = zeros<bool>(n_tiles);
    if (weighted)
      for (int64_t j = 0; j < job.n2; j++) out[j / TILE<T>] |= job.weight.col_protect[j] > 0;
    return out;
  }

  void work(const Rectangle<T> &part, Share<T> &share) const {
    // Columns in panels whose R and B stay in the second-level cache, however long the rows are.
    const int64_t panel = std::max<int64_t>(1, 192 * 1024 / (2048 * (job.rank + 2 * job.width + 1)));
    for (int64_t t0 = part.t0; t0 < part.t1; t0 += panel)
      for (int64_t i = part.i0; i < part.i1; i += ROWS) rows(i, part.i1, t0, std::min(part.t1, t0 + panel), part, share);
  }

  void rows(int64_t i, int64_t i1, int64_t t0, int64_t t1, const Rectangle<T> &part, Share<T> &share) const {
    alignas(64) T E[ROWS * TILE<T>], room[ROWS * TILE<T>];
    constexpr int most = 64, step = 2 * width<T>;
    T small[3 * ROWS * most];
    Buffer<T> large = job.rank > most || job.width > most ? zeros<T>(ROWS * (job.rank + 2 * job.width)) : nullptr;
    T *L = large ? large.get() : small, *P = L + ROWS * job.rank, *A = P + ROWS * job.width;
    const int here = int(std::min<int64_t>(ROWS, i1 - i));
    take(job.L, i, here, job.rank, L);
    take(job.P, i, here, job.width, P);
    std::memset(A, 0, sizeof(T) * ROWS * job.width);
    T row_z[ROWS], row_protect[ROWS], row_weight[ROWS] = {};
    Count<T> row_inliers[ROWS] = {};
    if (weighted) {
      take(job.weight.row_z, i, here, 1, row_z);
      take(job.weight.row_protect, i, here, 1, row_protect);
    }
    for (int64_t t = t0; t < t1; t++) {
      const int64_t at = t * TILE<T>, own = (t - part.t0) * TILE<T>;
      const int n = int(std::min<int64_t>(job.n2 - at, TILE<T>)), padded = (n + step - 1) / step * step;
      const T *sources[ROWS];
      for (int m = 0; m < ROWS; m++)  // rows beyond the last read as missing
        sources[m] = source(i + m, at, m < here ? n : 0, padded, room + m * TILE<T>);
      model.subtract_rank(sources, job.gain, L, R.get() + at * job.rank, job.rank, padded, E);
      Sides<T> side{row_z, row_protect, nullptr, nullptr, false, row_inliers, nullptr, row_weight, nullptr};
      if (weighted) {
        side.col_z = col_z.get() + at;
        side.col_protect = col_protect.get() + at;
        side.col_clips = tile_clips[t];
        side.col_inliers = share.col_inliers.get() + own;
        side.col_weight = share.col_weight.get() + own;
      }
      weigh<T, ROWS>(job.weight, side, padded, E);
      if (job.Q) gather(E, Q + at * job.width, job.width, padded, A);
      if (job.P) products.scatter_rank(E, P, job.width, padded, share.CtP.get() + own * job.width);
    }
    for (int m = 0; m < here; m++) {
      const int64_t row = i - part.i0 + m;
      if (job.Q)
        for (int k = 0; k < job.width; k++) share.rows.CQ[row * job.width + k] += A[m * job.width + k];
      share.rows.inliers[row] += row_inliers[m];
      if (weighted) share.rows.weight[row] += row_weight[m];
    }
  }

  static void take(const T *X, int64_t i, int here, int k, T *out) {  // 4 rows of X, zeros beyond the last
    for (int m = 0; m < ROWS; m++)
      for (int c = 0; c < k; c++) out[m * k + c] = X && m < here ? X[(i + m) * k + c] : T(0);
  }

  // The longer side is divided among the threads, always in the same way; the shares are added in their order.
  void run() const {
    const int threads = std::max(1, job.threads);
    const int64_t groups = (job.n1 + ROWS - 1) / ROWS;
    const bool by_rows = job.n1 >= job.n2;
    std::unique_ptr<Share<T>[]> shares(new Share<T>[threads]);
    auto part = [&](int64_t t) {
      if (by_rows) return Rectangle<T>{groups * t / threads * ROWS, std::min(job.n1, groups * (t + 1) / threads * ROWS), 0, n_tiles};
      return Rectangle<T>{0, job.n1, n_tiles * t / threads, n_tiles * (t + 1) / threads};
    };
#pragma omp parallel num_threads(threads)
    for (int t = thread_index(); t < threads; t += team_size()) {
      shares[t] = share(part(t), by_rows);
      work(part(t), shares[t]);
    }
    for (int t = 0; t < threads; t++) collect(part(t), shares[t]);
  }

  Share<T> share(const Rectangle<T> &part, bool by_rows) const {
    const int64_t rows = part.i1 - part.i0, cols = (part.t1 - part.t0) * TILE<T>;
    Share<T> out;
    if (by_rows) {
      out.rows = {job.CQ + part.i0 * job.width, job.row_inliers + part.i0, job.row_weight + part.i0};
    } else {
      out.own_CQ = zeros<T>(job.Q ? rows * job.width : 0);
      out.own_inliers = zeros<int64_t>(rows);
      out.own_weight = zeros<T>(rows);
      out.rows = {out.own_CQ.get(), out.own_inliers.get(), out.own_weight.get()};
    }
    if (job.P) out.CtP = zeros<T>(cols * job.width);
    if (weighted) {
      out.col_inliers = zeros<Count<T>>(cols);
      out.col_weight = zeros<T>(cols);
    }
    return out;
  }

  void collect(const Rectangle<T> &part, const Share<T> &share) const {
    const int64_t j0 = part.t0 * TILE<T>, cols = std::min(job.n2, part.t1 * TILE<T>) - j0, rows = part.i1 - part.i0;
    if (share.own_CQ) {
      if (job.Q) add(share.own_CQ.get(), rows * job.width, job.CQ);
      add(share.own_inliers.get(), rows, job.row_inliers);
      if (weighted) add(share.own_weight.get(), rows, job.row_weight);
    }
    if (job.P) add_untiled(share.CtP.get(), cols, job.width, job.CtP + j0 * job.width);
    if (weighted) {
      add_untiled(share.col_weight.get(), cols, 1, job.col_weight + j0);
      add_untiled(share.col_inliers.get(), cols, 1, job.col_inliers + j0);
    }
  }
};

}  // namespace lrmc::LRMC_ISA
