// LargeBlocks: allocator of large memory blocks that are allocated and freed repeatedly with the
// same sizes, as the temporaries of executions on a CPU client.
//
// A CPU client allocates the temporaries of each execution with malloc, hundreds of MB, and frees
// them at its end. A general allocator splits freed blocks for other requests, so the temporaries
// of the next execution are at another address and the process grows by their size; or it returns
// the pages to the system, which zeroes them again. Here each block has a slot of address space
// that is never split: it serves one request at a time and grows in place.
//
// It allocates no memory from malloc itself, so that malloc can use it (malloc.cc). Internal to
// room runtime.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock::runtime {

class LargeBlocks {
 public:
  static constexpr size_t kAlignment = 2 << 20;
  static constexpr size_t kSlots = 64;
  static constexpr size_t kSlotBytes = size_t{8} << 30;  // of address space

  constexpr LargeBlocks() = default;
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // The instance that this process's malloc uses; null if there is none (sanitizers,
  // PENSTOCK_TCMALLOC off) or if nothing large has been allocated yet.
  static LargeBlocks* ForProcess() { return for_process_.load(std::memory_order_acquire); }
  static void SetForProcess(LargeBlocks* blocks) { for_process_.store(blocks); }

  // Allocates memory aligned to kAlignment, uninitialized. Null if all slots are in use, if it is
  // larger than a slot, or if the system is out of memory; the caller then uses another allocator.
  void* Allocate(size_t bytes);
  // Frees a block. Its pages stay committed for the next one; those of a slot that was unused
  // during the last kTrimAfter frees are returned to the system.
  void Free(void* block);
  static constexpr uint64_t kTrimAfter = 256;

  bool Owns(const void* memory) const {
    const uintptr_t begin = begin_.load(std::memory_order_acquire);
    return begin != 0 && reinterpret_cast<uintptr_t>(memory) - begin < kSlots * kSlotBytes;
  }
  // Blocks until no slot is in use for exactly `bytes`, but at most a few milliseconds: for callers
  // that expect such a block to be freed soon. Returns false on timeout.
  bool AwaitFreed(size_t bytes);
  // Size that was requested for `block`.
  size_t SizeOf(const void* block);
  // Total committed bytes of all slots, in use or not.
  size_t Bytes();

 private:
  struct Slot {
    size_t committed = 0;    // number of readable and writable bytes, from its begin
    size_t bytes = 0;        // requested size; 0: not in use
    uint64_t last_used = 0;  // value of num_frees_ when it was freed
  };

  static std::atomic<LargeBlocks*> for_process_;

  bool Reserve();
  size_t Choose(size_t bytes) const;
  void ReleaseOld();
  size_t IndexOf(const void* block) const;
  char* At(size_t slot) const;

  std::mutex mutex_;
  void* reserved_ = nullptr;         // the reserved mapping
  std::atomic<uintptr_t> begin_{0};  // address of the first slot; 0: nothing is reserved yet
  bool reserve_failed_ = false;      // there is no address space for it
  uint64_t num_frees_ = 0;
  std::array<Slot, kSlots> slots_ = {};
};

}  // namespace penstock::runtime
