// Policies: in which type a layer computes and in which it keeps its variables. Names and meaning
// are Keras's (keras.DTypePolicy):
//
//   "float32"         all in float32; the default
//   "mixed_bfloat16"  computes in bfloat16, keeps variables in float32
//   "bfloat16"        both in bfloat16
//   "mixed_float16"   computes in float16, keeps variables in float32; small gradients vanish in
//                     float16, so the optimizer is to be a LossScaleOptimizer
//                     (keras::Model::Compile makes it one)
//   "float16"         both in float16
//
// A network has one, for the layers that were given none of their own:
//
//   Symbol y = Dense({.units = 10, .dtype = "float32"})(x);       // this layer, whatever the
//   others Network fast = Network({x}, {y}).WithPolicy("mixed_bfloat16");
//
// A layer's floating inputs are converted to its compute type, and so is each variable where it is
// read. What needs more than 8 bits of mantissa is in float32 under every policy: statistics and
// moving averages of batch normalisation, sums and means, softmax, losses and metrics, the sum of
// gradients over replicas, the optimizer's arithmetic and slots.
//
// Where there is bfloat16, on TPUs, newer GPUs and CPUs, float16 has no advantage.
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

  // The error lists the names there are.
  static absl::StatusOr<Policy> FromName(absl::string_view name);
  // A name, or Keras's {"class_name": "DTypePolicy", "config": {"name": ...}}.
  static absl::StatusOr<Policy> FromJson(const nlohmann::ordered_json& json);
  // As Keras writes it.
  nlohmann::ordered_json ToJson() const;
};
std::vector<std::string> PolicyNames();

}  // namespace penstock::nn
