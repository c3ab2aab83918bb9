// The pass over a dense matrix: tiles of 4 rows x 1 kB. The residual is made, weighed and multiplied with L in
// registers, and with R while it is in the first-level cache. One code serves every rank: copies compiled for the ranks
// 1 to 16 were measured and were no faster (8.5 and 8.5 cycles per vector at rank 5), since rows and columns are what
// is unrolled.
#pragma once
#include <algorithm>
#include "adjoint.hpp"

namespace lrmc::LRMC_ISA {

// The residuals gain * source - L R' in two vectors of columns, from column j on.
template <class T>
inline __attribute__((always_inline)) void residual_at(const Tile<T> &tile, int j, Vec<T> *e0, Vec<T> *e1) {
  constexpr int W = width<T>;
  const int r = tile.rank;
#pragma GCC unroll 4
  for (int m = 0; m < ROWS; m++) {
    e0[m] = tile.gain * load<Vec<T>>(tile.source[m] + j);
    e1[m] = tile.gain * load<Vec<T>>(tile.source[m] + j + W);
  }
  for (int k = 0; k < r; k++) {
    const T *at = tile.R + k * TILE<T> + j;
    Vec<T> r0 = load<Vec<T>>(at), r1 = load<Vec<T>>(at + W);
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++) {
      Vec<T> l = fill<T>(tile.L[m * r + k]);
      e0[m] -= l * r0;
      e1[m] -= l * r1;
    }
  }
}
template <class T> void residual_tile(const Tile<T> &tile) {
  for (int j = 0; j < tile.n; j += 2 * width<T>) {
    Vec<T> e0[ROWS], e1[ROWS];
    residual_at(tile, j, e0, e1);
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++) {
      store(tile.C + m * TILE<T> + j, e0[m]);
      store(tile.C + m * TILE<T> + j + width<T>, e1[m]);
    }
  }
}

// C = weighted residual, and B += L' C while it is in registers.
template <class T, template <class> class Rule_> void weigh_tile(const Weight<T> &weight, const Tile<T> &tile) {
  constexpr int W = width<T>;
  const int r = tile.rank;
  const T *__restrict L = tile.L;
  T *__restrict C = tile.C;
  T *__restrict B = tile.B;
  Weigher<T, ROWS, Rule_> weigh(weight, tile.side);
  for (int j = 0; j < tile.n; j += 2 * W) {
    Vec<T> e0[ROWS], e1[ROWS];
    residual_at(tile, j, e0, e1);
    weigh(j, e0, tile.W, TILE<T>);
    weigh(j + W, e1, tile.W, TILE<T>);
    if (B) {
      for (int k = 0; k < r; k++) {
        T *b = B + k * TILE<T> + j;
        Vec<T> b0 = load<Vec<T>>(b), b1 = load<Vec<T>>(b + W);
#pragma GCC unroll 4
        for (int m = 0; m < ROWS; m++) {
          Vec<T> l = fill<T>(L[m * r + k]);
          b0 += l * e0[m];
          b1 += l * e1[m];
        }
        store(b, b0);
        store(b + W, b1);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++) {
      store(C + m * TILE<T> + j, e0[m]);
      store(C + m * TILE<T> + j + W, e1[m]);
    }
  }
  weigh.finish();
}

// C Q of a tile.
template <class T> struct Term {
  const T *C, *Q;  // 4 x TILE, columns x TILE
};

// A += the sum of C Q over some terms, for 4 rows and the G columns of Q from k on.
template <class T, int G, size_t N>
void gather_some(const std::array<Term<T>, N> &terms, int k, int n, T *A, int stride) {
  constexpr int W = width<T>;
  Vec<T> a[ROWS][G] = {};
  for (const auto &[C, from] : terms) {
    const T *Q = from + k * TILE<T>;
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
  }
  constexpr int padded = (ROWS * G + W - 1) / W * W;
  Vec<T> flat[padded] = {};
  T sums[padded];
#pragma GCC unroll 12
  for (int x = 0; x < ROWS * G; x++) flat[x] = a[x / G][x % G];
  for (int x = 0; x < padded; x += W) store(sums + x, sum_each<T>(flat + x));
  for (int x = 0; x < ROWS * G; x++) A[x / G * stride + k + x % G] += sums[x];
}
template <class T, size_t N> void gather(const std::array<Term<T>, N> &terms, int width_q, int n, T *A) {
  int k = 0;
  for (; k + 3 <= width_q; k += 3) gather_some<T, 3>(terms, k, n, A, width_q);
  if (width_q - k == 2) gather_some<T, 2>(terms, k, n, A, width_q);
  if (width_q - k == 1) gather_some<T, 1>(terms, k, n, A, width_q);
}
template <class T> void gather(const T *C, const T *Q, int width_q, int n, T *A) {
  gather(std::array<Term<T>, 1>{{{C, Q}}}, width_q, n, A);
}

// B += P' C for 4 rows and any P. P: 4 x width, B: width x TILE.
template <class T> void scatter(const T *C, const T *P, int width_p, int n, T *__restrict B) {
  constexpr int W = width<T>;
  for (int j = 0; j < n; j += 2 * W) {
    Vec<T> c[ROWS][2];
#pragma GCC unroll 4
    for (int m = 0; m < ROWS; m++)
      for (int h = 0; h < 2; h++) c[m][h] = load<Vec<T>>(C + m * TILE<T> + j + h * W);
    for (int k = 0; k < width_p; k++) {
      T *b = B + k * TILE<T> + j;
      Vec<T> b0 = load<Vec<T>>(b), b1 = load<Vec<T>>(b + W);
#pragma GCC unroll 4
      for (int m = 0; m < ROWS; m++) {
        Vec<T> p = fill<T>(P[m * width_p + k]);
        b0 += p * c[m][0];
        b1 += p * c[m][1];
      }
      store(b, b0);
      store(b + W, b1);
    }
  }
}

template <class T> auto weigh_tile_for(Rule rule) {
  switch (rule) {
    case Rule::threshold: return &weigh_tile<T, Threshold>;
    case Rule::cauchy: return &weigh_tile<T, Cauchy>;
    case Rule::huber: return &weigh_tile<T, Huber>;
    case Rule::mixture: return &weigh_tile<T, Mixture>;
    case Rule::power: return &weigh_tile<T, Power>;
    case Rule::clip: break;
  }
  return &weigh_tile<T, Clip>;
}

// n x k, one row after another -> tiles of k x TILE, padded with zeros. And back.
template <class T> Buffer<T> tiled(const T *X, int64_t n, int k) {
  int64_t tiles = (n + TILE<T> - 1) / TILE<T>;
  auto out = zeros<T>(tiles * k * TILE<T>);
  for (int64_t j = 0; j < n; j++)
    for (int c = 0; c < k; c++) out[(j / TILE<T> * k + c) * TILE<T> + j % TILE<T>] = X[j * k + c];
  return out;
}
template <class T, class S, class Out> void add_untiled(const Sums<S> &tiles, int64_t n, int k, Out *X) {
  for (int64_t j = 0; j < n; j++)
    for (int c = 0; c < k; c++) X[j * k + c] = Out(X[j * k + c] + tiles[(j / TILE<T> * k + c) * TILE<T> + j % TILE<T>]);
}

// What one thread adds up over its rectangle. Sums by column are tiled. Sums by row are written where they belong if no
// other thread has those rows (`own` is empty then); rows so long that they are divided are added up in double.
template <class T, class S> struct RowSums {
  S *CQ, *WQ;
  int64_t *inliers;
  S *weight;
  double *energy;
};
template <class T> struct Share {
  Buffer<double> own_CQ, own_WQ, own_weight, own_energy;
  Buffer<int64_t> own_inliers;
  Sums<T> CtP, WtP, col_weight, col_energy;
  Sums<Count<T>> col_inliers, col_ones;  // col_ones: where weights are counts
  double z_slope = 0;
  int64_t inliers = 0;  // of the rule clip
};

// What a block of rows needs at hand: its rows of the factors, and the sums over its columns so far.
template <class T> struct Block {
  static constexpr int rows = ROWS;  // 8, 16 and 32, which fetch tiles of R and B less often, were no faster
  Buffer<T> memory;
  T *L, *P, *A, *Pw, *Aw;
  int here = 0;
  T row_z[rows], row_protect[rows], row_weight[rows];
  double row_energy[rows];
  Count<T> row_inliers[rows];
  alignas(64) T C[ROWS * TILE<T>], W[ROWS * TILE<T>], room[ROWS * TILE<T>];

  explicit Block(const Products<T> &job) : memory(zeros<T>(rows * (job.rank + 2 * job.width + 2 * job.width_w))) {
    L = memory.get();
    P = L + rows * job.rank;
    A = P + rows * job.width;
    Pw = A + rows * job.width;
    Aw = Pw + rows * job.width_w;
  }
  void begin(const Products<T> &job, int64_t i, int here_, bool weighted) {
    here = here_;
    take(job.L, i, job.rank, L);
    take(job.P, i, job.width, P);
    take(job.Pw, i, job.width_w, Pw);
    if (weighted) {
      take(job.weight.row_z, i, 1, row_z);
      take(job.weight.row_protect, i, 1, row_protect);
    }
    std::fill(A, A + rows * job.width, T(0));
    std::fill(Aw, Aw + rows * job.width_w, T(0));
    std::fill(row_weight, row_weight + rows, T(0));
    std::fill(row_energy, row_energy + rows, 0.0);
    std::fill(row_inliers, row_inliers + rows, Count<T>(0));
  }
  template <class S> void end(const Products<T> &job, int64_t i, bool weighted, const RowSums<T, S> &out) const {
    if (job.Q) add(A, int64_t(here) * job.width, out.CQ + i * job.width);
    if (job.Qw) add(Aw, int64_t(here) * job.width_w, out.WQ + i * job.width_w);
    if (job.row_inliers) add(row_inliers, here, out.inliers + i);
    if (weighted) add(row_weight, here, out.weight + i);
    if (job.row_energy) add(row_energy, here, out.energy + i);
  }
  void take(const T *X, int64_t i, int k, T *out) const {  // zeros beyond the last row
    const int n = X ? here * k : 0;
    if (X) std::copy_n(X + i * k, n, out);
    std::fill(out + n, out + rows * k, T(0));
  }
};

// Where n numbers of row i can be read as T: the data themselves, or `room` after conversion.
template <class T> const T *source(const Dense &data, int64_t i, int64_t j, int n, int padded, T *room) {
  constexpr Storage own = sizeof(T) == 4 ? Storage::f32 : Storage::f64;
  const int64_t at = i * data.stride + j;
  if (data.storage == own && !data.mask && n == padded) return static_cast<const T *>(data.data) + at;
  read<T>(data.data, data.storage, at, data.mask ? data.mask + i * data.mask_stride + j : nullptr, n, padded, room);
  return room;
}

template <class T> struct Rectangle {
  int64_t i0, i1, t0, t1;  // rows, and tiles of columns
};

template <class T> struct DensePass {
  const Dense &data;
  const Products<T> &job;
  const int64_t n_tiles = (job.n2 + TILE<T> - 1) / TILE<T>;
  const bool weighted = job.weight.rule != Rule::clip;
  Buffer<T> R = job.rank ? tiled(job.R, job.n2, job.rank) : nullptr;
  const bool other = job.Q != job.R || job.width != job.rank;
  Buffer<T> other_Q = job.Q && other ? tiled(job.Q, job.n2, job.width) : nullptr;
  const T *Q = other ? other_Q.get() : R.get();
  Buffer<T> Qw = job.Qw ? tiled(job.Qw, job.n2, job.width_w) : nullptr;
  Buffer<T> col_z = weighted ? tiled(job.weight.col_z, job.n2, 1) : nullptr;
  Buffer<T> col_protect = weighted ? tiled(job.weight.col_protect, job.n2, 1) : nullptr;
  Buffer<bool> tile_clips = clips();  // which tiles have a protected column
  decltype(weigh_tile_for<T>(Rule::clip)) weigh = job.adjoint ? &adjoint_tile<T> : weigh_tile_for<T>(job.weight.rule);
  const bool own_factor = job.adjoint || (job.P == job.L && job.width == job.rank);  // P' C is added up while C is made

  Buffer<bool> clips() const {
    auto out = zeros<bool>(n_tiles);
    if (weighted)
      for (int64_t j = 0; j < job.n2; j++) out[j / TILE<T>] |= job.weight.col_protect[j] > 0;
    return out;
  }

  const bool may = !job.adjoint && may_reject(job.weight);
  const T widest_col = may && job.n2 ? *std::max_element(job.weight.col_z, job.weight.col_z + job.n2) : T(0);

  bool rejects(const Sides<T> &side) const {  // whether nothing in this tile is clipped
    return may && !side.col_clips &&
           std::all_of(side.row_protect, side.row_protect + ROWS, [](T x) { return !(x > 0); });
  }
  bool alike(const Sides<T> &side, int rows) const {  // whether no column has a wider threshold than these rows
    return std::all_of(side.row_z, side.row_z + rows, [&](T z) { return z >= widest_col; });
  }

  // Columns in panels whose R and B stay in the second-level cache, however long the rows are.
  void work(const Rectangle<T> &part, Share<T> &share) const {
    const int64_t panel = std::max<int64_t>(
        1, 192 * 1024 / (int64_t(sizeof(T)) * TILE<T> * (job.rank + 2 * job.width + 2 * job.width_w + 1)));
    auto owned = std::make_unique<Block<T>>(job);
    Block<T> &block = *owned;
    for (int64_t t0 = part.t0; t0 < part.t1; t0 += panel) {
      const int64_t t1 = std::min(part.t1, t0 + panel);
      for (int64_t i = part.i0; i < part.i1; i += Block<T>::rows) {
        if (i > part.i0 && (i - part.i0) % SETTLE == 0) settle(t0 - part.t0, t1 - part.t0, share);
        block.begin(job, i, int(std::min<int64_t>(Block<T>::rows, part.i1 - i)), weighted);
        for (int64_t t = t0; t < t1; t++)
          for (int m = 0; m < block.here; m += ROWS) work_tile(i + m, m, t, part, block, share);
        if (job.inliers) add_all(block.row_inliers, block.here, share.inliers);
        if (share.own_CQ) block.end(job, i - part.i0, weighted, own_rows(share));
        else
          block.end(job, i, weighted, RowSums<T, T>{job.CQ, job.WQ, job.row_inliers, job.row_weight, job.row_energy});
      }
    }
  }
  static RowSums<T, double> own_rows(const Share<T> &share) {
    return {share.own_CQ.get(), share.own_WQ.get(), share.own_inliers.get(), share.own_weight.get(),
            share.own_energy.get()};
  }
  void settle(int64_t t0, int64_t t1, Share<T> &share) const {  // the sums of some tiles of columns
    const int64_t from = t0 * TILE<T>, to = t1 * TILE<T>;
    share.CtP.settle(from * job.width, to * job.width);
    share.WtP.settle(from * job.width_w, to * job.width_w);
    share.col_weight.settle(from, to);
    share.col_inliers.settle(from, to);
    share.col_ones.settle(from, to);
    share.col_energy.settle(from, to);
  }

  // 4 rows (m, ... of the block, from row i of the matrix) and tile t of the columns.
  void work_tile(int64_t i, int m, int64_t t, const Rectangle<T> &part, Block<T> &block, Share<T> &share) const {
    constexpr int step = 2 * width<T>;
    const int64_t at = t * TILE<T>, own = (t - part.t0) * TILE<T>;
    const int n = int(std::min<int64_t>(job.n2 - at, TILE<T>)), padded = (n + step - 1) / step * step;
    T *B = job.P ? share.CtP.get() + own * job.width : nullptr;
    Tile<T> tile{{},
                 job.gain,
                 padded,
                 job.rank,
                 block.L + m * job.rank,
                 after(R.get(), at * job.rank),
                 block.P + m * job.width,
                 after(Q, at * job.width),
                 own_factor ? B : nullptr,
                 block.C,
                 job.width_w || job.adjoint ? block.W : nullptr,
                 {},
                 &share.z_slope};
    for (int a = 0; a < ROWS; a++)  // rows beyond the last read as missing
      tile.source[a] = source<T>(data, i + a, at, m + a < block.here ? n : 0, padded, block.room + a * TILE<T>);
    tile.side = {block.row_z + m, block.row_protect + m, nullptr, nullptr,
                 false,           block.row_inliers + m, nullptr, block.row_weight + m,
                 nullptr,         block.row_energy + m,  nullptr};
    if (weighted) {
      tile.side.col_z = col_z.get() + at;
      tile.side.col_protect = col_protect.get() + at;
      tile.side.col_clips = tile_clips[t];
      tile.side.col_inliers = share.col_inliers.get() + own;
      tile.side.col_weight = share.col_weight.get() + own;
      tile.side.col_energy = after(share.col_energy.get(), own);
    }
    if (rejects(tile.side)) {
      tile.side.col_inliers = share.col_ones.get() + own;
      (alike(tile.side, std::min(ROWS, block.here - m)) ? &weigh_tile<T, RejectAlike>
                                                        : &weigh_tile<T, Reject>)(job.weight, tile);
    } else {
      weigh(job.weight, tile);
    }
    if (job.adjoint)
      gather(std::array<Term<T>, 2>{{{block.C, tile.Q}, {block.W, tile.R}}}, job.width, padded,
             block.A + m * job.width);
    else if (job.Q) gather(block.C, Q + at * job.width, job.width, padded, block.A + m * job.width);
    if (B && !own_factor) scatter(block.C, block.P + m * job.width, job.width, padded, B);
    if (job.Qw) gather(block.W, Qw.get() + at * job.width_w, job.width_w, padded, block.Aw + m * job.width_w);
    if (job.Pw) scatter(block.W, block.Pw + m * job.width_w, job.width_w, padded, share.WtP.get() + own * job.width_w);
  }

  // The longer side is divided among the threads, always in the same way; the shares are added in their order.
  void run() const {
    const int64_t groups = (job.n1 + ROWS - 1) / ROWS;
    const bool by_rows = job.n1 >= job.n2;
    const int threads = shares_of(job.threads, by_rows ? groups : n_tiles);
    std::unique_ptr<Share<T>[]> shares(new Share<T>[threads]);
    auto part = [&](int64_t t) {
      if (by_rows)
        return Rectangle<T>{groups * t / threads * ROWS, std::min(job.n1, groups * (t + 1) / threads * ROWS), 0,
                            n_tiles};
      return Rectangle<T>{0, job.n1, n_tiles * t / threads, n_tiles * (t + 1) / threads};
    };
    in_shares(threads, [&](int t) {
      shares[t] = share(part(t), by_rows);
      work(part(t), shares[t]);
    });
    for (int t = 0; t < threads; t++) collect(part(t), shares[t]);
  }

  Share<T> share(const Rectangle<T> &part, bool by_rows) const {
    const int64_t rows = part.i1 - part.i0, cols = (part.t1 - part.t0) * TILE<T>;
    Share<T> out;
    if (!by_rows) {
      out.own_CQ = zeros<double>(job.Q ? rows * job.width : 0);
      out.own_WQ = zeros<double>(job.Qw ? rows * job.width_w : 0);
      out.own_inliers = zeros<int64_t>(rows);
      out.own_weight = zeros<double>(rows);
      out.own_energy = zeros<double>(rows);
    }
    if (job.P) out.CtP = Sums<T>(cols * job.width);
    if (job.Pw) out.WtP = Sums<T>(cols * job.width_w);
    if (weighted) {
      out.col_inliers = Sums<Count<T>>(cols);
      out.col_weight = Sums<T>(cols);
      if (may) out.col_ones = Sums<Count<T>>(cols);
    }
    if (job.col_energy) out.col_energy = Sums<T>(cols);
    return out;
  }

  void collect(const Rectangle<T> &part, const Share<T> &share) const {
    const int64_t j0 = part.t0 * TILE<T>, cols = std::min(job.n2, part.t1 * TILE<T>) - j0, rows = part.i1 - part.i0;
    if (share.own_CQ) {
      if (job.Q) add(share.own_CQ.get(), rows * job.width, job.CQ);
      if (job.Qw) add(share.own_WQ.get(), rows * job.width_w, job.WQ);
      if (job.row_inliers) add(share.own_inliers.get(), rows, job.row_inliers);
      if (weighted) add(share.own_weight.get(), rows, job.row_weight);
      if (job.row_energy) add(share.own_energy.get(), rows, job.row_energy);
    }
    if (job.P) add_untiled<T>(share.CtP, cols, job.width, job.CtP + j0 * job.width);
    if (job.Pw) add_untiled<T>(share.WtP, cols, job.width_w, job.WtP + j0 * job.width_w);
    if (job.z_slope) *job.z_slope += share.z_slope;
    if (job.inliers) *job.inliers += share.inliers;
    if (job.col_energy) add_untiled<T>(share.col_energy, cols, 1, job.col_energy + j0);
    if (weighted) {
      add_untiled<T>(share.col_weight, cols, 1, job.col_weight + j0);
      add_untiled<T>(share.col_inliers, cols, 1, job.col_inliers + j0);
    }
    if (may) {
      add_untiled<T>(share.col_ones, cols, 1, job.col_weight + j0);
      add_untiled<T>(share.col_ones, cols, 1, job.col_inliers + j0);
    }
  }
};

}  // namespace lrmc::LRMC_ISA
