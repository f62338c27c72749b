// The programs that run on the devices: the training step, the evaluation step, prediction, the
// gradients of one batch, and the search for the layer that made a NaN.
//
// One replica's training step, for a batch of B rows of which `count` are real (the rest is
// padding):
//
//   mask        = iota(B) < count
//   examples    mixed with others of the batch, and their labels (Objective::batch_augmentation)
//   loss        = sum(mask * loss of each row) / all_reduce(count)
//                 loss of a row: sum over the outputs (weight of the output * weight of the row *
//                 its loss), plus the layers' penalties
//   gradients   = all_reduce(d loss / d variables)   one collective, with the metrics' sums
//   variables   = optimizer(variables, gradients, slots, rate)
//   assigned    = values assigned by layers (batch norm's averages, counters), combined over
//                 replicas by nn::Aggregation: floats are averaged by the replicas' counts
//
// State that a step changes is donated, and returned in the same order. Loop-invariant state
// (frozen variables, a constant learning rate, the RNG key) is neither donated nor returned. The
// last result is the report: a few numbers that the host reads while later steps run.
//
// Several steps per execution are a loop on the device over stacked batches:
//
//   for (i = 0; i < steps; ++i) state = step(state, batches[i], counts[i])
//
// The body is compiled once, and `steps` is an argument, so a stack that is not full needs no other
// program.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/kernels/kernels.h"
#include "penstock/train/objective.h"
#include "penstock/train/state.h"

namespace penstock::train {

// Types of one replica's part of a batch: the network's inputs in order, the label of each target,
// and the weights of the examples (none, one for all targets, or one for each). Element types may
// differ from the network's: bytes are transferred as bytes and converted on the device.
struct BatchTypes {
  std::vector<ir::TensorType> inputs;
  std::vector<ir::TensorType> labels = {};
  std::vector<ir::TensorType> weights = {};
  // Number of batches stacked for one execution: each array has one more axis in front than its
  // type here. 1: a single batch, without that axis.
  int64_t depth = 1;
  friend bool operator==(const BatchTypes&, const BatchTypes&) = default;
};

// The training step.
// Parameters: state..., inputs..., labels..., weights..., count (i32). Results: the changed entries
// of the state, report. The program's alias[i] is the result that replaces entry i and reuses its
// buffer; -1: the entry is loop-invariant, and its buffer is used by every step.
//
// The report is f32: running means, in the order of ReportNames; with a schedule the learning rate
// of the next step; with loss scaling two more, the number of steps skipped since training began
// and the scale; and last, the first step of this execution, from 0, whose numbers were not finite
// (-1: none; halt_on_nan only).
//
// With a depth above 1 the inputs, labels and weights are stacks, count is i32[depth], and one more
// parameter, `steps` (i32), is the number of batches to run.
//
// With halt_on_nan, a step whose loss or gradients are not finite leaves the state unchanged, and
// so do all that follow, so that the layer at fault can be found (DiagnoseStep). It costs a check
// of every gradient.
absl::StatusOr<ir::Program> TrainStep(const Objective& objective, const StateLayout& layout,
                                      const BatchTypes& batch, int num_replicas, bool halt_on_nan,
                                      const kernels::Lowering& lowering = {});
// The graph that TrainStep prints.
struct TrainingGraph {
  std::unique_ptr<ir::Graph> graph;
  std::vector<std::pair<int, int>> donate = {};  // as ir::PrintOptions
};
absl::StatusOr<TrainingGraph> TrainGraph(const Objective& objective, const StateLayout& layout,
                                         const BatchTypes& batch, int num_replicas,
                                         bool halt_on_nan);

// The evaluation step.
// Parameters: metrics..., variables..., inputs..., labels..., weights..., count.  Results:
// metrics..., report (as above).
absl::StatusOr<ir::Program> EvaluateStep(const Objective& objective, const StateLayout& layout,
                                         const BatchTypes& batch, int num_replicas,
                                         const kernels::Lowering& lowering = {});

// Prediction, one replica's part.
// Parameters: variables..., inputs....  Results: the network's outputs, 16-bit floats as float32.
absl::StatusOr<ir::Program> PredictStep(const Objective& objective,
                                        const std::vector<ir::TensorType>& inputs, int num_replicas,
                                        const kernels::Lowering& lowering = {});

// The gradients of one batch, as a log shows them.
// Parameters: TrainStep's, where `steps` is the index of the stacked batch; nothing is donated.
// Results: for each variable that is trained, in the order of the layout, the gradient of the mean
// loss and the penalties, of the optimizer's SlotType: before the optimizer clips or scales it.
absl::StatusOr<ir::Program> GradientsStep(const Objective& objective, const StateLayout& layout,
                                          const BatchTypes& batch, int num_replicas,
                                          const kernels::Lowering& lowering = {});

// The search for a NaN: a training step that checks every layer.
// Parameters: TrainStep's, where `steps` is the index of the stacked batch to check; nothing is
// donated. Results: one vector; element i is 0 if places[i] was not finite. Places are in the order
// in which a step computes them.
struct Diagnosis {
  ir::Program program;
  std::vector<std::string>
      places;  // "variable conv/kernel", "layer conv (Conv2D)", "the loss", "gradient of ..."
};
absl::StatusOr<Diagnosis> DiagnoseStep(const Objective& objective, const StateLayout& layout,
                                       const BatchTypes& batch, int num_replicas,
                                       const kernels::Lowering& lowering = {});

}  // namespace penstock::train
