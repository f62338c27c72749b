// Memory that kernels work in, kept from call to call.
//
// Internal to room kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace penstock::kernels {

// Blocks are lent and come back, so there are as many as were ever needed at one moment, each as
// large as its largest borrower wanted. Thread-safe.
class Scratch {
  struct Free {
    void operator()(void* memory) const;
  };
  struct Memory {
    std::unique_ptr<void, Free> data;
    size_t bytes = 0;
  };

 public:
  // One for the process: calls of a kernel carry nothing of ours with them.
  static Scratch& Instance();

  // Aligned to 64 bytes; the contents are anything.
  class Block {
   public:
    Block(Scratch& owner, Memory memory) : owner_(owner), memory_(std::move(memory)) {}
    ~Block() { owner_.GiveBack(std::move(memory_)); }
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
  Block Borrow(size_t bytes) { return Block(*this, Take(bytes)); }

 private:
  Memory Take(size_t bytes);
  void GiveBack(Memory memory);

  std::mutex mutex_;
  std::vector<Memory> free_;  // the smallest first
};

}  // namespace penstock::kernels
