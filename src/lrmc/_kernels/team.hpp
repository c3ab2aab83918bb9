// Work in shares: the one place where there are threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>

namespace lrmc {

// How many threads a pass has unless it is told: OMP_NUM_THREADS, or all cores that this process may use. One in a
// forked child: threads stay with the parent, and waiting for them would never end.
int max_threads();

// Into how many shares the work is divided: as many as are wanted, but no more than there are pieces of work, and not
// so many that a machine could not bear it.
int shares_of(int64_t wanted, int64_t pieces);

// work(0), ..., work(shares - 1) by as many threads as there are for it; what is computed depends on the shares, never
// on the threads. The first exception is thrown again when all are done: one that left a parallel region would end the
// process.
void in_shares(int shares, const std::function<void(int)> &work);

// Every piece of work by whoever is free: make() gives a thread what it works with, which is called with each piece.
template <class Make> void for_each(int64_t count, int threads, Make make) {
  std::atomic<int64_t> next{0};
  in_shares(shares_of(threads, count), [&](int) {
    auto work = make();
    for (int64_t t = next++; t < count; t = next++) work(t);
  });
}

struct NoMemory : std::bad_alloc {
  char text[128];
  explicit NoMemory(size_t bytes) {
    std::snprintf(text, sizeof text, "no memory for %.3g MB of a pass's own sums and scratch; fewer threads need less",
                  double(bytes) / 1e6);
  }
  const char *what() const noexcept override { return text; }
};

}  // namespace lrmc
