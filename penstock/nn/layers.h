// The catalogue of layers. Names, defaults and formulas are Keras 3's; where a layer does
// otherwise, its comment says so. Channels come last: [batch, steps, channels], [batch, height,
// width, channels], [batch, depth, height, width, channels]. Every options struct ends with `name`,
// without which the network numbers its layers as Keras does, and `dtype`, a policy (policy.h),
// without which the network's holds.
//
//   Layer conv = Conv2D({.filters = 64, .kernel_size = 3, .strides = 2, .padding = "same"});
//   Symbol y = conv(x);
//
// Initialisers, activations, regularisers, constraints and paddings are given by name ("he_normal",
// "relu", "l2(0.01)", "same"); an unknown name is an error that lists those there are.
//
// To add a layer: its options and maker in the header of its family (layers_*.h), one class and its
// row in the .cc beside it, rows in tests/parity.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/layer.h"
#include "penstock/nn/layers_activation.h"
#include "penstock/nn/layers_augmentation.h"
#include "penstock/nn/layers_convolution.h"
#include "penstock/nn/layers_core.h"
#include "penstock/nn/layers_merge.h"
#include "penstock/nn/layers_normalization.h"
#include "penstock/nn/layers_pooling.h"
#include "penstock/nn/layers_preprocessing.h"
#include "penstock/nn/layers_regularization.h"
#include "penstock/nn/layers_reshaping.h"
#include "penstock/nn/layers_resizing.h"
#include "penstock/nn/layers_sequence.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// ---- Layers made of other things (layers_composition.cc) ----

// A layer from a function of this program. It may ask `ctx` for variables and keys as any layer.
// A model with it cannot be saved with its layers (its weights can): a file cannot hold a function.
//
//   Layer halve = Lambda([](CallContext&, const Values& x) { return x[0] * 0.5; });
struct LambdaOptions {
  std::string name = "";
  std::string dtype = "";
};
using LambdaFunction = std::function<Outputs(CallContext& ctx, const Values& inputs)>;
Layer Lambda(LambdaFunction function, const LambdaOptions& options = {},
             SourceLocation location = SourceLocation::Current());

// A network as one layer of another: its variables are "<name>/<layer>/...". Its layers compute
// under the outer network's policy, unless they or the network have one of their own. `name`
// defaults to the network's.
struct NestedOptions {
  std::string name = "";
};
Layer Nested(const Network& network, const NestedOptions& options = {},
             SourceLocation location = SourceLocation::Current());

// ---- To and from JSON ----

nlohmann::ordered_json LayerConfig(const Layer& layer);
// A layer that is an option of another: {"class_name", "config"} with the name in it, as Keras.
nlohmann::ordered_json LayerToJson(const Layer& layer);
absl::StatusOr<Layer> LayerFromJson(const nlohmann::ordered_json& json,
                                    const CustomLayers* custom = nullptr);
// The layer of Keras's class name; the error lists the classes there are.
absl::StatusOr<Layer> LayerFromConfig(absl::string_view class_name, const std::string& name,
                                      const nlohmann::ordered_json& config,
                                      const CustomLayers* custom = nullptr);
std::vector<std::string> LayerClassNames();

}  // namespace penstock::nn
