// What a step of conjugate gradients does with arrays of coefficients, each in one pass. Compiled once for each
// instruction set.
#pragma once
#include <algorithm>

#include "kernels.hpp"
#include "simd.hpp"

namespace lrmc::LRMC_ISA {

template <class T> void mix(const Mixed<T> &job) {
  T *__restrict x = job.x;
  const T *__restrict y = job.y;
  const T a = job.a, b = job.b;
  for (int64_t k = 0; k < job.n; k++) x[k] = a * x[k] + b * y[k];
}

// Some numbers of a line, few enough to be added up in their own precision.
template <class T> double add_some(const Added<T> &job, int64_t from, int64_t at, int64_t count) {
  constexpr int W = width<T>;
  T *x = job.x + from;
  const T *y = job.y + from, *toward = job.toward + from, *times = job.times ? job.times + at : nullptr;
  Vec<T> total{};
  int64_t k = 0;
  for (; k + W <= count; k += W) {
    Vec<T> more = load<Vec<T>>(y + k);
    if (times) more *= load<Vec<T>>(times + k);
    more += load<Vec<T>>(x + k);
    store(x + k, more);
    total += more * load<Vec<T>>(toward + k);
  }
  double rest = 0;
  for (; k < count; k++) {
    x[k] += times ? times[k] * y[k] : y[k];
    rest += double(x[k]) * double(toward[k]);
  }
  return double(sum<T>(total)) + rest;
}

template <class T> double add(const Added<T> &job) {
  constexpr int64_t AT_ONCE = 32 * width<T>;
  double total = 0;
  for (int64_t i = 0; i < job.lines; i++)
    for (int64_t at = 0; at < job.across; at += AT_ONCE)
      total += add_some(job, i * job.across + at, at, std::min(AT_ONCE, job.across - at));
  return total;
}

}  // namespace lrmc::LRMC_ISA
