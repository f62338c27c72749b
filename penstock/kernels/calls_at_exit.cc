#include "penstock/kernels/calls_at_exit.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace penstock::kernels {
namespace {

// Lowest bit: the process is exiting. Two for each call in flight.
constexpr int64_t kEnding = 1, kCall = 2;
std::atomic<int64_t> state{0};

void Leave() {
  if (state.fetch_sub(kCall) == (kCall | kEnding)) state.notify_all();
}

void WaitForCalls() {
  int64_t now = state.fetch_or(kEnding) | kEnding;
  while (now != kEnding) {
    state.wait(now);
    now = state.load();
  }
}

}  // namespace

LibraryCall::LibraryCall() : allowed_((state.fetch_add(kCall) & kEnding) == 0) {
  if (!allowed_) Leave();
}

LibraryCall::~LibraryCall() {
  if (allowed_) Leave();
}

void WaitForCallsAtExit() {
  static const bool registered = std::atexit(WaitForCalls) == 0;
  static_cast<void>(registered);
}

}  // namespace penstock::kernels
