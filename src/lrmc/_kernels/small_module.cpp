// The Python face of the kernels for many small matrices.
#include <nanobind/stl/vector.h>

#include "binding.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

using Traces = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;  // matrices x steps x TRACED

// Constants by name: they are said once, in Python.
static double named(const nb::dict &numbers, const char *name) { return nb::cast<double>(numbers[name]); }
static SmallPace pace_of(const nb::dict &x) {
  return {named(x, "above"),   named(x, "good"),     named(x, "widest"),   named(x, "high"),   named(x, "above_high"),
          named(x, "fastest"), named(x, "rounding"), named(x, "decay"),    named(x, "far"),    named(x, "few_behind"),
          named(x, "widen"),   named(x, "narrow"),   named(x, "half"),     named(x, "behind"), named(x, "ridge"),
          named(x, "settled"), named(x, "resting"),  named(x, "patience"), named(x, "small")};
}
static SmallProof proof_of(const nb::dict &x) {
  return {named(x, "agrees"),       named(x, "nearly"),      named(x, "far_off"),   named(x, "between"),
          named(x, "on_their_way"), named(x, "oversampled"), named(x, "often"),     named(x, "prior"),
          named(x, "nothing_else"), named(x, "lone"),        named(x, "plenty"),    named(x, "most_agree"),
          named(x, "alone"),        named(x, "untold"),      named(x, "most_fits"), named(x, "seldom"),
          named(x, "gap")};
}

// Small matrices, one by one. Lines of `report` are in the order of SmallReport.
static void small(const std::vector<const given::Dense *> &data, const std::vector<given::Matrix<double>> &L,
                  const std::vector<given::Matrix<double>> &R, given::Matrix<const double> random,
                  given::Matrix<double> report, Traces trace, int lowest, double tol, const nb::dict &pace,
                  const nb::dict &proof, int threads) {
  static_assert(sizeof(SmallReport) == 11 * sizeof(double));
  const size_t count = data.size();
  SmallJob job;
  need(L.size() == count && R.size() == count, "L, R", "are not as many as the matrices");
  need(report.shape(0) == count && report.shape(1) == 11, "report", "has another shape");
  need(trace.shape(0) == count && trace.shape(2) == TRACED, "trace", "has another shape");
  job.lowest = lowest;
  job.highest = int(random.shape(1));
  need(lowest >= 1 && lowest <= job.highest && job.highest <= MOST_SMALL_RANK, "random", "has too many or few columns");
  std::vector<SmallMatrix> matrices(count);
  for (size_t m = 0; m < count; m++) {
    const auto [n1, n2, gain] = given::Data(*data[m]);
    need(random.shape(0) >= size_t(n2), "random", "has too few lines");
    const auto *left = given::lines<const double>(std::optional(L[m]), n1, job.highest, "L");
    const auto *right = given::lines<const double>(std::optional(R[m]), n2, job.highest, "R");
    matrices[m] = {data[m]->view(),
                   n1,
                   n2,
                   gain,
                   const_cast<double *>(left),
                   const_cast<double *>(right),
                   trace.data() + m * trace.shape(1) * TRACED,
                   reinterpret_cast<SmallReport *>(report.data()) + m};
  }
  job.matrices = matrices.data();
  job.count = int64_t(count);
  job.random = random.data();
  job.tol = tol;
  job.most = int(trace.shape(1));
  job.pace = pace_of(pace);
  job.proof = proof_of(proof);
  job.threads = threads;
  nb::gil_scoped_release unlocked;
  in_use().small(job);
}

// A schedule as Python has it: numbers of layers, and how they are to be taken.
struct Steps {
  given::Vector<const double> zeta, eta, momentum;
  bool goes_on, relative, tangent;
  double zeta_0, start_gain;
};

template <class T> static Layers<T> layers_of(const Steps &steps) {
  Layers<T> job;
  job.most = int(steps.eta.shape(0));
  need(int(steps.zeta.shape(0)) == job.most && int(steps.momentum.shape(0)) == job.most, "zeta", "has another length");
  job.zeta = steps.zeta.data();
  job.eta = steps.eta.data();
  job.momentum = steps.momentum.data();
  job.goes_on = steps.goes_on;
  job.relative = steps.relative;
  job.tangent = steps.tangent;
  job.zeta_0 = steps.zeta_0;
  job.start_gain = steps.start_gain;
  return job;
}

// Matrices of one shape and precision. Lines of `report` are in the order of LayersReport.
static void layers(const std::vector<const given::Dense *> &data, const Steps &steps,
                   const std::vector<nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>> &L,
                   const std::vector<nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>> &R,
                   given::Matrix<const double> random, std::optional<given::Matrix<const int64_t>> places,
                   double all_up_to, given::Vector<const double> scales, given::Matrix<double> report, Traces trace,
                   double tol, double blown_up, double few_inliers, int threads) {
  constexpr size_t REPORTED = sizeof(LayersReport) / sizeof(double);
  const size_t count = data.size();
  need(count > 0 && L.size() == count && R.size() == count && scales.shape(0) == count, "L, R", "are too few");
  need(report.shape(0) == count && report.shape(1) == REPORTED, "report", "has another shape");
  given::in_precision(data[0]->view().storage, [&](auto number) {
    using T = decltype(number);
    auto job = layers_of<T>(steps);
    const auto [n1, n2, gain] = given::Data(*data[0]);
    job.rank = int(L[0].shape(1));
    job.directions = int(random.shape(1));
    need(job.rank >= 1 && job.rank <= MOST_SMALL_RANK, "L", "has too many or few columns");
    need(job.directions >= 1 && job.directions <= job.rank + MORE_DIRECTIONS, "random", "has too many or few columns");
    need(random.shape(0) == size_t(n2), "random", "has another length than the data");
    need(int64_t(trace.shape(0)) == int64_t(count) && int(trace.shape(1)) == job.most && trace.shape(2) == TRACED,
         "trace", "has another shape");
    std::vector<LayersMatrix<T>> matrices(count);
    for (size_t m = 0; m < count; m++) {
      need(data[m]->n1 == n1 && data[m]->n2 == n2, "data", "differ in shape");
      matrices[m] = {data[m]->view(),
                     n1,
                     n2,
                     scales.data()[m],
                     given::lines<T>(std::optional(L[m]), n1, job.rank, "L"),
                     given::lines<T>(std::optional(R[m]), n2, job.rank, "R"),
                     trace.data() + m * trace.shape(1) * TRACED,
                     reinterpret_cast<LayersReport *>(report.data()) + m};
    }
    if (places) {
      need(places->shape(1) == 2, "places", "are no pairs");
      job.places = places->data();
      job.n_places = int64_t(places->shape(0));
      for (const int64_t *at = job.places; at < job.places + 2 * job.n_places; at += 2)
        need(at[0] >= 0 && at[0] < n1 && at[1] >= 0 && at[1] < n2, "a place", "is outside of the matrix");
    }
    job.all_up_to = all_up_to;
    job.matrices = matrices.data();
    job.count = int64_t(count);
    job.random = random.data();
    job.tol = tol;
    job.blown_up = blown_up;
    job.few_inliers = few_inliers;
    job.threads = threads;
    nb::gil_scoped_release unlocked;
    in_use().in<T>().layers(job);
  });
}

void lrmc::bind_small(nb::module_ &m) {
  m.attr("most_small_rank") = MOST_SMALL_RANK;
  m.def("small", &::small, nb::arg("data"), nb::kw_only(), nb::arg("L"), nb::arg("R"), as_it_is("random"),
        as_it_is("report"), as_it_is("trace"), nb::arg("lowest"), nb::arg("tol"), nb::arg("pace"), nb::arg("proof"),
        nb::arg("threads"));
  nb::class_<Steps>(m, "Steps")
      .def(
          "__init__",
          [](Steps *self, given::Vector<const double> zeta, given::Vector<const double> eta,
             given::Vector<const double> momentum, bool goes_on, bool relative, bool tangent, double zeta_0,
             double start_gain) {
            new (self) Steps{std::move(zeta), std::move(eta), std::move(momentum), goes_on, relative,
                             tangent,         zeta_0,         start_gain};
          },
          nb::kw_only(), as_it_is("zeta"), as_it_is("eta"), as_it_is("momentum"), nb::arg("goes_on"),
          nb::arg("relative"), nb::arg("tangent"), nb::arg("zeta_0"), nb::arg("start_gain"));
  m.def("layers", &::layers, nb::arg("data"), nb::arg("steps"), nb::kw_only(), nb::arg("L"), nb::arg("R"),
        as_it_is("random"), as_it_is_or_none("places"), nb::arg("all_up_to"), as_it_is("scales"), as_it_is("report"),
        as_it_is("trace"), nb::arg("tol"), nb::arg("blown_up"), nb::arg("few_inliers"), nb::arg("threads"));
}
