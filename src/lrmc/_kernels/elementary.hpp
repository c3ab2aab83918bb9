// Logarithm and exponential of whole vectors, for the weights that are a power. Both are right to a few units in the
// last place; what comes of NaN is of no account, since weights of missing entries are not used.
#pragma once
#include <limits>
#include "simd.hpp"

namespace lrmc::LRMC_ISA {

template <class T> struct Bits;
template <> struct Bits<float> {
  static constexpr int mantissa = 23, log_terms = 5, exp_terms = 7;
  static constexpr int32_t root_half = 0x3f3504f3;           // the bits of sqrt(1 / 2)
  static constexpr float ln2_high = 0.693145751953125f;      // few digits: its multiples are exact
  static constexpr float ln2_low = 1.42860677372664213e-6f;  // the rest of ln 2
  static constexpr float lowest = -87.0f;                    // exp of less has no exponent
};
template <> struct Bits<double> {
  static constexpr int mantissa = 52, log_terms = 10, exp_terms = 13;
  static constexpr int64_t root_half = 0x3fe6a09e667f3bcd;
  static constexpr double ln2_high = 6.93147180369123816490e-01;
  static constexpr double ln2_low = 1.90821492927058770002e-10;
  static constexpr double lowest = -708.0;
};

template <class T> inline Vec<T> as_number(Mask<T> bits) { return load<Vec<T>>(&bits); }
template <class T> inline Mask<T> as_bits(Vec<T> x) { return load<Mask<T>>(&x); }

// log(y) for normal y > 0: y = 2^k m with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh((m - 1) / (m + 1)).
template <class T> inline __attribute__((always_inline)) Vec<T> logarithm(Vec<T> y) {
  using B = Bits<T>;
  const Mask<T> k = (as_bits<T>(y) - B::root_half) >> B::mantissa;
  const Vec<T> m = as_number<T>(as_bits<T>(y) - (k << B::mantissa));
  const Vec<T> f = (m - 1) / (m + 1), square = f * f;
  Vec<T> series = {};
  for (int n = B::log_terms; n > 0; n--) series = (series + T(1) / T(2 * n + 1)) * square;
  const Vec<T> times = __builtin_convertvector(k, Vec<T>);
  return times * B::ln2_high + (2 * f + (2 * f * series + times * B::ln2_low));
}

// exp(x) for x <= 0; 0 where it has no exponent. x = k ln 2 + g with |g| <= ln 2 / 2, and a polynomial in g.
template <class T> inline __attribute__((always_inline)) Vec<T> exponential(Vec<T> x) {
  using B = Bits<T>;
  constexpr T half_up = T(3) * T(int64_t(1) << (B::mantissa - 1));  // what is added to it is rounded to an integer
  constexpr int64_t bias = sizeof(T) == 4 ? 127 : 1023;
  const Vec<T> within = larger(x, fill<T>(B::lowest));
  const Vec<T> shifted = within * T(1.44269504088896340736) + half_up, k = shifted - half_up;
  const Vec<T> g = (within - k * B::ln2_high) - k * B::ln2_low;
  Vec<T> series = fill<T>(1);
  for (int n = B::exp_terms; n > 0; n--) series = series * g * (T(1) / T(n)) + 1;
  const Mask<T> power = as_bits<T>(shifted) - as_bits<T>(fill<T>(half_up));
  const Vec<T> scale = as_number<T>((power + Count<T>(bias)) << B::mantissa);
  return x < B::lowest ? Vec<T>{} : series * scale;
}

}  // namespace lrmc::LRMC_ISA
