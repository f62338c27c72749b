// Step graph: the ir::Graph of one program of a session, and what its parameters and results are.
// Internal to room session.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/session/run/plan.h"
#include "penstock/session/variable.h"

namespace penstock::session {

// The values that a program is built for: the types of the plan's feeds, then those of the outputs
// of its host inputs, in order.
using FedTypes = std::vector<ir::TensorType>;

struct StepGraph {
  // Where a value is found after an execution.
  enum class Kind {
    kNone,      // an operation, which has no value
    kResult,    // a result of the program
    kVariable,  // a variable that the program does not assign
    kFed,       // a fed value
    kRandom     // parameters only: what random operations need
  };
  struct Place {
    Kind kind = Kind::kNone;
    int index = 0;  // of the result; of the variable; of the fed value (FedTypes)
  };

  std::unique_ptr<ir::Graph> graph;
  std::vector<Place> parameters;
  struct Assignment {
    const VariableDef* variable = nullptr;
    Place value = {};    // kResult or kFed
    int parameter = -1;  // that is donated; -1: the program does not read the variable
  };
  std::vector<Assignment> assigned;
  std::vector<Place> fetched;  // for each of the plan's fetches
  // Variables that are parameters.
  std::vector<const VariableDef*> read;
  // Rows of a shard's slice of the first input of tpu::Shard; -1: there is none.
  int64_t shard_rows = -1;
  // Parameters that results replace, as ir::PrintOptions::donate.
  std::vector<std::pair<int, int>> donate;
};

// Builds the graph. The parameter of kRandom is ui32[number of random operations, 2]: for each of
// plan.random its seed, and how many times it was drawn from before. `graph_seed`: the key that
// these are folded into. `evaluate` executes graphs without parameters, for values that must be
// known when a program is compiled.
absl::StatusOr<StepGraph> BuildStepGraph(
    const Plan& plan, const FedTypes& fed, uint64_t graph_seed,
    const std::function<absl::StatusOr<Array>(const ir::Graph&)>& evaluate);

}  // namespace penstock::session
