// Optimizers. Names, defaults and formulas are Keras 3's (keras.optimizers).
//
//   Optimizer optimizer = SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
//
// An optimizer is a description. Its state (slots) is kept by the training program, one array of
// the variable's shape for each slot, zero at first. Variables of 16 bits have slots of 32, and
// their steps are reckoned in 32: sums that grow by little are lost in fewer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"
#include "penstock/nn/schedules.h"

namespace penstock::nn {

// One variable's step.
struct OptimizerStep {
  ir::Value variable, gradient;
  ir::Values slots;         // in the order of Slots()
  ir::Value learning_rate;  // f32 scalar
  ir::Value step;           // f32 scalar, 0 in the first step
};
struct OptimizerResult {
  ir::Value variable;
  ir::Values slots;
};

class OptimizerBody {
 public:
  virtual ~OptimizerBody() = default;
  virtual absl::string_view class_name() const = 0;
  virtual std::vector<std::string> Slots() const = 0;
  virtual OptimizerResult Apply(const OptimizerStep& in) const = 0;
  virtual void Fields(Config& config) = 0;
  virtual absl::Status Check() const { return absl::OkStatus(); }
};

class Optimizer {
 public:
  Optimizer(std::shared_ptr<OptimizerBody> body, Schedule learning_rate)
      : body_(std::move(body)), learning_rate_(std::move(learning_rate)) {}

  absl::string_view class_name() const { return body_->class_name(); }
  const Schedule& learning_rate() const { return learning_rate_; }
  std::vector<std::string> Slots() const { return body_->Slots(); }
  static ir::TensorType SlotType(const ir::TensorType& variable);
  OptimizerResult Apply(OptimizerStep in) const;
  // What is wrong with the options, if anything.
  absl::Status Check() const;

  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Optimizer> FromJson(const nlohmann::ordered_json& json);
  // With default options: "sgd", "adam".
  static absl::StatusOr<Optimizer> FromName(absl::string_view name);

 private:
  std::shared_ptr<OptimizerBody> body_;
  Schedule learning_rate_;
};

// velocity = momentum velocity - rate gradient; variable += velocity, or with Nesterov's look ahead
// momentum velocity - rate gradient (Sutskever et al. 2013).
struct SGDOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
};
Optimizer SGD(const SGDOptions& options = {});

// Kingma and Ba 2014, in the form of section 2.1 (the rate carries the bias correction), as Keras.
struct AdamOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
Optimizer Adam(const AdamOptions& options = {});

}  // namespace penstock::nn
