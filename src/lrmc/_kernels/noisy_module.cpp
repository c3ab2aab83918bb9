// The Python face of the kernels for noisy data.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>

#include "binding.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

// Rows of one Gaussian: see gaps.cpp.
static void gaps(given::Matrix<const double> Y, given::Vector<const double> mean, given::Matrix<const double> precision,
                 given::Matrix<double> complete, std::optional<given::Matrix<double>> unknown,
                 std::optional<given::Matrix<double>> told) {
  Gaps job;
  job.n = int64_t(Y.shape(0));
  job.across = int(Y.shape(1));
  const auto fits = [&](const auto &X) { return int64_t(X.shape(0)) == job.n && int(X.shape(1)) == job.across; };
  need(int(mean.shape(0)) == job.across, "mean", "has another length");
  need(fits(complete), "complete", "has another shape");
  need(!told || fits(*told), "told", "has another shape");
  job.Y = Y.data();
  job.mean = mean.data();
  job.P = given::square(precision, job.across, "precision");
  job.complete = complete.data();
  if (unknown) job.unknown = given::square(*unknown, job.across, "unknown");
  if (told) job.told = told->data();
  nb::gil_scoped_release unlocked;
  in_use().gaps(job);
}

// What half a layer is given: as in Refit.
struct Layer {
  int side;
  double reach, shape, prior, kappa, eta;
  given::Vector<const double> row_noise, col_noise;
  given::Vector<const int64_t> observed;
  given::Matrix<const double> unknown_L, unknown_R;
  given::Vector<const int64_t> rows, cols;
  given::Vector<nb::ro> values;
  int64_t every;
  double size, relative, least, tiny, up, down;
};

static bool are_lines(const given::Vector<const int64_t> &at, int64_t n) {
  return std::all_of(at.data(), at.data() + at.shape(0), [n](int64_t line) { return line >= 0 && line < n; });
}

template <class T> static void give_layer(Refit<T> &job, const Layer &layer) {
  const int64_t n1 = job.pass.n1, n2 = job.pass.n2;
  const int r = job.pass.rank;
  need(r > 0 && job.pass.L, "L or R", "is missing");
  need(layer.side == 0 || layer.side == 1, "side", "is neither 0 nor 1");
  job.side = layer.side;
  job.reach = layer.reach;
  job.shape = layer.shape;
  job.prior = layer.prior;
  job.kappa = layer.kappa;
  job.eta = layer.eta;
  need(int64_t(layer.row_noise.shape(0)) == n1 && int64_t(layer.col_noise.shape(0)) == n2, "noise",
       "has another length");
  need(int64_t(layer.observed.shape(0)) == (job.side ? n2 : n1), "observed", "has another length");
  job.row_noise = layer.row_noise.data();
  job.col_noise = layer.col_noise.data();
  job.observed = layer.observed.data();
  job.unknown[0] = given::square(layer.unknown_L, r, "unknown");
  job.unknown[1] = given::square(layer.unknown_R, r, "unknown");
  job.n_sample = int64_t(layer.rows.shape(0));
  need(int64_t(layer.cols.shape(0)) == job.n_sample, "cols", "has another length");
  need(are_lines(layer.rows, n1) && are_lines(layer.cols, n2), "a place", "is outside of the matrix");
  need(layer.every > 0 && (job.n_sample > 0 || (layer.size > 0 && layer.relative > 0)), "the sample", "is empty");
  job.every = layer.every;
  job.rows = layer.rows.data();
  job.cols = layer.cols.data();
  job.values = given::line<const T>(std::optional(layer.values), job.n_sample, "values");
  job.size = layer.size;
  job.relative = layer.relative;
  job.least = layer.least;
  job.tiny = layer.tiny;
  job.pass.weight.up = T(layer.up);
  job.pass.weight.down = T(layer.down);
}

// Where half a layer writes.
struct LayerRoom {
  given::LinesRoom pull, grams, after, step;
  given::LineRoom col_weight;
  given::Vector<double> mean;
  given::Matrix<double> covariance, ridge, unknown;
};

template <class T> static void give_room(Refit<T> &job, const LayerRoom &room) {
  const int64_t n = job.side ? job.pass.n2 : job.pass.n1;
  const int r = job.pass.rank;
  job.pull = given::lines<T>(room.pull, n, r, "pull");
  job.grams = given::lines<T>(room.grams, n, r * (r + 1) / 2 + 1, "grams");
  job.after = given::lines<T>(room.after, n, r, "after");
  job.step = given::lines<T>(room.step, n, r, "step");
  job.col_weight = given::line<T>(room.col_weight, job.pass.n2, "col_weight");
  need(int(room.mean.shape(0)) == r, "mean", "has another length");
  job.mean = room.mean.data();
  job.covariance = given::square(room.covariance, r, "covariance");
  job.ridge = given::square(room.ridge, r, "ridge");
  job.left = given::square(room.unknown, r, "unknown");
}

template <class T> static Refitted run(const lrmc::Dense &data, const Refit<T> &job) {
  return in_use().in<T>().refit_dense(data, job);
}
template <class T> static Refitted run(const lrmc::Sparse &data, const Refit<T> &job) {
  return in_use().in<T>().refit_sparse(data, job);
}
static Storage storage(const given::Dense &data) { return given::storage_of(data.Y.dtype()); }
static Storage storage(const given::Sparse &data) { return given::storage_of(data.values.dtype()); }

template <class Data> static void bind_refit(nb::module_ &m) {
  m.def(
      "refit",
      [](const Data &data, const given::Factors &factors, const Layer &layer, const LayerRoom &room, int threads,
         int row_threads) {
        return given::in_precision(storage(data), [&](auto number) {
          using T = decltype(number);
          Refit<T> job;
          job.pass = given::pass_of<T>(data, factors, threads);
          give_layer(job, layer);
          give_room(job, room);
          job.threads = row_threads;
          const auto view = data.view();
          nb::gil_scoped_release unlocked;
          const Refitted made = run(view, job);
          return std::tuple(made.size, made.variance, made.relative, made.energy, int64_t(made.inliers));
        });
      },
      nb::arg("data"), nb::arg("factors"), nb::arg("layer"), nb::arg("room"), nb::kw_only(), nb::arg("threads"),
      nb::arg("row_threads"));
}

void lrmc::bind_noisy(nb::module_ &m) {
  m.def("gaps", &::gaps, as_it_is("Y"), nb::kw_only(), as_it_is("mean"), as_it_is("precision"), as_it_is("complete"),
        as_it_is_or_none("unknown"), as_it_is_or_none("told"));
  nb::class_<Layer>(m, "Layer")
      .def(
          "__init__",
          [](Layer *self, int side, double reach, double shape, double prior, double kappa, double eta,
             given::Vector<const double> row_noise, given::Vector<const double> col_noise,
             given::Vector<const int64_t> observed, given::Matrix<const double> unknown_L,
             given::Matrix<const double> unknown_R, given::Vector<const int64_t> rows,
             given::Vector<const int64_t> cols, given::Vector<nb::ro> values, int64_t every, double size,
             double relative, double least, double tiny, double up, double down) {
            new (self) Layer{side,
                             reach,
                             shape,
                             prior,
                             kappa,
                             eta,
                             std::move(row_noise),
                             std::move(col_noise),
                             std::move(observed),
                             std::move(unknown_L),
                             std::move(unknown_R),
                             std::move(rows),
                             std::move(cols),
                             std::move(values),
                             every,
                             size,
                             relative,
                             least,
                             tiny,
                             up,
                             down};
          },
          nb::kw_only(), nb::arg("side"), nb::arg("reach"), nb::arg("shape"), nb::arg("prior"), nb::arg("kappa"),
          nb::arg("eta"), as_it_is("row_noise"), as_it_is("col_noise"), as_it_is("observed"), as_it_is("unknown_L"),
          as_it_is("unknown_R"), as_it_is("rows"), as_it_is("cols"), as_it_is("values"), nb::arg("every"),
          nb::arg("size"), nb::arg("relative"), nb::arg("least"), nb::arg("tiny"), nb::arg("up"), nb::arg("down"));
  nb::class_<LayerRoom>(m, "LayerRoom")
      .def(
          "__init__",
          [](LayerRoom *self, given::LinesRoom pull, given::LinesRoom grams, given::LinesRoom after,
             given::LinesRoom step, given::LineRoom col_weight, given::Vector<double> mean,
             given::Matrix<double> covariance, given::Matrix<double> ridge, given::Matrix<double> unknown) {
            new (self) LayerRoom{std::move(pull),       std::move(grams),      std::move(after),
                                 std::move(step),       std::move(col_weight), std::move(mean),
                                 std::move(covariance), std::move(ridge),      std::move(unknown)};
          },
          nb::kw_only(), as_it_is("pull"), as_it_is("grams"), as_it_is("after"), as_it_is("step"),
          as_it_is("col_weight"), as_it_is("mean"), as_it_is("covariance"), as_it_is("ridge"), as_it_is("unknown"));
  bind_refit<given::Dense>(m);
  bind_refit<given::Sparse>(m);
}
