// Tissue as a gain for each frame times a brightness for each pixel, in overlapping patches. A smooth robust loss as in
// methods/noisy.py: Gaussian noise mixed with outliers, whose odds and size each sweep tells the next
// (expectation-maximisation over all entries). A sweep reads the patch once: the weights of a frame give its gain, and
// with that what the frame says of the pixels, while it is in the cache.
//
// Compiled once for each instruction set.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "motion.hpp"
#include "motion_jobs.hpp"
#include "simd.hpp"
#include "team.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr float MISSING = std::numeric_limits<float>::quiet_NaN();
constexpr double ROOT_HALF_PI = 1.2533141373155003;
constexpr double LARGEST = 0.999;  // quantile of the residuals: as far as outliers reach
constexpr double FEWEST = 1e-6;    // share of noise, or of outliers
constexpr int SAMPLE = 4096;       // residuals that tell it, about
constexpr float TINY = 1e-30f;

// The median of what is known; NaN of nothing.
float median(std::vector<float> &values) {
  if (values.empty()) return MISSING;
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Residuals on one side: noise, and outliers that are uniform up to the largest.
struct Side {
  double widest = 0, share = 0.7, odds = 0;
  double count = 0, noise = 0, square = 0;  // of one sweep: entries, how many are noise, their squares

  void next(double deviation) {
    if (count > 0) share = std::clamp(noise / count, FEWEST, 1 - FEWEST);
    odds = (1 - share) / share * ROOT_HALF_PI * deviation / std::max(widest, 3 * deviation);
    count = noise = square = 0;
  }
};

class Patch {
  static constexpr int W = width<float>;
  using V = Vec<float>;
  using M = Mask<float>;
  const Patches &job;
  const int64_t *place;
  int pixels = 0, padded = 0;  // that change; in whole vectors
  std::vector<int> lively;     // where they are in the patch
  std::vector<float> Y, num, den, weight;
  Side above, below;
  double deviation = 0;

 public:
  std::vector<float> L, R, usual;  // of lively pixels; of frames; of all pixels
  PatchReport report;

  Patch(const Patches &job_, int64_t k) : job(job_), place(job.places + 4 * k) {
    look();
    report.lively = pixels;
    report.fitted = report.observed > double(pixels + job.count);
    if (!report.fitted || !pixels) return;
    begin();
    while (report.rounds < job.rounds) {
      report.rounds++;
      report.moved = sweep();
      if (!(report.moved > job.settled)) break;
    }
    report.noise = deviation;
  }

  // Adds the patch to frame t, by weights that fall towards its edges.
  void add_to(int t, const std::vector<float> &ramp_y, const std::vector<float> &ramp_x, float *frame,
              std::vector<float> &room) const {
    const int high = int(place[2]), wide = int(place[3]);
    room.assign(usual.begin(), usual.end());
    if (report.fitted)
      for (int p = 0; p < pixels; p++) room[lively[p]] = L[p] * R[t];
    for (int y = 0; y < high; y++) {
      float *__restrict to = frame + (place[0] + y) * job.width + place[1];
      const float *__restrict from = room.data() + y * wide, *__restrict ramp = ramp_x.data();
      for (int x = 0; x < wide; x++) to[x] += ramp_y[y] * ramp[x] * from[x];
    }
  }

 private:
  int64_t at(int t, int k) const {
    return (int64_t(t) * job.height + place[0] + k / place[3]) * job.width + place[1] + k % place[3];
  }

  // What is usual at every pixel, and which of them change.
  void look() {
    const int all = int(place[2] * place[3]), some = std::min(job.count, job.told_by);
    std::vector<float> values;
    double total = 0, known = 0;
    usual.resize(all);
    const auto frame = [&](int s) { return int(int64_t(s) * job.count / some); };
    for (int k = 0; k < all; k++) {
      values.clear();
      for (int s = 0; s < some; s++)
        if (const int64_t i = at(frame(s), k); job.seen[i]) values.push_back(job.frames[i]);
      for (const float value : values) total += value;
      known += double(values.size());
      usual[k] = median(values);
      for (float &value : values) value = std::fabs(value - usual[k]);
      if (median(values) > job.least) lively.push_back(k);
    }
    const float mean = known ? float(total / known) : 0.0f;
    for (float &value : usual)
      if (value != value) value = mean;
    pack();
  }
  // Frames x lively pixels, NaN where nothing was seen.
  void pack() {
    pixels = int(lively.size());
    padded = (pixels + W - 1) / W * W;
    Y.assign(size_t(job.count) * padded, MISSING);
    for (int t = 0; t < job.count; t++)
      for (int p = 0; p < pixels; p++)
        if (const int64_t i = at(t, lively[p]); job.seen[i]) {
          Y[size_t(t) * padded + p] = job.frames[i];
          report.observed++;
        }
  }

  // From the medians of pixels, and gains of 1.
  void begin() {
    L.assign(padded, 0.0f);
    R.assign(job.count, 1.0f);
    num.resize(padded);
    den.resize(padded);
    weight.resize(padded);
    for (int p = 0; p < pixels; p++) L[p] = usual[lively[p]];
    std::vector<float> up, down;
    const size_t every = std::max<size_t>(1, Y.size() / SAMPLE) | 1;  // odd: other pixels in other frames
    for (size_t i = 0; i < Y.size(); i += every) {
      const float off = Y[i] - L[i % padded];
      if (off > 0) up.push_back(off);
      else if (off <= 0) down.push_back(-off);
    }
    if (job.both) {
      up.insert(up.end(), down.begin(), down.end());
      down = up;
    }
    above.widest = largest(up);
    below.widest = largest(down);
    deviation = std::max(1.4826 * double(median(down)), 1e-30);
    if (deviation != deviation) deviation = 1e-30;
    above.next(deviation);
    below.next(deviation);
  }
  static double largest(std::vector<float> &sizes) {
    if (sizes.empty()) return 0;
    const auto place = sizes.begin() + size_t(LARGEST * double(sizes.size() - 1));
    std::nth_element(sizes.begin(), place, sizes.end());
    return *place;
  }

  // Gains and pixels anew: by how much the tissue changes.
  double sweep() {
    std::fill(num.begin(), num.end(), 0.0f);
    std::fill(den.begin(), den.end(), 0.0f);
    double gains = 0, gain_moved = 0;
    for (int t = 0; t < job.count; t++) {
      const float before = R[t], after = gain(t);
      R[t] = after;
      gains += double(after) * after;
      gain_moved += double(after - before) * (after - before);
      add(t);
    }
    const double moved = gain_moved / std::max(gains, 1e-300) + pixels_anew();
    Side &told = below;
    if (job.both) {
      below.count += above.count;
      below.noise += above.noise;
      below.square += above.square;
      above.count = below.count;
      above.noise = below.noise;
    }
    if (told.noise > 0) deviation = std::max(std::sqrt(told.square / told.noise), 1e-30);
    above.next(deviation);
    below.next(deviation);
    return std::sqrt(moved);
  }

  // The gain of a frame, from weights by its residuals.
  float gain(int t) {
    const float *y_t = Y.data() + size_t(t) * padded, r = R[t];
    const float per = float(1 / (32 * deviation * deviation));
    const float odds_above = std::max(float(above.odds), TINY), odds_below = std::max(float(below.odds), TINY);
    const float odds_dark = job.both ? odds_above : 0.0f;
    V top{}, bottom{}, count_a{}, noise_a{}, square_a{}, count_b{}, noise_b{}, square_b{};
    const V one = fill(1.0f), zero{};
    for (int p = 0; p < padded; p += W) {
      const V y = load<V>(y_t + p), l = load<V>(L.data() + p);
      const M known = y == y;
      const V e = known ? y - l * r : zero, square = e * e;
      V far = one + square * per;  // to the 16th power: nearly exp(e^2 / (2 s^2))
      far = far * far;
      far = far * far;
      far = far * far;
      far = far * far;
      const M up = known & (e > zero), down = known & (e <= zero);
      const V noise_up = one / (one + odds_above * far), noise_down = one / (one + odds_below * far);
      const V fair = odds_dark > 0 ? noise_down : one;
      const V w = up ? noise_up : (down ? fair : zero);
      store(weight.data() + p, w);
      const V value = known ? y : zero, wl = w * l;
      top += wl * value;
      bottom += wl * l;
      count_a += up ? one : zero;
      noise_a += up ? noise_up : zero;
      square_a += up ? noise_up * square : zero;
      count_b += down ? one : zero;
      noise_b += down ? noise_down : zero;
      square_b += down ? noise_down * square : zero;
    }
    tell(above, count_a, noise_a, square_a);
    tell(below, count_b, noise_b, square_b);
    const float under = sum<float>(bottom);
    return under > TINY ? sum<float>(top) / under : r;
  }
  static void tell(Side &side, V count, V noise, V square) {
    side.count += double(sum<float>(count));
    side.noise += double(sum<float>(noise));
    side.square += double(sum<float>(square));
  }

  // What frame t says of the pixels.
  void add(int t) {
    const float *y_t = Y.data() + size_t(t) * padded, r = R[t];
    for (int p = 0; p < padded; p += W) {
      const V y = load<V>(y_t + p), w = load<V>(weight.data() + p) * r;
      const V value = y == y ? y : V{};
      store(num.data() + p, load<V>(num.data() + p) + w * value);
      store(den.data() + p, load<V>(den.data() + p) + w * r);
    }
  }

  // Pixels lean on the others by as much as noise leaves them open (empirical Bayes).
  double pixels_anew() {
    double mean = 0, spread = 0, open = 0;
    const double noise = deviation * deviation;
    for (int p = 0; p < pixels; p++) mean += double(L[p]) / pixels;
    for (int p = 0; p < pixels; p++) {
      spread += (L[p] - mean) * (L[p] - mean) / pixels;
      open += noise / std::max(double(den[p]), 1.0) / pixels;
    }
    const float ridge = float(noise / std::max(spread + open, 1e-30));
    double moved = 0, size = 0;
    for (int p = 0; p < pixels; p++) {
      const float after = (num[p] + ridge * float(mean)) / std::max(den[p] + ridge, TINY);
      moved += double(after - L[p]) * (after - L[p]);
      size += double(after) * after;
      L[p] = after;
    }
    return moved / std::max(size, 1e-300);
  }
};

// A weight that rises over the overlap and falls again.
std::vector<float> ramp(int64_t n, int overlap) {
  std::vector<float> out(n);
  for (int64_t k = 0; k < n; k++) out[k] = std::min(1.0f, float(std::min(k, n - 1 - k) + 1) / float(overlap));
  return out;
}

void blend(const Patches &job, const std::vector<std::unique_ptr<Patch>> &all) {
  const int64_t size = int64_t(job.height) * job.width;
  std::vector<float> total(size);
  std::vector<std::vector<float>> down, across;
  for (int64_t k = 0; k < job.n; k++) {
    const int64_t *place = job.places + 4 * k;
    down.push_back(ramp(place[2], job.overlap));
    across.push_back(ramp(place[3], job.overlap));
    for (int64_t y = 0; y < place[2]; y++)
      for (int64_t x = 0; x < place[3]; x++)
        total[(place[0] + y) * job.width + place[1] + x] += down[k][y] * across[k][x];
  }
  for (float &value : total) value = 1 / value;
  std::atomic<int> next{0};
  in_shares(shares_of(job.threads, job.count), [&](int) {
    std::vector<float> room;
    for (int t = next++; t < job.count; t = next++) {
      float *frame = job.model + t * size;
      std::fill_n(frame, size, 0.0f);
      for (int64_t k = 0; k < job.n; k++) all[k]->add_to(t, down[k], across[k], frame, room);
      for (int64_t i = 0; i < size; i++) frame[i] *= total[i];
    }
  });
}

}  // namespace

void patches(const Patches &job) {
  std::vector<std::unique_ptr<Patch>> all(job.n);
  std::atomic<int64_t> next{0};
  in_shares(shares_of(job.threads, job.n), [&](int) {
    for (int64_t k = next++; k < job.n; k = next++) {
      all[k] = std::make_unique<Patch>(job, k);
      job.report[k] = all[k]->report;
    }
  });
  blend(job, all);
}

}  // namespace lrmc::LRMC_ISA
