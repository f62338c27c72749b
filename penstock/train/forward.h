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
  // With batch augmentation, `labels` and `weights` are those with the larger share; these are the
  // other ones. Share: f32[rows], of `labels`, at least 0.5; invalid: nothing is mixed.
  ir::Values other_labels = {}, other_weights = {};
  ir::Value share = {};
};

// `values`: inputs..., labels..., weights..., count of one batch, in the types of the transfer.
BatchValues MakeBatch(ir::Graph& graph, const Objective& objective, const ir::Values& values);

// Converts inputs to the types of the network's inputs.
ir::Values ConvertInputs(const nn::Network& network, ir::Values inputs);

// Mixes the batch by the objective's batch augmentation, if it has one; only for training.
BatchValues MixBatch(const Objective& objective, BatchValues batch, ir::Value key);

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
