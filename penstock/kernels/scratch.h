// Scratch memory of kernels, reused from call to call.
//
// Internal to room kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace penstock::kernels {

// Pool of memory blocks. Blocks are borrowed and returned, so there are as many as were ever in use
// at one time, each as large as the largest request it has served. Thread-safe.
class Scratch {
  struct Free {
    void operator()(void* memory) const;
  };
  struct Memory {
    std::unique_ptr<void, Free> data;
    size_t bytes = 0;
  };

 public:
  // The instance of the process: a kernel call cannot carry state of ours.
  static Scratch& Instance();

  // A borrowed block, aligned to 64 bytes; its contents are unspecified. Returned on destruction.
  class Block {
   public:
    Block(Scratch& owner, Memory memory) : owner_(owner), memory_(std::move(memory)) {}
    ~Block() { owner_.Return(std::move(memory_)); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    void* data() const { return memory_.data.get(); }
    template <typename T>
    T* as() const {
      return static_cast<T*>(memory_.data.get());
    }

   private:
    Scratch& owner_;
    Memory memory_;
  };
  Block Borrow(size_t bytes) { return Block(*this, Acquire(bytes)); }

  // False: every block is allocated and freed anew, to measure what keeping them gains
  // (bench/run memory). Default: true.
  void SetKeeping(bool keeping) { keeping_ = keeping; }

 private:
  Memory Acquire(size_t bytes);
  void Return(Memory memory);

  std::atomic<bool> keeping_ = true;
  std::mutex mutex_;
  std::vector<Memory> free_;  // in ascending order of size
};

}  // namespace penstock::kernels
