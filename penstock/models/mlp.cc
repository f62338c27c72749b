#include "penstock/models/mlp.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/layers.h"

namespace penstock::models {

nn::Network Mlp(const MlpOptions& options) {
  const nn::Symbol x =
      nn::Input({.shape = options.input_shape, .dtype = options.input_dtype, .name = "x"});
  nn::Symbol y = x;
  for (const nn::Layer& layer : options.input_layers) y = layer(y);
  y = nn::Rescaling({.scale = options.rescale})(y);
  if (options.input_shape.size() > 1) y = nn::Flatten()(y);
  for (size_t i = 0; i < options.hidden.size(); ++i) {
    y = nn::Dense({.units = options.hidden[i],
                   .activation = options.activation,
                   .name = absl::StrCat("hidden", i + 1)})(y);
  }
  return nn::Network({x}, {nn::Dense({.units = options.classes, .name = "logits"})(y)}, "mlp");
}

}  // namespace penstock::models
