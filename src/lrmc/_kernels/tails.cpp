// A mixture of good residuals and gross errors by expectation-maximisation: evidence/tails.py says what for.
//
// Compiled once for each instruction set.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "elementary.hpp"
#include "opinions.hpp"

namespace lrmc::LRMC_ISA {
namespace {

using V = Vec<float>;
constexpr int W = width<float>, AT_ONCE = 32 * W;  // numbers that are added up in single precision
constexpr float LARGEST = 1e30f, LEAST = 1e-30f;   // powers and densities, as single precision holds them
constexpr double TINY = 1e-300, SMALLEST = 1e-9;   // a unit, beside the first one

V first_of(const float *x, int64_t count) {  // and zeros
  V v{};
  for (int64_t w = 0; w < count; w++) v[w] = x[w];
  return v;
}

struct Sums {
  double good = 0, powers = 0, logarithms = 0, gross[MOST_BEGINS] = {};
};

class Mixture {
  TailsJob &job;
  double times = 1;  // the unit, beside the first one

  double good_share() const { return 1 - std::accumulate(job.gross, job.gross + job.begins, 0.0); }
  // Some residuals, fewer than AT_ONCE; of the last vector only the first ones count.
  template <bool Likelihood> void add(int64_t from, int64_t to, Sums &sums) const {
    const int begins = job.begins;
    const float shrunk = float(std::pow(times, -job.p)), pq = float(job.p * job.q + 1), q = float(job.q);
    const float falls = float(-(job.q + 1 / job.p)), peak = float(good_share() * job.peak / times);
    float shares[MOST_BEGINS];
    for (int b = 0; b < begins; b++) shares[b] = float(job.gross[b]);
    float ones[W];
    std::fill_n(ones, W, 1.0f);
    V good{}, powers{}, logarithms{}, gross[MOST_BEGINS] = {};
    for (int64_t k = from; k < to; k += W) {
      V power{}, densities[MOST_BEGINS] = {}, here;
      const bool whole = to - k >= W;
      const auto some = [&](const float *x) { return whole ? load<V>(x) : first_of(x, to - k); };
      power = some(job.power + k);
      for (int b = 0; b < begins; b++) densities[b] = some(job.densities + b * job.n + k);
      const V ratio = smaller(power * shrunk, fill<float>(LARGEST));
      here = peak * exponential<float>(falls * logarithm<float>(1 + ratio / q));
      V total = here;
      for (int b = 0; b < begins; b++) total += shares[b] * densities[b];
      total = larger(total, fill<float>(LEAST));
      const V counts = some(ones);
      if constexpr (Likelihood) {
        logarithms += counts * logarithm<float>(total);
      } else {
        here *= counts / total;
        good += here;
        powers += here * pq / (q + ratio) * power;
        for (int b = 0; b < begins; b++) gross[b] += densities[b] / total;
      }
    }
    sums.good += sum<float>(good);
    sums.powers += sum<float>(powers);
    sums.logarithms += sum<float>(logarithms);
    for (int b = 0; b < begins; b++) sums.gross[b] += sum<float>(gross[b]);
  }
  template <bool Likelihood> Sums all() const {
    Sums sums;
    for (int64_t k = 0; k < job.n; k += AT_ONCE) add<Likelihood>(k, std::min(k + AT_ONCE, job.n), sums);
    return sums;
  }
  bool moves() {  // one round: whether it did more than settle
    const Sums sums = all<false>();
    const double before = times;
    double moved = 0, shares = 0, next[MOST_BEGINS];
    times = std::max(std::pow(sums.powers / std::max(sums.good, TINY), 1 / job.p), SMALLEST);
    for (int b = 0; b < job.begins; b++) shares += next[b] = job.gross[b] * sums.gross[b] / double(job.n);
    const double less = std::min(1.0, job.most_share / std::max(shares, TINY));
    for (int b = 0; b < job.begins; b++) {
      moved = std::max(moved, std::fabs(less * next[b] - job.gross[b]));
      job.gross[b] = less * next[b];
    }
    return std::fabs(times - before) >= job.settled * times || moved >= job.settled;
  }

 public:
  explicit Mixture(TailsJob &job_) : job(job_) {}
  void run() {
    for (int k = 0; k < job.rounds && moves(); k++) continue;
    job.times = times;
    job.likelihood = all<true>().logarithms / double(job.n);
  }
};

}  // namespace

void tails(TailsJob &job) { Mixture(job).run(); }

}  // namespace lrmc::LRMC_ISA
