// What the kernels take and give: plain structs, shared by the module and by each instruction set's copy of the code.
#pragma once
#include <cstdint>

namespace lrmc {

enum class Storage : int { f32, f64, u8, i16, u16 };

// How a residual e becomes a pull c = w e. z is the threshold; |e| <= z makes an entry an inlier.
enum class Rule : int {
  clip,       // w = min(1, z / |e|), one z for all: LRMC's residual minus its soft threshold
  threshold,  // z_ij = max(zr_i, zc_j); outside: w = z / |e| where the row or column is protected, else 0
  cauchy,     // w = 1 / (1 + (e / z_ij)^2), z_ij = zr_i zc_j
  huber,      // w = min(1, z_ij / |e|), z_ij = zr_i zc_j
  mixture,    // w = 1 / (1 + z (1 + (e / z_ij)^2 / 32)^16): how likely e is noise of deviation z_ij rather than an
              // outlier
  power,      // w = (1 + (e / z_ij)^2)^(-z): squares for z = 0, near the absolute value for 1/2, cauchy for 1
};

inline bool smooth(Rule rule) { return rule != Rule::clip && rule != Rule::threshold; }

template <class T> struct Weight {
  Rule rule = Rule::clip;
  T z = 0;  // clip; for mixture the odds of an outlier at e = 0, for power its exponent
  const T *row_z = nullptr, *col_z = nullptr;              // the others: a threshold per row and per column
  const T *row_protect = nullptr, *col_protect = nullptr;  // 1 where outliers are clipped rather than rejected, else 0
  bool squares = false;                                    // sum c^2 instead of w over rows and columns
  T up = 1, down = 1;  // what a residual above (below) counts: 0 makes that side always an inlier
  bool rough = false;  // W Qw and W' Pw may be made in single precision
};

// C is the weighted residual of Y - L R' on the observed entries and W its weights; the pass gives C Q and C' P, and,
// if asked, W Qw and W' Pw. With Qw the products of all pairs of columns of R, a row of W Qw is that row's weighted
// Gram matrix.
template <class T> struct Products {
  int64_t n1 = 0, n2 = 0;
  int rank = 0;                          // columns of L and R
  const T *L = nullptr, *R = nullptr;    // n1 x rank, n2 x rank
  int width = 0;                         // columns of P and Q
  const T *P = nullptr, *Q = nullptr;    // n1 x width, n2 x width; either may be missing
  int width_w = 0;                       // columns of Pw and Qw
  const T *Pw = nullptr, *Qw = nullptr;  // n1 x width_w, n2 x width_w; either may be missing; not for the rule clip
  T gain = 1;                            // the data are read as gain * Y
  Weight<T> weight;
  bool adjoint = false;             // the pass of adjoint.hpp: the rule is clip, P is Ab, Q is Bb
  T *CQ = nullptr, *CtP = nullptr;  // n1 x width, n2 x width; of the adjoint, the gradients of L and R
  T *WQ = nullptr, *WtP = nullptr;  // n1 x width_w, n2 x width_w
  double *z_slope = nullptr;        // of the adjoint: the gradient of z
  int64_t *inliers = nullptr;       // how many there are, for the rule clip
  int64_t *row_inliers = nullptr, *col_inliers = nullptr;  // for the others; the adjoint has neither
  T *row_weight = nullptr, *col_weight = nullptr;          // sums of w, or of c^2
  double *row_energy = nullptr, *col_energy = nullptr;     // sums of w e^2, for the smooth rules
  int threads = 1;
};

// The k-th largest |e| of each row and column, for k of its own. Infinity where k is 0.
template <class T> struct Magnitudes {
  const int64_t *row_k = nullptr, *col_k = nullptr;  // at most as many as are observed there
  T *rows = nullptr, *cols = nullptr;
};

// Beside the products, for the adjoint of a pass with the rule power: see slopes.hpp.
template <class T> struct Slopes {
  T energy = 0, total = 0;                  // gradients with respect to the sums of w e^2 and of w
  T *L = nullptr, *R = nullptr;             // n1 x rank, n2 x rank: those with respect to the factors
  double *rows = nullptr, *cols = nullptr;  // and to the logarithms of the thresholds
  double *shape = nullptr;                  // and to the exponent
};

struct Dense {
  const void *data = nullptr;
  Storage storage = Storage::f32;
  int64_t stride = 0;             // entries from one row to the next
  const uint8_t *mask = nullptr;  // not 0 where observed; missing: all that is not NaN is observed
  int64_t mask_stride = 0;
};

struct Groups {
  const int64_t *rows = nullptr;  // the rows of one group after another
  int64_t count = 0;
  int64_t size = 0;      // of each group
  bool modulus = false;  // weighed by the norm of a group (of real and imaginary parts), not by the worst of it
};

struct Sparse {
  const int64_t *indptr = nullptr;
  const int32_t *indices = nullptr;
  const void *data = nullptr;
  Storage storage = Storage::f32;
};

// Each row of the data by its own robust regression on the columns of V: y = offset + V t + noise + outliers, t
// Gaussian.
template <class T> struct Regression {
  int64_t n1 = 0, n2 = 0;
  int rank = 0;
  const T *V = nullptr, *offset = nullptr;  // n2 x rank, n2
  const double *mean = nullptr;             // rank: where t starts
  const double *prior = nullptr;            // rank x rank: the inverse covariance of t
  T gain = 1;                               // the data are read as gain * Y
  T widest = 1, lowest = 0;                 // the first threshold; the standard deviation of the noise
  Rule loss = Rule::mixture;                // mixture, cauchy or huber
  T odds = 0, reach = 1;                    // of mixture; the threshold of the others in standard deviations
  T up = 1, down = 1;                       // as in Weight
  T *scores = nullptr;                      // n1 x rank
  T *deviation = nullptr;                   // n1: the standard deviation that the last steps were made with
  T *distance = nullptr;  // n1: the root mean square residual in units of `lowest`, each at most `most`
  T most = 6;
  int threads = 1;
};

struct Survey {
  int64_t *row_observed = nullptr, *col_observed = nullptr;
  int64_t infinite = 0;
};

// Where the observed entries of a dense matrix go: those of a row, or of a column, one after another.
struct Compressed {
  const int64_t *indptr = nullptr;  // where those of each row (column) begin
  int32_t *indices = nullptr;
  void *values = nullptr;  // of the type of the data
  bool by_column = false;
};

// Long matrices with few columns: X is n x k; Z is k x m for X Z, n x m for X' Z.
template <class T> struct Narrow {
  int64_t n = 0;
  int k = 0, m = 0;
  const T *X = nullptr, *Z = nullptr;
  T *out = nullptr;  // n x m, for X Z
};

// A layer of LRMC for the rows L of a factor, from pull = C R:
//
//   d = pull scale, which replaces the pull;   m = d - L shared + gamma m;   L <- L + eta m
template <class T> struct LayerRows {
  int64_t n = 0;
  int rank = 0;
  const T *L = nullptr, *momentum = nullptr;    // n x rank; no momentum where gamma is 0
  const T *scale = nullptr, *shared = nullptr;  // rank x rank; nothing shared where the layer has no tangent correction
  T eta = 0, gamma = 0;
  T *pull = nullptr;                         // n x rank
  T *after = nullptr, *direction = nullptr;  // n x rank; no room for m where it is d
  double *DD = nullptr, *DL = nullptr;       // rank x rank: D'D and D'L, where D is what L moves by
};
inline constexpr int MOST_LAYER_RANK = 8;

// X_i = (H_i + ridge)^-1 B_i for n rows, where H_i is packed: its upper triangle, row by row. Rows that are not used
// give 0.
template <class T> struct RowSystems {
  int64_t n = 0;
  int rank = 0;
  const T *H = nullptr, *B = nullptr;  // n x rank (rank + 1) / 2, n x rank
  const double *ridge = nullptr;       // rank x rank
  const uint8_t *used = nullptr;       // one per row
  T *X = nullptr;                      // n x rank; missing with B
  double *mean_inverse = nullptr;      // rank x rank: the mean of (H_i + ridge)^-1 over the rows that are used
  T *inverses = nullptr;  // n x rank (rank + 1) / 2: (H_i + ridge)^-1, packed; 0 for rows that are not used
  int threads = 1;
};

// A step for the rows f of a factor, with H = precision grams + ridge and v = precision times the sum of weights:
//
//   f <- f + eta H^-1 (precision pull - v coupling f - ridge (f - mean));   rows that are not used become the mean
template <class T> struct RowStep {
  int64_t n = 0;
  int rank = 0;
  const T *F = nullptr, *pull = nullptr;  // n x rank
  const T *grams = nullptr;               // n x (rank (rank + 1) / 2 + 1): the last column is the sum of weights
  const uint8_t *used = nullptr;          // one per row
  const double *precision = nullptr;      // one per row
  const double *mean = nullptr, *ridge = nullptr, *coupling = nullptr;  // rank, and rank x rank, symmetric
  double eta = 1;
  T *after = nullptr, *step = nullptr;  // n x rank
  double *inverse = nullptr;            // rank x rank: the sum of H^-1 over the rows that are used
  int threads = 1;
};

// Its adjoint: from gradients with respect to `after` and `inverse`, those of what the step was given.
template <class T> struct RowSlopes {
  const T *step = nullptr;                                        // n x rank: that was made
  const double *of_after = nullptr, *of_inverse = nullptr;        // n x rank; rank x rank, symmetric
  T *pull = nullptr, *grams = nullptr;                            // as in RowStep
  double *F = nullptr;                                            // n x rank; 0 where rows are not used
  double *mean = nullptr, *ridge = nullptr, *coupling = nullptr;  // rank, and rank x rank, not symmetric
};

// What a pass multiplies with for the systems of the other side: the rows f of a factor, and the upper triangles of
// f f' + coupling with a 1 for the sum of weights; all times the precision of the row.
template <class T> struct Regressors {
  int64_t n = 0;
  int rank = 0;
  const T *F = nullptr;                                    // n x rank
  const double *precision = nullptr, *coupling = nullptr;  // n; rank x rank
  T *plain = nullptr, *squares = nullptr;                  // n x rank; n x (rank (rank + 1) / 2 + 1)
  int threads = 1;
};

// Its adjoint: from gradients with respect to plain and squares, those of the rows and of the coupling.
template <class T> struct RegressorSlopes {
  const T *pull = nullptr, *grams = nullptr;  // as plain and squares
  double *F = nullptr, *coupling = nullptr;   // n x rank; rank x rank
};

// Half a layer on noisy data: one factor given the other. See refit.cpp.
template <class T> struct Refit {
  Products<T> pass;                                         // with its data's shape, L and R, directions and threads
  int side = 0;                                             // 0: the rows are refitted, 1: the columns
  double reach, shape, prior, kappa, eta;                   // the numbers of the layer
  const double *row_noise = nullptr, *col_noise = nullptr;  // n1, n2: relative
  const int64_t *observed = nullptr;                        // entries of each row of the side that is refitted
  const double *unknown[2] = {nullptr, nullptr};            // rank x rank: mean covariances of the rows of L and of R
  int64_t n_sample = 0, every = 1;                          // entries of the sample, and every how many tell the unit
  const int64_t *rows = nullptr, *cols = nullptr;           // their places
  const T *values = nullptr;
  double size = 0;      // the unit of the threshold; 0: to be measured
  double relative = 0;  // what makes the variance of the mean weighted square; 0: to be measured
  double least = 0;     // a unit is never below this
  double tiny = 0;      // of the mean variance, keeps a prior invertible
  int threads = 1;      // for what is done row by row
  T *pull = nullptr, *grams = nullptr, *col_weight = nullptr;       // of the pass: n x rank, n x (triangle + 1), n2
  T *after = nullptr, *step = nullptr;                              // n x rank
  double *mean = nullptr, *covariance = nullptr, *ridge = nullptr;  // of the prior
  double *left = nullptr;  // rank x rank: what is unknown of the rows afterwards
};
struct Refitted {
  double size = 0, variance = 0, relative = 0, energy = 0, inliers = 0;
};

// L R' at some places of the matrix.
template <class T> struct Places {
  int64_t n = 0;
  int rank = 0;
  const T *L = nullptr, *R = nullptr;              // x rank
  const int64_t *rows = nullptr, *cols = nullptr;  // n
  T *out = nullptr;                                // n
  const T *values = nullptr;                       // n: how far the model is from these is told, instead of the model
};

// Rows drawn from one Gaussian, NaN where nothing was seen; P is the inverse of its covariance. See gaps.cpp.
struct Gaps {
  int64_t n = 0;
  int across = 0;
  const double *Y = nullptr;                   // n x across
  const double *mean = nullptr, *P = nullptr;  // across; across x across
  double *complete = nullptr,
         *unknown = nullptr;  // n x across: what is missing as the rest of the row tells it; across x
                              // across, or missing: the sum of the covariances of what is left open
  double *told = nullptr;     // n x across, or missing: every entry as the others of its row tell it
};

// The mean and covariance of such rows, by expectation and maximisation; `complete` is where it begins and ends.
struct Normal {
  int64_t n = 0;
  int across = 0, rounds = 0;
  const double *Y = nullptr;
  double tiny = 0;             // of the largest variance: what a column that does not vary is given
  double alone = 0;            // rows more, in which columns have nothing to do with each other
  double *complete = nullptr;  // n x across
  double *mean = nullptr, *covariance = nullptr;
};

// For each row of Z the nearest rows of what is known, the nearest first. See opinions.cpp.
struct Nearest {
  int64_t n = 0, known = 0;
  int across = 0, count = 0;
  bool own = false;                             // whether Z is what is known: no row is its own neighbor
  const double *Z = nullptr, *among = nullptr;  // n x across, known x across
  int64_t *which = nullptr;                     // n x count
  double *apart = nullptr;                      // n x count: squares of distances
};

// What the neighbors of some rows have in some columns: sums of count times value where there is one, and of counts.
struct Among {
  int64_t places = 0;
  int across = 0, count = 0;
  const double *values = nullptr;                  // x across; NaN where there is none
  const int64_t *which = nullptr;                  // x count: the neighbors of each row
  const double *counts = nullptr;                  // x count, or missing: each counts 1
  const int64_t *rows = nullptr, *cols = nullptr;  // places
  double *sums = nullptr, *total = nullptr;
};
void among(const Among &job);

// Weights of some opinions beside a fit: see methods/blends.py.
inline constexpr int MOST_OPINIONS = 12;
struct Opinions {
  int64_t n = 0;
  int count = 0, rounds = 0;
  const double *error = nullptr, *toward = nullptr;  // n: of the fit; n x count: how much each would move it
  double bend = 0, equal = 0;  // beyond this errors count less; entries that equal weights count as
  double *weights = nullptr;   // 1 + count
};

// Good residuals and gross errors: see tails.cpp.
inline constexpr int MOST_BEGINS = 4;
struct TailsJob {
  int64_t n = 0;
  int begins = 0, rounds = 0;
  const float *power = nullptr, *densities = nullptr;  // n: |residual|^p; begins x n: of gross errors
  double p = 0, q = 0, peak = 0;                       // the shape of good ones, and their density at 0
  double most_share = 0, settled = 0;
  double *gross = nullptr;           // begins: shares of gross errors, the first ones and the last
  double times = 1, likelihood = 0;  // the unit that was found; the mean logarithm
};

// Pictures that move: see motion_jobs.hpp.
struct Follow;
struct Resample;
struct Shrink;
struct NoiseLevels;
struct Lasting;
struct Patches;

// Small matrices without noise, each solved and proven by itself: see small.cpp.
inline constexpr int MOST_SMALL_RANK = 8;
inline constexpr int TRACED = 4;  // numbers of a sweep: how far X moved, threshold, share of inliers, seconds

struct SmallPace {  // the constants of the closed loop that are used here, and those of its end
  double above, good, widest, high, above_high, fastest, rounding, decay, far, few_behind, widen, narrow, half, behind;
  double ridge;              // of the mean Gram matrix
  double settled;            // times tol: a sweep more would move less
  double resting, patience;  // residuals that fall less than this after so many sweeps are not those of exact data ...
  double small;              // ... unless they are below this, times the scale of the data
};

struct SmallProof {  // the constants of the certificate
  double agrees, nearly, far_off, between, on_their_way, oversampled, often, prior, nothing_else, lone, plenty,
      most_agree, alone, untold, most_fits, seldom;
  double gap;  // times: a component so much smaller than the one before may be one too many
};

struct SmallReport {
  double proven = 0, rank = 0, sweeps = 0, n_observed = 0, scale = 0, border = 0, agreeing = 0, oversampling = 0,
         between = 0, on_their_way = 0;
  double noise = 0;  // the root mean square of the residuals that agree
};

struct SmallMatrix {
  Dense data;
  int64_t n1 = 0, n2 = 0;
  double gain = 1;
  double *L = nullptr, *R = nullptr;  // room for n1 x highest and n2 x highest; n1 x rank and n2 x rank are written
  double *trace = nullptr;            // room for `most` lines of TRACED
  SmallReport *report = nullptr;
};

struct SmallJob {
  const SmallMatrix *matrices = nullptr;
  int64_t count = 0;
  int lowest = 1, highest = 1;     // ranks that are tried, in this order
  const double *random = nullptr;  // as many lines as the longest n2, x highest: where power iterations begin
  double tol = 0;                  // at least four times the rounding of the data
  int most = 0;                    // sweeps for a rank
  SmallPace pace;
  SmallProof proof;
  int threads = 1;
};

// The paper's LRMC on small matrices, each by itself: see layers.cpp.
inline constexpr int MORE_DIRECTIONS = 5;  // of the start than its rank, at most

struct LayersReport {
  enum Status { left = 0, converged, stalled, diverged, max_iter, ended };
  double status = left;                   // left: nothing was computed
  double layers = 0;                      // lines of the trace that were written
  double n_observed = 0;                  // entries
  double empty_rows = 0, empty_cols = 0;  // without an entry
  double apart_rows = 0, apart_cols = 0;  // with entries, which no chain connects with the largest column
};

template <class T> struct LayersMatrix {
  Dense data;
  int64_t n1 = 0, n2 = 0;
  double scale = 0;              // of the data: the median of |y|; 0 where it is to be found
  T *L = nullptr, *R = nullptr;  // n1 x rank, n2 x rank
  double *trace = nullptr;       // room for `most` lines of TRACED
  LayersReport *report = nullptr;
};

template <class T> struct Layers {
  const LayersMatrix<T> *matrices = nullptr;
  int64_t count = 0;
  int rank = 1, directions = 1;     // directions of the start
  const double *random = nullptr;   // n2 x directions: all matrices of a job have one shape
  const int64_t *places = nullptr;  // rows and columns that scales of data without gaps are taken from
  int64_t n_places = 0;
  double all_up_to = 0;  // observed entries: scales are taken from all of them, up to so many
  const double *zeta = nullptr, *eta = nullptr, *momentum = nullptr;  // one for each layer
  int most = 0;                                                       // layers
  bool goes_on = false;                                               // whether there would be more layers
  double zeta_0 = 0, start_gain = -1;                                 // gain: 1 / p where it is negative
  bool relative = true, tangent = false;                              // zeta in units of the scale, others of 1 / p
  double tol = 0, blown_up = 0, few_inliers = 0;
  int threads = 1;
};

// x = a x + b y.
template <class T> struct Mixed {
  int64_t n = 0;
  T *x = nullptr;
  const T *y = nullptr;
  T a = 1, b = 1;
};

// x += times y, and the product of x with a third array; each line of `across` numbers has the same `times` (1 where
// there are none).
template <class T> struct Added {
  int64_t lines = 0, across = 0;
  T *x = nullptr;
  const T *y = nullptr, *toward = nullptr, *times = nullptr;
};

// The code for one precision of the arithmetic.
template <class T> struct Passes {
  void (*dense)(const Dense &, const Products<T> &);
  void (*grouped)(const Dense &, const Groups &, const Products<T> &);
  void (*sparse)(const Sparse &, const Products<T> &);
  void (*slopes)(const Sparse &, const Products<T> &, const Slopes<T> &);
  void (*residual)(const Sparse &, const Products<T> &, T *out);
  void (*regress_dense)(const Dense &, const Regression<T> &);
  void (*regress_sparse)(const Sparse &, const Regression<T> &);
  void (*magnitudes_dense)(const Dense &, const Products<T> &, const Magnitudes<T> &);
  void (*magnitudes_sparse)(const Sparse &, const Products<T> &, const Magnitudes<T> &);
  void (*solve_rows)(const RowSystems<T> &);
  void (*step_rows)(const RowStep<T> &);
  void (*slope_rows)(const RowStep<T> &, const RowSlopes<T> &);
  void (*regressors)(const Regressors<T> &);
  void (*regressor_slopes)(const Regressors<T> &, const RegressorSlopes<T> &);
  void (*entries_at)(const Places<T> &);
  Refitted (*refit_dense)(const Dense &, const Refit<T> &);
  Refitted (*refit_sparse)(const Sparse &, const Refit<T> &);
  void (*times)(const Narrow<T> &);
  void (*cross)(const Narrow<T> &, double *G);
  void (*layer_rows)(const LayerRows<T> &);
  void (*layers)(const Layers<T> &);
  void (*mix)(const Mixed<T> &);
  double (*add)(const Added<T> &);
};

// One instruction set's copy of the code.
struct Kernels {
  const char *name;
  Passes<float> f32;
  Passes<double> f64;
  void (*survey)(const Dense &, int64_t n1, int64_t n2, Survey &, int threads);
  void (*small)(const SmallJob &);
  void (*compress)(const Dense &, int64_t n1, int64_t n2, const Compressed &);
  void (*gaps)(const Gaps &);
  void (*normal)(const Normal &);
  void (*nearest)(const Nearest &);
  void (*opinions)(const Opinions &);
  void (*tails)(TailsJob &);
  void (*follow)(const Follow &);
  void (*onto_canvas)(const Resample &);
  void (*from_canvas)(const Resample &);
  void (*shrink)(const Shrink &);
  void (*noise_levels)(const NoiseLevels &);
  void (*lasting)(const Lasting &);
  void (*patches)(const Patches &);
  template <class T> const Passes<T> &in() const {
    if constexpr (sizeof(T) == 4) return f32;
    else return f64;
  }
};

// Lines refitted to subsets of their entries (CSR): y_k = g_k . f but for outliers. F is replaced where more entries
// agree.
struct Consensus {
  int64_t n = 0;
  int rank = 0;
  const int64_t *indptr = nullptr;
  const int32_t *indices = nullptr;  // rows of G
  const double *values = nullptr;
  const double *G = nullptr;  // x rank
  double border = 0;          // residuals up to this agree
  int64_t draws = 0;          // of subsets, at most
  uint64_t seed = 0;
  double *F = nullptr;          // n x rank
  int64_t *agreeing = nullptr;  // n: entries that agree with F
  int threads = 1;
};
void consensus(const Consensus &job);

// A Gauss-Newton step for the entries of a CSR matrix whose residuals e = y - u . v and weights are given.
struct Newton {
  int64_t n1 = 0, n2 = 0;
  int rank = 0;
  const int64_t *indptr = nullptr;
  const int32_t *indices = nullptr;
  const double *errors = nullptr, *weights = nullptr;
  const double *U = nullptr, *V = nullptr;  // n1 x rank, n2 x rank
  double ridge = 0;
  double tol = 0;          // of the preconditioned residual, relative to the first one
  int64_t most = 0;        // iterations
  double *step = nullptr;  // (n1 + n2) x rank
};
int64_t newton(const Newton &job);

namespace baseline {
extern const Kernels kernels;
}
#if defined(LRMC_AVX2) || LRMC_VECTOR_BYTES == 64  // whoever has AVX-512 has it too
namespace avx2 {
extern const Kernels kernels;
}
#endif
#ifdef LRMC_AVX512
namespace avx512 {
extern const Kernels kernels;
}
#endif

}  // namespace lrmc
