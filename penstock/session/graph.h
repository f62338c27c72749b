// Room session: TensorFlow 1's programming model. A graph is built once, from placeholders,
// variables and operations, and a Session runs parts of it. It may use every room above it.
//
//   namespace tf = penstock::session;                  // in a program, not in a header
//   tf::Graph graph;
//   const auto scope = graph.AsDefault();
//   tf::Tensor x = tf::Placeholder(DType::kF32, {-1, 5}, "x");
//   tf::Tensor labels = tf::Placeholder(DType::kI64, {-1}, "labels");
//   tf::Variable w(tf::RandomNormal({5, 3}), "w");
//   tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, tf::MatMul(x, w));
//   tf::Operation step = tf::train::GradientDescentOptimizer(0.1).Minimize(loss);
//   tf::Session session;
//   PENSTOCK_RETURN_IF_ERROR(session.Run(tf::GlobalVariablesInitializer()));
//   PENSTOCK_ASSIGN_OR_RETURN(auto results, session.Run({step, loss}, {{x, batch}, {labels, y}}));
//
//   graph.h          Graph, Tensor, Operation, scopes: what a program builds
//   variable.h       Variable, GetVariable, variable scopes, initializers
//   ops/             operations under TensorFlow's names: array_ops.h, math_ops.h, nn_ops.h, ...
//   control_flow.h   Cond, WhileLoop, Group; gradients.h: Gradients
//   session.h        Session: runs a graph on devices
//   lowering.h       how an operation becomes part of a program; for new operations
//   layers.h, losses.h, metrics.h, train/ (optimizers, Saver, summaries), data.h, tpu.h
//
// Nothing here computes: Session::Run prunes the graph to what the fetches need, translates it to
// one ir::Graph, which is compiled once for each set of fetches, feeds and shapes, and executes it.
//
// Differences from TensorFlow 1.15:
// - There is no implicit default graph: make a Graph and keep the result of AsDefault() alive while
//   building. Each thread has its own stack of default graphs.
// - A read of a variable sees the value at the start of the Run unless it depends (by data or
//   control dependencies) on an assignment in the same Run; in TensorFlow it may see either.
// - Errors are not thrown: an operation with invalid arguments gives an invalid Tensor, operations
//   on invalid tensors give invalid ones, and the graph keeps the first error, with the name of the
//   operation and the line of the program. Session::Run returns it; Graph::status() too.
//
// Thread safety: one thread at a time builds a graph. A finished graph may be used by any number of
// sessions and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/base/source_location.h"
#include "penstock/ir/ops.h"

namespace penstock::session {

using base::Array;
using base::DType;
using base::Shape;
using base::SourceLocation;

class Graph;
class Lowering;
struct Body;  // body.h: of Cond and WhileLoop
struct Node;

// Base of extra data of nodes that a session treats specially: random operations (lowering.h),
// iterators (run/host_input.h), loops. Recognized by dynamic_cast.
struct NodeExtra {
  virtual ~NodeExtra() = default;
};

// Static shape of a tensor: what is known when the graph is built. An extent of -1 is unknown.
// A default-constructed one has an unknown rank.
class PartialShape {
 public:
  PartialShape() = default;
  PartialShape(std::initializer_list<int64_t> dims) : PartialShape(Shape(dims)) {}
  PartialShape(Shape shape) : known_rank_(true), shape_(std::move(shape)) {}  // NOLINT

  bool has_rank() const { return known_rank_; }
  int rank() const { return known_rank_ ? shape_.rank() : -1; }
  // Extent of axis i (negative: from the end), -1 if unknown. Requires has_rank().
  int64_t dim(int i) const { return shape_.dim(i); }
  // Extents, -1 for unknown ones. Requires has_rank().
  const Shape& shape() const { return shape_; }
  // Whether rank and all extents are known.
  bool IsFullyDefined() const;
  // Whether a tensor may have both: ranks and extents are equal where both are known.
  bool IsCompatibleWith(const PartialShape& other) const;
  // "[?,5]", "<unknown>".
  std::string ToString() const;
  friend bool operator==(const PartialShape&, const PartialShape&) = default;

 private:
  bool known_rank_ = false;
  Shape shape_;
};

// Handle to one output of an operation (tf.Tensor); cheap to copy. The graph must outlive its use.
// A default-constructed one is invalid.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Node* node, int index) : node_(node), index_(index) {}

  bool valid() const { return node_ != nullptr; }
  Node* node() const { return node_; }
  int index() const { return index_; }
  // Of an invalid tensor: null, kInvalid, unknown, "".
  Graph* graph() const;
  DType dtype() const;
  const PartialShape& shape() const;
  std::string name() const;  // "dense/BiasAdd:0"
  // Replaces the static shape by a more precise one (tf.Tensor.set_shape); an error of the graph if
  // they are not compatible.
  void SetShape(const PartialShape& shape, SourceLocation where = SourceLocation::Current());

  friend bool operator==(const Tensor&, const Tensor&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Tensor& t) {
    return H::combine(std::move(h), t.node_, t.index_);
  }

 private:
  Node* node_ = nullptr;
  int index_ = 0;
};
using Tensors = std::vector<Tensor>;

// Handle to an operation (tf.Operation), whether it has outputs or not.
class Operation {
 public:
  Operation() = default;
  explicit Operation(Node* node) : node_(node) {}
  Operation(const Tensor& output) : node_(output.node()) {}  // NOLINT: as in Run, Group

  bool valid() const { return node_ != nullptr; }
  Node* node() const { return node_; }
  std::string name() const;  // "dense/BiasAdd"
  std::string type() const;  // "BiasAdd"
  Tensors outputs() const;

  friend bool operator==(const Operation&, const Operation&) = default;

 private:
  Node* node_ = nullptr;
};
using Operations = std::vector<Operation>;

// Computes an operation's outputs from its inputs, in the program that a Run builds. Called with
// concrete shapes, possibly several times. For an operation without side effects the Lowering may
// be ignored; it is also called on a scratch graph to infer static shapes.
using LowerFunction = std::function<ir::Values(Lowering& lowering, const ir::Values& inputs)>;

// One operation of a graph.
struct Node {
  Graph* graph = nullptr;
  int id = 0;  // creation order, which is a topological order
  std::string name, type;
  Tensors inputs;
  std::vector<Node*> control_inputs;
  struct Output {
    DType dtype = DType::kInvalid;
    PartialShape shape;
  };
  std::vector<Output> outputs;
  LowerFunction lower;
  SourceLocation where;
  // Body of Cond or WhileLoop in which the node was created; null at the top level.
  const Body* body = nullptr;
  // Number of replicas that the program must have (tpu::Shard); 1: any.
  int num_shards = 1;
  // Has an effect besides its outputs (assignments, and random numbers or batches that are drawn):
  // lowered once for each Run, never inferred.
  bool stateful = false;
  // Extra data of operations that the session treats specially; null for all others.
  std::shared_ptr<NodeExtra> extra;
};

// Options of Graph::AddNode.
struct NodeOptions {
  std::string type;       // TensorFlow's name of the operation: "MatMul"
  std::string name = {};  // empty: the type; made unique within the name scope
  // Types of the outputs. Empty: inferred by running `lower` on a scratch graph, once for each of
  // several guesses of the unknown extents.
  std::optional<std::vector<Node::Output>> outputs = {};
  bool stateful = false;
  std::shared_ptr<NodeExtra> extra = nullptr;
  // Operations that run before it, besides those of the ControlDependencies around it.
  std::vector<Node*> control_inputs = {};
  int num_shards = 1;  // default: that of the ShardsScope around it
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // RAII: makes this graph the calling thread's default until destroyed; scopes nest.
  class DefaultScope {
   public:
    explicit DefaultScope(Graph* graph);
    ~DefaultScope();
    DefaultScope(const DefaultScope&) = delete;
    DefaultScope& operator=(const DefaultScope&) = delete;
  };
  [[nodiscard]] DefaultScope AsDefault() { return DefaultScope(this); }
  // The innermost default graph of this thread; null without one.
  static Graph* Default();

  // Adds a node and returns it; null after an error. `inputs` must be of this graph. The one way
  // by which operations enter a graph; programs call the functions of ops/.
  Node* AddNode(NodeOptions options, Tensors inputs, LowerFunction lower, SourceLocation where);

  // The first error of building, with the operation's name and the line; OK if there is none.
  const absl::Status& status() const { return status_; }
  // Records an error (unless there is one already) of the operation `name`.
  void Fail(const absl::Status& error, absl::string_view name, SourceLocation where);

  // An operation or a tensor by name ("dense/MatMul", "dense/MatMul:0"); NOT_FOUND lists similar
  // names.
  absl::StatusOr<Operation> GetOperationByName(absl::string_view name) const;
  absl::StatusOr<Tensor> GetTensorByName(absl::string_view name) const;
  Operations GetOperations() const;
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  Node* node(int id) const { return nodes_[id].get(); }

  // Collections (tf.GraphKeys): named lists of operations and tensors.
  void AddToCollection(absl::string_view collection, const Tensor& value);
  void AddToCollection(absl::string_view collection, const Operation& value);
  // Those whose names begin with `scope`, in the order in which they were added. The variables of a
  // collection: GetCollectionVariables (variable.h).
  Tensors GetCollection(absl::string_view collection, absl::string_view scope = "") const;
  Operations GetCollectionOperations(absl::string_view collection,
                                     absl::string_view scope = "") const;

  // Seed of random operations that have none of their own (tf.set_random_seed).
  void SetRandomSeed(uint64_t seed) { seed_ = seed; }
  std::optional<uint64_t> random_seed() const { return seed_; }

  // "scope/name", made unique by "_1", "_2"... as TensorFlow does.
  std::string UniqueName(absl::string_view name);
  const std::string& name_scope() const { return name_scope_; }
  // Body of Cond or WhileLoop under construction; null at the top level.
  Body* body() const { return body_; }
  // Whether operations that are added now get control inputs.
  bool has_control_dependencies() const;

  // State of other headers of this room that belongs to the graph (variables of variable.h, the
  // stack of bodies of control_flow.h), by its type; created at first use.
  template <typename T>
  T& Extension() {
    std::shared_ptr<void>& slot = extensions_[&kExtensionKey<T>];
    if (slot == nullptr) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }
  // The same if it exists, else null: for threads that use a finished graph.
  template <typename T>
  const T* FindExtension() const {
    const auto found = extensions_.find(&kExtensionKey<T>);
    return found == extensions_.end() ? nullptr : static_cast<const T*>(found->second.get());
  }

 private:
  friend class NameScope;
  friend class ControlDependencies;
  friend class ShardsScope;
  friend class BodyScope;
  void AddControlInputs(Node& node, const std::vector<Node*>& given) const;
  absl::Status CheckInputs(const Node& node) const;
  template <typename T>
  static inline const char kExtensionKey = 0;

  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, int> by_name_;
  absl::flat_hash_map<std::string, int> name_counts_;
  absl::flat_hash_map<std::string, Tensors> collections_;
  absl::flat_hash_map<std::string, Operations> operation_collections_;
  absl::flat_hash_map<const void*, std::shared_ptr<void>> extensions_;
  std::string name_scope_;                                // "outer/inner", empty at the top
  std::vector<std::vector<Node*>> control_dependencies_;  // stack; an empty entry clears (None)
  Body* body_ = nullptr;                                  // innermost body under construction
  int num_shards_ = 1;
  std::optional<uint64_t> seed_;
  absl::Status status_;
};

// `text` with '_' in place of each character that names of operations do not have: for names that
// come from data, "sepal length (cm)".
std::string AsName(absl::string_view text);

// Names of collections (tf.GraphKeys).
namespace graph_keys {
inline constexpr char kGlobalVariables[] = "variables";
inline constexpr char kLocalVariables[] = "local_variables";
inline constexpr char kTrainableVariables[] = "trainable_variables";
inline constexpr char kUpdateOps[] = "update_ops";
inline constexpr char kLosses[] = "losses";
inline constexpr char kRegularizationLosses[] = "regularization_losses";
inline constexpr char kSummaries[] = "summaries";
inline constexpr char kGlobalStep[] = "global_step";
}  // namespace graph_keys

// RAII: operations created meanwhile are named "<scope>/..." (tf.name_scope). A scope name that is
// in use gets "_1"; one that ends with "/" is entered again as it is; "" is the top level.
class NameScope {
 public:
  explicit NameScope(absl::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  const std::string& name() const { return name_; }

 private:
  Graph* graph_;
  std::string outer_, name_;
};

// RAII: operations created meanwhile run after these (tf.control_dependencies). Nested ones add up;
// std::nullopt (TensorFlow's None) clears those outside.
class ControlDependencies {
 public:
  explicit ControlDependencies(const Operations& after);
  explicit ControlDependencies(std::nullopt_t);
  ~ControlDependencies();
  ControlDependencies(const ControlDependencies&) = delete;
  ControlDependencies& operator=(const ControlDependencies&) = delete;

 private:
  Graph* graph_;
};

// RAII: operations created meanwhile need a program with this number of replicas (for tpu::Shard).
class ShardsScope {
 public:
  ShardsScope(Graph* graph, int num_shards);
  ~ShardsScope();
  ShardsScope(const ShardsScope&) = delete;
  ShardsScope& operator=(const ShardsScope&) = delete;

 private:
  Graph* graph_;
  int outer_;
};

// Adds an operation of one output without side effects, for the functions of ops/:
//
//   Tensor Exp(const Tensor& x, absl::string_view name, SourceLocation where) {
//     return AddOp("Exp", {x}, name, where, [](const ir::Values& in) { return ir::Exp(in[0]); });
//   }
//
// An invalid input gives an invalid tensor. Inputs of several graphs are an error of the first.
using PureFunction = std::function<ir::Value(const ir::Values& inputs)>;
Tensor AddOp(absl::string_view type, const Tensors& inputs, absl::string_view name,
             SourceLocation where, PureFunction lower);
// The same with several outputs.
using PureFunctions = std::function<ir::Values(const ir::Values& inputs)>;
Tensors AddOps(absl::string_view type, const Tensors& inputs, absl::string_view name,
               SourceLocation where, PureFunctions lower);
// Records an error about an operation that was called with invalid arguments, in the graph of the
// first valid input (or the default graph), and returns an invalid tensor.
Tensor FailOp(const Tensors& inputs, absl::string_view type, absl::string_view message,
              SourceLocation where);

}  // namespace penstock::session
