// The Python face of what a step of the closed loop does beside its pass, on some thousand rows or entries: there a
// handful of NumPy's operations take as long as the pass.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "binding.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

// ---- order statistics

// Numbers in the order of their bits: as integers they fall into buckets by their leading bits.
template <class T> struct Ordered {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int BITS = 8 * sizeof(T), BUCKETS = 1 << 13, SHIFT = BITS - 13;
  static constexpr Bits SIGN = Bits(1) << (BITS - 1);

  static Bits key(T x) {  // NaN comes last
    Bits bits;
    std::memcpy(&bits, &x, sizeof x);
    return x != x ? ~Bits(0) : bits & SIGN ? ~bits : bits | SIGN;
  }
  static double number(Bits key) {
    if (key == ~Bits(0)) return std::numeric_limits<double>::quiet_NaN();
    const Bits bits = key & SIGN ? key & ~SIGN : ~key;
    T x;
    std::memcpy(&x, &bits, sizeof x);
    return double(x);
  }

  const T *x;
  int64_t n;
  std::array<uint32_t, BUCKETS> counts{};
  std::vector<Bits> some;  // of one bucket

  Ordered(const T *x_, int64_t n_) : x(x_), n(n_) {
    for (int64_t k = 0; k < n; k++) counts[key(x[k]) >> SHIFT]++;
  }
  void look_at(Bits bucket) {
    some.clear();
    for (int64_t k = 0; k < n; k++)
      if (key(x[k]) >> SHIFT == bucket) some.push_back(key(x[k]));
  }
  // The numbers at these places of the order, which rise.
  void at(const int64_t *places, int64_t count, double *out) {
    int64_t before = 0, done = 0;  // numbers in the buckets before this one; in it, those that are in order
    for (int64_t k = 0, bucket = -1, next = 0; k < count; k++) {
      for (; before + counts[next] <= uint64_t(places[k]); next++) before += counts[next];
      if (bucket != next) {
        look_at(Bits(bucket = next));
        done = 0;
      }
      const auto found = some.begin() + (places[k] - before);
      std::nth_element(some.begin() + done, found, some.end());
      out[k] = number(*found);
      done = found - some.begin();
    }
  }
};

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

// ---- sparse data at the door

// Counts the entries of each column that are numbers: how many others are NaN, and how many infinite.
static std::pair<int64_t, int64_t> survey_entries(given::Vector<const int32_t> indices, given::Line values,
                                                  given::Vector<int64_t> cols) {
  int64_t missing = 0, infinite = 0;
  const int64_t n = int64_t(indices.shape(0)), n2 = int64_t(cols.shape(0));
  const auto within = [&](int32_t j) { return j >= 0 && j < n2; };
  need(std::all_of(indices.data(), indices.data() + n, within), "an index", "names no column");
  given::in_precision(given::storage_of(values->dtype()), [&](auto number) {
    using T = decltype(number);
    const T *y = given::line<const T>(values, n, "values");
    for (int64_t k = 0; k < n; k++) {
      cols.data()[indices.data()[k]] += y[k] == y[k];
      missing += y[k] != y[k];
      infinite += std::abs(y[k]) > std::numeric_limits<T>::max();
    }
  });
  return {missing, infinite};
}

void lrmc::bind_loop(nb::module_ &m) {
  m.def("ordered", &ordered, as_it_is("x"), nb::kw_only(), as_it_is("places"), as_it_is("out"));
  m.def("invert_rows", &invert_rows, as_it_is("H"), nb::kw_only(), as_it_is("ridge"), as_it_is("used"),
        as_it_is("inverses"), nb::arg("threads"));
  m.def("times_rows", &times_rows, as_it_is("H"), as_it_is("B"), nb::kw_only(), as_it_is("scale"), as_it_is("X"));
  m.def("survey_entries", &survey_entries, as_it_is("indices"), as_it_is("values"), nb::kw_only(), as_it_is("cols"));
}
