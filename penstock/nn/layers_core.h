// The layers that everything starts from (layers_core.cc). Included by layers.h.
#pragma once

#include <string>

#include "penstock/nn/layer.h"

namespace penstock::nn {

using base::SourceLocation;

// y = activation(x kernel + bias) along the last axis. kernel: [in, units].
struct DenseOptions {
  int64_t units = 0;
  std::string activation = "linear";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string bias_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer Dense(const DenseOptions& options, SourceLocation location = SourceLocation::Current());

// The input as it is.
struct IdentityOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer Identity(const IdentityOptions& options = {},
               SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
