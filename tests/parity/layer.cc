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

// Uses its second input as the mask of the first.
nn::Layer WithMask() {
  return nn::Lambda([](nn::CallContext& ctx, const ir::Values& inputs) -> nn::Outputs {
    ctx.SetOutputMask(ir::Convert(inputs[1], base::DType::kBool));
    return inputs[0];
  });
}

// Inputs of the network: those of the layer, then the masks of inputs that have one.
absl::StatusOr<nn::Network> NetworkOfOneLayer(const Row& row, int num_inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(
      nn::Layer layer,
      nn::LayerFromConfig(row.spec["class"].get<std::string>(), kName, row.spec["config"]));
  std::vector<nn::Symbol> inputs, given;
  const auto add = [&](const std::string& tensor) {
    const base::Array& input = row.Get(tensor);
    const auto extents = input.shape().dims();
    inputs.push_back(
        nn::Input({.shape = {extents.begin() + 1, extents.end()}, .dtype = input.dtype()}));
  };
  for (int i = 0; i < num_inputs; ++i) add(absl::StrCat("input/", i));
  given = inputs;
  for (int i = 0; i < num_inputs; ++i) {
    const std::string mask = absl::StrCat("mask/", i);
    if (!row.Has(mask)) continue;
    add(mask);
    given[i] = WithMask()({given[i], inputs.back()});
  }
  nn::Network network(inputs, layer.Outputs(given));
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

// Maps "layer/kernel" to "kernel".
std::string WeightName(const nn::VariableSpec& variable) {
  return std::string(absl::StripPrefix(variable.name, absl::StrCat(kName, "/")));
}

// Makes the names "output", "output/1", ...
std::string Numbered(const char* name, size_t i) {
  return i == 0 ? name : absl::StrCat(name, "/", i);
}

absl::Status ExpectOutputs(const Row& row, const nn::Network::Result& result, RowBuilder& builder) {
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    // Rows store 16-bit floats as float32.
    const base::Array& output = row.Get(Numbered("output", i));
    builder.Expect(Numbered("output", i), ir::Convert(result.outputs[i], output.dtype()), output);
    const std::string mask = absl::StrCat("output_mask/", i);
    const ir::Value& got = result.output_masks[i];
    if (got.valid() != row.Has(mask)) {
      return absl::FailedPreconditionError(
          absl::StrCat("output ", i, got.valid() ? " has a" : " has no", " mask, Keras's has",
                       row.Has(mask) ? " one" : " none"));
    }
    if (got.valid()) builder.Expect(mask, ir::Convert(got, base::DType::kU8), row.Get(mask));
  }
  ir::Value penalty = ir::Splat(builder.graph(), {base::DType::kF32, {}}, 0);
  for (const ir::Value& loss : result.losses) penalty = penalty + loss;
  builder.Expect("penalty", penalty, row.Get("penalty"));
  return absl::OkStatus();
}

void ExpectGradients(const Row& row, const nn::Network& network, const ir::Values& weights,
                     const ir::Values& inputs, const ir::Values& outputs, RowBuilder& builder) {
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
  ir::Values cotangents;
  for (size_t i = 0; i < outputs.size(); ++i) {
    cotangents.push_back(
        ir::Convert(builder.Input(row.Get(Numbered("cotangent", i))), outputs[i].dtype()));
  }
  const ir::Values gradients = ir::Gradients(outputs, by, cotangents);
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
  ir::Values inputs_and_masks = inputs;
  for (const auto& [name, array] : row.Under("mask/")) {
    inputs_and_masks.push_back(builder.Input(array));
  }
  // The sets of weights must be equal; a weight missing on either side is an error.
  const base::NamedArrays expected = row.Under("weight/");
  ir::Values weights;
  for (const nn::VariableSpec& variable : network.variables()) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array value, expected.Get(WeightName(variable)));
    weights.push_back(builder.Input(value));
  }
  if (weights.size() != expected.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the layer has ", weights.size(), " weights, Keras's has ", expected.ToString()));
  }
  const ir::Value key = builder.Input(base::Array::Of<uint32_t>({2}, {1, 2}));
  const auto result =
      network.Apply({.graph = &builder.graph(), .training = row.spec["training"], .key = key},
                    weights, inputs_and_masks);
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  PENSTOCK_RETURN_IF_ERROR(ExpectOutputs(row, result, builder));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (network.variables()[i].trainable) continue;
    const auto assigned = result.assigned.find(static_cast<int>(i));
    const std::string name = "new/" + WeightName(network.variables()[i]);
    builder.Expect(name, assigned == result.assigned.end() ? weights[i] : assigned->second,
                   row.Get(name));
  }
  if (row.Has("cotangent")) {
    ExpectGradients(row, network, weights, inputs, result.outputs, builder);
  }
  return absl::OkStatus();
}

}  // namespace penstock::tests
