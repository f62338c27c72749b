// Network: layers put together, from inputs to outputs. It is a description: it holds no weights.
// The weights are whatever arrays its caller keeps for `variables()`.
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
// Maps Layer::id() to the layer's place in a network. It holds the layers, so that no id is reused.
struct PlacedLayer {
  Layer layer;
  VariableScope::Placed placed;
};
using LayerPlaceMap = absl::flat_hash_map<const void*, PlacedLayer>;

class SharedLayerReader;
class SharedLayerWriter;
}  // namespace internal

struct SummaryOptions {
  int line_length = 0;  // 0: Keras's, 88 or (with what each layer is connected to) 108
  bool expand_nested = false;
  bool show_trainable = false;
  // What an optimizer keeps besides the variables; it counts when there is any.
  int64_t optimizer_parameters = 0, optimizer_bytes = 0;
};

class Network {
 public:
  Network() = default;
  // What lies between `inputs` and `outputs`. Errors of building are kept: ask status().
  Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
          std::string name = "model");

  // A network that could not be described: `error` is its status.
  explicit Network(absl::Status error) : status_(std::move(error)) {}

  // The same network under another policy (policy.h), by name. An unknown name is an error of the
  // network that comes out.
  Network WithPolicy(absl::string_view policy) const;
  const Policy& policy() const { return policy_; }

  const absl::Status& status() const { return status_; }
  const std::string& name() const { return name_; }

  struct Port {
    std::string name;
    TensorType type;  // batch -1
  };
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // In the order of uses(), and for each layer in the order of declaration. A layer has one set of
  // variables, however often and on whatever paths the network reaches it: directly, inside nested
  // networks, as a part of other layers. They are named by the first path.
  const std::vector<VariableSpec>& variables() const { return variables_; }
  // The variables of the layer at `path` ("encoder", "encoder/dense") and of the layers in it, as
  // indices into variables(), including those that are named by another path.
  std::vector<int> VariablesUnder(const std::string& path) const;
  // The name in variables() for `name` on another path to a shared layer: "encoder/dense/kernel"
  // for "dense/kernel". Returns `name` itself if there is no such path.
  std::string VariableName(absl::string_view name) const;
  int64_t CountParameters(bool trainable_only = false) const;

  // A layer as it stands in the network.
  struct Use {
    Layer layer;  // invalid for an input
    std::string name;
    struct From {
      int use;         // an index into uses()
      int output = 0;  // which of its outputs
      friend bool operator==(const From&, const From&) = default;
    };
    std::vector<From> inputs;
    std::vector<TensorType> types;  // of the outputs
    const TensorType& type() const { return types[0]; }
  };
  // The inputs, then layers in Keras's order: those that are further from the outputs come first.
  const std::vector<Use>& uses() const { return uses_; }

  struct Result {
    Values outputs;
    // Variable -> new value, for those a layer assigned.
    absl::flat_hash_map<int, Value> assigned;
    // The outputs of every use, in the order of uses(): for whoever looks for the layer that made a
    // NaN.
    std::vector<Outputs> activations;
    // Of the outputs: which steps of a sequence are real, bool [batch, steps]; invalid: all.
    Values output_masks;
    // Penalties, f32 scalars that training adds to its loss: of activities, and of Apply's
    // trainable variables by their regularizers.
    Values losses;
  };
  // Adds the network to a graph. `values[i]` is the value of variables()[i]. Errors end up in the
  // graph.
  Result Apply(const ApplyOptions& options, const Values& values, const Values& inputs) const;

  // The same network, looked at again: layers whose SetTrainable was called since it was made.
  Network Refreshed() const;
  // OK, or why the network cannot be written as JSON: a layer made of a function of this program.
  absl::Status CheckSerializable() const;

  // First values for all variables; the same seed gives the same values everywhere.
  absl::StatusOr<base::NamedArrays> Initialize(uint64_t seed) const;

  // The table that Keras prints.
  std::string Summary(const SummaryOptions& options = {}) const;

  // A chain that was made as keras.Sequential: its input is no layer of its own.
  bool sequential() const { return sequential_; }
  Network AsSequential() const;

  // A layer that occurs in several of its networks, or in other layers as well, is restored from
  // JSON as one layer. A network with an error gives {"error": its message}.
  nlohmann::ordered_json ToJson() const;
  // `custom`: layer classes of the program's own that may stand in it.
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
  absl::Status Declare();
  friend class CallContext;
  friend class Config;
  // For a network inside a larger description; null if it is not.
  nlohmann::ordered_json ToJson(internal::SharedLayerWriter* shared) const;
  static absl::StatusOr<Network> FromJson(const nlohmann::ordered_json& json,
                                          const CustomLayers* custom,
                                          internal::SharedLayerReader* shared);
  static absl::StatusOr<Network> Parse(const nlohmann::ordered_json& json,
                                       const CustomLayers* custom,
                                       internal::SharedLayerReader& shared);
  // Calls the layers in order. Variables are "<place's layer name>/<layer>/...", or without the
  // first part where that is empty.
  Result Run(const ApplyOptions& options, VariableScope& variables, const CallContext::Place& place,
             const Values& inputs) const;

  std::string name_;
  bool sequential_ = false;
  Policy policy_;
  absl::Status status_;
  std::vector<Use> uses_;
  std::vector<int> input_uses_;
  std::vector<Use::From> output_uses_;
  std::vector<Port> inputs_, outputs_;
  std::vector<VariableSpec> variables_;
  absl::flat_hash_map<std::string, int> variable_index_;
  internal::LayerPlaceMap places_;                  // of all layers, including nested ones
  std::map<std::string, std::string> other_paths_;  // additional path of a layer -> first path
};

namespace internal {
// The output types of calling `layer` on `inputs`, found by tracing it on a scratch graph; or the
// one error.
std::vector<absl::StatusOr<TensorType>> InferTypes(const Layer& layer,
                                                   const std::vector<Symbol>& inputs);

// Runs a layer under its policy.
struct CallResult {
  Outputs outputs;
  Values masks = {};  // one for each output, invalid: none
  Values losses = {};
};
CallResult CallLayer(const Layer& layer, const ApplyOptions& options, VariableScope& variables,
                     CallContext::Place place, Values inputs);
}  // namespace internal

}  // namespace penstock::nn
