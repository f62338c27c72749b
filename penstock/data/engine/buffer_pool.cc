#include "penstock/data/engine/buffer_pool.h"

#include <algorithm>
#include <new>

namespace penstock::data {
namespace {

constexpr std::align_val_t kAlign{static_cast<size_t>(base::kArrayAlignment)};
// Small arrays (labels) come from malloc as fast as from here.
constexpr int64_t kSmallest = 16 * 1024;
// More free buffers than this mean that the reader once held many batches and no longer does.
constexpr size_t kMaxFree = 16;

}  // namespace

BufferPool::~BufferPool() {
  for (const Buffer& buffer : free_) ::operator delete(buffer.memory, kAlign);
}

base::Array BufferPool::Allocate(base::DType dtype, const base::Shape& shape) {
  PENSTOCK_CHECK(dtype != base::DType::kString);
  const int64_t bytes = (shape.num_elements() * base::BitWidth(dtype) + 7) / 8;
  if (bytes < kSmallest) return base::Array::Uninitialized(dtype, shape);
  Buffer buffer = {nullptr, bytes};
  {
    std::lock_guard lock(mutex_);
    // The last returned buffer is the most likely one to be in a CPU cache.
    const auto it = std::find_if(free_.rbegin(), free_.rend(),
                                 [&](const Buffer& b) { return b.bytes == bytes; });
    if (it != free_.rend()) {
      buffer = *it;
      free_bytes_ -= bytes;
      free_.erase(std::next(it).base());
    } else {
      ++allocations_;
    }
  }
  if (buffer.memory == nullptr) buffer.memory = ::operator new(static_cast<size_t>(bytes), kAlign);
  std::shared_ptr<const void> owner(
      buffer.memory, [pool = shared_from_this(), buffer](const void*) { pool->Return(buffer); });
  return base::Array::View(dtype, shape, buffer.memory, std::move(owner));
}

void BufferPool::Return(Buffer buffer) {
  Buffer surplus = {nullptr, 0};
  {
    std::lock_guard lock(mutex_);
    if (closed_) {
      surplus = buffer;
    } else {
      free_.push_back(buffer);
      free_bytes_ += buffer.bytes;
      if (free_.size() > kMaxFree) {
        surplus = free_.front();  // the least recently used one
        free_bytes_ -= surplus.bytes;
        free_.erase(free_.begin());
      }
    }
  }
  if (surplus.memory != nullptr) ::operator delete(surplus.memory, kAlign);
}

void BufferPool::Trim(int64_t bytes) {
  std::vector<Buffer> surplus;
  {
    std::lock_guard lock(mutex_);
    if (free_bytes_ <= bytes) return;
    auto kept = free_.begin();
    for (; kept != free_.end() && free_bytes_ > bytes; ++kept) free_bytes_ -= kept->bytes;
    surplus.assign(free_.begin(), kept);
    free_.erase(free_.begin(), kept);
  }
  for (const Buffer& buffer : surplus) ::operator delete(buffer.memory, kAlign);
}

void BufferPool::Close() {
  std::vector<Buffer> free;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    free.swap(free_);
    free_bytes_ = 0;
  }
  for (const Buffer& buffer : free) ::operator delete(buffer.memory, kAlign);
}

int64_t BufferPool::allocations() const {
  std::lock_guard lock(mutex_);
  return allocations_;
}

}  // namespace penstock::data
