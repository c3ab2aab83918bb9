// The pass over a dense matrix whose rows are weighed in groups: in each column, all rows of a group have the weight of the
// worst of them. Like the dense pass, but a tile holds one group, and is gone over twice: for the worst residual, and to weigh.
#pragma once
#include "dense.hpp"

namespace lrmc::LRMC_ISA {

// What a residual is compared with, and the weight of the worst of a group.
template <class T, Rule which> struct Shared {
  Sided<T> size;
  T odds, z;
  explicit Shared(const Weight<T> &weight) : size(weight), odds(weight.z), z(weight.z) {}
  Vec<T> ratio(Vec<T> e, T row_z, Vec<T> col_z) const {  // NaN where nothing is observed
    Vec<T> zij = which == Rule::clip ? fill<T>(z) : which == Rule::threshold ? larger(fill<T>(row_z), col_z) : row_z * col_z;
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

// One tile of a group: `size` rows, of which the last ones up to a multiple of 4 are missing.
template <class T> struct GroupTile {
  int size, n;         // rows, columns (a multiple of two vectors)
  T *E, *W;            // size x TILE: residuals, which become pulls, and their weights
  Sides<T> side;       // columns are missing for `clip`
  bool sums;           // whether there are sums by row and column
};

template <class T, Rule which> void weigh_group(const Weight<T> &weight, const GroupTile<T> &tile) {
  const Shared<T, which> rule(weight);
  const auto &side = tile.side;
  Vec<T> energy = {};
  for (int j = 0; j < tile.n; j += width<T>) {
    const Vec<T> col_z = tile.sums ? load<Vec<T>>(side.col_z + j) : Vec<T>{};
    Vec<T> worst = {};
    for (int m = 0; m < tile.size; m++) {
      Vec<T> q = rule.ratio(load<Vec<T>>(tile.E + m * TILE<T> + j), tile.sums ? side.row_z[m] : T(0), col_z);
      worst = q > worst ? q : worst;  // not so for NaN
    }
    Mask<T> inlier, col_inliers = {};
    const Vec<T> w = rule.weight(worst, inlier);
    Vec<T> col_weight = {};
    for (int m = 0; m < tile.size; m++) {
      T *at = tile.E + m * TILE<T> + j;
      const Vec<T> e = load<Vec<T>>(at);
      const Mask<T> seen = e == e;
      const Vec<T> own = seen ? w : Vec<T>{}, c = seen ? w * e : Vec<T>{}, summed = weight.squares ? c * c : own;
      store(at, c);
      store(tile.W + m * TILE<T> + j, own);
      energy += seen ? c * e : Vec<T>{};
      const Mask<T> good = seen & inlier;
      for (int t = 0; t < width<T>; t++) side.row_inliers[m] -= good[t];
      col_inliers -= good;
      col_weight += summed;
      if (tile.sums) side.row_weight[m] += sum<T>(summed);
    }
    if (!tile.sums) continue;
    store(side.col_inliers + j, load<Mask<T>>(side.col_inliers + j) + col_inliers);
    store(side.col_weight + j, load<Vec<T>>(side.col_weight + j) + col_weight);
  }
  *side.energy += double(sum<T>(energy));
}

template <class T> auto weigh_group_for(Rule rule) {
  switch (rule) {
    case Rule::threshold: return &weigh_group<T, Rule::threshold>;
    case Rule::cauchy: return &weigh_group<T, Rule::cauchy>;
    case Rule::huber: return &weigh_group<T, Rule::huber>;
    case Rule::mixture: return &weigh_group<T, Rule::mixture>;
    case Rule::clip: break;
  }
  return &weigh_group<T, Rule::clip>;
}

template <class T> struct GroupedPass {
  const Dense &data;
  const Products<T> &job;
  const Groups &groups;
  const int padded_size = (groups.size + ROWS - 1) / ROWS * ROWS;
  const int64_t n_tiles = (job.n2 + TILE<T> - 1) / TILE<T>;
  const bool weighted = job.weight.rule != Rule::clip;
  Buffer<T> R = job.rank ? tiled(job.R, job.n2, job.rank) : nullptr;
  Buffer<T> Q = job.Q ? tiled(job.Q, job.n2, job.width) : nullptr;
  Buffer<T> Qw = job.Qw ? tiled(job.Qw, job.n2, job.width_w) : nullptr;
  Buffer<T> col_z = weighted ? tiled(job.weight.col_z, job.n2, 1) : nullptr;
  decltype(weigh_group_for<T>(Rule::clip)) weigh = weigh_group_for<T>(job.weight.rule);

  struct Share { Buffer<T> CtP, WtP, col_weight; Buffer<Count<T>> col_inliers; double energy = 0; };
  struct Room {  // one thread's scratch: a group's rows of everything
    Buffer<T> L, P, A, Pw, Aw, E, W, room, row_z, row_weight;
    Buffer<Count<T>> row_inliers;
  };

  Room room() const {
    const int s = padded_size;
    return {zeros<T>(s * job.rank), zeros<T>(s * job.width), zeros<T>(s * job.width), zeros<T>(s * job.width_w), zeros<T>(s * job.width_w),
            zeros<T>(s * TILE<T>), zeros<T>(s * TILE<T>), zeros<T>(ROWS * TILE<T>), zeros<T>(s), zeros<T>(s), zeros<Count<T>>(s)};
  }
  Share share() const {
    const int64_t cols = n_tiles * TILE<T>;
    return {zeros<T>(job.P ? cols * job.width : 0), zeros<T>(job.Pw ? cols * job.width_w : 0), zeros<T>(cols), zeros<Count<T>>(cols), 0};
  }

  static void take(const T *X, const int64_t *rows, int n, int k, T *out) {
    if (X)
      for (int m = 0; m < n; m++) std::copy(X + rows[m] * k, X + (rows[m] + 1) * k, out + m * k);
  }
  static void give(const T *X, const int64_t *rows, int n, int k, T *out) {
    for (int m = 0; m < n; m++) std::copy(X + m * k, X + (m + 1) * k, out + rows[m] * k);
  }

  void group(const int64_t *rows, Room &room, Share &share) const {
    const int size = groups.size, s = padded_size;
    take(job.L, rows, size, job.rank, room.L.get());
    take(job.P, rows, size, job.width, room.P.get());
    take(job.Pw, rows, size, job.width_w, room.Pw.get());
    if (weighted) take(job.weight.row_z, rows, size, 1, room.row_z.get());
    std::fill_n(room.A.get(), s * job.width, T(0));
    std::fill_n(room.Aw.get(), s * job.width_w, T(0));
    std::fill_n(room.row_weight.get(), s, T(0));
    std::fill_n(room.row_inliers.get(), s, Count<T>(0));
    for (int64_t t = 0; t < n_tiles; t++) work_tile(rows, t, room, share);
    if (job.Q) give(room.A.get(), rows, size, job.width, job.CQ);
    if (job.Qw) give(room.Aw.get(), rows, size, job.width_w, job.WQ);
    if (weighted) give(room.row_weight.get(), rows, size, 1, job.row_weight);
    for (int m = 0; m < size; m++) job.row_inliers[rows[m]] = room.row_inliers[m];
  }

  void work_tile(const int64_t *rows, int64_t t, Room &room, Share &share) const {
    constexpr int step = 2 * width<T>;
    const int64_t at = t * TILE<T>;
    const int n = int(std::min<int64_t>(job.n2 - at, TILE<T>)), padded = (n + step - 1) / step * step;
    for (int q = 0; q < padded_size; q += ROWS) {
      Tile<T> tile{{}, job.gain, padded, job.rank, room.L.get() + q * job.rank, R.get() + at * job.rank, nullptr, nullptr, nullptr, room.E.get() + q * TILE<T>, nullptr, {}};
      for (int m = 0; m < ROWS; m++) {  // rows beyond the last read as missing
        const bool there = q + m < groups.size;
        tile.source[m] = source<T>(data, there ? rows[q + m] : 0, at, there ? n : 0, padded, room.room.get() + m * TILE<T>);
      }
      residual_tile(tile);
    }
    std::fill(room.E.get() + groups.size * TILE<T>, room.E.get() + padded_size * TILE<T>, T(0));  // missing rows pull nothing
    weigh(job.weight, {groups.size, padded, room.E.get(), room.W.get(),
                       {room.row_z.get(), nullptr, col_z.get() + at, nullptr, false, room.row_inliers.get(), share.col_inliers.get() + at,
                        room.row_weight.get(), share.col_weight.get() + at, &share.energy},
                       weighted});
    for (int q = 0; q < padded_size; q += ROWS) {
      const T *C = room.E.get() + q * TILE<T>, *W = room.W.get() + q * TILE<T>;
      if (job.Q) gather(C, Q.get() + at * job.width, job.width, padded, room.A.get() + q * job.width);
      if (job.P) scatter(C, room.P.get() + q * job.width, job.width, padded, share.CtP.get() + at * job.width);
      if (job.Qw) gather(W, Qw.get() + at * job.width_w, job.width_w, padded, room.Aw.get() + q * job.width_w);
      if (job.Pw) scatter(W, room.Pw.get() + q * job.width_w, job.width_w, padded, share.WtP.get() + at * job.width_w);
    }
  }

  void run() const {
    const int threads = std::max(1, job.threads);
    std::unique_ptr<Share[]> shares(new Share[threads]);
#pragma omp parallel num_threads(threads)
    for (int t = thread_index(); t < threads; t += team_size()) {
      Room own = room();
      shares[t] = share();
      for (int64_t g = groups.count * t / threads; g < groups.count * (t + 1) / threads; g++)
        group(groups.rows + g * groups.size, own, shares[t]);
    }
    for (int t = 0; t < threads; t++) {
      if (job.P) add_untiled(shares[t].CtP.get(), job.n2, job.width, job.CtP);
      if (job.Pw) add_untiled(shares[t].WtP.get(), job.n2, job.width_w, job.WtP);
      if (!weighted) continue;
      add_untiled(shares[t].col_weight.get(), job.n2, 1, job.col_weight);
      add_untiled(shares[t].col_inliers.get(), job.n2, 1, job.col_inliers);
      *job.energy += shares[t].energy;
    }
  }
};

}  // namespace lrmc::LRMC_ISA
