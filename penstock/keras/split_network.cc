#include "penstock/keras/split_network.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/dtype.h"
#include "penstock/base/status.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::keras {
namespace {

using nn::Network;
using nn::Symbol;

const Network::Use* FindUse(const Network& network, const std::string& name) {
  const auto& uses = network.uses();
  const auto found =
      std::find_if(uses.begin(), uses.end(), [&](const auto& use) { return use.name == name; });
  return found == uses.end() ? nullptr : &*found;
}

absl::StatusOr<Symbol> SymbolAt(const Network& network, const std::string& until) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Symbol> symbols, network.SymbolsOf(until));
  if (!symbols[0].node()->layer.valid()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", until, "' is an input of the network, so there is nothing to compute once; name the ",
        "last frozen layer"));
  }
  if (symbols.size() == 1) return symbols[0];
  return absl::InvalidArgumentError(absl::StrCat("layer '", until, "' has ", symbols.size(),
                                                 " outputs; name a layer with one output"));
}

// The network's name of an input node.
std::string InputName(const Network& network, const Symbol::Node* node) {
  const std::vector<Symbol> inputs = network.InputSymbols();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].node().get() == node) return network.inputs()[i].name;
  }
  return node->input_name;
}

// The input of the head; no layer has its name.
Symbol HeadInput(const Network& network, const Network::Use& until) {
  std::string name = "features";
  while (FindUse(network, name) != nullptr) absl::StrAppend(&name, "_");
  const ir::TensorType& type = until.type();
  const std::vector<int64_t> all(type.shape.begin(), type.shape.end());
  // Predictions of 16 bits arrive as float32.
  const bool narrow = base::IsFloat(type.dtype) && base::BitWidth(type.dtype) < 32;
  return nn::Input({.shape = std::vector<int64_t>(all.begin() + 1, all.end()),
                    .dtype = narrow ? base::DType::kF32 : type.dtype,
                    .name = std::move(name)});
}

// Calls the layers after `split` again, on `input`.
absl::StatusOr<Network> HeadOf(const Network& network, const Symbol& split, const Symbol& input,
                               const std::string& until) {
  std::map<const Symbol::Node*, std::vector<Symbol>> called{{split.node().get(), {input}}};
  const std::vector<Symbol> ends = network.OutputSymbols();
  std::vector<std::shared_ptr<const Symbol::Node>> stack;
  for (const Symbol& end : ends) stack.push_back(end.node());
  // An explicit stack: networks may be deeper than the C++ stack allows.
  while (!stack.empty()) {
    const std::shared_ptr<const Symbol::Node> node = stack.back();
    if (called.contains(node.get())) {
      stack.pop_back();
      continue;
    }
    if (!node->layer.valid()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the input '", InputName(network, node.get()),
          "' reaches the outputs without passing through '", until,
          "'; name a layer through which everything flows, such as the one that merges them"));
    }
    std::vector<Symbol> inputs;
    for (const Symbol& from : node->inputs) {
      const auto found = called.find(from.node().get());
      if (found == called.end()) {
        stack.push_back(from.node());
      } else {
        inputs.push_back(found->second[from.output()]);
      }
    }
    if (inputs.size() < node->inputs.size()) continue;
    called[node.get()] = node->layer.Outputs(inputs);
    stack.pop_back();
  }
  std::vector<Symbol> outputs;
  for (const Symbol& end : ends) {
    const Symbol& output = called.at(end.node().get())[end.output()];
    PENSTOCK_RETURN_IF_ERROR(output.type().status());
    outputs.emplace_back(output.node(), output.output(), end.names());
  }
  Network head = Network({input}, outputs, network.name()).WithPolicy(network.policy().name);
  PENSTOCK_RETURN_IF_ERROR(head.status());
  return head;
}

absl::Status CheckFrozen(const Network& network, const Network& part) {
  std::map<std::string, bool> trained;
  for (const nn::VariableSpec& variable : network.variables()) {
    trained[variable.name] = variable.trainable;
  }
  for (const nn::VariableSpec& variable : part.variables()) {
    if (!trained[network.VariableName(variable.name)]) continue;
    const std::string layer = variable.name.substr(0, variable.name.find('/'));
    return absl::InvalidArgumentError(absl::StrCat(
        "layer '", layer, "' is trained (variable ", variable.name, "), so its output changes; ",
        "freeze it before Compile: model.SetTrainable(false, {\"", layer, "\"})"));
  }
  for (const Network::Use& use : part.uses()) {
    if (!use.layer.valid() || network.Trains(use.layer) == part.Trains(use.layer)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", use.name, "' has been frozen or unfrozen since Compile; compile ",
                     "the model again, which keeps its weights"));
  }
  return absl::OkStatus();
}

// The program of a network, as text, and its side effects.
struct Traced {
  std::string text;
  std::vector<std::string> assigned;  // variables
  bool masked = false, adds_loss = false;
};
absl::StatusOr<Traced> Trace(const Network& network, bool training) {
  constexpr int64_t kBatch = 2;  // any number
  ir::Graph graph("features");
  ir::Values variables, inputs;
  for (const nn::VariableSpec& v : network.variables()) {
    variables.push_back(graph.Parameter(v.type, v.name));
  }
  for (const Network::Port& port : network.inputs()) {
    ir::TensorType type = port.type;
    type.shape.set_dim(0, kBatch);
    inputs.push_back(graph.Parameter(type, port.name));
  }
  const Network::Result result = network.Apply(
      {.graph = &graph, .training = training, .key = ir::RandomKey(graph, 0)}, variables, inputs);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  graph.SetResults(result.outputs);
  PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, ir::PrintStableHlo(graph, {.locations = false}));
  Traced traced{.text = std::move(program.text), .assigned = {}};
  for (const auto& [variable, value] : result.assigned) {
    traced.assigned.push_back(network.variables()[variable].name);
  }
  std::sort(traced.assigned.begin(), traced.assigned.end());
  for (const ir::Value& mask : result.output_masks) traced.masked |= mask.valid();
  traced.adds_loss = !result.losses.empty();
  return traced;
}

// The first layer whose output is not the same in training as in prediction.
absl::StatusOr<std::string> FirstThatDiffers(const Network& part) {
  for (const Network::Use& use : part.uses()) {
    if (!use.layer.valid()) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Symbol> outputs, part.SymbolsOf(use.name));
    const Network before(part.InputSymbols(), outputs);
    PENSTOCK_ASSIGN_OR_RETURN(const Traced training, Trace(before, true));
    PENSTOCK_ASSIGN_OR_RETURN(const Traced prediction, Trace(before, false));
    if (training.text != prediction.text) return use.name;
  }
  return part.outputs()[0].name;
}

// Whether every epoch computes the same features as a prediction.
absl::Status CheckSameInTraining(const Network& part, const Traced& training) {
  if (!training.assigned.empty()) {
    const std::string& variable = training.assigned[0];
    return absl::InvalidArgumentError(absl::StrCat(
        "training changes the variable ", variable, ", so the features would change, too; freeze ",
        "its layer before Compile: model.SetTrainable(false, {\"",
        variable.substr(0, variable.find('/')), "\"})"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Traced prediction, Trace(part, false));
  if (training.text == prediction.text) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string layer, FirstThatDiffers(part));
  return absl::InvalidArgumentError(absl::StrCat(
      "layer '", layer, "' computes something else in training than in prediction (random ",
      "augmentation, dropout), so the features differ from epoch to epoch; leave it out, have it ",
      "computed as in prediction (CachedFeatures::inference), or train without cached features"));
}

// Whether the features are all that the head needs.
absl::Status CheckSufficient(const Traced& training, const std::string& until) {
  if (training.adds_loss) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a layer up to '", until, "' adds to the loss (an activity regularizer, AddLoss), which ",
        "the head alone cannot; remove it, or train without cached features"));
  }
  if (training.masked) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the output of '", until, "' has a mask, which is not stored; name a layer without one, ",
        "such as the pooling after it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SplitNetwork> SplitNetworkAt(const Network& network, const std::string& until,
                                            bool inference) {
  PENSTOCK_ASSIGN_OR_RETURN(const Symbol split, SymbolAt(network, until));
  SplitNetwork out;
  out.features =
      Network(network.InputSymbols(), {split}, network.name()).WithPolicy(network.policy().name);
  PENSTOCK_RETURN_IF_ERROR(out.features.status());
  PENSTOCK_ASSIGN_OR_RETURN(
      out.head, HeadOf(network, split, HeadInput(network, *FindUse(network, until)), until));
  if (out.head.CountParameters(/*trainable_only=*/true) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no layer after '", until, "' is trained; name an earlier layer"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckFrozen(network, out.features));
  PENSTOCK_ASSIGN_OR_RETURN(const Traced training, Trace(out.features, /*training=*/true));
  if (!inference) PENSTOCK_RETURN_IF_ERROR(CheckSameInTraining(out.features, training));
  PENSTOCK_RETURN_IF_ERROR(CheckSufficient(training, until));
  return out;
}

}  // namespace penstock::keras
