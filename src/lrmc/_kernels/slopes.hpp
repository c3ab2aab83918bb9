// The adjoint of a pass with the rule power over sparse data, for gradients through layers of weighted least squares.
// With E = Y - L R', w = (1 + (e / z)^2)^-s and C = W E, a loss depends on C and W through products whose gradients
// give Cb = P Q' and Wb = Pw Qw' on the observed entries, and on the sums of w e^2 and of w, whose gradients are
// numbers:
//
//   wb = Wb + total + Cb e + energy e^2   (all that w does),   Eb = (Cb + 2 energy e) w + wb dw/de
//
// One pass gives -Eb R and -Eb' L; the products that the other side of the forward pass takes, C Q and W Qw or C' P and
// W' Pw; and the sums of wb dw/dlog z by row and column, and of wb dw/ds.
#pragma once
#include "sparse.hpp"

namespace lrmc::LRMC_ISA {

// One vector of residuals with the gradients of their pulls and weights.
template <class T> struct PowerSlope {
  const Sided<T> size;
  const T z, s, energy, total;
  PowerSlope(const Weight<T> &weight, T row_z, const Slopes<T> &slopes)
      : size(weight), z(row_z), s(weight.z), energy(slopes.energy), total(slopes.total) {}

  struct Answer {
    Vec<T> c, w, eb, by_z, by_s;
  };
  Answer operator()(Vec<T> e, Vec<T> cb, Vec<T> wb, Vec<T> col_z) const {
    const Vec<T> tiny = fill<T>(std::numeric_limits<T>::min()), zero = {};
    const Mask<T> seen = e == e;
    e = seen ? e : zero;
    const Vec<T> q = size(e) / larger(z * col_z, tiny);
    const Vec<T> square = smaller(q * q, fill<T>(std::numeric_limits<T>::max()));
    const Vec<T> logs = logarithm<T>(1 + square), w = exponential<T>(-s * logs);
    const Vec<T> by_log_z = 2 * s * w * (square / (1 + square));
    const Vec<T> inverse = larger(e, -e) > tiny ? 1 / e : zero;
    wb = wb + total + (cb + energy * e) * e;
    const Vec<T> eb = (cb + 2 * energy * e) * w - wb * by_log_z * inverse;
    return {w * e, seen ? w : zero, seen ? eb : zero, seen ? wb * by_log_z : zero, seen ? -wb * w * logs : zero};
  }
};

template <class T> struct SlopesPass {
  const Sparse &data;
  const Products<T> &job;  // its P, Q, Pw and Qw are all there; room only for the products that are wanted
  const Slopes<T> &slopes;
  const SparsePass<T> pass{data, job};
  using Room = typename SparsePass<T>::Room;

  struct Share {
    Sums<T> CtP, WtP, GR;
    Buffer<double> col_z;
    double shape = 0;
    int64_t unsettled = 0;  // entries
  };
  struct Own {  // one thread's scratch
    Room room;
    Sums<T> GL;
    T D[CHUNK];  // gradients of pulls, then of residuals
  };

  // The gradients of n entries: pulls and weights where residuals and gradients of weights were, -Eb in own.D.
  double slope_entries(int64_t i, int n, int full, Own &own, Share &share) const {
    Room &room = own.room;
    const PowerSlope<T> slope(job.weight, job.weight.row_z[i], slopes);
    for (int t = 0; t < full; t++) room.col_z[t] = job.weight.col_z[room.j[t]];
    Vec<T> by_z = {}, by_s = {};
    for (int t = 0; t < full; t += width<T>) {  // the products came with a minus
      const auto got = slope(load<Vec<T>>(room.E + t), -load<Vec<T>>(own.D + t), -load<Vec<T>>(room.W + t),
                             load<Vec<T>>(room.col_z + t));
      store(room.E + t, got.c);
      store(room.W + t, got.w);
      store(own.D + t, -got.eb);
      store(room.col_weight + t, got.by_z);
      by_z += got.by_z;
      by_s += got.by_s;
    }
    for (int t = 0; t < n; t++) share.col_z[room.j[t]] += room.col_weight[t];
    share.shape += double(sum<T>(by_s));
    return double(sum<T>(by_z));
  }

  void row(int64_t i, Own &own, Share &share) const {
    Room &room = own.room;
    const int rank = pass.rank / width<T>, products = pass.width_ / width<T>, grams = pass.width_w / width<T>;
    pass.begin(i, room);
    own.GL.clear();
    double row_z = 0;
    for (int64_t q = data.indptr[i], chunks = 1; q < data.indptr[i + 1]; q += CHUNK, chunks++) {
      const int n = int(std::min<int64_t>(CHUNK, data.indptr[i + 1] - q)), full = pass.residual(q, n, room);
      std::fill(own.D, own.D + full, T(0));
      std::fill(room.W, room.W + full, T(0));
      pass.products.subtract(1, room.p.get(), pass.Q, room.j, products, full, own.D);
      pass.grams.subtract(1, room.pw.get(), pass.Qw.get(), room.j, grams, full, room.W);
      row_z += slope_entries(i, n, full, own, share);
      pass.products.spread(room.E, room.j, n, room.p.get(), job.CQ ? pass.Q : nullptr, products, room.a.get(),
                           share.CtP.get());
      pass.grams.spread(room.W, room.j, n, room.pw.get(), job.WQ ? pass.Qw.get() : nullptr, grams, room.aw.get(),
                        share.WtP.get());
      pass.model.spread(own.D, room.j, n, room.l.get(), pass.R.get(), rank, own.GL.get(), share.GR.get());
      if (chunks % SparsePass<T>::CHUNKS == 0) settle(room.a, room.aw, own.GL);
      if ((share.unsettled += n) <= TYPICAL * job.n2 + SETTLE) continue;
      settle(share.CtP, share.WtP, share.GR);
      share.unsettled = 0;
    }
    pass.end(i, room);
    for (int c = 0; c < job.rank; c++) slopes.L[i * job.rank + c] = T(own.GL[c]);
    slopes.rows[i] = row_z;
  }
  static void settle(Sums<T> &a, Sums<T> &b, Sums<T> &c) {
    a.settle();
    b.settle();
    c.settle();
  }

  void run() const {
    const int threads = pass.threads();
    std::unique_ptr<Share[]> shares(new Share[threads]);
    in_shares(threads, [&](int t) {
      Own own{pass.room(), Sums<T>(pass.rank), {}};
      shares[t].GR = Sums<T>(job.n2 * pass.rank);
      shares[t].col_z = zeros<double>(job.n2);
      if (job.CtP) shares[t].CtP = Sums<T>(job.n2 * pass.width_);
      if (job.WtP) shares[t].WtP = Sums<T>(job.n2 * pass.width_w);
      for (int64_t i = pass.first_row(t, threads), end = pass.first_row(t + 1, threads); i < end; i++)
        row(i, own, shares[t]);
    });
    for (int t = 0; t < threads; t++) {
      if (job.CtP) add_padded(shares[t].CtP, job.n2, job.width, job.CtP);
      if (job.WtP) add_padded(shares[t].WtP, job.n2, job.width_w, job.WtP);
      add_padded(shares[t].GR, job.n2, job.rank, slopes.R);
      add(shares[t].col_z.get(), job.n2, slopes.cols);
      *slopes.shape += shares[t].shape;
    }
  }
};

}  // namespace lrmc::LRMC_ISA
