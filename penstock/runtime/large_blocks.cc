#include "penstock/runtime/large_blocks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <sys/mman.h>

namespace penstock::runtime {
namespace {

constexpr size_t kReservedBytes =
    LargeBlocks::kPlaces * LargeBlocks::kPlaceBytes + LargeBlocks::kAlignment;

constexpr int kMapping = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

size_t RoundUp(size_t bytes) {
  return (bytes + LargeBlocks::kAlignment - 1) / LargeBlocks::kAlignment * LargeBlocks::kAlignment;
}

}  // namespace

constinit std::atomic<LargeBlocks*> LargeBlocks::of_process_{nullptr};

LargeBlocks::~LargeBlocks() {
  if (reserved_ != nullptr) ::munmap(reserved_, kReservedBytes);
}

char* LargeBlocks::At(size_t place) const {
  return reinterpret_cast<char*>(begin_.load(std::memory_order_relaxed)) + place * kPlaceBytes;
}

size_t LargeBlocks::IndexOf(const void* block) const {
  return (reinterpret_cast<uintptr_t>(block) - begin_.load(std::memory_order_relaxed)) /
         kPlaceBytes;
}

// Addresses only: no page of it exists before it is lent.
bool LargeBlocks::Reserve() {
  if (begin_.load(std::memory_order_relaxed) != 0) return true;
  if (refused_) return false;
  void* const memory = ::mmap(nullptr, kReservedBytes, PROT_NONE, kMapping, -1, 0);
  if (memory == MAP_FAILED) {
    refused_ = true;
    return false;
  }
  reserved_ = memory;
  begin_.store(RoundUp(reinterpret_cast<uintptr_t>(memory)), std::memory_order_release);
  return true;
}

// The free place whose pages differ least from what is wanted: an empty one rather than one of more
// than twice the size, and one that is a little small rather than an empty one.
size_t LargeBlocks::Choose(size_t bytes) const {
  size_t best = kPlaces, least = 0;
  for (size_t i = 0; i < kPlaces; ++i) {
    if (places_[i].bytes != 0) continue;
    const size_t usable = places_[i].usable;
    const size_t difference = usable > bytes ? usable - bytes : bytes - usable;
    if (best == kPlaces || difference < least) {
      best = i;
      least = difference;
    }
  }
  return best;
}

void* LargeBlocks::Take(size_t bytes) {
  if (bytes == 0 || bytes > kPlaceBytes) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!Reserve()) return nullptr;
  const size_t index = Choose(bytes);
  if (index == kPlaces) return nullptr;
  Place& place = places_[index];
  const size_t wanted = RoundUp(bytes);
  if (wanted > place.usable) {
    char* const more = At(index) + place.usable;
    if (::mprotect(more, wanted - place.usable, PROT_READ | PROT_WRITE) != 0) return nullptr;
    // A hint: a fault for each 2 MiB instead of each 4 KiB.
    ::madvise(more, wanted - place.usable, MADV_HUGEPAGE);
    place.usable = wanted;
  }
  place.bytes = bytes;
  return At(index);
}

void LargeBlocks::GiveBack(void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Place& place = places_[IndexOf(block)];
  place.bytes = 0;
  place.last_used = ++loans_;
  ReleaseOld();
}

// One at a time: it takes milliseconds.
void LargeBlocks::ReleaseOld() {
  for (size_t i = 0; i < kPlaces; ++i) {
    Place& place = places_[i];
    if (place.bytes != 0 || place.usable == 0 || loans_ - place.last_used < kOldAge) continue;
    // Mapped anew, so that the system counts its pages no more.
    if (::mmap(At(i), place.usable, PROT_NONE, kMapping | MAP_FIXED, -1, 0) != MAP_FAILED) {
      place.usable = 0;
    }
    return;
  }
}

bool LargeBlocks::AwaitNoneLent(size_t bytes) {
  constexpr auto kPause = std::chrono::microseconds(50);
  constexpr int kPauses = 100;
  for (int i = 0; i < kPauses; ++i) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const bool lent = std::any_of(places_.begin(), places_.end(),
                                    [&](const Place& place) { return place.bytes == bytes; });
      if (!lent) return true;
    }
    // A pause and no condition: whoever is about to give it back may want this very core.
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

size_t LargeBlocks::SizeOf(const void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return places_[IndexOf(block)].bytes;
}

size_t LargeBlocks::Bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t sum = 0;
  for (const Place& place : places_) sum += place.usable;
  return sum;
}

}  // namespace penstock::runtime
