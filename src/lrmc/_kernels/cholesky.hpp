// A small symmetric system in double precision.
#pragma once

namespace lrmc {

// A (upper triangle, row by row, r x r) = U' D U with 1 on the diagonal of U; 1 / D is put there instead. A pivot that
// is not positive makes its direction drop out.
static inline __attribute__((always_inline)) void cholesky(double *A, int r) {
  for (int k = 0; k < r; k++) {
    const double inverse = A[k * r + k] > 0 ? 1 / A[k * r + k] : 0;
    A[k * r + k] = inverse;
    for (int i = k + 1; i < r; i++) {
      const double u = A[k * r + i] * inverse;
      for (int j = i; j < r; j++) A[i * r + j] -= u * A[k * r + j];
    }
    for (int i = k + 1; i < r; i++) A[k * r + i] *= inverse;
  }
}
static inline __attribute__((always_inline)) void substitute(const double *U, int r, double *x) {  // x <- (U' D U)^-1 x
  for (int k = 0; k < r; k++)
    for (int j = k + 1; j < r; j++) x[j] -= U[k * r + j] * x[k];
  for (int k = r - 1; k >= 0; k--) {
    x[k] *= U[k * r + k];
    for (int j = k + 1; j < r; j++) x[k] -= U[k * r + j] * x[j];
  }
}

// x <- A^-1 x; A is overwritten. The commonest ranks are unrolled.
template <int R> static void solve_fixed(double *A, double *x) {
  cholesky(A, R);
  substitute(A, R, x);
}
static inline void solve_small(double *A, int r, double *x) {
  switch (r) {
    case 1: return solve_fixed<1>(A, x);
    case 2: return solve_fixed<2>(A, x);
    case 3: return solve_fixed<3>(A, x);
    case 4: return solve_fixed<4>(A, x);
    case 5: return solve_fixed<5>(A, x);
    case 6: return solve_fixed<6>(A, x);
  }
  cholesky(A, r);
  substitute(A, r, x);
}

}  // namespace lrmc
