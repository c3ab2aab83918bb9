// Second opinions on the entries of small tables: which rows are near each other, and how much each opinion counts.
// Compiled once for each instruction set.
#include "opinions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cholesky.hpp"
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr int LANES = width<double>, PANEL = 2 * LANES;  // rows of what is known that are compared at once
constexpr int GROUP = 32;                                // with so many others before the nearest are chosen

// The nearest by their distances, the nearest first; of equal ones, those that come first.
class Chosen {
  const Nearest &job;
  std::vector<double> least;

 public:
  explicit Chosen(const Nearest &job_) : job(job_), least(job.count) {}

  void choose(int64_t i, const double *d) {
    const int count = job.count;
    const int64_t self = job.own ? i : -1;
    int64_t *which = job.which + i * count;
    for (int k = 0; k < count; k++) {  // where nothing can be compared
      which[k] = self >= 0 && k >= self ? k + 1 : k;
      least[k] = std::numeric_limits<double>::infinity();
    }
    for (int64_t j = 0; j < job.known; j++) {
      if (!(d[j] < least[count - 1]) || j == self) continue;
      int k = count - 1;
      for (; k > 0 && d[j] < least[k - 1]; k--) least[k] = least[k - 1], which[k] = which[k - 1];
      least[k] = d[j];
      which[k] = j;
    }
    for (int k = 0; k < count; k++) job.apart[i * count + k] = apart(i, which[k]);
  }

 private:
  double apart(int64_t i, int64_t j) const {  // as if entries that are missing were as far apart as the others
    double sum = 0, shared = 0;
    for (int c = 0; c < job.across; c++) {
      const double off = job.Z[i * job.across + c] - job.among[j * job.across + c];
      if (off == off) sum += off * off, shared++;
    }
    return shared == job.across ? sum : shared > 0 ? sum / shared * job.across : NOTHING_SHARED;
  }

 public:
  static constexpr double NOTHING_SHARED = 1e300;  // a distance behind all others
};

// Rows without gaps.
class NearestRows {
  static constexpr int ROWS = 4;  // at a time
  const Nearest &job;
  const int across = job.across;
  const int64_t known = job.known, panels = (known + PANEL - 1) / PANEL, padded = panels * PANEL;
  std::vector<double> middle;
  Buffer<double> sides, squares;  // of what is known less its mean: panels x across x PANEL; padded
  Buffer<double> rows, distance;  // of a group: GROUP x across, twice what is left of them; GROUP x padded

 public:
  explicit NearestRows(const Nearest &job_)
      : job(job_),
        middle(across),
        sides(zeros<double>(padded * across)),
        squares(zeros<double>(padded)),
        rows(zeros<double>(GROUP * across)),
        distance(zeros<double>(GROUP * padded)) {
    for (int64_t j = 0; j < known; j++)
      for (int k = 0; k < across; k++) middle[k] += job.among[j * across + k] / double(known);
    for (int64_t j = 0; j < known; j++)
      for (int k = 0; k < across; k++) {
        const double x = job.among[j * across + k] - middle[k];
        sides[(j / PANEL * across + k) * PANEL + j % PANEL] = x;
        squares[j] += x * x;
      }
  }

  void run() {
    Chosen nearest(job);
    for (int64_t first = 0; first < job.n; first += GROUP) {
      const int number = int(std::min<int64_t>(GROUP, job.n - first));
      for (int u = 0; u < number; u++)
        for (int k = 0; k < across; k++) rows[u * across + k] = 2 * (job.Z[(first + u) * across + k] - middle[k]);
      for (int64_t panel = 0; panel < panels; panel++)
        for (int u = 0; u < number; u += ROWS) measure(panel, u);
      for (int u = 0; u < number; u++) nearest.choose(first + u, distance.get() + u * padded);
    }
  }

 private:
  // Squares of the distances of ROWS rows, less what is the same for all of them.
  void measure(int64_t panel, int u) {
    const double *x = sides.get() + panel * PANEL * across, *z = rows.get() + u * across;
    const double *square = squares.get() + panel * PANEL;
    Vec<double> left[ROWS], right[ROWS];
    for (int v = 0; v < ROWS; v++) left[v] = load<Vec<double>>(square), right[v] = load<Vec<double>>(square + LANES);
    for (int k = 0; k < across; k++, x += PANEL) {
      const Vec<double> a = load<Vec<double>>(x), b = load<Vec<double>>(x + LANES);
#pragma GCC unroll 4
      for (int v = 0; v < ROWS; v++) left[v] -= z[v * across + k] * a, right[v] -= z[v * across + k] * b;
    }
    for (int v = 0; v < ROWS; v++) {
      double *out = distance.get() + (u + v) * padded + panel * PANEL;
      store(out, left[v]);
      store(out + LANES, right[v]);
    }
  }
};

// Rows with gaps (NaN): by the mean square over the entries that both have.
class SharingRows {
  const Nearest &job;
  const int across = job.across;
  const int64_t known = job.known, panels = (known + PANEL - 1) / PANEL, padded = panels * PANEL;
  Buffer<double> sides, seen;  // panels x across x PANEL: what is known, 0 where it is not; and 1 where it is
  Buffer<double> distance;     // padded
  std::vector<int> has;        // columns of a row

 public:
  explicit SharingRows(const Nearest &job_)
      : job(job_),
        sides(zeros<double>(padded * across)),
        seen(zeros<double>(padded * across)),
        distance(zeros<double>(padded)) {
    for (int64_t j = 0; j < known; j++)
      for (int k = 0; k < across; k++) {
        const double x = job.among[j * across + k];
        const int64_t at = (j / PANEL * across + k) * PANEL + j % PANEL;
        sides[at] = x == x ? x : 0;
        seen[at] = x == x;
      }
  }

  void run() {
    Chosen nearest(job);
    for (int64_t i = 0; i < job.n; i++) {
      const double *z = job.Z + i * across;
      has.clear();
      for (int k = 0; k < across; k++)
        if (z[k] == z[k]) has.push_back(k);
      for (int64_t panel = 0; panel < panels; panel++) measure(z, panel);
      nearest.choose(i, distance.get());
    }
  }

 private:
  void measure(const double *z, int64_t panel) {
    const double *x = sides.get() + panel * PANEL * across, *s = seen.get() + panel * PANEL * across;
    Vec<double> sum[2] = {}, shared[2] = {};
    for (const int k : has)
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++) {
        const int at = k * PANEL + h * LANES;
        const Vec<double> here = load<Vec<double>>(s + at), off = z[k] - load<Vec<double>>(x + at);
        sum[h] += here * off * off;
        shared[h] += here;
      }
    for (int h = 0; h < 2; h++) {
      const Vec<double> far = fill<double>(Chosen::NOTHING_SHARED);
      const Vec<double> mean = shared[h] > 0 ? sum[h] / larger(shared[h], fill<double>(1)) : far;
      store(distance.get() + panel * PANEL + h * LANES, mean);
    }
  }
};

bool has_gaps(const double *x, int64_t n) {
  return std::any_of(x, x + n, [](double value) { return value != value; });
}

// Weights >= 0 of sum 1 of the fit and of what others say beside it, by reweighted least squares.
class Mixing {
  static constexpr int MOST = MOST_OPINIONS + 1;
  const Opinions &job;
  const int count = job.count + 1;  // the fit itself comes first, which moves nothing
  double G[MOST * MOST], c[MOST];

 public:
  explicit Mixing(const Opinions &job_) : job(job_) {}

  void run() {
    std::fill_n(job.weights, count, 1.0 / count);
    for (int round = 0; round < job.rounds; round++) {
      sum();
      draw();
      choose();
    }
  }

 private:
  double &at(int a, int b) { return G[a * count + b]; }

  void sum() {  // of w toward toward' and w error toward
    std::fill_n(G, count * count, 0.0);
    std::fill_n(c, count, 0.0);
    for (int64_t i = 0; i < job.n; i++) {
      const double *x = job.toward + i * job.count;
      double e = job.error[i];
      for (int a = 1; a < count; a++) e -= job.weights[a] * x[a - 1];
      const double w = 1 / std::sqrt(1 + (e / job.bend) * (e / job.bend));
      for (int a = 1; a < count; a++) {
        const double wx = w * x[a - 1];
        c[a] += wx * job.error[i];
        for (int b = a; b < count; b++) at(a, b) += wx * x[b - 1];
      }
    }
  }
  void draw() {  // to equal weights, as so many entries would
    double trace = 0;
    for (int a = 1; a < count; a++) trace += at(a, a);
    const double prior = job.equal / std::max<double>(double(job.n), 1) * trace / std::max(job.count, 1) + 1e-300;
    for (int a = 0; a < count; a++) {
      at(a, a) += prior;
      c[a] += prior / count;
      for (int b = 0; b < a; b++) at(a, b) = at(b, a);
    }
  }
  void choose() {  // the least w'Gw / 2 - c'w: the best of the stationary points of all choices of what is not 0
    double least = std::numeric_limits<double>::infinity(), w[MOST];
    if (const int before = not_zero(); is_least(before, w)) {
      std::copy_n(w, count, job.weights);
      return;
    }
    for (int chosen = 1; chosen < 1 << count; chosen++) {
      const double value = stationary(chosen, w);
      if (!(value < least)) continue;
      least = value;
      std::copy_n(w, count, job.weights);
    }
  }
  int not_zero() const {  // of the weights so far
    int chosen = 0;
    for (int a = 0; a < count; a++) chosen |= (job.weights[a] > 0) << a;
    return chosen;
  }
  // Whether the stationary point of a choice is the least of all: what is 0 would gain nothing. (Nothing but rounding
  // is left to the choices that this does not tell.)
  bool is_least(int chosen, double *w) {
    if (!(stationary(chosen, w) < std::numeric_limits<double>::infinity())) return false;
    double slope[MOST], level = 0, largest = 0;
    for (int a = 0; a < count; a++) {
      slope[a] = -c[a];
      for (int b = 0; b < count; b++) slope[a] += at(a, b) * w[b];
      level += w[a] * slope[a];
      largest = std::max(largest, std::fabs(c[a]));
    }
    for (int a = 0; a < count; a++)
      if (!(chosen >> a & 1) && !(slope[a] > level + 1e-9 * largest)) return false;
    return true;
  }
  double stationary(int chosen, double *w) {  // and where it is; none where a weight would be negative
    int of[MOST], r = 0;
    for (int a = 0; a < count; a++)
      if (chosen >> a & 1) of[r++] = a;
    double A[MOST * MOST], u[MOST], v[MOST];
    for (int a = 0; a < r; a++) {
      for (int b = a; b < r; b++) A[a * r + b] = at(of[a], of[b]);
      u[a] = c[of[a]];
      v[a] = 1;
    }
    cholesky(A, r);
    substitute(A, r, u);
    substitute(A, r, v);
    double too_much = -1, all = 0;
    for (int a = 0; a < r; a++) too_much += u[a], all += v[a];
    std::fill_n(w, count, 0.0);
    for (int a = 0; a < r; a++) {
      const double weight = u[a] - too_much / all * v[a];
      if (!(weight >= -1e-12)) return std::numeric_limits<double>::infinity();
      w[of[a]] = std::max(weight, 0.0);
    }
    double value = 0;
    for (int a = 0; a < count; a++) {
      value -= c[a] * w[a];
      for (int b = 0; b < count; b++) value += w[a] * at(a, b) * w[b] / 2;
    }
    return value;
  }
};

}  // namespace

void nearest(const Nearest &job) {
  if (!job.count) return;
  const bool gaps = has_gaps(job.Z, job.n * job.across) || has_gaps(job.among, job.known * job.across);
  gaps ? SharingRows(job).run() : NearestRows(job).run();
}
void opinions(const Opinions &job) { Mixing(job).run(); }

}  // namespace lrmc::LRMC_ISA
