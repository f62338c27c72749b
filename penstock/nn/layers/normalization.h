// Normalization layers (layers/normalization.cc). Included by layers.h. They compute in float32
// under every policy.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// Batch normalization. In training: by the mean and variance of the examples of this replica, or of
// all replicas if `synchronized`, excluding padding; the moving averages are updated with
// `momentum`. In inference: by the moving averages.
struct BatchNormalizationOptions {
  int64_t axis = -1;
  double momentum = 0.99;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Initializer moving_mean_initializer = "zeros";
  Initializer moving_variance_initializer = "ones";
  Regularizer beta_regularizer = "";
  Regularizer gamma_regularizer = "";
  Constraint beta_constraint = "";
  Constraint gamma_constraint = "";
  bool synchronized = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer BatchNormalization(const BatchNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, over `axis` of each example (Ba et al.:
// Layer normalization, 2016). gamma and beta have the shape of those axes.
struct LayerNormalizationOptions {
  AxisList axis = -1;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Regularizer beta_regularizer = "";
  Regularizer gamma_regularizer = "";
  Constraint beta_constraint = "";
  Constraint gamma_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer LayerNormalization(const LayerNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// Group normalization: the same over all axes of an example except the channel axis `axis`, which
// is split into groups (Wu and He: Group normalization, 2018). groups = -1: one group per channel
// (instance normalization). gamma and beta have one element per channel.
struct GroupNormalizationOptions {
  int64_t groups = 32;
  int64_t axis = -1;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Regularizer beta_regularizer = "";
  Regularizer gamma_regularizer = "";
  Constraint beta_constraint = "";
  Constraint gamma_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer GroupNormalization(const GroupNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// x / sqrt(mean of x^2 + epsilon) * scale, over `axis` (Zhang and Sennrich, 2019).
struct RMSNormalizationOptions {
  AxisList axis = -1;
  double epsilon = 1e-6;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RMSNormalization(const RMSNormalizationOptions& options = {},
                       SourceLocation location = SourceLocation::Current());

// x divided by its Euclidean norm along `axis`.
struct UnitNormalizationOptions {
  AxisList axis = -1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer UnitNormalization(const UnitNormalizationOptions& options = {},
                        SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
