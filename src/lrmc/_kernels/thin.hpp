// The pass over a sparse matrix with few columns in its factors, by the rules clip and Reject: a row of a factor is K
// lanes, and a vector holds the rows of several entries. Residuals, clipping and both products stay in registers, as
// many entries at a time as a vector has lanes, so that a row of the table (R or Q) is fetched once per entry. Rows may
// be short.
#pragma once
#include <climits>
#include "sparse.hpp"
#include "widen.hpp"

namespace lrmc::LRMC_ISA {

template <class T, int K> struct part {
  typedef T vec __attribute__((vector_size(K * sizeof(T))));
};
template <class T, int K> using Part = typename part<T, K>::vec;

// Which of W entries is in block b of vector v, where each of K vectors has W / K of them: so that `sum_each` gives
// the sums in the order of the entries.
template <class T, int K> constexpr int entry_in(int v, int b) {
  constexpr int N = 16 / sizeof(T), blocks = width<T> / K, beside = K < N ? N / K : 1;  // blocks in 16 bytes
  return v / N * N * blocks + b / beside * N + v % N * beside + b % beside;
}

// Two blocks of 8 bytes in one of 16: what is loaded and stored at once.
typedef double Pair __attribute__((vector_size(16)));
template <class T> inline Pair pair_at(const T *a, const T *b) { return Pair{load<double>(a), load<double>(b)}; }

template <class T, int K, int... I>
inline Vec<T> side_by_side(const T *table, const int64_t *at, int v, std::integer_sequence<int, I...>) {
  constexpr int blocks = width<T> / K;
  if constexpr (blocks == 1) {
    return load<Vec<T>>(table + at[entry_in<T, K>(v, 0)]);
  } else if constexpr (blocks == 2) {
    const auto a = load<Part<T, K>>(table + at[entry_in<T, K>(v, 0)]);
    const auto b = load<Part<T, K>>(table + at[entry_in<T, K>(v, 1)]);
    return __builtin_shufflevector(a, b, I...);
  } else if constexpr (blocks == 4 && K * sizeof(T) == 8) {
    const auto row = [&](int b) { return table + at[entry_in<T, K>(v, b)]; };
    return Vec<T>(__builtin_shufflevector(pair_at(row(0), row(1)), pair_at(row(2), row(3)), 0, 1, 2, 3));
  } else {
    Vec<T> out;
    for (int b = 0; b < blocks; b++)
      __builtin_memcpy(reinterpret_cast<char *>(&out) + b * K * sizeof(T), table + at[entry_in<T, K>(v, b)],
                       K * sizeof(T));
    return out;
  }
}

// Block b of a vector.
template <class T, int K, int... I> inline Part<T, K> block_of(Vec<T> x, int b, std::integer_sequence<int, I...>) {
  if constexpr (K == width<T>) {
    return x;
  } else if constexpr (2 * K == width<T>) {  // in registers: compilers take others through memory
    return b ? __builtin_shufflevector(x, x, (K + I)...) : __builtin_shufflevector(x, x, I...);
  } else {
    Part<T, K> out;
    __builtin_memcpy(&out, reinterpret_cast<const char *>(&x) + b * sizeof out, sizeof out);
    return out;
  }
}
template <class T, int K> inline Part<T, K> block_of(Vec<T> x, int b) {
  return block_of<T, K>(x, b, std::make_integer_sequence<int, K>{});
}

// The pulls of the entries of vector v, each in all lanes of its block.
template <class T, int K, int v, int... I> inline Vec<T> spread_pulls(Vec<T> c, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(c, c, entry_in<T, K>(v, I / K)...);
}

// Which products there are: both factors and the model's own, by clipping or with outliers left out (and which they
// are is kept, for Gram matrices; or they are only counted), or one of them without a model, by clipping.
enum class Thin { pull, reject, kept, count, rows, columns };

template <class T, int K, class S, Thin kind> struct ThinRows {
  static constexpr int W = width<T>, blocks = W / K;
  static constexpr bool pairs = blocks == 4 && K * sizeof(T) == 8;
  static constexpr bool counts = kind == Thin::count, rejects = kind == Thin::reject || kind == Thin::kept || counts;
  static constexpr bool model = kind == Thin::pull || rejects;
  static constexpr auto all = std::make_integer_sequence<int, W>{};
  static constexpr int AHEAD =
      512;  // entries whose columns are asked for early: 4 bytes each, they take most of the room
  typedef Count<T> Bits __attribute__((vector_size(K * sizeof(T))));
  // copies: through a reference, they would be read again after every store
  const T *factor, *table;  // n1 x wide: L, or P; n2 x K: R, or Q
  T *A, *B;                 // n1 x wide, n2 x K
  int64_t wide;
  T gain, z;
  Bits keep = {};  // the first lanes of a block
  Mask<T> keep_all = {};
  Vec<T> count = {};  // 1 in the next lane, where a column's inliers are counted if others are left out
  T *kept = nullptr;  // 1 for the inliers of a row, in whole vectors

  ThinRows(const Products<T> &job, const T *table_, T *B_)
      : factor(model ? job.L : job.P),
        table(table_),
        A(job.CQ),
        B(B_),
        wide(counts ? job.rank : job.width),
        gain(job.gain),
        z(job.weight.z) {
    for (int c = 0; c < K; c++) keep[c] = c < wide ? -1 : 0;
    for (int c = 0; c < W; c++) {
      keep_all[c] = c % K < wide ? -1 : 0;
      count[c] = T(c % K == wide);
    }
  }

  struct Row {
    Vec<T> l = {}, a = {}, z = {};
    Mask<T> inliers = {};
  };

  template <int v>
  inline __attribute__((always_inline)) void spread(const int64_t *at, Vec<T> c, Mask<T> inlier, Vec<T> r,
                                                    Row &row) const {
    const Vec<T> each = spread_pulls<T, K, v>(c, all);
    if constexpr (kind != Thin::columns && !counts) row.a += each * r;
    if constexpr (kind != Thin::rows) {
      Vec<T> moved = {};
      if constexpr (!counts) moved = each * row.l;
      if constexpr (rejects) moved += Vec<T>(Mask<T>(count) & Mask<T>(spread_pulls<T, K, v>(Vec<T>(inlier), all)));
      if constexpr (pairs) return add_pairs<v>(at, moved);
#pragma GCC unroll 4
      for (int b = 0; b < blocks; b++) {  // one after another: two entries may be of one column
        T *sums = B + at[entry_in<T, K>(v, b)];
        store(sums, load<Part<T, K>>(sums) + block_of<T, K>(moved, b));
      }
    }
  }
  typedef T Four __attribute__((vector_size(16)));
  // Blocks b and b + 1.
  static inline __attribute__((always_inline)) Pair half_of(Vec<T> x, int b) {
    typedef double Blocks __attribute__((vector_size(32)));
    const Blocks all_four = Blocks(x);
    return b ? __builtin_shufflevector(all_four, all_four, 2, 3) : __builtin_shufflevector(all_four, all_four, 0, 1);
  }
  // Two blocks at a time. If both are of one column, the second lies beyond the row and adds nothing: it is stored
  // first.
  template <int v> inline __attribute__((always_inline)) void add_pairs(const int64_t *at, Vec<T> moved) const {
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b += 2) {
      const Pair half = half_of(moved, b);
      T *one = B + at[entry_in<T, K>(v, b)], *other = B + at[entry_in<T, K>(v, b + 1)];
      const Pair sums = Pair(Four(pair_at(one, other)) + Four(half));
      store(other, sums[1]);
      store(one, sums[0]);
    }
  }
  template <int... v>
  inline __attribute__((always_inline)) void spread_all(const int64_t *at, Vec<T> c, Mask<T> inlier, const Vec<T> *r,
                                                        Row &row, std::integer_sequence<int, v...>) const {
    (spread<v>(at, c, inlier, kind == Thin::columns ? Vec<T>{} : r[v], row), ...);
  }

  // W entries; those that are not `here` count for nothing.
  inline __attribute__((always_inline)) void entries(const int32_t *j, const S *y, Mask<T> here, Row &row,
                                                     [[maybe_unused]] int64_t t) const {
    Vec<T> r[K], e = gain * numbers_at<T, S>(y);
    int64_t at[W];  // where the entries' rows of the table and of the sums begin
#pragma GCC unroll 16
    for (int k = 0; k < W; k++) at[k] = int64_t(j[k]) * K;
    if constexpr (kind != Thin::columns) {
#pragma GCC unroll 16
      for (int v = 0; v < K; v++) r[v] = side_by_side<T, K>(table, at, v, all);
    }
    if constexpr (model) {
      Vec<T> products[K];
#pragma GCC unroll 16
      for (int v = 0; v < K; v++) products[v] = row.l * r[v];
      e -= sum_each<T, K>(products);
    }
    Vec<T> c = smaller(larger(e, fill<T>(-z)), fill<T>(z));
    const Mask<T> inlier = (rejects ? larger(e, -e) <= row.z : c == e) & here;
    row.inliers -= inlier;
    if constexpr (kind == Thin::kept) store(kept + t, Vec<T>(Mask<T>(fill<T>(1)) & inlier));
    c = rejects ? Vec<T>(Mask<T>(e) & inlier) : Vec<T>(Mask<T>(c) & here & (e == e));
    spread_all(at, c, inlier, r, row, std::make_integer_sequence<int, K>{});
  }

  // A row of n entries. `room` entries can be read from here on.
  inline __attribute__((always_inline)) void row(const int32_t *j, const S *y, int64_t n, int64_t room,
                                                 Row &row) const {
    for (int64_t t = 0; t < n; t += W) {  // one loop for whole and broken vectors: rows end where nobody can foresee
      const int here = int(std::min<int64_t>(W, n - t));
      __builtin_prefetch(j + t + AHEAD);
      if (__builtin_expect(t + W <= room, 1)) {
        entries(j + t, y + t, first(here), row, t);
      } else {
        int32_t own_j[W] = {};
        S own_y[W] = {};
        std::copy(j + t, j + n, own_j);
        std::copy(y + t, y + n, own_y);
        entries(own_j, own_y, first(here), row, t);
      }
    }
  }
  static Mask<T> first(int n) {
    alignas(64) static constexpr auto lanes = [] {
      std::array<Count<T>, 2 * W> out{};
      for (int t = 0; t < W; t++) out[t] = -1;
      return out;
    }();
    return load<Mask<T>>(lanes.data() + W - n);
  }

  // Row i of the factor in every block; `left` rows can be read.
  inline __attribute__((always_inline)) Vec<T> factor_row(int64_t i, int64_t left) const {
    const T *at = factor + i * wide;
    T own[K] = {};
    if (__builtin_expect(left * wide < K, 0)) {
      for (int c = 0; c < wide; c++) own[c] = at[c];
      at = own;
    }
    if constexpr (pairs) {
      const double both = load<double>(at);
      typedef double Blocks __attribute__((vector_size(32)));
      return Vec<T>(Mask<T>(Blocks{both, both, both, both}) & keep_all);
    }
    return repeated(Part<T, K>(load<Bits>(at) & keep), all);
  }
  template <int... I> static Vec<T> repeated(Part<T, K> x, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(x, x, (I % K)...);
  }

  // The same where compilers would take blocks through memory.
  inline __attribute__((always_inline)) void finish_pairs(int64_t i, int64_t left, const Row &row) const {
    const Pair two = Pair(Four(half_of(row.a, 0)) + Four(half_of(row.a, 2)));
    const Four total = Four(two) + Four(__builtin_shufflevector(two, two, 1, 0));
    if (__builtin_expect(left * wide >= K, 1)) return store(A + i * wide, Pair(total)[0]);
    for (int c = 0; c < wide; c++) A[i * wide + c] = total[c];
  }
  // What the row has added up. Beyond it, room for `left` rows is written, and written again by those.
  inline __attribute__((always_inline)) void finish(int64_t i, int64_t left, const Row &row) const {
    if constexpr (kind == Thin::columns || counts) return;
    if constexpr (pairs) return finish_pairs(i, left, row);
    Part<T, K> total = block_of<T, K>(row.a, 0);
#pragma GCC unroll 4
    for (int b = 1; b < blocks; b++) total += block_of<T, K>(row.a, b);
    if (__builtin_expect(left * wide >= K, 1)) return store(A + i * wide, total);
    for (int c = 0; c < wide; c++) A[i * wide + c] = total[c];
  }
};

// Gram matrices beside a thin pass, in single precision: each row's while its columns are in the cache.
template <class T> struct ThinGrams {
  const Products<T> &job;
  const int wide = padded_width<float>(job.width_w), vectors = wide / width<float>;
  const decltype(ForVectors<float>::spread) spread = for_vectors<float>(vectors).spread;
  Buffer<float> Qw = job.width_w ? padded<float>(job.Qw, job.n2, job.width_w) : nullptr;

  struct Share {
    Sums<float> WtP;
    Buffer<T> kept;  // of a row
    Buffer<float> weights, pw, sums;
  };
  Share share() const {
    return {Sums<float>(job.n2 * wide), zeros<T>(job.n2 + width<T>), zeros<float>(job.n2), zeros<float>(wide),
            zeros<float>(wide)};
  }
  void row(int64_t i, const int32_t *j, int64_t n, Share &own) const {
    std::copy(own.kept.get(), own.kept.get() + n, own.weights.get());
    std::copy_n(job.Pw + i * job.width_w, job.width_w, own.pw.get());
    std::fill_n(own.sums.get(), wide, 0.0f);
    spread(own.weights.get(), j, int(n), own.pw.get(), Qw.get(), vectors, own.sums.get(), own.WtP.get());
    std::copy_n(own.sums.get(), job.width_w, job.WQ + i * job.width_w);
  }
};

template <class T> struct ThinPass {
  static constexpr int64_t MOST_COLUMNS = 16384;  // rows are so short that they are summed in single precision, and the
                                                  // table stays in the second-level cache
  static constexpr int MOST_WIDTH = 8;
  const Sparse &data;
  const Products<T> &job;
  const bool rejects = job.weight.rule == Rule::threshold;
  const Thin kind = job.width_w ? Thin::kept
                    : rejects   ? (job.P ? Thin::reject : Thin::count)
                    : job.rank  ? Thin::pull
                    : job.Q     ? Thin::rows
                                : Thin::columns;
  const int lanes = lanes_of(job);
  Buffer<T> table = kind == Thin::columns ? nullptr : laid_out();
  const ThinGrams<T> grams{job};
  struct Share {
    Sums<T> B;
    typename ThinGrams<T>::Share weighed;
  };

  static int columns_of(const Products<T> &job) { return job.rank && !job.P ? job.rank : job.width; }
  static int lanes_of(const Products<T> &job) {
    const int wanted = columns_of(job) + (job.weight.rule == Rule::threshold);  // a lane to count in
    return wanted <= 2 ? 2 : wanted <= 4 ? 4 : wanted <= MOST_WIDTH ? MOST_WIDTH : INT_MAX;
  }
  // Whether outliers are left out by one threshold in each row, whatever the column.
  static bool leaves_out(const Products<T> &job) {
    const auto &w = job.weight;
    const auto protects = [](T x) { return x > 0; };
    return may_reject(w) && job.row_inliers && (!job.width_w || may_be_rough(job)) && job.n2 &&
           *std::max_element(w.col_z, w.col_z + job.n2) <= *std::min_element(w.row_z, w.row_z + job.n1) &&
           std::none_of(w.row_protect, w.row_protect + job.n1, protects) &&
           std::none_of(w.col_protect, w.col_protect + job.n2, protects);
  }
  static bool only_counts(const Products<T> &job) {
    return job.rank && !job.P && job.Q && !job.width_w &&
           std::all_of(job.Q, job.Q + job.n2 * job.width, [](T x) { return x == 0; });
  }
  static bool serves(const Products<T> &job) {
    const bool pull = job.P && job.Q && job.P == job.L && job.Q == job.R && job.rank == job.width;
    const bool one = !job.rank && bool(job.P) != bool(job.Q), clips = job.weight.rule == Rule::clip;
    return !job.adjoint && job.n1 && job.width > 0 && lanes_of(job) <= width<T> && job.n2 <= MOST_COLUMNS &&
           (clips ? pull || one : (pull || only_counts(job)) && leaves_out(job));
  }

  Buffer<T> laid_out() const {
    const int k = columns_of(job);
    const T *from = kind == Thin::count ? job.R : job.Q;
    auto out = zeros<T>(job.n2 * lanes);
    for (int64_t j = 0; j < job.n2; j++)
      for (int c = 0; c < k; c++) out[j * lanes + c] = from[j * k + c];
    return out;
  }

  // How many entries of some rows are inliers.
  template <int K, class S, Thin what> int64_t work_as(int64_t from, int64_t to, Share &share) const {
    ThinRows<T, K, S, what> rows(job, table.get(), share.B.get());
    if constexpr (what == Thin::kept) rows.kept = share.weighed.kept.get();
    const S *values = static_cast<const S *>(data.data);
    const int64_t *indptr = data.indptr, n1 = job.n1, stored = indptr[n1], most = TYPICAL * job.n2 + SETTLE;
    const int32_t *indices = data.indices;
    int64_t unsettled = 0, inliers = 0;
    Mask<T> counted = {};  // by lane
    for (int64_t i = from; i < to; i++) {
      const int64_t q = indptr[i], n = indptr[i + 1] - q;
      typename ThinRows<T, K, S, what>::Row row;
      if constexpr (rows.rejects) row.z = fill<T>(job.weight.row_z[i]);
      else row.inliers = counted;
      if constexpr (what != Thin::rows) row.l = rows.factor_row(i, n1 - i);
      rows.row(indices + q, values + q, n, stored - q, row);
      rows.finish(i, to - i, row);
      if constexpr (rows.rejects) inliers += count_row(i, row.inliers);
      else counted = row.inliers;
      if constexpr (what == Thin::kept) grams.row(i, indices + q, n, share.weighed);
      if ((unsettled += n) > most) {
        share.B.settle();
        share.weighed.WtP.settle();
        unsettled = 0;
        for (int t = 0; t < width<T>; t++) inliers += counted[t];
        counted = Mask<T>{};
      }
    }
    for (int t = 0; t < width<T>; t++) inliers += counted[t];
    return inliers;
  }
  int64_t count_row(int64_t i, Mask<T> by_lane) const {
    int64_t n = 0;
    for (int t = 0; t < width<T>; t++) n += by_lane[t];
    job.row_inliers[i] = n;
    job.row_weight[i] = T(n);
    return n;
  }
  template <int K, class S> int64_t work_in(int64_t from, int64_t to, Share &share) const {
    switch (kind) {
      case Thin::pull: return work_as<K, S, Thin::pull>(from, to, share);
      case Thin::reject: return work_as<K, S, Thin::reject>(from, to, share);
      case Thin::kept: return work_as<K, S, Thin::kept>(from, to, share);
      case Thin::count: return work_as<K, S, Thin::count>(from, to, share);
      case Thin::rows: return work_as<K, S, Thin::rows>(from, to, share);
      case Thin::columns: return work_as<K, S, Thin::columns>(from, to, share);
    }
    return 0;
  }
  template <int K> int64_t work(int64_t from, int64_t to, Share &share) const {
    if constexpr (K > width<T>) return 0;
    else if constexpr (sizeof(T) == 8) return work_in<K, double>(from, to, share);
    else switch (data.storage) {
        case Storage::u8: return work_in<K, uint8_t>(from, to, share);
        case Storage::i16: return work_in<K, int16_t>(from, to, share);
        case Storage::u16: return work_in<K, uint16_t>(from, to, share);
        default: return work_in<K, float>(from, to, share);
      }
  }

  void run() const {
    const int threads = shares_of(job.threads, job.n1);
    std::unique_ptr<Share[]> shares(new Share[threads]);
    std::unique_ptr<int64_t[]> inliers(new int64_t[threads]());
    in_shares(threads, [&](int t) {
      if (job.P || rejects) shares[t].B = Sums<T>(job.n2 * lanes);
      if (job.width_w) shares[t].weighed = grams.share();
      const int64_t from = first_of_share(data, job.n1, t, threads), to = first_of_share(data, job.n1, t + 1, threads);
      inliers[t] = lanes == 2   ? work<2>(from, to, shares[t])
                   : lanes == 4 ? work<4>(from, to, shares[t])
                                : work<8>(from, to, shares[t]);
    });
    if (!rejects) add_all(inliers.get(), threads, *job.inliers);
    for (int t = 0; t < threads && (job.P || rejects); t++)
      for (int64_t j = 0; j < job.n2; j++) {
        for (int c = 0; c < job.width && job.P; c++)
          job.CtP[j * job.width + c] = T(job.CtP[j * job.width + c] + shares[t].B[j * lanes + c]);
        if (rejects) job.col_inliers[j] += int64_t(shares[t].B[j * lanes + columns_of(job)]);
      }
    for (int t = 0; t < threads && job.width_w; t++) add_padded(shares[t].weighed.WtP, job.n2, job.width_w, job.WtP);
    if (rejects) std::copy_n(job.col_inliers, job.n2, job.col_weight);
  }
};

}  // namespace lrmc::LRMC_ISA
