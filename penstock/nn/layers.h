// Catalog of layers. Names, defaults and formulas are Keras 3's; a layer that differs says so in
// its comment. Channels come last: [batch, steps, channels], [batch, height, width, channels],
// [batch, depth, height, width, channels]. Every options struct ends with `name` (default: numbered
// by the network as in Keras) and `dtype`, a policy (policy.h; default: the network's).
//
//   Layer conv = Conv2D({.filters = 64, .kernel_size = 3, .strides = 2, .padding = "same"});
//   Symbol y = conv(x);
//
// Initializers, activations, regularizers, constraints, paddings and modes are given by name
// ("he_normal", "relu", "l2(0.01)", "same"), where an unknown name is an error that lists the known
// ones, or as typed values (initializers::HeNormal(), Padding::kSame: typed_options.h), where a
// typo does not compile. Both are saved as the same text.
//
// To add a layer: its options and its factory function in the header of its family (layers/*.h),
// one class and its row in the .cc beside it, rows in tests/parity.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/activation.h"
#include "penstock/nn/layers/augmentation.h"
#include "penstock/nn/layers/color_augmentation.h"
#include "penstock/nn/layers/convolution.h"
#include "penstock/nn/layers/core.h"
#include "penstock/nn/layers/merge.h"
#include "penstock/nn/layers/normalization.h"
#include "penstock/nn/layers/pooling.h"
#include "penstock/nn/layers/preprocessing.h"
#include "penstock/nn/layers/regularization.h"
#include "penstock/nn/layers/reshaping.h"
#include "penstock/nn/layers/resizing.h"
#include "penstock/nn/layers/sequence.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// ---- Composition (layers/composition.cc) ----

// A layer from a function of this program. The function may request variables and random keys from
// `ctx` as any layer does. The layers of a model that contains it cannot be saved (its weights
// can): a file cannot hold a function.
//
//   Layer halve = Lambda([](CallContext&, const Values& x) { return x[0] * 0.5; });
struct LambdaOptions {
  std::string name = "";
  DTypePolicy dtype = "";
};
using LambdaFunction = std::function<Outputs(CallContext& ctx, const Values& inputs)>;
Layer Lambda(LambdaFunction function, const LambdaOptions& options = {},
             SourceLocation location = SourceLocation::Current());

// A network as a layer of another: its variables are "<name>/<layer>/...". Its layers compute under
// the outer network's policy, unless they or the network have one of their own. `name` defaults to
// the network's.
struct NestedOptions {
  std::string name = "";
  Remat remat = false;  // Layer::SetRemat
};
Layer Nested(const Network& network, const NestedOptions& options = {},
             SourceLocation location = SourceLocation::Current());

// ---- To and from JSON ----

nlohmann::ordered_json LayerConfig(const Layer& layer);
// A layer that is an option of another, as {"class_name", "config"} with the name in the config, as
// in Keras.
nlohmann::ordered_json LayerToJson(const Layer& layer);
absl::StatusOr<Layer> LayerFromJson(const nlohmann::ordered_json& json,
                                    const CustomLayers* custom = nullptr);
// The layer of Keras's class name; the error for an unknown one lists the known ones.
absl::StatusOr<Layer> LayerFromConfig(absl::string_view class_name, const std::string& name,
                                      const nlohmann::ordered_json& config,
                                      const CustomLayers* custom = nullptr);
std::vector<std::string> LayerClassNames();

}  // namespace penstock::nn
