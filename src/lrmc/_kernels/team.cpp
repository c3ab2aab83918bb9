#include "team.hpp"

#include <algorithm>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define LRMC_FORKS
#endif

namespace lrmc {

static bool forked = false;
#ifdef LRMC_FORKS
static const int told = pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif

#ifdef _OPENMP
static int thread_index() { return omp_get_thread_num(); }
static int team_size() { return omp_get_num_threads(); }
static int processors() { return omp_get_num_procs(); }
int max_threads() { return forked ? 1 : omp_get_max_threads(); }
#else
static int thread_index() { return 0; }
static int team_size() { return 1; }
static int processors() { return 1; }
int max_threads() { return 1; }
#endif

int shares_of(int64_t wanted, int64_t pieces) {
  const int64_t most = std::max(64, 4 * processors());  // 64: the same shares on all but the largest machines
  return int(std::max<int64_t>(1, std::min({wanted, pieces, most})));
}

void in_shares(int shares, const std::function<void(int)> &work) {
  std::exception_ptr failure;
  const int threads = forked ? 1 : std::min(shares, 4 * processors());
  if (threads == 1) {
    for (int t = 0; t < shares; t++) work(t);
    return;
  }
#pragma omp parallel num_threads(threads)
  for (int t = thread_index(); t < shares; t += team_size()) {
    try {
      work(t);
    } catch (...) {
#pragma omp critical
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lrmc
