// Small matrices without noise: each is solved, and the answer proven, while it is in the cache. Robust alternating
// least squares with the thresholds of methods/closed_loop.py; the proof is what methods/certificate.py asks, without
// its milder cases. What is not proven here says nothing: it is left to the methods that look at everything.
//
// Rows are computed as many at a time as a vector has lanes, one in each, so that no sum goes across a vector. Compiled
// once for each instruction set.
#include "small.hpp"

#include <atomic>
#include <chrono>

#include "small_proof.hpp"

namespace lrmc::LRMC_ISA {
namespace {

template <int R> bool attempt(Entries &data, const SmallJob &job, const SmallMatrix &matrix, Room &room) {
  Fit<R> fit(data, job.pace, room);
  SmallReport &told = *matrix.report;
  const double border = job.proof.agrees * job.tol * data.scale, small = job.pace.small * data.scale;
  const auto began = std::chrono::steady_clock::now();
  fit.start(job.random, job.highest);
  double last = 0, before = fit.typical();
  for (int k = 0; k < job.most; k++) {
    const double change = fit.sweep(), next = change * std::min(1.0, change / last);  // sweeps converge linearly
    last = change;
    told.sweeps = k + 1;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
    const double record[] = {change, data.unit * fit.threshold(), fit.share(), passed.count()};
    std::copy_n(record, TRACED, matrix.trace + TRACED * k);
    if (!(change < std::numeric_limits<double>::infinity())) return false;
    if (fit.arrived(border) && next <= job.pace.settled * job.tol) {
      if (!fit.proven(job.proof, border, told)) return false;
      fit.write(matrix.L, matrix.R);
      told.rank = R;
      return true;
    }
    if (k >= job.pace.patience && fit.typical() > job.pace.resting * before && fit.typical() > small) return false;
    before = fit.typical();
  }
  return false;
}

template <int R> bool attempts(Entries &data, const SmallJob &job, const SmallMatrix &matrix, Room &room, size_t used) {
  if constexpr (R <= MOST_SMALL_RANK) {
    if (R > job.highest || R * (data.n1 + data.n2 - R) * job.proof.oversampled > data.n_observed) return false;
    room.used = used;
    if (R >= job.lowest) {
      data.restore();
      if (attempt<R>(data, job, matrix, room)) return true;
    }
    return attempts<R + 1>(data, job, matrix, room, used);
  } else {
    return false;
  }
}

struct Kept {  // from one matrix to the next
  Room room;
  Sample sample;
};

void one(const SmallJob &job, const SmallMatrix &matrix, Kept &kept) {
  Room &room = kept.room;
  const int64_t n1 = matrix.n1, n2 = matrix.n2;
  room.reserve(Entries::size(n1, n2) + Fit<MOST_SMALL_RANK>::size(n1, n2));
  Entries data(matrix.data, n1, n2, matrix.gain, room, kept.sample);
  const bool sound = data.scale > 0 && data.finite;
  matrix.report->n_observed = data.n_observed;
  matrix.report->scale = data.unit * data.scale;
  matrix.report->proven = sound && attempts<1>(data, job, matrix, room, room.used);
}

}  // namespace

void small(const SmallJob &job) {
  std::atomic<int64_t> next{0};  // matrices differ in what they cost; what is computed does not depend on who does it
  in_shares(shares_of(job.threads, job.count), [&](int) {
    Kept kept;
    for (int64_t m = next++; m < job.count; m = next++) one(job, job.matrices[m], kept);
  });
}

}  // namespace lrmc::LRMC_ISA
