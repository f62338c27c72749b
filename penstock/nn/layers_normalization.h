// Layers that give their input mean 0, variance 1 or length 1 (layers_normalization.cc). Included
// by layers.h. Whatever the policy, they reckon in float32.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// In training: by the mean and variance of the examples of this replica, or of all replicas if
// `synchronized`; padding left out; the moving averages follow with `momentum`. Otherwise by the
// moving averages.
struct BatchNormalizationOptions {
  int64_t axis = -1;
  double momentum = 0.99;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  std::string beta_initializer = "zeros";
  std::string gamma_initializer = "ones";
  std::string moving_mean_initializer = "zeros";
  std::string moving_variance_initializer = "ones";
  std::string beta_regularizer = "";
  std::string gamma_regularizer = "";
  std::string beta_constraint = "";
  std::string gamma_constraint = "";
  bool synchronized = false;
  std::string name = "";
  std::string dtype = "";
};
Layer BatchNormalization(const BatchNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, over `axis` of each example (Ba et al.:
// Layer normalization, 2016). gamma and beta are of the shape of those axes.
struct LayerNormalizationOptions {
  AxisList axis = -1;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  std::string beta_initializer = "zeros";
  std::string gamma_initializer = "ones";
  std::string beta_regularizer = "";
  std::string gamma_regularizer = "";
  std::string beta_constraint = "";
  std::string gamma_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer LayerNormalization(const LayerNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// The same over all axes of an example but for that of the channels, `axis`, which is split into
// groups (Wu and He: Group normalization, 2018). groups = -1: one for each channel (instance
// normalisation). gamma and beta: one for each channel.
struct GroupNormalizationOptions {
  int64_t groups = 32;
  int64_t axis = -1;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  std::string beta_initializer = "zeros";
  std::string gamma_initializer = "ones";
  std::string beta_regularizer = "";
  std::string gamma_regularizer = "";
  std::string beta_constraint = "";
  std::string gamma_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer GroupNormalization(const GroupNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// x / sqrt(mean of x^2 + epsilon) * scale, over `axis` (Zhang and Sennrich, 2019).
struct RMSNormalizationOptions {
  AxisList axis = -1;
  double epsilon = 1e-6;
  std::string name = "";
  std::string dtype = "";
};
Layer RMSNormalization(const RMSNormalizationOptions& options = {},
                       SourceLocation location = SourceLocation::Current());

// x divided by its Euclidean length along `axis`.
struct UnitNormalizationOptions {
  AxisList axis = -1;
  std::string name = "";
  std::string dtype = "";
};
Layer UnitNormalization(const UnitNormalizationOptions& options = {},
                        SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
