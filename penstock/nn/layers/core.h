// Core layers: Dense, LayerScale and Identity (layers/core.cc). Included by layers.h.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// Fully connected layer: y = activation(x kernel + bias) along the last axis. kernel: [in, units].
struct DenseOptions {
  int64_t units = 0;
  ActivationFunction activation = "linear";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Dense(const DenseOptions& options, SourceLocation location = SourceLocation::Current());

// x * gamma along the last axis, with a learned gamma for each channel that begins at `init_values`
// (Touvron et al.: Going deeper with image transformers, 2021). As in keras.applications.ConvNeXt.
struct LayerScaleOptions {
  double init_values = 1e-6;
  int64_t projection_dim = 0;  // number of channels; 0: the input's
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer LayerScale(const LayerScaleOptions& options = {},
                 SourceLocation location = SourceLocation::Current());

// Returns the input unchanged.
struct IdentityOptions {
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Identity(const IdentityOptions& options = {},
               SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
