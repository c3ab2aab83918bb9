// Many small symmetric systems, one per row of a factor, in the lanes of vectors. Compiled once for each instruction
// set.
#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "systems.hpp"

namespace lrmc::LRMC_ISA {
namespace {

// Rows that are computed together: `count` of them from `first` on, and 1 in the lanes of those that are used.
struct Some {
  int64_t first;
  int count;
  double used[LANES];
  Some(int64_t first_, int64_t n, const uint8_t *flags)
      : first(first_), count(int(std::min<int64_t>(LANES, n - first_))), used{} {
    for (int w = 0; w < count; w++) used[w] = flags[first + w] ? 1.0 : 0.0;
  }
  // `width` numbers of each row; 0 for rows that are not used
  template <class T> void read(const T *X, int width, Numbers out) const {
    for (int w = 0; w < LANES; w++)
      for (int k = 0; k < width; k++) out.at[k * LANES + w] = used[w] != 0 ? double(X[(first + w) * width + k]) : 0.0;
  }
  template <class T> void write(Numbers X, int width, T *out) const {
    for (int w = 0; w < count; w++)
      for (int k = 0; k < width; k++) out[(first + w) * width + k] = T(X.at[k * LANES + w]);
  }
  Lanes mask() const { return load<Lanes>(used); }
};

double total(Lanes x) { return sum<double>(x); }

// What the shares of the work add up to: `numbers` sums of each.
struct Totals {
  std::vector<std::vector<double>> shares;
  Totals(int threads, int64_t numbers) : shares(threads, std::vector<double>(numbers, 0.0)) {}
  double operator[](int64_t k) const {
    double sum = 0;
    for (auto &share : shares) sum += share[k];
    return sum;
  }
};

// work(some, share) for all rows, LANES at a time.
template <class Work> void in_lanes(int threads, int64_t n, const uint8_t *used, Work work) {
  const int64_t groups = (n + LANES - 1) / LANES;
  in_shares(threads, [&](int t) {
    work(t, [&](auto each) {
      for (int64_t g = groups * t / threads; g < groups * (t + 1) / threads; g++) each(Some(g * LANES, n, used));
    });
  });
}
int shares_in_lanes(int threads, int64_t n) { return shares_of(threads, (n + LANES - 1) / LANES); }

void symmetric(const Totals &sums, int r, double scale, double *out) {
  int64_t k = 0;
  for (int a = 0; a < r; a++)
    for (int b = a; b < r; b++, k++) out[a * r + b] = out[b * r + a] = scale * sums[k];
}

}  // namespace

// ---- plain systems

template <class T> void solve_rows(const RowSystems<T> &job) {
  const int r = job.rank, q = triangle(r), threads = shares_in_lanes(job.threads, job.n);
  Totals inverses(threads, job.mean_inverse ? q : 0);
  in_lanes(threads, job.n, job.used, [&](int t, auto for_each) {
    Scratch scratch(Systems::room(r) + r + (job.mean_inverse ? q : 0) + (job.inverses ? q : 0));
    const Systems systems(r, scratch);
    const Numbers x = scratch.take(r), sums = scratch.take(job.mean_inverse ? q : 0);
    const Numbers inverse = scratch.take(job.inverses ? q : 0);
    for_each([&](const Some &some) {
      some.read(job.H, q, systems.A);
      for (int a = 0, k = 0; a < r; a++)
        for (int b = a; b < r; b++, k++) systems.A.add(k, fill<double>(job.ridge[a * r + b]));
      systems.factor();
      if (job.inverses) {
        systems.invert([&](int a, int b, Lanes x) { inverse.set(systems.place(a, b), some.mask() * x); });
        return some.write(inverse, q, job.inverses);
      }
      some.read(job.B, r, x);
      systems.solve(x);
      some.write(x, r, job.X);
      if (!job.mean_inverse) return;
      systems.invert([&](int a, int b, Lanes x) { sums.add(systems.place(a, b), some.mask() * x); });
    });
    for (size_t k = 0; k < inverses.shares[t].size(); k++) inverses.shares[t][k] = total(sums[k]);
  });
  if (!job.mean_inverse) return;
  const int64_t count = std::count_if(job.used, job.used + job.n, [](uint8_t flag) { return flag != 0; });
  symmetric(inverses, r, count ? 1 / double(count) : 0.0, job.mean_inverse);
}

// ---- the rows of half a layer

namespace {

// H_i = precision_i grams_i + ridge and what a row is, in lanes.
template <class T> struct LayerRows {
  const RowStep<T> &job;
  const int r = job.rank, q = triangle(r);
  Scratch scratch;
  const Systems systems;
  const Numbers F, away, x, turned, grams;
  Lanes precision = {}, weight = {};  // of the row, and the sum of its weights in its own unit

  LayerRows(const RowStep<T> &job_, int64_t more)
      : job(job_),
        scratch(Systems::room(job.rank) + 4 * job.rank + triangle(job.rank) + 1 + more),
        systems(r, scratch),
        F(scratch.take(r)),
        away(scratch.take(r)),
        x(scratch.take(r)),
        turned(scratch.take(r)),
        grams(scratch.take(q + 1)) {}

  void begin(const Some &some) {
    double units[LANES] = {};
    for (int w = 0; w < some.count; w++) units[w] = some.used[w] != 0 ? job.precision[some.first + w] : 0.0;
    precision = load<Lanes>(units);
    some.read(job.F, r, F);
    some.read(job.grams, q + 1, grams);
    weight = precision * grams[q];
    for (int a = 0, k = 0; a < r; a++) {
      away.set(a, some.mask() * (F[a] - job.mean[a]));
      for (int b = a; b < r; b++, k++) systems.A.set(k, precision * grams[k] + job.ridge[a * r + b]);
    }
    times(job.coupling, F, turned);
    systems.factor();
  }
  void times(const double *M, Numbers from, Numbers out) const {  // M symmetric
    dots(
        r, 0, r, from, [&](int a, int b) { return fill<double>(M[a * r + b]); },
        [&](int a, Lanes sum) { out.set(a, sum); });
  }
};

}  // namespace

namespace {

// Inverses are most of the work, and only their sum is wanted: of many rows, some blocks here and there tell it.
class Inverted {
  static constexpr int64_t ENOUGH = 4096, BLOCK = 16;  // rows: their mean is within 1 to 2 % of that of all
  const int64_t n;

 public:
  explicit Inverted(int64_t n_) : n(n_) {}
  bool operator()(const Some &some) const {  // the same blocks whatever the lanes and threads; n / ENOUGH to 1
    const uint32_t mixed = uint32_t(some.first / BLOCK) * 2654435769u;  // golden ratio: spread evenly
    return n <= 2 * ENOUGH || mixed < uint32_t(double(UINT32_MAX) * ENOUGH / double(n));
  }
};

}  // namespace

template <class T> void step_rows(const RowStep<T> &job) {
  const int r = job.rank, q = triangle(r), threads = shares_in_lanes(job.threads, job.n);
  Totals inverses(threads, q + 1);  // and how many rows they are of
  const Inverted inverted(job.n);
  in_lanes(threads, job.n, job.used, [&](int t, auto for_each) {
    LayerRows<T> rows(job, 2 * r + q + 1);
    const Systems &systems = rows.systems;
    const Numbers pulled = rows.scratch.take(r), after = rows.scratch.take(r), sums = rows.scratch.take(q + 1);
    for_each([&](const Some &some) {
      rows.begin(some);
      some.read(job.pull, r, pulled);
      rows.times(job.ridge, rows.away, after);
      for (int a = 0; a < r; a++) rows.x.set(a, rows.precision * pulled[a] - rows.weight * rows.turned[a] - after[a]);
      systems.solve(rows.x);
      some.write(rows.x, r, job.step);
      for (int a = 0; a < r; a++) after.set(a, rows.F[a] + job.eta * rows.x[a] + (1 - some.mask()) * job.mean[a]);
      some.write(after, r, job.after);
      if (!inverted(some)) return;
      systems.invert([&](int a, int b, Lanes x) { sums.add(systems.place(a, b), some.mask() * x); });
      sums.add(q, some.mask());
    });
    for (int k = 0; k <= q; k++) inverses.shares[t][k] = total(sums[k]);
  });
  const int64_t used = std::count_if(job.used, job.used + job.n, [](uint8_t flag) { return flag != 0; });
  symmetric(inverses, r, inverses[q] > 0 ? double(used) / inverses[q] : 0.0, job.inverse);
}

namespace {

// out = X K X, of which the upper triangle is made; X is symmetric and full, K symmetric.
void between(Numbers X, const double *K, int r, Numbers column, Numbers out) {
  for (int b = 0; b < r; b++) {
    const Numbers x = X.from(int64_t(b) * r);
    dots(
        r, 0, r, x, [&](int a, int k) { return fill<double>(K[a * r + k]); },
        [&](int a, Lanes sum) { column.set(a, sum); });
    dots(
        b + 1, 0, r, column, [&](int a, int k) { return X[int64_t(a) * r + k]; },
        [&](int a, Lanes sum) { out.set(int64_t(a) * r - int64_t(a) * (a - 1) / 2 + b - a, sum); });
  }
}

}  // namespace

template <class T> void slope_rows(const RowStep<T> &job, const RowSlopes<T> &out) {
  const int r = job.rank, q = triangle(r), square = r * r, threads = shares_in_lanes(job.threads, job.n);
  const bool spreads = std::any_of(out.of_inverse, out.of_inverse + square, [](double x) { return x != 0; });
  Totals totals(threads, 2 * square + r);  // of ridge, coupling and mean
  in_lanes(threads, job.n, job.used, [&](int t, auto for_each) {
    LayerRows<T> rows(job, 4 * r + square + (q + 1) + 2 * square + r);
    const Systems &systems = rows.systems;
    Scratch &scratch = rows.scratch;
    const Numbers late = scratch.take(r), step = scratch.take(r), of_F = scratch.take(r), column = scratch.take(r);
    const Numbers inverse = scratch.take(square), of_H = scratch.take(q + 1);
    const Numbers of_ridge = scratch.take(square), of_coupling = scratch.take(square), of_mean = scratch.take(r);
    const Numbers &pull = rows.x;
    for_each([&](const Some &some) {
      rows.begin(some);
      some.read(out.of_after, r, late);
      some.read(out.step, r, step);
      for (int a = 0; a < r; a++) pull.set(a, job.eta * late[a]);
      systems.solve(pull);
      if (spreads) {
        systems.invert([&](int a, int b, Lanes x) {
          inverse.set(a * r + b, some.mask() * x);
          inverse.set(b * r + a, some.mask() * x);
        });
        between(inverse, out.of_inverse, r, column, of_H);
      }
      for (int a = 0, k = 0; a < r; a++)
        for (int b = a; b < r; b++, k++) {  // what is off the diagonal stands for two
          const Lanes both = (pull[a] * step[b] + pull[b] * step[a]) / 2, x = spreads ? -of_H[k] - both : -both;
          of_ridge.add(a * r + b, x);
          if (a != b) of_ridge.add(b * r + a, x);
          of_H.set(k, (a == b ? 1.0 : 2.0) * rows.precision * x);
        }
      Lanes of_sums = {};
      rows.times(job.ridge, pull, of_F);
      rows.times(job.coupling, pull, column);
      for (int a = 0; a < r; a++) {
        of_sums -= pull[a] * rows.turned[a];
        of_mean.add(a, of_F[a]);
        of_F.set(a, late[a] - of_F[a] - rows.weight * column[a]);
        for (int b = 0; b < r; b++) {
          of_ridge.add(a * r + b, -pull[a] * rows.away[b]);
          of_coupling.add(a * r + b, -rows.weight * pull[a] * rows.F[b]);
        }
      }
      of_H.set(q, rows.precision * of_sums);
      for (int a = 0; a < r; a++) pull.set(a, rows.precision * pull[a]);
      some.write(of_F, r, out.F);
      some.write(pull, r, out.pull);
      some.write(of_H, q + 1, out.grams);
    });
    double *sums = totals.shares[t].data();
    for (int k = 0; k < square; k++) {
      sums[k] = total(of_ridge[k]);
      sums[square + k] = total(of_coupling[k]);
    }
    for (int k = 0; k < r; k++) sums[2 * square + k] = total(of_mean[k]);
  });
  for (int k = 0; k < square; k++) {
    out.ridge[k] = totals[k];
    out.coupling[k] = totals[square + k];
  }
  for (int k = 0; k < r; k++) out.mean[k] = totals[2 * square + k];
}

// ---- what Gram matrices are made of

template <class T> void regressors(const Regressors<T> &job) {
  const int r = job.rank, q = triangle(r), threads = shares_of(job.threads, job.n);
  in_shares(threads, [&](int t) {
    for (int64_t i = job.n * t / threads; i < job.n * (t + 1) / threads; i++) {
      const T precision = T(job.precision[i]), *f = job.F + i * r;
      T *square = job.squares + i * (q + 1);
      for (int a = 0; a < r; a++) {
        job.plain[i * r + a] = precision * f[a];
        for (int b = a; b < r; b++) *square++ = precision * (f[a] * f[b] + T(job.coupling[a * r + b]));
      }
      *square = precision;
    }
  });
}

template <class T> void regressor_slopes(const Regressors<T> &job, const RegressorSlopes<T> &out) {
  const int r = job.rank, q = triangle(r), threads = shares_of(job.threads, job.n);
  Totals sums(threads, q);
  in_shares(threads, [&](int t) {
    std::vector<double> g(q), f(r), slope(r);
    for (int64_t i = job.n * t / threads; i < job.n * (t + 1) / threads; i++) {
      const double precision = job.precision[i];
      double *total = sums.shares[t].data();
      for (int k = 0; k < q; k++) total[k] += g[k] = precision * double(out.grams[i * (q + 1) + k]);
      for (int a = 0; a < r; a++) {
        f[a] = double(job.F[i * r + a]);
        slope[a] = precision * double(out.pull[i * r + a]);
      }
      for (int a = 0, k = 0; a < r; k += r - a, a++) {  // d (f_a f_b) = f_a df_b + f_b df_a
        const double *line = g.data() + k - a;
        double sum = 0;
        for (int b = a; b < r; b++) {
          sum += line[b] * f[b];
          slope[b] += line[b] * f[a];
        }
        slope[a] += sum;
      }
      std::copy(slope.begin(), slope.end(), out.F + i * r);
    }
  });
  for (int a = 0, k = 0; a < r; a++)
    for (int b = a; b < r; b++, k++) out.coupling[a * r + b] = out.coupling[b * r + a] = sums[k] / (a == b ? 1 : 2);
}

// ---- at some places of the matrix

// Of short rows, unrolled: to sum the lanes of vectors would be most of the work.
template <class T, int R> void entries_of(const Places<T> &job) {
  for (int64_t k = 0; k < job.n; k++) {
    const T *l = job.L + job.rows[k] * R, *f = job.R + job.cols[k] * R;
    T dot = 0;
    for (int c = 0; c < R; c++) dot += l[c] * f[c];
    job.out[k] = job.values ? std::abs(job.values[k] - dot) : dot;
  }
}
template <class T> void entries_at(const Places<T> &job) {
  constexpr int W = width<T>;
  switch (job.rank) {
    case 1: return entries_of<T, 1>(job);
    case 2: return entries_of<T, 2>(job);
    case 3: return entries_of<T, 3>(job);
    case 4: return entries_of<T, 4>(job);
    case 5: return entries_of<T, 5>(job);
    case 6: return entries_of<T, 6>(job);
    case 7: return entries_of<T, 7>(job);
  }
  const int r = job.rank, whole = r / W * W;
  for (int64_t k = 0; k < job.n; k++) {
    const T *l = job.L + job.rows[k] * r, *f = job.R + job.cols[k] * r;
    Vec<T> some = {};
    for (int c = 0; c < whole; c += W) some += load<Vec<T>>(l + c) * load<Vec<T>>(f + c);
    T dot = whole ? sum<T>(some) : T(0);
    for (int c = whole; c < r; c++) dot += l[c] * f[c];
    job.out[k] = job.values ? std::abs(job.values[k] - dot) : dot;
  }
}

template void solve_rows<float>(const RowSystems<float> &);
template void solve_rows<double>(const RowSystems<double> &);
template void step_rows<float>(const RowStep<float> &);
template void step_rows<double>(const RowStep<double> &);
template void slope_rows<float>(const RowStep<float> &, const RowSlopes<float> &);
template void slope_rows<double>(const RowStep<double> &, const RowSlopes<double> &);
template void regressors<float>(const Regressors<float> &);
template void regressors<double>(const Regressors<double> &);
template void regressor_slopes<float>(const Regressors<float> &, const RegressorSlopes<float> &);
template void regressor_slopes<double>(const Regressors<double> &, const RegressorSlopes<double> &);
template void entries_at<float>(const Places<float> &);
template void entries_at<double>(const Places<double> &);

}  // namespace lrmc::LRMC_ISA
