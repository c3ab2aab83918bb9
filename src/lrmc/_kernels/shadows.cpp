// Shadows and light: windows of frames and of what is behind them. `apps/video/shadows.py` says what for.
//
// Compiled once for each instruction set.
#include <cmath>
#include <cstring>
#include "masks.hpp"
#include "windows.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr int TALL = 48, WIDE = 32;  // of tiles: what is looked at together stays in the second-level cache

// Boxes of what is set in rows of tiles, neighbors together.
template <class Look> void for_boxes(const uint8_t *mask, Picture shape, Look look) {
  for (int top = 0; top < shape.height; top += TALL) {
    const Picture band{std::min(TALL, shape.height - top), shape.width};
    const uint8_t *rows = mask + int64_t(top) * shape.width;
    auto any = [&](int left) {
      const int wide = std::min(WIDE, shape.width - left);
      for (int i = 0; wide > 0 && i < band.height; i++)
        if (std::memchr(rows + int64_t(i) * shape.width + left, 1, wide)) return true;
      return false;
    };
    for (int left = 0; left < shape.width; left += WIDE) {
      const int begin = left;
      while (any(left)) left += WIDE;
      if (left == begin) continue;
      Box box = bounds(rows, band, begin, std::min(left, shape.width));
      box.top += top;
      look(box);
    }
  }
}

using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

// A box with room around it. Beyond the picture, its border is repeated.
class Around {
  Picture shape;  // of the whole picture
  Box inner;
  int room;
  Floats down;  // a row: sums of columns

  template <class T> void repeat(T *x) const {
    const int first = std::max(0, room - inner.top), before = std::max(0, room - inner.left);
    const int last = std::min(height, shape.height - inner.top + room) - 1;
    const int end = std::min(width, shape.width - inner.left + room);
    auto row = [&](int i) { return x + int64_t(i) * width; };
    if (before > 0 || end < width)
      for (int i = first; i <= last; i++) {
        std::fill(row(i), row(i) + before, row(i)[before]);
        std::fill(row(i) + end, row(i) + width, row(i)[end - 1]);
      }
    for (int i = 0; i < first; i++) std::copy_n(row(first), width, row(i));
    for (int i = last + 1; i < height; i++) std::copy_n(row(last), width, row(i));
  }
  // Windows around each pixel, as far as they are whole.
  template <class T, class Op>
  void windows(std::vector<T> &x, int size, Op op, std::vector<T> &room_for, std::vector<T> &out) const {
    const int64_t begin = int64_t(size / 2) * (width + 1), below = n - int64_t(size - 1) * width;
    repeat(x.data());
    along(x.data(), n, size, width, room_for.data(), op);
    along(room_for.data(), below, size, 1, out.data() + begin, op);
  }

 public:
  const int height, width;
  const int64_t n;

  Around(Picture shape, Box inner, int room)
      : shape(shape),
        inner(inner),
        room(room),
        height(inner.height + 2 * room),
        width(inner.width + 2 * room),
        n(int64_t(height) * width) {
    down.resize(width);
  }

  // Of a picture of so many colors, one.
  template <class T, class U> void cut(const T *picture, int colours, int colour, U *out) const {
    const int top = inner.top - room, left = inner.left - room;
    const int before = std::max(0, -left), end = std::min(width, shape.width - left);
    for (int i = std::max(0, -top); i < std::min(height, shape.height - top); i++) {
      const T *from = picture + (int64_t(top + i) * shape.width + left) * colours + colour;
      U *to = out + int64_t(i) * width;
      if (colours == 1) std::copy(from + before, from + end, to + before);
      else
        for (int j = before; j < end; j++) to[j] = U(from[int64_t(j) * colours]);
    }
    repeat(out);
  }
  // Means of windows, as far as they are whole.
  void means(float *x, int size, float *out) {
    repeat(x);
    const int half = size / 2, last = width - half;
    const float part = 1.0f / float(size * size);
    for (int i = half; i < height - half; i++) {
      std::copy_n(x + int64_t(i - half) * width, width, down.data());
      for (int k = 1; k < size; k++) {
        const float *row = x + int64_t(i - half + k) * width;
        for (int j = 0; j < width; j++) down[j] += row[j];
      }
      float *to = out + int64_t(i) * width;
      for (int j = half; j < last; j++) to[j] = down[j - half];
      for (int k = 1; k < size; k++)
        for (int j = half; j < last; j++) to[j] += down[j - half + k];
      for (int j = half; j < last; j++) to[j] *= part;
    }
  }
  Bytes all_in(Bytes x, int size) const {
    Bytes other(n), out(n);
    windows(x, size, And(), other, out);
    return out;
  }
  Bytes any_in(Bytes x, int size) const {
    Bytes other(n), out(n);
    windows(x, size, Or(), other, out);
    return out;
  }
  // Each pixel of the box itself: where it is here, and in the picture.
  template <class Look> void for_inner(Look look) const {
    for (int i = 0; i < inner.height; i++) {
      const int64_t here = int64_t(room + i) * width + room;
      const int64_t there = int64_t(inner.top + i) * shape.width + inner.left;
      for (int j = 0; j < inner.width; j++) look(here + j, there + j);
    }
  }
};

// Room that all of what is asked of a pixel needs around it: means of means, and what is near.
int reach(int size) { return 3 * (size / 2) + 1; }

// Windows of a box, as `Windows` of tests/shadow_reference.py.
class Windows {
  const Shadows &job;
  Around &around;
  int64_t n;
  Floats f, b, mean_f, mean_b;  // colors one after another
  Floats square;

 public:
  Floats ratio, texture;
  Bytes rough, tinted;

  Windows(const Shadows &job, Around &around) : job(job), around(around), n(around.n), square(n), ratio(n), texture(n) {
    for (auto *x : {&f, &b, &mean_f, &mean_b}) x->resize(n * job.colours);
    for (int c = 0; c < job.colours; c++) {
      around.cut(job.frame, job.colours, c, &f[c * n]);
      around.cut(job.behind, job.colours, c, &b[c * n]);
      around.means(&f[c * n], job.size, &mean_f[c * n]);
      around.means(&b[c * n], job.size, &mean_b[c * n]);
    }
    compare();
  }

  int kind(int64_t k) const {
    const double x = double(ratio[k]);
    int bin = rough[k] ? job.bins() : 0;
    for (int edge = 0; edge < job.n_edges; edge++) bin += job.edges[edge] <= x;
    return bin;
  }

  // Where the frame is rougher than a shadow would be: by frame and background alone.
  Bytes rougher() {
    Floats own(n);
    mean_square([&](int64_t k, int64_t) { return f[k] - mean_f[k]; }, own);
    const float least = job.candidates * job.noise * job.candidates * job.noise;
    return each([=, x = ratio.data(), own = own.data(), texture = texture.data()](int64_t k) {
      const float ground = x[k] * x[k] * texture[k];
      return own[k] > least + (ground > least ? ground : 0.0f);
    });
  }

  // Where frames are the background times the ratio, up to the mean.
  Bytes alike() {
    Floats rest(n), unlike(n);
    mean_square([&](int64_t k, int64_t at) { return f[k] - ratio[at] * b[k]; }, rest);
    for (int c = 0; c < job.colours; c++)
      for (int64_t at = 0; at < n; at++) {
        const float x = mean_f[c * n + at] - ratio[at] * mean_b[c * n + at];
        unlike[at] += x * x;
      }
    const float taken = job.taken * job.noise, part = 1.0f / float(job.colours);
    return each([=, x = ratio.data(), rest = rest.data(), unlike = unlike.data()](int64_t k) {
      const float most = taken * std::max(x[k], 1.0f);
      return std::max(rest[k] - part * unlike[k], 0.0f) < most * most;
    });
  }

  // The numerator of a pixel's slope, its denominator, and the variance of the first.
  void slope(int64_t at, double *out) const {
    float sums[3] = {};
    for (int64_t k = at; k < n * job.colours; k += n) {
      const float high_f = f[k] - mean_f[k], high_b = b[k] - mean_b[k], most = job.texture * job.noise;
      const float bounded = std::clamp(high_b, -most, most), spread = job.noise * bounded;
      sums[0] += bounded * high_f;
      sums[1] += bounded * ratio[at] * high_b;
      sums[2] += spread * spread;
    }
    std::copy(sums, sums + 3, out);
  }

 private:
  // Where a test is true of what it holds itself: bytes could be anything, and pointers would be read anew.
  template <class Test> Bytes each(Test test) const {
    Bytes found(n);
    uint8_t *to = found.data();
    for (int64_t k = 0, count = n; k < count; k++) to[k] = test(k);
    return found;
  }
  // Of windows and colors, the square of what a function gives.
  template <class Value> void mean_square(Value value, Floats &out) {
    std::fill(square.begin(), square.end(), 0.0f);
    const float part = 1.0f / float(job.colours);
    for (int c = 0; c < job.colours; c++)
      for (int64_t at = 0; at < n; at++) {
        const float x = value(c * n + at, at);
        square[at] += part * x * x;
      }
    around.means(square.data(), job.size, out.data());
  }
  void compare() {
    mean_square([&](int64_t k, int64_t) { return b[k] - mean_b[k]; }, texture);
    const float least = job.candidates * job.noise * job.candidates * job.noise, colours = float(job.colours);
    Floats bright(n), behind(n), unlike(n);
    for (int c = 0; c < job.colours; c++)
      for (int64_t at = 0; at < n; at++) {
        bright[at] += mean_f[c * n + at];
        behind[at] += mean_b[c * n + at];
      }
    for (int64_t at = 0; at < n; at++) ratio[at] = bright[at] / colours / std::max(behind[at] / colours, 1.0f);
    rough =
        each([=, x = ratio.data(), texture = texture.data()](int64_t k) { return x[k] * x[k] * texture[k] > least; });
    for (int c = 0; c < job.colours; c++)
      for (int64_t at = 0; at < n; at++)
        unlike[at] = std::max(unlike[at], std::fabs(mean_f[c * n + at] - ratio[at] * mean_b[c * n + at]));
    const float tint = job.tint / colours, noise = job.noise;
    tinted = each([=, unlike = unlike.data(), bright = bright.data()](int64_t k) {
      return unlike[k] > tint * bright[k] + noise;
    });
  }
};

}  // namespace

void add_slopes(const Shadows &job, const uint8_t *mask, double *sums) {
  const int bins = 2 * job.bins();
  for_boxes(mask, job.shape, [&](Box box) {
    Around around(job.shape, box, reach(job.size));
    Bytes some(around.n);
    around.cut(mask, 1, 0, some.data());
    some = around.all_in(some, job.size);
    if (!std::memchr(some.data(), 1, some.size())) return;
    Windows windows(job, around);
    const Bytes rougher = windows.rougher();
    around.for_inner([&](int64_t k, int64_t) {
      if (!some[k] || windows.tinted[k] || rougher[k] || !(std::fabs(windows.ratio[k] - 1) > job.alike)) return;
      double slope[3];
      windows.slope(k, slope);
      for (int part = 0; part < 3; part++) sums[part * bins + windows.kind(k)] += slope[part];
    });
  });
}

void leave_out(const Shadows &job, const uint8_t *far, const uint8_t *mask, uint8_t *left) {
  for_boxes(mask, job.shape, [&](Box box) {
    Around around(job.shape, box, reach(job.size));
    Bytes core(around.n);
    around.cut(far, 1, 0, core.data());
    core = around.all_in(core, 3);
    if (!std::memchr(core.data(), 1, core.size())) return;
    Windows windows(job, around);
    const Bytes alike = windows.alike();
    uint8_t *in = core.data();
    for (int64_t k = 0; k < around.n; k++)
      if (in[k]) in[k] = alike[k] && !windows.tinted[k] && job.ratios[windows.kind(k)];
    const Bytes near = around.any_in(core, job.size);
    around.for_inner([left, near = near.data()](int64_t here, int64_t there) { left[there] &= uint8_t(!near[here]); });
  });
}

}  // namespace lrmc::LRMC_ISA
