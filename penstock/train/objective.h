// What training is after: which network, what its outputs should come near to, how, and what is
// measured on the way.
//
//   Objective objective{.network = net,
//                       .targets = {{.loss = nn::MeanSquaredError(), .metrics = {nn::Accuracy()}}},
//                       .optimizer = nn::Adam()};
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/ir/printer.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"

namespace penstock::train {

// What one output of a network should come near to, and what is measured of it.
struct Target {
  nn::Loss loss;
  double weight = 1;  // of this loss in the sum of all
  std::vector<nn::Metric> metrics = {};
  // The same, but each example counts as much as its weight says.
  std::vector<nn::Metric> weighted_metrics = {};
};

// What a step of one's own sees while it is being built.
struct StepContext {
  ir::Graph& graph;
  bool training;       // false: evaluation
  ir::Values inputs;   // in the types that the network wants
  ir::Values labels;   // of each target
  ir::Values weights;  // f32[rows] for each target; 0 for padding
  ir::Value mask;      // f32[rows], 1 for real rows, 0 for padding
  ir::Value key;       // this step's and replica's own; invalid in evaluation
  // The network's outputs for these inputs. Weights are the same in every call; state assigned by
  // layers (moving averages) carries over from one call to the next, as for a layer that is called
  // twice. Each call draws different random numbers.
  std::function<ir::Values(const ir::Values& inputs)> apply = nullptr;
};
struct StepResult {
  ir::Value loss;            // f32[rows]; their mean over real rows is minimised
  ir::Values measured = {};  // f32[rows] each, under CustomStep's names
};
// A training step of one's own, Keras's overridden compute_loss and train_step: instead of the
// targets' losses it says what is minimised. The targets' metrics are measured all the same, on the
// outputs of the last apply. Gradients within the loss are ir::Gradients.
//
//   [](const StepContext& step) -> StepResult {
//     const ir::Value y = step.apply(step.inputs)[0];
//     return {.loss = ir::ReduceMean(ir::Abs(y - step.labels[0]), {1})};
//   }
struct CustomStep {
  std::function<StepResult(const StepContext& step)> function;
  std::vector<std::string> measures = {};
};

// What is trained: a network, what its outputs should minimise and how.
struct Objective {
  nn::Network network;
  std::vector<Target> targets;  // one for each output
  nn::Optimizer optimizer;
  std::optional<CustomStep> custom = {};
  // Of float32 products and convolutions, where the platform has a choice.
  ir::MatmulPrecision matmul_precision = ir::MatmulPrecision::kDefault;
};

// How many means stand before the metrics in the report: the loss, those of each output or of a
// custom step.
size_t NumMeans(const Objective& objective);

// One number of the report, and its better direction: losses decrease, metrics know theirs
// (nn/metrics.h), a custom step's numbers have none.
struct ReportEntry {
  std::string name;
  nn::MetricDirection direction = nn::MetricDirection::kUnknown;
};
// The measured numbers, in the order of the report, with Keras's names: "loss"; with several
// outputs the loss of each, "<output>_loss"; then their metrics, "accuracy" or "<output>_accuracy".
std::vector<ReportEntry> ReportEntries(const Objective& objective);
std::vector<std::string> ReportNames(const Objective& objective);

// The first thing that is wrong with it.
absl::Status CheckObjective(const Objective& objective);

}  // namespace penstock::train
