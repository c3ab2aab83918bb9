// Masks of frames: what is far from the background, without what is small, and closed.
//
// Compiled once for each instruction set.
#include "masks.hpp"
#include <cmath>
#include <cstring>
#include "windows.hpp"

namespace lrmc::LRMC_ISA {
namespace {

// Some pixels more on each side, as far as the picture goes.
Box wider(Box box, int more, Picture shape) {
  const int top = std::max(box.top - more, 0), left = std::max(box.left - more, 0);
  const int bottom = std::min(box.top + box.height + more, shape.height);
  const int right = std::min(box.left + box.width + more, shape.width);
  return {top, left, bottom - top, right - left};
}

// A box of a mask with room around it, where its border is repeated.
struct Padded {
  int height = 0, width = 0;
  std::vector<uint8_t> values, other;

  uint8_t *row(int i) { return values.data() + int64_t(i) * width; }
  int64_t size() const { return int64_t(height) * width; }
  void fill(const uint8_t *mask, Picture shape, Box box, int room) {
    height = box.height + 2 * room;
    width = box.width + 2 * room;
    if (int64_t(values.size()) < size()) {
      values.resize(size());
      other.resize(size());
    }
    for (int i = 0; i < height; i++) {
      const int from = box.top + std::clamp(i - room, 0, box.height - 1);
      const uint8_t *pixels = mask + int64_t(from) * shape.width + box.left;
      std::memcpy(row(i) + room, pixels, box.width);
      std::memset(row(i), pixels[0], room);
      std::memset(row(i) + room + box.width, pixels[box.width - 1], room);
    }
  }
  // Windows that begin at each pixel; those of the last size - 1 rows and columns are not whole.
  template <class Op> void windows(int size, Op op) {
    const int64_t n = this->size(), down = n - int64_t(size - 1) * width;
    along(values.data(), n, size, width, other.data(), op);
    along(other.data(), down, size, 1, values.data(), op);
  }
};

template <class Op> void in_window(const uint8_t *mask, Picture shape, int size, uint8_t *out, Op op, Padded &x) {
  x.fill(mask, shape, {0, 0, shape.height, shape.width}, size / 2);
  x.windows(size, op);
  for (int i = 0; i < shape.height; i++) std::memcpy(out + int64_t(i) * shape.width, x.row(i), shape.width);
}

// More than half of a window is set. Counts of a column are bytes, those of a window may need two.
class Majority {
  Padded x;
  std::vector<uint16_t> counts, sums;

  template <class T> void more_than_half(const T *counted, Picture shape, Box box, int size, uint8_t *out) {
    const int half = size * size / 2;
    for (int i = 0; i < box.height; i++) {
      const T *from = counted + int64_t(i) * x.width;
      uint8_t *to = out + int64_t(box.top + i) * shape.width + box.left;
      for (int j = 0; j < box.width; j++) to[j] = from[j] > T(half);
    }
  }

 public:
  // Nothing beyond the box of what is set can have more: one line more is not set, and is what is repeated.
  Box find(const uint8_t *found, Picture shape, int size, uint8_t *out) {
    std::memset(out, 0, shape.size());
    Box box = bounds(found, shape, 0, shape.width);
    if (!box.height) return box;
    box = wider(box, 1, shape);
    x.fill(found, shape, box, size / 2);
    if (size * size < 256) {
      x.windows(size, Add());
      more_than_half(x.values.data(), shape, box, size, out);
      return box;
    }
    const int64_t n = x.size(), down = n - int64_t(size - 1) * x.width;
    along(x.values.data(), n, size, x.width, x.other.data(), Add());
    counts.assign(x.other.begin(), x.other.begin() + down);
    sums.resize(down);
    along(counts.data(), down, size, 1, sums.data(), Add());
    more_than_half(sums.data(), shape, box, size, out);
    return box;
  }
};

// Eight bytes that are 0 or 1 as the bits of one, the first one highest, and back.
constexpr uint64_t SPREAD = 0x8040201008040201, ONES = 0x0101010101010101;
uint64_t packed(const uint8_t *pixels, int count) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, pixels, count);
  return bytes * SPREAD >> 56;
}
void unpacked(uint64_t bits, uint8_t *pixels, int count) {
  const uint64_t bytes = bits * SPREAD >> 7 & ONES;
  std::memcpy(pixels, &bytes, count);
}

// Pixels of a box as bits, the first of 64 highest, with room around them that is not set.
class Bits {
  int words = 0;  // of a row
  std::vector<uint64_t> values, other;

  // 64 bits that begin `by` bits after a word.
  uint64_t later(int64_t k, int by) const {
    const int64_t at = k + by / 64, n = int64_t(values.size());
    const int shift = by % 64;
    const uint64_t first = at < n ? values[at] : 0;
    if (!shift) return first;
    return first << shift | (at + 1 < n ? values[at + 1] : 0) >> (64 - shift);
  }
  // As `along`, over neighbors in a row. Bits that come from the next row are beyond the picture.
  template <class Op> void across(int size, Op op) {
    const int64_t n = int64_t(values.size());
    for (int done = 0, width = 1;; width *= 2) {
      if (size & width) {
        for (int64_t k = 0; k < n; k++) other[k] = done == 0 ? values[k] : op(other[k], later(k, done));
        done += width;
      }
      if (done == size) break;
      for (int64_t k = 0; k < n; k++) values[k] = op(values[k], later(k, width));
    }
    values.swap(other);
  }
  template <class Op> void windows(int size, Op op) {
    across(size, op);
    const int64_t n = int64_t(values.size());
    along(values.data(), n, size, words, other.data(), op);
    std::fill(other.begin() + (n - int64_t(size - 1) * words), other.end(), uint64_t(0));
    values.swap(other);
  }

 public:
  // Gaps narrower than a window are closed, within the box of all that is set: nothing else can change.
  void close(uint8_t *mask, Picture shape, Box box, int gap) {
    // Room, so that what touches the border is closed as anywhere. A window begins half of it before its middle, so
    // that two of them begin `room` before the picture does.
    const int room = gap - 1, left = (room + 7) / 8 * 8;
    words = (left + box.width + room + 63) / 64;
    values.assign(int64_t(box.height + 2 * room) * words, 0);
    other.resize(values.size());
    auto pixels = [&](int i) { return mask + int64_t(box.top + i) * shape.width + box.left; };
    for (int i = 0; i < box.height; i++) {
      uint64_t *to = values.data() + int64_t(i + room) * words;
      for (int j = 0; j < box.width; j += 8)
        to[(left + j) / 64] |= packed(pixels(i) + j, std::min(8, box.width - j)) << (56 - (left + j) % 64);
    }
    windows(gap, Or());
    windows(gap, And());
    for (int64_t k = 0; k < int64_t(box.height) * words; k++) other[k] = later(k, left - room);
    for (int i = 0; i < box.height; i++) {
      const uint64_t *from = other.data() + int64_t(i) * words;
      for (int j = 0; j < box.width; j += 8)
        unpacked(from[j / 64] >> (56 - j % 64) & 255, pixels(i) + j, std::min(8, box.width - j));
    }
  }
};

class Cleaning {
  Majority most;
  Bits bits;

 public:
  void operator()(const uint8_t *found, Picture shape, Clean job, uint8_t *out) {
    most.find(found, shape, job.near, out);
    const Box box = bounds(out, shape, 0, shape.width);
    if (box.height) bits.close(out, shape, box, job.gap);
  }
};

// How far three colors are: the largest, or the length of what is mixed.
inline float largest(const float *off) {
  return std::max(std::max(std::fabs(off[0]), std::fabs(off[1])), std::fabs(off[2]));
}
inline float mixed(const float *off, const float *mix) {
  float sum = 0;
  for (int c = 0; c < 3; c++) {
    const float x = off[0] * mix[c] + off[1] * mix[3 + c] + off[2] * mix[6 + c];
    sum += x * x;
  }
  return std::sqrt(sum);
}

constexpr float BRIGHT[3] = {0.299f, 0.587f, 0.114f};  // shares of the colors in brightness, as in cameras
constexpr int BLOCK = 17;  // pixels over which films spread a color: a block, and its middle

// How far pixels are in all, in brightness, and in color alone. Bytes could be anything: all that is read is named.
void three_ways(const uint8_t *x, const float *b, const float *mix, int64_t n, float *__restrict all,
                float *__restrict bright, uint8_t *__restrict colour) {
  float m[9];
  std::copy_n(mix, 9, m);
  for (int64_t k = 0; k < n; k++) {
    const float off[3] = {float(x[3 * k]) - b[3 * k], float(x[3 * k + 1]) - b[3 * k + 1],
                          float(x[3 * k + 2]) - b[3 * k + 2]};
    const float light = off[0] * BRIGHT[0] + off[1] * BRIGHT[1] + off[2] * BRIGHT[2];
    const float u = off[0] - light, v = off[1] - light, w = off[2] - light;
    bright[k] = std::fabs(light);
    colour[k] = uint8_t(int(std::min(std::sqrt(u * u + v * v + w * w), 255.0f)));
    all[k] = mixed(off, m);
  }
}

void without_spread(const float *bright, const uint8_t *colour, const uint8_t *most, float light, int64_t n,
                    float *__restrict out) {
  for (int64_t k = 0; k < n; k++) out[k] = std::max(light * bright[k], 2 * colour[k] >= most[k] ? out[k] : 0.0f);
}

// Brightness counts everywhere; colors, which films store coarsely, only where they are at least half as far as the
// farthest ones nearby: what spreads from there is less.
class Colours {
  std::vector<float> bright;
  std::vector<uint8_t> colour, most;
  Padded x;

 public:
  void operator()(const Distances &job, const uint8_t *frame, const float *behind, float *out) {
    const int64_t n = job.shape.size();
    bright.resize(n);
    colour.resize(n);
    most.resize(n);
    three_ways(frame, behind, job.mix, n, out, bright.data(), colour.data());
    in_window(colour.data(), job.shape, BLOCK, most.data(), Most(), x);
    without_spread(bright.data(), colour.data(), most.data(), job.light, n, out);
  }
};

void distances_of(const Distances &job, int64_t frame, Colours &colours, float *out) {
  const int64_t n = job.shape.size(), first = frame * n * job.colours;
  const uint8_t *x = job.frames + first;
  const float *b = job.behind + first;
  if (job.colours == 1)
    for (int64_t k = 0; k < n; k++) out[k] = std::fabs(float(x[k]) - b[k]);
  else if (job.mix) colours(job, x, b, out);
  else
    for (int64_t k = 0; k < n; k++, x += 3, b += 3) {
      const float off[3] = {float(x[0]) - b[0], float(x[1]) - b[1], float(x[2]) - b[2]};
      out[k] = largest(off);
    }
}

// Bytes could be anything: what is read beside them has to be named, or it is read anew.
void beyond(const float *off, int64_t n, float threshold, const uint8_t *sways, uint8_t *__restrict out) {
  if (sways)
    for (int64_t j = 0; j < n; j++) out[j] = off[j] > std::max(float(sways[j]), threshold);
  else
    for (int64_t j = 0; j < n; j++) out[j] = off[j] > threshold;
}

void note_farthest(const float *off, const uint8_t *near, int64_t n, uint8_t *__restrict farthest,
                   uint8_t *__restrict seen) {
  for (int64_t k = 0; k < n; k++) {
    const uint8_t far = uint8_t(int(std::min(std::ceil(off[k]), 255.0f)));
    farthest[k] = std::max(farthest[k], uint8_t(near[k] ? 0 : far));
    seen[k] = uint8_t(seen[k] + !near[k]);
  }
}

void add_differences(const uint8_t *frame, const float *behind, const float *free, int64_t n, float *__restrict sums,
                     float *__restrict squares) {
  for (int64_t k = 0; k < n; k++) {
    const float off = free[k] * (float(frame[k]) - behind[k]);
    sums[k] += off;
    squares[k] += off * off;
  }
}

}  // namespace

Box bounds(const uint8_t *mask, Picture shape, int first, int last) {
  int top = shape.height, bottom = 0, left = last, right = first;
  for (int i = 0; i < shape.height; i++) {
    const uint8_t *row = mask + int64_t(i) * shape.width;
    const auto *found = static_cast<const uint8_t *>(std::memchr(row + first, 1, last - first));
    if (!found) continue;
    top = std::min(top, i);
    bottom = i + 1;
    left = std::min(left, int(found - row));
    int end = last;
    while (end > right && !row[end - 1]) end--;
    right = end;
  }
  return {top, left, std::max(bottom - top, 0), std::max(right - left, 0)};
}

void any_in(const uint8_t *mask, Picture shape, int size, uint8_t *out) {
  Padded x;
  in_window(mask, shape, size, out, Or(), x);
}
void all_in(const uint8_t *mask, Picture shape, int size, uint8_t *out) {
  Padded x;
  in_window(mask, shape, size, out, And(), x);
}

void clean(const uint8_t *found, int64_t count, Picture shape, Clean job, uint8_t *out) {
  Cleaning cleaning;
  for (int64_t k = 0; k < count; k++) cleaning(found + k * shape.size(), shape, job, out + k * shape.size());
}

void distances(const Distances &job, float *out) {
  Colours colours;
  for (int64_t k = 0; k < job.count; k++) distances_of(job, k, colours, out + k * job.shape.size());
}

void masks(const Masks &job) {
  const Picture shape = job.of.shape;
  const int64_t n = shape.size();
  std::vector<float> off(n);
  std::vector<uint8_t> far(n), left(n);
  Cleaning cleaning;
  Colours colours;
  for (int64_t k = 0; k < job.of.count; k++) {
    uint8_t *out = job.out + k * n;
    distances_of(job.of, k, colours, off.data());
    beyond(off.data(), n, job.threshold, job.sways, far.data());
    cleaning(far.data(), shape, job.clean, out);
    if (!job.shadows) continue;
    Shadows here = *job.shadows;
    here.frame = job.of.frames + k * n * here.colours;
    here.behind = job.of.behind + k * n * here.colours;
    left = far;
    leave_out(here, far.data(), out, left.data());
    cleaning(left.data(), shape, job.clean, out);
  }
}

void note(const Noted &job) {
  const int64_t n = job.shape.size();
  std::vector<uint8_t> things(n), near(n);
  connected(job.mask, job.shape, job.least, things.data());
  any_in(things.data(), job.shape, job.room, near.data());
  note_farthest(job.off, near.data(), n, job.farthest, job.seen);
  std::vector<float> free(n * job.colours);
  for (int64_t k = 0; k < n; k++) free[k] = !job.mask[k] && job.off[k] <= job.threshold ? 1.0f : 0.0f;
  for (int64_t k = 0; k < n; k++) job.count[k] += free[k];
  for (int64_t k = n; job.colours > 1 && k-- > 0;) std::fill_n(&free[k * job.colours], job.colours, free[k]);
  add_differences(job.frame, job.behind, free.data(), n * job.colours, job.sums, job.squares);
}

void connected(const uint8_t *mask, Picture shape, int64_t least, uint8_t *out) {
  struct Run {
    int row, begin, end;
  };
  std::vector<Run> runs;
  std::vector<int64_t> parent, area;
  auto root = [&](int64_t k) {
    while (parent[k] != k) k = parent[k] = parent[parent[k]];
    return k;
  };
  const int width = shape.width;
  size_t above = 0, here = 0;  // the first runs of the last row, and of this one
  for (int i = 0; i < shape.height; i++) {
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
  std::memset(out, 0, shape.size());
  for (size_t k = 0; k < runs.size(); k++)
    if (area[root(int64_t(k))] >= least)
      std::memset(out + int64_t(runs[k].row) * width + runs[k].begin, 1, runs[k].end - runs[k].begin);
}

}  // namespace lrmc::LRMC_ISA
