// The pass over a sparse matrix in CSR form: 256 entries of a row at a time. Rows of the factors are padded to whole
// vectors, so that an entry is a few vector operations; W residuals are summed together. V vectors per row: 1..4
// compiled, 0 serves the rest.
#pragma once
#include <algorithm>
#include "adjoint.hpp"

namespace lrmc::LRMC_ISA {

inline constexpr int CHUNK = 256;  // entries at a time; at most TILE

template <class T> int padded_width(int k) { return (k + width<T> - 1) / width<T> * width<T>; }
template <class T, class Of> Buffer<T> padded(const Of *X, int64_t n, int k) {
  const int stride = padded_width<T>(k);
  auto out = zeros<T>(n * stride);
  for (int64_t i = 0; i < n; i++)
    for (int c = 0; c < k; c++) out[i * stride + c] = T(X[i * k + c]);
  return out;
}

template <class S, class T> void add_padded(const Sums<S> &X, int64_t n, int k, T *out) {
  const int stride = padded_width<S>(k);
  for (int64_t i = 0; i < n; i++)
    for (int c = 0; c < k; c++) out[i * k + c] = T(out[i * k + c] + X[i * stride + c]);
}

// E = gain * y - l . R_j for n entries (a multiple of W) of one row. l and R_j are `vectors` vectors long.
template <class T, int V>
void subtract_entries(T gain, const T *l, const T *R, const int32_t *j, int vectors, int n, T *__restrict E) {
  constexpr int W = width<T>;
  const int v = V ? V : vectors;
  for (int t = 0; t < n; t += W) {
    Vec<T> each[W];
    const T *r[W];
#pragma GCC unroll 16
    for (int s = 0; s < W; s++) {
      r[s] = R + int64_t(j[t + s]) * v * W;
      each[s] = load<Vec<T>>(l) * load<Vec<T>>(r[s]);
    }
    for (int c = 1; c < v; c++) {  // W sums beside each other: none waits for itself
      const Vec<T> lc = load<Vec<T>>(l + c * W);
#pragma GCC unroll 16
      for (int s = 0; s < W; s++) each[s] += lc * load<Vec<T>>(r[s] + c * W);
    }
    store(E + t, gain * load<Vec<T>>(E + t) - sum_each<T>(each));
  }
}

// a += c Q_j and B_j += c p for n entries of one row; either of Q and B may be missing. V vectors of rows that are
// `stride` vectors long, from `at` on.
template <class T, int V>
inline __attribute__((always_inline)) void spread_some(const T *C, const int32_t *j, int n, const T *p, const T *Q,
                                                       int stride, int at, T *__restrict a, T *__restrict B) {
  constexpr int W = width<T>, U = V < 3 ? 4 : 2;  // U entries at a time: sums that do not wait for each other
  Vec<T> sums[U][V] = {}, pc[V];
#pragma GCC unroll 4
  for (int c = 0; c < V; c++) pc[c] = load<Vec<T>>(p + (at + c) * W);
  auto entry = [&](int t, Vec<T> *total) __attribute__((always_inline)) {
    const int64_t from = (int64_t(j[t]) * stride + at) * W;
    const Vec<T> e = fill<T>(C[t]);
#pragma GCC unroll 4
    for (int c = 0; c < V; c++) {
      if (Q) total[c] += e * load<Vec<T>>(Q + from + c * W);
      if (B) store(B + from + c * W, load<Vec<T>>(B + from + c * W) + e * pc[c]);
    }
  };
  int t = 0;
  for (; t + U <= n; t += U)
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) entry(t + u, sums[u]);
  for (; t < n; t++) entry(t, sums[0]);
#pragma GCC unroll 4
  for (int c = 0; c < V; c++) {
    Vec<T> total = sums[0][c] + sums[1][c];
    if constexpr (U == 4) total += sums[2][c] + sums[3][c];
    store(a + (at + c) * W, load<Vec<T>>(a + (at + c) * W) + total);
  }
}
template <class T, int V>
void spread_entries(const T *C, const int32_t *j, int n, const T *p, const T *Q, int vectors, T *__restrict a,
                    T *__restrict B) {
  if constexpr (V > 0) return spread_some<T, V>(C, j, n, p, Q, V, 0, a, B);
  int at = 0;
  for (; at + 4 <= vectors; at += 4) spread_some<T, 4>(C, j, n, p, Q, vectors, at, a, B);
  for (; at < vectors; at++) spread_some<T, 1>(C, j, n, p, Q, vectors, at, a, B);
}

// Turns residuals of one row into pulls, in place.
template <class T, template <class> class Rule_>
void weigh_entries(const Weight<T> &weight, const Sides<T> &side, int n, T *__restrict E, T *__restrict kept) {
  Weigher<T, 1, Rule_> weigh(weight, side);
  for (int t = 0; t < n; t += width<T>) {
    Vec<T> e = load<Vec<T>>(E + t);
    weigh(t, &e, kept, 0);
    store(E + t, e);
  }
  weigh.finish();
}

// The same by the rule Reject, with the inliers of each entry: there weights are counts. col_z is null where no column
// has a wider threshold than the row.
template <class T>
Count<T> reject_entries(const Weight<T> &weight, T row_z, const T *col_z, int n, T *__restrict E, T *__restrict kept,
                        Count<T> *__restrict inliers) {
  const Reject<T> rule(weight, row_z, 0, false);
  Mask<T> count = {};
  for (int t = 0; t < n; t += width<T>) {
    Vec<T> c;
    Mask<T> inlier;
    const Vec<T> w = rule(load<Vec<T>>(E + t), col_z ? load<Vec<T>>(col_z + t) : rule.z, Vec<T>{}, c, inlier);
    count -= inlier;
    store(inliers + t, -inlier);
    store(E + t, c);
    if (kept) store(kept + t, w);
  }
  Count<T> total = 0;
  for (int t = 0; t < width<T>; t++) total += count[t];
  return total;
}

template <class T> auto weigh_entries_for(Rule rule) {
  switch (rule) {
    case Rule::threshold: return &weigh_entries<T, Threshold>;
    case Rule::cauchy: return &weigh_entries<T, Cauchy>;
    case Rule::huber: return &weigh_entries<T, Huber>;
    case Rule::mixture: return &weigh_entries<T, Mixture>;
    case Rule::power: return &weigh_entries<T, Power>;
    case Rule::clip: break;
  }
  return &weigh_entries<T, Clip>;
}

template <class T> struct ForVectors {
  decltype(&subtract_entries<T, 0>) subtract;
  decltype(&spread_entries<T, 0>) spread;
};
template <class T> const ForVectors<T> &for_vectors(int vectors) {
  static const ForVectors<T> table[] = {{&subtract_entries<T, 0>, &spread_entries<T, 0>},
                                        {&subtract_entries<T, 1>, &spread_entries<T, 1>},
                                        {&subtract_entries<T, 2>, &spread_entries<T, 2>},
                                        {&subtract_entries<T, 3>, &spread_entries<T, 3>},
                                        {&subtract_entries<T, 4>, &spread_entries<T, 4>}};
  return table[vectors <= 4 ? vectors : 0];
}

// Whether products of weights may be made in single precision: where that is asked for, and nothing is near overflow.
template <class T> bool may_be_rough(const Products<T> &job) {
  constexpr T MOST = T(1e15);  // times as many entries as there can be, and squared: within range
  const auto small = [](T x) { return std::abs(x) < MOST; };
  return job.weight.rough && job.width_w && !job.adjoint && job.Pw && job.Qw &&
         std::all_of(job.Pw, job.Pw + job.n1 * job.width_w, small) &&
         std::all_of(job.Qw, job.Qw + job.n2 * job.width_w, small);
}

// G is the type that products of weights are made in.
template <class T, class G = T> struct SparsePass {
  const Sparse &data;
  const Products<T> &job;
  const bool weighted = job.weight.rule != Rule::clip;
  const int rank = padded_width<T>(job.rank), width_ = padded_width<T>(job.width),
            width_w = padded_width<G>(job.width_w);  // padded
  Buffer<T> R = job.rank ? padded<T>(job.R, job.n2, job.rank) : nullptr;
  const bool other = job.Q != job.R || job.width != job.rank;
  Buffer<T> other_Q = job.Q && other ? padded<T>(job.Q, job.n2, job.width) : nullptr;
  const T *Q = other ? other_Q.get() : R.get();
  Buffer<G> Qw = job.Qw ? padded<G>(job.Qw, job.n2, job.width_w) : nullptr;
  const ForVectors<T> &model = for_vectors<T>(rank / width<T>), &products = for_vectors<T>(width_ / width<T>);
  const ForVectors<G> &grams = for_vectors<G>(width_w / width<G>);

  decltype(weigh_entries_for<T>(Rule::clip)) weigh = weigh_entries_for<T>(job.weight.rule);

  const bool rejects =
      !job.adjoint && may_reject(job.weight) &&
      std::all_of(job.weight.col_protect, job.weight.col_protect + job.n2, [](T x) { return !(x > 0); });
  const T widest_col = rejects && job.n2 ? *std::max_element(job.weight.col_z, job.weight.col_z + job.n2) : T(0);

  struct Share {
    Sums<T> CtP;
    Sums<G> WtP;
    Buffer<double> col_weight, col_energy;
    Buffer<int64_t> col_inliers, col_ones;
    int64_t inliers = 0;
    double z_slope = 0;
    int64_t unsettled = 0;  // entries
  };
  struct Room {  // one thread's scratch
    Buffer<T> l, p;
    Buffer<G> pw;
    Sums<T> a;
    Sums<G> aw;
    T E[CHUNK], W[CHUNK], col_z[CHUNK], col_protect[CHUNK], col_weight[CHUNK], col_energy[CHUNK];
    Count<T> col_inliers[CHUNK];
    int32_t j[CHUNK];
  };

  // The residuals of entries [q, q + n) of row i, in room.E; their columns, padded with column 0, in room.j.
  int residual(int64_t q, int n, Room &room) const {
    const int full = (n + width<T> - 1) / width<T> * width<T>;
    read<T>(data.data, data.storage, q, nullptr, n, full, room.E);
    for (int t = 0; t < full; t++) room.j[t] = t < n ? data.indices[q + t] : 0;
    if (job.rank) {
      model.subtract(job.gain, room.l.get(), R.get(), room.j, rank / width<T>, full, room.E);
    } else {
      for (int t = 0; t < full; t++) room.E[t] *= job.gain;
    }
    return full;
  }

  struct RowSums {
    double weight = 0, energy = 0;
    int64_t inliers = 0;
  };

  void weigh_row(int64_t i, int n, int full, Room &room, Share &share, RowSums &of_row) const {
    const auto &w = job.weight;
    T row_weight = 0;
    Count<T> row_inliers = 0;
    Sides<T> side{after(w.row_z, i), after(w.row_protect, i), room.col_z,  room.col_protect, false,
                  &row_inliers,      room.col_inliers,        &row_weight, room.col_weight,  &of_row.energy,
                  room.col_energy};
    if (weighted)
      for (int t = 0; t < full; t++) {
        room.col_z[t] = w.col_z[room.j[t]];
        room.col_protect[t] = w.col_protect[room.j[t]];
        side.col_clips |= room.col_protect[t] > 0;
        room.col_weight[t] = 0;
        room.col_energy[t] = 0;
        room.col_inliers[t] = 0;
      }
    weigh(w, side, full, room.E, job.width_w ? room.W : nullptr);
    of_row.weight += row_weight;
    of_row.inliers += row_inliers;
    if (weighted)
      for (int t = 0; t < n; t++) {
        share.col_weight[room.j[t]] += room.col_weight[t];
        share.col_inliers[room.j[t]] += room.col_inliers[t];
      }
    if (job.col_energy)
      for (int t = 0; t < n; t++) share.col_energy[room.j[t]] += room.col_energy[t];
  }

  // The same for a row of which nothing is clipped.
  void reject_row(int64_t i, int n, int full, Room &room, Share &share, RowSums &of_row) const {
    const auto &w = job.weight;
    const bool alike = w.row_z[i] >= widest_col;
    if (!alike)
      for (int t = 0; t < full; t++) room.col_z[t] = w.col_z[room.j[t]];
    const Count<T> count = reject_entries(w, w.row_z[i], alike ? nullptr : room.col_z, full, room.E,
                                          job.width_w ? room.W : nullptr, room.col_inliers);
    for (int t = 0; t < n; t++) share.col_ones[room.j[t]] += room.col_inliers[t];
    of_row.inliers += count;
    of_row.weight += count;
  }

  // C in room.E and D in room.W; the second term of the products is added here.
  void reverse_row(int n, int full, Room &room, Share &share) const {
    std::fill(room.W, room.W + full, T(0));
    model.subtract(1, room.p.get(), R.get(), room.j, rank / width<T>, full, room.W);
    model.subtract(1, room.l.get(), Q, room.j, rank / width<T>, full, room.W);
    adjoint_entries(job.weight, full, room.E, room.W, &share.z_slope);
    model.spread(room.W, room.j, n, room.l.get(), R.get(), rank / width<T>, room.a.get(), share.CtP.get());
  }

  void begin(int64_t i, Room &room) const {
    for (int c = 0; c < job.rank; c++) room.l[c] = job.L[i * job.rank + c];
    for (int c = 0; c < job.width; c++) room.p[c] = job.P ? job.P[i * job.width + c] : T(0);
    for (int c = 0; c < job.width_w; c++) room.pw[c] = job.Pw ? G(job.Pw[i * job.width_w + c]) : G(0);
    room.a.clear();
    room.aw.clear();
  }
  void end(int64_t i, const Room &room) const {
    if (job.CQ)
      for (int c = 0; c < job.width; c++) job.CQ[i * job.width + c] = T(room.a[c]);
    if (job.WQ)
      for (int c = 0; c < job.width_w; c++) job.WQ[i * job.width_w + c] = T(room.aw[c]);
  }

  void spread_weights(int n, Room &room, Share &share) const {
    G own[CHUNK];
    const G *W = own;
    if constexpr (std::is_same_v<T, G>) W = room.W;
    else std::copy(room.W, room.W + n, own);
    grams.spread(W, room.j, n, room.pw.get(), Qw.get(), width_w / width<G>, room.aw.get(), share.WtP.get());
  }

  void row(int64_t i, Room &room, Share &share) const {
    RowSums of_row;
    begin(i, room);
    for (int64_t q = data.indptr[i], chunks = 1; q < data.indptr[i + 1]; q += CHUNK, chunks++) {
      const int n = int(std::min<int64_t>(CHUNK, data.indptr[i + 1] - q)), full = residual(q, n, room);
      if (job.adjoint) reverse_row(n, full, room, share);
      else if (rejects && !(job.weight.row_protect[i] > 0)) reject_row(i, n, full, room, share, of_row);
      else weigh_row(i, n, full, room, share, of_row);
      products.spread(room.E, room.j, n, room.p.get(), Q, width_ / width<T>, room.a.get(), share.CtP.get());
      if (job.width_w) spread_weights(n, room, share);
      if (chunks % CHUNKS == 0) settle(room.a, room.aw);
      if ((share.unsettled += n) > TYPICAL * job.n2 + SETTLE) settle(share);
    }
    end(i, room);
    share.inliers += of_row.inliers;
    if (job.row_inliers) job.row_inliers[i] = of_row.inliers;
    if (weighted) job.row_weight[i] = T(of_row.weight);
    if (job.row_energy) job.row_energy[i] = of_row.energy;
  }
  static constexpr int64_t CHUNKS = 64;  // of a row, after which its sums are settled
  static void settle(Sums<T> &one, Sums<G> &other) {
    one.settle();
    other.settle();
  }
  static void settle(Share &share) {
    settle(share.CtP, share.WtP);
    share.unsettled = 0;
  }

  Room room() const {
    Room out;
    out.l = zeros<T>(rank);
    out.p = zeros<T>(width_);
    out.a = Sums<T>(width_);
    out.pw = zeros<G>(width_w);
    out.aw = Sums<G>(width_w);
    return out;
  }

  int64_t first_row(int t, int threads) const { return first_of_share(data, job.n1, t, threads); }
  int threads() const { return shares_of(job.threads, job.n1); }

  void run() const {
    const int threads = this->threads();
    std::unique_ptr<Share[]> shares(new Share[threads]);
    in_shares(threads, [&](int t) {
      auto own = std::make_unique<Room>(room());
      if (job.P) shares[t].CtP = Sums<T>(job.n2 * width_);
      if (job.Pw) shares[t].WtP = Sums<G>(job.n2 * width_w);
      if (weighted) {
        shares[t].col_weight = zeros<double>(job.n2);
        shares[t].col_inliers = zeros<int64_t>(job.n2);
        if (rejects) shares[t].col_ones = zeros<int64_t>(job.n2);
      }
      if (job.col_energy) shares[t].col_energy = zeros<double>(job.n2);
      for (int64_t i = first_row(t, threads), end = first_row(t + 1, threads); i < end; i++) row(i, *own, shares[t]);
    });
    for (int t = 0; t < threads; t++) {
      if (job.P) add_padded(shares[t].CtP, job.n2, job.width, job.CtP);
      if (job.Pw) add_padded(shares[t].WtP, job.n2, job.width_w, job.WtP);
      if (weighted) {
        add(shares[t].col_weight.get(), job.n2, job.col_weight);
        add(shares[t].col_inliers.get(), job.n2, job.col_inliers);
        if (rejects) {
          add(shares[t].col_ones.get(), job.n2, job.col_weight);
          add(shares[t].col_ones.get(), job.n2, job.col_inliers);
        }
      }
      if (job.col_energy) add(shares[t].col_energy.get(), job.n2, job.col_energy);
      if (job.z_slope) *job.z_slope += shares[t].z_slope;
      if (job.inliers) *job.inliers += shares[t].inliers;
    }
  }

  // The residual of every entry, in their order.
  void residuals(T *out) const {
    const int threads = this->threads();
    in_shares(threads, [&](int t) {
      auto own = std::make_unique<Room>(room());
      for (int64_t i = first_row(t, threads), end = first_row(t + 1, threads); i < end; i++) {
        for (int c = 0; c < job.rank; c++) own->l[c] = job.L[i * job.rank + c];
        for (int64_t q = data.indptr[i]; q < data.indptr[i + 1]; q += CHUNK) {
          const int n = int(std::min<int64_t>(CHUNK, data.indptr[i + 1] - q));
          residual(q, n, *own);
          std::copy(own->E, own->E + n, out + q);
        }
      }
    });
  }
};

}  // namespace lrmc::LRMC_ISA
