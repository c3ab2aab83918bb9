// A vector of numbers, as wide as the instruction set that this file is compiled for.
//
// GCC's and Clang's vector extensions: arithmetic, comparison and ?: work on whole vectors on every architecture, and
// no flag that assumes finite numbers is used, so `x == x` is false for NaN (a missing entry) and stays so.
#pragma once
#include <cstdint>
#include <utility>

#ifndef LRMC_VECTOR_BYTES
#define LRMC_VECTOR_BYTES 16
#endif

namespace lrmc::LRMC_ISA {

template <class T> struct lanes;
template <> struct lanes<float> {
  typedef float vec __attribute__((vector_size(LRMC_VECTOR_BYTES)));
  typedef int32_t mask __attribute__((vector_size(LRMC_VECTOR_BYTES)));
  typedef int32_t count;
};
template <> struct lanes<double> {
  typedef double vec __attribute__((vector_size(LRMC_VECTOR_BYTES)));
  typedef int64_t mask __attribute__((vector_size(LRMC_VECTOR_BYTES)));
  typedef int64_t count;
};
template <class T> using Vec = typename lanes<T>::vec;
template <class T> using Mask = typename lanes<T>::mask;
template <class T> using Count = typename lanes<T>::count;  // an integer as wide as T: what a comparison gives
template <class T> inline constexpr int width = LRMC_VECTOR_BYTES / sizeof(T);

template <class V, class T> inline V load(const T *p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class T> inline void store(T *p, V v) { __builtin_memcpy(p, &v, sizeof v); }
template <class T> inline Vec<T> fill(T x) { return x - Vec<T>{}; }  // x - 0 is x for the compiler; x + 0 is not
template <class V> inline V larger(V a, V b) { return a > b ? a : b; }
template <class V> inline V smaller(V a, V b) { return a < b ? a : b; }

template <class T> inline T sum(Vec<T> v) {
  T s[width<T>];
  store(s, v);
  for (int half = width<T> / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) s[i] += s[i + half];
  return s[0];
}

// W vectors of W numbers each become their transpose, by perfect shuffles.
template <class T, bool Upper, int... I>
inline Vec<T> interleaved(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
  constexpr int W = width<T>;
  return __builtin_shufflevector(a, b, (I % 2 * W + I / 2 + (Upper ? W / 2 : 0))...);
}
template <class T> inline void transpose(Vec<T> *v) {
  constexpr int W = width<T>;
  constexpr auto all = std::make_integer_sequence<int, W>{};
  Vec<T> next[W];
#pragma GCC unroll 4
  for (int step = 1; step < W; step *= 2) {
#pragma GCC unroll 8
    for (int k = 0; k < W / 2; k++) {
      next[2 * k] = interleaved<T, false>(v[k], v[k + W / 2], all);
      next[2 * k + 1] = interleaved<T, true>(v[k], v[k + W / 2], all);
    }
#pragma GCC unroll 16
    for (int k = 0; k < W; k++) v[k] = next[k];
  }
}

// Sums W vectors of W numbers each: entry t of the answer is the sum of v[t]. A tree of W - 1 shuffled additions; the
// first levels stay within 128-bit lanes, where shuffles are cheap.
template <class T, int Unit, bool Odd, int... I>
inline Vec<T> pick_in_lane(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
  constexpr int W = width<T>, N = 16 / sizeof(T);
  // position I in its lane: the first half of a lane comes from a, the second from b; units alternate even / odd
  return __builtin_shufflevector(
      a, b, ((I % N) / (N / 2)) * W + (I / N) * N + (((I % N) % (N / 2)) / Unit * 2 + Odd) * Unit + (I % Unit)...);
}
template <class T, bool Odd, int... I> inline Vec<T> pick_lanes(Vec<T> a, Vec<T> b, std::integer_sequence<int, I...>) {
  constexpr int W = width<T>, N = 16 / sizeof(T), half = W / 2;
  return __builtin_shufflevector(a, b, (I / half) * W + ((I % half) / N * 2 + Odd) * N + (I % N)...);
}
// With K below W, of K vectors the sum of every block of K lanes: thin.hpp says in which order.
template <class T, int K = width<T>> inline Vec<T> sum_each(Vec<T> *v) {
  constexpr int W = width<T>, N = 16 / sizeof(T);
  constexpr auto all = std::make_integer_sequence<int, W>{};
  int count = K;
  if constexpr (N == 4 && K > 2) {
    for (int t = 0; t < count / 2; t++)
      v[t] = pick_in_lane<T, 2, false>(v[2 * t], v[2 * t + 1], all) +
             pick_in_lane<T, 2, true>(v[2 * t], v[2 * t + 1], all);
    count /= 2;
  }
  for (int t = 0; t < count / 2; t++)
    v[t] =
        pick_in_lane<T, 1, false>(v[2 * t], v[2 * t + 1], all) + pick_in_lane<T, 1, true>(v[2 * t], v[2 * t + 1], all);
  count /= 2;
  if constexpr (W > N)
    for (; count > 1; count /= 2)
      for (int t = 0; t < count / 2; t++)
        v[t] = pick_lanes<T, false>(v[2 * t], v[2 * t + 1], all) + pick_lanes<T, true>(v[2 * t], v[2 * t + 1], all);
  return v[0];
}

}  // namespace lrmc::LRMC_ISA
