// oneDNN primitives and a cache of them. A primitive runs on the thread that calls it: create and
// run it within the lifetime of a OneThread (parallel.h).
//
// Internal to room kernels; oneDNN's header is heavy, so only the files that call it include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include <oneapi/dnnl/dnnl.hpp>

#include "penstock/base/dtype.h"

namespace penstock::kernels {

dnnl::engine& Engine();
dnnl::memory::data_type TypeOf(base::DType dtype);

// A oneDNN primitive with a user-provided scratchpad, and its properties.
struct CachedPrimitive {
  dnnl::primitive primitive;
  dnnl::memory::desc kernel;  // of a convolution: oneDNN's preferred layout of its kernel
  size_t scratch_bytes = 0;
  std::string implementation;
};

// UserScratchpad: attributes for such a primitive. Describe: fills in its properties.
dnnl::primitive_attr UserScratchpad();
template <typename PrimitiveDesc>
void Describe(const PrimitiveDesc& desc, CachedPrimitive& primitive) {
  primitive.scratch_bytes = desc.scratchpad_desc().get_size();
  primitive.implementation = desc.impl_info_str();
}

void Execute(const CachedPrimitive& primitive, std::unordered_map<int, dnnl::memory> arguments);
void Reorder(const dnnl::memory::desc& from_desc, void* from, const dnnl::memory::desc& to_desc,
             void* to);

// Cache of primitives. Creating one takes milliseconds; programs have tens of shapes. Beyond
// kMaxPrimitives the cache is cleared, which costs little: oneDNN has a cache of its own.
// Thread-safe.
class PrimitiveCache {
 public:
  // The primitive of `key`; make() creates it on a cache miss.
  template <typename Make>
  std::shared_ptr<const CachedPrimitive> Get(const std::vector<int64_t>& key, const Make& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cache_.size() >= kMaxPrimitives) cache_.clear();
    std::shared_ptr<const CachedPrimitive>& primitive = cache_[key];
    if (primitive == nullptr) primitive = std::make_shared<const CachedPrimitive>(make());
    return primitive;
  }

 private:
  static constexpr size_t kMaxPrimitives = 1024;

  std::mutex mutex_;
  absl::flat_hash_map<std::vector<int64_t>, std::shared_ptr<const CachedPrimitive>> cache_;
};

}  // namespace penstock::kernels
