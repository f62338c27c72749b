// Room nn: the parts of a network (layers, initializers, activations, losses, metrics, optimizers,
// schedules) with Keras's names and defaults. Depends on base and ir.
//
//   Symbol x = Input({.shape = {28, 28, 1}, .dtype = DType::kU8});
//   Symbol y = Rescaling({.scale = 1 / 255.0})(x);
//   y = Conv2D({.filters = 16, .kernel_size = 3, .activation = "relu"})(y);
//   y = Dense({.units = 10})(Flatten()(y));
//   Network net({x}, {y});
//   PENSTOCK_RETURN_IF_ERROR(net.status());  // the first error, with layer and source line
//   Values out = net.Apply({.graph = &graph, .training = true}, values, inputs).outputs;
//
//   layer.h         Layer, Symbol, CallContext: what a layer is and how it is called
//   layers.h        catalog of layers
//   network.h       Network: connected layers; its variables, summary, conversion to and from JSON
//   initializers.h, activations.h, losses.h, metrics.h, optimizers.h, schedules.h
//   typed_options.h typed values for options that have names
//   policy.h        mixed precision: types in which layers compute and store their variables
//   config.h        conversion of options to and from JSON
//
// A layer is one class in one place: its options and one function, Call, which declares the layer's
// variables and computes its outputs. There is no separate shape inference: building a network runs
// Call on a scratch graph and takes the types of its outputs.
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
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::Array;
using base::DType;
using base::Shape;
using ir::TensorType;
using ir::Value;
using ir::Values;

class Config;

// Aggregation of the values that replicas assign to a variable into the one value that all replicas
// hold after the step (TensorFlow's VariableAggregation).
enum class Aggregation {
  kAuto,  // kMean for floats, kOnlyFirstReplica for integers and bools
  // The mean of the values, weighted by each replica's number of real examples. Floats only.
  kMean,
  // The value before the step plus the sum of the replicas' changes: a counter to which each
  // replica adds its own count. Not for bools.
  kSum,
  // The value of replica 0. For values that all replicas compute identically, such as a step
  // counter.
  kOnlyFirstReplica,
};

// A variable of a layer, which persists between steps: a weight, a moving average.
struct VariableSpec {
  std::string name;  // "conv2d_1/kernel": unique in its network
  TensorType type;
  std::string initializer;  // by name, see initializers.h
  bool trainable = true;
  std::string regularizer = "";  // by name, see regularizers.h; empty: none
  std::string constraint = "";   // by name, see constraints.h; empty: none
  Aggregation aggregation = Aggregation::kAuto;
};

// Outputs of a layer: one value, or several in a fixed order (an LSTM that returns its state, a
// network with two heads). Converts from either.
class Outputs : public Values {
 public:
  Outputs() = default;
  Outputs(Value value) : Values{std::move(value)} {}     // NOLINT: `return y;`
  Outputs(Values values) : Values(std::move(values)) {}  // NOLINT
};

class Layer;

// Access of the layers of a network to its variables. Network has the two implementations: one
// collects declarations, the other returns the values of a program.
class VariableScope {
 public:
  virtual ~VariableScope() = default;
  virtual Value Get(ir::Graph& graph, const VariableSpec& spec) = 0;
  virtual void Set(ir::Graph& graph, absl::string_view name, Value value) = 0;

  // Path and trainability of a layer's variables. Variables belong to the layer, not to a call
  // site: their names are "<path>/<name>" with the path on which the network reaches the layer
  // first. Without a flag of its own (Layer::given_trainable), the layer is trainable only if no
  // path to it is frozen.
  struct LayerPath {
    std::string path;
    bool trainable;
  };
  virtual LayerPath Resolve(const Layer& layer, std::string path, bool trainable) = 0;
};

// Arguments of Network::Apply.
struct ApplyOptions {
  ir::Graph* graph = nullptr;
  bool training = false;
  // RNG key, ui32[2], for layers that draw random numbers in training; each layer folds in its own
  // number. It must differ from step to step and from replica to replica.
  Value key = Value();
  // f32[batch], 1 for a real example and 0 for padding; invalid: all are real. Layers that combine
  // examples (batch normalization) exclude padding.
  Value sample_mask = Value();
};

class Network;

// What training does not store of a layer's inside: the backward pass rematerializes it.
//   kNone         everything that gradients read is stored
//   kFull         nothing between inputs and outputs is stored; the backward pass takes the layer's
//                 forward time once more
//   kActivations  the results of products and convolutions are stored, everything else
//                 (activations, normalization, dropout) is not: less memory saved, little time
//                 added. A layer with a loop inside (recurrent layers) is called as usual, since
//                 the gradient of a loop stores only the results of products anyway.
class Remat {
 public:
  enum Mode { kNone, kFull, kActivations };
  Remat(bool full = false) : mode_(full ? kFull : kNone) {}  // NOLINT: SetRemat(true)
  Remat(Mode mode) : mode_(mode) {}                          // NOLINT
  Mode mode() const { return mode_; }
  operator bool() const { return mode_ != kNone; }  // NOLINT: if (layer.remat())

 private:
  Mode mode_;
};

// Context of a layer's Call: its graph, mode, variables, masks and losses.
class CallContext {
 public:
  // A call site: one use of a layer in a network or in another layer.
  struct CallSite {
    std::string layer_name = "";  // "block/dense"
    Value key = Value();          // the caller's key; the layer folds in `index`
    uint32_t index = 0;
    Policy policy = Policy();
    bool trainable = true;
    Values input_masks = {};
    Remat remat = Remat::kNone;  // Layer::SetRemat, or the network's RematOptions
  };
  CallContext(const ApplyOptions& options, VariableScope& variables, CallSite site)
      : options_(options), variables_(variables), site_(std::move(site)) {}

  ir::Graph& graph() const { return *options_.graph; }
  bool training() const { return options_.training; }
  // False if the layer is frozen (Layer::SetTrainable), or if it has no flag of its own and the
  // layer that calls it is frozen.
  bool trainable() const { return site_.trainable; }
  const Value& sample_mask() const { return options_.sample_mask; }
  // Mask of input i: which steps of a sequence are real, bool [batch, steps]; invalid: all are, or
  // input i has no mask. Created by Embedding and Masking, passed on by layers with
  // supports_masking.
  Value input_mask(size_t i = 0) const {
    return i < site_.input_masks.size() ? site_.input_masks[i] : Value();
  }
  // Replaces the mask of output i, which by default derives from the masks of the inputs. Invalid:
  // none.
  void SetOutputMask(Value mask, size_t i = 0);
  // Type of floating-point inputs, of variables when read, and of outputs (mixed precision:
  // policy.h).
  DType compute_dtype() const { return site_.policy.compute; }

  struct VariableOptions {
    bool trainable = true;
    // Type in which it is stored; default: per the policy.
    std::optional<DType> dtype = std::nullopt;
    // False: the variable is read in the type in which it is stored, not in compute_dtype().
    bool autocast = true;
    std::string regularizer = "";  // by name, see regularizers.h
    std::string constraint = "";   // by name, see constraints.h
    // Aggregation over replicas of assigned values. Required for an integer or bool variable to
    // which replicas assign different values: by default replica 0's value is used.
    Aggregation aggregation = Aggregation::kAuto;
  };
  // The variable `name` of this layer; the first call declares it.
  Value Variable(absl::string_view name, const Shape& shape, absl::string_view initializer,
                 VariableOptions options);
  Value Variable(absl::string_view name, const Shape& shape, absl::string_view initializer) {
    return Variable(name, shape, initializer, VariableOptions());
  }
  // Sets the variable's value after this step; must have the variable's type.
  // VariableOptions::aggregation combines the values of several replicas.
  void Assign(absl::string_view name, Value value);
  // A random key of this layer; each call returns a new one.
  Value NextKey();
  // Adds a scalar to the training loss. With several replicas, the mean weighted by their numbers
  // of examples is used.
  void AddLoss(Value loss);
  // Adds the activity regularizer `regularizer` (by name; empty: none) of `y`, divided by the
  // number of examples as in Keras; padding is excluded.
  void RegularizeActivity(absl::string_view regularizer, Value y);
  // Calls another layer as a part of this one. Its variables are "<this layer>/<name>/..." (a layer
  // that the network has reached before keeps its names), its losses are added, and it uses this
  // layer's policy unless it has one of its own. `masks` are the masks of its inputs;
  // *output_masks, if given, receives the masks of its outputs.
  Outputs Call(const Layer& layer, absl::string_view name, const Values& inputs,
               const Values& masks = {}, Values* output_masks = nullptr);
  // The same for inputs in whose batch each example of this layer occurs `parts` times, as
  // consecutive parts.
  Outputs CallParts(const Layer& layer, absl::string_view name, const Values& inputs, int64_t parts,
                    const Values& masks = {});
  // Calls a whole network: its layers' variables are "<this layer>/<layer>/...".
  Outputs Call(const Network& network, const Values& inputs, Values* output_masks = nullptr);
  // Records an error of this layer and returns an invalid value, for `return ctx.Fail(...)`.
  Value Fail(absl::string_view message);

  // Results of the call in addition to its outputs.
  const std::vector<std::optional<Value>>& output_masks() const { return output_masks_; }
  const Values& losses() const { return losses_; }

 private:
  friend class Network;
  Value OwnKey();
  const ApplyOptions& options_;
  VariableScope& variables_;
  CallSite site_;
  int keys_ = 0;
  std::vector<std::optional<Value>> output_masks_;
  Values losses_;
};

// How Keras's class of a layer is found and called, for files of Keras (room keras): what cannot be
// concluded from the layer's class name, options and inputs. The defaults suit most layers.
struct KerasForm {
  // Module of the class; empty: Keras has no such class.
  std::string module = "keras.layers";
  std::string class_name = "";  // in files of Keras; empty: the layer's
  // Arguments of Keras's call that take the inputs after the first one; the last takes all that
  // remain, and inputs that are not floats. Empty: a list of the inputs is the only argument.
  std::vector<std::string> arguments = {};
  // Options that are arguments of Keras's call.
  std::vector<std::string> call_options = {};
  // Argument of Keras's call that is true for inputs that are floats; empty: none.
  std::string true_for_floats = "";
  // Options with a number for each position along the axes in the option "axis": lists in row-major
  // order here, nested lists in Keras.
  std::vector<std::string> along_axes = {};
  // Options that are lists of one number here, and numbers in Keras.
  std::vector<std::string> numbers = {};
  // Options whose range [-f, f] Keras takes only as the number f.
  std::vector<std::string> symmetric_ranges = {};
  // Options of Keras's operation of one input. Empty: an operation of two, of which one may be the
  // option "constant" here.
  std::vector<std::string> operation_options = {};
};

// KerasForm::module of what is an operation in Keras (keras.ops.add) instead of a layer.
inline constexpr char kKerasOperations[] = "keras.src.ops.numpy";

// A layer class: its options and its computation.
class LayerBody {
 public:
  virtual ~LayerBody() = default;
  // Keras's class name: "Conv2D".
  virtual absl::string_view class_name() const = 0;
  // Computes the outputs. Inputs are valid values; floating-point inputs have type
  // ctx.compute_dtype(); the first dimension is the batch. Errors are reported by ctx.Fail or come
  // from ir.
  virtual Outputs Call(CallContext& ctx, const Values& inputs) const = 0;
  // Whether the inputs' mask applies to the outputs too, as in Keras; otherwise it is dropped.
  virtual bool supports_masking() const { return false; }
  // Passes every option to `config`, which reads or writes it.
  virtual void Fields(Config& config) = 0;
  // The nested network, if the layer is one.
  virtual const Network* network() const { return nullptr; }
  // An error if the layer cannot be saved as JSON because it contains a function of this program.
  virtual absl::Status CheckSerializable() const { return absl::OkStatus(); }
  virtual KerasForm keras_form() const { return {}; }
  // Path of Keras's object that has the variables "<part>/..." of this layer: the attributes of
  // Keras's classes that lead to it, "cell" for the part "lstm_cell" of an LSTM.
  virtual std::string KerasPath(absl::string_view part) const { return std::string(part); }
};

// Registry of custom layer classes by class name. The function makes a body with default options,
// which loading from a file then fills in. A custom layer is a LayerBody like any other:
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

// Symbolic tensor: the result of calling a layer while a network is described. Its batch size is
// unknown. Its type is the one under the policy float32, because a network's policy is set later.
class Symbol {
 public:
  Symbol() = default;

  bool valid() const { return node_ != nullptr; }
  // Type with -1 as batch size, or the error of this or of an earlier layer.
  const absl::StatusOr<TensorType>& type() const;

  struct Node;
  const std::shared_ptr<const Node>& node() const { return node_; }
  // Index of this tensor among the node's outputs.
  int output() const { return output_; }
  // Names of layers, by Layer::id(), and of inputs, by their nodes, in the network that the symbol
  // was taken from (Network::SymbolsOf). A network made of such symbols keeps them where no other
  // layer has the name. Null: the symbol comes from a call.
  using Names = std::map<const void*, std::string>;
  const std::shared_ptr<const Names>& names() const { return names_; }
  explicit Symbol(std::shared_ptr<const Node> node, int output = 0,
                  std::shared_ptr<const Names> names = nullptr)
      : node_(std::move(node)), output_(output), names_(std::move(names)) {}

 private:
  std::shared_ptr<const Node> node_;
  int output_ = 0;
  std::shared_ptr<const Names> names_;
};

// Handle to a layer; copies refer to the same layer. All its uses in a network share its variables
// (weight sharing), including those inside nested networks and layers.
class Layer {
 public:
  Layer() = default;
  Layer(std::shared_ptr<LayerBody> body, std::string name, std::string dtype,
        base::SourceLocation location);

  // Output of a single-output layer; an error for other layers.
  Symbol operator()(const Symbol& input) const;
  Symbol operator()(const std::vector<Symbol>& inputs) const;
  // All outputs. After an error, a single output that carries the error.
  std::vector<Symbol> Outputs(const std::vector<Symbol>& inputs) const;

  // Freezes (false) or unfreezes the layer and the layers in it (those of a nested network, the
  // wrapped layer of a wrapper), as Keras's `trainable`: the last call for a layer decides, so that
  // a part of a frozen network can be unfrozen again. Training does not change the variables of a
  // frozen layer and computes no gradients for them, and a frozen BatchNormalization normalizes by
  // its moving averages and leaves them as they are. Networks read the flag when they are made and
  // when a model is compiled, and use that value until then: a model compiled before its layer is
  // frozen for another model still trains the layer. Network::SetTrainable selects layers by name.
  const Layer& SetTrainable(bool trainable) const;
  bool trainable() const { return given_trainable().value_or(true); }
  // The flag of the last SetTrainable that reached the layer. Nullopt: none did; the layer is
  // trainable unless the layer that calls it is frozen.
  const std::optional<bool>& given_trainable() const;

  // Gives a pretrained layer initial values of its variables, by their names below the layer
  // ("block1/conv/kernel"). Network::Initialize takes them instead of the initializers' values, in
  // every network that contains the layer, at any depth; where two layers have values of a
  // variable, the outer one's are taken. Floats may be of another type; a name without a variable
  // and another shape are errors of Initialize. The values are not part of the JSON.
  const Layer& SetInitialWeights(base::NamedArrays weights) const;
  // Nullptr: the initializers' values.
  const base::NamedArrays* initial_weights() const;

  // Rematerializes the layer in training: fully (true), or its activations only. It is worth it for
  // layers of layers (Nested), whose inside is large and whose outputs are small. Gradients are the
  // same. Read whenever a program is printed, and saved with the layer; a checkpoint resumes
  // whatever it is.
  const Layer& SetRemat(Remat remat = true) const;
  Remat remat() const;

  bool valid() const { return state_ != nullptr; }
  absl::string_view class_name() const { return body().class_name(); }
  LayerBody& body() const;
  // Name given by the user; empty: the network names it after its class ("conv2d", "conv2d_1").
  const std::string& given_name() const;
  // Policy given by the user, by name; empty: the network's.
  const std::string& given_dtype() const;
  const base::SourceLocation& location() const;
  friend bool operator==(const Layer& a, const Layer& b) { return a.state_ == b.state_; }
  const void* id() const { return state_.get(); }

 private:
  // This layer, then the layers that its options contain, at any depth.
  std::vector<Layer> WithInnerLayers() const;
  struct State;
  std::shared_ptr<State> state_;
};

// A layer of a custom class. It calls layers that it consists of through CallContext::Call.
struct CustomLayerOptions {
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer CustomLayer(std::shared_ptr<LayerBody> body, const CustomLayerOptions& options = {},
                  base::SourceLocation location = base::SourceLocation::Current());

// A use of a layer (a node of the symbolic graph).
struct Symbol::Node {
  Layer layer = Layer();  // invalid for an input
  std::vector<Symbol> inputs;
  std::string input_name;  // for an input; may be empty
  // Types of the outputs, at least one; or one error.
  std::vector<absl::StatusOr<TensorType>> types;
};

struct InputOptions {
  std::vector<int64_t> shape = {};  // of one example, without the batch axis
  DType dtype = DType::kF32;
  std::string name = "";
};
Symbol Input(const InputOptions& options);

}  // namespace penstock::nn
