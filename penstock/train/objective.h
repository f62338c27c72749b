// Objective: what is trained, as a network, a target for each of its outputs and an optimizer.
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
#include "penstock/nn/batch_augmentation.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"

namespace penstock::train {

// Loss and metrics of one output of a network.
struct Target {
  nn::Loss loss;
  double weight = 1;  // of this loss in the sum over the targets
  std::vector<nn::Metric> metrics = {};
  // Metrics in which each example counts by its weight.
  std::vector<nn::Metric> weighted_metrics = {};
};

// The inputs of a custom step while its graph is built.
struct StepContext {
  ir::Graph& graph;
  bool training;      // false: evaluation
  ir::Values inputs;  // in the types of the network's inputs
  // Labels of each target, in the dataset's shape: [rows] beside an output [rows, 1] would
  // broadcast to [rows, rows]. Built-in losses align them, as in
  // nn::MeanSquaredError().PerExample(step.labels[0], output).
  ir::Values labels;
  ir::Values weights;  // f32[rows] for each target; 0 for padding
  ir::Value mask;      // f32[rows], 1 for real rows, 0 for padding
  ir::Value key;       // RNG key of this step and replica; invalid in evaluation
  // Applies the network to these inputs and returns its outputs. Every call has the same weights;
  // state assigned by layers (moving averages) carries over from one call to the next, as for a
  // layer that is called twice. Each call draws different random numbers.
  std::function<ir::Values(const ir::Values& inputs)> apply = nullptr;
};
struct StepResult {
  ir::Value loss;            // f32[rows]; training minimizes the mean over real rows
  ir::Values measured = {};  // f32[rows] each, reported under the names of CustomStep::measures
};
// A custom training step (Keras's overridden compute_loss and train_step): computes the loss
// instead of the targets' losses. The targets' metrics are measured on the outputs of the last
// apply. Gradients within the loss are ir::Gradients.
//
//   [](const StepContext& step) -> StepResult {
//     const ir::Value y = step.apply(step.inputs)[0];
//     return {.loss = ir::ReduceMean(ir::Abs(y - step.labels[0]), {1})};
//   }
struct CustomStep {
  std::function<StepResult(const StepContext& step)> function;
  std::vector<std::string> measures = {};
};

struct Objective {
  nn::Network network;
  std::vector<Target> targets;  // one for each output
  nn::Optimizer optimizer;
  std::optional<CustomStep> custom = {};
  // Mixes the examples of a training batch and their labels, by one of these, drawn for each batch
  // and replica (nn/batch_augmentation.h). Evaluation and prediction do not mix. Metrics of
  // training count the label with the larger share; an example's weight goes with its label.
  // Requires losses of classes, outputs [batch, classes] or [batch], and no custom step.
  std::vector<nn::BatchAugmentation> batch_augmentation = {};
  // Precision of float32 products and convolutions, on platforms that have a choice.
  ir::MatmulPrecision matmul_precision = ir::MatmulPrecision::kDefault;
};

// Number of means before the metrics in the report: the loss, and those of each output or of a
// custom step.
size_t NumMeans(const Objective& objective);

// An entry of the report and the direction in which it improves: losses decrease, metrics have
// their own (nn/metrics.h), values of a custom step have none.
struct ReportEntry {
  std::string name;
  nn::MetricDirection direction = nn::MetricDirection::kUnknown;
};
// The measured numbers, in the order of the report, with Keras's names: "loss"; with several
// outputs the loss of each, "<output>_loss"; then their metrics, "accuracy" or "<output>_accuracy".
std::vector<ReportEntry> ReportEntries(const Objective& objective);
std::vector<std::string> ReportNames(const Objective& objective);

// INVALID_ARGUMENT for the first inconsistency.
absl::Status CheckObjective(const Objective& objective);

// Warnings to the user about likely mistakes, such as a missing or duplicate softmax.
std::vector<std::string> WarningsFor(const Objective& objective);

}  // namespace penstock::train
