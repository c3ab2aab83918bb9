// Eigenvalues and eigenvectors of a small symmetric matrix in double precision.
#pragma once
#include <cmath>

namespace lrmc {

// A (n x n, symmetric) becomes diagonal by Jacobi's rotations: V' A V. The columns of V, where it is given, are the
// eigenvectors, in the order of the values.
static inline void eigen(int n, double *A, double *V = nullptr) {
  constexpr int SWEEPS = 12;  // they converge quadratically: five are enough
  const auto turn = [n](double *x, double *y, int step, double cosine, double sine) {
    for (int k = 0; k < n; k++, x += step, y += step) {
      const double a = *x, b = *y;
      *x = cosine * a - sine * b;
      *y = sine * a + cosine * b;
    }
  };
  if (V)
    for (int k = 0; k < n * n; k++) V[k] = k % (n + 1) == 0;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    bool turned = false;
    for (int p = 0; p < n; p++)
      for (int q = p + 1; q < n; q++) {
        const double off = A[p * n + q];
        // what is below rounding beside both would turn nothing
        if (std::fabs(off) <= 1e-18 * std::sqrt(std::fabs(A[p * n + p] * A[q * n + q]))) continue;
        const double theta = (A[q * n + q] - A[p * n + p]) / (2 * off);
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double cosine = 1 / std::sqrt(t * t + 1), sine = t * cosine;
        turn(A + p, A + q, n, cosine, sine);
        turn(A + p * n, A + q * n, 1, cosine, sine);
        if (V) turn(V + p, V + q, n, cosine, sine);
        turned = true;
      }
    if (!turned) break;
  }
}

}  // namespace lrmc
