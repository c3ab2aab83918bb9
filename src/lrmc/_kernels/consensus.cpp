// Lines (rows or columns) refitted to random subsets of their entries: the fit that most entries agree with wins.
#include <algorithm>
#include <cmath>
#include <vector>
#include "cholesky.hpp"
#include "kernels.hpp"
#include "team.hpp"

namespace lrmc {
namespace {

struct Random {  // splitmix64: a line's draws depend on its number, never on the thread
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
};

// Which entries of a line are fitted next: all subsets where these are few, else random ones.
class Subsets {
  int64_t m;
  int r;
  bool all;
  Random random;
  bool first = true;

 public:
  std::vector<int64_t> chosen;
  Subsets(int64_t m, int r, int64_t draws, uint64_t seed) : m(m), r(r), random{seed}, chosen(r) {
    double count = 1;
    for (int k = 0; k < r; k++) count *= double(m - k) / double(k + 1);
    all = count <= double(draws);
    for (int k = 0; k < r; k++) chosen[k] = k;
  }
  bool is_all() const { return all; }
  bool next() {
    if (!all) {
      draw();
      return true;
    }
    if (first) return !(first = false);
    int k = r - 1;
    while (k >= 0 && chosen[k] == m - r + k) k--;
    if (k < 0) return false;
    for (chosen[k]++; ++k < r;) chosen[k] = chosen[k - 1] + 1;
    return true;
  }

 private:
  void draw() {  // Floyd's: as many numbers as are wanted, none twice
    for (int k = 0; k < r; k++) {
      const int64_t last = m - r + k, t = random.below(last + 1);
      bool taken = false;
      for (int j = 0; j < k; j++) taken |= chosen[j] == t;
      chosen[k] = taken ? last : t;
    }
  }
};

// How many entries agree with a fit, and the sum of their squares: which of two is better where as many do.
struct Score {
  int64_t count;
  double squares;
  bool worse_than(const Score &other) const {
    return other.count != count ? other.count > count : other.squares < squares;
  }
};

class Line {
  const Consensus &job;
  const int r;
  const int32_t *places = nullptr;
  const double *values = nullptr;
  std::vector<double> A, trial, H, h;

 public:
  int64_t m = 0;
  explicit Line(const Consensus &job) : job(job), r(job.rank), A(r * (r + 1)), trial(r), H(r * r), h(r) {}

  // The number of entries that agree with the best fit found, which is left in x.
  int64_t refit(int64_t i, double *x) {
    places = job.indices + job.indptr[i];
    values = job.values + job.indptr[i];
    m = job.indptr[i + 1] - job.indptr[i];
    std::copy(x, x + r, trial.begin());
    Score best = agreeing(x, {0, 0});
    if (m <= r) return m == r && best.count < r ? only_fit(best, x) : best.count;
    if (best.count > r) improve(best, x);
    if (best.count == m) return m;
    Subsets subsets(m, r, job.draws, job.seed + 0xD1B54A32D192ED03ull * uint64_t(i + 1));
    int64_t wanted = best.count > r ? enough(best.count) : job.draws;
    for (int64_t t = 0; (subsets.is_all() || t < wanted) && subsets.next(); t++) {
      if (!through(subsets.chosen.data())) continue;
      const Score score = agreeing(trial.data(), best);
      if (score.count <= r || !best.worse_than(score)) continue;
      best = score;
      improve(best, x);
      if (best.count == m) break;
      wanted = enough(best.count);
    }
    return best.count;
  }

 private:
  // The fit through all entries, where there are no more than determine it: right if none of them is an outlier.
  int64_t only_fit(const Score &before, double *x) {
    std::vector<int64_t> all(r);
    for (int k = 0; k < r; k++) all[k] = k;
    if (!through(all.data())) return before.count;
    const Score score = agreeing(trial.data(), before);
    if (before.worse_than(score)) std::copy(trial.begin(), trial.end(), x);
    return std::max(score.count, before.count);
  }
  const double *at(int64_t k) const { return job.G + int64_t(places[k]) * r; }
  double residual(const double *x, int64_t k) const {
    const double *g = at(k);
    double e = values[k];
    for (int a = 0; a < r; a++) e -= g[a] * x[a];
    return e;
  }
  Score agreeing(const double *x, Score beaten) const {  // gives up where fewer entries agree
    int64_t missed = 0;
    double squares = 0;
    for (int64_t k = 0; k < m; k++) {
      const double e = residual(x, k);
      if (std::fabs(e) <= job.border) squares += e * e;
      else if (m - ++missed < beaten.count) return {0, 0};
    }
    return {m - missed, squares};
  }
  // Least squares on what agrees with the trial, twice; the outcome is left in x.
  void improve(Score &best, double *x) {
    for (int k = 0; k < 2; k++) polish(best);
    std::copy(trial.begin(), trial.end(), x);
  }
  // So many draws that one of good entries alone is among them, all but once in a thousand times.
  int64_t enough(int64_t good) const {
    double clean = 1;
    for (int k = 0; k < r; k++) clean *= double(good - k) / double(m - k);
    const double draws = clean < 1 ? std::log(1e-3) / std::log1p(-clean) : 1;
    return draws < double(job.draws) ? int64_t(draws) + 1 : job.draws;
  }
  // The fit through r entries, by elimination with pivots; false where they do not determine it.
  bool through(const int64_t *chosen) {
    const int w = r + 1;
    double largest = 0;
    for (int k = 0; k < r; k++) {
      const double *g = at(chosen[k]);
      for (int a = 0; a < r; a++) largest = std::max(largest, std::fabs(A[k * w + a] = g[a]));
      A[k * w + r] = values[chosen[k]];
    }
    for (int k = 0; k < r; k++) {
      int pivot = k;
      for (int i = k + 1; i < r; i++)
        if (std::fabs(A[i * w + k]) > std::fabs(A[pivot * w + k])) pivot = i;
      if (!(std::fabs(A[pivot * w + k]) > 1e-12 * largest)) return false;
      if (pivot != k)
        for (int a = k; a < w; a++) std::swap(A[k * w + a], A[pivot * w + a]);
      for (int i = k + 1; i < r; i++) {
        const double u = A[i * w + k] / A[k * w + k];
        for (int a = k + 1; a < w; a++) A[i * w + a] -= u * A[k * w + a];
      }
    }
    for (int k = r - 1; k >= 0; k--) {
      double s = A[k * w + r];
      for (int a = k + 1; a < r; a++) s -= A[k * w + a] * trial[a];
      trial[k] = s / A[k * w + k];
    }
    return true;
  }
  void polish(Score &best) {
    std::fill(H.begin(), H.end(), 0.0);
    std::fill(h.begin(), h.end(), 0.0);
    for (int64_t k = 0; k < m; k++) {
      const double e = residual(trial.data(), k), *g = at(k);
      if (!(std::fabs(e) <= job.border)) continue;
      for (int a = 0; a < r; a++) {
        h[a] += g[a] * e;
        for (int b = a; b < r; b++) H[a * r + b] += g[a] * g[b];
      }
    }
    solve_small(H.data(), r, h.data());
    for (int a = 0; a < r; a++) h[a] += trial[a];
    const Score score = agreeing(h.data(), best);
    if (!best.worse_than(score)) return;
    best = score;
    trial = h;
  }
};

}  // namespace

void consensus(const Consensus &job) {
  const int64_t pieces = 64;  // of lines: some are longer than others
  const int threads = shares_of(job.threads, job.n);
  in_shares(threads, [&](int t) {
    Line line(job);
    for (int64_t piece = t; piece < pieces * threads; piece += threads)
      for (int64_t i = job.n * piece / (pieces * threads); i < job.n * (piece + 1) / (pieces * threads); i++)
        job.agreeing[i] = line.refit(i, job.F + i * job.rank);
  });
}

}  // namespace lrmc
