// The pass over a dense matrix whose rows are weighed in groups: in each column, all rows of a group have the weight of
// the worst of them. Like the dense pass, but a tile holds one group, and is gone over twice: for the worst residual,
// and to weigh. Real and imaginary parts are a group that is weighed by its norm instead: the modulus.
#pragma once
#include <cmath>

#include "dense.hpp"

namespace lrmc::LRMC_ISA {

// What a residual is compared with, and the weight of the worst of a group.
template <class T, Rule which> struct Shared {
  Sided<T> size;
  T odds, z;
  explicit Shared(const Weight<T> &weight) : size(weight), odds(weight.z), z(weight.z) {}
  Vec<T> ratio(Vec<T> e, T row_z, Vec<T> col_z) const {  // NaN where nothing is observed
    Vec<T> zij = which == Rule::clip        ? fill<T>(z)
                 : which == Rule::threshold ? larger(fill<T>(row_z), col_z)
                                            : row_z * col_z;
    return size(e) / larger(zij, fill<T>(std::numeric_limits<T>::min()));
  }
  Vec<T> weight(Vec<T> q, Mask<T> &inlier) const {
    const Vec<T> one = fill<T>(1);
    inlier = q <= one;
    if constexpr (which == Rule::threshold) return inlier ? one : Vec<T>{};
    else if constexpr (which == Rule::clip) return weight_of<T, Rule::huber>(q, odds, inlier);
    else return weight_of<T, which>(q, odds, inlier);
  }
};

// sqrt(q^2 + worst^2) without overflow; NaN where q is.
template <class T> Vec<T> norm(Vec<T> q, Vec<T> worst) {
  const Vec<T> large = larger(larger(q, worst), fill<T>(std::numeric_limits<T>::min()));
  const Vec<T> ratio = smaller(worst, q) / large;
  Vec<T> root = fill<T>(1) + ratio * ratio;
  for (int t = 0; t < width<T>; t++) root[t] = std::sqrt(root[t]);
  return large * root;
}

// One tile of a group: `size` rows, of which the last ones up to a multiple of 4 are missing.
template <class T> struct GroupTile {
  int64_t size;        // rows
  int n;               // columns (a multiple of two vectors)
  T *E, *W;            // size x TILE: residuals, which become pulls, and their weights
  Sides<T> side;       // columns are missing for `clip`
  double *row_weight;  // takes the place of the one in `side`
  bool sums;           // whether there are sums by row and column
  bool modulus;        // the norm of the group is weighed, not the worst of it
};

template <class T, Rule which> void weigh_group(const Weight<T> &weight, const GroupTile<T> &tile) {
  const Shared<T, which> rule(weight);
  const auto &side = tile.side;
  for (int j = 0; j < tile.n; j += width<T>) {
    const Vec<T> col_z = tile.sums ? load<Vec<T>>(side.col_z + j) : Vec<T>{};
    Vec<T> worst = {};
    for (int64_t m = 0; m < tile.size; m++) {
      Vec<T> q = rule.ratio(load<Vec<T>>(tile.E + m * TILE<T> + j), tile.sums ? side.row_z[m] : T(0), col_z);
      if (tile.modulus) q = norm<T>(q, worst);
      worst = q > worst ? q : worst;  // not so for NaN
    }
    Mask<T> inlier, col_inliers = {};
    const Vec<T> w = rule.weight(worst, inlier);
    Vec<T> col_weight = {}, some = {}, col_energy = {}, some_energy = {};
    for (int64_t m = 0; m < tile.size; m++) {
      T *at = tile.E + m * TILE<T> + j;
      const Vec<T> e = load<Vec<T>>(at);
      const Mask<T> seen = e == e;
      const Vec<T> own = seen ? w : Vec<T>{}, c = seen ? w * e : Vec<T>{}, summed = weight.squares ? c * c : own;
      store(at, c);
      store(tile.W + m * TILE<T> + j, own);
      const Vec<T> energy = seen ? c * e : Vec<T>{};
      if (side.row_energy) side.row_energy[m] += double(sum<T>(energy));
      some_energy += energy;
      const Mask<T> good = seen & inlier;
      for (int t = 0; t < width<T>; t++) side.row_inliers[m] -= good[t];
      col_inliers -= good;
      some += summed;
      if (tile.sums) tile.row_weight[m] += double(sum<T>(summed));
      if ((m + 1) % SETTLE) continue;  // of a large group, sums of sums: small numbers are not lost among large ones
      col_weight += some;
      some = Vec<T>{};
      col_energy += some_energy;
      some_energy = Vec<T>{};
    }
    if (!tile.sums) continue;
    store(side.col_inliers + j, load<Mask<T>>(side.col_inliers + j) + col_inliers);
    store(side.col_weight + j, load<Vec<T>>(side.col_weight + j) + (col_weight + some));
    if (side.col_energy) store(side.col_energy + j, load<Vec<T>>(side.col_energy + j) + (col_energy + some_energy));
  }
}

template <class T> auto weigh_group_for(Rule rule) {
  switch (rule) {
    case Rule::threshold: return &weigh_group<T, Rule::threshold>;
    case Rule::cauchy: return &weigh_group<T, Rule::cauchy>;
    case Rule::huber: return &weigh_group<T, Rule::huber>;
    case Rule::mixture: return &weigh_group<T, Rule::mixture>;
    case Rule::power: return &weigh_group<T, Rule::power>;
    case Rule::clip: break;
  }
  return &weigh_group<T, Rule::clip>;
}

template <class T> struct GroupedPass {
  const Dense &data;
  const Products<T> &job;
  const Groups &groups;
  const int64_t padded_size = (groups.size + ROWS - 1) / ROWS * ROWS;
  const int64_t n_tiles = (job.n2 + TILE<T> - 1) / TILE<T>;
  const bool weighted = job.weight.rule != Rule::clip;
  Buffer<T> R = job.rank ? tiled(job.R, job.n2, job.rank) : nullptr;
  Buffer<T> Q = job.Q ? tiled(job.Q, job.n2, job.width) : nullptr;
  Buffer<T> Qw = job.Qw ? tiled(job.Qw, job.n2, job.width_w) : nullptr;
  Buffer<T> col_z = weighted ? tiled(job.weight.col_z, job.n2, 1) : nullptr;
  decltype(weigh_group_for<T>(Rule::clip)) weigh = weigh_group_for<T>(job.weight.rule);

  struct Share {
    Sums<T> CtP, WtP, col_weight, col_energy;
    Sums<Count<T>> col_inliers;
    int64_t inliers = 0;
    int64_t unsettled = 0;  // rows
  };
  struct Room {  // one thread's scratch: a group's rows of everything
    Buffer<T> L, P, Pw, E, W, room, row_z;
    Sums<T> A, Aw;
    Buffer<double> row_weight, row_energy;
    Buffer<Count<T>> row_inliers;
  };

  Room room() const {
    const int64_t s = padded_size;
    return {zeros<T>(s * job.rank),
            zeros<T>(s * job.width),
            zeros<T>(s * job.width_w),
            zeros<T>(s * TILE<T>),
            zeros<T>(s * TILE<T>),
            zeros<T>(ROWS * TILE<T>),
            zeros<T>(s),
            Sums<T>(s * job.width),
            Sums<T>(s * job.width_w),
            zeros<double>(s),
            job.row_energy ? zeros<double>(s) : nullptr,
            zeros<Count<T>>(s)};
  }
  Share share() const {
    const int64_t cols = n_tiles * TILE<T>;
    return {Sums<T>(job.P ? cols * job.width : 0), Sums<T>(job.Pw ? cols * job.width_w : 0), Sums<T>(cols),
            job.col_energy ? Sums<T>(cols) : Sums<T>(), Sums<Count<T>>(cols)};
  }

  static void take(const T *X, const int64_t *rows, int64_t n, int k, T *out) {
    if (X)
      for (int64_t m = 0; m < n; m++) std::copy(X + rows[m] * k, X + (rows[m] + 1) * k, out + m * k);
  }
  template <class From, class To> static void give(const From &X, const int64_t *rows, int64_t n, int k, To *out) {
    for (int64_t m = 0; m < n; m++)
      for (int c = 0; c < k; c++) out[rows[m] * k + c] = To(X[m * k + c]);
  }
  void settle(int64_t t0, int64_t t1, Share &share) const {  // the sums of some tiles of columns
    const int64_t from = t0 * TILE<T>, to = t1 * TILE<T>;
    if (job.P) share.CtP.settle(from * job.width, to * job.width);
    if (job.Pw) share.WtP.settle(from * job.width_w, to * job.width_w);
    share.col_weight.settle(from, to);
    share.col_energy.settle(from, to);
    share.col_inliers.settle(from, to);
  }

  void group(const int64_t *rows, Room &room, Share &share) const {
    const int64_t size = groups.size, s = padded_size;
    take(job.L, rows, size, job.rank, room.L.get());
    take(job.P, rows, size, job.width, room.P.get());
    take(job.Pw, rows, size, job.width_w, room.Pw.get());
    if (weighted) take(job.weight.row_z, rows, size, 1, room.row_z.get());
    room.A.clear();
    room.Aw.clear();
    std::fill_n(room.row_weight.get(), s, 0.0);
    if (room.row_energy) std::fill_n(room.row_energy.get(), s, 0.0);
    std::fill_n(room.row_inliers.get(), s, Count<T>(0));
    for (int64_t t = 0; t < n_tiles; t++) {
      work_tile(rows, t, room, share);
      if ((t + 1) % 64) continue;
      room.A.settle();
      room.Aw.settle();
    }
    if ((share.unsettled += size) >= SETTLE) {
      settle(0, n_tiles, share);
      share.unsettled = 0;
    }
    if (job.Q) give(room.A, rows, size, job.width, job.CQ);
    if (job.Qw) give(room.Aw, rows, size, job.width_w, job.WQ);
    if (weighted) give(room.row_weight, rows, size, 1, job.row_weight);
    if (job.row_energy) give(room.row_energy, rows, size, 1, job.row_energy);
    add_all(room.row_inliers.get(), size, share.inliers);
    for (int64_t m = 0; m < size && job.row_inliers; m++) job.row_inliers[rows[m]] = room.row_inliers[m];
  }

  void work_tile(const int64_t *rows, int64_t t, Room &room, Share &share) const {
    constexpr int step = 2 * width<T>;
    const int64_t at = t * TILE<T>;
    const int n = int(std::min<int64_t>(job.n2 - at, TILE<T>)), padded = (n + step - 1) / step * step;
    for (int64_t q = 0; q < padded_size; q += ROWS) {
      Tile<T> tile{{},
                   job.gain,
                   padded,
                   job.rank,
                   room.L.get() + q * job.rank,
                   after(R.get(), at * job.rank),
                   nullptr,
                   nullptr,
                   nullptr,
                   room.E.get() + q * TILE<T>,
                   nullptr,
                   {},
                   nullptr};
      for (int m = 0; m < ROWS; m++) {  // rows beyond the last read as missing
        const bool there = q + m < groups.size;
        tile.source[m] =
            source<T>(data, there ? rows[q + m] : 0, at, there ? n : 0, padded, room.room.get() + m * TILE<T>);
      }
      residual_tile(tile);
    }
    std::fill(room.E.get() + groups.size * TILE<T>, room.E.get() + padded_size * TILE<T>,
              T(0));  // missing rows pull nothing
    weigh(job.weight, {groups.size,
                       padded,
                       room.E.get(),
                       room.W.get(),
                       {room.row_z.get(), nullptr, after(col_z.get(), at), nullptr, false, room.row_inliers.get(),
                        share.col_inliers.get() + at, nullptr, share.col_weight.get() + at, room.row_energy.get(),
                        after(share.col_energy.get(), at)},
                       room.row_weight.get(),
                       weighted,
                       groups.modulus});
    for (int64_t q = 0; q < padded_size; q += ROWS) {
      if (q && q % SETTLE == 0) settle(t, t + 1, share);
      const T *C = room.E.get() + q * TILE<T>, *W = room.W.get() + q * TILE<T>;
      if (job.Q) gather(C, Q.get() + at * job.width, job.width, padded, room.A.get() + q * job.width);
      if (job.P) scatter(C, room.P.get() + q * job.width, job.width, padded, share.CtP.get() + at * job.width);
      if (job.Qw) gather(W, Qw.get() + at * job.width_w, job.width_w, padded, room.Aw.get() + q * job.width_w);
      if (job.Pw) scatter(W, room.Pw.get() + q * job.width_w, job.width_w, padded, share.WtP.get() + at * job.width_w);
    }
  }

  void run() const {
    const int threads = shares_of(job.threads, groups.count);
    std::unique_ptr<Share[]> shares(new Share[threads]);
    in_shares(threads, [&](int t) {
      Room own = room();
      shares[t] = share();
      for (int64_t g = groups.count * t / threads; g < groups.count * (t + 1) / threads; g++)
        group(groups.rows + g * groups.size, own, shares[t]);
    });
    for (int t = 0; t < threads; t++) {
      if (job.P) add_untiled<T>(shares[t].CtP, job.n2, job.width, job.CtP);
      if (job.Pw) add_untiled<T>(shares[t].WtP, job.n2, job.width_w, job.WtP);
      if (job.inliers) *job.inliers += shares[t].inliers;
      if (!weighted) continue;
      add_untiled<T>(shares[t].col_weight, job.n2, 1, job.col_weight);
      add_untiled<T>(shares[t].col_inliers, job.n2, 1, job.col_inliers);
      if (job.col_energy) add_untiled<T>(shares[t].col_energy, job.n2, 1, job.col_energy);
    }
  }
};

}  // namespace lrmc::LRMC_ISA
