// Room nn: what a network is made of — layers, initialisers, activations, losses, metrics,
// optimizers, schedules — with Keras's names and defaults. It may use base and ir.
//
//   Symbol x = Input({.shape = {28, 28, 1}, .dtype = DType::kU8});
//   Symbol y = Rescaling({.scale = 1 / 255.0})(x);
//   y = Conv2D({.filters = 16, .kernel_size = 3, .activation = "relu"})(y);
//   y = Dense({.units = 10})(Flatten()(y));
//   Network net({x}, {y});
//   PENSTOCK_RETURN_IF_ERROR(net.status());                 // the first error, with layer and
//   source line Values out = net.Apply({.graph = &graph, .training = true, ...}, inputs);
//
//   layer.h         Layer, Symbol, CallContext: what a layer is and how it is called
//   layers.h        the catalogue of layers
//   network.h       layers put together; its variables; its summary; to and from JSON
//   initializers.h, activations.h, losses.h, metrics.h, optimizers.h, schedules.h
//   policy.h        in which types layers compute and keep their variables
//   config.h        how options travel to and from JSON
//
// A layer is one class in one place: its options and one function, Call, which declares the layer's
// variables and computes its outputs. Shapes are not written down a second time: building a network
// runs Call on a scratch graph and looks at what comes out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/ir/graph.h"
#include "penstock/ir/ops.h"
#include "penstock/nn/policy.h"

namespace penstock::nn {

using base::Array;
using base::DType;
using base::Shape;
using ir::TensorType;
using ir::Value;
using ir::Values;

class Config;

// What a layer keeps between steps: a weight, a moving average.
struct VariableSpec {
  std::string name;  // "conv2d_1/kernel": unique in its network
  TensorType type;
  std::string initializer;  // by name, see initializers.h
  bool trainable = true;
};

// How the layers of a network reach its variables. Network has the two implementations: one
// collects the declarations, the other hands out a program's values.
class VariableScope {
 public:
  virtual ~VariableScope() = default;
  virtual Value Get(ir::Graph& graph, const VariableSpec& spec) = 0;
  virtual void Set(absl::string_view name, Value value) = 0;
};

// What a network is applied with.
struct ApplyOptions {
  ir::Graph* graph = nullptr;
  bool training = false;
  // ui32[2], for layers that draw random numbers in training; each layer folds in its own number.
  // It must differ from step to step and from replica to replica.
  Value key = Value();
  // f32[batch], 1 for a real example and 0 for padding; invalid: all are real. Layers that mix
  // examples (batch normalisation) leave padding out.
  Value sample_mask = Value();
};

// What Call sees.
class CallContext {
 public:
  CallContext(const ApplyOptions& options, VariableScope& variables, std::string layer_name,
              int layer_index, Policy policy)
      : options_(options),
        variables_(variables),
        layer_name_(std::move(layer_name)),
        layer_index_(layer_index),
        policy_(std::move(policy)) {}

  ir::Graph& graph() const { return *options_.graph; }
  bool training() const { return options_.training; }
  const Value& sample_mask() const { return options_.sample_mask; }
  // What floating inputs come in, variables are read in, and outputs should be.
  DType compute_dtype() const { return policy_.compute; }

  struct VariableOptions {
    bool trainable = true;
    // In which it is kept; by default as the policy says.
    std::optional<DType> dtype = std::nullopt;
    // False: it is read in the type in which it is kept, not in compute_dtype().
    bool autocast = true;
  };
  // The variable `name` of this layer; the first call declares it.
  Value Variable(absl::string_view name, const Shape& shape, absl::string_view initializer,
                 VariableOptions options);
  Value Variable(absl::string_view name, const Shape& shape, absl::string_view initializer) {
    return Variable(name, shape, initializer, VariableOptions());
  }
  // The value the variable has after this step.
  void Assign(absl::string_view name, Value value);
  // A key of this layer's own; each call gives another.
  Value NextKey();
  // Records an error of this layer's and gives an invalid value to return.
  Value Fail(absl::string_view message);

 private:
  const ApplyOptions& options_;
  VariableScope& variables_;
  std::string layer_name_;
  int layer_index_;
  Policy policy_;
  int keys_ = 0;
};

// One class of layer: its options and what it does.
class LayerBody {
 public:
  virtual ~LayerBody() = default;
  // Keras's class name: "Conv2D".
  virtual absl::string_view class_name() const = 0;
  // Inputs are valid values, those of a floating type in ctx.compute_dtype(); the first dimension
  // is the batch. Errors go to ctx.Fail or come from ir.
  virtual Value Call(CallContext& ctx, const Values& inputs) const = 0;
  // Shows every option to `config`, which reads or writes it.
  virtual void Fields(Config& config) = 0;
};

class Layer;

// What a layer call yields while a network is being described: a tensor whose batch size is not
// known yet. Its type is the one under the policy float32: a network's policy is known later.
class Symbol {
 public:
  Symbol() = default;

  bool valid() const { return node_ != nullptr; }
  // Type with -1 as batch size; the error of this or any earlier layer.
  const absl::StatusOr<TensorType>& type() const;

  struct Node;
  const std::shared_ptr<const Node>& node() const { return node_; }
  explicit Symbol(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

 private:
  std::shared_ptr<const Node> node_;
};

// A handle to one layer: copies are the same layer, and calling it twice shares its variables.
class Layer {
 public:
  Layer() = default;
  Layer(std::shared_ptr<LayerBody> body, std::string name, std::string dtype,
        base::SourceLocation location);

  // `location` defaults to where the layer was made.
  Symbol operator()(const Symbol& input) const;
  Symbol operator()(const std::vector<Symbol>& inputs) const;

  bool valid() const { return state_ != nullptr; }
  absl::string_view class_name() const { return body().class_name(); }
  LayerBody& body() const;
  // Given by the user; empty: the network names it after its class ("conv2d", "conv2d_1").
  const std::string& given_name() const;
  // Given by the user, the name of a policy; empty: the network's.
  const std::string& given_dtype() const;
  const base::SourceLocation& location() const;
  friend bool operator==(const Layer& a, const Layer& b) { return a.state_ == b.state_; }
  const void* id() const { return state_.get(); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A use of a layer.
struct Symbol::Node {
  Layer layer;  // invalid for an input
  std::vector<Symbol> inputs;
  std::string input_name;  // of an input, may be empty
  absl::StatusOr<TensorType> type;
};

struct InputOptions {
  std::vector<int64_t> shape = {};  // of one example, without the batch
  DType dtype = DType::kF32;
  std::string name = "";
};
Symbol Input(const InputOptions& options);

// "Conv2D" -> "conv2d", "BatchNormalization" -> "batch_normalization": Keras's automatic names.
std::string SnakeCase(absl::string_view class_name);

}  // namespace penstock::nn
