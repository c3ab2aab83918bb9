// The kernels for one instruction set: this file is compiled once for each, with LRMC_ISA and LRMC_VECTOR_BYTES set.
#include "compress.hpp"
#include "conjugate.hpp"
#include "gaps.hpp"
#include "grouped.hpp"
#include "layers.hpp"
#include "lean.hpp"
#include "magnitudes.hpp"
#include "motion.hpp"
#include "narrow.hpp"
#include "opinions.hpp"
#include "refit.hpp"
#include "regress.hpp"
#include "rows.hpp"
#include "slopes.hpp"
#include "small.hpp"
#include "survey.hpp"
#include "thin.hpp"

namespace lrmc::LRMC_ISA {

template <class T> void dense(const Dense &data, const Products<T> &job) {
  if (LeanPass<T>::serves(job)) LeanPass<T>{data, job}.run();
  else DensePass<T>{data, job}.run();
}
template <class T> void grouped(const Dense &data, const Groups &groups, const Products<T> &job) {
  GroupedPass<T>{data, job, groups}.run();
}
template <class T> void sparse(const Sparse &data, const Products<T> &job) {
#if LRMC_VECTOR_BYTES == 64  // several short rows side by side take three times as long as in vectors half as long
  if (ThinPass<T>::serves(job) && ThinPass<T>::lanes_of(job) < width<T>) return avx2::kernels.in<T>().sparse(data, job);
#endif
  if (ThinPass<T>::serves(job)) ThinPass<T>{data, job}.run();
  else if (may_be_rough(job)) SparsePass<T, float>{data, job}.run();
  else SparsePass<T>{data, job}.run();
}
template <class T> void slopes(const Sparse &data, const Products<T> &job, const Slopes<T> &out) {
  SlopesPass<T>{data, job, out}.run();
}
template <class T> void residual(const Sparse &data, const Products<T> &job, T *out) {
  SparsePass<T>{data, job}.residuals(out);
}
template <class T> void magnitudes(const Dense &data, const Products<T> &job, const Magnitudes<T> &out) {
  DenseMagnitudes<T>{data, job, out}.run();
}
template <class T> void magnitudes(const Sparse &data, const Products<T> &job, const Magnitudes<T> &out) {
  SparseMagnitudes<T>{data, job, out}.run();
}

template <class T> void regress_dense(const Dense &data, const Regression<T> &job) {
  Regress<T, Dense>{data, job}.run();
}
template <class T> void regress_sparse(const Sparse &data, const Regression<T> &job) {
  Regress<T, Sparse>{data, job}.run();
}

template <class T>
constexpr Passes<T> passes = {
    &dense<T>,
    &grouped<T>,
    &sparse<T>,
    &slopes<T>,
    &residual<T>,  // in the order of
                   // `Passes`
    &regress_dense<T>,
    &regress_sparse<T>,
    &magnitudes<T>,
    &magnitudes<T>,
    &solve_rows<T>,
    &step_rows<T>,
    &slope_rows<T>,
    &regressors<T>,
    &regressor_slopes<T>,
    &entries_at<T>,
    &refit<T, Dense>,
    &refit<T, Sparse>,
    &times<T>,
    &cross<T>,
    &layer_rows<T>,
    &layers<T>,
    &mix<T>,
    &add<T>,
};

#define LRMC_TEXT_(x) #x
#define LRMC_TEXT(x) LRMC_TEXT_(x)
extern const Kernels kernels = {LRMC_TEXT(LRMC_ISA),
                                passes<float>,
                                passes<double>,
                                &survey,
                                &small,
                                &compress,
                                &gaps,
                                &normal,
                                &nearest,
                                &opinions,
                                &tails,
                                &follow,
                                &onto_canvas,
                                &from_canvas,
                                &shrink,
                                &noise_levels,
                                &lasting,
                                &patches};

}  // namespace lrmc::LRMC_ISA
