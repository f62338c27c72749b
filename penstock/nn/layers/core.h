// Core layers: Dense and Identity (layers/core.cc). Included by layers.h.
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

// Returns the input unchanged.
struct IdentityOptions {
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Identity(const IdentityOptions& options = {},
               SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
