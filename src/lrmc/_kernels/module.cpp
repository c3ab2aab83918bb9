// The Python face of the kernels. Everything but data, factors, a rule and room is given by name; `_native.pyi` says
// the same to type checkers.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "binding.hpp"
#include "team.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

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
const Kernels &lrmc::in_use() { return *chosen; }

// ---- what passes take

static void bind_data(nb::module_ &m) {
  nb::class_<given::Dense>(m, "DenseData")
      .def(
          "__init__",
          [](given::Dense *self, given::Entries Y, std::optional<given::Mask> mask,
             std::optional<given::Matrix<const int64_t>> members, bool modulus, double gain) {
            const given::Data shape{int64_t(Y.shape(0)), int64_t(Y.shape(1)), gain};
            new (self) given::Dense{shape, std::move(Y), std::move(mask), std::move(members), modulus};
          },
          as_it_is("Y"), nb::kw_only(), as_it_is_or_none("mask"), as_it_is_or_none("members"),
          nb::arg("modulus") = false, nb::arg("gain") = 1.0);
  nb::class_<given::Sparse>(m, "SparseData")
      .def(
          "__init__",
          [](given::Sparse *self, given::Vector<const int64_t> indptr, given::Vector<const int32_t> indices,
             given::Vector<nb::ro> values, int64_t n2, double gain) {
            const given::Data shape{int64_t(indptr.shape(0)) - 1, n2, gain};
            new (self) given::Sparse{shape, std::move(indptr), std::move(indices), std::move(values)};
          },
          nb::kw_only(), as_it_is("indptr"), as_it_is("indices"), as_it_is("values"), nb::arg("n2"),
          nb::arg("gain") = 1.0);
}

static void bind_weights(nb::module_ &m) {
  nb::enum_<Rule>(m, "Rule")
      .value("clip", Rule::clip)
      .value("threshold", Rule::threshold)
      .value("cauchy", Rule::cauchy)
      .value("huber", Rule::huber)
      .value("mixture", Rule::mixture)
      .value("power", Rule::power);
  nb::class_<given::Weight>(m, "Weight")
      .def(
          "__init__",
          [](given::Weight *self, Rule rule, double z, given::Line rows, given::Line cols, given::Line protect_rows,
             given::Line protect_cols, double up, double down, bool squares, bool rough) {
            new (self) given::Weight{rule,
                                     z,
                                     std::move(rows),
                                     std::move(cols),
                                     std::move(protect_rows),
                                     std::move(protect_cols),
                                     up,
                                     down,
                                     squares,
                                     rough};
          },
          as_it_is("rule"), nb::kw_only(), nb::arg("z") = 0.0, as_it_is_or_none("rows"), as_it_is_or_none("cols"),
          as_it_is_or_none("protect_rows"), as_it_is_or_none("protect_cols"), nb::arg("up") = 1.0,
          nb::arg("down") = 1.0, nb::arg("squares") = false, nb::arg("rough") = false);
}

static void bind_factors(nb::module_ &m) {
  nb::class_<given::Factors>(m, "Factors")
      .def(
          "__init__",
          [](given::Factors *self, given::Lines L, given::Lines R, given::Lines P, given::Lines Q, given::Lines Pw,
             given::Lines Qw) {
            new (self)
                given::Factors{std::move(L), std::move(R), std::move(P), std::move(Q), std::move(Pw), std::move(Qw)};
          },
          nb::kw_only(), as_it_is_or_none("L"), as_it_is_or_none("R"), as_it_is_or_none("P"), as_it_is_or_none("Q"),
          as_it_is_or_none("Pw"), as_it_is_or_none("Qw"));
  nb::class_<given::Room>(m, "Room").def(
      "__init__",
      [](given::Room *self, given::LinesRoom CQ, given::LinesRoom CtP, given::LinesRoom WQ, given::LinesRoom WtP,
         given::LineRoom inliers, given::LineRoom row_inliers, given::LineRoom col_inliers, given::LineRoom row_weight,
         given::LineRoom col_weight, given::LineRoom row_energy, given::LineRoom col_energy, given::LineRoom z_slope) {
        new (self)
            given::Room{std::move(CQ),         std::move(CtP),         std::move(WQ),          std::move(WtP),
                        std::move(inliers),    std::move(row_inliers), std::move(col_inliers), std::move(row_weight),
                        std::move(col_weight), std::move(row_energy),  std::move(col_energy),  std::move(z_slope)};
      },
      nb::kw_only(), as_it_is_or_none("CQ"), as_it_is_or_none("CtP"), as_it_is_or_none("WQ"), as_it_is_or_none("WtP"),
      as_it_is_or_none("inliers"), as_it_is_or_none("row_inliers"), as_it_is_or_none("col_inliers"),
      as_it_is_or_none("row_weight"), as_it_is_or_none("col_weight"), as_it_is_or_none("row_energy"),
      as_it_is_or_none("col_energy"), as_it_is_or_none("z_slope"));
  nb::class_<given::Regression>(m, "Regression")
      .def(
          "__init__",
          [](given::Regression *self, Rule rule, given::Lines V, given::Line offset, given::Line mean,
             given::Lines prior, double widest, double lowest, double odds, double reach, double up, double down) {
            new (self) given::Regression{std::move(V),
                                         std::move(offset),
                                         std::move(mean),
                                         std::move(prior),
                                         widest,
                                         lowest,
                                         rule,
                                         odds,
                                         reach,
                                         up,
                                         down};
          },
          as_it_is("rule"), nb::kw_only(), as_it_is("V"), as_it_is("offset"), as_it_is("mean"), as_it_is("prior"),
          nb::arg("widest"), nb::arg("lowest"), nb::arg("odds"), nb::arg("reach"), nb::arg("up") = 1.0,
          nb::arg("down") = 1.0);
}

// ---- passes over dense or sparse data, in the precision of the data

template <class T> static void run(const given::Dense &data, const Products<T> &job) {
  const lrmc::Dense view = data.view();
  const std::optional<Groups> groups = data.groups();
  nb::gil_scoped_release unlocked;
  groups ? chosen->in<T>().grouped(view, *groups, job) : chosen->in<T>().dense(view, job);
}
template <class T> static void run(const given::Sparse &data, const Products<T> &job) {
  const lrmc::Sparse view = data.view();
  nb::gil_scoped_release unlocked;
  chosen->in<T>().sparse(view, job);
}
template <class T> static void run(const given::Dense &data, const Products<T> &job, const Magnitudes<T> &out) {
  const lrmc::Dense view = data.view();
  nb::gil_scoped_release unlocked;
  chosen->in<T>().magnitudes_dense(view, job, out);
}
template <class T> static void run(const given::Sparse &data, const Products<T> &job, const Magnitudes<T> &out) {
  const lrmc::Sparse view = data.view();
  nb::gil_scoped_release unlocked;
  chosen->in<T>().magnitudes_sparse(view, job, out);
}
template <class T> static void run(const given::Dense &data, const lrmc::Regression<T> &job) {
  const lrmc::Dense view = data.view();
  nb::gil_scoped_release unlocked;
  chosen->in<T>().regress_dense(view, job);
}
template <class T> static void run(const given::Sparse &data, const lrmc::Regression<T> &job) {
  const lrmc::Sparse view = data.view();
  nb::gil_scoped_release unlocked;
  chosen->in<T>().regress_sparse(view, job);
}

template <class Data> static void bind_passes(nb::module_ &m) {
  m.def(
      "products",
      [](const Data &data, const given::Factors &factors, const given::Weight &weight, const given::Room &room,
         int threads) {
        given::in_precision(data.view().storage, [&](auto number) {
          auto job = given::pass_of<decltype(number)>(data, factors, threads);
          given::weigh(job, weight);
          given::write_into(job, room);
          run(data, job);
        });
      },
      nb::arg("data"), nb::arg("factors"), nb::arg("weight"), nb::arg("room"), nb::kw_only(), nb::arg("threads"));
  m.def(
      "adjoint",
      [](const Data &data, const given::Factors &factors, const given::Room &room, double zeta, int threads) {
        given::in_precision(data.view().storage, [&](auto number) {
          auto job = given::pass_of<decltype(number)>(data, factors, threads);
          given::reverse(job, zeta, room);
          run(data, job);
        });
      },
      nb::arg("data"), nb::arg("factors"), nb::arg("room"), nb::kw_only(), nb::arg("zeta"), nb::arg("threads"));
  m.def(
      "magnitudes",
      [](const Data &data, const given::Factors &factors, given::Line row_k, given::Line col_k, given::LineRoom rows,
         given::LineRoom cols, int threads) {
        given::in_precision(data.view().storage, [&](auto number) {
          using T = decltype(number);
          const auto job = given::pass_of<T>(data, factors, threads);
          Magnitudes<T> out;
          out.row_k = given::line<const int64_t>(row_k, job.n1, "row_k");
          out.col_k = given::line<const int64_t>(col_k, job.n2, "col_k");
          out.rows = given::line<T>(rows, job.n1, "rows");
          out.cols = given::line<T>(cols, job.n2, "cols");
          run(data, job, out);
        });
      },
      nb::arg("data"), nb::arg("factors"), nb::kw_only(), as_it_is("row_k"), as_it_is("col_k"), as_it_is("rows"),
      as_it_is("cols"), nb::arg("threads"));
  m.def(
      "regress",
      [](const Data &data, const given::Regression &model, given::LinesRoom scores, given::LineRoom deviation,
         given::LineRoom distance, int threads) {
        given::in_precision(data.view().storage, [&](auto number) {
          using T = decltype(number);
          auto job = given::regression_of<T>(data, model, threads);
          job.scores = given::lines<T>(scores, job.n1, job.rank, "scores");
          job.deviation = given::line<T>(deviation, job.n1, "deviation");
          job.distance = given::line<T>(distance, job.n1, "distance");
          run(data, job);
        });
      },
      nb::arg("data"), nb::arg("model"), nb::kw_only(), as_it_is("scores"), as_it_is("deviation"), as_it_is("distance"),
      nb::arg("threads"));
}

static void residual(const given::Sparse &data, const given::Factors &factors, given::LineRoom out, int threads) {
  const lrmc::Sparse view = data.view();
  given::in_precision(view.storage, [&](auto number) {
    using T = decltype(number);
    const auto job = given::pass_of<T>(data, factors, threads);
    need(job.L, "residual", "wants L and R");
    T *room = given::line<T>(out, int64_t(data.values.shape(0)), "out");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().residual(view, job, room);
  });
}

static void slopes(const given::Sparse &data, const given::Factors &factors, const given::Weight &weight,
                   const given::Room &room, given::LinesRoom L, given::LinesRoom R, given::LineRoom rows,
                   given::LineRoom cols, given::LineRoom shape, double energy, double total, int threads) {
  const lrmc::Sparse view = data.view();
  const given::Slopes wanted{energy,          total,           std::move(L),    std::move(R),
                             std::move(rows), std::move(cols), std::move(shape)};
  given::in_precision(view.storage, [&](auto number) {
    using T = decltype(number);
    auto job = given::pass_of<T>(data, factors, threads);
    given::weigh(job, weight);
    const auto out = given::slopes_of<T>(job, wanted, room);
    nb::gil_scoped_release unlocked;
    chosen->in<T>().slopes(view, job, out);
  });
}

static int64_t survey(const given::Dense &data, given::Vector<int64_t> rows, given::Vector<int64_t> cols, int threads) {
  const lrmc::Dense view = data.view();
  need(int64_t(rows.shape(0)) == data.n1, "rows", "has another length than the data");
  need(int64_t(cols.shape(0)) == data.n2, "cols", "has another length than the data");
  Survey out{rows.data(), cols.data(), 0};
  nb::gil_scoped_release unlocked;
  chosen->survey(view, data.n1, data.n2, out, threads);
  return out.infinite;
}

static void compress(const given::Dense &data, given::Vector<const int64_t> indptr, given::Vector<int32_t> indices,
                     nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu> values, bool by_column) {
  const lrmc::Dense view = data.view();
  const int64_t lines = by_column ? data.n2 : data.n1;
  need(int64_t(indptr.shape(0)) == lines + 1, "indptr", "has another length than the data");
  need(values.dtype() == data.Y.dtype(), "values", "have another type than the data");
  need(indices.shape(0) == values.shape(0), "indices", "and values differ in length");
  need(indptr.data()[lines] == int64_t(values.shape(0)), "indptr", "does not end at the last entry");
  need(data.n1 <= INT32_MAX, "Y", "has more than 2^31 - 1 rows");
  nb::gil_scoped_release unlocked;
  chosen->compress(view, data.n1, data.n2, {indptr.data(), indices.data(), values.data(), by_column});
}

// The first of n sorted columns that is not below `col`, without a branch: nobody can foresee where it is.
static const int32_t *first_from(const int32_t *at, int64_t n, int64_t col) {
  for (; n > 1; n -= n / 2) at += at[n / 2 - 1] < col ? n / 2 : 0;
  return n && *at < col ? at + 1 : at;
}

// Where entry (i, j) is stored, or -1. Columns of a row must be sorted.
static void locate(given::Vector<const int64_t> indptr, given::Vector<const int32_t> indices,
                   given::Vector<const int64_t> rows, given::Vector<const int64_t> cols, given::Vector<int64_t> out) {
  need(rows.shape(0) == cols.shape(0) && rows.shape(0) == out.shape(0), "locate:", "lengths differ");
  for (size_t t = 0; t < rows.shape(0); t++) {
    const int64_t i = rows.data()[t];
    need(i >= 0 && i + 1 < int64_t(indptr.shape(0)), "locate:", "no such row");
    const int32_t *first = indices.data() + indptr.data()[i], *last = indices.data() + indptr.data()[i + 1];
    const int32_t *found = first_from(first, last - first, cols.data()[t]);
    out.data()[t] = found != last && *found == cols.data()[t] ? found - indices.data() : -1;
  }
}

// ---- beside the data

static void solve_rows(given::Lines H, given::Lines B, given::Matrix<const double> ridge,
                       given::Vector<const uint8_t> used, given::LinesRoom X,
                       std::optional<given::Matrix<double>> mean_inverse, int threads) {
  given::in_precision(given::storage_of(B->dtype()), [&](auto number) {
    using T = decltype(number);
    RowSystems<T> job;
    job.n = int64_t(B->shape(0));
    const int r = job.rank = int(B->shape(1));
    job.H = given::lines<const T>(H, job.n, r * (r + 1) / 2, "H");
    job.B = given::lines<const T>(B, job.n, r, "B");
    job.X = given::lines<T>(X, job.n, r, "X");
    job.ridge = given::square(ridge, r, "ridge");
    job.mean_inverse = mean_inverse ? given::square(*mean_inverse, r, "mean_inverse") : nullptr;
    need(int64_t(used.shape(0)) == job.n, "used", "has another length");
    job.used = used.data();
    job.threads = threads;
    nb::gil_scoped_release unlocked;
    chosen->in<T>().solve_rows(job);
  });
}

static void step_rows(const given::RowStep &given, given::LinesRoom after, given::LinesRoom step,
                      given::Matrix<double> inverse, int threads) {
  given::in_precision(given::storage_of(given.F->dtype()), [&](auto number) {
    using T = decltype(number);
    auto job = given::row_step_of<T>(given, threads);
    job.pull = given::lines<const T>(given.pull, job.n, job.rank, "pull");
    job.after = given::lines<T>(after, job.n, job.rank, "after");
    job.step = given::lines<T>(step, job.n, job.rank, "step");
    job.inverse = given::square(inverse, job.rank, "inverse");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().step_rows(job);
  });
}

static void slope_rows(const given::RowStep &given, given::Lines step, given::Matrix<const double> of_after,
                       given::Matrix<const double> of_inverse, given::LinesRoom pull, given::LinesRoom grams,
                       given::Matrix<double> F, given::Vector<double> mean, given::Matrix<double> ridge,
                       given::Matrix<double> coupling, int threads) {
  given::in_precision(given::storage_of(given.F->dtype()), [&](auto number) {
    using T = decltype(number);
    const auto job = given::row_step_of<T>(given, threads);
    const int r = job.rank;
    const auto tall = [&](const auto &X) { return int64_t(X.shape(0)) == job.n && int64_t(X.shape(1)) == r; };
    need(tall(of_after) && tall(F), "of_after or F", "has another shape");
    need(int64_t(mean.shape(0)) == r, "mean", "has another length");
    RowSlopes<T> out;
    out.step = given::lines<const T>(step, job.n, r, "step");
    out.of_after = of_after.data();
    out.of_inverse = given::square(of_inverse, r, "of_inverse");
    out.pull = given::lines<T>(pull, job.n, r, "pull");
    out.grams = given::lines<T>(grams, job.n, r * (r + 1) / 2 + 1, "grams");
    out.F = F.data();
    out.mean = mean.data();
    out.ridge = given::square(ridge, r, "ridge");
    out.coupling = given::square(coupling, r, "coupling");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().slope_rows(job, out);
  });
}

// Of n rows with r columns.
template <class T>
static Regressors<T> regressors_of(const given::Lines &F, const given::Vector<const double> &precision, int threads) {
  Regressors<T> job;
  need(bool(F), "F", "is missing");
  job.n = int64_t(F->shape(0));
  job.rank = int(F->shape(1));
  job.F = given::lines<const T>(F, job.n, job.rank, "F");
  need(int64_t(precision.shape(0)) == job.n, "precision", "has another length");
  job.precision = precision.data();
  job.threads = threads;
  return job;
}

static void regressors(given::Lines F, given::Vector<const double> precision, given::Matrix<const double> coupling,
                       given::LinesRoom plain, given::LinesRoom squares, int threads) {
  given::in_precision(given::storage_of(F->dtype()), [&](auto number) {
    using T = decltype(number);
    auto job = regressors_of<T>(F, precision, threads);
    const int r = job.rank;
    job.coupling = given::square(coupling, r, "coupling");
    job.plain = given::lines<T>(plain, job.n, r, "plain");
    job.squares = given::lines<T>(squares, job.n, r * (r + 1) / 2 + 1, "squares");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().regressors(job);
  });
}

static void regressor_slopes(given::Lines F, given::Vector<const double> precision, given::Lines pull,
                             given::Lines grams, given::Matrix<double> of_F, given::Matrix<double> coupling,
                             int threads) {
  given::in_precision(given::storage_of(F->dtype()), [&](auto number) {
    using T = decltype(number);
    const auto job = regressors_of<T>(F, precision, threads);
    const int r = job.rank;
    need(int64_t(of_F.shape(0)) == job.n && int64_t(of_F.shape(1)) == r, "of_F", "has another shape");
    RegressorSlopes<T> out;
    out.pull = given::lines<const T>(pull, job.n, r, "pull");
    out.grams = given::lines<const T>(grams, job.n, r * (r + 1) / 2 + 1, "grams");
    out.F = of_F.data();
    out.coupling = given::square(coupling, r, "coupling");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().regressor_slopes(job, out);
  });
}

static void entries_at(given::Lines L, given::Lines R, given::Vector<const int64_t> rows,
                       given::Vector<const int64_t> cols, given::LineRoom out, given::Line values) {
  given::in_precision(given::storage_of(L->dtype()), [&](auto number) {
    using T = decltype(number);
    Places<T> job;
    job.n = int64_t(rows.shape(0));
    job.rank = given::width_of(L, R, "L and R");
    const int64_t n1 = int64_t(L->shape(0)), n2 = int64_t(R->shape(0));
    job.L = given::lines<const T>(L, n1, job.rank, "L");
    job.R = given::lines<const T>(R, n2, job.rank, "R");
    need(int64_t(cols.shape(0)) == job.n, "cols", "has another length");
    job.rows = rows.data();
    job.cols = cols.data();
    need(given::within(rows, n1) && given::within(cols, n2), "a place", "is outside of the matrix");
    job.out = given::line<T>(out, job.n, "out");
    job.values = values ? given::line<const T>(values, job.n, "values") : nullptr;
    nb::gil_scoped_release unlocked;
    chosen->in<T>().entries_at(job);
  });
}

// Shapes of X' Z, or of X Z, and their numbers.
template <class T> static Narrow<T> narrow_of(const given::Lines &X, const given::Lines &Z, bool turned) {
  Narrow<T> job;
  job.n = int64_t(X->shape(0));
  job.k = int(X->shape(1));
  job.m = int(Z->shape(1));
  job.X = given::lines<const T>(X, job.n, job.k, "X");
  job.Z = given::lines<const T>(Z, turned ? job.n : job.k, job.m, "Z");
  return job;
}

static void times(given::Lines X, given::Lines S, given::LinesRoom out) {
  given::in_precision(given::storage_of(X->dtype()), [&](auto number) {
    using T = decltype(number);
    auto job = narrow_of<T>(X, S, false);
    job.out = given::lines<T>(out, job.n, job.m, "out");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().times(job);
  });
}

static void cross(given::Lines X, given::Lines Z, given::Matrix<double> out) {
  given::in_precision(given::storage_of(X->dtype()), [&](auto number) {
    using T = decltype(number);
    const auto job = narrow_of<T>(X, Z, true);
    need(int64_t(out.shape(0)) == job.k && int64_t(out.shape(1)) == job.m, "out", "has another shape");
    nb::gil_scoped_release unlocked;
    chosen->in<T>().cross(job, out.data());
  });
}

static void layer_rows(given::Lines L, given::LinesRoom pull, given::Lines momentum, given::Lines scale,
                       given::Lines shared, given::LinesRoom after, given::LinesRoom direction,
                       given::Matrix<double> DD, given::Matrix<double> DL, double eta, double gamma) {
  given::in_precision(given::storage_of(L->dtype()), [&](auto number) {
    using T = decltype(number);
    LayerRows<T> job;
    job.n = int64_t(L->shape(0));
    const int r = job.rank = int(L->shape(1));
    need(r <= MOST_LAYER_RANK, "L", "has too many columns");
    job.L = given::lines<const T>(L, job.n, r, "L");
    job.pull = given::lines<T>(pull, job.n, r, "pull");
    job.scale = given::lines<const T>(scale, r, r, "scale");
    job.after = given::lines<T>(after, job.n, r, "after");
    if (momentum) job.momentum = given::lines<const T>(momentum, job.n, r, "momentum");
    if (shared) job.shared = given::lines<const T>(shared, r, r, "shared");
    if (direction) job.direction = given::lines<T>(direction, job.n, r, "direction");
    job.DD = given::square(DD, r, "DD");
    job.DL = given::square(DL, r, "DL");
    job.eta = T(eta);
    job.gamma = T(gamma);
    nb::gil_scoped_release unlocked;
    chosen->in<T>().layer_rows(job);
  });
}

static void bind_rows(nb::module_ &m) {
  m.attr("most_layer_rank") = MOST_LAYER_RANK;
  m.def("layer_rows", &layer_rows, as_it_is("L"), nb::kw_only(), as_it_is("pull"), as_it_is_or_none("momentum"),
        as_it_is("scale"), as_it_is_or_none("shared"), as_it_is("after"), as_it_is_or_none("direction"), as_it_is("DD"),
        as_it_is("DL"), nb::arg("eta"), nb::arg("gamma"));
  m.def("times", &times, as_it_is("X"), as_it_is("S"), nb::kw_only(), as_it_is("out"));
  m.def("cross", &cross, as_it_is("X"), as_it_is("Z"), nb::kw_only(), as_it_is("out"));
  m.def("solve_rows", &solve_rows, as_it_is("H"), as_it_is("B"), nb::kw_only(), as_it_is("ridge"), as_it_is("used"),
        as_it_is("X"), as_it_is_or_none("mean_inverse"), nb::arg("threads"));
  nb::class_<given::RowStep>(m, "RowStep")
      .def(
          "__init__",
          [](given::RowStep *self, given::Lines F, given::Lines pull, given::Lines grams,
             given::Vector<const uint8_t> used, given::Vector<const double> precision, given::Vector<const double> mean,
             given::Matrix<const double> ridge, given::Matrix<const double> coupling, double eta) {
            new (self) given::RowStep{std::move(F),     std::move(pull),      std::move(grams),
                                      std::move(used),  std::move(precision), std::move(mean),
                                      std::move(ridge), std::move(coupling),  eta};
          },
          nb::kw_only(), as_it_is("F"), as_it_is_or_none("pull"), as_it_is("grams"), as_it_is("used"),
          as_it_is("precision"), as_it_is("mean"), as_it_is("ridge"), as_it_is("coupling"), nb::arg("eta"));
  m.def("step_rows", &step_rows, nb::arg("rows"), nb::kw_only(), as_it_is("after"), as_it_is("step"),
        as_it_is("inverse"), nb::arg("threads"));
  m.def("slope_rows", &slope_rows, nb::arg("rows"), nb::kw_only(), as_it_is("step"), as_it_is("of_after"),
        as_it_is("of_inverse"), as_it_is("pull"), as_it_is("grams"), as_it_is("F"), as_it_is("mean"), as_it_is("ridge"),
        as_it_is("coupling"), nb::arg("threads"));
  m.def("regressors", &regressors, as_it_is("F"), nb::kw_only(), as_it_is("precision"), as_it_is("coupling"),
        as_it_is("plain"), as_it_is("squares"), nb::arg("threads"));
  m.def("regressor_slopes", &regressor_slopes, as_it_is("F"), nb::kw_only(), as_it_is("precision"), as_it_is("pull"),
        as_it_is("grams"), as_it_is("of_F"), as_it_is("coupling"), nb::arg("threads"));
  m.def("entries_at", &entries_at, as_it_is("L"), as_it_is("R"), nb::kw_only(), as_it_is("rows"), as_it_is("cols"),
        as_it_is("out"), as_it_is_or_none("values"));
}

// A CSR matrix whose every index names a row of a factor.
static void need_indices(const given::Vector<const int64_t> &indptr, const given::Vector<const int32_t> &indices,
                         size_t stored, size_t rows) {
  const size_t last = indptr.shape(0) - 1;
  const auto names_a_row = [&](int32_t j) { return j >= 0 && size_t(j) < rows; };
  need(indptr.data()[0] == 0 && indptr.data()[last] == int64_t(stored) && indices.shape(0) == stored, "indptr,",
       "indices and values differ in length");
  need(std::is_sorted(indptr.data(), indptr.data() + last + 1), "indptr", "falls");
  need(std::all_of(indices.data(), indices.data() + stored, names_a_row), "an index", "names no row of the factor");
}

static void bind_consensus(nb::module_ &m) {
  m.def(
      "consensus",
      [](given::Vector<const int64_t> indptr, given::Vector<const int32_t> indices, given::Vector<const double> values,
         given::Matrix<const double> G, given::Matrix<double> F, given::Vector<int64_t> agreeing, double border,
         int64_t draws, uint64_t seed, int threads) {
        const size_t n = F.shape(0), r = F.shape(1);
        need(indptr.shape(0) == n + 1 && agreeing.shape(0) == n && G.shape(1) == r && r > 0,
             "consensus:", "shapes differ");
        need_indices(indptr, indices, values.shape(0), G.shape(0));
        Consensus job;
        job.n = int64_t(n);
        job.rank = int(r);
        job.indptr = indptr.data();
        job.indices = indices.data();
        job.values = values.data();
        job.G = G.data();
        job.border = border;
        job.draws = draws;
        job.seed = seed;
        job.F = F.data();
        job.agreeing = agreeing.data();
        job.threads = threads;
        nb::gil_scoped_release unlocked;
        consensus(job);
      },
      nb::kw_only(), as_it_is("indptr"), as_it_is("indices"), as_it_is("values"), as_it_is("G"), as_it_is("F"),
      as_it_is("agreeing"), nb::arg("border"), nb::arg("draws"), nb::arg("seed"), nb::arg("threads"));
}

static void bind_newton(nb::module_ &m) {
  m.def(
      "newton",
      [](given::Vector<const int64_t> indptr, given::Vector<const int32_t> indices, given::Vector<const double> errors,
         given::Vector<const double> weights, given::Matrix<const double> U, given::Matrix<const double> V,
         given::Matrix<double> step, double ridge, double tol, int64_t most) {
        const size_t n1 = U.shape(0), n2 = V.shape(0), r = U.shape(1);
        need(indptr.shape(0) == n1 + 1 && V.shape(1) == r && r > 0, "newton:", "shapes differ");
        need(step.shape(0) == n1 + n2 && step.shape(1) == r, "step", "has another shape");
        need(errors.shape(0) == weights.shape(0), "newton:", "residuals and weights differ in length");
        need_indices(indptr, indices, errors.shape(0), n2);
        Newton job;
        job.n1 = int64_t(n1);
        job.n2 = int64_t(n2);
        job.rank = int(r);
        job.indptr = indptr.data();
        job.indices = indices.data();
        job.errors = errors.data();
        job.weights = weights.data();
        job.U = U.data();
        job.V = V.data();
        job.ridge = ridge;
        job.tol = tol;
        job.most = most;
        job.step = step.data();
        nb::gil_scoped_release unlocked;
        return newton(job);
      },
      nb::kw_only(), as_it_is("indptr"), as_it_is("indices"), as_it_is("errors"), as_it_is("weights"), as_it_is("U"),
      as_it_is("V"), as_it_is("step"), nb::arg("ridge"), nb::arg("tol"), nb::arg("most"));
}

// Reads n bytes once, all threads together: the time that no pass over the same data can beat.
static uint64_t read_once(nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> X, int threads) {
  const char *bytes = static_cast<const char *>(X.data());
  const int64_t words = int64_t(X.nbytes()) / 8;
  const int shares = shares_of(threads, words);
  std::vector<uint64_t> sums(shares);
  nb::gil_scoped_release unlocked;
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

static std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (auto *kernels : available()) names.push_back(kernels->name);
  return names;
}
static void use_instruction_set(const std::string &name) {
  for (auto *kernels : available())
    if (name == kernels->name) return void(chosen = kernels);
  throw std::invalid_argument("this machine has no instruction set " + name);
}

NB_MODULE(_native, m) {
  bind_data(m);
  bind_weights(m);
  bind_factors(m);
  bind_passes<given::Dense>(m);
  bind_passes<given::Sparse>(m);
  m.def("slopes", &slopes, nb::arg("data"), nb::arg("factors"), nb::arg("weight"), nb::arg("room"), nb::kw_only(),
        as_it_is("L"), as_it_is("R"), as_it_is("rows"), as_it_is("cols"), as_it_is("shape"), nb::arg("energy"),
        nb::arg("total"), nb::arg("threads"));
  m.def("residual", &residual, nb::arg("data"), nb::arg("factors"), nb::kw_only(), as_it_is("out"), nb::arg("threads"));
  m.def("compress", &compress, nb::arg("data"), nb::kw_only(), as_it_is("indptr"), as_it_is("indices"),
        as_it_is("values"), nb::arg("by_column"));
  m.def("survey", &survey, nb::arg("data"), nb::kw_only(), as_it_is("rows"), as_it_is("cols"), nb::arg("threads"));
  m.def("locate", &locate, nb::kw_only(), as_it_is("indptr"), as_it_is("indices"), as_it_is("rows"), as_it_is("cols"),
        as_it_is("out"));
  bind_rows(m);
  bind_consensus(m);
  bind_newton(m);
  bind_loop(m);
  bind_small(m);
  bind_noisy(m);
  bind_motion(m);
  bind_video(m);
  bind_time(m);
  m.def("read_once", &read_once, as_it_is("X"), nb::arg("threads"));
  m.def("instruction_sets", &instruction_sets);
  m.def("instruction_set", [] { return std::string(chosen->name); });
  m.def("use_instruction_set", &use_instruction_set, nb::arg("name"));
  m.def("max_threads", &max_threads);
  m.def("most_threads", [] { return shares_of(INT64_MAX, INT64_MAX); });
}
