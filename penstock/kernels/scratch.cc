#include "penstock/kernels/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace penstock::kernels {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

void Scratch::Free::operator()(void* memory) const { std::free(memory); }

Scratch& Scratch::Instance() {
  static auto& scratch = *new Scratch;
  return scratch;
}

// Best fit: the smallest block that is large enough; otherwise the largest is replaced by a larger
// one.
Scratch::Memory Scratch::Acquire(size_t bytes) {
  if (bytes == 0) return {};
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto fits =
        std::find_if(free_.begin(), free_.end(), [&](const Memory& m) { return m.bytes >= bytes; });
    if (fits != free_.end()) {
      Memory memory = std::move(*fits);
      free_.erase(fits);
      return memory;
    }
    if (!free_.empty()) free_.pop_back();
  }
  Memory memory;
  memory.data.reset(std::aligned_alloc(kAlignment, bytes));
  if (memory.data == nullptr) throw std::bad_alloc();
  memory.bytes = bytes;
  return memory;
}

void Scratch::Return(Memory memory) {
  if (memory.bytes == 0 || !keeping_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = std::find_if(free_.begin(), free_.end(),
                                  [&](const Memory& m) { return m.bytes >= memory.bytes; });
  free_.insert(place, std::move(memory));
}

}  // namespace penstock::kernels
