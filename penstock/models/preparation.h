// What stands in front of a network over images. Internal to room models.
#pragma once

#include "absl/status/status.h"

#include "penstock/nn/layers.h"

namespace penstock::models::internal {

// An error for an input that is not [height, width, channels] of 32 pixels or more each way: the
// networks for ImageNet halve images five times.
absl::Status CheckImageNetInput(const char* model, const std::vector<int64_t>& shape);

// The image, rescaled and moved as a model's options say; no layer that would do nothing.
template <typename Options>
nn::Symbol Prepared(nn::Symbol x, const Options& options) {
  const bool floating = base::IsFloat(options.input_dtype);
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
