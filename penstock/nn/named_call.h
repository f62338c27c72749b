// How initializers, regularizers, constraints and activations are given in options: by name, with
// arguments where they have any.
//
//   "he_normal"  "constant(0.5)"  "variance_scaling(2, fan_in, uniform)"  "max_norm(axis=[0, 1])"
//
// Names and the order and names of arguments are Keras's. A name is known by its letters and digits
// alone: "he_normal" is also "HeNormal", Keras's class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace penstock::nn {

struct NamedCall {
  struct Argument {
    std::string key;    // empty when the argument is known by its place
    std::string value;  // "0.01", "fan_in", "[0, 1]"
  };
  std::string name;
  std::vector<Argument> arguments = {};
};

absl::StatusOr<NamedCall> ParseNamedCall(absl::string_view text);

// Keras's {"class_name": "VarianceScaling", "config": {"scale": 2.0, ...}} as
// "variance_scaling(scale=2.0, ...)"; also {"class_name": "function", "config": "relu"} as "relu".
// Options that are null are left out, as are seeds: first values follow from the network's.
absl::StatusOr<std::string> NamedCallFromJson(const nlohmann::ordered_json& json);

// Hands a call's arguments to the variables that take them, in the order of their places:
//
//   double l1 = 0, l2 = 0;
//   absl::Status status = CallArguments(call)("l1", l1)("l2", l2).Finish();
//
// What is not given keeps its value.
class CallArguments {
 public:
  explicit CallArguments(const NamedCall& call) : call_(call) {}

  CallArguments& operator()(const char* key, double& field);
  CallArguments& operator()(const char* key, std::string& field);
  CallArguments& operator()(const char* key, std::vector<int64_t>& field);  // one number or a list

  // The first argument that is wrong, not known or given twice.
  absl::Status Finish() const;

 private:
  // The argument of the next place or of this key; nullptr when it is not given.
  const std::string* Take(const char* key);
  void Wrong(const char* key, absl::string_view value, const char* wanted);

  const NamedCall& call_;
  std::vector<std::string> keys_;
  absl::Status status_;
};

}  // namespace penstock::nn
