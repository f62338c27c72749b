// Layers whose inside is rematerialized by the backward pass (Layer::SetRemat).
//
// ir::Rematerialize wants all inputs of its body before the body runs, and a layer's variables are
// known only when it has run. So the layer runs twice: on a scratch graph, to see which variables
// it reads, and then as the body, on values that stand for its inputs and these variables. What it
// assigns, its masks and its losses are results of the body as its outputs are.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace {

// Replaces the variables of another scope by other values.
class StandInScope : public VariableScope {
 public:
  // `make` returns the replacement of a variable when it is first read.
  using Make = std::function<Value(const VariableSpec& spec)>;
  StandInScope(VariableScope& outer, Make make) : outer_(outer), make_(std::move(make)) {}

  LayerPath Resolve(const Layer& layer, std::string path, bool trainable) override {
    return outer_.Resolve(layer, std::move(path), trainable);
  }
  Value Get(ir::Graph&, const VariableSpec& spec) override {
    const auto [at, fresh] = values_.try_emplace(spec.name);
    if (fresh) at->second = make_(spec);
    return at->second;
  }
  void Set(ir::Graph& graph, absl::string_view name, Value value) override {
    const auto found = values_.find(std::string(name));
    if (found == values_.end()) {
      graph.Fail(absl::InvalidArgumentError(absl::StrCat(
          "a value is assigned to ", name, ", but the layer has not read that variable")));
      return;
    }
    found->second = value;
    for (auto& [assigned, last] : assigned_) {
      if (assigned == name) last = value;
      if (assigned == name) return;
    }
    assigned_.emplace_back(std::string(name), value);
  }
  const std::vector<std::pair<std::string, Value>>& assigned() const { return assigned_; }

 private:
  VariableScope& outer_;
  const Make make_;
  absl::flat_hash_map<std::string, Value> values_;
  std::vector<std::pair<std::string, Value>> assigned_;
};

// What a layer call is given besides its variables, in a fixed order; invalid values are not there.
struct Surroundings {
  Values inputs, masks;
  Value key, sample_mask;

  // All valid ones.
  Values List() const {
    Values all = inputs;
    for (const Value& mask : masks) {
      if (mask.valid()) all.push_back(mask);
    }
    for (const Value& value : {key, sample_mask}) {
      if (value.valid()) all.push_back(value);
    }
    return all;
  }
  // The same with List() replaced by `values`; the number of those used.
  Surroundings Replaced(const Values& values, size_t* used) const {
    Surroundings out = *this;
    size_t at = 0;
    for (Value& input : out.inputs) input = values[at++];
    for (Value& mask : out.masks) {
      if (mask.valid()) mask = values[at++];
    }
    for (Value* value : {&out.key, &out.sample_mask}) {
      if (value->valid()) *value = values[at++];
    }
    *used = at;
    return out;
  }
};

bool HasLoop(const ir::Graph& graph) {
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const ir::Node& node = graph.node(id);
    const absl::string_view name = node.op->name;
    if (name == "penstock.scan" || name == "stablehlo.while") return true;
    for (const auto& region : node.regions) {
      if (HasLoop(*region)) return true;
    }
  }
  return false;
}

internal::CallResult CallWith(const Layer& layer, ir::Graph& graph, const Surroundings& with,
                              VariableScope& variables, CallContext::CallSite site) {
  site.key = with.key;
  site.input_masks = with.masks;
  const ApplyOptions options{
      .graph = &graph, .training = true, .key = with.key, .sample_mask = with.sample_mask};
  return internal::CallOnce(layer, options, variables, std::move(site), with.inputs);
}

}  // namespace

internal::CallResult internal::CallRematerialized(const Layer& layer, const ApplyOptions& options,
                                                  VariableScope& variables,
                                                  const CallContext::CallSite& site,
                                                  const Values& inputs, Remat remat) {
  ir::Graph& graph = *options.graph;
  const Surroundings outside{.inputs = inputs,
                             .masks = site.input_masks,
                             .key = site.key,
                             .sample_mask = options.sample_mask};
  Values arguments = outside.List();
  for (const Value& value : arguments) {
    if (!value.valid()) return CallOnce(layer, options, variables, site, inputs);
  }
  absl::flat_hash_map<std::string, size_t> places;  // of a variable, among the arguments
  bool as_usual = false;
  {
    ir::Graph scratch("variables");
    Values stand_ins;
    for (const Value& value : arguments) stand_ins.push_back(scratch.Parameter(value.type(), "x"));
    size_t used = 0;
    StandInScope scope(variables, [&](const VariableSpec& spec) {
      const Value value = variables.Get(graph, spec);
      if (!value.valid()) return Value();
      places[spec.name] = arguments.size();
      arguments.push_back(value);
      return scratch.Parameter(value.type(), spec.name);
    });
    CallWith(layer, scratch, outside.Replaced(stand_ins, &used), scope, site);
    if (!scratch.status().ok()) graph.Fail(scratch.status());
    as_usual = remat.mode() == Remat::kActivations && HasLoop(scratch);
  }
  // After an error, and for a layer that reads nothing, there is nothing to rematerialize from.
  if (!graph.status().ok() || arguments.empty() || as_usual) {
    return CallOnce(layer, options, variables, site, inputs);
  }
  CallResult inner;
  std::vector<std::pair<std::string, Value>> assigned;
  const auto body = [&](ir::Graph& body, const Values& given) {
    size_t used = 0;
    const Surroundings inside = outside.Replaced(given, &used);
    StandInScope scope(variables, [&](const VariableSpec& spec) {
      const auto found = places.find(spec.name);
      if (found != places.end()) return given[found->second];
      body.Fail(absl::InternalError(
          absl::StrCat("variable ", spec.name, " was not read when the layer was traced first")));
      return Value();
    });
    inner = CallWith(layer, body, inside, scope, site);
    assigned = scope.assigned();
    Values all(inner.outputs.begin(), inner.outputs.end());
    for (const auto& [name, value] : assigned) all.push_back(value);
    for (const Value& mask : inner.masks) {
      if (mask.valid()) all.push_back(mask);
    }
    all.insert(all.end(), inner.losses.begin(), inner.losses.end());
    return all;
  };
  const Values results =
      ir::Rematerialize(arguments, body, {.save_products = remat.mode() == Remat::kActivations});
  if (!graph.status().ok()) return {.outputs = Outputs(Value())};
  size_t at = 0;
  for (Value& output : inner.outputs) output = results[at++];
  for (const auto& [name, value] : assigned) variables.Set(graph, name, results[at++]);
  for (Value& mask : inner.masks) {
    if (mask.valid()) mask = results[at++];
  }
  for (Value& loss : inner.losses) loss = results[at++];
  return inner;
}

}  // namespace penstock::nn
