// What the seen entries of a row say of the others, where rows are draws of one Gaussian. In terms of its inverse
// covariance P, what is missing has the covariance P_mm^-1 and the mean - P_mm^-1 P_ms y_s: systems are as small as the
// gaps. Rows that miss about as many entries are solved together, one in each lane; a lane with fewer has ones on the
// rest of its diagonal. Compiled once for each instruction set.
#include "gaps.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cholesky.hpp"
#include "systems.hpp"

namespace lrmc::LRMC_ISA {
namespace {

class Rows {
  const Gaps &job;
  const int across = job.across;
  std::vector<int> missing;       // n x across: the columns that each row misses
  std::vector<int> count;         // of them
  std::vector<int64_t> order;     // rows, those that miss least first
  std::vector<double> off, pull;  // LANES x across: rows less the mean, 0 where nothing is known; P times that

  // A few rows, the most that one of them misses, and what is computed with them.
  struct Some {
    const int64_t *rows;
    int number, width;
  };

 public:
  explicit Rows(const Gaps &job_)
      : job(job_), missing(job.n * across), count(job.n), order(job.n), off(LANES * across), pull(LANES * across) {
    for (int64_t i = 0; i < job.n; i++)
      for (int k = 0; k < across; k++)
        if (is_missing(i, k)) columns(i)[count[i]++] = k;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return count[a] < count[b]; });
  }

  void run() {
    if (job.unknown) std::fill_n(job.unknown, across * across, 0.0);
    for (int64_t first = 0; first < job.n; first += LANES) {
      const int number = int(std::min<int64_t>(LANES, job.n - first));
      const int64_t *rows = order.data() + first;
      fit({rows, number, count[rows[number - 1]]});
    }
  }

 private:
  bool is_missing(int64_t i, int k) const { return job.Y[i * across + k] != job.Y[i * across + k]; }
  int *columns(int64_t i) { return missing.data() + i * across; }
  const int *columns(int64_t i) const { return missing.data() + i * across; }
  double P(int a, int b) const { return job.P[a * across + b]; }

  void fit(const Some &some) {
    Scratch scratch(Systems::room(some.width) + some.width);
    const Systems systems(some.width, scratch);
    const Numbers x = scratch.take(some.width);
    begin(some);
    fill_in(some, systems);
    for_gaps(some, [&](int w, int a, int k) { x.at[a * LANES + w] = pull[w * across + k]; });
    systems.factor();
    systems.solve(x);
    for_gaps(some, [&](int w, int a, int k) { off[w * across + k] = -x.at[a * LANES + w]; });
    for (int w = 0; w < some.number; w++)
      for (int k = 0; k < across; k++) job.complete[some.rows[w] * across + k] = job.mean[k] + off[w * across + k];
    if (job.told) tell(some, systems, x);
    if (job.unknown) leave_open(some, systems);
  }

  // take(lane, number of the gap, its column)
  template <class Take> void for_gaps(const Some &some, Take take) const {
    for (int w = 0; w < some.number; w++)
      for (int a = 0; a < count[some.rows[w]]; a++) take(w, a, columns(some.rows[w])[a]);
  }
  void begin(const Some &some) {
    for (int w = 0; w < some.number; w++)
      for (int k = 0; k < across; k++) {
        const double y = job.Y[some.rows[w] * across + k];
        off[w * across + k] = y == y ? y - job.mean[k] : 0.0;
      }
    multiply(some);
  }
  void multiply(const Some &some) {  // pull = P off
    for (int w = 0; w < some.number; w++) {
      double *out = pull.data() + w * across;
      std::fill_n(out, across, 0.0);
      for (int k = 0; k < across; k++) {
        const double x = off[w * across + k], *line = job.P + k * across;
        if (x == 0) continue;
        for (int j = 0; j < across; j++) out[j] += x * line[j];
      }
    }
  }
  void fill_in(const Some &some, const Systems &systems) const {  // A = P_mm; scratch begins with zeros
    for (int w = 0; w < LANES; w++) {
      const int gaps = w < some.number ? count[some.rows[w]] : 0;
      const int *at = w < some.number ? columns(some.rows[w]) : nullptr;
      for (int a = 0; a < some.width; a++) {
        double *line = systems.row(systems.A, a).at + w;
        if (a >= gaps) line[a * LANES] = 1;
        for (int b = a; b < gaps; b++) line[b * LANES] = P(at[a], at[b]);
      }
    }
  }
  void leave_open(const Some &some, const Systems &systems) {
    systems.invert([&](int a, int b, Lanes covariance) {
      for (int w = 0; w < some.number; w++) {
        if (b >= count[some.rows[w]]) continue;
        const int *at = columns(some.rows[w]);
        job.unknown[at[a] * across + at[b]] += covariance[w];
        if (a != b) job.unknown[at[b] * across + at[a]] += covariance[w];
      }
    });
  }

  // An entry that is there, as if it were missing too: y - (P' y)_k / P'_kk, where P' = P_ss - P_sm P_mm^-1 P_ms is the
  // inverse covariance of what is seen. Of the completed row, P y is that of P'.
  void tell(const Some &some, const Systems &systems, Numbers x) {
    multiply(some);
    for (int k = 0; k < across; k++) {
      std::fill_n(x.at, some.width * LANES, 0.0);
      for_gaps(some, [&](int w, int a, int column) { x.at[a * LANES + w] = P(column, k); });
      systems.forward(x);
      Lanes own = fill<double>(P(k, k));
      for (int a = 0; a < some.width; a++) own -= x[a] * x[a] * systems.row(systems.A, a)[a];
      for (int w = 0; w < some.number; w++) {
        const int64_t at = some.rows[w] * across + k;
        job.told[at] = is_missing(some.rows[w], k) ? job.complete[at] : job.Y[at] - pull[w * across + k] / own[w];
      }
    }
  }
};

// Expectation (Rows) and maximisation in turn. Some rows more may be supposed to have been seen in which columns have
// nothing to do with each other: a covariance of few rows is drawn to its diagonal.
class Draws {
  const Normal &job;
  const int across = job.across;
  std::vector<double> unknown, precision, off;

 public:
  explicit Draws(const Normal &job_) : job(job_), unknown(across * across), precision(across * across), off(across) {}

  void run() {
    Gaps gaps{job.n, across, job.Y, job.mean, precision.data(), job.complete, unknown.data()};
    Rows rows(gaps);
    for (int round = 0;; round++) {
      centre();
      spread();
      if (round == job.rounds) return;
      invert();
      rows.run();
    }
  }

 private:
  double *line(int a) { return job.covariance + a * across; }

  void centre() {
    std::fill_n(job.mean, across, 0.0);
    for (int64_t i = 0; i < job.n; i++)
      for (int k = 0; k < across; k++) job.mean[k] += job.complete[i * across + k];
    for (int k = 0; k < across; k++) job.mean[k] /= double(job.n);
  }
  void spread() {
    std::fill_n(job.covariance, across * across, 0.0);
    for (int64_t i = 0; i < job.n; i++) {
      for (int k = 0; k < across; k++) off[k] = job.complete[i * across + k] - job.mean[k];
      for (int a = 0; a < across; a++)
        for (int b = a; b < across; b++) line(a)[b] += off[a] * off[b];
    }
    double largest = 0;
    for (int a = 0; a < across; a++)
      for (int b = a; b < across; b++) {
        const double alone = a == b ? line(a)[a] * job.alone / double(job.n) : 0;
        line(a)[b] = (line(a)[b] + unknown[a * across + b] + alone) / (double(job.n) + job.alone);
        largest = std::max(largest, line(a)[b]);
      }
    for (int a = 0; a < across; a++) {
      line(a)[a] += job.tiny * (largest > 0 ? largest : 1.0);
      for (int b = 0; b < a; b++) line(a)[b] = line(b)[a];
    }
  }
  void invert() {
    std::vector<double> U(job.covariance, job.covariance + across * across), x(across);
    cholesky(U.data(), across);
    for (int a = 0; a < across; a++) {
      std::fill(x.begin(), x.end(), 0.0);
      x[a] = 1;
      substitute(U.data(), across, x.data());
      for (int b = a; b < across; b++) precision[a * across + b] = precision[b * across + a] = x[b];
    }
  }
};

}  // namespace

void normal(const Normal &job) { Draws(job).run(); }
void gaps(const Gaps &job) { Rows(job).run(); }

}  // namespace lrmc::LRMC_ISA
