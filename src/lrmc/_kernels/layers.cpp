// The paper's LRMC with given thresholds and steps on small matrices: the start, all layers and the end of each while
// it is in the cache. The same numbers as methods/start.py and methods/lrmc.py, where each step is explained; rows are
// computed in the lanes of vectors, and all that belongs to columns in double precision.
//
// Compiled once for each instruction set.
#include "layers.hpp"

#include <atomic>
#include <chrono>

#include "layers_start.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr double LEAST_SCALE = 1e-30, LARGEST_SCALE = 1e30;  // beyond, others look whether it can be computed

// ---- one matrix

template <class T, int R> class Unrolled {
  static constexpr int W = width<T>, RR = R * R;
  using V = Vec<T>;
  const Layers<T> &job;
  const InLanes<T> &data;
  const bool complete;
  T *L, *after, *pulled, *speed;                // blocks x R x W: rows, where they go, C R, momentum
  T *columns, *sums;                            // of columns: numbers to multiply with, and sums in lanes: n2 x R
  std::vector<double> F, next, momentum, pull;  // n2 x R: columns, where they go; C' L
  double LL[RR], FF[RR];                        // L'L and R'R
  double before_LL[RR], before_FF[RR];          // before the last layer

 public:
  static size_t size(int64_t n1, int64_t n2) {  // in doubles
    const int64_t padded = (n1 + W - 1) / W * W;
    return size_t(padded * 4 * R + n2 * R * (W + 1)) * sizeof(T) / 8 + 64;
  }
  Unrolled(const Layers<T> &job_, const InLanes<T> &data_, bool complete_, Room &room)
      : job(job_),
        data(data_),
        complete(complete_),
        F(data.n2 * R),
        next(data.n2 * R),
        momentum(data.n2 * R),
        pull(data.n2 * R) {
    const int64_t padded = data.blocks * W;
    L = room.take<T>(padded * R);
    after = room.take<T>(padded * R);
    pulled = room.take<T>(padded * R);
    speed = room.take<T>(padded * R);
    columns = room.take<T>(data.n2 * R);
    sums = room.take<T>(data.n2 * R * W);
  }

  // Where the layers begin.
  void begin(const Start<T> &from) {
    V grams[RR] = {};
    std::fill_n(LL, RR, 0.0);
    over_rows<1>(
        data.blocks,
        [&](int64_t b, auto) {
          V l[R] = {};
          for (int a = 0; a < from.count; a++) {
            const V x = load<V>(from.B + (b * from.count + a) * W);
            for (int k = 0; k < R; k++) l[k] += x * T(from.left[a * R + k]);
          }
          for (int k = 0; k < R; k++) store(L + (b * R + k) * W, l[k]);
          add_products(l, l, grams);
        },
        [&] { settle_grams(grams, LL); });
    F = from.columns;
    cross(F.data(), F.data(), data.n2, R, R, FF);
  }

  double norm() const { return root_of(dot(LL, FF, RR)); }

  struct Moved {
    double change, inliers;
  };

  // One layer: a pass, and a scaled gradient step on both factors. `keep` makes it the new iterate.
  Moved layer(double zeta, double eta, double gamma) {
    double scale[RR], other[RR], LC[RR], M[RR] = {};
    Spectrum(FF, R, negligible<T>(data.n1)).inverse(scale);
    Spectrum(LL, R, negligible<T>(data.n2)).inverse(other);
    const double inliers = complete ? pass<true>(T(zeta), LC) : pass<false>(T(zeta), LC);
    if (job.tangent) {  // M = (L'L)^-1 L' dL: each factor gives up half of what both would do
      double LdL[RR];
      times(LC, scale, R, R, R, LdL);
      times(other, LdL, R, R, R, M);
    }
    double DD[RR], DL[RR], EE[RR], EF[RR];
    std::copy_n(FF, RR, before_FF);
    std::copy_n(LL, RR, before_LL);
    move_rows(scale, M, eta, gamma, DD, DL);
    move_columns(other, M, eta, gamma, EE, EF);
    return {change_of(DD, DL, EE, EF), inliers / data.n_observed};
  }
  void keep() {
    std::swap(L, after);
    std::swap(F, next);
  }

  void write(double root, T *left, T *right) const {
    for (int64_t i = 0; i < data.n1; i++)
      for (int a = 0; a < R; a++) left[i * R + a] = T(root * L[((i / W) * R + a) * W + i % W]);
    for (int64_t k = 0; k < data.n2 * R; k++) right[k] = T(root * F[k]);
  }

 private:
  static void add_products(const V *x, const V *y, V *out) {
    for (int a = 0; a < R; a++)
      for (int c = 0; c < R; c++) out[a * R + c] += x[a] * y[c];
  }
  static void settle_grams(V *grams, double *out) {
    for (int k = 0; k < RR; k++) {
      out[k] += double(sum<T>(grams[k]));
      grams[k] = V{};
    }
  }

  // C R into `pulled`, C' L into `pull`, L' (C R); how many residuals are within zeta.
  template <bool Complete> double pass(T zeta, double *LC) {
    constexpr int TOGETHER = R <= 2 ? 4 : R <= 4 ? 2 : 1;
    const V z = fill<T>(zeta);
    V grams[RR] = {};
    Mask<T> within = {};
    double inliers = 0;
    std::fill(pull.begin(), pull.end(), 0.0);
    std::fill_n(LC, RR, 0.0);
    std::copy(F.begin(), F.end(), columns);
    over_rows<TOGETHER>(
        data.blocks,
        [&](int64_t b, auto together) {
          constexpr int U = together;
          V l[U][R], x[U][R] = {};
          for (int u = 0; u < U; u++)
            for (int a = 0; a < R; a++) l[u][a] = load<V>(L + ((b + u) * R + a) * W);
          for (int64_t j = 0; j < data.n2; j++) {
            T *out = sums + j * R * W;
            V found[R];
            for (int a = 0; a < R; a++) found[a] = load<V>(out + a * W);
#pragma GCC unroll 4
            for (int u = 0; u < U; u++) {
              V e = load<V>(data.block(b + u, j));
#pragma GCC unroll 8
              for (int a = 0; a < R; a++) e -= l[u][a] * columns[j * R + a];
              const V kept = clipped(e, z), c = Complete ? kept : e == e ? kept : V{};
              within -= kept == e;
#pragma GCC unroll 8
              for (int a = 0; a < R; a++) {
                x[u][a] += c * columns[j * R + a];
                found[a] += c * l[u][a];
              }
            }
            for (int a = 0; a < R; a++) store(out + a * W, found[a]);
          }
          for (int u = 0; u < U; u++) {
            for (int a = 0; a < R; a++) store(pulled + ((b + u) * R + a) * W, x[u][a]);
            add_products(l[u], x[u], grams);
          }
        },
        [&] {
          settle(sums, data.n2 * R, pull.data());
          settle_grams(grams, LC);
          for (int w = 0; w < W; w++) inliers += double(within[w]);
          within = Mask<T>{};
        });
    // lanes without a row are 0 in complete data, and met
    return Complete ? inliers - double((data.blocks * W - data.n1) * data.n2) : inliers;
  }

  // after = L + eta (C R scale - L M / 2 + gamma speed); D'D and D'L of the step, and L'L after it.
  void move_rows(const double *scale, const double *M, double eta, double gamma, double *DD, double *DL) {
    V steps[RR] = {}, crossed[RR] = {}, grams[RR] = {};
    std::fill_n(DD, RR, 0.0);
    std::fill_n(DL, RR, 0.0);
    std::fill_n(LL, RR, 0.0);
    over_rows<1>(
        data.blocks,
        [&](int64_t b, auto) {
          V l[R], d[R], x[R];
          for (int a = 0; a < R; a++) {
            l[a] = load<V>(L + (b * R + a) * W);
            x[a] = load<V>(pulled + (b * R + a) * W);
          }
          for (int a = 0; a < R; a++) {
            d[a] = T(gamma) * load<V>(speed + (b * R + a) * W);
            for (int c = 0; c < R; c++) d[a] += x[c] * T(scale[c * R + a]) - l[c] * T(M[c * R + a] / 2);
            store(speed + (b * R + a) * W, d[a]);
          }
          for (int a = 0; a < R; a++) d[a] *= T(eta);
          add_products(d, d, steps);
          add_products(d, l, crossed);
          for (int a = 0; a < R; a++) store(after + (b * R + a) * W, l[a] += d[a]);
          add_products(l, l, grams);
        },
        [&] {
          settle_grams(steps, DD);
          settle_grams(crossed, DL);
          settle_grams(grams, LL);
        });
  }

  // The same for columns: (C' L) other - R M' / 2.
  void move_columns(const double *other, const double *M, double eta, double gamma, double *EE, double *EF) {
    std::vector<double> step(data.n2 * R);
    times(pull.data(), other, data.n2, R, R, step.data());
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0; a < R; a++) {
        double &d = step[j * R + a];
        for (int c = 0; c < R; c++) d -= F[j * R + c] * M[a * R + c] / 2;
        d = momentum[j * R + a] = d + gamma * momentum[j * R + a];
        d *= eta;
        next[j * R + a] = F[j * R + a] + d;
      }
    cross(step.data(), step.data(), data.n2, R, R, EE);
    cross(step.data(), F.data(), data.n2, R, R, EF);
    cross(next.data(), next.data(), data.n2, R, R, FF);
  }

  // |X_new - X_old| / |X_old|: `change_of` of linalg.py.
  double change_of(const double *DD, const double *DL, const double *EE, const double *EF) const {
    double square = 0;
    for (int a = 0; a < R; a++)
      for (int b = 0; b < R; b++) {
        const int k = a * R + b, turned = b * R + a;
        square += DD[k] * FF[k] + 2 * DL[k] * (EF[turned] + EE[turned]) + before_LL[k] * EE[k];
      }
    const double size = root_of(square), norm = root_of(dot(before_LL, before_FF, RR));
    return norm > 0 ? size / norm : size == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
};

// ---- a run

template <class T, int R>
void run(const Layers<T> &job, const LayersMatrix<T> &matrix, double unit, const InLanes<T> &data, Room &room) {
  using Report = LayersReport;
  Report &told = *matrix.report;
  const double all = double(data.n1) * double(data.n2), over_p = all / data.n_observed;
  const double zeta_unit = (job.relative ? matrix.scale : 1) / unit, eta_unit = job.relative ? over_p : 1;
  const auto began = std::chrono::steady_clock::now();
  const bool complete = data.n_observed == all;
  Start<T> start(data, complete, room);
  if (!start.find(job, job.zeta_0 * zeta_unit, job.start_gain < 0 ? over_p : job.start_gain * eta_unit)) return;
  Unrolled<T, R> at(job, data, complete, room);
  at.begin(start);
  const double first = at.norm();
  if (!std::isfinite(first)) return;
  told.status = job.goes_on ? Report::max_iter : Report::ended;
  for (int k = 0; k < job.most; k++) {
    const auto [change, inliers] = at.layer(job.zeta[k] * zeta_unit, job.eta[k] * eta_unit, job.momentum[k]);
    if (const double norm = at.norm(); !std::isfinite(norm) || norm > job.blown_up * first) {
      told.status = Report::diverged;
      break;
    }
    at.keep();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
    const double record[] = {change, job.zeta[k] * zeta_unit * unit, inliers, passed.count()};
    std::copy_n(record, TRACED, matrix.trace + TRACED * k);
    told.layers = k + 1;
    if (change < job.tol) {
      told.status = inliers >= job.few_inliers ? Report::converged : Report::stalled;
      break;
    }
  }
  at.write(std::sqrt(unit), matrix.L, matrix.R);
}

template <class T, int R>
void run_at_rank(const Layers<T> &job, const LayersMatrix<T> &matrix, double unit, const InLanes<T> &data, Room &room) {
  if constexpr (R <= MOST_SMALL_RANK) {
    if (R == job.rank) run<T, R>(job, matrix, unit, data, room);
    else run_at_rank<T, R + 1>(job, matrix, unit, data, room);
  }
}

// How many of some numbers are below a border, the largest of these, and the least of the others.
template <class T> struct Split {
  int64_t below;
  T largest, least;
};
template <class T> Split<T> split(const std::vector<T> &x, T border) {  // whole vectors of x
  using V = Vec<T>;
  const V b = fill(border);
  V largest = fill(T(-1)), least = fill(std::numeric_limits<T>::infinity());
  Mask<T> below = {};
  for (size_t i = 0; i < x.size(); i += width<T>) {
    const V y = load<V>(x.data() + i);
    const Mask<T> is_below = y < b;
    below -= is_below;
    largest = larger(largest, is_below ? y : largest);
    least = smaller(least, is_below ? least : y);
  }
  Split<T> found{0, T(-1), std::numeric_limits<T>::infinity()};
  for (int w = 0; w < width<T>; w++) {
    found.below += below[w];
    found.largest = std::max<T>(found.largest, largest[w]);
    found.least = std::min<T>(found.least, least[w]);
  }
  return found;
}

// The k-th of n numbers that are neither negative nor infinite, the first of x. Borders come nearer from both sides,
// and are numbers of x, so that values that many have are soon alone between them.
template <class T> T ordered(const std::vector<T> &x, int64_t n, int64_t k) {
  constexpr int64_t FEW = 201, BESIDE = 35;  // the middle of all is within 5 standard deviations of the middle of few
  constexpr int64_t LEFT = 64, TOGETHER = 64;
  T few[FEW];
  for (int64_t i = 0; i < FEW; i++) few[i] = x[i * n / FEW];
  T *const under = few + FEW / 2 - BESIDE, *const over = under + 2 * BESIDE;
  std::nth_element(few, under, few + FEW);
  std::nth_element(under, over, few + FEW);
  T low = 0, high = std::numeric_limits<T>::max();
  int64_t below = 0, within = n;  // numbers below `low`, and from there to `high`
  for (int step = 0; low < high && within > LEFT; step++) {
    T border = step == 0 ? *under : step == 1 ? *over : low + (high - low) / 2;
    if (!(border > low && border <= high)) border = high;
    const Split<T> found = split(x, border);
    if (found.below > k) {
      high = found.largest;
      within = found.below - below;
    } else {
      within -= found.below - below;
      below = found.below;
      low = found.least;
    }
  }
  if (low >= high) return low;
  std::vector<T> some;
  for (int64_t first = 0; first < n; first += TOGETHER) {  // of most stretches, none
    const int64_t last = std::min(n, first + TOGETHER);
    int32_t between = 0;
    for (int64_t i = first; i < last; i++) between += (x[i] >= low) & (x[i] <= high);
    for (int64_t i = first; between && i < last; i++)
      if (x[i] >= low && x[i] <= high) some.push_back(x[i]);
  }
  std::nth_element(some.begin(), some.begin() + (k - below), some.end());
  return some[size_t(k - below)];
}

// The middle of n numbers that are neither negative nor infinite, as NumPy has it; 0 without any.
template <class T> double median(std::vector<T> &x, int64_t n) {
  if (n == 0) return 0;
  x.resize(size_t(n));
  x.resize(size_t((n + width<T> - 1) / width<T> * width<T>), std::numeric_limits<T>::infinity());
  const T lower = ordered(x, n, (n - 1) / 2);
  if (n % 2) return double(lower);
  const Split<T> after = split(x, std::nextafter(lower, std::numeric_limits<T>::infinity()));
  return (double(lower) + double(after.below > n / 2 ? lower : after.least)) / 2;
}

// Where the places that scales are taken from lie in the lanes.
template <class T> std::vector<int32_t> in_lanes(const Layers<T> &job) {
  constexpr int W = width<T>;
  const int64_t n2 = job.count ? job.matrices[0].n2 : 0;
  std::vector<int32_t> found(job.places ? job.n_places : 0);
  for (size_t k = 0; k < found.size(); k++) {
    const int64_t i = job.places[2 * k], j = job.places[2 * k + 1];
    found[k] = int32_t((i / W * n2 + j) * W + i % W);
  }
  return found;
}

// |y| at some places of a matrix without gaps, or all that is observed: how many.
template <class T> int64_t sizes_of(const InLanes<T> &data, const std::vector<int32_t> &places, std::vector<T> &sizes) {
  const int64_t all = data.blocks * data.n2 * width<T>;
  sizes.resize(size_t(places.empty() ? all : int64_t(places.size())) + 1);
  int64_t found = 0;
  for (const int32_t place : places) sizes[found++] = std::fabs(data.Y[place]);
  for (int64_t k = 0; places.empty() && k < all; k++) {  // without a branch, which random gaps would make slow
    const T y = data.Y[k];
    sizes[found] = std::fabs(y);
    found += y == y;
  }
  return found;
}

// The median of |y|; the mean, where that is 0: `Observations.scale`.
template <class T> double scale_of(const InLanes<T> &data, const std::vector<int32_t> &places, std::vector<T> &sizes) {
  const int64_t n = sizes_of(data, places, sizes);
  const double middle = median(sizes, n);
  if (middle > 0 || n == 0) return middle;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += double(sizes[i]);
  return sum > 0 ? sum / double(n) : 1;
}

// What is kept from one matrix to the next.
template <class T> struct Kept {
  Room room;
  std::vector<T> sizes;
};

template <class T>
void one(const Layers<T> &job, LayersMatrix<T> matrix, const std::vector<int32_t> &places, Kept<T> &kept) {
  const int64_t n1 = matrix.n1, n2 = matrix.n2;
  Room &room = kept.room;
  room.reserve(InLanes<T>::size(n1, n2) + Start<T>::size(n1, n2) + Unrolled<T, MOST_SMALL_RANK>::size(n1, n2));
  InLanes<T> data(matrix.data, n1, n2, 1, room);
  const bool complete = data.n_observed == double(n1) * double(n2);
  if (!data.finite || data.n_observed == 0) return;
  if (!(matrix.scale > 0)) {
    static const std::vector<int32_t> nowhere;
    const bool all = data.n_observed <= job.all_up_to;
    if (!all && !complete) return;  // its sample is another
    matrix.scale = scale_of(data, all ? nowhere : places, kept.sizes);
  }
  if (!(matrix.scale > LEAST_SCALE && matrix.scale < LARGEST_SCALE)) return;
  const double unit = std::pow(4.0, std::round(std::log(matrix.scale) / std::log(4.0)));
  if (unit != 1) data.scale_by(T(1 / unit));
  if (complete) data.pad();
  const Lines empty = without_entry(data), alone = apart(data);
  LayersReport &told = *matrix.report;
  told.n_observed = data.n_observed;
  told.empty_rows = double(empty.rows), told.empty_cols = double(empty.cols);
  told.apart_rows = double(alone.rows), told.apart_cols = double(alone.cols);
  run_at_rank<T, 1>(job, matrix, unit, data, room);
}

}  // namespace

template <class T> void layers(const Layers<T> &job) {
  std::atomic<int64_t> next{0};
  const std::vector<int32_t> places = in_lanes(job);
  in_shares(shares_of(job.threads, job.count), [&](int) {
    Kept<T> kept;
    for (int64_t m = next++; m < job.count; m = next++) one(job, job.matrices[m], places, kept);
  });
}
template void layers<float>(const Layers<float> &);
template void layers<double>(const Layers<double> &);

}  // namespace lrmc::LRMC_ISA
