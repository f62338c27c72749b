// What training is after: which network, what its outputs should come near to, how, and what is
// measured on the way.
//
//   Objective objective{.network = net,
//                       .targets = {{.loss = nn::MeanSquaredError(), .metrics = {nn::Accuracy()}}},
//                       .optimizer = nn::Adam()};
#pragma once

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

// What is trained: a network, what its outputs should minimise and how.
struct Objective {
  nn::Network network;
  std::vector<Target> targets;  // one for each output
  nn::Optimizer optimizer;
  // Of float32 products and convolutions, where the platform has a choice.
  ir::MatmulPrecision matmul_precision = ir::MatmulPrecision::kDefault;
};

// The names of what is measured, in the order of the report, as Keras has them: "loss"; with
// several outputs the loss of each, "<output>_loss"; then their metrics, "accuracy" or
// "<output>_accuracy".
std::vector<std::string> ReportNames(const Objective& objective);

// The first thing that is wrong with it.
absl::Status CheckObjective(const Objective& objective);

}  // namespace penstock::train
