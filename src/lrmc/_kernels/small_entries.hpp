// A small matrix in the lanes of vectors, and a sample of its entries.
#pragma once
#include <vector>

#include "tiles.hpp"

namespace lrmc::LRMC_ISA {
namespace {

using Lanes = Vec<double>;
using Flags = Mask<double>;
constexpr int W = width<double>;
constexpr int SAMPLE = 1024;  // entries that thresholds are taken from: quantiles to 1.5 % of the entries

constexpr int triangle(int r) { return r * (r + 1) / 2; }
inline Lanes magnitude(Lanes x) {  // without the bit of the sign
  return (Lanes)((Flags)x & INT64_MAX);
}
inline Lanes root(Lanes x) {
  for (int w = 0; w < W; w++) x[w] = std::sqrt(x[w]);
  return x;
}
inline Lanes as_numbers(Flags flags) { return flags ? fill<double>(1) : Lanes{}; }

// Quantiles of positive numbers in some unit, to a few percent: counts by exponent and the first bits of the mantissa.
class Quantiles {
  static constexpr int BUCKETS = 1024, DROPPED = 49;  // 8 buckets for each power of 2: 128 powers below the largest
  int32_t counts[BUCKETS] = {};
  int64_t first, total, lowest = BUCKETS;  // lowest: of the buckets that are not empty
  double unit;

  static int64_t bits(double x) {
    int64_t b;
    std::memcpy(&b, &x, 8);
    return b >> DROPPED;
  }
  double edge(int64_t bucket) const {
    const int64_t b = std::max<int64_t>(0, first + bucket) << DROPPED;
    double x;
    std::memcpy(&x, &b, 8);
    return x;
  }

 public:
  Quantiles(const double *x, int n, double unit_) : total(n), unit(unit_) {
    const double inverse = 1 / unit;
    int64_t most = 0;  // as bits, which have the order of positive numbers and NaN behind them
    for (int i = 0; i < n; i++) most = std::max(most, bits(x[i] * inverse));
    first = most - BUCKETS + 1;
    for (int i = 0; i < n; i++) {
      const int64_t bucket = std::max<int64_t>(0, bits(x[i] * inverse) - first);
      lowest = std::min(lowest, bucket);
      counts[bucket]++;
    }
  }
  double at(double q) const {
    double left = q * double(total);
    for (int64_t b = left > 0 ? lowest : 0; b < BUCKETS; b++) {
      if (left <= counts[b]) {
        const double low = b == 0 ? 0 : edge(b);
        return unit * (low + (edge(b + 1) - low) * (counts[b] ? left / counts[b] : 1));
      }
      left -= counts[b];
    }
    return unit * edge(BUCKETS);
  }
};

// Room that is kept from one matrix to the next.
struct Room {
  std::vector<double> memory;
  size_t used = 0;
  template <class T = double> T *take(int64_t n) {  // aligned, 0
    T *p = take_as_is<T>(n);
    std::fill_n(p, n, T(0));
    return p;
  }
  template <class T> T *take_as_is(int64_t n) {
    const size_t padded = (size_t(n) * sizeof(T) + 63) / 64 * 8;
    double *p = memory.data() + used;
    used += padded;
    return reinterpret_cast<T *>(p);
  }
  void reserve(size_t n) {
    used = 0;
    if (memory.size() < n) memory.resize(n);
  }
};

// A matrix in lanes: row i is lane i % W of block i / W; entries of a block follow each other column by column.
template <class T> struct InLanes {
  static constexpr int W = width<T>;
  using Lanes = Vec<T>;
  int64_t n1, n2, blocks;
  T *Y;                            // blocks x n2 x W: NaN where nothing is observed
  T *row_observed, *col_observed;  // blocks x W, n2
  double n_observed = 0;
  bool finite = true;  // all that is observed

  static size_t size(int64_t n1, int64_t n2) {  // in doubles
    const int64_t blocks = (n1 + W - 1) / W;
    return (size_t((blocks * (n2 + 1) + n2) * W + n2 + 64) * sizeof(T) + 7) / 8;
  }
  const T *block(int64_t b, int64_t j) const { return Y + (b * n2 + j) * W; }
  T at(int64_t i, int64_t j) const { return Y[((i / W) * n2 + j) * W + i % W]; }
  InLanes(const Dense &data, int64_t n1_, int64_t n2_, double gain, Room &room)
      : n1(n1_), n2(n2_), blocks((n1_ + W - 1) / W) {
    const int64_t wide = (n2 + W - 1) / W * W;
    Y = room.take_as_is<T>(blocks * n2 * W);
    row_observed = room.take<T>(blocks * W);
    col_observed = room.take<T>(n2);
    T *seen = room.take<T>(n2 * W);
    std::vector<T> lines(wide * W);
    constexpr Storage OWN = sizeof(T) == sizeof(float) ? Storage::f32 : Storage::f64;
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t read_to = (b * W + W - 1) * data.stride + wide, end = (n1 - 1) * data.stride + n2;
      if (data.storage == OWN && !data.mask && data.stride >= n2 && read_to <= end) {
        turn(static_cast<const T *>(data.data) + b * W * data.stride, data.stride, T(gain), b, seen);
        continue;
      }
      for (int64_t w = 0; w < W; w++) {
        const int64_t i = b * W + w;
        T *line = lines.data() + w * wide;
        const uint8_t *mask = data.mask && i < n1 ? data.mask + i * data.mask_stride : nullptr;
        if (i < n1) read<T>(data.data, data.storage, i * data.stride, mask, int(n2), int(n2), line);
        else std::fill_n(line, n2, std::numeric_limits<T>::quiet_NaN());
      }
      turn(lines.data(), wide, T(gain), b, seen);
    }
    for (int64_t i = 0; i < n1; i++) n_observed += row_observed[i];
    for (int64_t j = 0; j < n2; j++) col_observed[j] = sum<T>(load<Lanes>(seen + j * W));
  }
  void scale_by(T gain) {
    for (int64_t k = 0; k < blocks * n2 * W; k++) Y[k] *= gain;
  }
  void pad() {  // lanes without a row: 0 instead of NaN
    T *last = Y + (blocks - 1) * n2 * W;
    for (int64_t j = 0; j < n2; j++) std::fill(last + j * W + (n1 - 1) % W + 1, last + (j + 1) * W, T(0));
  }

 private:
  // W rows, `wide` numbers after each other, become a block; what lies behind rows is read, not used. `seen` counts
  // what is observed of each column, in lanes.
  void turn(const T *lines, int64_t wide, T gain, int64_t b, T *seen) {
    T *out = Y + b * n2 * W;
    Lanes observed = {};
    Mask<T> infinite = {};
    for (int64_t first = 0; first < n2; first += W) {
      Lanes rows[W];
#pragma GCC unroll 16
      for (int w = 0; w < W; w++) rows[w] = load<Lanes>(lines + w * wide + first);
      transpose<T>(rows);
      const int count = int(std::min<int64_t>(W, n2 - first));
      for (int k = 0; k < count; k++) {
        const Lanes y = gain * rows[k], here = y == y ? fill<T>(1) : Lanes{};
        T *counted = seen + (first + k) * W;
        store(out + (first + k) * W, y);
        store(counted, load<Lanes>(counted) + here);
        infinite |= larger(y, -y) > std::numeric_limits<T>::max();
        observed += here;
      }
    }
    store(row_observed + b * W, observed);
    for (int w = 0; w < W; w++) finite = finite && !infinite[w];
  }
};

// Whether all rows and columns hang together by a chain of entries: else their sizes beside each other are unknown.
template <class T> bool connected(const InLanes<T> &data) {
  for (int64_t j = 0; j < data.n2; j++)
    if (data.col_observed[j] == T(data.n1)) return true;
  std::vector<char> rows(data.n1), done(data.n1), cols(data.n2);
  int64_t reached = 0, before = -1;
  for (cols[0] = true; reached < data.n1 && reached > before;) {
    before = reached;
    for (int64_t i = 0; i < data.n1; i++) {
      for (int64_t j = 0; j < data.n2 && !rows[i]; j++) rows[i] = cols[j] && data.at(i, j) == data.at(i, j);
      if (!rows[i] || done[i]) continue;
      done[i] = true;
      reached++;
      for (int64_t j = 0; j < data.n2; j++) cols[j] = cols[j] || data.at(i, j) == data.at(i, j);
    }
  }
  return reached == data.n1 && std::find(cols.begin(), cols.end(), 0) == cols.end();
}

// The same with a sample of the entries.
struct Entries : InLanes<double> {
  int n_sample = 0;
  struct {
    int32_t row[SAMPLE], col[SAMPLE];
    double y[SAMPLE];
  } sample;
  double scale = 1;  // the median of |y|

  Entries(const Dense &data, int64_t n1_, int64_t n2_, double gain, Room &room) : InLanes(data, n1_, n2_, gain, room) {
    choose_sample();
  }

 private:
  void choose_sample() {  // one place in each stretch of places, at random: rows and columns have no step in common
    const double all = double(n1 * n2), stretch = std::max(1.0, n_observed / SAMPLE);
    double size[SAMPLE];
    uint64_t random = 1;
    for (double first = 0; first < all && n_sample < SAMPLE; first += stretch) {
      random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's
      const double within = stretch * double(random >> 33) / double(uint64_t(1) << 31);
      const int64_t k = int64_t(std::min(first + within, all - 1)), i = k / n2, j = k % n2;
      const double y = at(i, j);
      if (y != y) continue;
      size[n_sample] = std::fabs(y);
      sample.row[n_sample] = int32_t(i);
      sample.col[n_sample] = int32_t(j);
      sample.y[n_sample++] = y;
    }
    std::nth_element(size, size + n_sample / 2, size + n_sample);
    scale = n_sample ? size[n_sample / 2] : 0;
  }
};

}  // namespace
}  // namespace lrmc::LRMC_ISA
