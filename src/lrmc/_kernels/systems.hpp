// Small symmetric systems in double precision, as many at a time as a vector has lanes, one in each. So every operation
// is one on whole vectors, whatever the rank.
#pragma once
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

using Lanes = Vec<double>;
constexpr int LANES = width<double>;

// Numbers of LANES rows: number k of all of them, then number k + 1.
struct Numbers {
  double *at = nullptr;
  Lanes operator[](int64_t k) const { return load<Lanes>(at + k * LANES); }
  void set(int64_t k, Lanes x) const { store(at + k * LANES, x); }
  void add(int64_t k, Lanes x) const { set(k, (*this)[k] + x); }
  Numbers from(int64_t k) const { return {at + k * LANES}; }
};

// Room for such numbers, handed out piece by piece.
struct Scratch {
  Buffer<double> memory;
  double *next;
  explicit Scratch(int64_t numbers) : memory(zeros<double>(numbers * LANES)), next(memory.get()) {}
  Numbers take(int64_t numbers) {
    next += numbers * LANES;
    return {next - numbers * LANES};
  }
};

inline int triangle(int r) { return r * (r + 1) / 2; }

// take(a, the sum of value(a, k) x[k] over k in [from, to)) for the first rows a; four sums beside each other, none of
// which waits for itself.
template <class Value, class Take>
inline __attribute__((always_inline)) void dots(int rows, int from, int to, Numbers x, Value value, Take take) {
  constexpr int AT_ONCE = 4;
  int a = 0;
  for (; a + AT_ONCE <= rows; a += AT_ONCE) {
    Lanes sums[AT_ONCE] = {};
    for (int k = from; k < to; k++) {
      const Lanes xk = x[k];
#pragma GCC unroll 4
      for (int u = 0; u < AT_ONCE; u++) sums[u] += value(a + u, k) * xk;
    }
#pragma GCC unroll 4
    for (int u = 0; u < AT_ONCE; u++) take(a + u, sums[u]);
  }
  for (; a < rows; a++) {
    Lanes sum = {};
    for (int k = from; k < to; k++) sum += value(a, k) * x[k];
    take(a, sum);
  }
}

// LANES symmetric matrices as upper triangles, row by row.
struct Systems {
  int r;
  Numbers A, V, scaled;  // the matrices, then their factors; inverses of the factors; a row of these

  Systems(int rank, Scratch &scratch)
      : r(rank), A(scratch.take(triangle(rank))), V(scratch.take(triangle(rank))), scaled(scratch.take(rank)) {}
  Numbers row(Numbers X, int a) const {  // of a triangle, counted from its first column
    return X.from(int64_t(a) * r - int64_t(a) * (a - 1) / 2 - a);
  }

  // A = U' D U with 1 on the diagonal of U; 1 / D is put there. A pivot that is not positive makes its direction drop
  // out.
  void factor() const {
    for (int k = 0; k < r; k++) {
      const Numbers pivot = row(A, k);
      const Lanes d = pivot[k], inverse = d > 0 ? 1 / d : Lanes{};
      pivot.set(k, inverse);
      for (int i = k + 1; i < r; i++) {
        const Numbers below = row(A, i);
        const Lanes u = pivot[i] * inverse;
        for (int j = i; j < r; j++) below.set(j, below[j] - u * pivot[j]);
      }
      for (int i = k + 1; i < r; i++) pivot.set(i, pivot[i] * inverse);
    }
  }
  void forward(Numbers x) const {  // x <- U'^-1 x
    for (int k = 0; k < r; k++) {
      const Numbers u = row(A, k);
      const Lanes xk = x[k];
      for (int j = k + 1; j < r; j++) x.set(j, x[j] - u[j] * xk);
    }
  }
  void solve(Numbers x) const {  // x <- A^-1 x, by the factors
    forward(x);
    for (int k = r - 1; k >= 0; k--) {
      const Numbers u = row(A, k);
      Lanes sum = x[k] * u[k];
      for (int j = k + 1; j < r; j++) sum -= u[j] * x[j];
      x.set(k, sum);
    }
  }
  void invert_factor() const {  // V = U^-1
    for (int i = r - 1; i >= 0; i--) {
      const Numbers u = row(A, i), v = row(V, i);
      v.set(i, fill<double>(1));
      for (int j = i + 1; j < r; j++) v.set(j, -u[j]);
      for (int k = i + 1; k < r; k++) {
        const Numbers above = row(V, k);
        const Lanes uk = u[k];
        for (int j = k + 1; j < r; j++) v.set(j, v[j] - uk * above[j]);
      }
    }
  }
  template <class Take> void invert(Take take) const {  // take(a, b, number of A^-1 = V D^-1 V') for a <= b
    invert_factor();
    for (int b = r - 1; b >= 0; b--) {
      const Numbers other = row(V, b);
      for (int k = b; k < r; k++) scaled.set(k, row(A, k)[k] * other[k]);
      dots(b + 1, b, r, scaled, [&](int a, int k) { return row(V, a)[k]; }, [&](int a, Lanes sum) { take(a, b, sum); });
    }
  }
  int64_t place(int a, int b) const { return int64_t(a) * r - int64_t(a) * (a - 1) / 2 + b - a; }  // in a triangle
  static int64_t room(int r) { return 2 * triangle(r) + r; }
};

}  // namespace lrmc::LRMC_ISA
