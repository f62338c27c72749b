// Lowering: the translation of a part of a session's graph to the ir::Graph of one program, as the
// functions that lower single operations see it.
//
// Program. Parameters: the variables that it reads or assigns, the fed tensors, one vector of
// counters if it draws random numbers, the batches of iterators. Results: the assigned variables
// (which reuse the parameters' buffers), then the fetched tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/ops.h"
#include "penstock/session/graph.h"

namespace penstock::session {

struct VariableDef;  // variable.h

// NodeOptions::extra of an operation that calls RandomKey.
struct RandomSeed : NodeExtra {
  explicit RandomSeed(std::optional<uint64_t> op_seed) : seed(op_seed) {}
  std::optional<uint64_t> seed;  // the operation's own seed
};

// A body of Cond or WhileLoop, translated to a graph of its own. Parameters: the arguments, then
// one for each captured value. Results: those of the body, then the assigned variables.
struct LoweredBody {
  std::unique_ptr<ir::Graph> graph;
  size_t num_arguments = 0, num_results = 0;
  struct Captured {
    ir::Value outer;  // in the graph around the body
    // The variable whose value at the start of the body this is; null for other values.
    const VariableDef* variable = nullptr;
  };
  std::vector<Captured> captured;
  std::vector<const VariableDef*> assigned;
};

class Lowering {
 public:
  virtual ~Lowering() = default;

  // The graph to emit into: the program's, or the body of a loop or branch.
  virtual ir::Graph& graph() = 0;
  // The operation that is being lowered.
  virtual const Node& node() const = 0;
  // Number of replicas (shards) that run the program; 1 unless tpu::Shard is in it.
  virtual int num_replicas() const = 0;
  // Index of the replica within tpu::Shard, a ui32 scalar.
  ir::Value replica_id() { return ir::ReplicaId(graph()); }

  // The value of a tensor that has been lowered in this program; lowers it (and what it depends
  // on) now if necessary. For gradients and operations with bodies.
  virtual ir::Value ValueOf(const Tensor& tensor) = 0;

  // Variables. Read: the current value, after the assignments lowered so far, for operations that
  // update a variable. ReadBefore: the value that a read by node() sees, after the assignments that
  // it depends on. Assign: sets the value.
  virtual ir::Value Read(const VariableDef& variable) = 0;
  virtual ir::Value ReadBefore(const VariableDef& variable) = 0;
  // The values that reads after assignments have seen so far, in this program or body.
  virtual ir::Values ReadsOfAssigned(const VariableDef& variable) = 0;
  virtual void Assign(const VariableDef& variable, ir::Value value) = 0;

  // RNG key (ui32[2]) of a stateful random node, whose extra is a RandomSeed: different in each
  // Run, in each iteration of a loop and on each shard, and reproducible for given seeds.
  virtual ir::Value RandomKey(const Node& node) = 0;

  // The value of an input that must be known when the program is compiled (a shape, an axis):
  // computed from constants and static shapes only. An error that names the operation otherwise.
  virtual absl::StatusOr<Array> ConstantOf(const Node& node, int input, ir::Value value) = 0;

  // Translates a body whose arguments have these types. With `iterations`, the number of the
  // iteration, an i32 scalar, is an additional first argument. After an error the graph is null.
  virtual LoweredBody LowerBody(const Body& body, absl::Span<const ir::TensorType> arguments,
                                bool iterations) = 0;

  // Whether the program contains gradients: loops with a limit are then differentiable.
  virtual bool has_gradients() const = 0;

  // Records an error of the program.
  virtual void Fail(const absl::Status& error) = 0;
};

}  // namespace penstock::session
