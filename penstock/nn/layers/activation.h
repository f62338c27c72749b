// Activation layers (layers/activation.cc). Included by layers.h. The output has the input's shape.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// Any activation function of activations.h.
struct ActivationOptions {
  ActivationFunction activation = "linear";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Activation(const ActivationOptions& options,
                 SourceLocation location = SourceLocation::Current());

// negative_slope * (x - threshold) below `threshold`, then x, at most max_value.
struct ReLUOptions {
  std::optional<double> max_value = std::nullopt;
  double negative_slope = 0;
  double threshold = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer ReLU(const ReLUOptions& options = {}, SourceLocation location = SourceLocation::Current());

// x; negative_slope * x below 0.
struct LeakyReLUOptions {
  double negative_slope = 0.3;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer LeakyReLU(const LeakyReLUOptions& options = {},
                SourceLocation location = SourceLocation::Current());

// x; alpha * x below 0, with a learned alpha for each element of an example (He et al.: Delving
// deep into rectifiers, 2015). Alpha is shared along shared_axes, where the batch is axis 0: {1, 2}
// of an image gives one alpha per channel.
struct PReLUOptions {
  Initializer alpha_initializer = "zeros";
  Regularizer alpha_regularizer = "";
  Constraint alpha_constraint = "";
  AxisList shared_axes = {};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer PReLU(const PReLUOptions& options = {}, SourceLocation location = SourceLocation::Current());

// x; alpha (exp(x) - 1) below 0 (Clevert et al., 2015).
struct ELUOptions {
  double alpha = 1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer ELU(const ELUOptions& options = {}, SourceLocation location = SourceLocation::Current());

struct SoftmaxOptions {
  AxisList axis = -1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Softmax(const SoftmaxOptions& options = {},
              SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
