// Regularization layers: noise in training, identity in inference; penalties on activations
// (layers/regularization.cc). Included by layers.h.
#pragma once

#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// In training, each element is set to zero with probability `rate`, and otherwise divided by 1 -
// rate.
struct DropoutOptions {
  double rate = 0.5;
  // Shape of the dropout mask: where an extent is 1, elements along that axis are dropped together;
  // 0 or -1: the input's extent. Empty: each element is dropped independently.
  std::vector<int64_t> noise_shape = {};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Dropout(const DropoutOptions& options, SourceLocation location = SourceLocation::Current());

// Dropout of whole channels (feature maps).
struct SpatialDropoutOptions {
  double rate = 0.5;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer SpatialDropout1D(const SpatialDropoutOptions& options,
                       SourceLocation location = SourceLocation::Current());
Layer SpatialDropout2D(const SpatialDropoutOptions& options,
                       SourceLocation location = SourceLocation::Current());
Layer SpatialDropout3D(const SpatialDropoutOptions& options,
                       SourceLocation location = SourceLocation::Current());

// In training, multiplies each element by a normal random number of mean 1 and the standard
// deviation of dropout with `rate`, sqrt(rate / (1 - rate)).
struct GaussianDropoutOptions {
  double rate = 0.5;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer GaussianDropout(const GaussianDropoutOptions& options,
                      SourceLocation location = SourceLocation::Current());

// In training, adds a normal random number of mean 0 to each element.
struct GaussianNoiseOptions {
  double stddev = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer GaussianNoise(const GaussianNoiseOptions& options,
                    SourceLocation location = SourceLocation::Current());

// Dropout to the negative saturation value of SELU instead of zero, which preserves mean and
// variance (Klambauer et al.: Self-normalizing neural networks, 2017).
struct AlphaDropoutOptions {
  double rate = 0.5;
  std::vector<int64_t> noise_shape = {};  // as Dropout's
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer AlphaDropout(const AlphaDropoutOptions& options,
                   SourceLocation location = SourceLocation::Current());

// Stochastic depth (Huang et al.: Deep networks with stochastic depth, 2016): in training, each
// example is set to zero with probability `drop_path_rate`, and otherwise divided by 1 -
// drop_path_rate. For the residual path of a block. As in keras.applications.ConvNeXt.
struct StochasticDepthOptions {
  double drop_path_rate = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer StochasticDepth(const StochasticDepthOptions& options,
                      SourceLocation location = SourceLocation::Current());

// Returns the input unchanged; adds l1 * sum |x| + l2 * sum x^2, divided by the batch size, to the
// training loss.
struct ActivityRegularizationOptions {
  double l1 = 0;
  double l2 = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer ActivityRegularization(const ActivityRegularizationOptions& options = {},
                             SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
