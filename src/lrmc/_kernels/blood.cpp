// What of the residuals of a cine is blood, frame by frame: apps/ultrasound/blood.py says what for. Frames, and rows of
// pixels over time, are looked at one by one, so that threads change nothing.
//
// Compiled once for each instruction set.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "motion.hpp"
#include "motion_jobs.hpp"
#include "simd.hpp"
#include "team.hpp"

namespace lrmc::LRMC_ISA {
namespace {

using V = Vec<float>;
constexpr int W = width<float>;

int whole(int n) { return (n + W - 1) / W * W; }  // vectors, in numbers

// ---- pictures times a window in both directions; beyond their edges, they go on as there

class Smooth {
  const Window window;
  const int height, width, stride;
  std::vector<float> half;  // a row: down, with room on both sides
  std::vector<const float *> rows;

 public:
  Smooth(const Window &window_, int height_, int width_)
      : window(window_),
        height(height_),
        width(width_),
        stride(whole(width_)),
        half(stride + 2 * window_.reach + W),
        rows(2 * window_.reach + 1) {}

  // Rows of both pictures are as long as whole vectors.
  void operator()(const float *picture, float *out) {
    const int reach = window.reach, taps = 2 * reach + 1;
    float *middle = half.data() + reach;
    for (int i = 0; i < height; i++) {
      for (int k = 0; k < taps; k++) rows[k] = picture + size_t(std::clamp(i + k - reach, 0, height - 1)) * stride;
      for (int j = 0; j < stride; j += W) {
        V sum{};
        for (int k = 0; k < taps; k++) sum += window.weights[k] * load<V>(rows[k] + j);
        store(middle + j, sum);
      }
      std::fill(half.data(), middle, middle[0]);
      std::fill_n(middle + width, reach + W, middle[width - 1]);
      float *to = out + size_t(i) * stride;
      for (int j = 0; j < stride; j += W) {
        V sum{};
        for (int k = 0; k < taps; k++) sum += window.weights[k] * load<V>(half.data() + j + k);
        store(to + j, sum);
      }
    }
  }
};

// ---- frames

class Shrinking {
  const Shrink &job;
  const int stride = whole(job.width);
  const size_t room = size_t(job.height) * stride;
  std::vector<float> found, squares, shared, power;
  Smooth by_common, by_near;

 public:
  explicit Shrinking(const Shrink &job_)
      : job(job_),
        found(room),
        squares(room),
        shared(room),
        power(room),
        by_common(job.common, job.height, job.width),
        by_near(job.near, job.height, job.width) {}

  void operator()(int64_t t) {
    const float *rest = job.rest + t * job.height * job.width;
    float *out = job.out + t * job.height * job.width;
    if (!look(rest)) {
      std::fill_n(out, size_t(job.height) * job.width, 0.0f);
      return;
    }
    by_common(found.data(), shared.data());
    by_near(squares.data(), power.data());
    for (int i = 0; i < job.height; i++) shrink(i, out + size_t(i) * job.width);
  }

 private:
  // What is beyond the threshold, and the power of all that is on the side of blood; NaN is neither.
  bool look(const float *rest) {
    bool any = false;
    for (int i = 0; i < job.height; i++) {
      const float *__restrict from = rest + size_t(i) * job.width;
      float *__restrict to = found.data() + size_t(i) * stride, *__restrict square =
                                                                    squares.data() + size_t(i) * stride;
      int count = 0;
      for (int j = 0; j < job.width; j++) {
        const float x = from[j] == from[j] ? job.sign * from[j] : 0.0f;
        const float size = job.both ? std::fabs(x) : x;
        const bool beyond = size > job.beyond;
        to[j] = beyond ? x : 0.0f;
        square[j] = size > 0 ? size * size : 0.0f;
        count += beyond;
      }
      any |= count > 0;
    }
    return any;
  }
  // A Wiener filter: what a wide neighbourhood shares beyond `allowed` is noise. Twice the mean: at the edge of a wall,
  // half of the neighbours are beside it.
  void shrink(int i, float *__restrict out) const {
    const float *__restrict x = found.data() + size_t(i) * stride, *__restrict mean =
                                                                       shared.data() + size_t(i) * stride;
    const float *__restrict near = power.data() + size_t(i) * stride;
    const float noise = job.level * job.level, tiny = std::numeric_limits<float>::min();
    for (int j = 0; j < job.width; j++) {
      const float over = std::fabs(mean[j]) - job.allowed, wall = over > 0 ? 2 * over : 0.0f;
      const float unwanted = wall * wall + noise, beyond = near[j] - unwanted;
      const float signal = beyond > 0 ? beyond : 0.0f, all = signal + unwanted;
      out[j] = x[j] * (signal / (all > tiny ? all : tiny));
    }
  }
};

// ---- sums that tell the noise

struct Levels {
  const NoiseLevels &job;
  void operator()(int64_t t) const {
    const int64_t pixels = int64_t(job.height) * job.width;
    const float *rest = job.rest + t * pixels, *tissue = job.tissue + t * pixels;
    double *to = job.report + 4 * t, sums[4] = {};
    for (int i = 0; i < job.height; i++) {
      const float *x = rest + size_t(i) * job.width, *below = tissue + size_t(i) * job.width;
      row(x, below, sums);
    }
    std::copy_n(sums, 4, to);
  }

 private:
  void row(const float *x, const float *tissue, double *sums) const {
    V dark{}, square{}, lively{}, bright{};
    int j = 0;
    for (; j + W <= job.width; j += W) {
      const V r = load<V>(x + j), least = V{} + job.least, zero{}, one = zero + 1.0f;
      const V is_dark = r < -least ? one : zero, lives = larger(r, -r) > least ? one : zero;
      const V below = r < -least ? r : zero;
      dark += is_dark;
      square += below * below;
      lively += lives;
      bright += lives > zero ? load<V>(tissue + j) : zero;
    }
    sums[0] += sum<float>(dark);
    sums[1] += sum<float>(square);
    sums[2] += sum<float>(lively);
    sums[3] += sum<float>(bright);
    for (; j < job.width; j++) {
      const bool lives = std::fabs(x[j]) > job.least;
      sums[0] += x[j] < -job.least;
      sums[1] += x[j] < -job.least ? x[j] * x[j] : 0.0f;
      sums[2] += lives;
      sums[3] += lives ? tissue[j] : 0.0f;
    }
  }
};

// ---- pixels over time: their power, and that of all but the brightest frames

class OverTime {
  const Lasting &job;
  std::vector<float> squares;  // width x count

 public:
  explicit OverTime(const Lasting &job_) : job(job_), squares(size_t(job.width) * job.count) {}

  void operator()(int64_t i) {
    const size_t pixels = size_t(job.height) * job.width;
    std::vector<int64_t> filled(job.width, 0);
    for (int64_t t = 0; t < job.count; t++) {
      const float *x = job.blood + t * pixels + i * job.width;
      for (int j = 0; j < job.width; j++)
        if (x[j] != 0) squares[j * job.count + filled[j]++] = x[j] * x[j];
    }
    for (int j = 0; j < job.width; j++) {
      float *first = squares.data() + j * job.count, *last = first + filled[j];
      const int64_t kept = filled[j] - job.brightest;
      if (kept > 0) std::nth_element(first, first + kept - 1, last);
      double below = 0, all = 0;
      for (int64_t k = 0; k < filled[j]; k++) {
        if (k == std::max<int64_t>(kept, 0)) below = all;
        all += first[k];
      }
      job.power[i * job.width + j] = float(all / double(job.count));
      job.lasting[i * job.width + j] = kept > 0 ? float(below / double(job.count - job.brightest)) : 0.0f;
    }
  }
};

}  // namespace

void shrink(const Shrink &job) {
  for_each(job.count, job.threads, [&] { return Shrinking(job); });
}
void noise_levels(const NoiseLevels &job) {
  for_each(job.count, job.threads, [&] { return Levels{job}; });
}
void lasting(const Lasting &job) {
  for_each(job.height, job.threads, [&] { return OverTime(job); });
}

}  // namespace lrmc::LRMC_ISA
