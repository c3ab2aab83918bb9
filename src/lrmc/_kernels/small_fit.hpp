// Sweeps of robust least squares over a small matrix: rows, then columns, with the thresholds of the closed loop.
//
// They are made in single precision: half the bytes, and twice as many rows in a vector. Where residuals come near its
// rounding, what was found becomes a model in double precision, and the matrix is what that leaves; sweeps go on as
// before, in steps that are exact to single precision of what is left.
#pragma once
#include "cholesky.hpp"
#include "small_entries.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr int ROUNDS = 3;  // of power iteration at the start

// One matrix and one rank.
template <int R> class Fit {
  static constexpr int T = triangle(R), SUMS = T + R + 1;  // of a column: Gram matrix, right-hand side, inliers
  Entries &data;
  const SmallPace &pace;
  double *model_L, *model_F;           // what the data are less of: blocks W x R, n2 x R
  Real *B, *D;                         // R x blocks W: rows of the model, and what was added since
  Real *F, *G;                         // n2 x R: all of the columns, and what was added to the model's
  Real *Q, *pairs, *sums;              // n2 x R: F without columns far behind; n2 x T; n2 x SUMS x W
  Real *row_multiple, *col_multiple;   // of the threshold
  Real *row_inliers, *col_inliers;     // counts
  bool fine = false, settled = false;  // there is a model; nothing was added to it
  double zeta = 0, widest = 1, far_rows = 0, far_cols = 0, inliers = 1, low = 0;
  double finest;  // residuals below this are those of rounding

 public:
  static size_t size(int64_t n1, int64_t n2) {
    const int64_t padded = (n1 + W - 1) / W * W;
    return Room::size<double>(padded * R) + Room::size<double>(n2 * R) + 2 * Room::size<Real>(padded * R) +
           3 * Room::size<Real>(n2 * R) + Room::size<Real>(n2 * T) + Room::size<Real>(n2 * SUMS * W) +
           2 * Room::size<Real>(padded) + 2 * Room::size<Real>(n2);
  }
  Fit(Entries &data_, const SmallPace &pace_, Room &room) : data(data_), pace(pace_) {
    const int64_t n2 = data.n2, padded = data.blocks * W;
    model_L = room.take<double>(padded * R);
    model_F = room.take<double>(n2 * R);
    B = room.take<Real>(padded * R);
    D = room.take<Real>(padded * R);
    F = room.take<Real>(n2 * R);
    G = room.take<Real>(n2 * R);
    Q = room.take<Real>(n2 * R);
    pairs = room.take<Real>(n2 * T);
    sums = room.take<Real>(n2 * SUMS * W);
    row_multiple = room.take<Real>(padded);
    row_inliers = room.take<Real>(padded);
    col_multiple = room.take<Real>(n2);
    col_inliers = room.take<Real>(n2);
    std::fill_n(row_multiple, padded, Real(1));
    std::fill_n(col_multiple, (n2 + W - 1) / W * W, Real(1));
    finest = ROUNDED * data.scale;
  }

  // The leading part of the data, clipped.
  void start(const double *random, int columns) {
    const double first = pace.above * data.scale;
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0; a < R; a++) F[j * R + a] = Real(random[j * columns + a]);
    data.complete() ? leading<true>(first) : leading<false>(first);
    std::copy_n(F, data.n2 * R, G);
    zeta = first;
    inliers = 1;
    next_threshold<false>();
  }

  // Least squares for the rows, then for the columns, on what is within the threshold: how far X moved.
  double sweep() {
    Moved moved;
    settled = false;
    prepare();
    if (fine) widest > 1 ? rows<true, true>(moved) : rows<false, true>(moved);
    else widest > 1 ? rows<true, false>(moved) : rows<false, false>(moved);
    move_columns(moved);
    follow();
    const double change = moved.relative();
    if (zeta <= finest || change * data.scale <= finest) settle();
    return change;
  }

  // All that was found becomes the model.
  void settle() {
    if (settled) return;
    for (int a = 0; a < R; a++)
      for (int64_t i = 0; i < data.blocks * W; i++) {
        const int64_t at = row(0, a) + i;
        B[at] = Real(model_L[i * R + a] += D[at]);
        D[at] = 0;
      }
    for (int64_t k = 0; k < data.n2 * R; k++) {
      F[k] = Real(model_F[k] += G[k]);
      G[k] = 0;
    }
    data.less<R>(model_L, model_F);
    fine = settled = true;
    finest = ROUNDED * zeta * widest;
  }

  // Whether a sweep more would change nothing that counts; or whether it is hopeless.
  bool arrived(double border) const { return zeta * widest <= border && low <= border; }
  double threshold() const { return zeta; }
  double share() const { return inliers; }
  double typical() const { return low; }

  void write(double *left, double *right) const {  // of what is settled
    for (int64_t k = 0; k < data.n1 * R; k++) left[k] = data.unit * model_L[k];
    std::copy_n(model_F, data.n2 * R, right);
  }

  bool proven(const SmallProof &proof, double border, SmallReport &told);

 private:
  static constexpr double ROUNDED = 64 * std::numeric_limits<Real>::epsilon();  // times: see `ROUNDING` of thresholds
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
          moved += twice * (sum<Real>(dd[k]) * RR[a][b] + sum<Real>(LL[k]) * ee[a][b]);
          norm += twice * sum<Real>(LL[k]) * RR_after[a][b];
        }
      for (int a = 0; a < R; a++)
        for (int b = 0; b < R; b++) moved += 2 * sum<Real>(dL[a * R + b]) * eR[b][a];
      return norm > 0 ? std::sqrt(std::max(moved, 0.0) / norm) : std::numeric_limits<double>::infinity();
    }
  };

  int64_t row(int64_t b, int a) const { return (a * data.blocks + b) * W; }  // where those of block b begin

  // Rows of U blocks.
  template <int U, bool Fine> struct Rows {
    Lanes model[Fine ? U : 1][R], added[U][R];
    Rows(const Fit &fit, int64_t b) {
      for (int u = 0; u < U; u++)
        for (int a = 0; a < R; a++) {
          if (Fine) model[u][a] = load<Lanes>(fit.B + fit.row(b + u, a));
          added[u][a] = load<Lanes>(fit.D + fit.row(b + u, a));
        }
    }
    Lanes all(int u, int a) const { return Fine ? model[u][a] + added[u][a] : added[u][a]; }
    // What the model leaves is y: (B + D)(F - G + G)' = B (F - G)' + D F' + B G'.
    Lanes residual(int u, Lanes y, const Real *f, const Real *g) const {
#pragma GCC unroll 8
      for (int a = 0; a < R; a++) y -= added[u][a] * f[a];
      if constexpr (Fine)
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) y -= model[u][a] * g[a];
      return y;
    }
  };

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
  template <bool Complete> void leading(double most) {
    for (int round = 0; round < ROUNDS; round++) {
      orthonormal();
      multiply<Complete>(most, round + 1 < ROUNDS ? 1 : data.n_observed / double(data.n1 * data.n2));
      if (round + 1 < ROUNDS) multiply_back<Complete>(most);
    }
  }
  template <bool Complete> static Lanes clipped(Lanes y, double most) {
    const Lanes z = fill<Real>(Real(most)), c = larger(smaller(y, z), -z);
    if constexpr (Complete) return c;
    return y == y ? c : Lanes{};
  }
  // f(b, U) for some blocks of rows at a time, U of them as a constant: sums of one wait for each other, and what
  // belongs to columns is loaded once.
  static constexpr int FEW = R <= 2 ? 4 : R <= 4 ? 2 : 1, MANY = R <= 4 ? 4 : 1;
  template <int U, class F> static void together(int64_t first, int64_t last, F f) {
    int64_t b = first;
    for (; b + U <= last; b += U) f(b, std::integral_constant<int, U>{});
    for (; b < last; b++) f(b, std::integral_constant<int, 1>{});
  }
  template <bool Complete> void multiply(double most, double share) {  // D = C F / share
    together<FEW>(0, data.blocks, [&](int64_t b, auto count) {
      constexpr int U = count;
      Lanes l[U][R] = {};
      const Real *y = data.Y + b * data.n2 * W;
      for (int64_t j = 0; j < data.n2; j++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const Lanes c = clipped<Complete>(load<Lanes>(y + (u * data.n2 + j) * W), most);
#pragma GCC unroll 8
          for (int a = 0; a < R; a++) l[u][a] += c * F[j * R + a];
        }
      for (int u = 0; u < U; u++)
        for (int a = 0; a < R; a++) store(D + row(b + u, a), l[u][a] / Real(share));
    });
    for (int a = 0; a < R; a++) std::fill(D + row(0, a) + data.n1, D + row(data.blocks, a), Real(0));  // no rows
  }
  template <bool Complete> void multiply_back(double most) {  // F = C' D
    std::fill_n(sums, data.n2 * R * W, Real(0));
    together<MANY>(0, data.blocks, [&](int64_t b, auto count) {
      constexpr int U = count;
      Lanes l[U][R];
      for (int u = 0; u < U; u++)
        for (int a = 0; a < R; a++) l[u][a] = load<Lanes>(D + row(b + u, a));
      const Real *y = data.Y + b * data.n2 * W;
      for (int64_t j = 0; j < data.n2; j++) {
        Lanes found[R];
        Real *out = sums + j * R * W;
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) found[a] = load<Lanes>(out + a * W);
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const Lanes c = clipped<Complete>(load<Lanes>(y + (u * data.n2 + j) * W), most);
#pragma GCC unroll 8
          for (int a = 0; a < R; a++) found[a] += c * l[u][a];
        }
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) store(out + a * W, found[a]);
      }
    });
    for (int64_t j = 0; j < data.n2; j++)
      for (int a = 0; a < R; a++) F[j * R + a] = sum<Real>(load<Lanes>(sums + (j * R + a) * W));
  }

  Real ridge = 0;
  void prepare() {  // what rows are multiplied with: columns far behind learn, but do not teach
    const bool few = far_cols < pace.few_behind;
    double trace = 0;
    for (int64_t j = 0; j < data.n2; j++) {
      const Real *f = F + j * R, teaches = few && col_multiple[j] > pace.far ? 0 : 1;
      for (int a = 0, k = 0; a < R; a++) {
        Q[j * R + a] = teaches * f[a];
        trace += data.col_observed[j] * Q[j * R + a] * Q[j * R + a];
        for (int b = a; b < R; b++, k++) pairs[j * T + k] = teaches * f[a] * f[b];
      }
    }
    ridge = Real(pace.ridge * trace / double(data.n1) / R);
    std::fill_n(sums, data.n2 * SUMS * W, Real(0));
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
    const Real *multiple;
    Real zeta;
    Weighed operator()(Lanes e, int64_t j) const {
      const Lanes size = magnitude(e), none = {};
      if constexpr (!Protects) {
        const Flags inlier = size <= row_z;
        return {as_numbers(inlier), inlier ? e : none, inlier};
      }
      const Lanes z = larger(row_z, fill<Real>(zeta * multiple[j]));
      const Flags inlier = size <= z, seen = size == size, clips = multiple[j] > 1 ? seen : row_protect & seen;
      const Lanes w = inlier ? fill<Real>(1) : clips ? z / size : none;
      return {w, seen ? w * e : none, inlier};
    }
  };

  template <bool Protects> Rule<Protects> rule_of(int64_t b) const {
    const Lanes multiple = load<Lanes>(row_multiple + b * W);
    return {Real(zeta) * multiple, multiple > 1, col_multiple, Real(zeta)};
  }

  // Blocks of rows are moved, and then teach the columns while they are in the cache.
  template <bool Protects, bool Fine> void rows(Moved &moved) {
    together<MANY>(0, data.blocks, [&](int64_t b, auto many) {
      together<FEW>(b, b + many, [&](int64_t c, auto few) { move<Protects, Fine, few>(c, moved); });
      teach<Protects, Fine, many>(b);
    });
  }

  template <bool Protects, bool Fine, int U> void move(int64_t b, Moved &moved) {
    Rule<Protects> rule[U];
    const Rows<U, Fine> l(*this, b);
    Lanes H[U][T] = {}, x[U][R] = {};
    for (int u = 0; u < U; u++) rule[u] = rule_of<Protects>(b + u);
    const int64_t n2 = data.n2;
    const Real *first = data.block(b, 0);
    for (int64_t j = 0; j < n2; j++)
#pragma GCC unroll 4
      for (int u = 0; u < U; u++) {
        const Lanes y = load<Lanes>(first + (u * n2 + j) * W);
        const Weighed now = rule[u](l.residual(u, y, F + j * R, G + j * R), j);
#pragma GCC unroll 8
        for (int a = 0; a < R; a++) x[u][a] += now.c * Q[j * R + a];
#pragma GCC unroll 36
        for (int k = 0; k < T; k++) H[u][k] += now.w * pairs[j * T + k];
      }
    for (int u = 0; u < U; u++) {
      Lanes all[R];
      solve(H[u], x[u]);
      for (int a = 0; a < R; a++) {
        store(D + row(b + u, a), l.added[u][a] + x[u][a]);
        all[a] = l.all(u, a) + x[u][a];
      }
      moved.add(x[u], all);
    }
  }

  // What U blocks of rows say of the columns.
  template <bool Protects, bool Fine, int U> void teach(int64_t b) {
    Rule<Protects> rule[U];
    const Rows<U, Fine> l(*this, b);
    Lanes squares[U][T], taught[U][R], count[U] = {};
    for (int u = 0; u < U; u++) {
      rule[u] = rule_of<Protects>(b + u);
      Lanes teaches = fill<Real>(1);
      if (Protects && far_rows < pace.few_behind)
        teaches = load<Lanes>(row_multiple + (b + u) * W) > Real(pace.far) ? Lanes{} : fill<Real>(1);
      for (int a = 0, k = 0; a < R; a++) {
        taught[u][a] = teaches * l.all(u, a);
        for (int c = a; c < R; c++, k++) squares[u][k] = taught[u][a] * l.all(u, c);
      }
    }
    const int64_t n2 = data.n2;
    const Real *first = data.block(b, 0), *F = this->F, *G = this->G;  // stores might change them
    Real *out = sums;
    for (int64_t j = 0; j < n2; j++, out += SUMS * W) {
      Lanes found[SUMS];
#pragma GCC unroll 45
      for (int k = 0; k < SUMS; k++) found[k] = load<Lanes>(out + k * W);
#pragma GCC unroll 4
      for (int u = 0; u < U; u++) {
        const Lanes y = load<Lanes>(first + (u * n2 + j) * W);
        const Weighed now = rule[u](l.residual(u, y, F + j * R, G + j * R), j);
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
      for (int a = 0, k = 0; a < R; k += R - a, a++) trace += sum<Real>(load<Lanes>(sums + (j * SUMS + k) * W));
    const double shift = pace.ridge * trace / double(data.n2) / R;
    double total = 0;
    for (int64_t j = 0; j < data.n2; j++) {
      double H[R * R], x[R], f[R];
      std::copy_n(F + j * R, R, f);
      const Real *in = sums + j * SUMS * W;
      for (int a = 0, k = 0; a < R; a++) {
        for (int b = a; b < R; b++, k++) H[a * R + b] = sum<Real>(load<Lanes>(in + k * W)) + (a == b ? shift : 0);
        x[a] = sum<Real>(load<Lanes>(in + (T + a) * W));
      }
      col_inliers[j] = sum<Real>(load<Lanes>(in + (T + R) * W));
      total += col_inliers[j];
      solve_fixed<R>(H, x);
      for (int a = 0; a < R; a++)
        for (int b = 0; b < R; b++) {
          moved.RR[a][b] += f[a] * f[b];
          moved.ee[a][b] += x[a] * x[b];
          moved.eR[a][b] += x[a] * f[b];
        }
      for (int a = 0; a < R; a++) {
        G[j * R + a] += Real(x[a]);
        F[j * R + a] = Real(f[a] = model_F[j * R + a] + G[j * R + a]);
      }
      for (int a = 0; a < R; a++)
        for (int b = 0; b < R; b++) moved.RR_after[a][b] += f[a] * f[b];
    }
    inliers = total / data.n_observed;
  }

  template <bool Fine> void next_threshold() {  // see `Falling` of the closed loop
    Real size[SAMPLE];
    for (int s = 0; s < data.sample.n; s++) {  // gathered, where there are such instructions
      const int l = data.sample.row[s], f = data.sample.col[s] * R;
      Real e = data.y[s];
      for (int a = 0; a < R; a++) e -= D[l + row(0, a)] * F[f + a];
      if (Fine)
        for (int a = 0; a < R; a++) e -= B[l + row(0, a)] * G[f + a];
      size[s] = std::fabs(e);
    }
    const Quantiles found(size, data.sample.n);
    low = found.at(pace.good);
    const double high = found.at(pace.high * inliers), least = std::max(pace.decay * zeta, pace.widest * low);
    zeta = std::max({std::min(least, pace.above_high * high), pace.fastest * zeta, pace.rounding * data.scale});
  }

  // Thresholds are widened where far fewer entries than typical are within them. Beyond n, nothing is observed.
  double followed(const Real *seen, const Real *met, Real *multiple, int64_t n, double shrink) {
    const Lanes expected = fill<Real>(Real(std::min(pace.behind * inliers, pace.half)));
    Lanes most = fill<Real>(Real(widest)), behind = {};
    for (int64_t i = 0; i < n; i += W) {
      const Lanes count = load<Lanes>(seen + i), before = load<Lanes>(multiple + i);
      const Lanes deviation = root(Real(inliers * (1 - inliers)) * count);
      const Flags late = load<Lanes>(met + i) < expected * count - 2 * deviation;
      const Lanes follows =
          late ? before * Real(pace.widen / shrink) : larger(before / Real(pace.narrow), fill<Real>(1));
      const Lanes after = count > 0 ? follows : before;
      store(multiple + i, after);
      most = larger(most, after);
      behind += as_numbers((after > Real(pace.far)) & (count > 0));
    }
    for (int w = 0; w < W; w++) widest = std::max(widest, double(most[w]));
    return sum<Real>(behind) / double(n);
  }
  void follow() {
    const double before = zeta;
    fine ? next_threshold<true>() : next_threshold<false>();
    widest = 1;
    far_rows = followed(data.row_observed, row_inliers, row_multiple, data.n1, zeta / before);
    far_cols = followed(data.col_observed, col_inliers, col_multiple, data.n2, zeta / before);
  }
};

}  // namespace
}  // namespace lrmc::LRMC_ISA
