#include "penstock/remote/worker/upload_memory.h"

#include <new>
#include <vector>

#include <sys/mman.h>

namespace penstock::remote {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

UploadMemory::~UploadMemory() {
  for (const Mapping& mapping : kept_) Unmap(mapping);
}

// A mapping of huge pages must begin at one: maps more, and unmaps what is before and after.
UploadMemory::Mapping UploadMemory::Map(size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const mapped = static_cast<std::byte*>(memory);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(mapped, before);
  ::munmap(mapped + before + bytes, kHugePage - before);
  (void)::madvise(mapped + before, bytes, MADV_HUGEPAGE);
  return {mapped + before, bytes};
}

void UploadMemory::Unmap(const Mapping& mapping) { ::munmap(mapping.memory, mapping.bytes); }

// The newest one of that size: a training uploads batches of one size again and again.
UploadMemory::Mapping UploadMemory::Take(size_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].bytes != bytes) continue;
      const Mapping mapping = kept_[i];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      kept_bytes_ -= bytes;
      return mapping;
    }
  }
  return Map(bytes);
}

void UploadMemory::Return(const Mapping& mapping) {
  std::vector<Mapping> dropped;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.push_back(mapping);
    kept_bytes_ += mapping.bytes;
    while (kept_bytes_ > kMaxKept) {
      kept_bytes_ -= kept_.front().bytes;
      dropped.push_back(kept_.front());
      kept_.pop_front();
    }
  }
  for (const Mapping& old : dropped) Unmap(old);
}

size_t UploadMemory::kept_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kept_bytes_;
}

base::Array UploadMemory::Allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (size < kMinMapped) return base::Array::Uninitialized(base::DType::kU8, {bytes});
  const Mapping mapping = Take((size + kHugePage - 1) / kHugePage * kHugePage);
  std::shared_ptr<const void> owner(mapping.memory,
                                    [weak = weak_from_this(), mapping](const void*) {
                                      if (const auto self = weak.lock())
                                        return self->Return(mapping);
                                      Unmap(mapping);
                                    });
  return base::Array::View(base::DType::kU8, {bytes}, mapping.memory, std::move(owner));
}

}  // namespace penstock::remote
