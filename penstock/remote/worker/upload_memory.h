// UploadMemory: memory that a session's uploads are received into. Internal to room remote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "penstock/base/array.h"

namespace penstock::remote {

// Large uploads are mapped for themselves, in huge pages where the system has them (transparent_hugepage is madvise or
// always), and what they free is kept for later ones: to fault in new pages takes longer than to receive the bytes.
// Thread-safe.
class UploadMemory : public std::enable_shared_from_this<UploadMemory> {
 public:
  // Must be owned by a shared_ptr.
  UploadMemory() = default;
  ~UploadMemory();
  UploadMemory(const UploadMemory&) = delete;
  UploadMemory& operator=(const UploadMemory&) = delete;

  // Smaller ones are malloc's.
  static constexpr size_t kMinMapped = size_t{4} << 20;
  // Bytes that are kept while no array uses them.
  static constexpr size_t kMaxKept = size_t{256} << 20;

  // A uint8 array of that many bytes, uninitialized. It may outlive this. Throws std::bad_alloc.
  base::Array Allocate(int64_t bytes);
  size_t kept_bytes() const;

 private:
  struct Mapping {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };
  static Mapping Map(size_t bytes);
  static void Unmap(const Mapping& mapping);
  Mapping Take(size_t bytes);
  void Return(const Mapping& mapping);

  mutable std::mutex mutex_;
  std::deque<Mapping> kept_;  // in the order in which they were freed
  size_t kept_bytes_ = 0;
};

}  // namespace penstock::remote
