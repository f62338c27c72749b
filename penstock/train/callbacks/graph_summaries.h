// Graphs for TensorBoard's page Graphs, as the callback TensorBoard writes them:
//
//   constexpr int kGraphDef = 4;  // a field of Event: the graph "Default" of a run
//   PENSTOCK_RETURN_IF_ERROR(events->AppendField(0, kGraphDef, GraphDefOf(network)));
//   PENSTOCK_RETURN_IF_ERROR(events->Append(0, GraphSummary("train_step", GraphDefOf(*graph))));
//
// Formats (tensorflow/core/framework/graph.proto, node_def.proto, protobuf/config.proto):
//   GraphDef     1: repeated NodeDef node, 4: VersionDef { 1: producer }
//   NodeDef      1: name, 2: op, 3: repeated input, 5: map<string, AttrValue> attr
//   RunMetadata  4: FunctionGraphs { 2: GraphDef pre_optimization_graph }
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/ir/graph.h"
#include "penstock/nn/network.h"

namespace penstock::train {

// The layers of a network and their variables, a serialized tensorflow.GraphDef: a node "NAME/CLASS"
// for each layer, with the shapes of its outputs, and a node for each variable under its name.
std::string GraphDefOf(const nn::Network& network);

// The operations that the results of a graph depend on, likewise: each is a node below the scope (the
// layer) that created it, "dense/dot_general", "dense/dot_general_1", with the shapes of its results
// and the element type of the first; a parameter has its own name. A backward pass has the scopes of
// the operations that it differentiates. Bodies of loops and branches are scopes below their node,
// which reads their results.
std::string GraphDefOf(const ir::Graph& graph);

// A GraphDef as a serialized Summary: one more graph of the run, which the page lists under this tag.
std::string GraphSummary(absl::string_view tag, absl::string_view graph_def);

}  // namespace penstock::train
