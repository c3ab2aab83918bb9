// A small matrix in the lanes of vectors, in single precision, and a sample of its entries.
#pragma once
#include <vector>

#include "tiles.hpp"

namespace lrmc::LRMC_ISA {
namespace {

using Real = float;
using Lanes = Vec<Real>;
using Flags = Mask<Real>;
constexpr int W = width<Real>;
constexpr int SAMPLE = 1024;  // entries that thresholds are taken from: quantiles to 1.5 % of the entries

constexpr int triangle(int r) { return r * (r + 1) / 2; }
inline Lanes magnitude(Lanes x) {  // without the bit of the sign
  return (Lanes)((Flags)x & INT32_MAX);
}
inline Lanes root(Lanes x) {
  for (int w = 0; w < W; w++) x[w] = std::sqrt(x[w]);
  return x;
}
inline Lanes as_numbers(Flags flags) { return flags ? fill<Real>(1) : Lanes{}; }

// Quantiles of positive numbers, to a few percent: counts by exponent and the first bits of the mantissa.
class Quantiles {
  static constexpr int BUCKETS = 2048, DROPPED = 20;  // 8 buckets for each power of 2; NaN is behind the largest
  uint16_t counts[BUCKETS] = {};
  int total, lowest = BUCKETS;  // lowest: of the buckets that are not empty

  static double edge(int bucket) {
    const int32_t bits = bucket << DROPPED;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }

 public:
  Quantiles(const float *x, int n) : total(n) {
    for (int i = 0; i < n; i++) {
      int32_t bits;
      std::memcpy(&bits, x + i, 4);
      lowest = std::min(lowest, bits >> DROPPED);
      counts[bits >> DROPPED]++;
    }
  }
  double at(double q) const {
    double left = q * double(total);
    for (int b = lowest; b < BUCKETS; b++) {
      if (left <= counts[b]) return edge(b) + (edge(b + 1) - edge(b)) * (counts[b] ? left / counts[b] : 0);
      left -= counts[b];
    }
    return edge(BUCKETS - 1);
  }
};

// Room that is kept from one matrix to the next.
struct Room {
  std::vector<double> memory;
  size_t used = 0;
  template <class T> T *take(int64_t n) {  // aligned, 0, also what is behind
    double *p = memory.data() + used;
    T *taken = take_as_is<T>(n);
    std::fill(p, memory.data() + used, 0.0);
    return taken;
  }
  template <class T> T *take_as_is(int64_t n) {
    double *p = memory.data() + used;
    used += size<T>(n);
    return reinterpret_cast<T *>(p);
  }
  template <class T> static size_t size(int64_t n) { return (size_t(n) * sizeof(T) + 63) / 64 * 8; }  // in doubles
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
  T *lines;                        // a block of rows before it is turned
  double n_observed = 0;
  bool finite = true;  // all that is observed

  static size_t size(int64_t n1, int64_t n2) {  // in doubles
    const int64_t padded = (n1 + W - 1) / W * W, wide = (n2 + W - 1) / W * W;
    return Room::size<T>(padded * n2) + Room::size<T>(padded) + Room::size<T>(n2) + Room::size<T>(wide * W);
  }
  const T *block(int64_t b, int64_t j) const { return Y + (b * n2 + j) * W; }
  int64_t place(int64_t i, int64_t j) const { return ((i / W) * n2 + j) * W + i % W; }
  T at(int64_t i, int64_t j) const { return Y[place(i, j)]; }

  InLanes(int64_t n1_, int64_t n2_, Room &room) : n1(n1_), n2(n2_), blocks((n1_ + W - 1) / W) {
    Y = room.take_as_is<T>(blocks * n2 * W);
    row_observed = room.take<T>(blocks * W);
    col_observed = room.take<T>(n2);
    lines = room.take_as_is<T>(wide() * W);
  }
  InLanes(const Dense &data, int64_t n1_, int64_t n2_, double gain, Room &room) : InLanes(n1_, n2_, room) {
    constexpr Storage OWN = sizeof(T) == sizeof(float) ? Storage::f32 : Storage::f64;
    const bool own = data.storage == OWN && !data.mask && data.stride >= n2;
    const int64_t end = (n1 - 1) * data.stride + n2;
    take([&](int64_t b) {
      const bool as_it_is = own && (b * W + W - 1) * data.stride + wide() <= end;  // read where it is
      const T *first = lines;
      if (as_it_is) first = static_cast<const T *>(data.data) + b * W * data.stride;
      else read_lines(data, b, wide(), lines);
      const int64_t step = as_it_is ? data.stride : wide();
      return [=](int64_t j, int w) { return T(gain) * load<Lanes>(first + w * step + j); };
    });
  }
  bool complete() const { return n_observed == double(n1 * n2); }
  void scale_by(T gain) {
    for (int64_t k = 0; k < blocks * n2 * W; k++) Y[k] *= gain;
  }
  void pad() {  // lanes without a row: 0 instead of NaN
    T *last = Y + (blocks - 1) * n2 * W;
    for (int64_t j = 0; j < n2; j++) std::fill(last + j * W + (n1 - 1) % W + 1, last + (j + 1) * W, T(0));
  }

 protected:
  int64_t wide() const { return (n2 + W - 1) / W * W; }

  template <class S> void read_lines(const Dense &data, int64_t b, int64_t step, S *out) const {
    for (int64_t i = b * W; i < std::min(n1, b * W + W); i++, out += step) {
      const uint8_t *mask = data.mask ? data.mask + i * data.mask_stride : nullptr;
      read<S>(data.data, data.storage, i * data.stride, mask, int(n2), int(n2), out);
    }
  }

  // All blocks: rows(b)(j, w) are W numbers of its row w, from column j on; what lies behind the row is not used.
  template <class Rows> void take(Rows rows) {
    bool counted = true;  // everything is observed
    for (int64_t b = 0; b < blocks; b++) counted &= turn(rows(b), b);
    if (counted) {
      n_observed = double(n1 * n2);
      std::fill_n(row_observed, n1, T(n2));
      std::fill_n(col_observed, n2, T(n1));
    } else count();
  }
  template <class Rows> void take_again(Rows rows) {
    for (int64_t b = 0; b < blocks; b++) turn(rows(b), b);
  }

 private:
  template <class Rows> bool turn(Rows rows, int64_t b) {  // whether all is there, and finite
    const int64_t n2 = this->n2;
    T *out = Y + b * n2 * W;
    const int here = int(std::min<int64_t>(W, n1 - b * W));
    Lanes nothing = {};
    for (int64_t first = 0; first < n2; first += W) {
      Lanes y[W];
      if (here == W)
#pragma GCC unroll 16
        for (int w = 0; w < W; w++) y[w] = rows(first, w);
      else
        for (int w = 0; w < W; w++) y[w] = w < here ? rows(first, w) : fill<T>(std::numeric_limits<T>::quiet_NaN());
      transpose<T>(y);
      const int count = int(std::min<int64_t>(W, n2 - first));
#pragma GCC unroll 16
      for (int k = 0; k < W; k++)
        if (k < count) {
          store(out + (first + k) * W, y[k]);
          nothing += y[k] - y[k];  // NaN, if there is one or infinity
        }
    }
    bool all = true;
    for (int w = 0; w < here; w++) all = all && nothing[w] == 0;
    return all;
  }

  void count() {
    std::vector<T> seen(n2 * W);
    n_observed = 0;
    for (int64_t b = 0; b < blocks; b++) {
      Lanes observed = {};
      Mask<T> infinite = {};
      for (int64_t j = 0; j < n2; j++) {
        const Lanes y = load<Lanes>(block(b, j)), here = y == y ? fill<T>(1) : Lanes{};
        store(&seen[j * W], load<Lanes>(&seen[j * W]) + here);
        infinite |= larger(y, -y) > std::numeric_limits<T>::max();
        observed += here;
      }
      store(row_observed + b * W, observed);
      n_observed += sum<T>(observed);
      for (int w = 0; w < W; w++) finite = finite && !infinite[w];
    }
    for (int64_t j = 0; j < n2; j++) col_observed[j] = sum<T>(load<Lanes>(&seen[j * W]));
  }
};

// How many rows and columns.
struct Lines {
  int64_t rows = 0, cols = 0;
  bool none() const { return rows + cols == 0; }
};

template <class T> bool any(Mask<T> lanes) {
  auto found = lanes[0];
  for (int w = 1; w < width<T>; w++) found |= lanes[w];
  return found;
}

template <class T> Lines without_entry(const InLanes<T> &data) {
  const auto count = [](const T *observed, int64_t n) { return std::count(observed, observed + n, T(0)); };
  return {count(data.row_observed, data.n1), count(data.col_observed, data.n2)};
}

// Those with entries that no chain of entries connects with the largest column: how large they are is unknown.
template <class T> Lines apart(const InLanes<T> &data) {
  const T *largest = std::max_element(data.col_observed, data.col_observed + data.n2);
  if (*largest == T(data.n1)) return {};
  constexpr int W = width<T>;
  std::vector<T> rows(size_t(data.blocks * W));  // 1 where a row is reached
  std::vector<char> cols(size_t(data.n2));
  cols[size_t(largest - data.col_observed)] = true;
  Lines left{0, data.n2 - 1 - without_entry(data).cols};
  for (bool more = true; more;) {
    more = false;
    for (int64_t b = 0; b < data.blocks; b++) {
      const auto seen = [&](int64_t j) {
        const Vec<T> y = load<Vec<T>>(data.block(b, j));
        return y == y;
      };
      Mask<T> reached = load<Vec<T>>(&rows[b * W]) > T(0);
      for (int64_t j = 0; j < data.n2; j++)
        if (cols[j]) reached |= seen(j);
      for (int64_t j = 0; j < data.n2; j++)
        if (!cols[j] && any<T>(reached & seen(j))) {
          cols[j] = more = true;
          if (--left.cols == 0) return {};  // a row with an entry shares it with one of them
        }
      store(&rows[b * W], reached ? fill<T>(1) : Vec<T>{});
    }
  }
  for (int64_t i = 0; i < data.n1; i++) left.rows += data.row_observed[i] > 0 && rows[i] == 0;
  return left;
}

// Whether all rows and columns hang together by a chain of entries.
template <class T> bool connected(const InLanes<T> &data) { return without_entry(data).none() && apart(data).none(); }

// Where a sample of the entries is, by row: kept from one matrix to the next of the same shape.
struct Sample {
  int64_t n1 = 0, n2 = 0;
  double n_observed = 0;
  int n = 0;
  int32_t row[SAMPLE], col[SAMPLE], place[SAMPLE];
};

// A matrix in single precision, less a model in double precision: what sweeps add to the model is as exact as if all of
// it were in double precision.
class Entries : public InLanes<Real> {
  static constexpr double FAR_UNIT = 4096;  // squares of small steps stay in the range of single precision
  const Dense &data;
  double gain;
  bool whole = true;
  double *as_double, *model;  // a block of rows; R x n2
  using Doubles = Vec<double>;
  static constexpr int HALF = width<double>;

  template <int... I> static Lanes single(Doubles first, Doubles second, std::integer_sequence<int, I...>) {
    typedef Real Half __attribute__((vector_size(LRMC_VECTOR_BYTES / 2)));
    return __builtin_shufflevector(__builtin_convertvector(first, Half), __builtin_convertvector(second, Half), I...);
  }
  template <int R> auto rows_of(const double *L) {  // less L times the model
    const int64_t padded = wide();  // what loops need is told once: stores might change what is looked up
    return [=, gain = gain, model = model](int64_t b) {
      const bool own = data.storage == Storage::f64 && !data.mask && data.stride >= n2;
      const bool as_it_is = own && (b * W + W - 1) * data.stride + padded <= (n1 - 1) * data.stride + n2;
      const double *first = as_double;
      if (as_it_is) first = static_cast<const double *>(data.data) + b * W * data.stride;
      else read_lines(data, b, padded, as_double);
      const int64_t step = as_it_is ? data.stride : padded;
      const double *l = L + b * W * R;
      return [=](int64_t j, int w) {
        const double *y = first + w * step + j;
        Doubles e[2] = {gain * load<Doubles>(y), gain * load<Doubles>(y + HALF)};
        for (int a = 0; a < R; a++)
          for (int k = 0; k < 2; k++) e[k] -= l[w * R + a] * load<Doubles>(model + a * padded + j + k * HALF);
        return single(e[0], e[1], std::make_integer_sequence<int, W>{});
      };
    };
  }

 public:
  const Sample &sample;
  Real y[SAMPLE];    // of the sample, less the model
  double unit = 1;   // of all that follows, a power of 2
  double scale = 0;  // the median of |y|, without a model

  static size_t size(int64_t n1, int64_t n2) {
    return InLanes::size(n1, n2) + Room::size<double>((n2 + W) * W) + Room::size<double>((n2 + W) * MOST_SMALL_RANK);
  }
  Entries(const Dense &data_, int64_t n1_, int64_t n2_, double gain_, Room &room, Sample &kept)
      : InLanes(n1_, n2_, room), data(data_), gain(gain_), sample(kept) {
    as_double = room.take_as_is<double>(wide() * W);
    model = room.take<double>(wide() * MOST_SMALL_RANK);
    take(rows_of<0>(nullptr));
    choose_sample(kept);
    scale = median();
    if (sample.n && !(scale > 1 / FAR_UNIT && scale < FAR_UNIT)) change_unit();
  }

  // All entries less L F', both in double precision: n1 x R, n2 x R.
  template <int R> void less(const double *L, const double *F) {
    for (int64_t j = 0; j < n2; j++)
      for (int a = 0; a < R; a++) model[a * wide() + j] = F[j * R + a];
    take_again(rows_of<R>(L));
    look_up();
    whole = R == 0;
  }
  void restore() {  // without a model
    if (!whole) less<0>(nullptr, nullptr);
  }
  double given(int s) {  // an entry of the sample, in double precision
    double x;
    const int64_t i = sample.row[s], j = sample.col[s];
    const uint8_t *mask = data.mask ? data.mask + i * data.mask_stride + j : nullptr;
    read<double>(data.data, data.storage, i * data.stride + j, mask, 1, 1, &x);
    return gain * x;
  }

 private:
  void look_up() {
    for (int s = 0; s < sample.n; s++) y[s] = Y[sample.place[s]];
  }

  void choose_sample(Sample &chosen) {  // one place in each stretch of places: rows and columns have no step in common
    const bool known = chosen.n1 == n1 && chosen.n2 == n2 && chosen.n_observed == n_observed;
    if (!known || !complete()) {
      chosen.n1 = n1, chosen.n2 = n2, chosen.n_observed = n_observed, chosen.n = 0;
      const double all = double(n1 * n2), stretch = std::max(1.0, n_observed / SAMPLE);
      uint64_t random = 1;
      for (double first = 0; first < all && chosen.n < SAMPLE; first += stretch) {
        random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's
        const double within = stretch * double(random >> 33) / double(uint64_t(1) << 31);
        const uint32_t k = uint32_t(std::min(first + within, all - 1)), i = k / uint32_t(n2), j = k % uint32_t(n2);
        const int32_t at = int32_t(place(i, j));
        if (Y[at] != Y[at]) continue;
        chosen.row[chosen.n] = int32_t(i);
        chosen.col[chosen.n] = int32_t(j);
        chosen.place[chosen.n++] = at;
      }
    }
  }
  double median() {
    Real sizes[SAMPLE];
    look_up();
    for (int s = 0; s < sample.n; s++) sizes[s] = std::fabs(y[s]);
    std::nth_element(sizes, sizes + sample.n / 2, sizes + sample.n);
    return sample.n ? sizes[sample.n / 2] : 0;
  }
  void change_unit() {
    std::vector<double> size(sample.n);
    for (int s = 0; s < sample.n; s++) size[s] = std::fabs(given(s));
    std::nth_element(size.begin(), size.begin() + sample.n / 2, size.end());
    scale = size[sample.n / 2];
    if (!(scale > 0 && scale <= std::numeric_limits<double>::max())) return;
    unit = std::ldexp(1.0, std::ilogb(scale));
    gain /= unit;
    finite = true;
    take(rows_of<0>(nullptr));
    scale = median();
  }
};

}  // namespace
}  // namespace lrmc::LRMC_ISA
