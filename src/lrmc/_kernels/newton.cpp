// One Gauss-Newton step on both factors: (J'WJ + ridge) d = J'W e - ridge (U, V), by conjugate gradients that are
// preconditioned by the Gram matrix of each row and column. An iteration is one pass over the entries.
#include <algorithm>
#include <cmath>
#include <vector>
#include "cholesky.hpp"
#include "kernels.hpp"

namespace lrmc {
namespace {

template <int R> class NewtonStep {  // R is the rank, or 0: that of the job
  const Newton &job;
  const int rank;
  const int64_t size;
  std::vector<double> grams, residual, solved, along, image;

  int r() const { return R ? R : rank; }
  const double *u(int64_t i) const { return job.U + i * r(); }
  const double *v(int64_t j) const { return job.V + j * r(); }
  int64_t col(int64_t j) const { return job.n1 + j; }  // rows come first, then columns

 public:
  explicit NewtonStep(const Newton &job)
      : job(job),
        rank(job.rank),
        size((job.n1 + job.n2) * r()),
        grams(size * r()),
        residual(size),
        solved(size),
        along(size),
        image(size) {}

  // How many iterations were made; the step is left in job.step.
  int64_t run() {
    begin();
    factorise();
    double *x = job.step;
    std::fill(x, x + size, 0.0);
    precondition();
    along = solved;
    double now = dot(residual, solved);
    const double first = now;
    int64_t t = 0;
    while (now > job.tol * job.tol * first && t < job.most) {
      t++;
      multiply();
      const double curvature = dot(along, image);
      if (!(curvature > 0)) break;
      const double far = now / curvature;
      for (int64_t k = 0; k < size; k++) {
        x[k] += far * along[k];
        residual[k] -= far * image[k];
      }
      precondition();
      const double next = dot(residual, solved), turn = next / now;
      for (int64_t k = 0; k < size; k++) along[k] = solved[k] + turn * along[k];
      now = next;
    }
    return t;
  }

 private:
  static double dot(const std::vector<double> &a, const std::vector<double> &b) {
    double s = 0;
    for (size_t k = 0; k < a.size(); k++) s += a[k] * b[k];
    return s;
  }
  template <class Work> void each(Work work) const {
    for (int64_t i = 0; i < job.n1; i++)
      for (int64_t k = job.indptr[i]; k < job.indptr[i + 1]; k++) work(i, int64_t(job.indices[k]), k);
  }
  void begin() {  // the right-hand side and the Gram matrices
    for (int64_t k = 0; k < job.n1 * r(); k++) residual[k] = -job.ridge * job.U[k];
    for (int64_t k = 0; k < job.n2 * r(); k++) residual[job.n1 * r() + k] = -job.ridge * job.V[k];
    each([&](int64_t i, int64_t j, int64_t k) {
      const double w = job.weights[k], we = w * job.errors[k], *a = u(i), *b = v(j);
      double *gi = residual.data() + i * r(), *gj = residual.data() + col(j) * r();
      for (int q = 0; q < r(); q++) {
        gi[q] += we * b[q];
        gj[q] += we * a[q];
      }
      add_square(i, w, b);
      add_square(col(j), w, a);
    });
  }
  void add_square(int64_t line, double w, const double *x) {
    double *H = grams.data() + line * r() * r();
    for (int a = 0; a < r(); a++)
      for (int b = a; b < r(); b++) H[a * r() + b] += w * x[a] * x[b];
  }
  void factorise() {
    const double floors[2] = {1e-6 * mean_diagonal(0, job.n1), 1e-6 * mean_diagonal(job.n1, job.n1 + job.n2)};
    for (int64_t i = 0; i < job.n1 + job.n2; i++) {
      double *H = grams.data() + i * r() * r(), trace = 0;
      for (int a = 0; a < r(); a++) trace += H[a * r() + a];
      for (int a = 0; a < r(); a++) H[a * r() + a] += job.ridge + floors[i >= job.n1] + 1e-9 * trace + 1e-300;
      cholesky(H, r());
    }
  }
  double mean_diagonal(int64_t first, int64_t last) const {
    double sum = 0;
    for (int64_t i = first; i < last; i++)
      for (int a = 0; a < r(); a++) sum += grams[(i * r() + a) * r() + a];
    return sum / std::max<double>(1, double((last - first) * r()));
  }
  void precondition() {
    solved = residual;
    for (int64_t i = 0; i < job.n1 + job.n2; i++)
      substitute(grams.data() + i * r() * r(), r(), solved.data() + i * r());
  }
  void multiply() {
    for (int64_t k = 0; k < size; k++) image[k] = job.ridge * along[k];
    const double *p = along.data();
    double *q = image.data();
    for (int64_t i = 0; i < job.n1; i++) {
      double sum[R ? R : 1];
      double *qi = R ? sum : q + i * r();
      if (R) std::fill(sum, sum + r(), 0.0);
      const double *a = u(i), *pi = p + i * r();
      for (int64_t k = job.indptr[i]; k < job.indptr[i + 1]; k++) {
        const int64_t j = job.indices[k];
        const double *b = v(j), *pj = p + col(j) * r();
        double *qj = q + col(j) * r(), s = 0;
        for (int c = 0; c < r(); c++) s += pi[c] * b[c] + a[c] * pj[c];
        s *= job.weights[k];
        for (int c = 0; c < r(); c++) {
          qi[c] += s * b[c];
          qj[c] += s * a[c];
        }
      }
      if (R)
        for (int c = 0; c < r(); c++) q[i * r() + c] += sum[c];
    }
  }
};

}  // namespace

int64_t newton(const Newton &job) {
  switch (job.rank) {
    case 1: return NewtonStep<1>(job).run();
    case 2: return NewtonStep<2>(job).run();
    case 3: return NewtonStep<3>(job).run();
    case 4: return NewtonStep<4>(job).run();
    case 5: return NewtonStep<5>(job).run();
    case 6: return NewtonStep<6>(job).run();
    case 8: return NewtonStep<8>(job).run();
    case 10: return NewtonStep<10>(job).run();
  }
  return NewtonStep<0>(job).run();
}

}  // namespace lrmc
