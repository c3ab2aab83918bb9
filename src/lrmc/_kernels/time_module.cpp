// The Python face of the kernels for tables with time: see conjugate.hpp.
#include "binding.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

template <class T> using Block = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class T> static void mix(Block<T> x, Block<const T> y, double a, double b) {
  need(x.size() == y.size(), "y", "has another size");
  const Mixed<T> job{int64_t(x.size()), x.data(), y.data(), T(a), T(b)};
  nb::gil_scoped_release unlocked;
  in_use().in<T>().mix(job);
}

template <class T>
static double add(Block<T> x, Block<const T> y, Block<const T> toward, std::optional<given::Matrix<const T>> times) {
  Added<T> job;
  job.lines = int64_t(x.shape(0));
  job.across = int64_t(x.shape(1) * x.shape(2));
  need(y.size() == x.size(), "y", "has another size");
  need(toward.size() == x.size(), "toward", "has another size");
  need(!times || int64_t(times->size()) == job.across, "times", "has another size than a line");
  job.x = x.data();
  job.y = y.data();
  job.toward = toward.data();
  job.times = times ? times->data() : nullptr;
  nb::gil_scoped_release unlocked;
  return in_use().in<T>().add(job);
}

template <class T> static void bind_precision(nb::module_ &m) {
  m.def("mix", &::mix<T>, as_it_is("x"), as_it_is("y"), nb::kw_only(), nb::arg("a"), nb::arg("b"));
  m.def("add", &::add<T>, as_it_is("x"), as_it_is("y"), nb::kw_only(), as_it_is("toward"), as_it_is_or_none("times"));
}

void lrmc::bind_time(nb::module_ &m) {
  bind_precision<float>(m);
  bind_precision<double>(m);
}
