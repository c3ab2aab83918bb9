// Whether a fit to a small matrix proves itself: what methods/certificate.py asks, without its milder cases.
#pragma once
#include "eigen.hpp"
#include "small_fit.hpp"

namespace lrmc::LRMC_ISA {
namespace {

// How many entries of a line must agree to vouch for it: `proving` of the certificate.
double proving(double observed, int rank, double chance, const SmallProof &proof) {
  const double expected = observed * chance;
  double fits = 1, extra = 2;
  for (int k = 0; k < rank; k++) fits = std::min(fits * std::max(observed - k, 1.0) / (k + 1), proof.most_fits);
  double odds = fits * expected * std::exp(-expected);
  for (int k = 2; k < 40; k++) {
    odds *= expected / k;
    if (odds > proof.seldom) extra = k + 1;
  }
  return rank + (expected > 10 ? expected + 8 * std::sqrt(expected) + 16 : extra);
}

// Whether a value stands in many of the places that were looked at: half as often as counts, to be on the safe side.
bool repeats(Entries &data, double often) {
  constexpr int SLOTS = SAMPLE, n_most = SAMPLE / 2;
  double values[SLOTS];
  uint16_t counts[SLOTS] = {};
  const int n = std::min(data.sample.n, n_most);
  for (int i = 0; i < n; i++) {
    const double value = data.given(i);
    uint64_t key;
    std::memcpy(&key, &value, 8);
    uint64_t at = key * 0x9E3779B97F4A7C15u >> 54;
    while (counts[at] && values[at] != value) at = (at + 1) % SLOTS;
    values[at] = value;
    if (++counts[at] > std::max(1.0, 0.5 * often * n)) return true;
  }
  return false;
}

// Sums of x x' over some vectors, and how much each of these tells alone.
template <int R> struct Leverage {
  double U[R * R] = {}, largest = 0;
  bool told = true;  // every direction
  void add(const double *x) {
    for (int a = 0; a < R; a++)
      for (int b = a; b < R; b++) U[a * R + b] += x[a] * x[b];
  }
  void factor(double untold) {
    double most = 0;
    for (int a = 0; a < R; a++) most = std::max(most, U[a * R + a]);
    cholesky(U, R);
    for (int a = 0; a < R; a++) told = told && U[a * R + a] > 0 && 1 / U[a * R + a] > untold * most;
  }
  double of(const double *x) const {
    double y[R], dot = 0;
    std::copy_n(x, R, y);
    substitute(U, R, y);
    for (int a = 0; a < R; a++) dot += x[a] * y[a];
    return dot;
  }
};

// Lines of one side, as the proof looks at them: `F` their factor, `G` that of the other side. The data are residuals.
template <int R> struct Side {
  int64_t n, across;
  const Real *observed, *met;
  const double *F, *G;
  const Entries &data;
  bool by_rows;
  double near;

  // The line meets more entries than any fit could, and no direction of it hangs on one of them.
  bool vouched_for(const SmallProof &proof, double chance, bool outliers) const {
    Leverage<R> all;
    for (int64_t i = 0; i < n; i++) all.add(F + i * R);
    all.factor(0);
    double last = -1, wanted = 0;
    for (int64_t i = 0; i < n; i++) {
      const bool whole = met[i] == observed[i];
      if (observed[i] != last) wanted = proving(last = observed[i], R, chance, proof);
      if (observed[i] == 0 || (met[i] < wanted && !(whole && met[i] > R))) return false;
      if (outliers && all.of(F + i * R) > 1 - proof.lone) return false;
      const bool few = met[i] < proof.plenty * (R + 2) || met[i] < proof.most_agree * observed[i];
      if (!whole && few && hangs(i, proof)) return false;
    }
    return true;
  }

 private:
  bool agrees(int64_t i, int64_t j) const { return std::fabs(by_rows ? data.at(i, j) : data.at(j, i)) <= near; }
  bool hangs(int64_t i, const SmallProof &proof) const {
    Leverage<R> seen;
    for (int64_t j = 0; j < across; j++)
      if (agrees(i, j)) seen.add(G + j * R);
    seen.factor(proof.untold);
    if (!seen.told) return true;
    for (int64_t j = 0; j < across; j++)
      if (agrees(i, j) && seen.of(G + j * R) > proof.alone) return true;
    return false;
  }
};

// Counts of residuals within four borders; by row and column, of those within the second, and the sum of their squares.
// All that was found is settled, so that the data are its residuals.
template <int R> double Fit<R>::count_within(const double *edges, double *within) {
  Lanes edge[4], squares = {};
  Flags counts[4] = {};
  for (int k = 0; k < 4; k++) edge[k] = fill<Real>(Real(edges[k]));
  std::vector<int32_t> of_columns(data.n2 * W);
  together<4>(0, data.blocks, [&](int64_t b, auto count) {
    constexpr int U = count;
    Flags met[U] = {};
    for (int64_t j = 0; j < data.n2; j++) {
      Flags of_column = load<Flags>(&of_columns[j * W]);
#pragma GCC unroll 4
      for (int u = 0; u < U; u++) {
        const Lanes size = magnitude(load<Lanes>(data.block(b + u, j))), none = {};
        const Flags agrees = size <= edge[1];  // -1 where it holds
        counts[0] -= size <= edge[0];
        for (int k = 2; k < 4; k++) counts[k] -= size <= edge[k];
        met[u] -= agrees;
        of_column -= agrees;
        const Lanes near = agrees ? size : none;
        squares += near * near;
      }
      store(&of_columns[j * W], of_column);
    }
    for (int u = 0; u < U; u++) {
      store(row_inliers + (b + u) * W, __builtin_convertvector(met[u], Lanes));
      counts[1] += met[u];
    }
  });
  const auto total = [](Flags counted) { return sum<Real>(__builtin_convertvector(counted, Lanes)); };
  for (int64_t j = 0; j < data.n2; j++) col_inliers[j] = total(load<Flags>(&of_columns[j * W]));
  for (int k = 0; k < 4; k++) within[k] = total(counts[k]);
  return sum<Real>(squares);
}

// The squares of the singular values of L R', in order, the largest first: eigenvalues of C R'R C', where C'C = L'L.
template <int R> std::array<double, R> squares(const double *L, int64_t n1, const double *F, int64_t n2) {
  Leverage<R> left, right;
  for (int64_t i = 0; i < n1; i++) left.add(L + i * R);
  for (int64_t j = 0; j < n2; j++) right.add(F + j * R);
  left.factor(0);
  double C[R][R] = {}, A[R][R] = {};
  for (int a = 0; a < R; a++) {  // row a of the factor: 1 and what is right of it, times the root of the pivot
    const double inverse = left.U[a * R + a], root = inverse > 0 ? 1 / std::sqrt(inverse) : 0;
    for (int b = a; b < R; b++) C[a][b] = root * (a == b ? 1 : left.U[a * R + b]);
  }
  for (int a = 0; a < R; a++)
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++)
        for (int d = 0; d < R; d++) A[a][b] += C[a][c] * right.U[std::min(c, d) * R + std::max(c, d)] * C[b][d];
  eigen(R, A[0]);
  std::array<double, R> found;
  for (int a = 0; a < R; a++) found[a] = A[a][a];
  std::sort(found.rbegin(), found.rend());
  return found;
}

// A component far smaller than the one before may be one too many, made of outliers.
template <int R> bool has_gap(const std::array<double, R> &found, double gap) {
  for (int a = 1; a < R; a++)
    if (!(found[a - 1] <= gap * gap * found[a])) return true;
  return !(found[R - 1] > 0);
}

template <int R> bool Fit<R>::proven(const SmallProof &proof, double border, SmallReport &told) {
  const double near = proof.nearly * border, n1 = double(data.n1), n2 = double(data.n2);
  const double edges[4] = {border, near, proof.far_off * border, 2 * proof.far_off * border};
  double within[4];
  settle();
  const double sum_of_squares = count_within(edges, within);
  const double all = data.n_observed, off = all - within[1], free = R * (n1 + n2 - R);
  told.agreeing = within[1] / all;
  told.oversampling = within[1] / free;
  told.between = (within[2] - within[0]) / all;
  told.on_their_way = told.between - 2 * (within[3] - within[2]) / all;
  told.border = data.unit * near;
  told.noise = within[1] > 0 ? data.unit * std::sqrt(sum_of_squares / within[1]) : 0;
  if (told.agreeing <= 0.5 || told.oversampling < proof.oversampled || told.between > proof.between ||
      told.on_their_way > proof.on_their_way)
    return false;
  if (repeats(data, proof.often)) return false;
  const double seen = (within[2] - within[1]) / (proof.far_off / proof.nearly - 1);
  const double chance = (proof.prior * near / data.scale + seen) / (proof.prior + off);
  const bool outliers = off >= proof.nothing_else * all;
  if (has_gap<R>(squares<R>(model_L, data.n1, model_F, data.n2), proof.gap) || !connected<Real>(data)) return false;
  const Side<R> rows{data.n1, data.n2, data.row_observed, row_inliers, model_L, model_F, data, true, near};
  const Side<R> cols{data.n2, data.n1, data.col_observed, col_inliers, model_F, model_L, data, false, near};
  return rows.vouched_for(proof, chance, outliers) && cols.vouched_for(proof, chance, outliers);
}

}  // namespace
}  // namespace lrmc::LRMC_ISA
