// The graph of a network's prediction, for exporters and for counting: parameters are the
// variables, then the inputs, by their names; results are the outputs, of which several of one
// layer are numbered: "lstm", "lstm_1".
//
//   PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Graph> graph, InferenceGraph(net, 32));
//
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/nn/network.h"

namespace penstock::nn {

// Traces the network in inference mode (no dropout, statistics as trained) for `batch` examples.
// As Predict, it returns outputs of 16-bit floats as float32. An error for a network that could not
// be built.
absl::StatusOr<std::unique_ptr<ir::Graph>> InferenceGraph(const Network& network, int64_t batch);

}  // namespace penstock::nn
