// Room ir: the typed graph that every front end builds, its gradients, and its printing as
// StableHLO. It may use room base and nothing else.
//
//   Graph graph("step");
//   Value x = graph.Parameter({DType::kF32, {128, 784}}, "x");
//   Value w = graph.Parameter({DType::kF32, {784, 10}}, "w");
//   Value loss = ReduceMean(Square(MatMul(x, w)));
//   std::vector<Value> d = Gradients(loss, {w});         // gradients.h
//   graph.SetResults({loss, d[0]});
//   absl::StatusOr<Program> program = PrintStableHlo(graph);   // stablehlo.h
//
//   graph.h      Value, Node, Graph: what a program is made of
//   ops.h        the catalogue: one function for each thing a program can say
//   op_def.h     what an operation is: name, type rule, gradient, printing, together in one entry
//   gradients.h  reverse-mode differentiation; the result is ordinary graph, so it can be
//   differentiated again stablehlo.h  the printer
//
// Errors. Building never stops in the middle: an operation that is given the wrong thing returns an
// invalid Value, whatever is built on an invalid Value is invalid too, and the graph keeps the
// first error, with the scope (layer, user's source line) in which it happened. Ask graph.status()
// once, at the end.
//
// Threads: a Graph is built by one thread at a time; a finished one may be read by many.
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

// Element type and static shape of a value.
struct TensorType {
  DType dtype = DType::kInvalid;
  Shape shape;

  std::string ToString() const;  // "f32[128,10]"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

class Graph;
struct Node;
struct OpDef;

// One result of one node: a cheap handle. A default-constructed Value is invalid; as an operand of
// a gradient it means zero.
class Value {
 public:
  Value() = default;

  bool valid() const { return graph_ != nullptr; }
  explicit operator bool() const { return valid(); }
  // The following need a valid value; for an invalid one they throw std::logic_error, which the
  // caller of a user-defined function (a layer, a step) turns into an error of the graph.
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

// What a node knows besides its operands. Enumerations travel as their StableHLO names.
using Attribute =
    std::variant<bool, int64_t, double, std::string, DType, std::vector<int64_t>, Array>;

// Sorted by name, so that printing and hashing are deterministic.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<absl::string_view, Attribute>> entries);

  // The attribute must be there and of type T (contract: an operation reads what it wrote).
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

// Where a node comes from: the layer and the line of the user's program.
struct Origin {
  std::string scope;  // "resnet/block2/conv1", empty outside any scope
  std::string file;   // empty when unknown
  int line = 0;

  std::string ToString() const;  // "layer \"resnet/block2/conv1\" (train.cc:12)"
  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<Value> operands;
  Attributes attributes;
  // Bodies of while and cond, closed: they see only their own parameters.
  std::vector<std::shared_ptr<const Graph>> regions;
  std::vector<TensorType> results;
  int origin = 0;  // index into the graph's origins
};

class Graph {
 public:
  // `num_replicas` is how many copies of the program run together: what all_reduce sums over.
  explicit Graph(std::string name, int num_replicas = 1);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  int num_replicas() const { return num_replicas_; }

  Value Parameter(TensorType type, absl::string_view name);
  void SetResults(absl::Span<const Value> results, absl::Span<const std::string> names = {});

  // Adds a node: checks it by the operation's own rule and returns one Value for each result, none
  // at all after an error. Operations in ops.h call this; programs call those.
  std::vector<Value> Emit(const OpDef& op, std::vector<Value> operands, Attributes attributes = {},
                          std::vector<std::shared_ptr<const Graph>> regions = {});

  // Adds copies of the nodes that the results of `body` need, with these values for its parameters
  // (one that nothing needs may be invalid); gives its results, or nothing after an error.
  std::vector<Value> Inline(const Graph& body, absl::Span<const Value> arguments);

  // The same for any values of `body`: copies what `wanted` need, where each of `given` is not
  // computed but taken from `replacements`.
  std::vector<Value> Inline(const Graph& body, absl::Span<const Value> given,
                            absl::Span<const Value> replacements, absl::Span<const Value> wanted);

  // Gives a node other regions, with which it has more results than before; the ones it has keep
  // their places and types. Gives the new ones. For gradients that want to know what went on
  // inside.
  std::vector<Value> Extend(int node, std::vector<std::shared_ptr<const Graph>> regions);

  // Keeps `error`, in the context of the current origin, if it is the first.
  void Fail(const absl::Status& error);
  // The first error met in building, OK if there was none.
  const absl::Status& status() const { return status_; }

  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int id) const { return nodes_[id]; }
  Value value(int node, int result = 0) { return Value(this, node, result); }
  absl::Span<const Value> parameters() const { return parameters_; }
  absl::Span<const std::string> parameter_names() const { return parameter_names_; }
  absl::Span<const Value> results() const { return results_; }
  absl::Span<const std::string> result_names() const { return result_names_; }
  absl::Span<const Origin> origins() const { return origins_; }
  // The origin that new nodes get.
  const Origin& current_origin() const;

 private:
  friend class Scope;
  void FailForeign(absl::string_view what);

  std::string name_;
  int num_replicas_;
  std::deque<Node> nodes_;  // in an order in which they can run; references to nodes stay good
  std::vector<Value> parameters_, results_;
  std::vector<std::string> parameter_names_, result_names_;
  std::vector<Origin> origins_;
  int current_origin_ = 0;
  absl::Status status_;
};

// While it lives, new nodes of `graph` carry a deeper scope name and, if given, the user's line.
// Nodes that a gradient adds carry the origin of the node they differentiate.
class Scope {
 public:
  Scope(Graph& graph, absl::string_view name,
        std::optional<base::SourceLocation> location = std::nullopt);
  // Goes back to an origin that the graph has: for gradients.
  Scope(Graph& graph, int origin);
  // An origin of another graph: for bodies.
  Scope(Graph& graph, const Origin& origin);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
  int outer_;
};

}  // namespace penstock::ir
