// The adjoint of the pass with the rule clip, for gradients through it. With E = Y - L R', C = clip(E), A = C R and B =
// C' L, and the gradients Ab and Bb of a loss with respect to A and B:
//
//   Cb = Ab R' + L Bb',  Eb = Cb where |E| <= z, else 0;  the loss changes by  <C Bb - Eb R, dL> + <C' Ab - Eb' L, dR>
//   + zb dz with  zb = the sum of Cb sign(E) over |E| > z.
//
// So it is a pass with P = Ab and Q = Bb whose products have a second term. D = -Eb takes the place of the weights.
#pragma once
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

// e -> c and -cb -> d, and the sum zb. The forward pass's own rule says what is inside.
template <class T> struct Reverse {
  const Clip<T> clip;
  Vec<T> zb = {};
  explicit Reverse(const Weight<T> &weight) : clip(weight, 0, 0, false) {}
  inline __attribute__((always_inline)) void operator()(Vec<T> &e, Vec<T> &d) {
    const Vec<T> zero = {}, cb = e > zero ? -d : d;  // Cb sign(E), were it outside
    const Mask<T> seen = e == e;
    Mask<T> inside;
    Vec<T> c;
    clip(e, zero, zero, c, inside);
    zb += (seen & ~inside) ? cb : zero;
    d = inside ? d : zero;
    e = seen ? c : zero;
  }
};

// C and D of 4 rows, and B += P' C + L' D while they are in registers: one vector of columns at a time, or two where 32
// registers hold them.
template <class T> void adjoint_tile(const Weight<T> &weight, const Tile<T> &tile) {
  constexpr int W = width<T>, H = LRMC_VECTOR_BYTES >= 64 ? 2 : 1;
  const int r = tile.rank;
  const T *__restrict L = tile.L;
  const T *__restrict P = tile.P;
  T *__restrict B = tile.B;
  Reverse<T> reverse(weight);
  for (int j = 0; j < tile.n; j += H * W) {
    Vec<T> e[H][ROWS], d[H][ROWS];
#pragma GCC unroll 2
    for (int h = 0; h < H; h++)
#pragma GCC unroll 4
      for (int m = 0; m < ROWS; m++) {
        e[h][m] = tile.gain * load<Vec<T>>(tile.source[m] + j + h * W);
        d[h][m] = Vec<T>{};
      }
    for (int k = 0; k < r; k++)
#pragma GCC unroll 2
      for (int h = 0; h < H; h++) {
        const int at = k * TILE<T> + j + h * W;
        Vec<T> rk = load<Vec<T>>(tile.R + at), qk = load<Vec<T>>(tile.Q + at);
#pragma GCC unroll 4
        for (int m = 0; m < ROWS; m++) {
          Vec<T> l = fill<T>(L[m * r + k]), p = fill<T>(P[m * r + k]);
          e[h][m] -= l * rk;
          d[h][m] -= p * rk;
          d[h][m] -= l * qk;
        }
      }
#pragma GCC unroll 2
    for (int h = 0; h < H; h++)
#pragma GCC unroll 4
      for (int m = 0; m < ROWS; m++) {
        reverse(e[h][m], d[h][m]);
        store(tile.C + m * TILE<T> + j + h * W, e[h][m]);
        store(tile.W + m * TILE<T> + j + h * W, d[h][m]);
      }
    for (int k = 0; k < r; k++)
#pragma GCC unroll 2
      for (int h = 0; h < H; h++) {
        T *at = B + k * TILE<T> + j + h * W;
        Vec<T> b = load<Vec<T>>(at), more = {};  // two sums: neither waits for the other
#pragma GCC unroll 4
        for (int m = 0; m < ROWS; m++) {
          b += P[m * r + k] * e[h][m];
          more += L[m * r + k] * d[h][m];
        }
        store(at, b + more);
      }
  }
  *tile.z_slope += double(sum<T>(reverse.zb));
}

// E and -Cb of n entries (a multiple of W) of one row become C and D.
template <class T> void adjoint_entries(const Weight<T> &weight, int n, T *__restrict E, T *__restrict D, double *zb) {
  Reverse<T> reverse(weight);
  for (int t = 0; t < n; t += width<T>) {
    Vec<T> e = load<Vec<T>>(E + t), d = load<Vec<T>>(D + t);
    reverse(e, d);
    store(E + t, e);
    store(D + t, d);
  }
  *zb += double(sum<T>(reverse.zb));
}

}  // namespace lrmc::LRMC_ISA
