// NamedCall: initializers, regularizers, constraints and activations as text in options: a name,
// with optional arguments.
//
//   "he_normal"  "constant(0.5)"  "variance_scaling(2, fan_in, uniform)"  "max_norm(axis=[0, 1])"
//
// Names and the order and names of arguments are Keras's. Only letters and digits of a name are
// compared: "he_normal" is also "HeNormal", Keras's class.
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
    std::string key;    // empty for a positional argument
    std::string value;  // "0.01", "fan_in", "[0, 1]"
  };
  std::string name;
  std::vector<Argument> arguments = {};
};

absl::StatusOr<NamedCall> ParseNamedCall(absl::string_view text);

// Keras's {"class_name": "VarianceScaling", "config": {"scale": 2.0, ...}} as
// "variance_scaling(scale=2.0, ...)"; also {"class_name": "function", "config": "relu"} as "relu".
// Null options are omitted, and so are seeds: initial values follow from the network's seed.
absl::StatusOr<std::string> NamedCallFromJson(const nlohmann::ordered_json& json);

// Assigns a call's arguments to variables, in the order of their positions:
//
//   double l1 = 0, l2 = 0;
//   absl::Status status = CallArguments(call)("l1", l1)("l2", l2).Finish();
//
// Variables of missing arguments keep their values.
class CallArguments {
 public:
  explicit CallArguments(const NamedCall& call) : call_(call) {}

  CallArguments& operator()(const char* key, double& field);
  CallArguments& operator()(const char* key, std::string& field);
  CallArguments& operator()(const char* key, std::vector<int64_t>& field);  // one number or a list

  // The error of the first wrong, unknown or repeated argument, if any.
  absl::Status Finish() const;

 private:
  // The next positional argument or the one with this key; nullptr if there is none.
  const std::string* Take(const char* key);
  void Wrong(const char* key, absl::string_view value, const char* expected);

  const NamedCall& call_;
  std::vector<std::string> keys_;
  absl::Status status_;
};

}  // namespace penstock::nn
