#include "penstock/kernels/scratch.h"

#include <cstdint>
#include <new>

namespace penstock::kernels {

Scratch::Scratch(size_t bytes) {
  constexpr size_t kAlignment = 64;
  if (bytes == 0) return;
  if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
  data_.reset(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  if (data_ == nullptr) throw std::bad_alloc();
}

}  // namespace penstock::kernels
