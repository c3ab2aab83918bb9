// Small matrices without noise: each is solved, and the answer proven, while it is in the cache. Robust alternating
// least squares with the thresholds of methods/closed_loop.py; the proof is what methods/certificate.py asks, without
// its milder cases. What is not proven here says nothing: it is left to the methods that look at everything.
//
// Rows are computed as many at a time as a vector has lanes, one in each, so that a sweep over both factors reads each
// entry once and no sum goes across a vector. Compiled once for each instruction set.
#include "small.hpp"

#include <atomic>
#include <chrono>
#include <vector>

#include "cholesky.hpp"
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {
namespace {

using Lanes = Vec<double>;
using Flags = Mask<double>;
constexpr int W = width<double>;
constexpr int SAMPLE = 1024;  // entries that thresholds are taken from: quantiles to 1.5 % of the entries
constexpr int ROUNDS = 3;     // of power iteration at the start

constexpr int triangle(int r) { return r * (r + 1) / 2; }
inline Lanes magnitude(Lanes x) {  // without the bit of the sign
  return (Lanes)((Flags)x & INT64_MAX);
}
inline Lanes as_numbers(Flags flags) { return flags ? fill<double>(1) : Lanes{}; }

// Quantiles of positive numbers in some unit, to a few percent: counts by exponent and the first bits of the mantissa.
class Quantiles {
  static constexpr int BUCKETS = 1024, DROPPED = 49;  // 8 buckets for each power of 2: 128 powers below the largest
  int32_t counts[BUCKETS] = {};
  int64_t first, total;
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
    double most = 0;
    for (int i = 0; i < n; i++) most = std::max(most, x[i]);
    first = bits(most * inverse) - BUCKETS + 1;
    for (int i = 0; i < n; i++) counts[std::max<int64_t>(0, bits(x[i] * inverse) - first)]++;
  }
  double at(double q) const {
    double left = q * double(total);
    for (int b = 0; b < BUCKETS; b++) {
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
  double *take(int64_t n) {  // aligned, 0
    const size_t padded = (size_t(n) + 7) / 8 * 8;
    double *p = memory.data() + used;
    used += padded;
    std::fill_n(p, padded, 0.0);
    return p;
  }
  void reserve(size_t n) {
    used = 0;
    if (memory.size() < n) memory.resize(n);
  }
};

// A matrix in lanes: row i is lane i % W of block i / W; entries of a block follow each other column by column.
struct Entries {
  int64_t n1, n2, blocks;
  double *Y;                           // blocks x n2 x W: NaN where nothing is observed
  double *row_observed, *col_observed;  // blocks x W, n2
  double n_observed = 0;
  int n_sample = 0;
  struct Place {
    int32_t row, col;
    double y;
  } places[SAMPLE];
  double scale = 1;        // the median of |y|
  bool finite = true;      // all that is observed

  static size_t size(int64_t n1, int64_t n2) {
    const int64_t blocks = (n1 + W - 1) / W;
    return size_t(blocks * (n2 + 1) * W + n2 + 64);
  }
  double at(int64_t i, int64_t j) const { return Y[((i / W) * n2 + j) * W + i % W]; }
  Entries(const Dense &data, int64_t n1_, int64_t n2_, double gain, Room &room)
      : n1(n1_), n2(n2_), blocks((n1_ + W - 1) / W) {
    Y = room.take(blocks * n2 * W);
    row_observed = room.take(blocks * W);
    col_observed = room.take(n2);
    std::vector<double> lines(n2 * W);
    for (int64_t b = 0; b < blocks; b++) {
      for (int64_t w = 0; w < W; w++) {
        const int64_t i = b * W + w;
        double *line = lines.data() + w * n2;
        const uint8_t *mask = data.mask && i < n1 ? data.mask + i * data.mask_stride : nullptr;
        if (i < n1) read<double>(data.data, data.storage, i * data.stride, mask, int(n2), int(n2), line);
        else std::fill_n(line, n2, std::numeric_limits<double>::quiet_NaN());
      }
      turn(lines.data(), gain, b);
    }
    for (int64_t i = 0; i < n1; i++) n_observed += row_observed[i];
    choose_sample();
  }

 private:
  void turn(const double *lines, double gain, int64_t b) {  // W rows, one after another, become a block
    double *out = Y + b * n2 * W;
    Lanes observed = {};
    Flags infinite = {};
    for (int64_t j = 0; j < n2; j++) {
      double numbers[W];
#pragma GCC unroll 8
      for (int w = 0; w < W; w++) numbers[w] = lines[w * n2 + j];
      const Lanes y = gain * load<Lanes>(numbers), seen = as_numbers(y == y);
      store(out + j * W, y);
      infinite |= magnitude(y) > std::numeric_limits<double>::max();
      observed += seen;
      col_observed[j] += sum<double>(seen);
    }
    store(row_observed + b * W, observed);
    for (int w = 0; w < W; w++) finite = finite && !infinite[w];
  }
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
      places[n_sample++] = {int32_t(i), int32_t(j), y};
    }
    std::nth_element(size, size + n_sample / 2, size + n_sample);
    scale = n_sample ? size[n_sample / 2] : 0;
  }
};

// One matrix and one rank.
template <int R> class Fit {
  static constexpr int T = triangle(R), SUMS = T + R + 1;  // of a column: Gram matrix, right-hand side, inliers
  const Entries &data;
  const SmallPace &pace;
  double *L, *F, *Q, *pairs, *sums;         // blocks x R x W; n2 x R; without columns far behind; n2 x T; n2 x SUMS x W
  double *row_multiple, *col_multiple;      // of the threshold
  double *row_inliers, *col_inliers;        // counts
  double zeta = 0, widest = 1, far_rows = 0, far_cols = 0, inliers = 1, low = 0;

 public:
  static size_t size(int64_t n1, int64_t n2) {
    const int64_t blocks = (n1 + W - 1) / W;
    return size_t(blocks * (R + 2) * W + n2 * (2 * R + T + SUMS * W + 2) + 128);
  }
  Fit(const Entries &data_, const SmallPace &pace_, Room &room) : data(data_), pace(pace_) {
    const int64_t n2 = data.n2, padded = data.blocks * W;
    L = room.take(padded * R);
    F = room.take(n2 * R);
    Q = room.take(n2 * R);
    pairs = room.take(n2 * T);
    sums = room.take(n2 * SUMS * W);
    row_multiple = room.take(padded);
    row_inliers = room.take(padded);
    col_multiple = room.take(n2);
    col_inliers = room.take(n2);
    std::fill_n(row_multiple, padded, 1.0);
    std::fill_n(col_multiple, n2, 1.0);
  }

  // The leading part of the data, clipped.
  void start(const double *random, int columns) {
    const double first = pace.above * data.scale;
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0; a < R; a++) F[j * R + a] = random[j * columns + a];
    for (int round = 0; round < ROUNDS; round++) {
      orthonormal();
      multiply(first, round + 1 < ROUNDS ? 1 : data.n_observed / double(data.n1 * data.n2));
      if (round + 1 < ROUNDS) multiply_back(first);
    }
    zeta = first;
    inliers = 1;
    next_threshold();
  }

  // Least squares for the rows, then for the columns, on what is within the threshold: how far X moved.
  double sweep() {
    Moved moved;
    prepare();
    widest > 1 ? rows<true>(moved) : rows<false>(moved);
    move_columns(moved);
    follow();
    return moved.relative();
  }

  // Whether a sweep more would change nothing that counts; or whether it is hopeless.
  bool arrived(double border) const { return zeta * widest <= border && low <= border; }
  double threshold() const { return zeta; }
  double share() const { return inliers; }
  double typical() const { return low; }

  void write(double *left, double *right, int columns) const {
    for (int64_t i = 0; i < data.n1; i++)
      for (int a = 0; a < R; a++) left[i * columns + a] = L[((i / W) * R + a) * W + i % W];
    for (int64_t j = 0; j < data.n2; j++) std::copy_n(F + j * R, R, right + j * columns);
  }

  bool proven(const SmallProof &proof, double border, SmallReport &told);

 private:
  void count_within(const double *edges, double *within);

  struct Moved {
    Lanes LL[T] = {}, dd[T] = {}, dL[R * R] = {};
    double RR[R][R] = {}, RR_after[R][R] = {}, ee[R][R] = {}, eR[R][R] = {};
    // X + dX = (L + d)(R + e)': dX = d R' + (L + d) e'
    double relative() const {
      double moved = 0, norm = 0;
      for (int a = 0, k = 0; a < R; a++)
        for (int b = a; b < R; b++, k++) {
          const double twice = a == b ? 1 : 2;
          moved += twice * (sum<double>(dd[k]) * RR[a][b] + sum<double>(LL[k]) * ee[a][b]);
          norm += twice * sum<double>(LL[k]) * RR_after[a][b];
        }
      for (int a = 0; a < R; a++)
        for (int b = 0; b < R; b++) moved += 2 * sum<double>(dL[a * R + b]) * eR[b][a];
      return norm > 0 ? std::sqrt(std::max(moved, 0.0) / norm) : std::numeric_limits<double>::infinity();
    }
  };

  static Lanes residual(Lanes y, const Lanes *l, const double *f) {
    Lanes e = y;
#pragma GCC unroll 8
    for (int a = 0; a < R; a++) e -= l[a] * f[a];
    return e;
  }

  void orthonormal() {  // columns of F
    for (int a = 0; a < R; a++) {
      for (int b = 0; b < a; b++) {
        double dot = 0;
        for (int64_t j = 0; j < data.n2; j++) dot += F[j * R + a] * F[j * R + b];
        for (int64_t j = 0; j < data.n2; j++) F[j * R + a] -= dot * F[j * R + b];
      }
      double norm = 0;
      for (int64_t j = 0; j < data.n2; j++) norm += F[j * R + a] * F[j * R + a];
      const double scale = norm > 0 ? 1 / std::sqrt(norm) : 0;
      for (int64_t j = 0; j < data.n2; j++) F[j * R + a] *= scale;
    }
  }
  static Lanes clipped(Lanes y, double most) {
    const Lanes z = fill<double>(most);
    return y == y ? larger(smaller(y, z), -z) : Lanes{};
  }
  void multiply(double most, double share) {  // L = C F / share
    for (int64_t b = 0; b < data.blocks; b++) {
      Lanes l[R] = {};
      const double *y = data.Y + b * data.n2 * W;
      for (int64_t j = 0; j < data.n2; j++) {
        const Lanes c = clipped(load<Lanes>(y + j * W), most);
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) l[a] += c * F[j * R + a];
      }
      for (int a = 0; a < R; a++) store(L + (b * R + a) * W, l[a] / share);
    }
  }
  void multiply_back(double most) {  // F = C' L
    std::fill_n(sums, data.n2 * SUMS * W, 0.0);
    for (int64_t b = 0; b < data.blocks; b++) {
      Lanes l[R];
      for (int a = 0; a < R; a++) l[a] = load<Lanes>(L + (b * R + a) * W);
      const double *y = data.Y + b * data.n2 * W;
      for (int64_t j = 0; j < data.n2; j++) {
        const Lanes c = clipped(load<Lanes>(y + j * W), most);
        double *out = sums + j * SUMS * W;
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) store(out + a * W, load<Lanes>(out + a * W) + c * l[a]);
      }
    }
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0; a < R; a++) F[j * R + a] = sum<double>(load<Lanes>(sums + (j * SUMS + a) * W));
  }

  double ridge = 0;
  void prepare() {  // what rows are multiplied with: columns far behind learn, but do not teach
    const bool few = far_cols < pace.few_behind;
    double trace = 0;
    for (int64_t j = 0; j < data.n2; j++) {
      const double *f = F + j * R, teaches = few && col_multiple[j] > pace.far ? 0 : 1;
      for (int a = 0, k = 0; a < R; a++) {
        Q[j * R + a] = teaches * f[a];
        trace += data.col_observed[j] * Q[j * R + a] * Q[j * R + a];
        for (int b = a; b < R; b++, k++) pairs[j * T + k] = teaches * f[a] * f[b];
      }
    }
    ridge = pace.ridge * trace / double(data.n1) / R;
    std::fill_n(sums, data.n2 * SUMS * W, 0.0);
  }

  // Weights w of residuals, and c = w e: 1 within the threshold; beyond, 0, or clipped where the row or column is
  // protected. What is missing is NaN and has none.
  struct Weighed {
    Lanes w, c;
    Flags inlier;
  };
  template <bool Protects> struct Rule {
    Lanes row_z;
    Flags row_protect;
    const double *multiple;
    double zeta;
    Weighed operator()(Lanes e, int64_t j) const {
      const Lanes size = magnitude(e), none = {};
      if constexpr (!Protects) {
        const Flags inlier = size <= row_z;
        return {as_numbers(inlier), inlier ? e : none, inlier};
      }
      const Lanes z = larger(row_z, fill<double>(zeta * multiple[j]));
      const Flags inlier = size <= z, seen = size == size, clips = multiple[j] > 1 ? seen : row_protect & seen;
      const Lanes w = inlier ? fill<double>(1) : clips ? z / size : none;
      return {w, seen ? w * e : none, inlier};
    }
  };

  template <bool Protects> Rule<Protects> rule_of(int64_t b) const {
    const Lanes multiple = load<Lanes>(row_multiple + b * W);
    return {zeta * multiple, multiple > 1, col_multiple, zeta};
  }

  // Each block of rows is moved, and then teaches the columns; some together, so that their sums are loaded once.
  template <bool Protects> void rows(Moved &moved) {
    constexpr int TOGETHER = R <= 2 ? 4 : R <= 4 ? 2 : 1;
    int64_t b = 0;
    for (; b + TOGETHER <= data.blocks; b += TOGETHER) {
      for (int u = 0; u < TOGETHER; u++) move<Protects>(b + u, moved);
      teach<Protects, TOGETHER>(b);
    }
    for (; b < data.blocks; b++) {
      move<Protects>(b, moved);
      teach<Protects, 1>(b);
    }
  }

  template <bool Protects> void move(int64_t b, Moved &moved) {
    const double *y = data.Y + b * data.n2 * W;
    const Rule<Protects> rule = rule_of<Protects>(b);
    Lanes l[R], H[T] = {}, x[R] = {};
    for (int a = 0; a < R; a++) l[a] = load<Lanes>(L + (b * R + a) * W);
    for (int64_t j = 0; j < data.n2; j++) {
      const Weighed now = rule(residual(load<Lanes>(y + j * W), l, F + j * R), j);
#pragma GCC unroll 8
      for (int a = 0; a < R; a++) x[a] += now.c * Q[j * R + a];
#pragma GCC unroll 36
      for (int k = 0; k < T; k++) H[k] += now.w * pairs[j * T + k];
    }
    solve(H, x);
    for (int a = 0; a < R; a++) store(L + (b * R + a) * W, l[a] += x[a]);
    for (int a = 0, k = 0; a < R; a++) {
      for (int c = a; c < R; c++, k++) {
        moved.dd[k] += x[a] * x[c];
        moved.LL[k] += l[a] * l[c];
      }
      for (int c = 0; c < R; c++) moved.dL[a * R + c] += x[a] * l[c];
    }
  }

  // What U blocks of rows say of the columns.
  template <bool Protects, int U> void teach(int64_t b) {
    Rule<Protects> rule[U];
    Lanes l[U][R], squares[U][T], taught[U][R], count[U] = {};
    for (int u = 0; u < U; u++) {
      rule[u] = rule_of<Protects>(b + u);
      Lanes teaches = fill<double>(1);
      if (Protects && far_rows < pace.few_behind)
        teaches = load<Lanes>(row_multiple + (b + u) * W) > pace.far ? Lanes{} : fill<double>(1);
      for (int a = 0; a < R; a++) l[u][a] = load<Lanes>(L + ((b + u) * R + a) * W);
      for (int a = 0, k = 0; a < R; a++) {
        taught[u][a] = teaches * l[u][a];
        for (int c = a; c < R; c++, k++) squares[u][k] = taught[u][a] * l[u][c];
      }
    }
    for (int64_t j = 0; j < data.n2; j++) {
      Lanes found[SUMS];
      double *out = sums + j * SUMS * W;
#pragma GCC unroll 45
      for (int k = 0; k < SUMS; k++) found[k] = load<Lanes>(out + k * W);
#pragma GCC unroll 4
      for (int u = 0; u < U; u++) {
        const double *y = data.Y + (b + u) * data.n2 * W;
        const Weighed now = rule[u](residual(load<Lanes>(y + j * W), l[u], F + j * R), j);
        const Lanes one = as_numbers(now.inlier);
        count[u] += one;
        found[T + R] += one;
#pragma GCC unroll 36
        for (int k = 0; k < T; k++) found[k] += now.w * squares[u][k];
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) found[T + a] += now.c * taught[u][a];
      }
#pragma GCC unroll 45
      for (int k = 0; k < SUMS; k++) store(out + k * W, found[k]);
    }
    for (int u = 0; u < U; u++) store(row_inliers + (b + u) * W, count[u]);
  }

  void solve(Lanes *H, Lanes *x) const {  // x <- (H + ridge)^-1 x in each lane
    const auto at = [](int a, int b) { return a * R - a * (a - 1) / 2 + b - a; };
    for (int k = 0; k < R; k++) {
      const Lanes d = H[at(k, k)] + ridge, inverse = d > 0 ? 1 / d : Lanes{};
      H[at(k, k)] = inverse;
      for (int i = k + 1; i < R; i++) {
        const Lanes u = H[at(k, i)] * inverse;
        for (int j = i; j < R; j++) H[at(i, j)] -= u * H[at(k, j)];
        x[i] -= u * x[k];
      }
    }
    for (int k = R - 1; k >= 0; k--) {
      for (int j = k + 1; j < R; j++) x[k] -= H[at(k, j)] * x[j];
      x[k] *= H[at(k, k)];
    }
  }

  void move_columns(Moved &moved) {
    double trace = 0;
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0, k = 0; a < R; k += R - a, a++) trace += sum<double>(load<Lanes>(sums + (j * SUMS + k) * W));
    const double shift = pace.ridge * trace / double(data.n2) / R;
    double total = 0;
    for (int64_t j = 0; j < data.n2; j++) {
      double H[R * R], x[R], *f = F + j * R;
      const double *in = sums + j * SUMS * W;
      for (int a = 0, k = 0; a < R; a++) {
        for (int b = a; b < R; b++, k++) H[a * R + b] = sum<double>(load<Lanes>(in + k * W)) + (a == b ? shift : 0);
        x[a] = sum<double>(load<Lanes>(in + (T + a) * W));
      }
      total += col_inliers[j] = sum<double>(load<Lanes>(in + (T + R) * W));
      solve_fixed<R>(H, x);
      for (int a = 0; a < R; a++)
        for (int b = 0; b < R; b++) {
          moved.RR[a][b] += f[a] * f[b];
          moved.ee[a][b] += x[a] * x[b];
          moved.eR[a][b] += x[a] * f[b];
        }
      for (int a = 0; a < R; a++) f[a] += x[a];
      for (int a = 0; a < R; a++)
        for (int b = 0; b < R; b++) moved.RR_after[a][b] += f[a] * f[b];
    }
    inliers = total / data.n_observed;
  }

  void next_threshold() {  // see `Falling` of the closed loop
    double size[SAMPLE];
    for (int s = 0; s < data.n_sample; s++) {
      const auto [row, col, y] = data.places[s];
      const double *l = L + row / W * R * W + row % W, *f = F + col * R;
      double e = y;
      for (int a = 0; a < R; a++) e -= l[a * W] * f[a];
      size[s] = std::fabs(e);
    }
    const Quantiles found(size, data.n_sample, data.scale);
    low = found.at(pace.good);
    const double high = found.at(pace.high * inliers), least = std::max(pace.decay * zeta, pace.widest * low);
    zeta = std::max({std::min(least, pace.above_high * high), pace.fastest * zeta, pace.rounding * data.scale});
  }

  // Thresholds are widened where far fewer entries than typical are within them.
  double followed(const double *seen, const double *met, double *multiple, int64_t n, double shrink) {
    double behind = 0;
    for (int64_t i = 0; i < n; i++) {
      if (seen[i] == 0) continue;
      const double share = met[i] / seen[i], deviation = std::sqrt(inliers * (1 - inliers) / seen[i]);
      const bool late = share < std::min(pace.behind * inliers, pace.half) - 2 * deviation;
      multiple[i] = late ? multiple[i] * pace.widen / shrink : std::max(1.0, multiple[i] / pace.narrow);
      widest = std::max(widest, multiple[i]);
      behind += multiple[i] > pace.far;
    }
    return behind / double(n);
  }
  void follow() {
    const double before = zeta;
    next_threshold();
    widest = 1;
    far_rows = followed(data.row_observed, row_inliers, row_multiple, data.n1, zeta / before);
    far_cols = followed(data.col_observed, col_inliers, col_multiple, data.n2, zeta / before);
  }
};

// ---- the proof

// How many entries of a line must agree to vouch for it: `proving` of the certificate.
double proving(double observed, int rank, double chance, const SmallProof &proof) {
  const double expected = observed * chance;
  double fits = 1, extra = 2;
  for (int k = 0; k < rank; k++) fits = std::min(fits * std::max(observed - k, 1.0) / (k + 1), proof.most_fits);
  double odds = fits * expected * std::exp(-expected);
  for (int k = 2; k < 40; k++) {
    odds *= expected / k;
    if (odds > proof.seldom) extra = k + 1;
  }
  return rank + (expected > 10 ? expected + 8 * std::sqrt(expected) + 16 : extra);
}

// Whether a value stands in many of the places that were looked at: half as often as counts, to be on the safe side.
bool repeats(const double *values, int n, double often) {
  constexpr int SLOTS = 4096;
  struct Slot {
    double value;
    int count;
  };
  std::vector<Slot> table(SLOTS, Slot{0, 0});
  for (int i = 0; i < n; i++) {
    uint64_t key;
    std::memcpy(&key, &values[i], 8);
    for (uint64_t at = key * 0x9E3779B97F4A7C15u >> 52;; at++) {
      Slot &slot = table[at % SLOTS];
      if (slot.count && slot.value != values[i]) continue;
      slot.value = values[i];
      if (++slot.count > std::max(1.0, 0.5 * often * n)) return true;
      break;
    }
  }
  return false;
}

// Sums of x x' over some vectors, and how much each of these tells alone.
template <int R> struct Leverage {
  double U[R * R] = {}, largest = 0;
  bool told = true;  // every direction
  void add(const double *x) {
    for (int a = 0; a < R; a++)
      for (int b = a; b < R; b++) U[a * R + b] += x[a] * x[b];
  }
  void factor(double untold) {
    double most = 0;
    for (int a = 0; a < R; a++) most = std::max(most, U[a * R + a]);
    cholesky(U, R);
    for (int a = 0; a < R; a++) told = told && U[a * R + a] > 0 && 1 / U[a * R + a] > untold * most;
  }
  double of(const double *x) const {
    double y[R], dot = 0;
    std::copy_n(x, R, y);
    substitute(U, R, y);
    for (int a = 0; a < R; a++) dot += x[a] * y[a];
    return dot;
  }
};

// Lines of one side, as the proof looks at them: `F` their factor, `G` that of the other side.
template <int R> struct Side {
  int64_t n, across;
  const double *observed, *met, *F, *G;
  const Entries &data;
  bool by_rows;
  double near;

  // The line meets more entries than any fit could, and no direction of it hangs on one of them.
  bool vouched_for(const SmallProof &proof, double chance, bool outliers) const {
    Leverage<R> all;
    for (int64_t i = 0; i < n; i++) all.add(F + i * R);
    all.factor(0);
    double last = -1, wanted = 0;
    for (int64_t i = 0; i < n; i++) {
      const bool whole = met[i] == observed[i];
      if (observed[i] != last) wanted = proving(last = observed[i], R, chance, proof);
      if (observed[i] == 0 || (met[i] < wanted && !(whole && met[i] > R))) return false;
      if (outliers && all.of(F + i * R) > 1 - proof.lone) return false;
      const bool few = met[i] < proof.plenty * (R + 2) || met[i] < proof.most_agree * observed[i];
      if (!whole && few && hangs(i, proof)) return false;
    }
    return true;
  }

 private:
  bool agrees(int64_t i, int64_t j) const {
    double e = by_rows ? data.at(i, j) : data.at(j, i);
    for (int a = 0; a < R; a++) e -= F[i * R + a] * G[j * R + a];
    return std::fabs(e) <= near;
  }
  bool hangs(int64_t i, const SmallProof &proof) const {
    Leverage<R> seen;
    for (int64_t j = 0; j < across; j++)
      if (agrees(i, j)) seen.add(G + j * R);
    seen.factor(proof.untold);
    if (!seen.told) return true;
    for (int64_t j = 0; j < across; j++)
      if (agrees(i, j) && seen.of(G + j * R) > proof.alone) return true;
    return false;
  }
};

// Counts of residuals within four borders; by row and column, of those within the second.
template <int R> void Fit<R>::count_within(const double *edges, double *within) {
  Lanes counts[4] = {};
  std::fill_n(sums, data.n2 * W, 0.0);
  for (int64_t b = 0; b < data.blocks; b++) {
    Lanes l[R], met = {};
    for (int a = 0; a < R; a++) l[a] = load<Lanes>(L + (b * R + a) * W);
    for (int64_t j = 0; j < data.n2; j++) {
      const Lanes size = magnitude(residual(load<Lanes>(data.Y + (b * data.n2 + j) * W), l, F + j * R));
      for (int k = 0; k < 4; k++) counts[k] += as_numbers(size <= edges[k]);
      const Lanes agrees = as_numbers(size <= edges[1]);
      met += agrees;
      store(sums + j * W, load<Lanes>(sums + j * W) + agrees);
    }
    store(row_inliers + b * W, met);
  }
  for (int64_t j = 0; j < data.n2; j++) col_inliers[j] = sum<double>(load<Lanes>(sums + j * W));
  for (int k = 0; k < 4; k++) within[k] = sum<double>(counts[k]);
}

// The squares of the singular values of L R', in order, the largest first: eigenvalues of C R'R C' by Jacobi's
// rotations, where C'C = L'L.
template <int R> std::array<double, R> squares(const std::vector<double> &L, const std::vector<double> &F) {
  constexpr int SWEEPS = 12;  // they converge quadratically: five are enough
  Leverage<R> left, right;
  for (size_t i = 0; i < L.size(); i += R) left.add(&L[i]);
  for (size_t j = 0; j < F.size(); j += R) right.add(&F[j]);
  left.factor(0);
  double C[R][R] = {}, A[R][R] = {};
  for (int a = 0; a < R; a++) {  // row a of the factor: 1 and what is right of it, times the root of the pivot
    const double inverse = left.U[a * R + a], root = inverse > 0 ? 1 / std::sqrt(inverse) : 0;
    for (int b = a; b < R; b++) C[a][b] = root * (a == b ? 1 : left.U[a * R + b]);
  }
  for (int a = 0; a < R; a++)
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++)
        for (int d = 0; d < R; d++) A[a][b] += C[a][c] * right.U[std::min(c, d) * R + std::max(c, d)] * C[b][d];
  for (int sweep = 0; sweep < SWEEPS; sweep++)
    for (int p = 0; p < R; p++)
      for (int q = p + 1; q < R; q++) {
        if (A[p][q] == 0) continue;
        const double theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double cosine = 1 / std::sqrt(t * t + 1), sine = t * cosine;
        for (int k = 0; k < R; k++) {
          const double x = A[k][p], y = A[k][q];
          A[k][p] = cosine * x - sine * y;
          A[k][q] = sine * x + cosine * y;
        }
        for (int k = 0; k < R; k++) {
          const double x = A[p][k], y = A[q][k];
          A[p][k] = cosine * x - sine * y;
          A[q][k] = sine * x + cosine * y;
        }
      }
  std::array<double, R> found;
  for (int a = 0; a < R; a++) found[a] = A[a][a];
  std::sort(found.rbegin(), found.rend());
  return found;
}

// A component far smaller than the one before may be one too many, made of outliers.
template <int R> bool has_gap(const std::vector<double> &L, const std::vector<double> &F, double gap) {
  const auto found = squares<R>(L, F);
  for (int a = 1; a < R; a++)
    if (!(found[a - 1] <= gap * gap * found[a])) return true;
  return !(found[R - 1] > 0);
}

// Whether all rows and columns hang together by a chain of entries: else their sizes beside each other are unknown.
bool connected(const Entries &data) {
  for (int64_t j = 0; j < data.n2; j++)
    if (data.col_observed[j] == double(data.n1)) return true;
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

template <int R> bool Fit<R>::proven(const SmallProof &proof, double border, SmallReport &told) {
  const double near = proof.nearly * border, n1 = double(data.n1), n2 = double(data.n2);
  const double edges[4] = {border, near, proof.far_off * border, 2 * proof.far_off * border};
  double within[4];
  count_within(edges, within);
  const double all = data.n_observed, off = all - within[1], free = R * (n1 + n2 - R);
  told.agreeing = within[1] / all;
  told.oversampling = within[1] / free;
  told.between = (within[2] - within[0]) / all;
  told.on_their_way = told.between - 2 * (within[3] - within[2]) / all;
  told.border = near;
  if (told.agreeing <= 0.5 || told.oversampling < proof.oversampled || told.between > proof.between ||
      told.on_their_way > proof.on_their_way)
    return false;
  double values[SAMPLE];
  for (int s = 0; s < data.n_sample; s++) values[s] = data.places[s].y;
  if (repeats(values, std::min(data.n_sample, SAMPLE / 2), proof.often)) return false;
  const double seen = (within[2] - within[1]) / (proof.far_off / proof.nearly - 1);
  const double chance = (proof.prior * near / data.scale + seen) / (proof.prior + off);
  const bool outliers = off >= proof.nothing_else * all;
  std::vector<double> left(data.n1 * R), right(data.n2 * R);
  write(left.data(), right.data(), R);
  if (has_gap<R>(left, right, proof.gap) || !connected(data)) return false;
  const Side<R> rows{data.n1, data.n2, data.row_observed, row_inliers, left.data(), right.data(), data, true, near};
  const Side<R> cols{data.n2, data.n1, data.col_observed, col_inliers, right.data(), left.data(), data, false, near};
  return rows.vouched_for(proof, chance, outliers) && cols.vouched_for(proof, chance, outliers);
}

// ---- all of it

template <int R> bool attempt(const Entries &data, const SmallJob &job, const SmallMatrix &matrix, Room &room) {
  Fit<R> fit(data, job.pace, room);
  SmallReport &told = *matrix.report;
  const double border = job.proof.agrees * job.tol * data.scale, small = job.pace.small * data.scale;
  const auto began = std::chrono::steady_clock::now();
  fit.start(job.random, job.highest);
  double change = 1, before = fit.typical();
  for (int k = 0; k < job.most; k++) {
    change = fit.sweep();
    told.sweeps = k + 1;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
    const double record[] = {change, fit.threshold(), fit.share(), passed.count()};
    std::copy_n(record, TRACED, matrix.trace + TRACED * k);
    if (!(change < std::numeric_limits<double>::infinity())) return false;
    if (fit.arrived(border) && change <= job.pace.settled * job.tol) {
      if (!fit.proven(job.proof, border, told)) return false;
      fit.write(matrix.L, matrix.R, R);
      told.rank = R;
      return true;
    }
    if (k >= job.pace.patience && fit.typical() > job.pace.resting * before && fit.typical() > small) return false;
    before = fit.typical();
  }
  return false;
}

template <int R>
bool attempts(const Entries &data, const SmallJob &job, const SmallMatrix &matrix, Room &room, size_t used) {
  if constexpr (R <= MOST_SMALL_RANK) {
    if (R > job.highest || R * (data.n1 + data.n2 - R) * job.proof.oversampled > data.n_observed) return false;
    room.used = used;
    if (R >= job.lowest && attempt<R>(data, job, matrix, room)) return true;
    return attempts<R + 1>(data, job, matrix, room, used);
  } else {
    return false;
  }
}

void one(const SmallJob &job, const SmallMatrix &matrix, Room &room) {
  const int64_t n1 = matrix.n1, n2 = matrix.n2;
  room.reserve(Entries::size(n1, n2) + Fit<MOST_SMALL_RANK>::size(n1, n2));
  const Entries data(matrix.data, n1, n2, matrix.gain, room);
  const bool sound = data.scale > 0 && data.finite;
  matrix.report->n_observed = data.n_observed;
  matrix.report->scale = data.scale;
  matrix.report->proven = sound && attempts<1>(data, job, matrix, room, room.used);
}

}  // namespace

void small(const SmallJob &job) {
  std::atomic<int64_t> next{0};  // matrices differ in what they cost; what is computed does not depend on who does it
  in_shares(shares_of(job.threads, job.count), [&](int) {
    Room room;
    for (int64_t m = next++; m < job.count; m = next++) one(job, job.matrices[m], room);
  });
}

}  // namespace lrmc::LRMC_ISA
