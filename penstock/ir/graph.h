// Room ir: the typed computation graph (the intermediate representation, IR) that every front end
// builds, its gradients, and its printing as StableHLO. Depends on room base only.
//
//   Graph graph("step");
//   Value x = graph.Parameter({DType::kF32, {128, 784}}, "x");
//   Value w = graph.Parameter({DType::kF32, {784, 10}}, "w");
//   Value loss = ReduceMean(Square(MatMul(x, w)));
//   std::vector<Value> d = Gradients(loss, {w});         // gradients.h
//   graph.SetResults({loss, d[0]});
//   absl::StatusOr<Program> program = PrintStableHlo(graph);   // stablehlo.h
//
//   graph.h      Value, Node, Graph: the parts of a program
//   ops.h        catalog of operations: one function for each
//   op_def.h     definition of an operation: name, type inference, gradient, printing, in one entry
//   gradients.h  reverse-mode differentiation; the gradient graph can be differentiated again
//   stablehlo.h  the StableHLO printer
//
// Errors. Building never throws and never stops midway: an operation with invalid arguments returns
// an invalid Value, every operation on an invalid Value returns an invalid one, and the graph keeps
// the first error with the scope (layer, user's source line) in which it happened. Check
// graph.status() once, at the end.
//
// Thread safety: one thread at a time builds a Graph; a finished Graph may be read by any number of
// threads.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/base/source_location.h"

namespace penstock::ir {

using base::Array;
using base::DType;
using base::Shape;

// Element type and static shape of a value. Only in graphs for the printer (dynamic_batch.h), an
// extent of -k stands for k times the batch size.
struct TensorType {
  DType dtype = DType::kInvalid;
  Shape shape;

  std::string ToString() const;  // "f32[128,10]"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

class Graph;
struct Node;
struct OpDef;

// Handle to one result of one node; cheap to copy. A default-constructed Value is invalid; as a
// cotangent it means zero.
class Value {
 public:
  Value() = default;

  bool valid() const { return graph_ != nullptr; }
  explicit operator bool() const { return valid(); }
  // The following require a valid Value; on an invalid one they throw std::logic_error, which the
  // caller of a user-defined function (a layer, a training step) converts to an error of the graph.
  Graph* graph() const;
  const Node& node() const;
  int node_id() const { return node_; }
  int result() const { return result_; }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return shape().rank(); }

  friend bool operator==(const Value&, const Value&) = default;

 private:
  friend class Graph;
  Value(Graph* graph, int node, int result) : graph_(graph), node_(node), result_(result) {}

  Graph* graph_ = nullptr;
  int32_t node_ = -1;
  int32_t result_ = 0;
};

// Attribute value of a node. Enumerations are stored as their StableHLO names.
using Attribute =
    std::variant<bool, int64_t, double, std::string, DType, std::vector<int64_t>, Array>;

// Attributes of a node, sorted by name so that printing and hashing are deterministic.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<absl::string_view, Attribute>> entries);

  // Attribute `name`, which must exist and have type T (an operation reads only the attributes that
  // it wrote).
  template <typename T>
  const T& Get(absl::string_view name) const {
    return std::get<T>(*Find(name));
  }
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  void Set(absl::string_view name, Attribute value);
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  const Attribute* Find(absl::string_view name) const;

  std::vector<std::pair<std::string, Attribute>> entries_;
};

// Origin of a node: the layer and the source line of the user's program that created it.
struct Origin {
  std::string scope;  // "resnet/block2/conv1", empty outside any scope
  std::string file;   // empty when unknown
  int line = 0;

  std::string ToString() const;  // "layer \"resnet/block2/conv1\" (train.cc:12)"
  friend bool operator==(const Origin&, const Origin&) = default;
};

// One operation of a graph with its operands, attributes and result types.
struct Node {
  const OpDef* op = nullptr;
  std::vector<Value> operands;
  Attributes attributes;
  // Closed bodies of While, Cond and Scan: they refer to their own parameters only.
  std::vector<std::shared_ptr<const Graph>> regions;
  std::vector<TensorType> results;
  int origin = 0;  // index into the graph's origins
};

// A program under construction: nodes in topological order, parameters, results, the first error.
class Graph {
 public:
  // `num_replicas`: number of copies of the program that run together (data parallelism);
  // all_reduce sums over them.
  explicit Graph(std::string name, int num_replicas = 1);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  int num_replicas() const { return num_replicas_; }

  Value Parameter(TensorType type, absl::string_view name);
  void SetResults(absl::Span<const Value> results, absl::Span<const std::string> names = {});

  // Adds a node after checking it with the operation's type inference. Returns one Value for each
  // result, or an empty vector after an error. The functions in ops.h call it; programs call those.
  std::vector<Value> Emit(const OpDef& op, std::vector<Value> operands, Attributes attributes = {},
                          std::vector<std::shared_ptr<const Graph>> regions = {});

  // Copies the nodes that the results of `body` depend on, with `arguments` in place of its
  // parameters (an unused parameter's argument may be invalid). Returns the copied results, or an
  // empty vector after an error.
  std::vector<Value> Inline(const Graph& body, absl::Span<const Value> arguments);

  // The same for arbitrary values of `body`: copies the nodes that `wanted` depends on; each value
  // in `given` is not copied but replaced by the corresponding element of `replacements`.
  std::vector<Value> Inline(const Graph& body, absl::Span<const Value> given,
                            absl::Span<const Value> replacements, absl::Span<const Value> wanted);

  // Replaces the regions of a node by others that have additional results; existing results keep
  // their indices and types. Returns the additional results. Gradients use it to make a forward
  // loop return residuals.
  std::vector<Value> Extend(int node, std::vector<std::shared_ptr<const Graph>> regions);

  // Records `error` with the current origin, unless the graph already has an error.
  void Fail(const absl::Status& error);
  // The first error, or OK.
  const absl::Status& status() const { return status_; }
  // Returns the first error and forgets it: what was built before stays usable, and values of
  // failed operations stay invalid. For programs that go on after a mistake (room lazy).
  absl::Status TakeStatus() { return std::exchange(status_, absl::OkStatus()); }

  // ---- Programs that are built again and again (room lazy) ----
  // Empties the graph, for a program that is likely to be the same: what was built stays as a
  // template, and building the same nodes in the same order again takes them from it, without type
  // inference and allocations. The first other node drops the rest of the template. Values of the
  // graph become invalid; parameters and results are forgotten.
  void Restart();
  // Number of times that a node was not the template's. While it stays the same, so do the nodes at
  // all positions that the graph has reached.
  int64_t num_divergences() const { return num_divergences_; }
  struct Position {
    int nodes = 0, origins = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };
  Position position() const { return {num_nodes_, num_origins_}; }
  // Adds the template's nodes up to `end`, a position at which the graph was since num_divergences
  // changed, as the calls that added them then would. They must include no parameters.
  void Repeat(Position end);

  int num_nodes() const { return num_nodes_; }
  const Node& node(int id) const { return nodes_[id]; }
  Value value(int node, int result = 0) { return Value(this, node, result); }
  absl::Span<const Value> parameters() const { return parameters_; }
  absl::Span<const std::string> parameter_names() const { return parameter_names_; }
  absl::Span<const Value> results() const { return results_; }
  absl::Span<const std::string> result_names() const { return result_names_; }
  absl::Span<const Origin> origins() const {
    return absl::MakeConstSpan(origins_).first(num_origins_);
  }
  // Origin given to new nodes.
  const Origin& current_origin() const;

 private:
  friend class Scope;
  friend class DynamicBatchGraph;  // dynamic_batch.cc: copies nodes with other types
  void FailForeign(absl::string_view what);
  Node& Append(Node node);
  void DropTemplate();
  // Makes the origin current.
  void SetOrigin(Origin origin);

  std::string name_;
  int num_replicas_;
  // In topological order; references to nodes stay valid. Nodes from num_nodes_ on, and origins
  // from num_origins_ on, are the template.
  std::deque<Node> nodes_;
  int num_nodes_ = 0;
  std::vector<Value> parameters_, results_;
  std::vector<std::string> parameter_names_, result_names_;
  std::vector<Origin> origins_;
  int num_origins_ = 1;
  int64_t num_divergences_ = 0;
  int current_origin_ = 0;
  absl::Status status_;
};

// RAII scope: during its lifetime, new nodes of `graph` get a nested scope name and, if given, the
// user's source line. Nodes added by a gradient get the origin of the node that they differentiate.
class Scope {
 public:
  Scope(Graph& graph, absl::string_view name,
        std::optional<base::SourceLocation> location = std::nullopt);
  // Restores an existing origin of the graph. For gradients.
  Scope(Graph& graph, int origin);
  // Sets an origin of another graph. For bodies of loops and branches.
  Scope(Graph& graph, const Origin& origin);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
  int outer_;
};

}  // namespace penstock::ir
