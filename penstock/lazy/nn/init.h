// torch.nn.init: initial values of parameters, computed on the host from the seed of manual_seed.
// Names, defaults and distributions are PyTorch's; the random numbers differ. They set the tensor's
// contents without history, so they may be applied to parameters, and return it.
#pragma once

#include <utility>

#include "absl/strings/string_view.h"

#include "penstock/lazy/ops.h"

namespace penstock::lazy::nn::init {

// Recommended gain of a nonlinearity: "linear", "sigmoid", "tanh", "relu", "leaky_relu" (param:
// negative slope), "selu", "conv2d", ...
double calculate_gain(absl::string_view nonlinearity, double param = 0.01);
// fan_in and fan_out of a weight [out, in, ...].
std::pair<int64_t, int64_t> calculate_fans(const Shape& shape);

const Tensor& uniform_(const Tensor& x, double a = 0, double b = 1);
const Tensor& normal_(const Tensor& x, double mean = 0, double std = 1);
const Tensor& trunc_normal_(const Tensor& x, double mean = 0, double std = 1, double a = -2,
                            double b = 2);
const Tensor& constant_(const Tensor& x, double value);
const Tensor& ones_(const Tensor& x);
const Tensor& zeros_(const Tensor& x);
const Tensor& eye_(const Tensor& x);  // a matrix
const Tensor& xavier_uniform_(const Tensor& x, double gain = 1);
const Tensor& xavier_normal_(const Tensor& x, double gain = 1);
// mode: "fan_in" or "fan_out".
const Tensor& kaiming_uniform_(const Tensor& x, double a = 0, absl::string_view mode = "fan_in",
                               absl::string_view nonlinearity = "leaky_relu");
const Tensor& kaiming_normal_(const Tensor& x, double a = 0, absl::string_view mode = "fan_in",
                              absl::string_view nonlinearity = "leaky_relu");
const Tensor& orthogonal_(const Tensor& x, double gain = 1);

}  // namespace penstock::lazy::nn::init

namespace penstock::lazy::nn::internal {
// Values with these distributions, for modules.
Array UniformValues(const Shape& shape, double low, double high);
Array NormalValues(const Shape& shape, double mean, double std);
}  // namespace penstock::lazy::nn::internal
