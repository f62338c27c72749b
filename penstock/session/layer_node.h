// One operation that runs a network of room nn, whose variables become variables of the graph.
// Internal to layers*.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/nn/network.h"
#include "penstock/session/graph.h"
#include "penstock/session/layers.h"
#include "penstock/session/variable.h"

namespace penstock::session::layers::internal {

// How a variable of the network is made.
struct VariableChoice {
  Initializer initializer = nullptr;  // nullptr: the network's
  bool default_is_scopes = false;     // without an initializer: that of the variable scope, if any
  std::string regularizer = "", constraint = "";
};

struct LayerNodeOptions {
  std::string type;  // of the operation: "Conv2D"
  std::string name;  // relative to the name scope
  Training training = false;
  bool trainable = true;
  std::optional<uint64_t> seed = {};  // of its random numbers
  // By the variable's name without the path of its layer ("kernel").
  std::map<std::string, VariableChoice> variables = {};
  // Prefix of the network's names that is not part of the variables' names here: "dense/".
  std::string path = "";
  // Scope that the network's names do not contain, for the seed of initial values.
  std::string seed_scope = "";
  // Replaces the values that layers assign (moving averages): name, value before, value after.
  // Called when the operation is lowered, with the values of the network's inputs.
  std::function<ir::Value(const std::string& name, ir::Value before, ir::Value after,
                          const ir::Values& inputs)>
      assigned = nullptr;
};

// Adds the operation; its variables are got by GetVariable in the current variable scope. The
// values that layers assign become assignments in the collection UPDATE_OPS (unless training is
// false), losses of layers go to REGULARIZATION_LOSSES. Returns the network's outputs, or invalid
// tensors after an error.
Tensors AddLayerNode(const ::penstock::nn::Network& network, const Tensors& inputs,
                     const LayerNodeOptions& options, SourceLocation where);

// Inputs of a network for these tensors, with a guess in place of unknown extents besides the
// batch. An error for an unknown rank, or for a tensor without a batch axis.
absl::StatusOr<std::vector<::penstock::nn::Symbol>> InputSymbols(const Tensors& inputs,
                                                                 int64_t guess);

}  // namespace penstock::session::layers::internal
