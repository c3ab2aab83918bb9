// Many small symmetric systems, one per row of a factor, by Cholesky in double precision.
#include <vector>
#include "cholesky.hpp"
#include "kernels.hpp"
#include "team.hpp"

namespace lrmc {

template <class T> void solve_rows(const RowSystems &systems, const T *H, const T *B, T *X) {
  const int r = systems.rank, q = r * (r + 1) / 2, threads = shares_of(systems.threads, systems.n);
  std::vector<std::vector<double>> inverses(threads, std::vector<double>(r * r, 0.0));
  std::vector<int64_t> counts(threads, 0);
  in_shares(threads, [&](int t) {
    std::vector<double> A(r * r), x(r);
    for (int64_t i = systems.n * t / threads; i < systems.n * (t + 1) / threads; i++) {
      if (!systems.used[i]) {
        for (int k = 0; k < r; k++) X[i * r + k] = 0;
        continue;
      }
      const T *h = H + i * q;
      for (int a = 0; a < r; a++)
        for (int b = a; b < r; b++) A[a * r + b] = double(*h++) + systems.ridge[a * r + b];
      cholesky(A.data(), r);
      for (int k = 0; k < r; k++) x[k] = double(B[i * r + k]);
      substitute(A.data(), r, x.data());
      for (int k = 0; k < r; k++) X[i * r + k] = T(x[k]);
      counts[t]++;
      if (!systems.mean_inverse) continue;
      for (int k = 0; k < r; k++) {
        for (int a = 0; a < r; a++) x[a] = a == k;
        substitute(A.data(), r, x.data());
        for (int a = 0; a < r; a++) inverses[t][k * r + a] += x[a];
      }
    }
  });
  if (!systems.mean_inverse) return;
  int64_t count = 0;
  for (auto c : counts) count += c;
  for (int k = 0; k < r * r; k++) {
    double sum = 0;
    for (auto &inverse : inverses) sum += inverse[k];
    systems.mean_inverse[k] = count ? sum / double(count) : 0;
  }
}
template void solve_rows<float>(const RowSystems &, const float *, const float *, float *);
template void solve_rows<double>(const RowSystems &, const double *, const double *, double *);

}  // namespace lrmc
