// Network: connected layers, from inputs to outputs. It is a description and holds no weights: the
// caller stores the arrays for `variables()`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/layer.h"

namespace penstock::nn {

namespace internal {
// Maps Layer::id() to the layer's path in a network. Holds the layers, so that ids are not reused.
struct LayerEntry {
  Layer layer;
  VariableScope::LayerPath resolved;
};
using LayerMap = absl::flat_hash_map<const void*, LayerEntry>;

class SharedLayerReader;
class SharedLayerWriter;
}  // namespace internal

struct SummaryOptions {
  int line_length = 0;  // characters; 0: Keras's, 88, or 108 with the column of connections
  bool expand_nested = false;
  bool show_trainable = false;
  // Number and bytes of the optimizer's slot variables; shown if above 0.
  int64_t optimizer_parameters = 0, optimizer_bytes = 0;
};

// Which layers of a network are rematerialized in training (Layer::SetRemat), besides those that
// say so themselves: Keras's RematScope.
//   kFull, kActivations  all layers, fully or their activations only (layer.h, Remat)
//   kLargerThan          layers with an output of more than output_size_threshold elements, fully
//   kListOfLayers        the layers of these names, fully
enum class RematMode { kNone, kFull, kActivations, kLargerThan, kListOfLayers };
struct RematOptions {
  RematMode mode = RematMode::kNone;
  int64_t output_size_threshold = 1024;       // kLargerThan: elements of an example's output
  std::vector<std::string> layer_names = {};  // kListOfLayers
};

class Network {
 public:
  Network() = default;
  // The layers between `inputs` and `outputs`. Errors of building are stored: check status().
  Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
          std::string name = "model");

  // A network that could not be built: `error` is its status.
  explicit Network(absl::Status error) : status_(std::move(error)) {}

  // The same network under another mixed-precision policy (policy.h), by name. An unknown name is
  // an error of the returned network.
  Network WithPolicy(const DTypePolicy& policy) const;
  const Policy& policy() const { return policy_; }

  // The same network with these layers rematerialized. An unknown layer name is an error of the
  // network that comes out. Not saved: it is an option of a training.
  Network WithRemat(const RematOptions& options) const;

  const absl::Status& status() const { return status_; }
  const std::string& name() const { return name_; }

  struct Port {
    std::string name;
    TensorType type;  // with batch size -1
  };
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // Variables, in the order of uses(), and for each layer in the order of declaration. A layer has
  // one set of variables, however often and on whatever paths the network reaches it: directly,
  // inside nested networks, as a part of other layers. They are named by the first path.
  const std::vector<VariableSpec>& variables() const { return variables_; }
  // Variables of the layer at `path` ("encoder", "encoder/dense") and of the layers in it, as
  // indices into variables(), including those that are named by another path.
  std::vector<int> VariablesUnder(const std::string& path) const;
  // The name in variables() for `name` on another path to a shared layer: "encoder/dense/kernel"
  // for "dense/kernel". Returns `name` itself if there is no such path.
  std::string VariableName(absl::string_view name) const;
  int64_t CountParameters(bool trainable_only = false) const;
  // Path, in Keras 3's files, of the object that has the variables "<path>/...": layers are
  // numbered by their classes, "layers/dense_1" for the second Dense. Empty if there is none.
  std::string KerasPath(absl::string_view path) const;

  // One use of a layer in the network.
  struct Use {
    Layer layer;  // invalid for an input
    std::string name;
    struct From {
      int use;         // an index into uses()
      int output = 0;  // index of its output
      friend bool operator==(const From&, const From&) = default;
    };
    std::vector<From> inputs;
    std::vector<TensorType> types;  // of the outputs
    Remat remat = Remat::kNone;     // what WithRemat chose
    const TensorType& type() const { return types[0]; }
  };
  // The inputs, then the layers in Keras's order: topologically sorted, those farther from the
  // outputs first.
  const std::vector<Use>& uses() const { return uses_; }

  // The network's inputs and outputs, and the outputs of a layer (of its first call), as symbols:
  // for networks that are parts of this one, or continue it.
  //
  //   Network features(net.InputSymbols(), *net.SymbolsOf("pool"));
  //
  // Their layers are this network's, under the same names, so weights fit by name. The error of an
  // unknown name lists the layers, or those with similar names.
  std::vector<Symbol> InputSymbols() const;
  std::vector<Symbol> OutputSymbols() const;
  absl::StatusOr<std::vector<Symbol>> SymbolsOf(absl::string_view layer_name) const;

  struct Result {
    Values outputs;
    // New values of the variables that layers assigned, by index in variables().
    absl::flat_hash_map<int, Value> assigned;
    // Outputs of every use, in the order of uses(). For finding the layer that produced a NaN.
    std::vector<Outputs> activations;
    // Masks of the outputs: which steps of a sequence are real, bool [batch, steps]; invalid: all.
    Values output_masks;
    // Penalties that training adds to its loss, f32 scalars: activity regularizers, AddLoss, and
    // the regularizers of the trainable variables.
    Values losses;
  };
  // Adds the network to a graph. `values[i]` is the value of variables()[i]. Errors are stored in
  // the graph.
  Result Apply(const ApplyOptions& options, const Values& values, const Values& inputs) const;

  // Freezes (false) or unfreezes the layers whose paths match one of the patterns ('*' stands for
  // any characters, '/' included, '?' for one), each with the layers in it, as Layer::SetTrainable:
  // networks made or compiled from then on read the flags (this one: Refreshed). A pattern that
  // matches no layer is an error that lists similar names; then nothing changes.
  //
  //   PENSTOCK_RETURN_IF_ERROR(net.SetTrainable(false, {"backbone"}));
  //   PENSTOCK_RETURN_IF_ERROR(net.SetTrainable(true, {"backbone/block5_*"}));
  absl::Status SetTrainable(bool trainable, const std::vector<std::string>& patterns = {"*"}) const;
  // Whether this network trains the layer, which may be at any depth: the flag that it has read.
  bool Trains(const Layer& layer) const;
  // The same network with the current SetTrainable flags of its layers.
  Network Refreshed() const;
  // An error if the network cannot be saved as JSON: it has a layer made of a function of this
  // program.
  absl::Status CheckSerializable() const;

  // Initial values of all variables: those of Layer::SetInitialWeights, and of the initializers,
  // for which the same seed gives the same values on every platform.
  absl::StatusOr<base::NamedArrays> Initialize(uint64_t seed) const;

  // Table of layers, as Keras prints it.
  std::string Summary(const SummaryOptions& options = {}) const;

  // Whether the network was made as keras.Sequential: its input is not a layer of its own.
  bool sequential() const { return sequential_; }
  Network AsSequential() const;

  // Conversion to JSON. A layer that occurs in several nested networks, or in other layers as well,
  // is restored from JSON as one layer. A network with an error gives {"error": its message}.
  nlohmann::ordered_json ToJson() const;
  // `custom`: custom layer classes of the program that the network may contain.
  static absl::StatusOr<Network> FromJson(const nlohmann::ordered_json& json,
                                          const CustomLayers* custom = nullptr);

 private:
  std::vector<int> Collect(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs);
  // Names in this network, by Layer::id(), that override the layers' own names.
  using LayerNames = absl::flat_hash_map<const void*, std::string>;
  Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs, std::string name,
          const LayerNames& layer_names);
  void NameUses(const LayerNames& layer_names);
  void OrderUses(const std::vector<int>& visited);
  void NumberForKeras();
  absl::Status Declare();
  std::vector<Symbol> SymbolsOfUse(int use) const;
  // Every layer by each of its paths.
  std::map<std::string, Layer> LayersByPath() const;
  // The values of Layer::SetInitialWeights, by index in variables().
  absl::StatusOr<absl::flat_hash_map<int, Array>> GivenInitialValues() const;
  friend class CallContext;
  friend class Config;
  // For a network inside a larger description; `shared` is null otherwise.
  nlohmann::ordered_json ToJson(internal::SharedLayerWriter* shared) const;
  static absl::StatusOr<Network> FromJson(const nlohmann::ordered_json& json,
                                          const CustomLayers* custom,
                                          internal::SharedLayerReader* shared);
  static absl::StatusOr<Network> Parse(const nlohmann::ordered_json& json,
                                       const CustomLayers* custom,
                                       internal::SharedLayerReader& shared);
  // Calls the layers in order. Variables are "<call site's layer name>/<layer>/...", or without the
  // first part if it is empty.
  Result Run(const ApplyOptions& options, VariableScope& variables,
             const CallContext::CallSite& site, const Values& inputs) const;

  std::string name_;
  bool sequential_ = false;
  Policy policy_;
  absl::Status status_;
  std::vector<Use> uses_;
  std::vector<int> input_uses_;
  std::vector<Use::From> output_uses_;
  std::vector<std::shared_ptr<const Symbol::Node>> nodes_;  // of uses_
  std::shared_ptr<const Symbol::Names> names_;              // of uses_, for symbols
  std::vector<Port> inputs_, outputs_;
  std::vector<VariableSpec> variables_;
  absl::flat_hash_map<std::string, int> variable_index_;
  struct KerasLayer {
    Layer layer;
    std::string path;
  };
  std::shared_ptr<const std::map<std::string, KerasLayer>> keras_layers_;  // by name, for KerasPath
  internal::LayerMap layers_;                       // all layers, including nested ones
  std::map<std::string, std::string> other_paths_;  // additional path of a layer -> first path
};

namespace internal {
// Output types of calling `layer` on `inputs`, found by tracing it on a scratch graph; or one
// error.
std::vector<absl::StatusOr<TensorType>> InferTypes(const Layer& layer,
                                                   const std::vector<Symbol>& inputs);

// Calls a layer under its policy.
struct CallResult {
  Outputs outputs;
  Values masks = {};  // one for each output; invalid: none
  Values losses = {};
};
// CallLayer of a layer that has its call site, policy and converted inputs; CallRematerialized
// (remat.cc) puts it into an ir::Rematerialize.
CallResult CallOnce(const Layer& layer, const ApplyOptions& options, VariableScope& variables,
                    CallContext::CallSite site, const Values& inputs);
CallResult CallRematerialized(const Layer& layer, const ApplyOptions& options,
                              VariableScope& variables, const CallContext::CallSite& site,
                              const Values& inputs, Remat remat);
CallResult CallLayer(const Layer& layer, const ApplyOptions& options, VariableScope& variables,
                     CallContext::CallSite site, Values inputs);
}  // namespace internal

}  // namespace penstock::nn
