// Large pieces of memory that are taken and given back again and again, each whole.
//
// A CPU client takes the temporaries of each execution from malloc, hundreds of MB, and gives them
// back at its end. A general allocator cuts a piece for somebody else from what was given back, so
// the next execution's temporaries lie elsewhere and the process grows by their size; or it gives
// the pages back to the system, which clears them anew. Here a place is never cut: it is lent to
// one at a time and grows where it is.
//
// Nothing in it allocates, so that it can stand behind malloc (malloc.cc). Internal to room
// runtime.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock::runtime {

class LargeBlocks {
 public:
  static constexpr size_t kAlignment = 2 << 20;  // a large page
  static constexpr size_t kPlaces = 64;
  static constexpr size_t kPlaceBytes = size_t{8} << 30;  // of address space

  constexpr LargeBlocks() = default;
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // The one behind this process's malloc; null where there is none (sanitizers, PENSTOCK_TCMALLOC
  // off) or as long as nothing large was asked for.
  static LargeBlocks* OfProcess() { return of_process_.load(std::memory_order_acquire); }
  static void SetOfProcess(LargeBlocks* blocks) { of_process_.store(blocks); }

  // Memory aligned to kAlignment, its contents anything. Null: all places are lent, it is larger
  // than a place, or the system has no room; whoever asks then goes elsewhere.
  void* Take(size_t bytes);
  // Of what Take gave: its pages stay for the next. Those of a place that nobody wanted in the last
  // kOldAge loans go back to the system.
  void GiveBack(void* block);
  static constexpr uint64_t kOldAge = 256;

  bool Owns(const void* memory) const {
    const uintptr_t begin = begin_.load(std::memory_order_acquire);
    return begin != 0 && reinterpret_cast<uintptr_t>(memory) - begin < kPlaces * kPlaceBytes;
  }
  // Waits until no place is lent for exactly `bytes`, but not longer than some milliseconds: for
  // whoever knows that it is about to be given back. False if it was not.
  bool AwaitNoneLent(size_t bytes);
  // What was asked for `block`, which Take gave.
  size_t SizeOf(const void* block);
  // Pages of all places, lent or not.
  size_t Bytes();

 private:
  struct Place {
    size_t usable = 0;       // bytes from its begin that may be read and written
    size_t bytes = 0;        // that were asked for; 0: not lent
    uint64_t last_used = 0;  // the number of the loan
  };

  static std::atomic<LargeBlocks*> of_process_;

  bool Reserve();
  size_t Choose(size_t bytes) const;
  void ReleaseOld();
  size_t IndexOf(const void* block) const;
  char* At(size_t place) const;

  std::mutex mutex_;
  void* reserved_ = nullptr;         // what the system gave
  std::atomic<uintptr_t> begin_{0};  // of the first place; 0: nothing is reserved yet
  bool refused_ = false;             // there is no address space for it
  uint64_t loans_ = 0;
  std::array<Place, kPlaces> places_ = {};
};

}  // namespace penstock::runtime
