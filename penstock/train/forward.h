// Forward pass of a step's graph, from a batch's parameters to the loss of each row. Internal to
// room train.
#pragma once

#include "penstock/train/objective.h"

namespace penstock::train {

// Values of a replica's part of a batch, in the graph of a step.
struct BatchValues {
  ir::Values inputs;
  ir::Values labels;   // one for each target
  ir::Values weights;  // f32[rows], one for each target; padding weighs 0
  ir::Value count;     // i32 scalar
  ir::Value mask;      // f32[rows]
};

// `values`: inputs..., labels..., weights..., count of one batch, in the types of the transfer.
BatchValues MakeBatch(ir::Graph& graph, const Objective& objective, const ir::Values& values);

// Converts inputs to the types of the network's inputs.
ir::Values ConvertInputs(const nn::Network& network, ir::Values inputs);

struct Forward {
  nn::Network::Result network;
  ir::Value per_example;  // f32[rows], all targets and penalties: minimized by training
  // Increments of the metric states by this batch, this replica's part.
  ir::Values metric_additions;
};

// If `per_example` is invalid, the graph has an error.
Forward RunForward(ir::Graph& graph, const Objective& objective, const ir::Values& variables,
                   const BatchValues& batch, bool training, ir::Value key);

}  // namespace penstock::train
