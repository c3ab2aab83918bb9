// Where layers on a small matrix begin, with the algebra that its start and its layers share.
#pragma once
#include "eigen.hpp"
#include "small_entries.hpp"

namespace lrmc::LRMC_ISA {
namespace {

constexpr int MOST_DIRECTIONS = MOST_SMALL_RANK + MORE_DIRECTIONS;
constexpr int64_t SETTLED_BLOCKS = 128;  // of rows: then sums go on in double precision

// ---- matrices of a few rows and columns, row after row: one copy of the code for all ranks
#define ONE_COPY __attribute__((noinline))

// X' Z, where X is n x k and Z n x m.
ONE_COPY void cross(const double *X, const double *Z, int64_t n, int k, int m, double *out) {
  std::fill_n(out, k * m, 0.0);
  for (int64_t i = 0; i < n; i++)
    for (int a = 0; a < k; a++)
      for (int b = 0; b < m; b++) out[a * m + b] += X[i * k + a] * Z[i * m + b];
}
// X S, where S is k x m.
ONE_COPY void times(const double *X, const double *S, int64_t n, int k, int m, double *out) {
  for (int64_t i = 0; i < n; i++)
    for (int b = 0; b < m; b++) {
      double sum = 0;
      for (int a = 0; a < k; a++) sum += X[i * k + a] * S[a * m + b];
      out[i * m + b] = sum;
    }
}
double dot(const double *x, const double *y, int n) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += x[k] * y[k];
  return sum;
}
double root_of(double square) { return square <= 0 ? 0 : std::sqrt(square); }  // NaN stays NaN

// Directions of a Gram matrix G of n rows of this precision, in the order of its eigenvalues, the largest first; those
// that are rounding are left out.
struct Spectrum {
  int n, count = 0;
  double values[MOST_DIRECTIONS], vectors[MOST_DIRECTIONS * MOST_DIRECTIONS];  // a column for each value

  ONE_COPY Spectrum(const double *G, int size, double negligible) : n(size) {
    double A[MOST_DIRECTIONS * MOST_DIRECTIONS], V[MOST_DIRECTIONS * MOST_DIRECTIONS];
    int order[MOST_DIRECTIONS];
    std::copy_n(G, n * n, A);
    eigen(n, A, V);
    for (int k = 0; k < n; k++) {  // by insertion: there are few
      int at = k;
      for (; at > 0 && A[order[at - 1] * n + order[at - 1]] < A[k * n + k]; at--) order[at] = order[at - 1];
      order[at] = k;
    }
    const double least = n ? negligible * std::max(A[order[0] * n + order[0]], 0.0) : 0;
    for (int k = 0; k < n && A[order[k] * n + order[k]] > least; k++) {
      values[count] = A[order[k] * n + order[k]];
      for (int a = 0; a < n; a++) vectors[a * n + count] = V[a * n + order[k]];
      count++;
    }
  }
  // The columns of X T are orthonormal, where G = X' X.
  void whitening(double *T) const {
    for (int a = 0; a < n; a++)
      for (int k = 0; k < count; k++) T[a * count + k] = vectors[a * n + k] / std::sqrt(values[k]);
  }
  ONE_COPY void inverse(double *out) const {
    std::fill_n(out, n * n, 0.0);
    for (int k = 0; k < count; k++)
      for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) out[a * n + b] += vectors[a * n + k] * vectors[b * n + k] / values[k];
  }
};

template <class T> double negligible(int64_t rows) {
  const double eps = std::numeric_limits<T>::epsilon();
  return std::max(double(rows) * eps * eps, 64 * std::numeric_limits<double>::epsilon());
}
bool all_finite(const double *x, int n) {
  return std::all_of(x, x + n, [](double y) { return std::isfinite(y); });
}

// ---- rows in lanes

// f(b, U) for some blocks of rows at a time, U of them as a constant, and settle() now and then.
template <int U, class F, class S> void over_rows(int64_t blocks, F f, S settle) {
  for (int64_t first = 0; first < blocks; first += SETTLED_BLOCKS) {
    const int64_t last = std::min(blocks, first + SETTLED_BLOCKS);
    int64_t b = first;
    for (; b + U <= last; b += U) f(b, std::integral_constant<int, U>{});
    for (; b < last; b++) f(b, std::integral_constant<int, 1>{});
    settle();
  }
}
// Adds what sums in lanes have had of some rows, and empties them.
template <class T> void settle(T *sums, int64_t n, double *out) {
  constexpr int W = width<T>;
  for (int64_t k = 0; k < n; k++) {
    out[k] += double(sum<T>(load<Vec<T>>(sums + k * W)));
    store(sums + k * W, Vec<T>{});
  }
}
template <class V> V clipped(V e, V z) { return smaller(larger(e, -z), z); }

// The best approximation of gain * clip(Y, -zeta, zeta) of some rank, balanced, by one round of power iteration.
template <class T> class Start {
  static constexpr int W = width<T>;
  using V = Vec<T>;
  const InLanes<T> &data;
  const bool complete;
  T *numbers, *sums;      // of columns, in single precision and in lanes
  std::vector<double> D;  // C' B

 public:
  T *B;                         // C Q: blocks x count x W
  int count = 0;                // of directions
  std::vector<double> columns;  // n2 x rank; rows are B left
  double left[MOST_DIRECTIONS * MOST_SMALL_RANK];

  static size_t size(int64_t n1, int64_t n2) {  // in doubles
    const int64_t padded = (n1 + W - 1) / W * W;
    return size_t(padded * MOST_DIRECTIONS + n2 * MOST_DIRECTIONS * (W + 1)) * sizeof(T) / 8 + 64;
  }
  Start(const InLanes<T> &data_, bool complete_, Room &room) : data(data_), complete(complete_) {
    numbers = room.take_as_is<T>(data.n2 * MOST_DIRECTIONS);
    sums = room.take<T>(data.n2 * MOST_DIRECTIONS * W);
    B = room.take_as_is<T>(data.blocks * W * MOST_DIRECTIONS);
  }

  // Each look at the data makes C Q and C' (C Q) together. False where numbers are not finite.
  bool find(const Layers<T> &job, double zeta, double gain) {
    std::vector<double> Q(job.random, job.random + data.n2 * job.directions);
    double G[MOST_DIRECTIONS * MOST_DIRECTIONS], S[MOST_DIRECTIONS * MOST_DIRECTIONS];
    count = job.directions;
    twice(T(zeta), Q, G);
    if (!all_finite(G, count * count)) return false;
    const auto [CtP, parts] = looked_at(G, S);
    cross(CtP.data(), CtP.data(), data.n2, parts, parts, G);
    const Spectrum turned(G, parts, negligible<T>(data.n2));
    turned.whitening(S);
    Q.resize(data.n2 * turned.count);
    times(CtP.data(), S, data.n2, parts, turned.count, Q.data());
    count = turned.count;
    twice(T(zeta), Q, G);
    if (!all_finite(G, count * count)) return false;
    truncate(G, job.rank, gain);
    return true;
  }

 private:
  struct Looked {
    std::vector<double> CtP;
    int parts;
  };
  // C' P and S, where P = B S has orthonormal columns and G = B' B.
  Looked looked_at(const double *G, double *S) const {
    const Spectrum found(G, count, negligible<T>(data.n1));
    found.whitening(S);
    Looked out{std::vector<double>(data.n2 * found.count), found.count};
    times(D.data(), S, data.n2, count, found.count, out.CtP.data());
    return out;
  }

  // The balanced factors of the best part of P (C' P)' of this rank.
  void truncate(const double *G, int rank, double gain) {
    double S[MOST_DIRECTIONS * MOST_DIRECTIONS], K[MOST_DIRECTIONS * MOST_DIRECTIONS];
    double right[MOST_DIRECTIONS * MOST_SMALL_RANK] = {};
    const auto [CtP, n] = looked_at(G, S);
    cross(CtP.data(), CtP.data(), data.n2, n, n, K);
    const Spectrum parts(K, n, 0);
    std::fill_n(left, count * rank, 0.0);
    for (int k = 0; k < std::min(rank, parts.count); k++) {
      const double s = std::sqrt(parts.values[k]), root = std::sqrt(gain * s);
      for (int a = 0; a < count; a++) {
        double turned = 0;
        for (int c = 0; c < n; c++) turned += S[a * n + c] * parts.vectors[c * n + k];
        left[a * rank + k] = root * turned;
        right[a * rank + k] = root / s * turned;
      }
    }
    columns.resize(data.n2 * rank);
    times(D.data(), right, data.n2, count, rank, columns.data());
  }

  // B = C Q, D = C' B and G = B' B.
  void twice(T zeta, const std::vector<double> &Q, double *G) {
    const int n = count;
    constexpr int K = 4;  // columns at a time
    const V z = fill<T>(zeta);
    D.assign(data.n2 * n, 0);
    std::fill_n(G, n * n, 0.0);
    std::copy(Q.begin(), Q.end(), numbers);
    V grams[MOST_DIRECTIONS * MOST_DIRECTIONS];
    std::fill_n(grams, n * n, V{});
    const auto some = [&](int64_t b, auto together, int first, auto width) {
      constexpr int U = together, N = width;
      V x[U][N] = {};
      for (int64_t j = 0; j < data.n2; j++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const V y = load<V>(data.block(b + u, j)), c = complete ? clipped(y, z) : y == y ? clipped(y, z) : V{};
#pragma GCC unroll 4
          for (int k = 0; k < N; k++) x[u][k] += c * numbers[j * n + first + k];
        }
      for (int u = 0; u < U; u++)
        for (int k = 0; k < N; k++) store(B + ((b + u) * n + first + k) * W, x[u][k]);
      for (int64_t j = 0; j < data.n2; j++) {
        T *out = sums + (j * n + first) * W;
        V found[N];
        for (int k = 0; k < N; k++) found[k] = load<V>(out + k * W);
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) {
          const V y = load<V>(data.block(b + u, j)), c = complete ? clipped(y, z) : y == y ? clipped(y, z) : V{};
#pragma GCC unroll 4
          for (int k = 0; k < N; k++) found[k] += c * x[u][k];
        }
        for (int k = 0; k < N; k++) store(out + k * W, found[k]);
      }
    };
    over_rows<2>(
        data.blocks,
        [&](int64_t b, auto together) {
          int first = 0;
          for (; first + K <= n; first += K) some(b, together, first, std::integral_constant<int, K>{});
          if (n - first >= 2) some(b, together, first, std::integral_constant<int, 2>{}), first += 2;
          if (n > first) some(b, together, first, std::integral_constant<int, 1>{});
          for (int u = 0; u < together; u++)
            for (int k = 0; k < n; k++)
              for (int m = k; m < n; m++)
                grams[k * n + m] += load<V>(B + ((b + u) * n + k) * W) * load<V>(B + ((b + u) * n + m) * W);
        },
        [&] {
          settle(sums, data.n2 * n, D.data());
          for (int k = 0; k < n * n; k++) {
            G[k] += double(sum<T>(grams[k]));
            grams[k] = V{};
          }
        });
    for (int k = 0; k < n; k++)
      for (int m = 0; m < k; m++) G[k * n + m] = G[m * n + k];
  }
};

}  // namespace
}  // namespace lrmc::LRMC_ISA
