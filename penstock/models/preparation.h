// Input preprocessing layers of image networks. Internal to room models.
#pragma once

#include "penstock/nn/layers.h"

namespace penstock::models::internal {

// The image after the input layers of the model's options, rescaled and translated. Omits layers
// that would change nothing.
template <typename Options>
nn::Symbol Prepared(nn::Symbol x, const Options& options) {
  for (const nn::Layer& layer : options.input_layers) x = layer(x);
  const bool floating = base::IsFloat(options.input_dtype) || !options.input_layers.empty();
  if (!floating || options.rescale != 1 || options.offset != 0) {
    x = nn::Rescaling({.scale = options.rescale, .offset = options.offset})(x);
  }
  if (options.height_shift != 0 || options.width_shift != 0) {
    x = nn::RandomTranslation({.height_factor = options.height_shift,
                               .width_factor = options.width_shift,
                               .fill_mode = "nearest"})(x);
  }
  return x;
}

}  // namespace penstock::models::internal
