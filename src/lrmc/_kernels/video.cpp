// The pixels of a clip one by one: medians, looks, and whether the camera moves.
//
// Compiled once for each instruction set.
#include "video.hpp"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "masks.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr int64_t TOGETHER = 512;  // values of a frame: some frames of them stay in the first-level cache

// Values first to first + count of a frame, less the background.
void residuals(const Pixels &job, int64_t frame, int64_t first, int64_t count, float *out) {
  const uint8_t *from = job.frames + frame * job.n + first;
  const float *score = job.scores + frame * job.rank, *v = job.V + first * job.rank;
  if (job.rank == 1)
    for (int64_t j = 0; j < count; j++) out[j] = float(from[j]) - score[0] * v[j];
  else
    for (int64_t j = 0; j < count; j++) {
      float model = 0;
      for (int r = 0; r < job.rank; r++) model += score[r] * v[j * job.rank + r];
      out[j] = float(from[j]) - model;
    }
}

// The median of each column of a few rows, by swapping neighbors until the middle is known.
void median_of_rows(std::vector<float> &rows, int64_t count, int64_t width, float *out) {
  const int64_t half = count / 2;
  for (int64_t known = 0; known <= half; known++)
    for (int64_t k = count - 1; k > known; k--) {
      float *above = rows.data() + (k - 1) * TOGETHER, *below = above + TOGETHER;
      for (int64_t j = 0; j < TOGETHER; j++) {
        const float low = std::min(above[j], below[j]), high = std::max(above[j], below[j]);
        above[j] = low;
        below[j] = high;
      }
    }
  const float *upper = rows.data() + half * TOGETHER;
  const float *lower = count % 2 ? upper : upper - TOGETHER;
  for (int64_t j = 0; j < width; j++) out[j] = count % 2 ? upper[j] : (lower[j] + upper[j]) / 2;
}

// Numbers that are mirrored at both ends: d c b a a b c d.
int mirrored(int k, int n) {
  k = ((k % (2 * n)) + 2 * n) % (2 * n);
  return k < n ? k : 2 * n - 1 - k;
}

}  // namespace

void near_background(const Pixels &job, int colours, float reach, int32_t *out) {
  const int64_t step = TOGETHER / colours * colours;
  std::vector<float> rest(step);
  std::fill(out, out + job.n / colours, 0);
  for (int64_t first = 0; first < job.n; first += step) {
    const int64_t count = std::min(step, job.n - first);
    int32_t *found = out + first / colours;
    for (int64_t k = 0; k < job.count; k++) {
      residuals(job, k, first, count, rest.data());
      if (colours == 1)
        for (int64_t j = 0; j < count; j++) found[j] += std::fabs(rest[j]) < reach;
      else
        for (int64_t j = 0; j < count / colours; j++) {
          const float *x = rest.data() + j * colours;
          found[j] += std::fabs(std::accumulate(x, x + colours, 0.0f) / float(colours)) < reach;
        }
    }
  }
}

void part_medians(const Pixels &job, const std::vector<int64_t> &ends, float *out) {
  int64_t longest = 0, begin = 0;
  for (int64_t end : ends) longest = std::max(longest, end - std::exchange(begin, end));
  std::vector<float> rows(longest * TOGETHER);
  for (int64_t first = 0; first < job.n; first += TOGETHER) {
    const int64_t count = std::min(TOGETHER, job.n - first);
    begin = 0;
    for (size_t part = 0; part < ends.size(); part++) {
      for (int64_t k = begin; k < ends[part]; k++)
        residuals(job, k, first, count, rows.data() + (k - begin) * TOGETHER);
      median_of_rows(rows, ends[part] - begin, count, out + int64_t(part) * job.n + first);
      begin = ends[part];
    }
  }
}

void medians(const Medians &job) {
  uint8_t less[TOGETHER], found[TOGETHER], guess[TOGETHER];
  for (int64_t first = 0; first < job.n; first += TOGETHER) {
    const int64_t count = std::min(TOGETHER, job.n - first);
    std::fill(found, found + count, uint8_t(0));
    // Bit by bit: how many are less than a guess?
    for (int bit = 128; bit > 0; bit /= 2) {
      for (int64_t j = 0; j < count; j++) guess[j] = uint8_t(found[j] + bit);
      std::fill(less, less + count, uint8_t(0));
      for (int64_t row = 0; row < job.count; row += job.step) {
        const uint8_t *x = job.rows + row * job.n + first;
        for (int64_t j = 0; j < count; j++) less[j] = uint8_t(less[j] + (x[j] < guess[j]));
      }
      const uint8_t *before = job.before + first;
      for (int64_t j = 0; j < count; j++) found[j] = less[j] <= before[j] ? guess[j] : found[j];
    }
    std::copy(found, found + count, job.out + first);
  }
}

void smooth(const uint8_t *picture, Picture shape, const std::vector<float> &weights, float *out) {
  const int reach = int(weights.size()) - 1, width = shape.width;
  std::vector<float> down(width), row(width + 2 * reach);
  for (int i = 0; i < shape.height; i++) {
    std::fill(down.begin(), down.end(), 0.0f);
    for (int k = -reach; k <= reach; k++) {
      const uint8_t *x = picture + int64_t(mirrored(i + k, shape.height)) * width;
      const float weight = weights[std::abs(k)];
      for (int j = 0; j < width; j++) down[j] += weight * float(x[j]);
    }
    std::copy(down.begin(), down.end(), row.begin() + reach);
    for (int k = 0; k < reach; k++) {
      row[k] = down[mirrored(k - reach, width)];
      row[reach + width + k] = down[mirrored(width + k, width)];
    }
    float *to = out + int64_t(i) * width;
    std::fill(to, to + width, 0.0f);
    for (int k = 0; k <= 2 * reach; k++) {
      const float weight = weights[std::abs(k - reach)];
      for (int j = 0; j < width; j++) to[j] += weight * row[j + k];
    }
  }
}

void tile_sums(const float *one, const float *other, Picture shape, int tiles, double *out) {
  const int height = shape.height, width = shape.width;
  const int tall = height / tiles, wide = width / tiles, across = wide * tiles;
  std::vector<float> mean(int64_t(height) * width), columns(5 * across);
  for (size_t k = 0; k < mean.size(); k++) mean[k] = (one[k] + other[k]) / 2;
  auto step = [](int at, int n) { return std::pair(std::max(at - 1, 0), std::min(at + 1, n - 1)); };
  for (int tile = 0; tile < tiles; tile++) {
    std::fill(columns.begin(), columns.end(), 0.0f);
    for (int i = tile * tall; i < (tile + 1) * tall; i++) {
      const auto [above, below] = step(i, height);
      const float *row = mean.data() + int64_t(i) * width, *a = one + int64_t(i) * width,
                  *b = other + int64_t(i) * width;
      const float *up = mean.data() + int64_t(above) * width, *down = mean.data() + int64_t(below) * width;
      const float rows = float(std::max(below - above, 1));
      auto add = [&](int j, int left, int right, float apart) {
        const float d = (down[j] - up[j]) / rows, r = (row[right] - row[left]) / apart, e = b[j] - a[j];
        const float products[5] = {d * d, d * r, r * r, d * e, r * e};
        for (int k = 0; k < 5; k++) columns[k * across + j] += products[k];
      };
      const int whole = std::min(across, width - 1);
      for (int j = 1; j < whole; j++) add(j, j - 1, j + 1, 2.0f);
      add(0, 0, std::min(1, width - 1), 1.0f);
      if (across == width && width > 1) add(width - 1, width - 2, width - 1, 1.0f);
    }
    for (int k = 0; k < 5; k++)
      for (int t = 0; t < tiles; t++) {
        const float *first = columns.data() + k * across + t * wide;
        out[(k * tiles + tile) * tiles + t] = std::accumulate(first, first + wide, 0.0);
      }
  }
}

const VideoKernels video = {&clean, &any_in,          &all_in,       &connected, &distances, &masks,    &add_slopes,
                            &note,  &near_background, &part_medians, &medians,   &smooth,    &tile_sums};

}  // namespace lrmc::LRMC_ISA
