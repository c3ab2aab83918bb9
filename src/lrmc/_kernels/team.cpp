#include "team.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define LRMC_FORKS
#endif
#ifdef __linux__
#include <sched.h>
#endif

namespace lrmc {

static bool forked = false;
#ifdef LRMC_FORKS
static const int told = pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif

static int processors() {
#ifdef __linux__
  cpu_set_t allowed;  // fewer than there are, in a container
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max(1, int(std::thread::hardware_concurrency()));
}

int max_threads() {
  if (forked) return 1;
  const char *asked = std::getenv("OMP_NUM_THREADS");  // what people set for all numerical libraries
  const int wanted = asked ? std::atoi(asked) : 0;
  return wanted > 0 ? wanted : processors();
}

int shares_of(int64_t wanted, int64_t pieces) {
  const int64_t most = std::max(64, 4 * processors());  // 64: the same shares on all but the largest machines
  return int(std::max<int64_t>(1, std::min({wanted, pieces, most})));
}

namespace {

// Threads that sleep while there is nothing to do. Whoever has a share to give takes shares itself until none is left,
// and then waits only for those that were begun: a thread whose core is busy with something else is not waited for.
class Team {
  std::mutex one_at_a_time, lock;
  std::condition_variable wake, done;
  const std::function<void(int)> *work = nullptr;  // null while nobody may join
  std::exception_ptr failure;
  std::atomic<int> next{0};
  int shares = 0, room = 0, busy = 0, members = 0;  // shares; threads that may still join; that did; that there are

  void take() {
    for (int t = next++; t < shares; t = next++) {
      try {
        (*work)(t);
      } catch (...) {
        const std::lock_guard<std::mutex> held(lock);
        if (!failure) failure = std::current_exception();
      }
    }
  }
  void serve() {
    std::unique_lock<std::mutex> held(lock);
    for (;;) {
      wake.wait(held, [&] { return work && room > 0; });
      room--;
      busy++;
      held.unlock();
      take();
      held.lock();
      if (--busy == 0) done.notify_one();
    }
  }

 public:
  // False if another thread's work is being done.
  bool run(int shares_, int threads, const std::function<void(int)> &work_) {
    const std::unique_lock<std::mutex> alone(one_at_a_time, std::try_to_lock);
    if (!alone) return false;
    std::unique_lock<std::mutex> held(lock);
    for (; members < threads - 1; members++) std::thread([this] { serve(); }).detach();
    shares = shares_;
    room = threads - 1;
    next = 0;
    work = &work_;
    failure = nullptr;
    held.unlock();
    for (int t = 1; t < threads; t++) wake.notify_one();
    take();
    held.lock();
    room = 0;
    done.wait(held, [&] { return busy == 0; });
    work = nullptr;
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    return true;
  }
};

}  // namespace

void in_shares(int shares, const std::function<void(int)> &work) {
  const int threads = forked ? 1 : std::min(shares, 4 * processors());
  static Team &team = *new Team;  // never destroyed: its threads sleep until the process ends
  if (threads > 1 && team.run(shares, threads, work)) return;
  for (int t = 0; t < shares; t++) work(t);
}

}  // namespace lrmc
