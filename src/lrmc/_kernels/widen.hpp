// Small integers as numbers, a vector at a time.
#pragma once
#if LRMC_VECTOR_BYTES > 16
#include <immintrin.h>
#endif
#include <type_traits>
#include "simd.hpp"

namespace lrmc::LRMC_ISA {

// As many integers as a vector of T has lanes, each as wide as T. Compilers convert bytes one after another.
template <class T, class S> inline Mask<T> integers_at(const S *y) {
#if LRMC_VECTOR_BYTES == 64
  if constexpr (sizeof(S) == 1 && sizeof(T) == 4) return Mask<T>(_mm512_maskz_cvtepu8_epi32(-1, load<__m128i>(y)));
#elif LRMC_VECTOR_BYTES == 32
  if constexpr (sizeof(S) == 1 && sizeof(T) == 4)
    return Mask<T>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(load<int64_t>(y))));
#endif
  typedef S few __attribute__((vector_size(width<T> * sizeof(S))));
  return __builtin_convertvector(load<few>(y), Mask<T>);
}

template <class T, class S> inline Vec<T> numbers_at(const S *y) {
  if constexpr (std::is_same_v<T, S>) return load<Vec<T>>(y);
  // by way of integers as wide as T: at once, compilers convert one after another
  else return __builtin_convertvector(integers_at<T>(y), Vec<T>);
}

}  // namespace lrmc::LRMC_ISA
