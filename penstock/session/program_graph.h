// ProgramGraph: fetches as an ir::Graph, a function of the variables and of fed tensors, for
// exporters.
//
//   PENSTOCK_ASSIGN_OR_RETURN(ProgramGraph program,
//                             TraceProgram({{probabilities, "y"}}, {{x, {32, 4}, "x"}}));
//   program.graph->parameters();    // the variables that it reads, then x
//
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session {

struct ProgramGraph {
  // Parameters: the variables, named as they are, then the fed tensors. Results: the fetches.
  std::unique_ptr<ir::Graph> graph;
  std::vector<const VariableDef*> variables;
};

// A tensor that is a parameter, with its shape.
struct ProgramInput {
  Tensor tensor;
  Shape shape;
  std::string name;
};
struct ProgramOutput {
  Tensor tensor;
  std::string name;
};
// Traces what the outputs need. FAILED_PRECONDITION, with the operation's name, if that is a
// placeholder that is not an input, the batch of an iterator, an assignment, a random number or a
// shard.
absl::StatusOr<ProgramGraph> TraceProgram(const std::vector<ProgramOutput>& outputs,
                                          const std::vector<ProgramInput>& inputs);

}  // namespace penstock::session
