// Order statistics by counting.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace lrmc {

// Numbers in the order of their bits: as integers they fall into buckets by their leading bits.
template <class T> struct Ordered {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int BITS = 8 * sizeof(T), BUCKETS = 1 << 13, SHIFT = BITS - 13;
  static constexpr Bits SIGN = Bits(1) << (BITS - 1);

  static Bits key(T x) {  // NaN comes last
    Bits bits;
    std::memcpy(&bits, &x, sizeof x);
    // without a branch: nobody can foresee signs
    const Bits turned = (Bits(0) - (bits >> (BITS - 1))) | SIGN;
    return x != x ? ~Bits(0) : bits ^ turned;
  }
  static double number(Bits key) {
    if (key == ~Bits(0)) return std::numeric_limits<double>::quiet_NaN();
    const Bits bits = key & SIGN ? key & ~SIGN : ~key;
    T x;
    std::memcpy(&x, &bits, sizeof x);
    return double(x);
  }

  const T *x;
  int64_t n;
  std::array<uint32_t, BUCKETS> counts{};
  std::vector<Bits> some;  // of one bucket

  Ordered(const T *x_, int64_t n_) : x(x_), n(n_) {
    for (int64_t k = 0; k < n; k++) counts[key(x[k]) >> SHIFT]++;
  }
  void look_at(Bits bucket) {
    some.clear();
    for (int64_t k = 0; k < n; k++)
      if (key(x[k]) >> SHIFT == bucket) some.push_back(key(x[k]));
  }
  // The numbers at these places of the order, which rise.
  void at(const int64_t *places, int64_t count, double *out) {
    int64_t before = 0, done = 0;  // numbers in the buckets before this one; in it, those that are in order
    for (int64_t k = 0, bucket = -1, next = 0; k < count; k++) {
      for (; before + counts[next] <= places[k]; next++) before += counts[next];
      if (bucket != next) {
        look_at(Bits(bucket = next));
        done = 0;
      }
      const auto found = some.begin() + (places[k] - before);
      std::nth_element(some.begin() + done, found, some.end());
      out[k] = number(*found);
      done = found - some.begin();
    }
  }
};

// Quantiles as NumPy has them, of shares that rise.
template <class T, size_t N>
std::array<double, N> quantiles(const T *x, int64_t n, const std::array<double, N> &shares) {
  std::array<int64_t, 2 * N> places;
  std::array<double, 2 * N> found;
  std::array<double, N> out;
  for (size_t k = 0; k < N; k++) {
    const double at = shares[k] * double(n - 1);
    places[2 * k] = int64_t(std::floor(at));
    places[2 * k + 1] = int64_t(std::ceil(at));
  }
  std::sort(places.begin(), places.end());
  Ordered<T>(x, n).at(places.data(), 2 * N, found.data());
  const auto number = [&](double place) {
    return found[std::lower_bound(places.begin(), places.end(), int64_t(place)) - places.begin()];
  };
  for (size_t k = 0; k < N; k++) {
    const double at = shares[k] * double(n - 1), below = number(std::floor(at));
    out[k] = below + (at - std::floor(at)) * (number(std::ceil(at)) - below);
  }
  return out;
}

}  // namespace lrmc
