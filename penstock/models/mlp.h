// Multilayer perceptron: dense layers with one activation, then logits.
//
//   nn::Network net = Mlp({.input_shape = {4}, .hidden = {64, 64}, .classes = 3});
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/base/dtype.h"
#include "penstock/nn/network.h"
#include "penstock/nn/typed_options.h"

namespace penstock::models {

struct MlpOptions {
  std::vector<int64_t> input_shape = {4};  // flattened if it has several axes
  base::DType input_dtype = base::DType::kF32;
  std::vector<int64_t> hidden = {128};
  int64_t classes = 10;
  nn::ActivationFunction activation = "relu";
  std::vector<nn::Layer> input_layers = {};  // applied to the input first
  double rescale = 1;                        // applied to the input
};
nn::Network Mlp(const MlpOptions& options = {});

}  // namespace penstock::models
