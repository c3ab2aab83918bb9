// What follows a pass of the closed loop, at once: both factors go as far as they do together, and thresholds fall. The
// same as methods/rounds.py and methods/thresholds.py, which other storage goes through; the letters are theirs.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "eigen.hpp"
#include "kernels.hpp"
#include "ordered.hpp"

namespace lrmc {

inline constexpr int MOST_LOOP_RANK = 16;  // Jacobi's rotations are fast up to here

// ---- r x r matrices

struct Square {
  int r;
  std::array<double, MOST_LOOP_RANK * MOST_LOOP_RANK> numbers{};

  explicit Square(int rank, const double *from = nullptr) : r(rank) {
    if (from) std::copy(from, from + r * r, numbers.begin());
  }
  double &operator()(int a, int b) { return numbers[a * r + b]; }
  double operator()(int a, int b) const { return numbers[a * r + b]; }
  void into(double *out) const { std::copy(numbers.begin(), numbers.begin() + r * r, out); }

  template <class F> static Square made(int r, F f) {
    Square out(r);
    for (int a = 0; a < r; a++)
      for (int b = 0; b < r; b++) out(a, b) = f(a, b);
    return out;
  }
  Square turned() const {
    return made(r, [&](int a, int b) { return (*this)(b, a); });
  }
  friend Square operator+(const Square &A, const Square &B) {
    return made(A.r, [&](int a, int b) { return A(a, b) + B(a, b); });
  }
  friend Square operator*(double x, const Square &A) {
    return made(A.r, [&](int a, int b) { return x * A(a, b); });
  }
  friend Square operator*(const Square &A, const Square &B) {
    return made(A.r, [&](int a, int b) {
      double sum = 0;
      for (int k = 0; k < A.r; k++) sum += A(a, k) * B(k, b);
      return sum;
    });
  }
  friend double dot(const Square &A, const Square &B) {
    double sum = 0;
    for (int k = 0; k < A.r * A.r; k++) sum += A.numbers[k] * B.numbers[k];
    return sum;
  }
  bool finite() const {
    return std::all_of(numbers.begin(), numbers.begin() + r * r, [](double x) { return std::isfinite(x); });
  }
};

// The inverse of a Gram matrix without directions whose eigenvalues are below this part of the largest.
inline Square inverse(const Square &G, double negligible) {
  const int r = G.r;
  if (!G.finite()) return Square::made(r, [](int, int) { return std::numeric_limits<double>::quiet_NaN(); });
  Square A = G, V(r);
  eigen(r, A.numbers.data(), V.numbers.data());
  double largest = 0;
  for (int k = 0; k < r; k++) largest = std::max(largest, A(k, k));
  return Square::made(r, [&](int a, int b) {
    double sum = 0;
    for (int k = 0; k < r; k++)
      if (A(k, k) > negligible * largest) sum += V(a, k) * V(b, k) / A(k, k);
    return sum;
  });
}
template <class T> double negligible(int64_t n) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  return std::max(double(n) * eps * eps, 64 * std::numeric_limits<double>::epsilon());
}

// ---- the rows, or the columns

template <class T> struct LoopSide {
  int64_t n = 0;
  int rank = 0;
  // what the pass was made with, and what it gave; the pull becomes the direction
  const T *F = nullptr, *weight = nullptr, *grams = nullptr;  // no Gram matrices where those before are kept
  T *pull = nullptr, *after = nullptr;
  const int64_t *inliers = nullptr;
  // what stays with the lines
  const int64_t *observed = nullptr;
  T *momentum = nullptr, *H = nullptr;          // inverses of Gram matrices, packed; none where one serves all lines
  double *multiple = nullptr, *full = nullptr;  // of the threshold; the weights that H was made with
  double *FF = nullptr, *before = nullptr;      // as in `Motion`
  double ridge = 0, floor = 0;                  // of Gram matrices; of weights, for one entry of a line
  int threads = 1;                              // for the inverses
};

// How a factor moved: as `Move`.
struct LoopMove {
  Square DD, DF, FF;
  Square after() const { return FF + DF + DF.turned() + DD; }
};

// What is the same in all steps.
struct LoopRules {
  double good, high;                        // quantiles of residuals: of all, and of the inliers
  double widest, above, fastest, least;     // of the threshold: see `Falling`
  double longest;                           // of steps: see `longer`
  double behind, half, widen, narrow, far;  // of the thresholds of lines: see `followed`
};

struct LoopTold {
  double zeta, low;      // the next threshold, and what it follows
  double moved, change;  // as `change_of`, and of a factor in every direction
  double gap;            // the largest ratio of a squared singular value to the next
  double row_widest, row_far, col_widest, col_far;
};

template <class T> struct LoopStep {
  LoopSide<T> rows, cols;
  Places<T> sample;                 // with values; its factors and its room are found here
  const int64_t *judged = nullptr;  // rows that tell what is typical; all of them where missing
  int64_t n_judged = 0;
  LoopRules rules;
  double zeta, decay, inliers, momentum;
  const Passes<T> &kernels;

  LoopTold run() {
    const int r = rows.rank;
    const Square LL(r, rows.FF), RR(r, cols.FF);
    const double rounding = negligible<double>(r);
    const Square inverse_LL = inverse(LL, rounding), inverse_RR = inverse(RR, rounding);
    const Square LW = directed(rows, RR, double(cols.n));
    const Square VR = directed(cols, LL, double(rows.n)).turned();
    // what both steps would move: each gives up half
    const Square M = 0.5 * (inverse_LL * LW + VR * inverse_RR);
    const LoopMove right = moved(cols, VR, M.turned()), left = moved(rows, LW.turned(), M);
    LoopTold told;
    fall(told);
    const double middle = typical(), shrink = told.zeta / zeta;
    follow(cols, middle, shrink, told.col_widest, told.col_far);
    follow(rows, middle, shrink, told.row_widest, told.row_far);
    told.moved = change_of(left, right);
    told.change = std::max(relative(left.DD, inverse_LL), relative(right.DD, inverse_RR));
    told.gap = gap(Square(r, rows.FF), cross(cols, cols.after, cols.after));
    return told;
  }

 private:
  Square cross(const LoopSide<T> &side, const T *X, const T *Z) const {  // X'Z
    Square out(side.rank);
    Narrow<T> job;
    job.n = side.n;
    job.k = job.m = side.rank;
    job.X = X;
    job.Z = Z;
    kernels.cross(job, out.numbers.data());
    return out;
  }

  // ---- directions

  // The direction of every line, in place of its pull; F' of it.
  Square directed(const LoopSide<T> &side, const Square &other, double across) const {
    if (side.grams) renew(side);
    std::array<T, MOST_LOOP_RANK * MOST_LOOP_RANK> scale;
    if (!side.H) {
      const Square S = inverse(other, negligible<T>(side.n));
      std::transform(S.numbers.begin(), S.numbers.end(), scale.begin(), [](double x) { return T(x); });
    }
    by_rank(side.rank, [&](auto rank) { direct<decltype(rank)::value>(side, scale.data(), across); });
    return cross(side, side.F, side.pull);
  }
  // Inverses of new Gram matrices, and what they were made with: never quite 0.
  void renew(const LoopSide<T> &side) const {
    const int r = side.rank;
    const Square diagonal = Square::made(r, [&](int a, int b) { return a == b ? side.ridge : 0.0; });
    std::vector<uint8_t> used(side.n);
    for (int64_t i = 0; i < side.n; i++) {
      used[i] = side.observed[i] > 0;
      side.full[i] = std::max(double(side.weight[i]), 1e-3 * double(side.observed[i]));
    }
    RowSystems<T> job;
    job.n = side.n;
    job.rank = r;
    job.H = side.grams;
    job.ridge = diagonal.numbers.data();
    job.used = used.data();
    job.inverses = side.H;
    job.threads = side.threads;
    kernels.solve_rows(job);
  }
  template <int R> void direct(const LoopSide<T> &side, const T *scale, double across) const {
    constexpr int ROOM = R ? R : MOST_LOOP_RANK;
    const int r = R ? R : side.rank, q = r * (r + 1) / 2;
    for (int64_t i = 0; i < side.n; i++) {
      T *pull = side.pull + i * r, x[ROOM] = {};
      const double weight = double(side.weight[i]);
      double times;
      if (side.H) {
        const T *H = side.H + i * q;
        for (int a = 0, k = 0; a < r; a++) {
          x[a] += H[k++] * pull[a];
          for (int b = a + 1; b < r; b++, k++) {
            x[a] += H[k] * pull[b];
            x[b] += H[k] * pull[a];
          }
        }
        times = std::min(side.full[i] / std::max(weight, 1e-9), rules.longest);
      } else {
        for (int a = 0; a < r; a++)
          for (int b = 0; b < r; b++) x[b] += pull[a] * scale[a * r + b];
        times = 1 / std::max(weight / across, side.floor);
      }
      for (int a = 0; a < r; a++) pull[a] = T(times) * x[a];
    }
  }

  // ---- steps

  // A direction without what the other factor moves and with momentum, and the factor after it; WF is W'F.
  LoopMove moved(const LoopSide<T> &side, const Square &WF, const Square &M) const {
    const int r = side.rank;
    const Square FF(r, side.FF), before(r, side.before);
    std::array<T, MOST_LOOP_RANK * MOST_LOOP_RANK> half;
    std::transform(M.numbers.begin(), M.numbers.end(), half.begin(), [](double x) { return T(x / 2); });
    by_rank(r, [&](auto rank) { step<decltype(rank)::value>(side, half.data()); });
    const Square DD = cross(side, side.momentum, side.momentum);
    const LoopMove gone{DD, WF + -0.5 * (M.turned() * FF) + momentum * before, FF};
    gone.after().into(side.FF);
    (gone.DF + DD).into(side.before);
    return gone;
  }
  template <int R> void step(const LoopSide<T> &side, const T *half) const {
    constexpr int ROOM = R ? R : MOST_LOOP_RANK;
    const int r = R ? R : side.rank;
    const T heavy = T(momentum);
    for (int64_t i = 0; i < side.n; i++) {
      const T *F = side.F + i * r, *pull = side.pull + i * r;
      T *D = side.momentum + i * r, x[ROOM];
      for (int b = 0; b < r; b++) x[b] = pull[b] + (momentum != 0 ? heavy * D[b] : T(0));
      for (int a = 0; a < r; a++)
        for (int b = 0; b < r; b++) x[b] -= F[a] * half[a * r + b];
      for (int b = 0; b < r; b++) {
        D[b] = x[b];
        side.after[i * r + b] = F[b] + x[b];
      }
    }
  }
  static double change_of(const LoopMove &left, const LoopMove &right) {
    const Square dR_new = right.DF + right.DD;
    const double square = dot(left.DD, right.after()) + 2 * dot(left.DF, dR_new.turned()) + dot(left.FF, right.DD);
    const double before = root(dot(left.FF, right.FF)), size = root(square);
    return before > 0 ? size / before : size == 0 ? 0.0 : std::numeric_limits<double>::infinity();
  }
  static double root(double square) { return square <= 0 ? 0 : std::sqrt(square); }  // NaN stays NaN
  static double relative(const Square &DD, const Square &inverse_FF) {
    return std::sqrt(std::fabs(dot(inverse_FF, DD)) / DD.r);
  }

  // Singular values are the roots of the eigenvalues of LL RR, or of T' RR T where T T' = LL.
  static double gap(Square LL, const Square &RR) {
    const int r = LL.r;
    if (!LL.finite() || !RR.finite()) return std::numeric_limits<double>::infinity();
    Square V(r);
    eigen(r, LL.numbers.data(), V.numbers.data());
    const Square half = Square::made(r, [&](int a, int k) { return V(a, k) * std::sqrt(std::max(LL(k, k), 0.0)); });
    Square S = half.turned() * RR * half;
    eigen(r, S.numbers.data());
    std::array<double, MOST_LOOP_RANK> values;
    for (int k = 0; k < r; k++) values[k] = std::fabs(S(k, k));
    std::sort(values.begin(), values.begin() + r, std::greater<>());
    double largest = 1;
    for (int k = 0; k + 1 < r; k++)
      if (values[k] > largest * values[k + 1]) largest = values[k] / values[k + 1];  // infinite where one is 0
    return largest;
  }

  // ---- thresholds

  void fall(LoopTold &told) const {
    std::vector<T> size(sample.n);
    Places<T> at = sample;
    at.rank = rows.rank;
    at.L = rows.after;
    at.R = cols.after;
    at.out = size.data();
    kernels.entries_at(at);
    const double high = rules.high * inliers;
    const auto found = quantiles<T, 2>(size.data(), at.n, {rules.good, high});
    told.low = found[0];
    const double wanted = std::max(decay * zeta, rules.widest * told.low);
    told.zeta = std::max({std::min(wanted, rules.above * found[1]), rules.fastest * zeta, rules.least});
  }
  // The median over rows of the share of inliers.
  double typical() const {
    const int64_t n = judged ? n_judged : rows.n;
    std::vector<double> shares;
    shares.reserve(n);
    for (int64_t k = 0; k < n; k++) {
      const int64_t i = judged ? judged[k] : k;
      if (rows.observed[i] > 0) shares.push_back(double(rows.inliers[i]) / double(rows.observed[i]));
    }
    return quantiles<double, 1>(shares.data(), int64_t(shares.size()), {0.5})[0];
  }
  // Wider where far fewer entries than typical are inliers; the widest multiple, and the share that is far behind.
  void follow(const LoopSide<T> &side, double middle, double shrink, double &widest, double &far) const {
    const double border = std::min(rules.behind * middle, rules.half), variance = middle * (1 - middle);
    const double wider = rules.widen / shrink;
    int64_t behind = 0;
    widest = 1;
    for (int64_t i = 0; i < side.n; i++) {
      const double seen = double(std::max<int64_t>(side.observed[i], 1)), share = double(side.inliers[i]) / seen;
      const bool left = side.observed[i] > 0 && share < border && share < border - 2 * std::sqrt(variance / seen);
      double &multiple = side.multiple[i];
      multiple = left ? multiple * wider : std::max(1.0, multiple / rules.narrow);
      widest = std::max(widest, multiple);
      behind += multiple > rules.far;
    }
    far = double(behind) / double(side.n);
  }

  // Calls f with the rank as a type: 0 for those that are not unrolled.
  template <class F> static void by_rank(int rank, F f) {
    switch (rank) {
      case 1: return f(std::integral_constant<int, 1>());
      case 2: return f(std::integral_constant<int, 2>());
      case 3: return f(std::integral_constant<int, 3>());
      case 4: return f(std::integral_constant<int, 4>());
      case 5: return f(std::integral_constant<int, 5>());
      case 6: return f(std::integral_constant<int, 6>());
      case 7: return f(std::integral_constant<int, 7>());
      case 8: return f(std::integral_constant<int, 8>());
    }
    f(std::integral_constant<int, 0>());
  }
};

}  // namespace lrmc
