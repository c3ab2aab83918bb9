// Several calls of other kernels as one, for tables so small that calls from Python take longer than what they compute:
// layers on noisy data, and what rows and columns add. What is computed is what methods/noisy_layers.py and
// evidence/simple.py say.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "binding.hpp"

namespace lrmc {

template <class T> Refitted half_layer(const Dense &data, const Refit<T> &job) {
  return in_use().in<T>().refit_dense(data, job);
}
template <class T> Refitted half_layer(const Sparse &data, const Refit<T> &job) {
  return in_use().in<T>().refit_sparse(data, job);
}
template <class T> void run_pass(const Dense &data, const Products<T> &pass) { in_use().in<T>().dense(data, pass); }
template <class T> void run_pass(const Sparse &data, const Products<T> &pass) { in_use().in<T>().sparse(data, pass); }

inline double median_of(std::vector<double> &x) {  // x is reordered
  const auto middle = x.begin() + x.size() / 2;
  std::nth_element(x.begin(), middle, x.end());
  return x.size() % 2 ? *middle : (*middle + *std::max_element(x.begin(), middle)) / 2;
}

// Layers after each other: halves for one side and the other in turn, and the last layer again while the variance
// falls.
template <class T, class Data> class Settling {
  static constexpr int NUMBERS = 5;  // of half a layer
  const Data &data;
  Refit<T> half;  // the first one; what the others share with it
  const int64_t *observed[2];
  const int rank = half.pass.rank, row_threads[2];
  const int64_t n[2] = {half.pass.n1, half.pass.n2};
  std::vector<T> pull, grams, step, weights, factor[2], after;
  std::vector<double> mean, covariance, ridge, unknown[2], left, variances;

 public:
  Settling(const Data &data_, const Refit<T> &first, const int64_t *rows_observed, const int64_t *cols_observed,
           int threads_of_rows, int threads_of_cols)
      : data(data_),
        half(first),
        observed{rows_observed, cols_observed},
        row_threads{threads_of_rows, threads_of_cols},
        pull(longest() * rank),
        grams(longest() * (rank * (rank + 1) / 2 + 1)),
        step(longest() * rank),
        weights(n[1]),
        mean(rank),
        covariance(rank * rank),
        ridge(rank * rank),
        left(rank * rank) {
    const T *begun[] = {half.pass.L, half.pass.R};
    for (int side : {0, 1}) {
      factor[side].assign(begun[side], begun[side] + n[side] * rank);
      unknown[side].assign(half.unknown[side], half.unknown[side] + rank * rank);
    }
    half.pull = pull.data();
    half.grams = grams.data();
    half.step = step.data();
    half.col_weight = weights.data();
    half.mean = mean.data();
    half.covariance = covariance.data();
    half.ridge = ridge.data();
    half.left = left.data();
  }

  // `numbers` of so many halves; a layer is made again, up to so many times, where its variance is below this part of
  // that of a layer ago.
  void run(const double *numbers, int halves, int most_again, double falling) {
    for (int k = 0; k < halves; k++) make(numbers + k * NUMBERS, half.side ^ (k & 1));
    for (int again = 0; again < most_again && still_falls(falling); again++)
      for (int k = halves - 2; k < halves; k++) make(numbers + k * NUMBERS, half.side ^ (k & 1));
  }
  void write(T *L, T *R, double *of_L, double *of_R) const {
    T *factors[] = {L, R};
    double *covariances[] = {of_L, of_R};
    for (int side : {0, 1}) {
      std::copy(factor[side].begin(), factor[side].end(), factors[side]);
      std::copy(unknown[side].begin(), unknown[side].end(), covariances[side]);
    }
  }
  double variance() const { return variances.empty() ? 0 : variances.back(); }
  double total() const {  // of the weights of the last half
    double sum = 0;
    for (T weight : weights) sum += double(weight);
    return sum;
  }

 private:
  int64_t longest() const { return std::max(n[0], n[1]); }
  bool still_falls(double falling) const {  // beside the half for the same side, a layer ago
    const size_t made = variances.size();
    return made >= 3 && !(variances[made - 1] > falling * variances[made - 3]);
  }
  void make(const double *numbers, int side) {
    Refit<T> job = half;
    job.side = side;
    job.reach = numbers[0];
    job.shape = numbers[1];
    job.prior = numbers[2];
    job.kappa = numbers[3];
    job.eta = numbers[4];
    job.pass.L = factor[0].data();
    job.pass.R = factor[1].data();
    job.unknown[0] = unknown[0].data();
    job.unknown[1] = unknown[1].data();
    job.observed = observed[side];
    job.threads = row_threads[side];
    after.resize(n[side] * rank);
    job.after = after.data();
    variances.push_back(half_layer(data, job).variance);
    factor[side].swap(after);
    unknown[side] = left;
  }
};

// middle + row + column by Huber's loss, each level drawn to 0 as far as it is uncertain.
template <class T, class Data> class Levelling {
  const Data &data;
  Products<T> pass;  // with its data's shape, directions and threads
  const Places<T> places;
  const T *values;  // of the sample at these places
  const double middle, scale;
  double *levels[2];
  std::vector<T> L, R, ones, out[2], weight[2], reach, even, nothing;
  std::vector<int64_t> inliers[2];
  std::vector<double> energy[2];

 public:
  Levelling(const Data &data_, const Products<T> &pass_, const Places<T> &places_, const T *values_, double middle_,
            double scale_, double *rows, double *cols)
      : data(data_),
        pass(pass_),
        places(places_),
        values(values_),
        middle(middle_),
        scale(scale_),
        levels{rows, cols},
        L(2 * pass.n1, T(1)),
        R(2 * pass.n2, T(1)),
        ones(std::max(pass.n1, pass.n2), T(1)),
        reach(pass.n1),
        even(pass.n2, T(1)),
        nothing(ones.size()) {
    const int64_t n[] = {pass.n1, pass.n2};
    for (int side : {0, 1}) {
      out[side].resize(n[side]);
      weight[side].resize(n[side]);
      inliers[side].resize(n[side]);
      energy[side].resize(n[side]);
    }
    pass.rank = 2;
    pass.width = 1;
    pass.L = L.data();
    pass.R = R.data();
    pass.weight.rule = Rule::huber;
    pass.weight.row_z = reach.data();
    pass.weight.col_z = even.data();
    pass.weight.row_protect = pass.weight.col_protect = nothing.data();
    pass.row_inliers = inliers[0].data();
    pass.col_inliers = inliers[1].data();
    pass.row_weight = weight[0].data();
    pass.col_weight = weight[1].data();
    pass.row_energy = energy[0].data();
    pass.col_energy = energy[1].data();
  }

  void run(int rounds, double times) {  // the median residual: what is beyond counts as that far
    for (int round = 0; round < rounds; round++)
      for (int side : {0, 1}) {
        for (int64_t i = 0; i < pass.n1; i++) L[2 * i] = T(levels[0][i] + middle);
        for (int64_t j = 0; j < pass.n2; j++) R[2 * j + 1] = T(levels[1][j]);
        const double far = times * typical();
        std::fill(reach.begin(), reach.end(), T(far != 0 ? far : scale));
        look(side);
        draw(side);
      }
  }

 private:
  double typical() const {
    std::vector<T> model(places.n);
    Places<T> job = places;
    job.rank = 2;
    job.L = L.data();
    job.R = R.data();
    job.out = model.data();
    in_use().in<T>().entries_at(job);
    std::vector<double> sizes(places.n);
    for (int64_t k = 0; k < places.n; k++) sizes[k] = std::fabs(double(values[k] - model[k]));
    return median_of(sizes);
  }
  void look(int side) {
    for (int of : {0, 1}) {
      std::fill(out[of].begin(), out[of].end(), T(0));
      std::fill(weight[of].begin(), weight[of].end(), T(0));
      std::fill(inliers[of].begin(), inliers[of].end(), 0);
      std::fill(energy[of].begin(), energy[of].end(), 0.0);
    }
    pass.Q = side == 0 ? ones.data() : nullptr;
    pass.P = side == 1 ? ones.data() : nullptr;
    pass.CQ = side == 0 ? out[0].data() : nullptr;
    pass.CtP = side == 1 ? out[1].data() : nullptr;
    run_pass(data, pass);
  }
  void draw(int side) {  // empirical Bayes: weighted means of lines, whose variance beyond that of noise is the prior's
    const std::vector<T> &w = weight[side];
    double all = 0, square = 0, uncertain = 0, used = 0, total_energy = 0;
    for (T x : w) all += double(x);
    for (double x : energy[0]) total_energy += x;
    const double noise = total_energy / std::max(all, 1e-300);
    double *level = levels[side];
    for (size_t i = 0; i < w.size(); i++) {
      const double seen = double(w[i]), total = double(out[side][i]) + seen * level[i];
      level[i] = total;
      if (!(seen > 0)) continue;
      square += total / seen * (total / seen);
      uncertain += noise / seen;
      used++;
    }
    const double spread = used > 0 ? square / used - uncertain / used : 0;
    for (size_t i = 0; i < w.size(); i++) level[i] = spread > 0 ? level[i] / (double(w[i]) + noise / spread) : 0;
  }
};

}  // namespace lrmc
