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
#include <map>
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

// How the values that replicas assign to a variable become the one that all of them hold after the
// step (TensorFlow's VariableAggregation).
enum class Aggregation {
  kAuto,  // kMean for floats, kOnlyFirstReplica for integers and bools
  // The mean of the values, weighted by each replica's number of real examples. Floats only.
  kMean,
  // The value before the step, plus the sum of the replicas' changes to it: a counter to which each
  // replica adds its own count. Not for bools.
  kSum,
  // The value of replica 0: for values that all replicas compute alike, such as a step counter.
  kOnlyFirstReplica,
};

// What a layer keeps between steps: a weight, a moving average.
struct VariableSpec {
  std::string name;  // "conv2d_1/kernel": unique in its network
  TensorType type;
  std::string initializer;  // by name, see initializers.h
  bool trainable = true;
  std::string regularizer = "";  // by name, see regularizers.h; empty: none
  std::string constraint = "";   // by name, see constraints.h; empty: none
  Aggregation aggregation = Aggregation::kAuto;
};

// What a layer computes: one value, or several in a fixed order (an LSTM that returns its state, a
// network with two heads). Converts from either.
class Outputs : public Values {
 public:
  Outputs() = default;
  Outputs(Value value) : Values{std::move(value)} {}     // NOLINT: `return y;`
  Outputs(Values values) : Values(std::move(values)) {}  // NOLINT
};

class Layer;

// How the layers of a network reach its variables. Network has the two implementations: one
// collects the declarations, the other hands out a program's values.
class VariableScope {
 public:
  virtual ~VariableScope() = default;
  virtual Value Get(ir::Graph& graph, const VariableSpec& spec) = 0;
  virtual void Set(ir::Graph& graph, absl::string_view name, Value value) = 0;

  // A layer's variables belong to the layer, not to the place where it is called: they are named
  // "<path>/<name>" by the path on which the network reaches the layer first, and they are
  // trainable only if no path to the layer is frozen.
  struct Placed {
    std::string path;
    bool trainable;
  };
  virtual Placed Place(const Layer& layer, std::string path, bool trainable) = 0;
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

class Network;

// What Call sees.
class CallContext {
 public:
  // Where a layer stands.
  struct Place {
    std::string layer_name = "";  // "block/dense"
    Value key = Value();          // of whoever calls it, which tells its layers apart by `index`
    uint32_t index = 0;
    Policy policy = Policy();
    bool trainable = true;
    Values input_masks = {};
  };
  CallContext(const ApplyOptions& options, VariableScope& variables, Place place)
      : options_(options), variables_(variables), place_(std::move(place)) {}

  ir::Graph& graph() const { return *options_.graph; }
  bool training() const { return options_.training; }
  // False when somebody has switched this layer's training off (Layer::SetTrainable).
  bool trainable() const { return place_.trainable; }
  const Value& sample_mask() const { return options_.sample_mask; }
  // Which steps of a sequence are real: bool [batch, steps]; invalid: all, or input i has no mask.
  // It comes from Embedding and Masking and goes through layers that say supports_masking.
  Value input_mask(size_t i = 0) const {
    return i < place_.input_masks.size() ? place_.input_masks[i] : Value();
  }
  // The mask of output i, instead of what would come out of the inputs' masks. Invalid: none.
  void SetOutputMask(Value mask, size_t i = 0);
  // What floating inputs come in, variables are read in, and outputs should be.
  DType compute_dtype() const { return place_.policy.compute; }

  struct VariableOptions {
    bool trainable = true;
    // In which it is kept; by default as the policy says.
    std::optional<DType> dtype = std::nullopt;
    // False: it is read in the type in which it is kept, not in compute_dtype().
    bool autocast = true;
    std::string regularizer = "";  // by name, see regularizers.h
    std::string constraint = "";   // by name, see constraints.h
    // How values assigned by several replicas are combined. Must be set for an integer or bool
    // variable to which replicas assign different values: by default replica 0's value is used.
    Aggregation aggregation = Aggregation::kAuto;
  };
  // The variable `name` of this layer; the first call declares it.
  Value Variable(absl::string_view name, const Shape& shape, absl::string_view initializer,
                 VariableOptions options);
  Value Variable(absl::string_view name, const Shape& shape, absl::string_view initializer) {
    return Variable(name, shape, initializer, VariableOptions());
  }
  // Sets the variable's value after this step, of the variable's type. With several replicas their
  // values are combined by VariableOptions::aggregation.
  void Assign(absl::string_view name, Value value);
  // A key of this layer's own; each call gives another.
  Value NextKey();
  // Adds a scalar to what training minimises. Of several replicas the mean counts, weighed by their
  // examples.
  void AddLoss(Value loss);
  // AddLoss of `regularizer` (by name; empty: nothing) of `y`, divided by the number of examples
  // as Keras does; padding does not count.
  void RegularizeActivity(absl::string_view regularizer, Value y);
  // Calls another layer as a part of this one: its variables are "<this layer>/<name>/..." (a layer
  // that the network has reached before keeps its names), its penalties count, its policy is
  // this layer's unless it has its own. `masks` are of its inputs;
  // the masks of the outputs come back in *output_masks, if given.
  Outputs Call(const Layer& layer, absl::string_view name, const Values& inputs,
               const Values& masks = {}, Values* output_masks = nullptr);
  // The same for inputs in whose batch each example of this layer's stands `parts` times, one part
  // after the other.
  Outputs CallParts(const Layer& layer, absl::string_view name, const Values& inputs, int64_t parts,
                    const Values& masks = {});
  // The same for a whole network: its layers' variables are "<this layer>/<layer>/...".
  Outputs Call(const Network& network, const Values& inputs, Values* output_masks = nullptr);
  // Records an error of this layer's and gives an invalid value to return.
  Value Fail(absl::string_view message);

  // What came of the call besides its outputs.
  const std::vector<std::optional<Value>>& output_masks() const { return output_masks_; }
  const Values& losses() const { return losses_; }

 private:
  friend class Network;
  Value OwnKey();
  const ApplyOptions& options_;
  VariableScope& variables_;
  Place place_;
  int keys_ = 0;
  std::vector<std::optional<Value>> output_masks_;
  Values losses_;
};

// One class of layer: its options and what it does.
class LayerBody {
 public:
  virtual ~LayerBody() = default;
  // Keras's class name: "Conv2D".
  virtual absl::string_view class_name() const = 0;
  // Inputs are valid values, those of a floating type in ctx.compute_dtype(); the first dimension
  // is the batch. Errors go to ctx.Fail or come from ir.
  virtual Outputs Call(CallContext& ctx, const Values& inputs) const = 0;
  // Whether the mask of the inputs holds for the outputs too, as in Keras; otherwise it ends here.
  virtual bool supports_masking() const { return false; }
  // Shows every option to `config`, which reads or writes it.
  virtual void Fields(Config& config) = 0;
  // The network that it is, if it is one.
  virtual const Network* network() const { return nullptr; }
  // Why it cannot be written as JSON: it is made of a function of this program.
  virtual absl::Status CheckSerializable() const { return absl::OkStatus(); }
};

// Layer classes of one's own, by class name: a body with its default options, which reading from a
// file then fills in. A class of one's own is a LayerBody like any other:
//
//   struct Scale : nn::LayerBody {
//     absl::string_view class_name() const override { return "Scale"; }
//     void Fields(nn::Config&) override {}                          // it has no options
//     nn::Outputs Call(nn::CallContext& ctx, const nn::Values& x) const override {
//       return x[0] * ctx.Variable("scale", {x[0].shape().dim(-1)}, "ones");
//     }
//   };
//   Symbol y = CustomLayer(std::make_shared<Scale>())(x);
using CustomLayers = std::map<std::string, std::function<std::shared_ptr<LayerBody>()>>;

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
  // Which of the node's outputs this is.
  int output() const { return output_; }
  explicit Symbol(std::shared_ptr<const Node> node, int output = 0)
      : node_(std::move(node)), output_(output) {}

 private:
  std::shared_ptr<const Node> node_;
  int output_ = 0;
};

// A handle to one layer: copies are the same layer. All its uses in a network share its variables,
// including those inside nested networks and layers.
class Layer {
 public:
  Layer() = default;
  Layer(std::shared_ptr<LayerBody> body, std::string name, std::string dtype,
        base::SourceLocation location);

  // The output of a layer that has one; of others it is an error that says so.
  Symbol operator()(const Symbol& input) const;
  Symbol operator()(const std::vector<Symbol>& inputs) const;
  // All outputs. After an error there is one, which carries it.
  std::vector<Symbol> Outputs(const std::vector<Symbol>& inputs) const;

  // False: training does not change its variables, and batch normalization uses its moving
  // averages. Networks read the flag when they are made and when a model is compiled, and use that
  // value until then: a model that is compiled before its layer is frozen for another model still
  // trains the layer.
  const Layer& SetTrainable(bool trainable) const;
  bool trainable() const;

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

// A layer of a class of one's own. Layers that it is made of are called through CallContext::Call.
struct CustomLayerOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer CustomLayer(std::shared_ptr<LayerBody> body, const CustomLayerOptions& options = {},
                  base::SourceLocation location = base::SourceLocation::Current());

// A use of a layer.
struct Symbol::Node {
  Layer layer;  // invalid for an input
  std::vector<Symbol> inputs;
  std::string input_name;  // of an input, may be empty
  // Of the outputs, at least one; or one error.
  std::vector<absl::StatusOr<TensorType>> types;
};

struct InputOptions {
  std::vector<int64_t> shape = {};  // of one example, without the batch
  DType dtype = DType::kF32;
  std::string name = "";
};
Symbol Input(const InputOptions& options);

}  // namespace penstock::nn
