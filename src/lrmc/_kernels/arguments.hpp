// What Python gives, by name: arrays that are held while they are used, and what they become for the kernels. Arguments
// were checked at the door (lrmc/observations); here only what would crash is.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels.hpp"

namespace lrmc::given {

namespace nb = nanobind;

template <class T> using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// Of either precision: which one, the data say.
using Line = std::optional<Vector<nb::ro>>;
using Lines = std::optional<Matrix<nb::ro>>;
using LineRoom = std::optional<nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>>;
using LinesRoom = std::optional<nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>>;
using Entries = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using Mask = nb::ndarray<const uint8_t, nb::ndim<2>, nb::device::cpu>;

inline void need(bool fits, const char *name, const char *what) {
  if (!fits) throw std::invalid_argument(std::string("kernel: ") + name + " " + what);
}

inline Storage storage_of(nb::dlpack::dtype dtype) {
  if (dtype == nb::dtype<float>()) return Storage::f32;
  if (dtype == nb::dtype<double>()) return Storage::f64;
  if (dtype == nb::dtype<uint8_t>()) return Storage::u8;
  if (dtype == nb::dtype<int16_t>()) return Storage::i16;
  if (dtype == nb::dtype<uint16_t>()) return Storage::u16;
  throw std::invalid_argument("the kernels read float32, float64, uint8, int16 and uint16");
}

// Calls f with a number of the type that data of this storage are computed in.
template <class F> auto in_precision(Storage storage, F f) {
  return storage == Storage::f64 ? f(double()) : f(float());
}

template <class T, class A> T *numbers(const A &X, const char *name) {
  need(X.dtype() == nb::dtype<std::remove_const_t<T>>(), name, "has another precision than the data");
  return static_cast<T *>(X.data());
}
template <class T, class A> T *line(const A &x, int64_t n, const char *name) {
  need(x && int64_t(x->shape(0)) == n, name, "is missing or has another length than the data");
  return numbers<T>(*x, name);
}
template <class T, class A> T *lines(const A &X, int64_t n, int width, const char *name) {
  need(X && int64_t(X->shape(0)) == n && int64_t(X->shape(1)) == width, name, "is missing or has another shape");
  return numbers<T>(*X, name);
}

// Whether all are places of n lines.
inline bool within(const Vector<const int64_t> &at, int64_t n) {
  bool all = true;  // to look at every one takes less than to stop at the first that is not
  for (size_t k = 0; k < at.shape(0); k++) all &= uint64_t(at.data()[k]) < uint64_t(n);
  return all;
}

// ---- the data

struct Data {
  int64_t n1 = 0, n2 = 0;
  double gain = 1;
};

struct Dense : Data {
  Entries Y;
  std::optional<Mask> mask;
  std::optional<Matrix<const int64_t>> members;  // the rows of one group after another: every row is in one group
  bool modulus = false;                          // as in Groups

  lrmc::Dense view() const {
    lrmc::Dense data{Y.data(), storage_of(Y.dtype()), Y.stride(0), nullptr, 0};
    need(Y.stride(1) == 1 || n2 <= 1 || n1 == 0, "Y", "has rows that are not contiguous");
    need(reinterpret_cast<uintptr_t>(Y.data()) % Y.itemsize() == 0, "Y", "is not aligned");
    need(n2 <= INT32_MAX, "Y", "has rows of more than 2^31 - 1 entries");
    if (mask) {
      need(int64_t(mask->shape(0)) == n1 && int64_t(mask->shape(1)) == n2, "mask", "has another shape than the data");
      need(mask->stride(1) == 1 || n2 <= 1 || n1 == 0, "mask", "has rows that are not contiguous");
      data.mask = mask->data();
      data.mask_stride = mask->stride(0);
    }
    return data;
  }

  std::optional<Groups> groups() const {
    if (!members) return {};
    need(int64_t(members->size()) == n1 && members->shape(1) > 0, "groups", "do not fit the data");
    std::vector<bool> named(n1);
    for (int64_t t = 0; t < n1; t++) {
      const int64_t row = members->data()[t];
      need(row >= 0 && row < n1, "groups", "name a row that is not there");
      need(!named[row], "groups", "name a row twice");
      named[row] = true;
    }
    return Groups{members->data(), int64_t(members->shape(0)), int64_t(members->shape(1)), modulus};
  }
};

struct Sparse : Data {  // CSR
  Vector<const int64_t> indptr;
  Vector<const int32_t> indices;
  Vector<nb::ro> values;

  lrmc::Sparse view() const {
    const int64_t stored = int64_t(values.shape(0));
    need(int64_t(indices.shape(0)) == stored, "indices", "and values differ in length");
    need(indptr.shape(0) > 0 && indptr.data()[0] == 0, "indptr", "does not begin at the first entry");
    need(indptr.data()[n1] == stored, "indptr", "does not end at the last entry");
    return {indptr.data(), indices.data(), values.data(), storage_of(values.dtype())};
  }
};

// ---- what a pass computes with, and where it writes. What the names mean is said where the kernels have them.

struct Factors {
  Lines L, R, P, Q, Pw, Qw;
};

struct Weight {
  Rule rule = Rule::clip;
  double z = 0;
  Line rows, cols, protect_rows, protect_cols;
  double up = 1, down = 1;
  bool squares = false, rough = false;
};

struct Room {
  LinesRoom CQ, CtP, WQ, WtP;
  LineRoom inliers, row_inliers, col_inliers, row_weight, col_weight, row_energy, col_energy, z_slope;
};

struct Slopes {
  double energy = 0, total = 0;
  LinesRoom L, R;
  LineRoom rows, cols, shape;
};

struct Regression {
  Lines V;
  Line offset, mean;
  Lines prior;
  double widest = 1, lowest = 0;
  Rule rule = Rule::mixture;
  double odds = 0, reach = 1;
  double up = 1, down = 1;
};

// The rows of a factor and their systems: what lrmc::RowStep is given, without its room.
struct RowStep {
  Lines F, pull, grams;
  Vector<const uint8_t> used;
  Vector<const double> precision, mean;
  Matrix<const double> ridge, coupling;
  double eta = 1;
};

template <class N> N *square(const Matrix<N> &X, int rank, const char *name) {
  need(int64_t(X.shape(0)) == rank && int64_t(X.shape(1)) == rank, name, "has another shape");
  return X.data();
}

template <class T> lrmc::RowStep<T> row_step_of(const RowStep &given, int threads) {
  lrmc::RowStep<T> job;
  need(bool(given.F), "F", "is missing");
  job.n = int64_t(given.F->shape(0));
  const int r = job.rank = int(given.F->shape(1));
  job.F = lines<const T>(given.F, job.n, r, "F");
  job.grams = lines<const T>(given.grams, job.n, r * (r + 1) / 2 + 1, "grams");
  need(int64_t(given.used.shape(0)) == job.n, "used", "has another length");
  need(int64_t(given.precision.shape(0)) == job.n, "precision", "has another length");
  need(int64_t(given.mean.shape(0)) == r, "mean", "has another length");
  job.used = given.used.data();
  job.precision = given.precision.data();
  job.mean = given.mean.data();
  job.ridge = square(given.ridge, r, "ridge");
  job.coupling = square(given.coupling, r, "coupling");
  job.eta = given.eta;
  job.threads = threads;
  return job;
}

// A pair of factors has as many columns: how many, 0 if both are missing.
inline int width_of(const Lines &A, const Lines &B, const char *names) {
  need(!A || !B || A->shape(1) == B->shape(1), names, "differ in their columns");
  return A ? int(A->shape(1)) : B ? int(B->shape(1)) : 0;
}

// A pass over data of this shape: its factors. Rule and room are still missing.
template <class T> Products<T> pass_of(const Data &data, const Factors &given, int threads) {
  Products<T> job;
  auto factor = [](const Lines &X, int64_t n, int width, const char *name) {
    return X ? lines<const T>(X, n, width, name) : nullptr;
  };
  job.n1 = data.n1;
  job.n2 = data.n2;
  job.gain = T(data.gain);
  job.threads = threads;
  need(bool(given.L) == bool(given.R), "L or R", "is missing");
  job.rank = width_of(given.L, given.R, "L and R");
  job.L = factor(given.L, job.n1, job.rank, "L");
  job.R = factor(given.R, job.n2, job.rank, "R");
  job.width = width_of(given.P, given.Q, "P and Q");
  job.P = factor(given.P, job.n1, job.width, "P");
  job.Q = factor(given.Q, job.n2, job.width, "Q");
  job.width_w = width_of(given.Pw, given.Qw, "Pw and Qw");
  job.Pw = factor(given.Pw, job.n1, job.width_w, "Pw");
  job.Qw = factor(given.Qw, job.n2, job.width_w, "Qw");
  return job;
}

template <class T> void weigh(Products<T> &job, const Weight &given) {
  auto &weight = job.weight;
  weight.rule = given.rule;
  weight.z = T(given.z);
  weight.up = T(given.up);
  weight.down = T(given.down);
  weight.squares = given.squares;
  weight.rough = given.rough;
  if (given.rule == Rule::clip) return need(!job.width_w, "the rule clip", "keeps no weights");
  weight.row_z = line<const T>(given.rows, job.n1, "rows");
  weight.col_z = line<const T>(given.cols, job.n2, "cols");
  weight.row_protect = line<const T>(given.protect_rows, job.n1, "protect_rows");
  weight.col_protect = line<const T>(given.protect_cols, job.n2, "protect_cols");
}

// Arrays of zeros, made by the caller.
template <class T> void write_into(Products<T> &job, const Room &room) {
  if (job.Q) job.CQ = lines<T>(room.CQ, job.n1, job.width, "CQ");
  if (job.P) job.CtP = lines<T>(room.CtP, job.n2, job.width, "CtP");
  if (job.Qw) job.WQ = lines<T>(room.WQ, job.n1, job.width_w, "WQ");
  if (job.Pw) job.WtP = lines<T>(room.WtP, job.n2, job.width_w, "WtP");
  if (job.weight.rule == Rule::clip) {
    job.inliers = line<int64_t>(room.inliers, 1, "inliers");
    return;
  }
  job.row_inliers = line<int64_t>(room.row_inliers, job.n1, "row_inliers");
  job.col_inliers = line<int64_t>(room.col_inliers, job.n2, "col_inliers");
  job.row_weight = line<T>(room.row_weight, job.n1, "row_weight");
  job.col_weight = line<T>(room.col_weight, job.n2, "col_weight");
  if (!smooth(job.weight.rule)) return;
  job.row_energy = line<double>(room.row_energy, job.n1, "row_energy");
  job.col_energy = line<double>(room.col_energy, job.n2, "col_energy");
}

// P and Q are the gradients with respect to C R and C' L; CQ, CtP and z_slope those of L, R and zeta. See adjoint.hpp.
template <class T> void reverse(Products<T> &job, double zeta, const Room &room) {
  need(job.L && job.P && job.Q && job.width == job.rank, "the adjoint", "wants four factors with as many columns");
  job.weight.z = T(zeta);
  job.adjoint = true;
  job.CQ = lines<T>(room.CQ, job.n1, job.rank, "CQ");
  job.CtP = lines<T>(room.CtP, job.n2, job.rank, "CtP");
  job.z_slope = line<double>(room.z_slope, 1, "z_slope");
}

// The products of one side, where there is room for them, and the gradients. See slopes.hpp.
template <class T> lrmc::Slopes<T> slopes_of(Products<T> &job, const Slopes &given, const Room &room) {
  need(job.weight.rule == Rule::power, "slopes", "want the rule power");
  need(job.L && job.P && job.Q && job.Pw && job.Qw, "slopes", "want all six factors");
  if (room.CQ) job.CQ = lines<T>(room.CQ, job.n1, job.width, "CQ");
  if (room.CtP) job.CtP = lines<T>(room.CtP, job.n2, job.width, "CtP");
  if (room.WQ) job.WQ = lines<T>(room.WQ, job.n1, job.width_w, "WQ");
  if (room.WtP) job.WtP = lines<T>(room.WtP, job.n2, job.width_w, "WtP");
  return {T(given.energy),
          T(given.total),
          lines<T>(given.L, job.n1, job.rank, "L"),
          lines<T>(given.R, job.n2, job.rank, "R"),
          line<double>(given.rows, job.n1, "rows"),
          line<double>(given.cols, job.n2, "cols"),
          line<double>(given.shape, 1, "shape")};
}

template <class T> lrmc::Regression<T> regression_of(const Data &data, const Regression &given, int threads) {
  lrmc::Regression<T> job;
  need(bool(given.V), "V", "is missing");
  need(given.rule == Rule::mixture || given.rule == Rule::cauchy || given.rule == Rule::huber, "regress",
       "wants a smooth rule");
  job.n1 = data.n1;
  job.n2 = data.n2;
  job.rank = int(given.V->shape(1));
  job.V = lines<const T>(given.V, data.n2, job.rank, "V");
  job.offset = line<const T>(given.offset, data.n2, "offset");
  job.mean = line<const double>(given.mean, job.rank, "mean");
  job.prior = lines<const double>(given.prior, job.rank, job.rank, "prior");
  job.gain = T(data.gain);
  job.widest = T(given.widest);
  job.lowest = T(given.lowest);
  job.loss = given.rule;
  job.odds = T(given.odds);
  job.reach = T(given.reach);
  job.up = T(given.up);
  job.down = T(given.down);
  job.threads = threads;
  return job;
}

}  // namespace lrmc::given
