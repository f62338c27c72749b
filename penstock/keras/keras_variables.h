// Names and order of variables in Keras's files (save/keras_hdf5.h). Internal to room keras.
//
//   Keras 3    "layers/conv2d_1/vars/0": objects by their classes, variables by their numbers
//   legacy     "conv2d_1/kernel": layers in the model's order; in a layer, trainable ones first
//   optimizer  iteration, learning rate, then the slots, in an order of each optimizer's own
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/nn/network.h"
#include "penstock/save/save.h"
#include "penstock/train/objective.h"

namespace penstock::keras {

// Paths in Keras 3's files of the network's variables(), in their order.
std::vector<std::string> KerasPaths(const nn::Network& network);

// A top-level layer and its variables in the order of legacy files, as indices into variables().
struct LegacyLayer {
  std::string name;
  std::vector<int> variables;
};
// The layers in the order of `layer_names`, inputs and others without variables included.
std::vector<LegacyLayer> LegacyLayers(const nn::Network& network);

// A variable of Keras's optimizer.
struct KerasOptimizerVariable {
  std::string entry;    // in train::StateLayout; empty: Keras alone has it, and does not use it
  nn::TensorType type;  // here
};
// In the order of Keras's Optimizer.variables. Those of LossScaleOptimizer are not known.
std::vector<KerasOptimizerVariable> KerasOptimizerVariables(const train::Objective& objective);

// Whether the file was written by Keras, or in its layout: whole models and weights alone.
bool HasKerasLayout(const save::Weights& file);

// How the arrays of a file of Keras belong to variables.
enum class KerasMatch {
  kPlace,  // by path (Keras 3), by the order of layers and variables (legacy)
  kName,   // by the names of layers
};
// Renames the file's arrays to the network's variables; arrays that belong to none keep their
// names. The state of the optimizer and of random generators is left out. INVALID_ARGUMENT: kPlace,
// and the layers of a legacy file are not as many as the network's, or one differs in the number of
// its variables.
absl::StatusOr<base::NamedArrays> UseKerasNames(const nn::Network& network,
                                                const save::Weights& file, KerasMatch match);

// The state of the optimizer in the file, by the names of train::StateLayout; empty if the file has
// none. INVALID_ARGUMENT: it is that of another optimizer or model.
absl::StatusOr<base::NamedArrays> OptimizerStateOfKeras(const train::Objective& objective,
                                                        const save::Weights& file);

}  // namespace penstock::keras
