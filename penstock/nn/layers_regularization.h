// Layers that are noise in training and nothing otherwise, and penalties on activities
// (layers_regularization.cc). Included by layers.h.
#pragma once

#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// In training each element is zero with probability `rate`, else divided by 1 - rate.
struct DropoutOptions {
  double rate = 0.5;
  // Where an extent is 1, elements along that axis share their fate; 0 or -1: the input's. Empty:
  // each element has its own.
  std::vector<int64_t> noise_shape = {};
  std::string name = "";
  std::string dtype = "";
};
Layer Dropout(const DropoutOptions& options, SourceLocation location = SourceLocation::Current());

// Dropout of whole channels.
struct SpatialDropoutOptions {
  double rate = 0.5;
  std::string name = "";
  std::string dtype = "";
};
Layer SpatialDropout1D(const SpatialDropoutOptions& options,
                       SourceLocation location = SourceLocation::Current());
Layer SpatialDropout2D(const SpatialDropoutOptions& options,
                       SourceLocation location = SourceLocation::Current());
Layer SpatialDropout3D(const SpatialDropoutOptions& options,
                       SourceLocation location = SourceLocation::Current());

// In training each element is multiplied by a normal number of mean 1 and of the deviation that
// dropout of `rate` has, sqrt(rate / (1 - rate)).
struct GaussianDropoutOptions {
  double rate = 0.5;
  std::string name = "";
  std::string dtype = "";
};
Layer GaussianDropout(const GaussianDropoutOptions& options,
                      SourceLocation location = SourceLocation::Current());

// In training a normal number of mean 0 is added to each element.
struct GaussianNoiseOptions {
  double stddev = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer GaussianNoise(const GaussianNoiseOptions& options,
                    SourceLocation location = SourceLocation::Current());

// Dropout to the lowest value of SELU instead of zero, which keeps mean and variance (Klambauer et
// al.: Self-normalizing neural networks, 2017).
struct AlphaDropoutOptions {
  double rate = 0.5;
  std::vector<int64_t> noise_shape = {};  // as Dropout's
  std::string name = "";
  std::string dtype = "";
};
Layer AlphaDropout(const AlphaDropoutOptions& options,
                   SourceLocation location = SourceLocation::Current());

// The input as it is; training also minimises l1 * sum |x| + l2 * sum x^2, divided by the batch.
struct ActivityRegularizationOptions {
  double l1 = 0;
  double l2 = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer ActivityRegularization(const ActivityRegularizationOptions& options = {},
                             SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
