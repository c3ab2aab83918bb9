// Half a layer on noisy data, from the unit of its threshold to the rows after their step: what methods/noisy_layers.py
// says step by step, in one call. Of small tables, calls from Python take longer than what they compute. Compiled once
// for each instruction set.
#include "refit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cholesky.hpp"
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {
namespace {

double median(std::vector<double> &x) {  // x is reordered
  const auto middle = x.begin() + x.size() / 2;
  std::nth_element(x.begin(), middle, x.end());
  return x.size() % 2 ? *middle : (*middle + *std::max_element(x.begin(), middle)) / 2;
}

template <class T, class Data> class Half {
  const Data &data;
  const Refit<T> &job;
  const int r = job.pass.rank, q = r * (r + 1) / 2, side = job.side;
  const int64_t n = side ? job.pass.n2 : job.pass.n1, others = side ? job.pass.n1 : job.pass.n2;
  const T *F = side ? job.pass.R : job.pass.L, *O = side ? job.pass.L : job.pass.R;
  Refitted made;
  int64_t count = 0;  // of rows that have entries
  std::vector<uint8_t> used;
  std::vector<double> coupling;  // kappa V

 public:
  Half(const Data &data_, const Refit<T> &job_) : data(data_), job(job_), used(n), coupling(r * r) {
    for (int64_t i = 0; i < n; i++) count += used[i] = job.observed[i] > 0;
    count = std::max<int64_t>(count, 1);
    for (int k = 0; k < r * r; k++) coupling[k] = job.kappa * job.unknown[1 - side][k];
  }

  Refitted run() {
    made.size = job.size > 0 ? job.size : typical_residual();
    look();
    prior();
    step();
    return made;
  }

 private:
  const double *noise() const { return side ? job.col_noise : job.row_noise; }
  double noise_at(int64_t k) const { return job.row_noise[job.rows[k]] * job.col_noise[job.cols[k]]; }

  // Y - L R' at every so many entries of the sample
  std::vector<T> residuals(int64_t every) const {
    const int64_t few = (job.n_sample + every - 1) / every;
    std::vector<int64_t> rows(every > 1 ? few : 0), cols(rows.size());
    for (size_t k = 0; k < rows.size(); k++) rows[k] = job.rows[k * every], cols[k] = job.cols[k * every];
    std::vector<T> out(few);
    Places<T> places{few, r, job.pass.L, job.pass.R, job.rows, job.cols, out.data()};
    if (every > 1) places.rows = rows.data(), places.cols = cols.data();
    kernels.in<T>().entries_at(places);
    for (int64_t k = 0; k < few; k++) out[k] = job.values[k * every] - out[k];
    return out;
  }
  double typical_residual() const {  // the median size; where half of all residuals are 0, the mean
    const auto e = residuals(job.every);
    std::vector<double> sizes(e.size());
    double sum = 0;
    for (size_t k = 0; k < e.size(); k++) sum += sizes[k] = std::fabs(double(e[k])) / noise_at(k * job.every);
    if (sum != sum) return sum;  // what is not a number has no order
    const double middle = median(sizes);
    return std::max(middle != 0 ? middle : sum / double(sizes.size()), job.least);
  }
  // The mean square of good residuals in units of their relative noise, over that in units of the data.
  double relative_square() const {
    const auto e = residuals(1);
    double in_noise = 0, plain = 0;
    for (int64_t k = 0; k < job.n_sample; k++) {
      const double scale = noise_at(k), square = double(e[k]) * double(e[k]);
      if (!(std::fabs(double(e[k])) <= 2 * job.reach * made.size * scale)) continue;
      in_noise += square / (scale * scale);
      plain += square;
    }
    return plain > 0 ? in_noise / plain : 1.0;
  }

  void look() {  // the pass: pulls, Gram matrices, and the variance of the noise
    Products<T> pass = job.pass;
    const auto regressors = zeros<T>(others * (r + q + 1));
    T *plain = regressors.get(), *squares = plain + others * r;
    const std::vector<double> precision = precisions(side ? job.row_noise : job.col_noise, others);
    kernels.in<T>().regressors({others, r, O, precision.data(), coupling.data(), plain, squares, job.threads});
    pass.width = r;
    pass.width_w = q + 1;
    (side ? pass.P : pass.Q) = plain;
    (side ? pass.Pw : pass.Qw) = squares;
    (side ? pass.CtP : pass.CQ) = job.pull;
    (side ? pass.WtP : pass.WQ) = job.grams;
    std::fill_n(job.pull, n * r, T(0));
    std::fill_n(job.grams, n * (q + 1), T(0));
    std::fill_n(job.col_weight, pass.n2, T(0));
    const int64_t n1 = pass.n1, n2 = pass.n2;
    std::vector<T> row_z(n1), col_z(n2), nothing(std::max(n1, n2)), row_weight(n1);
    for (int64_t i = 0; i < n1; i++) row_z[i] = T(job.reach * made.size * job.row_noise[i]);
    for (int64_t j = 0; j < n2; j++) col_z[j] = T(job.col_noise[j]);
    std::vector<int64_t> row_inliers(n1), col_inliers(n2);
    std::vector<double> row_energy(n1), col_energy(n2);
    pass.weight.rule = Rule::power;
    pass.weight.z = T(job.shape);
    pass.weight.row_z = row_z.data();
    pass.weight.col_z = col_z.data();
    pass.weight.row_protect = pass.weight.col_protect = nothing.data();
    pass.row_inliers = row_inliers.data();
    pass.col_inliers = col_inliers.data();
    pass.row_weight = row_weight.data();
    pass.col_weight = job.col_weight;
    pass.row_energy = row_energy.data();
    pass.col_energy = col_energy.data();
    run_pass(data, pass);
    made.relative = job.relative > 0 ? job.relative : relative_square();
    double total = 0;
    for (int64_t j = 0; j < n2; j++) total += double(job.col_weight[j]);
    for (int64_t i = 0; i < n1; i++) made.energy += row_energy[i], made.inliers += double(row_inliers[i]);
    made.variance = std::max(made.relative * made.energy / std::max(total, 1e-300), job.least * job.least);
  }
  static void run_pass(const Dense &data, const Products<T> &pass) { kernels.in<T>().dense(data, pass); }
  static void run_pass(const Sparse &data, const Products<T> &pass) { kernels.in<T>().sparse(data, pass); }
  static std::vector<double> precisions(const double *noise, int64_t n) {
    std::vector<double> out(n);
    for (int64_t i = 0; i < n; i++) out[i] = 1 / (noise[i] * noise[i]);
    return out;
  }

  void prior() {  // of all rows that have entries, with what is unknown of them
    std::vector<double> off(r);
    std::fill_n(job.mean, r, 0.0);
    for (int64_t i = 0; i < n; i++)
      for (int a = 0; used[i] && a < r; a++) job.mean[a] += double(F[i * r + a]);
    for (int a = 0; a < r; a++) job.mean[a] /= double(count);
    double *C = job.covariance;
    std::fill_n(C, r * r, 0.0);
    for (int64_t i = 0; i < n; i++) {
      if (!used[i]) continue;
      for (int a = 0; a < r; a++) off[a] = double(F[i * r + a]) - job.mean[a];
      for (int a = 0; a < r; a++)
        for (int b = a; b < r; b++) C[a * r + b] += off[a] * off[b];
    }
    double trace = 0;
    for (int a = 0; a < r; a++)
      for (int b = a; b < r; b++) {
        C[a * r + b] = C[a * r + b] / double(count) + job.unknown[side][a * r + b];
        if (a == b) trace += C[a * r + a];
      }
    for (int a = 0; a < r; a++) C[a * r + a] += job.tiny * trace / r + 1e-30;
    for (int a = 0; a < r; a++)
      for (int b = 0; b < a; b++) C[a * r + b] = C[b * r + a];
    invert_prior();
  }
  void invert_prior() {  // ridge = prior variance covariance^-1
    std::vector<double> U(job.covariance, job.covariance + r * r), x(r);
    cholesky(U.data(), r);
    for (int a = 0; a < r; a++) {
      std::fill(x.begin(), x.end(), 0.0);
      x[a] = job.prior * made.variance;
      substitute(U.data(), r, x.data());
      for (int b = a; b < r; b++) job.ridge[a * r + b] = job.ridge[b * r + a] = x[b];
    }
  }

  void step() {
    const std::vector<double> precision = precisions(noise(), n);
    RowStep<T> rows;
    rows.n = n;
    rows.rank = r;
    rows.F = F;
    rows.pull = job.pull;
    rows.grams = job.grams;
    rows.used = used.data();
    rows.precision = precision.data();
    rows.mean = job.mean;
    rows.ridge = job.ridge;
    rows.coupling = coupling.data();
    rows.eta = job.eta;
    rows.after = job.after;
    rows.step = job.step;
    rows.inverse = job.left;
    rows.threads = job.threads;
    kernels.in<T>().step_rows(rows);
    for (int k = 0; k < r * r; k++) job.left[k] *= made.variance / double(count);
  }
};

}  // namespace

template <class T, class Data> Refitted refit(const Data &data, const Refit<T> &job) { return Half(data, job).run(); }

template Refitted refit<float>(const Dense &, const Refit<float> &);
template Refitted refit<float>(const Sparse &, const Refit<float> &);
template Refitted refit<double>(const Dense &, const Refit<double> &);
template Refitted refit<double>(const Sparse &, const Refit<double> &);

}  // namespace lrmc::LRMC_ISA
