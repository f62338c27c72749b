#include "penstock/runtime/large_blocks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <sys/mman.h>

namespace penstock::runtime {
namespace {

constexpr size_t kReservedBytes =
    LargeBlocks::kSlots * LargeBlocks::kSlotBytes + LargeBlocks::kAlignment;

constexpr int kMapping = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

size_t RoundUp(size_t bytes) {
  return (bytes + LargeBlocks::kAlignment - 1) / LargeBlocks::kAlignment * LargeBlocks::kAlignment;
}

}  // namespace

constinit std::atomic<LargeBlocks*> LargeBlocks::for_process_{nullptr};

LargeBlocks::~LargeBlocks() {
  if (reserved_ != nullptr) ::munmap(reserved_, kReservedBytes);
}

char* LargeBlocks::At(size_t slot) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): begin_ is an integer for the sake of IndexOf
  return reinterpret_cast<char*>(begin_.load(std::memory_order_relaxed)) + slot * kSlotBytes;
}

size_t LargeBlocks::IndexOf(const void* block) const {
  return (reinterpret_cast<uintptr_t>(block) - begin_.load(std::memory_order_relaxed)) / kSlotBytes;
}

// Reserves address space only: pages are committed on use.
bool LargeBlocks::Reserve() {
  if (begin_.load(std::memory_order_relaxed) != 0) return true;
  if (reserve_failed_) return false;
  void* const memory = ::mmap(nullptr, kReservedBytes, PROT_NONE, kMapping, -1, 0);
  if (memory == MAP_FAILED) {
    reserve_failed_ = true;
    return false;
  }
  reserved_ = memory;
  begin_.store(RoundUp(reinterpret_cast<uintptr_t>(memory)), std::memory_order_release);
  return true;
}

// The free slot whose committed size is closest to `bytes`: an empty one rather than one of more
// than twice the size, and one that is a little too small rather than an empty one.
size_t LargeBlocks::Choose(size_t bytes) const {
  size_t best = kSlots, least = 0;
  for (size_t i = 0; i < kSlots; ++i) {
    if (slots_[i].bytes != 0) continue;
    const size_t committed = slots_[i].committed;
    const size_t difference = committed > bytes ? committed - bytes : bytes - committed;
    if (best == kSlots || difference < least) {
      best = i;
      least = difference;
    }
  }
  return best;
}

void* LargeBlocks::Allocate(size_t bytes) {
  if (bytes == 0 || bytes > kSlotBytes) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!Reserve()) return nullptr;
  const size_t index = Choose(bytes);
  if (index == kSlots) return nullptr;
  Slot& slot = slots_[index];
  const size_t needed = RoundUp(bytes);
  if (needed > slot.committed) {
    char* const more = At(index) + slot.committed;
    if (::mprotect(more, needed - slot.committed, PROT_READ | PROT_WRITE) != 0) return nullptr;
    slot.committed = needed;
  }
  slot.bytes = bytes;
  return At(index);
}

void LargeBlocks::Free(void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Slot& slot = slots_[IndexOf(block)];
  slot.bytes = 0;
  slot.last_used = ++num_frees_;
  ReleaseOld();
}

// Releases one slot per call, because it takes milliseconds.
void LargeBlocks::ReleaseOld() {
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[i];
    if (slot.bytes != 0 || slot.committed == 0 || num_frees_ - slot.last_used < kTrimAfter)
      continue;
    // Mapped again, so that the system releases its pages.
    if (::mmap(At(i), slot.committed, PROT_NONE, kMapping | MAP_FIXED, -1, 0) != MAP_FAILED) {
      slot.committed = 0;
    }
    return;
  }
}

bool LargeBlocks::AwaitFreed(size_t bytes) {
  constexpr auto kPause = std::chrono::microseconds(50);
  constexpr int kPauses = 100;
  for (int i = 0; i < kPauses; ++i) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const bool used = std::any_of(slots_.begin(), slots_.end(),
                                    [&](const Slot& slot) { return slot.bytes == bytes; });
      if (!used) return true;
    }
    // Sleeps instead of waiting on a condition: the thread that is about to free it may need this
    // core.
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

size_t LargeBlocks::SizeOf(const void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return slots_[IndexOf(block)].bytes;
}

size_t LargeBlocks::Bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t sum = 0;
  for (const Slot& slot : slots_) sum += slot.committed;
  return sum;
}

}  // namespace penstock::runtime
