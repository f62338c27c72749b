// The forward part of a step: from a batch as it travels to the loss of each row. Internal to room
// train.
#pragma once

#include "penstock/train/objective.h"

namespace penstock::train {

// A replica's part of a batch, as a step wants it.
struct Batch {
  ir::Values inputs;
  ir::Values labels;   // one for each target
  ir::Values weights;  // f32[rows], one for each target; padding weighs 0
  ir::Value count;     // i32 scalar
  ir::Value mask;      // f32[rows]
};

// `values`: inputs..., labels..., weights..., count of one batch.
Batch MakeBatch(ir::Graph& graph, const Objective& objective, const ir::Values& values);

// Inputs in the types that the network wants.
ir::Values ConvertInputs(const nn::Network& network, ir::Values inputs);

struct Forward {
  nn::Network::Result network;
  ir::Value per_example;  // f32[rows], all targets and penalties; what training minimises
  // What this batch adds to each metric state, this replica's part.
  ir::Values metric_additions;
};

// An invalid `per_example` means that the graph has an error.
Forward RunForward(ir::Graph& graph, const Objective& objective, const ir::Values& variables,
                   const Batch& batch, bool training, ir::Value key);

}  // namespace penstock::train
