// Frames of a cine in register with a reference, by Lucas and Kanade's least squares in smooth windows, from coarse
// pictures to fine ones; and pictures moved there and back. apps/ultrasound/motion.py says what for. Frames are looked
// at one by one, so that threads change nothing.
//
// Compiled once for each instruction set.
#include "motion.hpp"

#include "motion_jobs.hpp"
#include "resample.hpp"
#include "team.hpp"

namespace lrmc::LRMC_ISA {
namespace {

// Every second row and column, as means of four.
void halve(const std::vector<float> &picture, int width, int height_to, int width_to, std::vector<float> &out) {
  out.resize(size_t(height_to) * width_to);
  for (int y = 0; y < height_to; y++) {
    const float *above = picture.data() + size_t(2 * y) * width, *below = above + width;
    float *__restrict to = out.data() + size_t(y) * width_to;
    for (int x = 0; x < width_to; x++) to[x] = (above[2 * x] + below[2 * x] + above[2 * x + 1] + below[2 * x + 1]) / 4;
  }
}

// ---- one frame against the reference

class Frame {
  static constexpr int SUMS = 5;       // of products of slopes and differences
  static constexpr int SAMPLE = 4096;  // differences that tell how large they are, about
  const Follow &job;
  std::vector<std::vector<float>> pictures;  // as many as levels
  std::vector<float> down, right, finer;     // on the grid
  std::vector<float> moved, weight, at_y, at_x, sizes;
  std::vector<float> sums, means, smoothed;  // SUMS x rows x columns

 public:
  explicit Frame(const Follow &job_) : job(job_), pictures(job.n_levels) {}

  void operator()(int64_t t) {
    pyramid(job.frames + t * job.height * job.width);
    for (int k = job.n_levels - 1; k >= 0; k--) {
      const Level &level = job.levels[k];
      if (k == job.n_levels - 1) {
        down.assign(level.rows * level.columns, 0.0f);
        right = down;
      } else {
        refine(job.levels[k + 1], level, down);
        refine(job.levels[k + 1], level, right);
      }
      for (int n = 0; n < job.rounds; n++)
        if (better(level, pictures[k], n % 3 ? 2.0f : 1.0f) < job.settled) break;
    }
    const size_t n = down.size();
    std::copy_n(down.data(), n, job.down + t * n);
    std::copy_n(right.data(), n, job.right + t * n);
  }

 private:
  void pyramid(const float *frame) {
    int height = job.height, width = job.width;
    std::vector<float> first(frame, frame + size_t(height) * width), next;
    for (int k = 0; k < job.halved; k++, std::swap(first, next)) {
      halve(first, width, height / 2, width / 2, next);
      height /= 2;
      width /= 2;
    }
    std::swap(pictures[0], first);
    for (int k = 1; k < job.n_levels; k++)
      halve(pictures[k - 1], job.levels[k - 1].width, job.levels[k].height, job.levels[k].width, pictures[k]);
  }

  // Displacements of pictures half as large: grid points lie at the middles of half blocks.
  void refine(const Level &from, const Level &to, std::vector<float> &grid) {
    const Between y(0, to.rows, 2, from.rows), x(0, to.columns, 2, from.columns);
    finer.resize(to.rows * to.columns);
    Spread spread(grid.data(), from.rows, from.columns);
    for (int i = 0; i < to.rows; i++) spread.row(y.low[i], y.part[i], x, finer.data() + i * to.columns);
    for (float &value : finer) value *= 2;
    std::swap(grid, finer);
  }

  // One least-squares step in each window: how long it would be, root mean square. It goes `length` times as far: a
  // window tells of its surroundings, too, so that what is local comes slowly (over-relaxation).
  float better(const Level &level, const std::vector<float> &picture, float length) {
    move(level, picture);
    const float far = usual_size(level) * job.rejection;
    if (far == 0) return 0;
    add_up(level, far);
    smooth_sums(level);
    return step(level, length);
  }

  // The picture where the reference should be, and where that is inside.
  void move(const Level &level, const std::vector<float> &picture) {
    const int height = level.height, width = level.width;
    const Between y(0, height, job.block, level.rows), x(0, width, job.block, level.columns);
    Spread to_down(down.data(), level.rows, level.columns), to_right(right.data(), level.rows, level.columns);
    at_y.resize(width);
    at_x.resize(width);
    moved.resize(size_t(height) * width);
    weight.resize(size_t(height) * width);
    const float bottom = float(height - 1), end = float(width - 1);
    for (int i = 0; i < height; i++) {
      float *__restrict v = at_y.data(), *__restrict u = at_x.data(), *__restrict w = weight.data() + i * width;
      const float *__restrict free = level.free + i * width;
      to_down.row(y.low[i], y.part[i], x, v);
      to_right.row(y.low[i], y.part[i], x, u);
      for (int j = 0; j < width; j++) {
        v[j] += float(i);
        u[j] += float(j);
        const bool inside = (v[j] >= 0) & (v[j] <= bottom) & (u[j] >= 0) & (u[j] <= end);
        w[j] = inside ? free[j] : 0.0f;
      }
      linear(picture.data(), height, width, width, v, u, moved.data() + i * width);
    }
  }

  // The median of differences that are seen at all, from some rows.
  float usual_size(const Level &level) {
    const int every = std::max(1, level.height * level.width / SAMPLE);
    sizes.clear();
    for (int i = every / 2; i < level.height; i += every)
      for (int j = 0; j < level.width; j++) {
        const float size = std::fabs(level.reference[i * level.width + j] - moved[i * level.width + j]);
        if (size > job.grey) sizes.push_back(size);
      }
    if (sizes.empty()) return 0;
    const auto middle = sizes.begin() + sizes.size() / 2;
    std::nth_element(sizes.begin(), middle, sizes.end());
    return *middle;
  }

  // Products of slopes and differences, as means of blocks.
  void add_up(const Level &level, float far) {
    const int height = level.height, cells = level.rows * level.columns;
    const int padded = level.columns * job.block;
    means.assign(SUMS * cells, 0.0f);
    sums.resize(SUMS * padded);
    for (int top = 0; top < height; top += job.block) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int i = top; i < std::min(top + job.block, height); i++) add_row(level, i, far, padded);
      float *to = means.data() + top / job.block * level.columns;
      for (int s = 0; s < SUMS; s++)
        for (int j = 0; j < level.columns; j++) {
          float total = 0;
          for (int b = 0; b < job.block; b++) total += sums[s * padded + j * job.block + b];
          to[s * cells + j] = total / float(job.block * job.block);
        }
    }
  }
  // Rows of the reference and of the moved picture, and where products of one row go.
  struct Rows {
    const float *m, *m0, *m1, *r, *r0, *r1, *w;  // here, above and below; weights
    float *sums;
    int padded;
    float per_row, far;
    float both(int j) const { return m[j] + r[j]; }
    // Adds the products of some pixels from j on, whose slope to the right is dx.
    template <class V> void add(int j, V dx) const {
      const V here = load<V>(m + j), off = load<V>(r + j) - here;
      const V below = load<V>(m1 + j) + load<V>(r1 + j), above = load<V>(m0 + j) + load<V>(r0 + j);
      const V dy = per_row * (below - above);
      const V size = larger(off, -off), most = V{} + far;
      const V k = load<V>(w + j) * far / larger(size, most);
      const V products[SUMS] = {dy * dy, dx * dx, dy * dx, dy * off, dx * off};
      for (int s = 0; s < SUMS; s++) {
        float *to = sums + s * padded + j;
        store(to, load<V>(to) + k * products[s]);
      }
    }
  };
  void add_row(const Level &level, int i, float far, int padded) {
    using V = Vec<float>;
    const int width = level.width, above = std::max(i - 1, 0), below = std::min(i + 1, level.height - 1);
    const auto row = [&](const float *x, int k) { return x + size_t(k) * width; };
    const float per_row = below > above ? 0.5f / float(below - above) : 0.0f;
    const float *m = moved.data(), *r = level.reference;
    const Rows rows{
        row(m, i),   row(m, above), row(m, below), row(r, i), row(r, above), row(r, below), row(weight.data(), i),
        sums.data(), padded,        per_row,       far};
    const auto both = [&](int j) { return load<V>(rows.m + j) + load<V>(rows.r + j); };
    rows.add(0, 0.5f * (rows.both(std::min(1, width - 1)) - rows.both(0)));
    int j = 1;
    for (; j + lrmc::LRMC_ISA::width<float> < width; j += lrmc::LRMC_ISA::width<float>)
      rows.add(j, 0.25f * (both(j + 1) - both(j - 1)));
    for (; j < width - 1; j++) rows.add(j, 0.25f * (rows.both(j + 1) - rows.both(j - 1)));
    if (width > 1) rows.add(width - 1, 0.5f * (rows.both(width - 1) - rows.both(width - 2)));
  }

  void smooth_sums(const Level &level) {
    const int rows = level.rows, columns = level.columns;
    smoothed.assign(means.size(), 0.0f);
    std::vector<float> half(columns);
    for (int s = 0; s < SUMS; s++) {
      float *from = means.data() + s * rows * columns, *to = smoothed.data() + s * rows * columns;
      for (int i = 0; i < rows; i++) {  // along rows, in place
        for (int j = 0; j < columns; j++) {
          half[j] = 0;
          for (int k = 0; k < columns; k++) half[j] += level.smooth_x[j * columns + k] * from[i * columns + k];
        }
        std::copy(half.begin(), half.end(), from + i * columns);
      }
      for (int i = 0; i < rows; i++)
        for (int k = 0; k < rows; k++)
          for (int j = 0; j < columns; j++) to[i * columns + j] += level.smooth_y[i * rows + k] * from[k * columns + j];
    }
  }

  float step(const Level &level, float length) {
    const int cells = level.rows * level.columns;
    const float *yy = smoothed.data(), *xx = yy + cells, *yx = xx + cells, *ye = yx + cells, *xe = ye + cells;
    double total = 0, square = 0;
    for (int k = 0; k < cells; k++) total += yy[k] + xx[k];
    const float ridge = job.ridge * float(total / cells) + 1e-12f;
    for (int k = 0; k < cells; k++) {
      const float a = yy[k] + ridge, b = xx[k] + ridge, per = 1 / (a * b - yx[k] * yx[k]);
      const float y = per * (b * ye[k] - yx[k] * xe[k]), x = per * (a * xe[k] - yx[k] * ye[k]);
      down[k] += std::clamp(length * y, -job.longest, job.longest);
      right[k] += std::clamp(length * x, -job.longest, job.longest);
      square += double(y) * y + double(x) * x;
    }
    return float(std::sqrt(square / cells));
  }
};

// ---- there and back

class Onto {
  const Resample &job;
  const int height = job.height + 2 * job.margin, width = job.width + 2 * job.margin;
  const Between y, x;
  Spline spline;
  std::vector<float> at_y, at_x, cover;

 public:
  explicit Onto(const Resample &job_)
      : job(job_),
        y(-job.margin, height, job.block, job.rows),
        x(-job.margin, width, job.block, job.columns),
        spline(job.height, job.width),
        at_y(width),
        at_x(width),
        cover(width) {}

  void operator()(int64_t t) {
    const int64_t cells = int64_t(job.rows) * job.columns;
    Spread down(job.down + t * cells, job.rows, job.columns), right(job.right + t * cells, job.rows, job.columns);
    spline.through(job.pictures + t * job.height * job.width);
    const float bottom = float(job.height - 1), end = float(job.width - 1);
    for (int i = 0; i < height; i++) {
      float *v = at_y.data(), *u = at_x.data(), *out = job.out + (t * height + i) * width;
      down.row(y.low[i], y.part[i], x, v);
      right.row(y.low[i], y.part[i], x, u);
      for (int j = 0; j < width; j++) {
        v[j] += float(i - job.margin);
        u[j] += float(j - job.margin);
      }
      for (int j = 0; j < width; j++) out[j] = spline.at(v[j], u[j]);
      uint8_t *seen = job.seen + (t * height + i) * width;
      for (int j = 0; j < width; j++) seen[j] = (v[j] >= 0) & (v[j] <= bottom) & (u[j] >= 0) & (u[j] <= end);
      if (!job.hidden) continue;
      linear(job.hidden, job.height, job.width, width, v, u, cover.data());
      for (int j = 0; j < width; j++) seen[j] &= cover[j] < 0.01f;
    }
  }
};

// The inverse of a displacement by fixed-point iteration, from that of the row above.
class From {
  static constexpr int FIRST = 8, NEXT = 2;  // rounds: for the first row, and for those that begin with the one above
  const Resample &job;
  const int height = job.height + 2 * job.margin, width = job.width + 2 * job.margin;
  Spline spline;
  std::vector<float> v, u, at_y, at_x;  // displacements of a row, and where that is on the grid

 public:
  explicit From(const Resample &job_)
      : job(job_), spline(height, width), v(job.width), u(job.width), at_y(job.width), at_x(job.width) {}

  void operator()(int64_t t) {
    const int64_t cells = int64_t(job.rows) * job.columns;
    const float *down = job.down + t * cells, *right = job.right + t * cells;
    spline.through(job.pictures + t * height * width);
    std::fill(v.begin(), v.end(), 0.0f);
    std::fill(u.begin(), u.end(), 0.0f);
    for (int i = 0; i < job.height; i++) {
      for (int round = 0; round < (i ? NEXT : FIRST); round++) again(i, down, right);
      float *out = job.out + (t * job.height + i) * job.width;
      for (int j = 0; j < job.width; j++)
        out[j] = spline.at(float(i + job.margin) - v[j], float(j + job.margin) - u[j]);
    }
  }

 private:
  void again(int i, const float *down, const float *right) {
    const float per = 1 / float(job.block);
    for (int j = 0; j < job.width; j++) {
      at_y[j] = (float(i) - v[j] + 0.5f) * per - 0.5f;
      at_x[j] = (float(j) - u[j] + 0.5f) * per - 0.5f;
    }
    linear(down, job.rows, job.columns, job.width, at_y.data(), at_x.data(), v.data());
    linear(right, job.rows, job.columns, job.width, at_y.data(), at_x.data(), u.data());
  }
};

}  // namespace

void follow(const Follow &job) {
  for_each(job.count, job.threads, [&] { return Frame(job); });
}
void onto_canvas(const Resample &job) {
  for_each(job.count, job.threads, [&] { return Onto(job); });
}
void from_canvas(const Resample &job) {
  for_each(job.count, job.threads, [&] { return From(job); });
}

}  // namespace lrmc::LRMC_ISA
