// Sweeps of robust least squares over a small matrix: rows, then columns, with the thresholds of the closed loop.
#pragma once
#include "cholesky.hpp"
#include "small_entries.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr int ROUNDS = 3;  // of power iteration at the start

// One matrix and one rank.
template <int R> class Fit {
  static constexpr int T = triangle(R), SUMS = T + R + 1;  // of a column: Gram matrix, right-hand side, inliers
  const Entries &data;
  const SmallPace &pace;
  double *L, *F, *Q, *pairs, *sums;     // blocks x R x W; n2 x R; without columns far behind; n2 x T; n2 x SUMS x W
  double *row_multiple, *col_multiple;  // of the threshold
  double *row_inliers, *col_inliers;    // counts
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
    std::fill_n(col_multiple, (n2 + W - 1) / W * W, 1.0);
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
  double count_within(const double *edges, double *within);

  struct Moved {
    Lanes LL[T] = {}, dd[T] = {}, dL[R * R] = {};
    double RR[R][R] = {}, RR_after[R][R] = {}, ee[R][R] = {}, eR[R][R] = {};
    void add(const Lanes *d, const Lanes *l) {  // of rows, after the step d
      for (int a = 0, k = 0; a < R; a++) {
        for (int c = a; c < R; c++, k++) {
          dd[k] += d[a] * d[c];
          LL[k] += l[a] * l[c];
        }
        for (int c = 0; c < R; c++) dL[a * R + c] += d[a] * l[c];
      }
    }
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
  // f(b, U) for some blocks of rows at a time, U of them as a constant: sums of one wait for each other, and what
  // belongs to columns is loaded once.
  static constexpr int FEW = R <= 2 ? 4 : R <= 4 ? 2 : 1, MANY = R <= 4 ? 4 : 1;
  template <int U, class F> static void together(int64_t first, int64_t last, F f) {
    int64_t b = first;
    for (; b + U <= last; b += U) f(b, std::integral_constant<int, U>{});
    for (; b < last; b++) f(b, std::integral_constant<int, 1>{});
  }
  void multiply(double most, double share) {  // L = C F / share
    together<FEW>(0, data.blocks, [&](int64_t b, auto count) {
      constexpr int U = count;
      Lanes l[U][R] = {};
      const double *y = data.Y + b * data.n2 * W;
      for (int64_t j = 0; j < data.n2; j++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const Lanes c = clipped(load<Lanes>(y + (u * data.n2 + j) * W), most);
#pragma GCC unroll 8
          for (int a = 0; a < R; a++) l[u][a] += c * F[j * R + a];
        }
      for (int u = 0; u < U; u++)
        for (int a = 0; a < R; a++) store(L + ((b + u) * R + a) * W, l[u][a] / share);
    });
  }
  void multiply_back(double most) {  // F = C' L
    std::fill_n(sums, data.n2 * R * W, 0.0);
    together<MANY>(0, data.blocks, [&](int64_t b, auto count) {
      constexpr int U = count;
      Lanes l[U][R];
      for (int u = 0; u < U; u++)
        for (int a = 0; a < R; a++) l[u][a] = load<Lanes>(L + ((b + u) * R + a) * W);
      const double *y = data.Y + b * data.n2 * W;
      for (int64_t j = 0; j < data.n2; j++) {
        Lanes found[R];
        double *out = sums + j * R * W;
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) found[a] = load<Lanes>(out + a * W);
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const Lanes c = clipped(load<Lanes>(y + (u * data.n2 + j) * W), most);
#pragma GCC unroll 8
          for (int a = 0; a < R; a++) found[a] += c * l[u][a];
        }
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) store(out + a * W, found[a]);
      }
    });
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0; a < R; a++) F[j * R + a] = sum<double>(load<Lanes>(sums + (j * R + a) * W));
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

  // Blocks of rows are moved, and then teach the columns while they are in the cache.
  template <bool Protects> void rows(Moved &moved) {
    together<MANY>(0, data.blocks, [&](int64_t b, auto many) {
      together<FEW>(b, b + many, [&](int64_t c, auto few) { move<Protects, few>(c, moved); });
      teach<Protects, many>(b);
    });
  }

  template <bool Protects, int U> void move(int64_t b, Moved &moved) {
    Rule<Protects> rule[U];
    Lanes l[U][R], H[U][T] = {}, x[U][R] = {};
    for (int u = 0; u < U; u++) {
      rule[u] = rule_of<Protects>(b + u);
      for (int a = 0; a < R; a++) l[u][a] = load<Lanes>(L + ((b + u) * R + a) * W);
    }
    for (int64_t j = 0; j < data.n2; j++)
#pragma GCC unroll 4
      for (int u = 0; u < U; u++) {
        const double *y = data.Y + (b + u) * data.n2 * W;
        const Weighed now = rule[u](residual(load<Lanes>(y + j * W), l[u], F + j * R), j);
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) x[u][a] += now.c * Q[j * R + a];
#pragma GCC unroll 36
        for (int k = 0; k < T; k++) H[u][k] += now.w * pairs[j * T + k];
      }
    for (int u = 0; u < U; u++) {
      solve(H[u], x[u]);
      for (int a = 0; a < R; a++) store(L + ((b + u) * R + a) * W, l[u][a] += x[u][a]);
      moved.add(x[u], l[u]);
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
    for (int s = 0; s < data.n_sample; s++) {  // gathered, where there are such instructions
      const int row = data.sample.row[s], l = row / W * R * W + row % W, f = data.sample.col[s] * R;
      double e = data.sample.y[s];
      for (int a = 0; a < R; a++) e -= L[l + a * W] * F[f + a];
      size[s] = std::fabs(e);
    }
    const Quantiles found(size, data.n_sample, data.scale);
    low = found.at(pace.good);
    const double high = found.at(pace.high * inliers), least = std::max(pace.decay * zeta, pace.widest * low);
    zeta = std::max({std::min(least, pace.above_high * high), pace.fastest * zeta, pace.rounding * data.scale});
  }

  // Thresholds are widened where far fewer entries than typical are within them. Beyond n, nothing is observed.
  double followed(const double *seen, const double *met, double *multiple, int64_t n, double shrink) {
    const Lanes expected = fill<double>(std::min(pace.behind * inliers, pace.half));
    Lanes most = fill<double>(widest), behind = {};
    for (int64_t i = 0; i < n; i += W) {
      const Lanes count = load<Lanes>(seen + i), before = load<Lanes>(multiple + i);
      const Lanes deviation = root(inliers * (1 - inliers) * count);
      const Flags late = load<Lanes>(met + i) < expected * count - 2 * deviation;
      const Lanes follows = late ? before * (pace.widen / shrink) : larger(before / pace.narrow, fill<double>(1));
      const Lanes after = count > 0 ? follows : before;
      store(multiple + i, after);
      most = larger(most, after);
      behind += as_numbers((after > pace.far) & (count > 0));
    }
    for (int w = 0; w < W; w++) widest = std::max(widest, most[w]);
    return sum<double>(behind) / double(n);
  }
  void follow() {
    const double before = zeta;
    next_threshold();
    widest = 1;
    far_rows = followed(data.row_observed, row_inliers, row_multiple, data.n1, zeta / before);
    far_cols = followed(data.col_observed, col_inliers, col_multiple, data.n2, zeta / before);
  }
};

}  // namespace
}  // namespace lrmc::LRMC_ISA
