// Scratch memory of a kernel call.
//
// Internal to room kernels.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace penstock::kernels {

// Memory aligned to 64 bytes, freed on destruction; its contents are unspecified. It comes from
// malloc each time: blocks kept from call to call gained less than 2 % (docs/design/runtime.md,
// "Memory of a CPU device").
class Scratch {
 public:
  // `bytes` may be 0: no memory. Throws std::bad_alloc if there is not enough.
  explicit Scratch(size_t bytes);

  void* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> data_;
};

}  // namespace penstock::kernels
