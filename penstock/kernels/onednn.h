// oneDNN's primitives, kept by what they were made for. They run on the thread that calls them:
// make and run them where a OneThread lives (parallel.h).
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

// A primitive that takes its working memory from us.
struct Plan {
  dnnl::primitive primitive;
  dnnl::memory::desc kernel;  // of a convolution: the layout of its kernel that it likes best
  size_t scratch_bytes = 0;
  std::string implementation;
};

// Attributes for such a primitive, and what its description says of it.
dnnl::primitive_attr WithOurScratch();
template <typename PrimitiveDesc>
void Describe(const PrimitiveDesc& desc, Plan& plan) {
  plan.scratch_bytes = desc.scratchpad_desc().get_size();
  plan.implementation = desc.impl_info_str();
}

void Execute(const Plan& plan, std::unordered_map<int, dnnl::memory> arguments);
void Reorder(const dnnl::memory::desc& from_desc, void* from, const dnnl::memory::desc& to_desc,
             void* to);

// Making a primitive takes milliseconds, once. Programs have tens of shapes; beyond kMaxPlans all
// are forgotten, which is no loss: oneDNN has a cache of its own. Thread-safe.
class Plans {
 public:
  // make(): what it is made with when there is none for `key` yet.
  template <typename Make>
  std::shared_ptr<const Plan> Get(const std::vector<int64_t>& key, const Make& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (plans_.size() >= kMaxPlans) plans_.clear();
    std::shared_ptr<const Plan>& plan = plans_[key];
    if (plan == nullptr) plan = std::make_shared<const Plan>(make());
    return plan;
  }

 private:
  static constexpr size_t kMaxPlans = 1024;

  std::mutex mutex_;
  absl::flat_hash_map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans_;
};

}  // namespace penstock::kernels
