// How many entries of each row and column are observed, and how many of them are infinite.
#pragma once
#include "tiles.hpp"

namespace lrmc::LRMC_ISA {

// Of numbers of type T as they are stored.
template <class T> void survey_as(const Dense &data, int64_t n1, int64_t n2, Survey &out, int threads) {
  threads = shares_of(threads, n1);
  std::unique_ptr<Buffer<Count<T>>[]> columns(new Buffer<Count<T>>[threads]);
  std::unique_ptr<int64_t[]> infinite(new int64_t[threads]());
  in_shares(threads, [&](int t) {
    columns[t] = zeros<Count<T>>(n2);
    alignas(64) T room[TILE<T>];
    for (int64_t i = n1 * t / threads; i < n1 * (t + 1) / threads; i++)
      for (int64_t j = 0; j < n2; j += TILE<T>) {
        const int n = int(std::min<int64_t>(n2 - j, TILE<T>));
        const T *y = static_cast<const T *>(data.data) + i * data.stride + j;
        if (data.mask) {
          read<T>(data.data, data.storage, i * data.stride + j, data.mask + i * data.mask_stride + j, n, n, room);
          y = room;
        }
        Count<T> seen = 0, inf = 0, *column = columns[t].get() + j;
        for (int c = 0; c < n; c++) {
          const Count<T> here = y[c] == y[c];
          seen += here;
          column[c] += here;
          inf += std::fabs(y[c]) > std::numeric_limits<T>::max();
        }
        out.row_observed[i] += seen;
        infinite[t] += inf;
      }
  });
  for (int t = 0; t < threads; t++) {
    add(columns[t].get(), n2, out.col_observed);
    out.infinite += infinite[t];
  }
}

// Of integers, which are all finite, the mask says everything: it is counted in bytes, as many as these can count.
struct MaskSurvey {
  static constexpr int MOST = 255, LANES = 64;
  const Dense &data;
  int64_t n2;

  int64_t row(const uint8_t *mask) const {
    int64_t seen = 0;
    for (int64_t from = 0; from < n2; from += MOST * LANES) {
      const int64_t to = std::min<int64_t>(n2, from + MOST * LANES), whole = from + (to - from) / LANES * LANES;
      alignas(64) uint8_t lanes[LANES] = {};
      for (int64_t j = from; j < whole; j += LANES)
        for (int t = 0; t < LANES; t++) lanes[t] += mask[j + t] != 0;
      for (int t = 0; t < LANES; t++) seen += lanes[t];
      for (int64_t j = whole; j < to; j++) seen += mask[j] != 0;
    }
    return seen;
  }
  void rows(int64_t from, int64_t to, int64_t *row_observed, int64_t *columns) const {
    auto few = zeros<uint8_t>(n2);
    for (int64_t first = from; first < to; first += MOST) {
      for (int64_t i = first; i < std::min(to, first + MOST); i++) {
        const uint8_t *mask = data.mask + i * data.mask_stride;
        row_observed[i] = row(mask);
        for (int64_t j = 0; j < n2; j++) few[j] += mask[j] != 0;
      }
      add(few.get(), n2, columns);
      std::fill_n(few.get(), n2, uint8_t(0));
    }
  }
  void run(int64_t n1, Survey &out, int threads) const {
    threads = shares_of(threads, n1);
    std::unique_ptr<Buffer<int64_t>[]> columns(new Buffer<int64_t>[threads]);
    in_shares(threads, [&](int t) {
      columns[t] = zeros<int64_t>(n2);
      rows(n1 * t / threads, n1 * (t + 1) / threads, out.row_observed, columns[t].get());
    });
    for (int t = 0; t < threads; t++) add(columns[t].get(), n2, out.col_observed);
  }
};

inline void survey(const Dense &data, int64_t n1, int64_t n2, Survey &out, int threads) {
  const bool integers = data.storage != Storage::f32 && data.storage != Storage::f64;
  if (integers && !data.mask) {  // nothing is missing, nothing infinite
    std::fill_n(out.row_observed, n1, n2);
    std::fill_n(out.col_observed, n2, n1);
  } else if (integers) MaskSurvey{data, n2}.run(n1, out, threads);
  else if (data.storage == Storage::f64) survey_as<double>(data, n1, n2, out, threads);
  else survey_as<float>(data, n1, n2, out, threads);
}

}  // namespace lrmc::LRMC_ISA
