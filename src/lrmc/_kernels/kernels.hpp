// What the kernels take and give: plain structs, shared by the module and by each instruction set's copy of the code.
#pragma once
#include <cstdint>

namespace lrmc {

enum class Storage : int { f32, f64, u8, i16, u16 };

// How a residual e becomes a pull c = w e. z is the threshold; |e| <= z makes an entry an inlier.
enum class Rule : int {
  clip,       // w = min(1, z / |e|), one z for all: LRMC's residual minus its soft threshold
  threshold,  // z_ij = max(zr_i, zc_j); outside: w = z / |e| where the row or column is protected, else 0
  cauchy,     // w = 1 / (1 + (e / z_ij)^2)
};

template <class T> struct Weight {
  Rule rule = Rule::clip;
  T z = 0;                                      // clip
  const T *row_z = nullptr, *col_z = nullptr;   // the others: a threshold per row and per column
  const T *row_protect = nullptr, *col_protect = nullptr;  // 1 where outliers are clipped rather than rejected, else 0
  T up = 1, down = 1;                           // what a residual above (below) counts: 0 makes that side always an inlier
};

// C is the weighted residual of Y - L R' on the observed entries; the pass gives C Q and C' P. A missing factor is zero.
template <class T> struct Products {
  int64_t n1 = 0, n2 = 0;
  int rank = 0;                                  // columns of L and R
  const T *L = nullptr, *R = nullptr;            // n1 x rank, n2 x rank
  int width = 0;                                 // columns of P and Q
  const T *P = nullptr, *Q = nullptr;            // n1 x width, n2 x width; either may be missing
  T gain = 1;                                    // the data are read as gain * Y
  Weight<T> weight;
  T *CQ = nullptr, *CtP = nullptr;               // n1 x width, n2 x width
  int64_t *row_inliers = nullptr, *col_inliers = nullptr;  // counts
  T *row_weight = nullptr, *col_weight = nullptr;          // sums of w
  int threads = 1;
};

struct Dense {
  const void *data = nullptr;
  Storage storage = Storage::f32;
  int64_t stride = 0;                            // entries from one row to the next
  const uint8_t *mask = nullptr;                 // not 0 where observed; missing: all that is not NaN is observed
  int64_t mask_stride = 0;
};

struct Sparse {
  const int64_t *indptr = nullptr;
  const int32_t *indices = nullptr;
  const void *data = nullptr;
  Storage storage = Storage::f32;
};

struct Survey {
  int64_t *row_observed = nullptr, *col_observed = nullptr;
  int64_t infinite = 0;
};

// One instruction set's copy of the code.
struct Kernels {
  const char *name;
  void (*dense_f32)(const Dense &, const Products<float> &);
  void (*dense_f64)(const Dense &, const Products<double> &);
  void (*sparse_f32)(const Sparse &, const Products<float> &);
  void (*sparse_f64)(const Sparse &, const Products<double> &);
  void (*residual_f32)(const Sparse &, const Products<float> &, float *);
  void (*residual_f64)(const Sparse &, const Products<double> &, double *);
  void (*survey)(const Dense &, int64_t n1, int64_t n2, Survey &, int threads);
};

namespace baseline { extern const Kernels kernels; }
#ifdef LRMC_X86
namespace avx2 { extern const Kernels kernels; }
namespace avx512 { extern const Kernels kernels; }
#endif

}  // namespace lrmc
