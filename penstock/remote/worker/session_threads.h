// EndThreads: how a session ends the threads that run its pipelines and its checkpoints. Internal to room remote.
#pragma once

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/base/clock.h"

namespace penstock::remote {

// Waits until what the threads run has ended (`await_end(thread, seconds)`), `seconds` at most for all of them. Each thread
// is the only one of its `pool`; one that reads or writes for longer ends by itself later, and must not use the session.
template <typename Thread, typename AwaitEnd>
void EndThreads(std::vector<Thread> threads, double seconds, AwaitEnd await_end) {
  base::Clock& clock = *base::Clock::Real();
  const double until = clock.Seconds() + seconds;
  for (Thread& thread : threads) {
    if (await_end(thread, std::max(0.0, until - clock.Seconds()))) continue;
    // A thread of its own waits for it. There is no pool to use here.
    try {
      std::thread([left = std::move(thread)]() mutable { left.pool.reset(); }).detach();
    } catch (const std::system_error&) {
      (void)thread.pool.release();  // lives until the process ends
    }
  }
}

}  // namespace penstock::remote
