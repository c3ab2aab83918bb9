// The Python face of the kernels for noisy data.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "settle.hpp"

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

// The distribution of such rows: see gaps.cpp.
static void normal(given::Matrix<const double> Y, given::Matrix<double> complete, given::Vector<double> mean,
                   given::Matrix<double> covariance, int rounds, double tiny, double alone) {
  Normal job;
  job.n = int64_t(Y.shape(0));
  job.across = int(Y.shape(1));
  need(complete.shape(0) == Y.shape(0) && complete.shape(1) == Y.shape(1), "complete", "has another shape");
  need(int(mean.shape(0)) == job.across, "mean", "has another length");
  need(job.n > 0, "Y", "is empty");
  job.Y = Y.data();
  job.complete = complete.data();
  job.mean = mean.data();
  job.covariance = given::square(covariance, job.across, "covariance");
  job.rounds = rounds;
  job.tiny = tiny;
  job.alone = alone;
  nb::gil_scoped_release unlocked;
  in_use().normal(job);
}

// Rows that are near each other: see opinions.cpp.
static void nearest(given::Matrix<const double> Z, given::Matrix<const double> among, given::Matrix<int64_t> which,
                    given::Matrix<double> apart, bool own) {
  Nearest job;
  job.n = int64_t(Z.shape(0));
  job.known = int64_t(among.shape(0));
  job.across = int(Z.shape(1));
  job.count = int(which.shape(1));
  job.own = own;
  need(among.shape(1) == Z.shape(1), "among", "has another width");
  need(int64_t(which.shape(0)) == job.n && int64_t(apart.shape(0)) == job.n, "which or apart", "has another length");
  need(which.shape(1) == apart.shape(1), "apart", "has another width");
  need(!own || job.n == job.known, "among", "has another length");
  need(job.count <= job.known - own, "which", "is wider than there are rows");
  job.Z = Z.data();
  job.among = among.data();
  job.which = which.data();
  job.apart = apart.data();
  nb::gil_scoped_release unlocked;
  in_use().nearest(job);
}

static bool are_lines(const int64_t *at, size_t count, int64_t n) {
  return std::all_of(at, at + count, [n](int64_t line) { return line >= 0 && line < n; });
}

void lrmc::among(const Among &job) {
  for (int64_t p = 0; p < job.places; p++) {
    double sum = 0, total = 0;
    const int64_t row = job.rows[p] * job.count;
    for (int k = 0; k < job.count; k++) {
      const double value = job.values[job.which[row + k] * job.across + job.cols[p]];
      const double counts = value != value ? 0.0 : job.counts ? job.counts[row + k] : 1.0;
      if (counts != 0) sum += counts * value;
      total += counts;
    }
    job.sums[p] = sum;
    job.total[p] = total;
  }
}

static void among(given::Matrix<const double> values, given::Matrix<const int64_t> which,
                  given::Vector<const int64_t> rows, given::Vector<const int64_t> cols, given::Vector<double> sums,
                  given::Vector<double> total, std::optional<given::Matrix<const double>> counts) {
  Among job;
  job.places = int64_t(rows.shape(0));
  job.across = int(values.shape(1));
  job.count = int(which.shape(1));
  const auto fits = [&](const auto &x) { return int64_t(x.shape(0)) == job.places; };
  need(fits(cols) && fits(sums) && fits(total), "cols, sums or total", "has another length");
  need(!counts || (counts->shape(0) == which.shape(0) && counts->shape(1) == which.shape(1)), "counts",
       "has another shape");
  need(are_lines(rows.data(), rows.shape(0), int64_t(which.shape(0))) &&
           are_lines(cols.data(), cols.shape(0), job.across),
       "a place", "is outside of the matrix");
  need(are_lines(which.data(), which.shape(0) * which.shape(1), int64_t(values.shape(0))), "which", "has no such row");
  job.values = values.data();
  job.which = which.data();
  if (counts) job.counts = counts->data();
  job.rows = rows.data();
  job.cols = cols.data();
  job.sums = sums.data();
  job.total = total.data();
  nb::gil_scoped_release unlocked;
  lrmc::among(job);
}

// How much opinions count: see opinions.cpp.
static void mixture(given::Vector<const double> error, given::Matrix<const double> toward,
                    given::Vector<double> weights, double bend, double equal, int rounds) {
  Opinions job;
  job.n = int64_t(error.shape(0));
  job.count = int(toward.shape(1));
  need(int64_t(toward.shape(0)) == job.n, "toward", "has another length");
  need(job.count <= MOST_OPINIONS, "toward", "has too many columns");
  need(int(weights.shape(0)) == job.count + 1, "weights", "has another length");
  job.error = error.data();
  job.toward = toward.data();
  job.weights = weights.data();
  job.bend = bend;
  job.equal = equal;
  job.rounds = rounds;
  nb::gil_scoped_release unlocked;
  in_use().opinions(job);
}

// Good residuals and gross errors: see tails.cpp.
static std::tuple<double, double> tails(given::Vector<const float> power, given::Matrix<const float> densities,
                                        given::Vector<double> gross, double p, double q, double peak, double most_share,
                                        double settled, int rounds) {
  TailsJob job;
  job.n = int64_t(power.shape(0));
  job.begins = int(densities.shape(0));
  need(job.n > 0, "power", "is empty");
  need(int64_t(densities.shape(1)) == job.n, "densities", "has another length");
  need(job.begins > 0 && job.begins <= MOST_BEGINS, "densities", "has too many rows, or none");
  need(int(gross.shape(0)) == job.begins, "gross", "has another length");
  need(p > 0 && q > 0, "p or q", "is not positive");
  job.power = power.data();
  job.densities = densities.data();
  job.gross = gross.data();
  job.p = p;
  job.q = q;
  job.peak = peak;
  job.most_share = most_share;
  job.settled = settled;
  job.rounds = rounds;
  nb::gil_scoped_release unlocked;
  in_use().tails(job);
  return {job.times, job.likelihood};
}

// Noise of deviation d, and a share of outliers that are uniform up to `widest`: a round of
// expectation and maximisation over squares of sizes. Sums of four, which a compiler makes at once.
struct NoiseAndRest {
  double deviation, share;
  double odds(double widest) const {
    const double half_pi = 1.5707963267948966;
    return (1 - share) / share * std::sqrt(half_pi) * deviation / std::max(widest, 3 * deviation);
  }
};

static NoiseAndRest once_more(const double *squares, int64_t n, const NoiseAndRest &now, double odds, double fewest,
                              bool fixed) {
  constexpr int AT_ONCE = 4;
  double total[AT_ONCE] = {}, energy[AT_ONCE] = {};
  const double unit = 1 / (32 * now.deviation * now.deviation);
  const auto add = [&](int64_t i, int k) {
    double wide = 1 + squares[i] * unit;
    for (int twice = 0; twice < 4; twice++) wide *= wide;  // to the 16th power: as the rule has it
    const double w = 1 / (1 + odds * wide);
    total[k] += w;
    energy[k] += w * squares[i];
  };
  int64_t i = 0;
  for (; i + AT_ONCE <= n; i += AT_ONCE)
    for (int k = 0; k < AT_ONCE; k++) add(i + k, k);
  for (; i < n; i++) add(i, 0);
  const double all = (total[0] + total[1]) + (total[2] + total[3]);
  const double within = (energy[0] + energy[1]) + (energy[2] + energy[3]);
  NoiseAndRest next = now;
  next.share = std::clamp(all / double(n), fewest, 1 - 1e-6);
  if (!fixed) next.deviation = std::max(std::sqrt(within / std::max(all, 1e-300)), 1e-9);
  return next;
}

static std::tuple<double, double, double> two_groups(given::Vector<const double> squares, double deviation,
                                                     double share, double widest, double fewest, double settled,
                                                     int rounds, bool fixed) {
  const int64_t n = int64_t(squares.shape(0));
  need(n > 0, "squares", "is empty");
  nb::gil_scoped_release unlocked;
  NoiseAndRest now{deviation, share};
  double odds = 0;
  for (int k = 0; k < rounds; k++) {
    odds = now.odds(widest);
    const NoiseAndRest before = now;
    now = once_more(squares.data(), n, before, odds, fewest, fixed);
    const auto still = [settled](double x, double y) { return std::abs(x - y) < settled * y; };
    if (still(now.share, before.share) && still(now.deviation, before.deviation)) break;
  }
  return {now.deviation, odds, now.share};
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
  need(are_lines(layer.rows.data(), job.n_sample, n1) && are_lines(layer.cols.data(), job.n_sample, n2), "a place",
       "is outside of the matrix");
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
          const Refitted made = half_layer(view, job);
          return std::tuple(made.size, made.variance, made.relative, made.energy, int64_t(made.inliers));
        });
      },
      nb::arg("data"), nb::arg("factors"), nb::arg("layer"), nb::arg("room"), nb::kw_only(), nb::arg("threads"),
      nb::arg("row_threads"));
}

// Layers after each other: see settle.hpp. `layer` is the first half, for the rows.
template <class Data> static void bind_settle(nb::module_ &m) {
  m.def(
      "settle",
      [](const Data &data, const given::Factors &factors, const Layer &layer, given::Matrix<const double> numbers,
         int side, given::Vector<const int64_t> col_observed, given::LinesRoom L, given::LinesRoom R,
         given::Matrix<double> unknown_L, given::Matrix<double> unknown_R, int most_again, double falling, int threads,
         std::tuple<int, int> row_threads) {
        return given::in_precision(storage(data), [&](auto number) {
          using T = decltype(number);
          Refit<T> job;
          job.pass = given::pass_of<T>(data, factors, threads);
          give_layer(job, layer);
          need(job.side == 0, "layer", "is not for the rows");
          need(side == 0 || side == 1, "side", "is neither 0 nor 1");
          need(numbers.shape(1) == 5, "numbers", "has another width");
          need(numbers.shape(0) >= 2, "numbers", "has less than a layer");
          const int64_t n1 = job.pass.n1, n2 = job.pass.n2;
          const int r = job.pass.rank;
          need(int64_t(col_observed.shape(0)) == n2, "col_observed", "has another length");
          T *left = given::lines<T>(L, n1, r, "L"), *right = given::lines<T>(R, n2, r, "R");
          double *of_L = given::square(unknown_L, r, "unknown_L"), *of_R = given::square(unknown_R, r, "unknown_R");
          job.side = side;
          const auto view = data.view();
          const auto [threads_of_rows, threads_of_cols] = row_threads;
          nb::gil_scoped_release unlocked;
          Settling<T, std::decay_t<decltype(view)>> layers(view, job, job.observed, col_observed.data(),
                                                           threads_of_rows, threads_of_cols);
          layers.run(numbers.data(), int(numbers.shape(0)), most_again, falling);
          layers.write(left, right, of_L, of_R);
          return std::tuple(layers.variance(), layers.total());
        });
      },
      nb::arg("data"), nb::arg("factors"), nb::arg("layer"), nb::kw_only(), as_it_is("numbers"), nb::arg("side"),
      as_it_is("col_observed"), as_it_is("L"), as_it_is("R"), as_it_is("unknown_L"), as_it_is("unknown_R"),
      nb::arg("most_again"), nb::arg("falling"), nb::arg("threads"), nb::arg("row_threads"));
}

// What rows and columns add to each other: see settle.hpp. `room` begins at 0.
template <class Data> static void bind_levels(nb::module_ &m) {
  m.def(
      "levels",
      [](const Data &data, given::Vector<const int64_t> at_rows, given::Vector<const int64_t> at_cols,
         given::Vector<nb::ro> values, given::Vector<double> rows, given::Vector<double> cols, double middle,
         double scale, double reach, int rounds, int threads) {
        given::in_precision(storage(data), [&](auto number) {
          using T = decltype(number);
          const Products<T> pass = given::pass_of<T>(data, {}, threads);
          Places<T> places;
          places.n = int64_t(at_rows.shape(0));
          places.rows = at_rows.data();
          places.cols = at_cols.data();
          need(places.n > 0, "values", "is empty");
          need(int64_t(at_cols.shape(0)) == places.n, "at_cols", "has another length");
          need(are_lines(places.rows, places.n, pass.n1) && are_lines(places.cols, places.n, pass.n2), "a place",
               "is outside of the matrix");
          need(int64_t(rows.shape(0)) == pass.n1 && int64_t(cols.shape(0)) == pass.n2, "rows or cols",
               "has another length");
          const T *seen = given::line<const T>(std::optional(values), places.n, "values");
          const auto view = data.view();
          nb::gil_scoped_release unlocked;
          Levelling<T, std::decay_t<decltype(view)>>(view, pass, places, seen, middle, scale, rows.data(), cols.data())
              .run(rounds, reach);
        });
      },
      nb::arg("data"), nb::kw_only(), as_it_is("at_rows"), as_it_is("at_cols"), as_it_is("values"), as_it_is("rows"),
      as_it_is("cols"), nb::arg("middle"), nb::arg("scale"), nb::arg("reach"), nb::arg("rounds"), nb::arg("threads"));
}

void lrmc::bind_noisy(nb::module_ &m) {
  m.def("gaps", &::gaps, as_it_is("Y"), nb::kw_only(), as_it_is("mean"), as_it_is("precision"), as_it_is("complete"),
        as_it_is_or_none("unknown"), as_it_is_or_none("told"));
  m.def("normal", &::normal, as_it_is("Y"), nb::kw_only(), as_it_is("complete"), as_it_is("mean"),
        as_it_is("covariance"), nb::arg("rounds"), nb::arg("tiny"), nb::arg("alone"));
  m.def("nearest", &::nearest, as_it_is("Z"), as_it_is("among"), nb::kw_only(), as_it_is("which"), as_it_is("apart"),
        nb::arg("own"));
  m.def("among", &::among, as_it_is("values"), as_it_is("which"), nb::kw_only(), as_it_is("rows"), as_it_is("cols"),
        as_it_is("sums"), as_it_is("total"), as_it_is_or_none("counts"));
  m.def("mixture", &::mixture, as_it_is("error"), as_it_is("toward"), nb::kw_only(), as_it_is("weights"),
        nb::arg("bend"), nb::arg("equal"), nb::arg("rounds"));
  m.def("tails", &::tails, as_it_is("power"), as_it_is("densities"), nb::kw_only(), as_it_is("gross"), nb::arg("p"),
        nb::arg("q"), nb::arg("peak"), nb::arg("most_share"), nb::arg("settled"), nb::arg("rounds"));
  m.def("two_groups", &::two_groups, as_it_is("squares"), nb::kw_only(), nb::arg("deviation"), nb::arg("share"),
        nb::arg("widest"), nb::arg("fewest"), nb::arg("settled"), nb::arg("rounds"), nb::arg("fixed"));
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
  bind_settle<given::Dense>(m);
  bind_settle<given::Sparse>(m);
  bind_levels<given::Dense>(m);
  bind_levels<given::Sparse>(m);
}
