#include "penstock/lazy/nn/init.h"

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/lazy/nn/module.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/record.h"
#include "penstock/nn/initializers.h"

namespace penstock::lazy::nn {
namespace {

// Values of an initializer of room nn; zeros, and an error of the thread, if it fails.
Array Initialized(const std::string& initializer, const Shape& shape) {
  absl::StatusOr<Array> values = ::penstock::nn::InitialValue(initializer, {DType::kF32, shape},
                                                              lazy::internal::NextHostSeed());
  if (values.ok()) return *std::move(values);
  FailThread(values.status());
  return Array::Zeros(DType::kF32, shape);
}

const Tensor& Set(absl::string_view name, const Tensor& x,
                  const std::function<Array(const Shape& shape)>& values) {
  if (!x.defined() || !base::IsFloat(x.dtype())) {
    FailOp(name, {x}, "expects a float tensor", SourceLocation());
    return x;
  }
  const absl::StatusOr<Array> converted = values(x.sizes()).Cast(x.dtype());
  if (converted.ok()) internal::SetContents(x, device_data(*converted, x.device()));
  return x;
}

const Tensor& SetFans(absl::string_view name, const Tensor& x,
                      const std::function<Array(const Shape& shape)>& values) {
  if (x.defined() && x.dim() < 2) {
    FailOp(name, {x}, "fans require 2 dims or more", SourceLocation());
    return x;
  }
  return Set(name, x, values);
}

}  // namespace

namespace internal {

Array UniformValues(const Shape& shape, double low, double high) {
  return Initialized(absl::StrFormat("random_uniform(%.17g, %.17g)", low, high), shape);
}
Array NormalValues(const Shape& shape, double mean, double std) {
  return Initialized(absl::StrFormat("random_normal(%.17g, %.17g)", mean, std), shape);
}

}  // namespace internal

namespace init {
namespace {

using internal::NormalValues;
using internal::UniformValues;

double FanOf(absl::string_view mode, const Shape& shape) {
  const auto [in, out] = calculate_fans(shape);
  return static_cast<double>(mode == "fan_out" ? out : in);
}

bool KnownMode(absl::string_view name, const Tensor& x, absl::string_view mode) {
  if (mode == "fan_in" || mode == "fan_out") return true;
  FailOp(name, {x}, absl::StrCat("mode must be \"fan_in\" or \"fan_out\", got \"", mode, "\""),
         SourceLocation());
  return false;
}

}  // namespace

double calculate_gain(absl::string_view nonlinearity, double param) {
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return std::sqrt(2.0 / (1 + param * param));
  if (nonlinearity == "selu") return 0.75;
  for (absl::string_view linear : {"linear", "sigmoid", "conv1d", "conv2d", "conv3d",
                                   "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}) {
    if (nonlinearity == linear) return 1;
  }
  FailThread(absl::InvalidArgumentError(
      absl::StrCat("there is no gain of the nonlinearity \"", nonlinearity, "\"")));
  return 1;
}

std::pair<int64_t, int64_t> calculate_fans(const Shape& shape) {
  if (shape.rank() < 2) return {shape.num_elements(), shape.num_elements()};
  int64_t field = 1;
  for (int i = 2; i < shape.rank(); ++i) field *= shape.dim(i);
  return {shape.dim(1) * field, shape.dim(0) * field};
}

const Tensor& uniform_(const Tensor& x, double a, double b) {
  return Set("uniform_", x, [&](const Shape& shape) { return UniformValues(shape, a, b); });
}
const Tensor& normal_(const Tensor& x, double mean, double std) {
  return Set("normal_", x, [&](const Shape& shape) { return NormalValues(shape, mean, std); });
}

// By rejection: exact for any limits that have a reasonable probability; limits far out in a tail
// would not end, so the draws are bounded and the last one is clamped.
const Tensor& trunc_normal_(const Tensor& x, double mean, double std, double a, double b) {
  return Set("trunc_normal_", x, [&](const Shape& shape) {
    base::Random random(lazy::internal::NextHostSeed());
    Array values = Array::Uninitialized(DType::kF32, shape);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      double z = 0;
      for (int attempt = 0; attempt < 1000; ++attempt) {
        const double u = 1 - random.Uniform();
        z = mean + std * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * random.Uniform());
        if (z >= a && z <= b) break;
      }
      values.mutable_data<float>()[i] = static_cast<float>(std::min(std::max(z, a), b));
    }
    return values;
  });
}

const Tensor& constant_(const Tensor& x, double value) {
  return Set("constant_", x, [&](const Shape& shape) {
    Array values = Array::Uninitialized(DType::kF64, shape);  // exact for float64, too
    std::fill_n(values.mutable_data<double>(), shape.num_elements(), value);
    return values;
  });
}
const Tensor& ones_(const Tensor& x) { return constant_(x, 1); }
const Tensor& zeros_(const Tensor& x) { return constant_(x, 0); }
const Tensor& eye_(const Tensor& x) {
  if (x.dim() != 2) {
    FailOp("eye_", {x}, "expects a matrix", SourceLocation());
    return x;
  }
  return Set("eye_", x, [&](const Shape& shape) { return Initialized("identity", shape); });
}

const Tensor& xavier_uniform_(const Tensor& x, double gain) {
  return SetFans("xavier_uniform_", x, [&](const Shape& shape) {
    const auto [in, out] = calculate_fans(shape);
    const double bound = gain * std::sqrt(6.0 / static_cast<double>(in + out));
    return UniformValues(shape, -bound, bound);
  });
}
const Tensor& xavier_normal_(const Tensor& x, double gain) {
  return SetFans("xavier_normal_", x, [&](const Shape& shape) {
    const auto [in, out] = calculate_fans(shape);
    return NormalValues(shape, 0, gain * std::sqrt(2.0 / static_cast<double>(in + out)));
  });
}
const Tensor& kaiming_uniform_(const Tensor& x, double a, absl::string_view mode,
                               absl::string_view nonlinearity) {
  if (!KnownMode("kaiming_uniform_", x, mode)) return x;
  return SetFans("kaiming_uniform_", x, [&](const Shape& shape) {
    const double deviation = calculate_gain(nonlinearity, a) / std::sqrt(FanOf(mode, shape));
    const double bound = std::sqrt(3.0) * deviation;
    return UniformValues(shape, -bound, bound);
  });
}
const Tensor& kaiming_normal_(const Tensor& x, double a, absl::string_view mode,
                              absl::string_view nonlinearity) {
  if (!KnownMode("kaiming_normal_", x, mode)) return x;
  return SetFans("kaiming_normal_", x, [&](const Shape& shape) {
    return NormalValues(shape, 0, calculate_gain(nonlinearity, a) / std::sqrt(FanOf(mode, shape)));
  });
}
const Tensor& orthogonal_(const Tensor& x, double gain) {
  return SetFans("orthogonal_", x, [&](const Shape& shape) {
    // A matrix [out, rest], as PyTorch flattens it.
    const Shape matrix{shape.dim(0), shape.num_elements() / std::max<int64_t>(shape.dim(0), 1)};
    return *Initialized(absl::StrFormat("orthogonal(%.17g)", gain), matrix).Reshape(shape);
  });
}

}  // namespace init
}  // namespace penstock::lazy::nn
