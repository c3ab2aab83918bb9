#include "video.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace lrmc {
namespace {

// ---- windows of bytes

struct Or {
  template <class T> T operator()(T a, T b) const { return T(a | b); }
};
struct And {
  template <class T> T operator()(T a, T b) const { return T(a & b); }
};
struct Add {
  template <class T> T operator()(T a, T b) const { return T(a + b); }
};

// `op` over `size` values that are `stride` apart: out[i] of x[i], x[i + stride], ... Neighbors are put together in
// pairs, pairs in fours and so on. x is lost; out has n - (size - 1) stride values.
template <class T, class Op> void along(T *x, int64_t n, int size, int64_t stride, T *out, Op op) {
  const int64_t length = n - (size - 1) * stride;
  for (int done = 0, width = 1;; width *= 2) {
    if (size & width) {
      const T *part = x + done * stride;
      if (done == 0) std::copy(part, part + length, out);
      else
        for (int64_t i = 0; i < length; i++) out[i] = op(out[i], part[i]);
      done += width;
    }
    if (done == size) return;
    n -= width * stride;
    const T *next = x + width * stride;
#pragma GCC ivdep  // reads are ahead of writes
    for (int64_t i = 0; i < n; i++) x[i] = op(x[i], next[i]);
  }
}

// A picture with room around it: a border that is repeated, or 0.
struct Padded {
  int height, width, room;
  std::vector<uint8_t> values, other;

  Padded(int height, int width, int room)
      : height(height + 2 * room),
        width(width + 2 * room),
        room(room),
        values(int64_t(this->height) * this->width),
        other(values.size()) {}

  uint8_t *row(int i) { return values.data() + int64_t(i) * width; }
  void fill(const uint8_t *picture, bool repeated) {
    const int h = height - 2 * room, w = width - 2 * room;
    if (!repeated) std::fill(values.begin(), values.end(), uint8_t(0));
    for (int i = repeated ? 0 : room; i < (repeated ? height : room + h); i++) {
      const uint8_t *from = picture + int64_t(std::clamp(i - room, 0, h - 1)) * w;
      std::memcpy(row(i) + room, from, w);
      if (!repeated) continue;
      std::memset(row(i), from[0], room);
      std::memset(row(i) + room + w, from[w - 1], room);
    }
  }
  // Windows that begin at each pixel; those of the last size - 1 rows and columns are not whole.
  template <class Op> void windows(int size, Op op) {
    const int64_t n = int64_t(height) * width, down = n - int64_t(size - 1) * width;
    along(values.data(), n, size, width, other.data(), op);
    along(other.data(), down, size, 1, values.data(), op);
  }
};

template <class Op> void in_window(const uint8_t *mask, int height, int width, int size, uint8_t *out, Op op) {
  Padded x(height, width, size / 2);
  x.fill(mask, true);
  x.windows(size, op);
  for (int i = 0; i < height; i++) std::memcpy(out + int64_t(i) * width, x.row(i), width);
}

// More than half of a window is set. Counts of a column are bytes, those of a window may need two.
struct Most {
  int size;
  Padded x;
  std::vector<uint16_t> counts, sums;

  Most(int height, int width, int size)
      : size(size), x(height, width, size / 2), counts(x.values.size()), sums(x.values.size()) {}

  void find(const uint8_t *found, int height, int width, uint8_t *out) {
    x.fill(found, true);
    const int64_t n = int64_t(x.values.size()), down = n - int64_t(size - 1) * x.width;
    along(x.values.data(), n, size, x.width, x.other.data(), Add());
    std::copy(x.other.begin(), x.other.begin() + down, counts.begin());
    along(counts.data(), down, size, 1, sums.data(), Add());
    const int half = size * size / 2;
    for (int i = 0; i < height; i++)
      for (int j = 0; j < width; j++) out[int64_t(i) * width + j] = sums[int64_t(i) * x.width + j] > half;
  }
};

// ---- windows of floats

// Means of size x size pixels around each; borders are repeated. Sums go on from pixel to pixel.
class Means {
  int size;
  std::vector<double> sums;
  std::vector<float> down;

 public:
  explicit Means(int size) : size(size) {}

  void find(const float *x, int height, int width, float *out) {
    down.resize(int64_t(height) * width);
    sums.assign(width, 0.0);
    const int before = size / 2, after = size - 1 - before;
    auto row = [&](int i) { return x + int64_t(std::clamp(i, 0, height - 1)) * width; };
    for (int k = -before; k <= after; k++)
      for (int j = 0; j < width; j++) sums[j] += double(row(k)[j]);
    for (int i = 0; i < height; i++) {
      float *to = down.data() + int64_t(i) * width;
      for (int j = 0; j < width; j++) to[j] = float(sums[j] / size);
      const float *enters = row(i + 1 + after), *leaves = row(i - before);
      for (int j = 0; j < width; j++) sums[j] += double(enters[j]) - double(leaves[j]);
    }
    for (int i = 0; i < height; i++) {
      const float *from = down.data() + int64_t(i) * width;
      auto at = [&](int j) { return double(from[std::clamp(j, 0, width - 1)]); };
      double sum = 0;
      for (int k = -before; k <= after; k++) sum += at(k);
      for (int j = 0; j < width; j++) {
        out[int64_t(i) * width + j] = float(sum / size);
        sum += at(j + 1 + after) - at(j - before);
      }
    }
  }
};

// What `shadows._Windows` has, of a box.
class Windows {
  const Shadows &job;
  Box box;
  int64_t n;
  Means means;
  std::vector<float> f, b, mean_f, mean_b, square, room;

 public:
  std::vector<float> ratio, texture;
  std::vector<uint8_t> rough, tinted;

  Windows(const Shadows &job, Box box)
      : job(job),
        box(box),
        n(int64_t(box.height) * box.width),
        means(job.size),
        ratio(n),
        texture(n),
        rough(n),
        tinted(n) {
    for (auto *x : {&f, &b, &mean_f, &mean_b}) x->resize(n * job.colours);
    square.resize(n);
    room.resize(n);
    for (int c = 0; c < job.colours; c++) plane(c);
    compare();
  }

  int kind(int64_t k) const {
    const double *end = job.edges + job.n_edges;
    return int(std::upper_bound(job.edges, end, double(ratio[k])) - job.edges) + (rough[k] ? job.bins() : 0);
  }

  // Where the frame is rougher than a shadow would be: by frame and background alone.
  std::vector<uint8_t> rougher() {
    const std::vector<float> &own = mean_square([&](int64_t k, int64_t) { return f[k] - mean_f[k]; });
    const float least = job.candidates * job.noise * job.candidates * job.noise;
    std::vector<uint8_t> found(n);
    for (int64_t k = 0; k < n; k++) found[k] = own[k] > least + (rough[k] ? ratio[k] * ratio[k] * texture[k] : 0.0f);
    return found;
  }

  // How far frames are from the background times the ratio, less the mean: its square.
  std::vector<float> rest() {
    std::vector<float> found = mean_square([&](int64_t k, int64_t at) { return f[k] - ratio[at] * b[k]; });
    for (int64_t k = 0; k < n; k++) {
      float sum = 0;
      for (int c = 0; c < job.colours; c++) {
        const float unlike = mean_f[c * n + k] - ratio[k] * mean_b[c * n + k];
        sum += unlike * unlike;
      }
      found[k] = std::sqrt(std::max(found[k] - sum / float(job.colours), 0.0f));
    }
    return found;
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
  void plane(int c) {
    for (int i = 0; i < box.height; i++) {
      const int64_t from = (int64_t(box.top + i) * job.width + box.left) * job.colours + c;
      const int64_t to = c * n + int64_t(i) * box.width;
      for (int j = 0; j < box.width; j++) {
        f[to + j] = job.frame[from + int64_t(j) * job.colours];
        b[to + j] = job.behind[from + int64_t(j) * job.colours];
      }
    }
    means.find(f.data() + c * n, box.height, box.width, mean_f.data() + c * n);
    means.find(b.data() + c * n, box.height, box.width, mean_b.data() + c * n);
  }
  float over_colours(const std::vector<float> &x, int64_t at) const {
    float sum = 0;
    for (int64_t k = at; k < n * job.colours; k += n) sum += x[k];
    return sum / float(job.colours);
  }
  // Of windows and colors, the square of what a function gives; in `room`.
  template <class Value> const std::vector<float> &mean_square(Value value) {
    std::fill(square.begin(), square.end(), 0.0f);
    for (int c = 0; c < job.colours; c++)
      for (int64_t at = 0; at < n; at++) {
        const float x = value(c * n + at, at);
        square[at] += x * x;
      }
    for (float &x : square) x /= float(job.colours);
    means.find(square.data(), box.height, box.width, room.data());
    return room;
  }
  void compare() {
    texture = mean_square([&](int64_t k, int64_t) { return b[k] - mean_b[k]; });
    const float least = job.candidates * job.noise * job.candidates * job.noise;
    for (int64_t at = 0; at < n; at++) {
      const float bright = over_colours(mean_f, at), x = bright / std::max(over_colours(mean_b, at), 1.0f);
      ratio[at] = x;
      rough[at] = x * x * texture[at] > least;
      float unlike = 0;
      for (int64_t k = at; k < n * job.colours; k += n) unlike = std::max(unlike, std::fabs(mean_f[k] - x * mean_b[k]));
      tinted[at] = unlike > job.tint * bright + job.noise;
    }
  }
};

// A box of a mask of the whole frame.
std::vector<uint8_t> cut(const uint8_t *mask, int width, Box box) {
  std::vector<uint8_t> out(int64_t(box.height) * box.width);
  for (int i = 0; i < box.height; i++)
    std::memcpy(out.data() + int64_t(i) * box.width, mask + int64_t(box.top + i) * width + box.left, box.width);
  return out;
}

// ---- pixels one by one

constexpr int64_t TOGETHER = 512;  // values of a frame: some frames of them stay in the first-level cache

// Values first to first + count of a frame, less the background.
void residuals(const Pixels &job, int64_t frame, int64_t first, int64_t count, float *out) {
  const uint8_t *from = job.frames + frame * job.n + first;
  const float *score = job.scores + frame * job.rank;
  for (int64_t j = 0; j < count; j++) {
    const float *v = job.V + (first + j) * job.rank;
    float model = score[0] * v[0];
    for (int r = 1; r < job.rank; r++) model += score[r] * v[r];
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

// The box of all that is set; no height if nothing is.
Box bounds(const uint8_t *mask, int height, int width) {
  int top = height, bottom = 0, left = width, right = 0;
  for (int i = 0; i < height; i++) {
    const uint8_t *row = mask + int64_t(i) * width;
    const auto *first = static_cast<const uint8_t *>(std::memchr(row, 1, width));
    if (!first) continue;
    top = std::min(top, i);
    bottom = i + 1;
    left = std::min(left, int(first - row));
    int end = width;
    while (end > right && !row[end - 1]) end--;
    right = end;
  }
  return {top, left, std::max(bottom - top, 0), std::max(right - left, 0)};
}

// Gaps narrower than a window are closed, within the box of all that is set: nothing else can change.
void close_gaps(uint8_t *mask, int height, int width, int gap) {
  const Box box = bounds(mask, height, width);
  if (!box.height) return;
  // Room, so that what touches the border is closed as anywhere. A window begins half of it before its middle, so
  // that two of them begin where the picture does.
  Padded closing(box.height, box.width, gap - 1);
  closing.fill(cut(mask, width, box).data(), false);
  closing.windows(gap, Or());
  closing.windows(gap, And());
  for (int i = 0; i < box.height; i++)
    std::memcpy(mask + int64_t(box.top + i) * width + box.left, closing.row(i), box.width);
}

}  // namespace

void any_in_window(const uint8_t *mask, int height, int width, int size, uint8_t *out) {
  in_window(mask, height, width, size, out, Or());
}
void all_in_window(const uint8_t *mask, int height, int width, int size, uint8_t *out) {
  in_window(mask, height, width, size, out, And());
}

void clean(const Majority &job) {
  const int64_t n = int64_t(job.height) * job.width;
  Most most(job.height, job.width, job.near);
  for (int64_t k = 0; k < job.count; k++) {
    uint8_t *out = job.out + k * n;
    most.find(job.found + k * n, job.height, job.width, out);
    close_gaps(out, job.height, job.width, job.gap);
  }
}

void connected(const uint8_t *mask, int height, int width, int64_t least, uint8_t *out) {
  struct Run {
    int row, begin, end;
  };
  std::vector<Run> runs;
  std::vector<int64_t> parent, area;
  auto root = [&](int64_t k) {
    while (parent[k] != k) k = parent[k] = parent[parent[k]];
    return k;
  };
  size_t above = 0, here = 0;  // the first runs of the last row, and of this one
  for (int i = 0; i < height; i++) {
    above = here;
    here = runs.size();
    const uint8_t *row = mask + int64_t(i) * width;
    for (int j = 0; j < width; j++) {
      const auto *next = static_cast<const uint8_t *>(std::memchr(row + j, 1, width - j));
      if (!next) break;
      const int begin = int(next - row);
      const auto *gap = static_cast<const uint8_t *>(std::memchr(next, 0, width - begin));
      const int end = gap ? int(gap - row) : width;
      j = end;
      const int64_t own = int64_t(runs.size());
      parent.push_back(own);
      area.push_back(end - begin);
      runs.push_back({i, begin, end});
      for (size_t k = above; k < here && runs[k].begin <= end; k++)
        if (runs[k].end >= begin) {
          const int64_t one = root(int64_t(k)), other = root(own);
          if (one == other) continue;
          parent[other] = one;
          area[one] += area[other];
        }
    }
  }
  std::memset(out, 0, int64_t(height) * width);
  for (size_t k = 0; k < runs.size(); k++)
    if (area[root(int64_t(k))] >= least)
      std::memset(out + int64_t(runs[k].row) * width + runs[k].begin, 1, runs[k].end - runs[k].begin);
}

void in_cells(const uint8_t *mask, int height, int width, int cell, uint8_t *out) {
  const int across = (width + cell - 1) / cell;
  for (int i = 0; i < height; i++)
    for (int j = 0; j < across; j++) {
      const int first = j * cell;
      uint8_t &found = out[int64_t(i / cell) * across + j];
      const size_t length = std::min(cell, width - first);
      if (!found) found = std::memchr(mask + int64_t(i) * width + first, 1, length) != nullptr;
    }
}

void add_slopes(const Shadows &job, Box box, const uint8_t *mask, double *sums) {
  const std::vector<uint8_t> given = cut(mask, job.width, box);
  std::vector<uint8_t> some(given.size());
  all_in_window(given.data(), box.height, box.width, job.size, some.data());
  if (std::find(some.begin(), some.end(), 1) == some.end()) return;
  Windows windows(job, box);
  const std::vector<uint8_t> rougher = windows.rougher();
  const int bins = 2 * job.bins();
  for (size_t k = 0; k < some.size(); k++) {
    if (!some[k] || windows.tinted[k] || rougher[k] || !(std::fabs(windows.ratio[k] - 1) > job.alike)) continue;
    double slope[3];
    windows.slope(int64_t(k), slope);
    for (int part = 0; part < 3; part++) sums[part * bins + windows.kind(int64_t(k))] += slope[part];
  }
}

void leave_out(const Shadows &job, Box box, const uint8_t *far, const uint8_t *ratios, uint8_t *left) {
  const std::vector<uint8_t> given = cut(far, job.width, box);
  std::vector<uint8_t> core(given.size()), near(given.size());
  all_in_window(given.data(), box.height, box.width, 3, core.data());
  if (std::find(core.begin(), core.end(), 1) == core.end()) return;
  Windows windows(job, box);
  for (size_t k = 0; k < core.size(); k++) core[k] = core[k] && !windows.tinted[k] && ratios[windows.kind(int64_t(k))];
  const std::vector<float> rest = windows.rest();
  for (size_t k = 0; k < core.size(); k++)
    core[k] = core[k] && rest[k] < job.taken * job.noise * std::max(windows.ratio[k], 1.0f);
  any_in_window(core.data(), box.height, box.width, job.size, near.data());
  for (int i = 0; i < box.height; i++) {
    uint8_t *row = left + int64_t(box.top + i) * job.width + box.left;
    for (int j = 0; j < box.width; j++) row[j] &= uint8_t(!near[int64_t(i) * box.width + j]);
  }
}

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

void tile_sums(const float *one, const float *other, int height, int width, int tiles, double *out) {
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

}  // namespace lrmc
