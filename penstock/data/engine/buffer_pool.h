// BufferPool: recycles the memory of batches once the reader has released them. A pipeline in a
// steady state then allocates nothing: fresh memory would cost a page fault for every 4 KiB.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/base/array.h"

namespace penstock::data {

// Thread-safe. Arrays may outlive it.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static std::shared_ptr<BufferPool> Make() { return std::shared_ptr<BufferPool>(new BufferPool); }
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Uninitialized memory, aligned to base::kArrayAlignment; of any type but kString.
  base::Array Allocate(base::DType dtype, const base::Shape& shape);
  // Limits the free memory to `bytes`; the least recently used buffers are freed first.
  void Trim(int64_t bytes);
  // Frees the free memory, and from now on also returned memory.
  void Close();

  int64_t allocations() const;  // number of allocations that could not reuse memory

 private:
  struct Buffer {
    void* memory;
    int64_t bytes;
  };
  BufferPool() = default;
  void Return(Buffer buffer);

  mutable std::mutex mutex_;
  std::vector<Buffer> free_;
  int64_t free_bytes_ = 0;
  bool closed_ = false;
  int64_t allocations_ = 0;
};

}  // namespace penstock::data
