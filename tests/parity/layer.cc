#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

#include "tests/parity/kinds.h"

namespace penstock::tests {
namespace {

constexpr char kName[] = "layer";

absl::StatusOr<nn::Network> NetworkOfOneLayer(const Row& row, int num_inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(
      nn::Layer layer,
      nn::LayerFromConfig(row.spec["class"].get<std::string>(), kName, row.spec["config"]));
  std::vector<nn::Symbol> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    const base::Array& input = row.Get(absl::StrCat("input/", i));
    const auto extents = input.shape().dims();
    inputs.push_back(
        nn::Input({.shape = {extents.begin() + 1, extents.end()}, .dtype = input.dtype()}));
  }
  nn::Network network(inputs, {layer(inputs)});
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

// "layer/kernel" -> "kernel".
std::string WeightName(const nn::VariableSpec& variable) {
  return std::string(absl::StripPrefix(variable.name, absl::StrCat(kName, "/")));
}

void ExpectGradients(const Row& row, const nn::Network& network, const ir::Values& weights,
                     const ir::Values& inputs, ir::Value output, RowBuilder& builder) {
  std::vector<std::string> names;
  ir::Values by;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!network.variables()[i].trainable) continue;
    names.push_back("weight/" + WeightName(network.variables()[i]));
    by.push_back(weights[i]);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!base::IsFloat(inputs[i].dtype())) continue;
    names.push_back(absl::StrCat("input/", i));
    by.push_back(inputs[i]);
  }
  const ir::Value cotangent = ir::Convert(builder.Input(row.Get("cotangent")), output.dtype());
  const ir::Values gradients = ir::Gradients(output, by, cotangent);
  for (size_t i = 0; i < gradients.size(); ++i) {
    builder.Expect("gradient by " + names[i], gradients[i], row.Get("gradient/" + names[i]));
  }
}

}  // namespace

absl::Status BuildLayer(const Row& row, RowBuilder& builder) {
  ir::Values inputs;
  for (const auto& [name, array] : row.Under("input/")) inputs.push_back(builder.Input(array));
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Network network,
                            NetworkOfOneLayer(row, static_cast<int>(inputs.size())));
  // Both sides have the same weights, not just those that one of them asks for.
  const base::NamedArrays wanted = row.Under("weight/");
  ir::Values weights;
  for (const nn::VariableSpec& variable : network.variables()) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array value, wanted.Get(WeightName(variable)));
    weights.push_back(builder.Input(value));
  }
  if (weights.size() != wanted.size()) {
    return absl::FailedPreconditionError(absl::StrCat("the layer has ", weights.size(),
                                                      " weights, Keras's has ", wanted.ToString()));
  }
  const ir::Value key = builder.Input(base::Array::Of<uint32_t>({2}, {1, 2}));
  const auto result = network.Apply(
      {.graph = &builder.graph(), .training = row.spec["training"], .key = key}, weights, inputs);
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  // Rows hold no 16-bit floats.
  const base::Array& output = row.Get("output");
  builder.Expect("output", ir::Convert(result.outputs[0], output.dtype()), output);
  ir::Value penalty = ir::Splat(builder.graph(), {base::DType::kF32, {}}, 0);
  for (const ir::Value& loss : result.losses) penalty = penalty + loss;
  builder.Expect("penalty", penalty, row.Get("penalty"));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (network.variables()[i].trainable) continue;
    const auto assigned = result.assigned.find(static_cast<int>(i));
    const std::string name = "new/" + WeightName(network.variables()[i]);
    builder.Expect(name, assigned == result.assigned.end() ? weights[i] : assigned->second,
                   row.Get(name));
  }
  if (row.Has("cotangent")) {
    ExpectGradients(row, network, weights, inputs, result.outputs[0], builder);
  }
  return absl::OkStatus();
}

}  // namespace penstock::tests
