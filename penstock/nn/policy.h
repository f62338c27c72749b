// Mixed precision policies: the type in which a layer computes and the type in which it stores its
// variables. Names and meaning are Keras's (keras.DTypePolicy):
//
//   "float32"         computes and stores in float32; the default
//   "mixed_bfloat16"  computes in bfloat16, stores variables in float32
//   "bfloat16"        computes and stores in bfloat16
//   "mixed_float16"   computes in float16, stores variables in float32; small gradients underflow
//                     in float16, so use a LossScaleOptimizer (keras::Model::Compile wraps the
//                     optimizer in one)
//   "float16"         computes and stores in float16
//
// A network has one policy, for the layers without one of their own:
//
//   Symbol y = Dense({.units = 10, .dtype = "float32"})(x);  // this layer, whatever the others do
//   Network fast = Network({x}, {y}).WithPolicy(DTypePolicy::kMixedBfloat16);  // or its name
//
// A layer's floating-point inputs are converted to its compute type, and so is each variable where
// it is read. Computations that need more than 8 bits of mantissa are in float32 under every
// policy: statistics and moving averages of batch normalization, sums and means, softmax, losses
// and metrics, the all-reduce of gradients, the optimizer's arithmetic and slots.
//
// Where bfloat16 is supported (TPUs, newer GPUs and CPUs), float16 has no advantage.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/base/dtype.h"

namespace penstock::nn {

struct Policy {
  std::string name = "float32";
  base::DType compute = base::DType::kF32;
  base::DType variable = base::DType::kF32;

  // The policy of that name; the error for an unknown name lists the known ones.
  static absl::StatusOr<Policy> FromName(absl::string_view name);
  // From a name, or from Keras's {"class_name": "DTypePolicy", "config": {"name": ...}}.
  static absl::StatusOr<Policy> FromJson(const nlohmann::ordered_json& json);
  // Keras's JSON.
  nlohmann::ordered_json ToJson() const;
};
std::vector<std::string> PolicyNames();

}  // namespace penstock::nn
