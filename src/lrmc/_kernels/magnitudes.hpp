// The k-th largest |e| of each row and of each column of the residual Y - L R', exactly: what the sparsification
// operator of ScaledGD and GD asks for. Numbers that are not negative are ordered as their bits are, so the answer is
// found bit by bit, each by counting how many entries are at least so large: no sorting, no branches on the data, and
// ties need no care. Missing entries (NaN) are at least as large as nothing. A column takes as many lanes as a row,
// since W columns are searched side by side.
#pragma once
#include "dense.hpp"
#include "sparse.hpp"

namespace lrmc::LRMC_ISA {

template <class To, class From> inline To same_bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  __builtin_memcpy(&out, &x, sizeof x);
  return out;
}
template <class T> inline bool all(Mask<T> m) {
  Count<T> together = -1;
  for (int t = 0; t < width<T>; t++) together &= m[t];
  return together;
}

enum class Lanes { separate, together };  // each lane is a set of numbers, or all lanes are one set

// How many of n vectors' numbers are at least t.
template <class T, Lanes lanes> Mask<T> count_from(const T *v, int64_t n, Vec<T> t) {
  constexpr int W = width<T>;
  Mask<T> some = {}, more = {};
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    some -= load<Vec<T>>(v + i * W) >= t;
    more -= load<Vec<T>>(v + (i + 1) * W) >= t;
  }
  if (i < n) some -= load<Vec<T>>(v + i * W) >= t;
  some += more;
  if constexpr (lanes == Lanes::together) {
    Count<T> total = 0;
    for (int c = 0; c < W; c++) total += some[c];
    some = total - Mask<T>{};
  }
  return some;
}

// The smallest number that is at least t. There is one.
template <class T, Lanes lanes> Vec<T> least_from(const T *v, int64_t n, Vec<T> t) {
  constexpr int W = width<T>;
  Vec<T> least = fill<T>(std::numeric_limits<T>::infinity());
  for (int64_t i = 0; i < n; i++) {
    const Vec<T> x = load<Vec<T>>(v + i * W);
    least = x >= t ? smaller(x, least) : least;
  }
  if constexpr (lanes == Lanes::together)
    for (int c = 0; c < W; c++) least = smaller(least, fill<T>(least[c]));
  return least;
}

// The k-th largest of n vectors' numbers, none of them negative; where k is 0, infinity. The search ends as soon as
// exactly k numbers are at least what is known of the answer: after some 20 of 31 bits in single precision, and little
// later in double.
template <class T, Lanes lanes> Vec<T> kth_largest(const T *v, int64_t n, Mask<T> k) {
  const Mask<T> nothing = k == 0;
  Mask<T> known = {}, above = {};  // the bits so far, and how many numbers are at least so large
  for (int bit = 8 * sizeof(T) - 2; bit >= 0 && !all<T>((above == k) | nothing); bit--) {
    const Mask<T> next = known | (Count<T>(1) << bit);
    const Mask<T> count = count_from<T, lanes>(v, n, same_bits<Vec<T>>(next));
    known = count >= k ? next : known;
    above = count >= k ? count : above;
  }
  return nothing ? fill<T>(std::numeric_limits<T>::infinity()) : least_from<T, lanes>(v, n, same_bits<Vec<T>>(known));
}
template <class T> T kth_of_row(const T *v, int64_t n, int64_t k) {
  return kth_largest<T, Lanes::together>(v, n, Count<T>(k) - Mask<T>{})[0];
}

// ---- dense: rows four at a time, and columns in panels as wide as a tile, or less where columns are long

template <class T> struct DenseMagnitudes {
  const Dense &data;
  const Products<T> &job;
  const Magnitudes<T> &out;
  static constexpr int W = width<T>, PAIR = 2 * W;
  static constexpr int64_t SCRATCH =
      4 << 20;  // bytes of a panel, unless a pair of vectors per row is more. Narrow ones read slowly
  const int panel = panel_width();
  Buffer<T> R = job.rank ? tiled(job.R, job.n2, job.rank) : nullptr;

  int panel_width() const {
    int columns = TILE<T>;
    while (columns > PAIR && job.n1 * columns * int64_t(sizeof(T)) > SCRATCH) columns /= 2;
    return columns;
  }

  struct Room {
    Buffer<T> L, line;
    alignas(64) T C[ROWS * TILE<T>], read[ROWS * TILE<T>];
  };

  // |e| of rows i, ... and columns j, ... (of one tile) in room.C; how many columns there are, up to whole pairs of
  // vectors.
  int sizes(int64_t i, int64_t j, int most, Room &room) const {
    const int n = int(std::min<int64_t>(job.n2 - j, most)), padded = (n + PAIR - 1) / PAIR * PAIR;
    const int here = int(std::min<int64_t>(ROWS, job.n1 - i));
    Tile<T> tile{};
    tile.gain = job.gain;
    tile.n = padded;
    tile.rank = job.rank;
    tile.L = room.L.get();
    tile.R = after(R.get(), j / TILE<T> * TILE<T> * job.rank + j % TILE<T>);
    tile.C = room.C;
    for (int m = 0; m < ROWS; m++) {  // rows beyond the last read as missing
      tile.source[m] = source<T>(data, i + m, j, m < here ? n : 0, padded, room.read + m * TILE<T>);
      for (int c = 0; c < job.rank; c++) room.L[m * job.rank + c] = m < here ? job.L[(i + m) * job.rank + c] : T(0);
    }
    residual_tile(tile);
    for (int m = 0; m < ROWS; m++)
      for (int c = 0; c < padded; c += W) {
        T *at = room.C + m * TILE<T> + c;
        store(at, larger(load<Vec<T>>(at), -load<Vec<T>>(at)));
      }
    return padded;
  }

  void rows(int64_t i, Room &room) const {
    const int64_t length = (job.n2 + PAIR - 1) / PAIR * PAIR;
    for (int64_t j = 0; j < job.n2; j += TILE<T>) {
      const int n = sizes(i, j, TILE<T>, room);
      for (int m = 0; m < ROWS; m++) std::copy_n(room.C + m * TILE<T>, n, room.line.get() + m * length + j);
    }
    for (int m = 0; m < ROWS && i + m < job.n1; m++)
      out.rows[i + m] = kth_of_row(room.line.get() + m * length, length / W, out.row_k[i + m]);
  }

  void columns(int64_t j, Room &room) const {
    const int64_t n = (job.n1 + ROWS - 1) / ROWS * ROWS;  // vectors of a column
    int vectors = 0;
    for (int64_t i = 0; i < n; i += ROWS) {
      vectors = sizes(i, j, panel, room) / W;
      for (int h = 0; h < vectors; h++)
        for (int m = 0; m < ROWS; m++)
          store(room.line.get() + (h * n + i + m) * W, load<Vec<T>>(room.C + m * TILE<T> + h * W));
    }
    for (int h = 0; h < vectors; h++, j += W) {
      const int here = int(std::clamp<int64_t>(job.n2 - j, 0, W));
      Mask<T> k = {};
      for (int c = 0; c < here; c++) k[c] = Count<T>(out.col_k[j + c]);
      const Vec<T> z = kth_largest<T, Lanes::separate>(room.line.get() + h * n * W, n, k);
      for (int c = 0; c < here; c++) out.cols[j + c] = z[c];
    }
  }

  void run() const {
    const int64_t groups = (job.n1 + ROWS - 1) / ROWS, panels = (job.n2 + panel - 1) / panel;
    const int threads = shares_of(job.threads, std::max(groups, panels));
    in_shares(threads, [&](int t) {
      auto room = std::make_unique<Room>();
      room->L = zeros<T>(ROWS * job.rank);
      room->line = zeros<T>(ROWS * std::max((job.n2 + PAIR), groups * panel));
      for (int64_t g = groups * t / threads; g < groups * (t + 1) / threads; g++) rows(g * ROWS, *room);
      for (int64_t g = panels * t / threads; g < panels * (t + 1) / threads; g++) columns(g * panel, *room);
    });
  }
};

// ---- sparse: the residuals by row, and then the same by column

template <class T> struct SparseMagnitudes {
  const Sparse &data;
  const Products<T> &job;
  const Magnitudes<T> &out;
  const int64_t n_entries = data.indptr[job.n1];
  Buffer<T> by_row = zeros<T>(n_entries), by_column = zeros<T>(n_entries);
  Buffer<int64_t> first = zeros<int64_t>(job.n2 + 1);  // of each column's entries

  T kth(const T *from, int64_t n, int64_t k, Buffer<T> &line) const {
    const int64_t vectors = (n + width<T> - 1) / width<T>;
    for (int64_t q = 0; q < n; q++) line[q] = std::fabs(from[q]);
    std::fill(line.get() + n, line.get() + vectors * width<T>, std::numeric_limits<T>::quiet_NaN());
    return kth_of_row(line.get(), vectors, k);
  }

  // Columns of a row are sorted, so that each thread finds the entries of its own columns.
  void sort_columns(int64_t j0, int64_t j1) const {
    auto at = zeros<int64_t>(j1 - j0);
    std::copy(first.get() + j0, first.get() + j1, at.get());
    for (int64_t i = 0; i < job.n1; i++) {
      const int32_t *last = data.indices + data.indptr[i + 1];
      for (const int32_t *j = std::lower_bound(data.indices + data.indptr[i], last, int32_t(j0)); j < last && *j < j1;
           j++)
        by_column[at[*j - j0]++] = by_row[j - data.indices];
    }
  }

  void run() const {
    const int threads = shares_of(job.threads, std::max(job.n1, job.n2));
    const SparsePass<T> pass{data, job};
    pass.residuals(by_row.get());
    for (int64_t q = 0; q < n_entries; q++) first[data.indices[q] + 1]++;
    for (int64_t j = 0; j < job.n2; j++) first[j + 1] += first[j];
    in_shares(threads, [&](int t) {
      auto line = zeros<T>(std::max(job.n1, job.n2) + width<T>);
      for (int64_t i = pass.first_row(t, threads), end = pass.first_row(t + 1, threads); i < end; i++)
        out.rows[i] = kth(by_row.get() + data.indptr[i], data.indptr[i + 1] - data.indptr[i], out.row_k[i], line);
      const int64_t j0 = job.n2 * t / threads, j1 = job.n2 * (t + 1) / threads;
      sort_columns(j0, j1);
      for (int64_t j = j0; j < j1; j++)
        out.cols[j] = kth(by_column.get() + first[j], first[j + 1] - first[j], out.col_k[j], line);
    });
  }
};

}  // namespace lrmc::LRMC_ISA
