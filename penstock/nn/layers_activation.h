// Activations as layers (layers_activation.cc). Included by layers.h. Each keeps its input's shape.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// Any of activations.h.
struct ActivationOptions {
  std::string activation = "linear";
  std::string name = "";
  std::string dtype = "";
};
Layer Activation(const ActivationOptions& options,
                 SourceLocation location = SourceLocation::Current());

// 0 below `threshold`, where the slope is negative_slope, then x, then max_value.
struct ReLUOptions {
  std::optional<double> max_value = std::nullopt;
  double negative_slope = 0;
  double threshold = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer ReLU(const ReLUOptions& options = {}, SourceLocation location = SourceLocation::Current());

// x, and negative_slope * x below 0.
struct LeakyReLUOptions {
  double negative_slope = 0.3;
  std::string name = "";
  std::string dtype = "";
};
Layer LeakyReLU(const LeakyReLUOptions& options = {},
                SourceLocation location = SourceLocation::Current());

// x, and alpha * x below 0, with a learned alpha for each element of an example (He et al.: Delving
// deep into rectifiers, 2015). Along shared_axes, counted with the batch as 0, there is one: {1, 2}
// of an image leaves one for each channel.
struct PReLUOptions {
  std::string alpha_initializer = "zeros";
  std::string alpha_regularizer = "";
  std::string alpha_constraint = "";
  AxisList shared_axes = {};
  std::string name = "";
  std::string dtype = "";
};
Layer PReLU(const PReLUOptions& options = {}, SourceLocation location = SourceLocation::Current());

// x, and alpha (exp(x) - 1) below 0 (Clevert et al., 2015).
struct ELUOptions {
  double alpha = 1;
  std::string name = "";
  std::string dtype = "";
};
Layer ELU(const ELUOptions& options = {}, SourceLocation location = SourceLocation::Current());

struct SoftmaxOptions {
  AxisList axis = -1;
  std::string name = "";
  std::string dtype = "";
};
Layer Softmax(const SoftmaxOptions& options = {},
              SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
