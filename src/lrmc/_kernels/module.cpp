// The Python face of the kernels. Arguments were checked at the door (lrmc/observations.py); here only what would crash is.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels.hpp"
#include "team.hpp"

namespace nb = nanobind;
using namespace lrmc;

using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using AnyVector = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MaskArray = nb::ndarray<const uint8_t, nb::ndim<2>, nb::device::cpu>;
using Members = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Factor = std::optional<nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>>;
template <class T> using Side = std::optional<nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;
template <class T> using Out2 = std::optional<nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>>;
template <class T> using Out1 = std::optional<nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;
template <class T> using Line = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// m.def for functions whose arrays must come as they are. nanobind would otherwise convert an array of another type or order into a
// copy: an answer written there is lost.
template <class A> struct Given { static auto as() { return nb::arg(); } };
template <class... Traits> struct Given<nb::ndarray<Traits...>> { static auto as() { return nb::arg().noconvert(); } };
template <class... Traits> struct Given<std::optional<nb::ndarray<Traits...>>> { static auto as() { return nb::arg().noconvert().none(); } };
template <class F, class Return, class... A> static void define(nb::module_ &m, const std::string &name, F function, Return (F::*)(A...) const) {
  m.def(name.c_str(), function, Given<A>::as()...);
}
template <class F> static void define(nb::module_ &m, const std::string &name, F function) { define(m, name, function, &F::operator()); }

static std::vector<const Kernels *> available() {
  std::vector<const Kernels *> found = {&baseline::kernels};
#ifdef LRMC_AVX2
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&avx2::kernels);
#endif
#ifdef LRMC_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    found.push_back(&avx512::kernels);
#endif
  return found;
}
static const Kernels *chosen = available().back();

static Storage storage_of(nb::dlpack::dtype dtype) {
  if (dtype == nb::dtype<float>()) return Storage::f32;
  if (dtype == nb::dtype<double>()) return Storage::f64;
  if (dtype == nb::dtype<uint8_t>()) return Storage::u8;
  if (dtype == nb::dtype<int16_t>()) return Storage::i16;
  if (dtype == nb::dtype<uint16_t>()) return Storage::u16;
  throw std::invalid_argument("the kernels read float32, float64, uint8, int16 and uint16");
}
static void need(bool fits, const char *what) {
  if (!fits) throw std::invalid_argument(std::string("kernel: ") + what);
}

static Dense dense_of(const AnyMatrix &Y, const std::optional<MaskArray> &mask) {
  need(Y.stride(1) == 1 || Y.shape(1) <= 1 || Y.shape(0) == 0, "rows must be contiguous");
  need(reinterpret_cast<uintptr_t>(Y.data()) % Y.itemsize() == 0, "numbers must be aligned");
  need(Y.shape(1) <= INT32_MAX, "rows have at most 2^31 - 1 entries");
  Dense data{Y.data(), storage_of(Y.dtype()), Y.stride(0), nullptr, 0};
  if (mask) {
    need(mask->shape(0) == Y.shape(0) && mask->shape(1) == Y.shape(1), "mask and data differ in shape");
    need(mask->stride(1) == 1 || mask->shape(1) <= 1 || mask->shape(0) == 0, "rows of the mask must be contiguous");
    data.mask = mask->data();
    data.mask_stride = mask->stride(0);
  }
  return data;
}
// Groups of rows: every row is in one of them.
static std::optional<Groups> groups_of(const std::optional<Members> &members, size_t n1) {
  if (!members) return {};
  need(members->size() == n1 && members->shape(1) > 0, "groups do not fit the data");
  std::vector<bool> named(n1);
  for (size_t t = 0; t < n1; t++) {
    const int64_t row = members->data()[t];
    need(row >= 0 && row < int64_t(n1), "groups name a row that is not there");
    need(!named[row], "groups name a row twice");
    named[row] = true;
  }
  return Groups{members->data(), int64_t(members->shape(0)), int64_t(members->shape(1))};
}
static Sparse sparse_of(const nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig> &indptr,
                        const nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig> &indices, const AnyVector &values) {
  need(indices.shape(0) == values.shape(0), "indices and values differ in length");
  need(indptr.shape(0) > 0 && indptr.data()[0] == 0, "indptr does not begin at the first entry");
  need(indptr.data()[indptr.shape(0) - 1] == int64_t(values.shape(0)), "indptr does not end at the last entry");
  return {indptr.data(), indices.data(), values.data(), storage_of(values.dtype())};
}

// Everything about a pass but the data. The outputs are arrays of zeros made by the caller.
template <class T> struct Job {
  Products<T> products;
  Job(int64_t n1, int64_t n2, const Factor<T> &L, const Factor<T> &R, const Factor<T> &P, const Factor<T> &Q,
      const Factor<T> &Pw, const Factor<T> &Qw, double gain, int threads) {
    auto &job = products;
    job.n1 = n1;
    job.n2 = n2;
    job.gain = T(gain);
    job.threads = threads;
    need(bool(L) == bool(R), "one factor of the model is missing");
    if (L) {
      need(int64_t(L->shape(0)) == n1 && int64_t(R->shape(0)) == n2 && L->shape(1) == R->shape(1), "factors do not fit the data");
      job.rank = int(L->shape(1));
      job.L = L->data();
      job.R = R->data();
    }
    if (P) {
      need(int64_t(P->shape(0)) == n1, "P does not fit the data");
      job.width = int(P->shape(1));
      job.P = P->data();
    }
    if (Q) {
      need(int64_t(Q->shape(0)) == n2 && (!P || P->shape(1) == Q->shape(1)), "Q does not fit the data");
      job.width = int(Q->shape(1));
      job.Q = Q->data();
    }
    if (Pw) {
      need(int64_t(Pw->shape(0)) == n1, "Pw does not fit the data");
      job.width_w = int(Pw->shape(1));
      job.Pw = Pw->data();
    }
    if (Qw) {
      need(int64_t(Qw->shape(0)) == n2 && (!Pw || Pw->shape(1) == Qw->shape(1)), "Qw does not fit the data");
      job.width_w = int(Qw->shape(1));
      job.Qw = Qw->data();
    }
  }
  void weigh(int rule, double z, const Side<T> &row_z, const Side<T> &col_z, const Side<T> &row_protect, const Side<T> &col_protect,
             double up, double down, bool squares) {
    auto &w = products.weight;
    need(rule >= int(Rule::clip) && rule <= int(Rule::mixture), "there is no such rule");
    w = {Rule(rule), T(z), nullptr, nullptr, nullptr, nullptr, squares, T(up), T(down)};
    if (w.rule == Rule::clip) return;
    auto take = [](const Side<T> &side, int64_t n) {
      need(side && int64_t(side->shape(0)) == n, "a threshold per row and column is wanted");
      return side->data();
    };
    w.row_z = take(row_z, products.n1);
    w.col_z = take(col_z, products.n2);
    w.row_protect = take(row_protect, products.n1);
    w.col_protect = take(col_protect, products.n2);
  }
  // P and Q are the gradients with respect to C R and C' L; see adjoint.hpp.
  void reverse(double zeta, const Out2<T> &GL, const Out2<T> &GR, const Out1<double> &zeta_bar) {
    auto &job = products;
    need(job.L && job.P && job.Q && job.width == job.rank, "the adjoint wants four factors with as many columns");
    need(GL && int64_t(GL->shape(0)) == job.n1 && int(GL->shape(1)) == job.rank, "GL has another shape");
    need(GR && int64_t(GR->shape(0)) == job.n2 && int(GR->shape(1)) == job.rank, "GR has another shape");
    need(zeta_bar && zeta_bar->shape(0) == 1, "zeta_bar has another shape");
    job.weight.z = T(zeta);
    job.adjoint = true;
    job.CQ = GL->data();
    job.CtP = GR->data();
    job.energy = zeta_bar->data();
  }
  void into(const Out2<T> &CQ, const Out2<T> &CtP, const Out2<T> &WQ, const Out2<T> &WtP, const Out1<double> &energy, const Out1<int64_t> &row_inliers, const Out1<int64_t> &col_inliers,
            const Out1<T> &row_weight, const Out1<T> &col_weight) {
    auto &job = products;
    auto fits = [&](const auto &out, int64_t n) { return out && int64_t(out->shape(0)) == n; };
    need(!job.Q || (fits(CQ, job.n1) && int(CQ->shape(1)) == job.width), "CQ has another shape");
    need(!job.P || (fits(CtP, job.n2) && int(CtP->shape(1)) == job.width), "CtP has another shape");
    need(!job.Qw || (fits(WQ, job.n1) && int(WQ->shape(1)) == job.width_w), "WQ has another shape");
    need(!job.Pw || (fits(WtP, job.n2) && int(WtP->shape(1)) == job.width_w), "WtP has another shape");
    need(!job.width_w || job.weight.rule != Rule::clip, "the rule clip keeps no weights");
    need(fits(row_inliers, job.n1), "row_inliers has another shape");
    if (job.Qw) job.WQ = WQ->data();
    if (job.Pw) job.WtP = WtP->data();
    if (job.Q) job.CQ = CQ->data();
    if (job.P) job.CtP = CtP->data();
    job.row_inliers = row_inliers->data();
    if (job.weight.rule == Rule::clip) return;
    need(fits(energy, 1) && fits(col_inliers, job.n2) && fits(row_weight, job.n1) && fits(col_weight, job.n2), "sums have another shape");
    job.energy = energy->data();
    job.col_inliers = col_inliers->data();
    job.row_weight = row_weight->data();
    job.col_weight = col_weight->data();
  }
};

template <class T> static void run(const Dense &data, const Products<T> &job, const std::optional<Groups> &groups) {
  need(data.storage == Storage::f64 ? sizeof(T) == 8 : sizeof(T) == 4, "factors and data differ in precision");
  nb::gil_scoped_release unlocked;
  if constexpr (sizeof(T) == 4) groups ? chosen->grouped_f32(data, *groups, job) : chosen->dense_f32(data, job);
  else groups ? chosen->grouped_f64(data, *groups, job) : chosen->dense_f64(data, job);
}
template <class T> static void run(const Sparse &data, const Products<T> &job) {
  need(data.storage == Storage::f64 ? sizeof(T) == 8 : sizeof(T) == 4, "factors and data differ in precision");
  nb::gil_scoped_release unlocked;
  if constexpr (sizeof(T) == 4) chosen->sparse_f32(data, job);
  else chosen->sparse_f64(data, job);
}

template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Room2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Room1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
static Regression<T> regression(int64_t n1, double gain, const In2<T> &V, const In1<T> &offset, const In1<double> &mean, const In2<double> &prior, double widest,
                                double lowest, int loss, double odds, double reach, double up, double down, const Room2<T> &scores, const Room1<T> &deviation,
                                const Room1<T> &distance, int threads) {
  const int64_t n2 = V.shape(0), r = V.shape(1);
  need(int64_t(offset.shape(0)) == n2 && int64_t(mean.shape(0)) == r && int64_t(prior.shape(0)) == r && int64_t(prior.shape(1)) == r, "regress: the model has another shape");
  need(int64_t(scores.shape(0)) == n1 && int64_t(scores.shape(1)) == r && int64_t(deviation.shape(0)) == n1 && int64_t(distance.shape(0)) == n1, "regress: the answers have another shape");
  need(Rule(loss) == Rule::mixture || Rule(loss) == Rule::cauchy || Rule(loss) == Rule::huber, "regress: a smooth rule is wanted");
  Regression<T> job;
  job.n1 = n1;
  job.n2 = n2;
  job.rank = int(r);
  job.V = V.data();
  job.offset = offset.data();
  job.mean = mean.data();
  job.prior = prior.data();
  job.gain = T(gain);
  job.widest = T(widest);
  job.lowest = T(lowest);
  job.loss = Rule(loss);
  job.odds = T(odds);
  job.reach = T(reach);
  job.up = T(up);
  job.down = T(down);
  job.scores = scores.data();
  job.deviation = deviation.data();
  job.distance = distance.data();
  job.threads = threads;
  return job;
}
template <class T, class Data> static void run(const Data &data, const Regression<T> &job) {
  need(data.storage == Storage::f64 ? sizeof(T) == 8 : sizeof(T) == 4, "model and data differ in precision");
  nb::gil_scoped_release unlocked;
  if constexpr (std::is_same_v<Data, Dense>) {
    if constexpr (sizeof(T) == 4) chosen->regress_dense_f32(data, job);
    else chosen->regress_dense_f64(data, job);
  } else {
    if constexpr (sizeof(T) == 4) chosen->regress_sparse_f32(data, job);
    else chosen->regress_sparse_f64(data, job);
  }
}
// A CSR matrix whose every index names a row of a factor.
static void need_indices(const In1<int64_t> &indptr, const In1<int32_t> &indices, size_t stored, size_t rows) {
  const size_t last = indptr.shape(0) - 1;
  need(indptr.data()[0] == 0 && indptr.data()[last] == int64_t(stored) && indices.shape(0) == stored, "indptr, indices and values differ in length");
  need(std::is_sorted(indptr.data(), indptr.data() + last + 1), "indptr falls");
  need(std::all_of(indices.data(), indices.data() + stored, [&](int32_t j) { return j >= 0 && size_t(j) < rows; }), "an index names no row of the factor");
}
// Room for the k-th largest residuals, and how many each row and column has.
template <class T> static Magnitudes<T> magnitudes_of(const Products<T> &job, const Counts &row_k, const Counts &col_k, const Line<T> &rows, const Line<T> &cols) {
  auto fits = [](const auto &x, int64_t n) { return int64_t(x.shape(0)) == n; };
  need(fits(row_k, job.n1) && fits(rows, job.n1) && fits(col_k, job.n2) && fits(cols, job.n2), "magnitudes: counts have another shape");
  return {row_k.data(), col_k.data(), rows.data(), cols.data()};
}

template <class T> static void bind(nb::module_ &m, const char *suffix) {
  using Indptr = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig>;
  using Indices = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig>;
  define(m, std::string("dense_") + suffix,
        [](AnyMatrix Y, std::optional<MaskArray> mask, std::optional<Members> members, double gain, Factor<T> L, Factor<T> R, Factor<T> P, Factor<T> Q, Factor<T> Pw,
           Factor<T> Qw, int rule, double z, Side<T> row_z, Side<T> col_z, Side<T> row_protect, Side<T> col_protect, double up, double down, bool squares, Out2<T> CQ, Out2<T> CtP, Out2<T> WQ, Out2<T> WtP,
           Out1<double> energy, Out1<int64_t> row_inliers, Out1<int64_t> col_inliers, Out1<T> row_weight, Out1<T> col_weight, int threads) {
          Job<T> job(Y.shape(0), Y.shape(1), L, R, P, Q, Pw, Qw, gain, threads);
          job.weigh(rule, z, row_z, col_z, row_protect, col_protect, up, down, squares);
          job.into(CQ, CtP, WQ, WtP, energy, row_inliers, col_inliers, row_weight, col_weight);
          run(dense_of(Y, mask), job.products, groups_of(members, Y.shape(0)));
        });
  define(m, std::string("sparse_") + suffix,
        [](Indptr indptr, Indices indices, AnyVector values, int64_t n2, double gain, Factor<T> L, Factor<T> R, Factor<T> P, Factor<T> Q,
           Factor<T> Pw, Factor<T> Qw, int rule, double z, Side<T> row_z, Side<T> col_z, Side<T> row_protect, Side<T> col_protect, double up, double down, bool squares, Out2<T> CQ,
           Out2<T> CtP, Out2<T> WQ, Out2<T> WtP, Out1<double> energy, Out1<int64_t> row_inliers, Out1<int64_t> col_inliers, Out1<T> row_weight, Out1<T> col_weight, int threads) {
          Job<T> job(int64_t(indptr.shape(0)) - 1, n2, L, R, P, Q, Pw, Qw, gain, threads);
          job.weigh(rule, z, row_z, col_z, row_protect, col_protect, up, down, squares);
          job.into(CQ, CtP, WQ, WtP, energy, row_inliers, col_inliers, row_weight, col_weight);
          run(sparse_of(indptr, indices, values), job.products);
        });
  define(m, std::string("adjoint_dense_") + suffix,
        [](AnyMatrix Y, std::optional<MaskArray> mask, double gain, Factor<T> L, Factor<T> R, double zeta, Factor<T> Ab, Factor<T> Bb,
           Out2<T> GL, Out2<T> GR, Out1<double> zeta_bar, int threads) {
          Job<T> job(Y.shape(0), Y.shape(1), L, R, Ab, Bb, {}, {}, gain, threads);
          job.reverse(zeta, GL, GR, zeta_bar);
          run(dense_of(Y, mask), job.products, {});
        });
  define(m, std::string("adjoint_sparse_") + suffix,
        [](Indptr indptr, Indices indices, AnyVector values, int64_t n2, double gain, Factor<T> L, Factor<T> R, double zeta, Factor<T> Ab,
           Factor<T> Bb, Out2<T> GL, Out2<T> GR, Out1<double> zeta_bar, int threads) {
          Job<T> job(int64_t(indptr.shape(0)) - 1, n2, L, R, Ab, Bb, {}, {}, gain, threads);
          job.reverse(zeta, GL, GR, zeta_bar);
          run(sparse_of(indptr, indices, values), job.products);
        });
  define(m, std::string("magnitudes_dense_") + suffix,
        [](AnyMatrix Y, std::optional<MaskArray> mask, double gain, Factor<T> L, Factor<T> R, Counts row_k, Counts col_k, Line<T> rows,
           Line<T> cols, int threads) {
          Job<T> job(Y.shape(0), Y.shape(1), L, R, {}, {}, {}, {}, gain, threads);
          const Dense data = dense_of(Y, mask);
          const Magnitudes<T> out = magnitudes_of(job.products, row_k, col_k, rows, cols);
          need(data.storage == Storage::f64 ? sizeof(T) == 8 : sizeof(T) == 4, "factors and data differ in precision");
          nb::gil_scoped_release unlocked;
          if constexpr (sizeof(T) == 4) chosen->dense_magnitudes_f32(data, job.products, out);
          else chosen->dense_magnitudes_f64(data, job.products, out);
        });
  define(m, std::string("magnitudes_sparse_") + suffix,
        [](Indptr indptr, Indices indices, AnyVector values, int64_t n2, double gain, Factor<T> L, Factor<T> R, Counts row_k, Counts col_k,
           Line<T> rows, Line<T> cols, int threads) {
          Job<T> job(int64_t(indptr.shape(0)) - 1, n2, L, R, {}, {}, {}, {}, gain, threads);
          const Sparse data = sparse_of(indptr, indices, values);
          const Magnitudes<T> out = magnitudes_of(job.products, row_k, col_k, rows, cols);
          need(data.storage == Storage::f64 ? sizeof(T) == 8 : sizeof(T) == 4, "factors and data differ in precision");
          nb::gil_scoped_release unlocked;
          if constexpr (sizeof(T) == 4) chosen->sparse_magnitudes_f32(data, job.products, out);
          else chosen->sparse_magnitudes_f64(data, job.products, out);
        });
  define(m, std::string("solve_rows_") + suffix,
        [](nb::ndarray<const T, nb::ndim<2>, nb::c_contig> H, nb::ndarray<const T, nb::ndim<2>, nb::c_contig> B,
           nb::ndarray<const double, nb::ndim<2>, nb::c_contig> ridge, nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig> used,
           nb::ndarray<T, nb::ndim<2>, nb::c_contig> X, std::optional<nb::ndarray<double, nb::ndim<2>, nb::c_contig>> mean_inverse, int threads) {
          const size_t n = B.shape(0), r = B.shape(1);
          need(H.shape(0) == n && H.shape(1) == r * (r + 1) / 2 && X.shape(0) == n && X.shape(1) == r && used.shape(0) == n, "rows: shapes differ");
          need(ridge.shape(0) == r && ridge.shape(1) == r && (!mean_inverse || (mean_inverse->shape(0) == r && mean_inverse->shape(1) == r)), "rows: ridge has another shape");
          RowSystems systems{int64_t(n), int(r), ridge.data(), used.data(), mean_inverse ? mean_inverse->data() : nullptr, threads};
          nb::gil_scoped_release unlocked;
          solve_rows<T>(systems, H.data(), B.data(), X.data());
        });
  define(m, std::string("regress_dense_") + suffix,
        [](AnyMatrix Y, std::optional<MaskArray> mask, double gain, In2<T> V, In1<T> offset, In1<double> mean, In2<double> prior, double widest,
           double lowest, int loss, double odds, double reach, double up, double down, Room2<T> scores, Room1<T> deviation, Room1<T> distance, int threads) {
          need(Y.shape(1) == V.shape(0), "regress: V does not fit the data");
          auto job = regression<T>(Y.shape(0), gain, V, offset, mean, prior, widest, lowest, loss, odds, reach, up, down, scores, deviation, distance, threads);
          run(dense_of(Y, mask), job);
        });
  define(m, std::string("regress_sparse_") + suffix,
        [](Indptr indptr, Indices indices, AnyVector values, double gain, In2<T> V, In1<T> offset, In1<double> mean, In2<double> prior, double widest,
           double lowest, int loss, double odds, double reach, double up, double down, Room2<T> scores, Room1<T> deviation, Room1<T> distance, int threads) {
          auto job = regression<T>(int64_t(indptr.shape(0)) - 1, gain, V, offset, mean, prior, widest, lowest, loss, odds, reach, up, down, scores, deviation, distance, threads);
          run(sparse_of(indptr, indices, values), job);
        });
  define(m, std::string("residual_") + suffix,
        [](Indptr indptr, Indices indices, AnyVector values, double gain, Factor<T> L, Factor<T> R,
           nb::ndarray<T, nb::ndim<1>, nb::c_contig> out, int threads) {
          need(R.has_value() && out.shape(0) == values.shape(0), "residual: factors and room are wanted");
          Job<T> job(int64_t(indptr.shape(0)) - 1, int64_t(R->shape(0)), L, R, {}, {}, {}, {}, gain, threads);
          Sparse data = sparse_of(indptr, indices, values);
          need(data.storage == Storage::f64 ? sizeof(T) == 8 : sizeof(T) == 4, "factors and data differ in precision");
          nb::gil_scoped_release unlocked;
          if constexpr (sizeof(T) == 4) chosen->residual_f32(data, job.products, out.data());
          else chosen->residual_f64(data, job.products, out.data());
        });
}

// Reads n bytes once, all threads together: the time that no pass over the same data can beat.
static uint64_t read_once(const char *bytes, int64_t n, int threads) {
  const int64_t words = n / 8;
  const int shares = shares_of(threads, words);
  std::vector<uint64_t> sums(shares);
  in_shares(shares, [&](int t) {
    uint64_t sum = 0;
    for (int64_t i = words * t / shares; i < words * (t + 1) / shares; i++) {
      uint64_t word;
      __builtin_memcpy(&word, bytes + 8 * i, 8);
      sum += word;
    }
    sums[t] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), uint64_t(0));
}

NB_MODULE(_native, m) {
  bind<float>(m, "float32");
  bind<double>(m, "float64");
  define(m, "survey", [](AnyMatrix Y, std::optional<MaskArray> mask, nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig> rows,
                     nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig> cols, int threads) {
    need(rows.shape(0) == Y.shape(0) && cols.shape(0) == Y.shape(1), "survey: sums have another shape");
    Survey out{rows.data(), cols.data(), 0};
    Dense data = dense_of(Y, mask);
    nb::gil_scoped_release unlocked;
    chosen->survey(data, Y.shape(0), Y.shape(1), out, threads);
    return out.infinite;
  });
  define(m, "read_once", [](nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> X, int threads) {
    nb::gil_scoped_release unlocked;
    return read_once(static_cast<const char *>(X.data()), int64_t(X.nbytes()), threads);
  });
  // Where entry (i, j) is stored, or -1. Columns of a row must be sorted.
  define(m, "locate", [](nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig> indptr, nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig> indices,
                     nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig> rows, nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig> cols,
                     nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig> out) {
    need(rows.shape(0) == cols.shape(0) && rows.shape(0) == out.shape(0), "locate: lengths differ");
    for (size_t t = 0; t < rows.shape(0); t++) {
      const int64_t i = rows.data()[t];
      need(i >= 0 && i + 1 < int64_t(indptr.shape(0)), "locate: no such row");
      const int32_t *first = indices.data() + indptr.data()[i], *last = indices.data() + indptr.data()[i + 1];
      const int32_t *found = std::lower_bound(first, last, cols.data()[t]);
      out.data()[t] = found != last && *found == cols.data()[t] ? found - indices.data() : -1;
    }
  });
  define(m, "consensus", [](In1<int64_t> indptr, In1<int32_t> indices, In1<double> values, In2<double> G, double border, int64_t draws, uint64_t seed,
                        Room2<double> F, Room1<int64_t> agreeing, int threads) {
    const size_t n = F.shape(0), r = F.shape(1);
    need(indptr.shape(0) == n + 1 && agreeing.shape(0) == n && G.shape(1) == r && r > 0, "consensus: shapes differ");
    need_indices(indptr, indices, values.shape(0), G.shape(0));
    const Consensus job{int64_t(n), int(r), indptr.data(), indices.data(), values.data(), G.data(), border, draws, seed, F.data(), agreeing.data(), threads};
    nb::gil_scoped_release unlocked;
    consensus(job);
  });
  define(m, "newton", [](In1<int64_t> indptr, In1<int32_t> indices, In1<double> errors, In1<double> weights, In2<double> U, In2<double> V, double ridge,
                     double tol, int64_t most, Room2<double> step) {
    const size_t n1 = U.shape(0), n2 = V.shape(0), r = U.shape(1);
    need(indptr.shape(0) == n1 + 1 && V.shape(1) == r && step.shape(0) == n1 + n2 && step.shape(1) == r && r > 0, "newton: shapes differ");
    need(errors.shape(0) == weights.shape(0), "newton: residuals and weights differ in length");
    need_indices(indptr, indices, errors.shape(0), n2);
    const Newton job{int64_t(n1), int64_t(n2), int(r), indptr.data(), indices.data(), errors.data(), weights.data(), U.data(), V.data(), ridge, tol, most, step.data()};
    nb::gil_scoped_release unlocked;
    return newton(job);
  });
  m.def("instruction_sets", [] {
    std::vector<std::string> names;
    for (auto *kernels : available()) names.push_back(kernels->name);
    return names;
  });
  m.def("instruction_set", [] { return std::string(chosen->name); });
  m.def("use_instruction_set", [](const std::string &name) {
    for (auto *kernels : available())
      if (name == kernels->name) return void(chosen = kernels);
    throw std::invalid_argument("this machine has no instruction set " + name);
  });
  m.def("max_threads", &max_threads);
  m.def("most_threads", [] { return shares_of(INT64_MAX, INT64_MAX); });
}
