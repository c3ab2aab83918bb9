// Pictures between their pixels: displacements on a grid of blocks, linear and cubic interpolation.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "simd.hpp"

namespace lrmc::LRMC_ISA {

// Where pixels first, first + 1, ... lie between the middles of blocks: the point before, and how far behind it.
struct Between {
  std::vector<int> low;
  std::vector<float> part;
  Between(int first, int count, int block, int points) : low(count), part(count) {
    for (int k = 0; k < count; k++) {
      const float at = std::clamp((float(first + k) + 0.5f) / float(block) - 0.5f, 0.0f, float(points - 1));
      low[k] = std::min(int(at), std::max(points - 2, 0));
      part[k] = at - float(low[k]);
    }
  }
};

// A grid of blocks at pixels: linear between the middles of blocks, constant beyond. One row at a time.
class Spread {
  const float *grid;
  int height, width;
  std::vector<float> line;

 public:
  Spread(const float *grid_, int height_, int width_) : grid(grid_), height(height_), width(width_), line(width_ + 1) {}

  void row(int low, float part, const Between &across, float *__restrict out) {
    const float *above = grid + low * width, *below = grid + std::min(low + 1, height - 1) * width;
    for (int j = 0; j < width; j++) line[j] = above[j] + part * (below[j] - above[j]);
    line[width] = line[width - 1];
    const float *from = line.data(), *to = across.part.data();
    const int *at = across.low.data();
    const int n = int(across.low.size());
    for (int x = 0; x < n; x++) out[x] = from[at[x]] + to[x] * (from[at[x] + 1] - from[at[x]]);
  }
};

// Linear interpolation at n places; beyond the picture, its edge. Indices, not pointers: so it becomes gathers.
inline void linear(const float *__restrict picture, int height, int width, int n, const float *__restrict y,
                   const float *__restrict x, float *__restrict out) {
  const int down = height > 1 ? width : 0, right = width > 1 ? 1 : 0;
  const float most_y = float(height - 1), most_x = float(width - 1);
  const int last_y = height > 1 ? height - 2 : 0, last_x = width > 1 ? width - 2 : 0;
  for (int k = 0; k < n; k++) {
    float at_y = y[k] > 0 ? y[k] : 0.0f, at_x = x[k] > 0 ? x[k] : 0.0f;
    at_y = at_y < most_y ? at_y : most_y;
    at_x = at_x < most_x ? at_x : most_x;
    int i = int(at_y), j = int(at_x);
    i = i < last_y ? i : last_y;
    j = j < last_x ? j : last_x;
    const int at = i * width + j;
    const float to = at_x - float(j), a = picture[at], b = picture[at + down];
    const float above = a + to * (picture[at + right] - a), below = b + to * (picture[at + down + right] - b);
    out[k] = above + (at_y - float(i)) * (below - above);
  }
}

// The cubic spline through a picture that goes on beyond its edges as it is there (Unser's recursive filter).
class Spline {
  static constexpr float POLE = -0.26794919243f;  // sqrt(3) - 2
  static constexpr int TOGETHER = 8;              // rows: the recursion of one waits for itself
  typedef float Four __attribute__((vector_size(16)));
  int height, width, stride;
  std::vector<float> coefficients;  // (height + 2) x stride: one more on every side

  // The coefficient behind the last one, from the causal sum at the last value.
  static float beyond(float last, float value) {
    const float rest = value / (1 - POLE);  // where the causal sum tends to
    const float causal = rest + POLE * (last - rest);
    return -POLE * (rest / (1 - POLE) + (causal - rest) / (1 - POLE * POLE));
  }

 public:
  Spline(int height_, int width_)
      : height(height_), width(width_), stride(width_ + 2), coefficients(size_t(height_ + 2) * stride) {}

  void through(const float *picture) {
    for (int top = 0; top < height; top += TOGETHER) along_rows(picture, top, std::min(TOGETHER, height - top));
    along_columns();
  }

  float at(float y, float x) const {
    y = std::min(std::max(y, 0.0f), float(height - 1));
    x = std::min(std::max(x, 0.0f), float(width - 1));
    const int i = std::min(int(y), std::max(height - 2, 0)), j = std::min(int(x), std::max(width - 2, 0));
    const float *p = coefficients.data() + size_t(i) * stride + j;
    float down[4], across[4];
    weights(y - float(i), down);
    weights(x - float(j), across);
    Four sum{};
    for (int k = 0; k < 4; k++) sum += load<Four>(p + k * stride) * down[k];
    sum *= load<Four>(across);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

 private:
  static void weights(float t, float *w) {
    const float u = 1 - t, tt = t * t, uu = u * u;
    w[0] = u * uu;
    w[1] = 4 + tt * (3 * t - 6);
    w[2] = 4 + uu * (3 * u - 6);
    w[3] = t * tt;
  }

  void along_rows(const float *picture, int top, int rows) {
    float state[TOGETHER];
    const float *from[TOGETHER];
    float *to[TOGETHER];
    for (int r = 0; r < rows; r++) {
      from[r] = picture + size_t(top + r) * width;
      to[r] = coefficients.data() + size_t(top + r + 1) * stride + 1;
      to[r][-1] = state[r] = from[r][0] / (1 - POLE);
    }
    for (int x = 0; x < width; x++)
      for (int r = 0; r < rows; r++) to[r][x] = state[r] = from[r][x] + POLE * state[r];
    for (int r = 0; r < rows; r++) to[r][width] = state[r] = beyond(state[r], from[r][width - 1]);
    for (int x = width - 1; x >= -1; x--)
      for (int r = 0; r < rows; r++) to[r][x] = state[r] = POLE * (state[r] - to[r][x]);
  }

  void along_columns() {
    float *c = coefficients.data();
    const auto row = [&](int y) { return c + size_t(y + 1) * stride; };
    float *first = row(-1);
    for (int x = 0; x < stride; x++) first[x] = row(0)[x] / (1 - POLE);
    std::vector<float> last(row(height - 1), row(height - 1) + stride);
    for (int y = 0; y < height; y++) {
      const float *__restrict before = row(y - 1);
      float *__restrict here = row(y);
      for (int x = 0; x < stride; x++) here[x] += POLE * before[x];
    }
    for (int x = 0; x < stride; x++) row(height)[x] = beyond(row(height - 1)[x], last[x]);
    for (int y = height - 1; y >= -1; y--) {
      const float *__restrict below = row(y + 1);
      float *__restrict here = row(y);
      for (int x = 0; x < stride; x++) here[x] = POLE * (below[x] - here[x]);
    }
  }
};

}  // namespace lrmc::LRMC_ISA
