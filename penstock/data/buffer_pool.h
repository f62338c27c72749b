// BufferPool: the memory of batches, used again when nobody looks at the batch any more. A pipeline
// in a steady state then allocates nothing: fresh memory would cost a page fault for every 4 KiB.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/base/array.h"

namespace penstock::data {

// Any thread may call it. Arrays may outlive it.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static std::shared_ptr<BufferPool> Make() { return std::shared_ptr<BufferPool>(new BufferPool); }
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Not initialised, aligned to base::kArrayAlignment; of any type but kString.
  base::Array Allocate(base::DType dtype, const base::Shape& shape);
  // Keeps at most so many bytes ready; those unused for the longest time go.
  void Trim(int64_t bytes);
  // From now on returned memory is freed; what lies ready is freed at once.
  void Close();

  int64_t allocations() const;  // how often memory was not at hand

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
