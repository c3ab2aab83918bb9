// The Python face of what a step of the closed loop does beside its pass, on some thousand rows or entries: there a
// handful of NumPy's operations take as long as the pass.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binding.hpp"
#include "loop_step.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

// ---- order statistics

static void ordered(given::Line x, given::Vector<const int64_t> places, given::Vector<double> out) {
  const int64_t n = int64_t(x->shape(0)), count = int64_t(places.shape(0));
  const auto within = [&](int64_t place) { return place >= 0 && place < n; };
  need(int64_t(out.shape(0)) == count, "out", "has another length");
  need(std::all_of(places.data(), places.data() + count, within), "a place", "is outside");
  need(std::is_sorted(places.data(), places.data() + count), "places", "fall");
  need(n <= UINT32_MAX, "x", "is too long");
  given::in_precision(given::storage_of(x->dtype()), [&](auto number) {
    using T = decltype(number);
    Ordered<T>(given::line<const T>(x, n, "x"), n).at(places.data(), count, out.data());
  });
}

// ---- a matrix for each row, packed as in RowSystems

static void invert_rows(given::Lines H, given::Matrix<const double> ridge, given::Vector<const uint8_t> used,
                        given::LinesRoom inverses, int threads) {
  given::in_precision(given::storage_of(H->dtype()), [&](auto number) {
    using T = decltype(number);
    RowSystems<T> job;
    job.n = int64_t(H->shape(0));
    const int r = job.rank = int(ridge.shape(0));
    job.ridge = given::square(ridge, r, "ridge");
    job.H = given::lines<const T>(H, job.n, r * (r + 1) / 2, "H");
    job.inverses = given::lines<T>(inverses, job.n, r * (r + 1) / 2, "inverses");
    need(int64_t(used.shape(0)) == job.n, "used", "has another length");
    job.used = used.data();
    job.threads = threads;
    nb::gil_scoped_release unlocked;
    in_use().in<T>().solve_rows(job);
  });
}

// X_i = scale_i H_i B_i; R is the rank, or 0: that of the job.
template <class T, int R> void times_rows_of(int64_t n, int rank, const T *H, const T *B, const double *scale, T *X) {
  const int r = R ? R : rank, q = r * (r + 1) / 2;
  for (int64_t i = 0; i < n; i++, H += q, B += r, X += r) {
    const T s = T(scale[i]);
    for (int a = 0; a < r; a++) X[a] = 0;
    for (int a = 0, k = 0; a < r; a++) {
      X[a] += s * H[k++] * B[a];
      for (int b = a + 1; b < r; b++, k++) {
        X[a] += s * H[k] * B[b];
        X[b] += s * H[k] * B[a];
      }
    }
  }
}
template <class T> static auto times_rows_for(int rank) {
  static constexpr decltype(&times_rows_of<T, 0>) table[] = {
      &times_rows_of<T, 0>, &times_rows_of<T, 1>, &times_rows_of<T, 2>, &times_rows_of<T, 3>, &times_rows_of<T, 4>,
      &times_rows_of<T, 5>, &times_rows_of<T, 6>, &times_rows_of<T, 7>, &times_rows_of<T, 8>};
  return table[rank <= 8 ? rank : 0];
}
static void times_rows(given::Lines H, given::Lines B, given::Vector<const double> scale, given::LinesRoom X) {
  given::in_precision(given::storage_of(B->dtype()), [&](auto number) {
    using T = decltype(number);
    const int64_t n = int64_t(B->shape(0));
    const int r = int(B->shape(1));
    need(int64_t(scale.shape(0)) == n, "scale", "has another length");
    times_rows_for<T>(r)(n, r, given::lines<const T>(H, n, r * (r + 1) / 2, "H"), given::lines<const T>(B, n, r, "B"),
                         scale.data(), given::lines<T>(X, n, r, "X"));
  });
}

// ---- a step of the closed loop

namespace {

// What stays with the rows, or the columns, from step to step: written in place.
struct LoopLines {
  given::LinesRoom momentum, H;
  given::Vector<const int64_t> observed;
  given::Vector<double> multiple;
  std::optional<given::Vector<double>> full;
  given::Matrix<double> FF, before;

  template <class T> LoopSide<T> side(int rank) const {
    LoopSide<T> out;
    const int64_t n = out.n = int64_t(observed.shape(0));
    out.rank = rank;
    out.observed = observed.data();
    need(int64_t(multiple.shape(0)) == n, "multiple", "has another length");
    out.multiple = multiple.data();
    out.momentum = given::lines<T>(momentum, n, rank, "momentum");
    out.FF = given::square(FF, rank, "FF");
    out.before = given::square(before, rank, "before");
    if (!H) return out;
    need(full && int64_t(full->shape(0)) == n, "full", "is missing or has another length");
    out.H = given::lines<T>(H, n, rank * (rank + 1) / 2, "H");
    out.full = full->data();
    return out;
  }
};

// What a pass was made with and what it gave, of the rows or the columns.
struct LoopPass {
  given::Lines F;
  given::LinesRoom pull, after;
  given::Line weight;
  given::Vector<const int64_t> inliers;
  given::Lines grams;
  double ridge = 0, floor = 0;

  template <class T> void into(LoopSide<T> &side, int threads) const {
    side.F = given::lines<const T>(F, side.n, side.rank, "F");
    side.pull = given::lines<T>(pull, side.n, side.rank, "pull");
    side.after = given::lines<T>(after, side.n, side.rank, "after");
    side.weight = given::line<const T>(weight, side.n, "weight");
    need(int64_t(inliers.shape(0)) == side.n, "inliers", "has another length");
    side.inliers = inliers.data();
    side.ridge = ridge;
    side.floor = floor;
    side.threads = threads;
    if (!grams) return;
    need(side.H, "H", "is missing");
    side.grams = given::lines<const T>(grams, side.n, side.rank * (side.rank + 1) / 2, "grams");
  }
};

struct LoopSample {
  given::Vector<const int64_t> rows, cols;
  given::Line values;
  std::optional<given::Vector<const int64_t>> judged;
};

}  // namespace

template <class T> static Places<T> places_of(const LoopSample &sample, int64_t n1, int64_t n2) {
  Places<T> out;
  out.n = int64_t(sample.rows.shape(0));
  need(out.n > 0 && int64_t(sample.cols.shape(0)) == out.n, "the sample", "is empty or has another length");
  need(given::within(sample.rows, n1) && given::within(sample.cols, n2), "a place", "is outside of the matrix");
  out.rows = sample.rows.data();
  out.cols = sample.cols.data();
  out.values = given::line<const T>(sample.values, out.n, "values");
  return out;
}

static LoopTold loop_step(const LoopLines &rows, const LoopLines &cols, const LoopPass &of_rows,
                          const LoopPass &of_cols, const LoopSample &sample, const LoopRules &rules, double zeta,
                          double decay, double inliers, double momentum, int threads) {
  need(bool(of_rows.F), "F", "is missing");
  const int rank = int(of_rows.F->shape(1));
  need(rank >= 1 && rank <= MOST_LOOP_RANK, "the rank", "is too high for a step at once");
  need(bool(rows.H) == bool(cols.H) && bool(of_rows.grams) == bool(of_cols.grams), "Gram matrices", "are of one side");
  return given::in_precision(given::storage_of(of_rows.F->dtype()), [&](auto number) {
    using T = decltype(number);
    LoopSide<T> left = rows.side<T>(rank), right = cols.side<T>(rank);
    of_rows.into(left, threads);
    of_cols.into(right, threads);
    const auto places = places_of<T>(sample, left.n, right.n);
    if (sample.judged) need(given::within(*sample.judged, left.n), "a row", "is not there");
    LoopStep<T> job{left,
                    right,
                    places,
                    sample.judged ? sample.judged->data() : nullptr,
                    sample.judged ? int64_t(sample.judged->shape(0)) : 0,
                    rules,
                    zeta,
                    decay,
                    inliers,
                    momentum,
                    in_use().in<T>()};
    nb::gil_scoped_release unlocked;
    return job.run();
  });
}

static void bind_loop_step(nb::module_ &m) {
  m.attr("most_loop_rank") = MOST_LOOP_RANK;
  nb::class_<LoopLines>(m, "LoopLines")
      .def(
          "__init__",
          [](LoopLines *self, given::LinesRoom momentum, given::Vector<const int64_t> observed,
             given::Vector<double> multiple, given::Matrix<double> FF, given::Matrix<double> before, given::LinesRoom H,
             std::optional<given::Vector<double>> full) {
            new (self) LoopLines{std::move(momentum), std::move(H),  std::move(observed), std::move(multiple),
                                 std::move(full),     std::move(FF), std::move(before)};
          },
          nb::kw_only(), as_it_is("momentum"), as_it_is("observed"), as_it_is("multiple"), as_it_is("FF"),
          as_it_is("before"), as_it_is_or_none("H"), as_it_is_or_none("full"));
  nb::class_<LoopPass>(m, "LoopPass")
      .def(
          "__init__",
          [](LoopPass *self, given::Lines F, given::LinesRoom pull, given::LinesRoom after, given::Line weight,
             given::Vector<const int64_t> inliers, given::Lines grams, double ridge, double floor) {
            new (self) LoopPass{std::move(F),
                                std::move(pull),
                                std::move(after),
                                std::move(weight),
                                std::move(inliers),
                                std::move(grams),
                                ridge,
                                floor};
          },
          nb::kw_only(), as_it_is("F"), as_it_is("pull"), as_it_is("after"), as_it_is("weight"), as_it_is("inliers"),
          as_it_is_or_none("grams"), nb::arg("ridge"), nb::arg("floor"));
  nb::class_<LoopSample>(m, "LoopSample")
      .def(
          "__init__",
          [](LoopSample *self, given::Vector<const int64_t> rows, given::Vector<const int64_t> cols, given::Line values,
             std::optional<given::Vector<const int64_t>> judged) {
            new (self) LoopSample{std::move(rows), std::move(cols), std::move(values), std::move(judged)};
          },
          nb::kw_only(), as_it_is("rows"), as_it_is("cols"), as_it_is("values"), as_it_is_or_none("judged"));
  nb::class_<LoopRules>(m, "LoopRules")
      .def(
          "__init__",
          [](LoopRules *self, double good, double high, double widest, double above, double fastest, double least,
             double longest, double behind, double half, double widen, double narrow, double far) {
            new (self) LoopRules{good, high, widest, above, fastest, least, longest, behind, half, widen, narrow, far};
          },
          nb::kw_only(), nb::arg("good"), nb::arg("high"), nb::arg("widest"), nb::arg("above"), nb::arg("fastest"),
          nb::arg("least"), nb::arg("longest"), nb::arg("behind"), nb::arg("half"), nb::arg("widen"), nb::arg("narrow"),
          nb::arg("far"));
  nb::class_<LoopTold>(m, "LoopTold")
      .def_ro("zeta", &LoopTold::zeta)
      .def_ro("low", &LoopTold::low)
      .def_ro("moved", &LoopTold::moved)
      .def_ro("change", &LoopTold::change)
      .def_ro("gap", &LoopTold::gap)
      .def_ro("row_widest", &LoopTold::row_widest)
      .def_ro("row_far", &LoopTold::row_far)
      .def_ro("col_widest", &LoopTold::col_widest)
      .def_ro("col_far", &LoopTold::col_far);
  m.def("loop_step", &loop_step, nb::arg("rows"), nb::arg("cols"), nb::arg("of_rows"), nb::arg("of_cols"),
        nb::arg("sample"), nb::arg("rules"), nb::kw_only(), nb::arg("zeta"), nb::arg("decay"), nb::arg("inliers"),
        nb::arg("momentum"), nb::arg("threads"));
}

// ---- data at the door

// Those of some places of a dense matrix that are observed, in their order: how many. Random places wait for memory,
// and are asked for early.
template <class S, class T>
static int64_t observed_as(const lrmc::Dense &data, const given::Vector<const int64_t> &rows,
                           const given::Vector<const int64_t> &cols, T gain, int64_t *out_rows, int64_t *out_cols,
                           T *values) {
  constexpr int64_t AHEAD = 24;
  const int64_t n = int64_t(rows.shape(0)), *i = rows.data(), *j = cols.data();
  const auto at = [&](int64_t k) { return static_cast<const S *>(data.data) + i[k] * data.stride + j[k]; };
  int64_t count = 0;
  for (int64_t k = 0; k < n; k++) {
    if (k + AHEAD < n) __builtin_prefetch(at(k + AHEAD));
    const S y = *at(k);
    out_rows[count] = i[k];
    out_cols[count] = j[k];
    values[count] = T(y) * gain;
    count += (y == y) & (!data.mask || data.mask[i[k] * data.mask_stride + j[k]] != 0);
  }
  return count;
}
static int64_t observed_at(const given::Dense &data, given::Vector<const int64_t> rows,
                           given::Vector<const int64_t> cols, given::Vector<int64_t> out_rows,
                           given::Vector<int64_t> out_cols, given::LineRoom values) {
  const lrmc::Dense view = data.view();
  const int64_t n = int64_t(rows.shape(0));
  need(int64_t(cols.shape(0)) == n && int64_t(out_rows.shape(0)) == n && int64_t(out_cols.shape(0)) == n, "places",
       "and room for them differ in length");
  need(given::within(rows, data.n1) && given::within(cols, data.n2), "a place", "is outside of the matrix");
  return given::in_precision(view.storage, [&](auto number) {
    using T = decltype(number);
    T *out = given::line<T>(values, n, "values");
    const auto as = [&](auto stored) {
      return observed_as<decltype(stored), T>(view, rows, cols, T(data.gain), out_rows.data(), out_cols.data(), out);
    };
    nb::gil_scoped_release unlocked;
    switch (view.storage) {
      case Storage::u8: return as(uint8_t());
      case Storage::i16: return as(int16_t());
      case Storage::u16: return as(uint16_t());
      default: return as(T());
    }
  });
}

// The value that is found most often, the least of them if there are several, and how often. In a table that is at
// most half full: np.unique sorts, which takes ten times as long.
template <class T> static std::pair<double, int64_t> most_frequent_of(const T *x, int64_t n) {
  uint64_t size = 64;
  while (size < 2 * uint64_t(n)) size *= 2;
  std::vector<T> values(size);
  std::vector<uint32_t> counts(size);
  T best = 0;
  uint32_t times = 0;
  for (int64_t k = 0; k < n; k++) {
    const T value = x[k] + T(0);  // -0 is 0
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    uint64_t at = (bits * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
    while (counts[at] && values[at] != value) at = (at + 1) & (size - 1);
    values[at] = value;
    const uint32_t count = ++counts[at];
    if (count > times || (count == times && value < best)) {
      best = value;
      times = count;
    }
  }
  return {double(best), times};
}
static std::pair<double, int64_t> most_frequent(given::Line x) {
  const int64_t n = int64_t(x->shape(0));
  return given::in_precision(given::storage_of(x->dtype()), [&](auto number) {
    using T = decltype(number);
    const T *values = given::line<const T>(x, n, "x");
    const auto is_number = [](T y) { return y == y; };
    need(n <= INT32_MAX && std::all_of(values, values + n, is_number), "x", "is too long or has NaN");
    return most_frequent_of(values, n);
  });
}

// Counts the entries of each column that are numbers: how many others are NaN, and how many infinite.
static std::pair<int64_t, int64_t> survey_entries(given::Vector<const int32_t> indices, given::Line values,
                                                  given::Vector<int64_t> cols) {
  int64_t missing = 0, infinite = 0;
  const int64_t n = int64_t(indices.shape(0)), n2 = int64_t(cols.shape(0));
  bool within = true;
  for (int64_t k = 0; k < n; k++) within &= uint32_t(indices.data()[k]) < uint64_t(n2);
  need(within, "an index", "names no column");
  given::in_precision(given::storage_of(values->dtype()), [&](auto number) {
    using T = decltype(number);
    const T *y = given::line<const T>(values, n, "values");
    for (int64_t k = 0; k < n; k++) {
      missing += y[k] != y[k];
      infinite += std::abs(y[k]) > std::numeric_limits<T>::max();
    }
    int64_t *counts = cols.data();
    if (missing)
      for (int64_t k = 0; k < n; k++) counts[indices.data()[k]] += y[k] == y[k];
    else
      for (int64_t k = 0; k < n; k++) counts[indices.data()[k]]++;
  });
  return {missing, infinite};
}

void lrmc::bind_loop(nb::module_ &m) {
  m.def("ordered", &ordered, as_it_is("x"), nb::kw_only(), as_it_is("places"), as_it_is("out"));
  m.def("invert_rows", &invert_rows, as_it_is("H"), nb::kw_only(), as_it_is("ridge"), as_it_is("used"),
        as_it_is("inverses"), nb::arg("threads"));
  m.def("times_rows", &times_rows, as_it_is("H"), as_it_is("B"), nb::kw_only(), as_it_is("scale"), as_it_is("X"));
  m.def("survey_entries", &survey_entries, as_it_is("indices"), as_it_is("values"), nb::kw_only(), as_it_is("cols"));
  m.def("observed_at", &observed_at, nb::arg("data"), nb::kw_only(), as_it_is("rows"), as_it_is("cols"),
        as_it_is("out_rows"), as_it_is("out_cols"), as_it_is("values"));
  m.def("most_frequent", &most_frequent, as_it_is("x"));
  bind_loop_step(m);
}
