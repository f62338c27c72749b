// The programs that run on the devices, as graphs: the training step, the evaluation step,
// prediction, and the search for the layer that made a NaN.
//
// One replica's training step, for a batch of B rows of which `count` are real (the rest is
// padding):
//
//   mask        = iota(B) < count
//   loss        = sum(mask * loss of each row) / all_reduce(count)
//                 a row's loss: sum over the outputs (weight of the output * weight of the row *
//                 its loss), and the layers' penalties
//   gradients   = all_reduce(d loss / d variables)   one collective, with the metrics' sums
//   variables   = optimizer(variables, gradients, slots, rate)
//   assigned    = values assigned by layers (batch norm's averages, counters), combined over
//   replicas
//                 by nn::Aggregation: floats are averaged by the replicas' counts
//
// What a step changes of the state comes in donated and goes out in the same order. Beside it goes
// out the report: a few numbers the host reads while later steps run.
//
// Several steps in one execution are a loop on the device over stacked batches:
//
//   for (i = 0; i < steps; ++i) state = step(state, batches[i], counts[i])
//
// The body is compiled once, and `steps` is an argument: fewer batches than the stack has room for
// need no other program.
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

// The types of one replica's part of a batch: the network's inputs in order, the label of each
// target, and the weights of the examples: none, one for all targets, or one for each. They may
// differ from the network's in element type (bytes travel as bytes, and are converted on the
// device).
struct BatchTypes {
  std::vector<ir::TensorType> inputs;
  std::vector<ir::TensorType> labels = {};
  std::vector<ir::TensorType> weights = {};
  // So many batches are stacked for one execution: each array then has one more axis in front than
  // its type here. 1: a batch by itself, without that axis.
  int64_t depth = 1;
  friend bool operator==(const BatchTypes&, const BatchTypes&) = default;
};

// Parameters: state..., inputs..., labels..., weights..., count (i32).  Results: the entries of the
// state that a step changes, report. The program's alias[i] is the result that takes the place of
// entry i, and its memory; -1: the entry stays as it is (a constant learning rate, the random key,
// variables that are not trained), and so does its buffer.
//
// The report is f32: running means, in the order of ReportNames; with loss scaling (TrainStep only)
// two more, the number of steps skipped since training began and the scale; and last, the first
// step of this execution, from 0, whose numbers were not finite (-1: none; halt_on_nan only).
//
// With a depth of more than 1 the inputs, labels and weights are stacks, count is i32[depth], and
// one more parameter, `steps` (i32), says how many of them are run.
//
// With halt_on_nan, a step whose loss or gradients are not finite, and all that follow, leave the
// state as it was, so that the layer at fault can be found (DiagnoseStep). It costs a look at every
// gradient.
absl::StatusOr<ir::Program> TrainStep(const Objective& objective, const StateLayout& layout,
                                      const BatchTypes& batch, int num_replicas, bool halt_on_nan,
                                      const kernels::Lowering& lowering = {});
// What TrainStep prints.
struct TrainingGraph {
  std::unique_ptr<ir::Graph> graph;
  std::vector<std::pair<int, int>> donate = {};  // as ir::PrintOptions
};
absl::StatusOr<TrainingGraph> TrainGraph(const Objective& objective, const StateLayout& layout,
                                         const BatchTypes& batch, int num_replicas,
                                         bool halt_on_nan);

// Parameters: metrics..., variables..., inputs..., labels..., weights..., count.  Results:
// metrics..., report (as above).
absl::StatusOr<ir::Program> EvaluateStep(const Objective& objective, const StateLayout& layout,
                                         const BatchTypes& batch, int num_replicas,
                                         const kernels::Lowering& lowering = {});

// Parameters: variables..., inputs....  Results: the network's outputs, those of 16-bit floats as
// float32. One replica's part.
absl::StatusOr<ir::Program> PredictStep(const Objective& objective,
                                        const std::vector<ir::TensorType>& inputs, int num_replicas,
                                        const kernels::Lowering& lowering = {});

// Parameters as TrainStep's, but that `steps` is which of the stacked batches is meant; nothing is
// donated. Results: one bool vector; places[i] says what the i-th of them found finite, in the
// order in which a step computes them.
struct Diagnosis {
  ir::Program program;
  std::vector<std::string>
      places;  // "variable conv/kernel", "layer conv (Conv2D)", "the loss", "gradient of ..."
};
absl::StatusOr<Diagnosis> DiagnoseStep(const Objective& objective, const StateLayout& layout,
                                       const BatchTypes& batch, int num_replicas,
                                       const kernels::Lowering& lowering = {});

}  // namespace penstock::train
