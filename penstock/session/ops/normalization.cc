// Biases, moments and batch normalization.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"

namespace penstock::session::nn {

using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

bool IsChannelsFirst(absl::string_view data_format) {
  return data_format.size() >= 2 && data_format.substr(0, 2) == "NC";
}

// A vector of the channels as a value that broadcasts to x.
Value AlongChannels(Value vector, const Value& x, int64_t channels) {
  std::vector<int64_t> dims(x.rank(), 1);
  dims[channels] = vector.shape().num_elements();
  return ir::Reshape(vector, Shape(dims));
}

// Vectors of the channels' length.
bool FitChannels(In in, size_t first, int64_t channels) {
  for (size_t i = first; i < in.size(); ++i) {
    if (in[i].shape() == Shape({in[0].shape().dim(static_cast<int>(channels))})) continue;
    Reject(in[0], "expects a vector with an element for each channel of ", in[0].type().ToString(),
           " (axis ", channels, "), got ", in[i].type().ToString());
    return false;
  }
  return true;
}

bool IsNarrow(const Value& x) { return base::IsFloat(x.dtype()) && base::BitWidth(x.dtype()) < 32; }

// Mean and variance, in float32 of 16-bit floats.
Values MomentsOf(Value x, const ir::Axes& axes, bool keep_dims) {
  const Value wide = IsNarrow(x) ? ir::Convert(x, DType::kF32) : x;
  const Value mean = ir::ReduceMean(wide, axes, true);
  if (!mean.valid()) return {Value(), Value()};
  const Value variance = ir::ReduceMean(ir::Square(wide - ir::StopGradient(mean)), axes, keep_dims);
  const Value result = keep_dims || axes.empty() ? mean : ir::Squeeze(mean, axes);
  return {ir::Convert(result, x.dtype()), ir::Convert(variance, x.dtype())};
}

Values Both(Value mean, Value variance) { return {mean, variance}; }

}  // namespace

Tensor BiasAdd(const Tensor& value, const Tensor& bias, absl::string_view data_format,
               absl::string_view name, SourceLocation where) {
  return AddOp("BiasAdd", {value, bias}, name, where,
               [first = IsChannelsFirst(data_format)](In in) -> Value {
                 if (in[0].rank() < 2) {
                   return Reject(in[0], "expects a value of at least 2 axes, got ",
                                 in[0].type().ToString());
                 }
                 const int64_t channels = first ? 1 : in[0].rank() - 1;
                 if (!FitChannels(in, 1, channels)) return Value();
                 return in[0] + AlongChannels(in[1], in[0], channels);
               });
}

std::pair<Tensor, Tensor> Moments(const Tensor& x, const Axes& axes, const MomentsOptions& options,
                                  SourceLocation where) {
  const Tensors both = AddOps("Moments", {x}, options.name.empty() ? "moments" : options.name,
                              where, [axes, keep = options.keep_dims](In in) -> Values {
                                const auto list = internal::AxesIn(in[0], axes);
                                if (!list.has_value()) return Both(Value(), Value());
                                if (list->empty()) return Both(in[0], ir::SplatLike(in[0], 0));
                                return MomentsOf(in[0], *list, keep);
                              });
  return both.size() == 2 ? std::pair(both[0], both[1]) : std::pair<Tensor, Tensor>();
}

std::pair<Tensor, Tensor> WeightedMoments(const Tensor& x, const Axes& axes,
                                          const Tensor& frequency_weights,
                                          const MomentsOptions& options, SourceLocation where) {
  const Tensors both = AddOps(
      "WeightedMoments", {x, frequency_weights},
      options.name.empty() ? "weighted_moments" : options.name, where,
      [axes, keep = options.keep_dims](In in) -> Values {
        const auto list = internal::AxesIn(in[0], axes);
        if (!list.has_value()) return Both(Value(), Value());
        const Value weights = internal::Stretch(ir::Convert(in[1], in[0].dtype()), in[0].shape());
        const Value sum = ir::ReduceSum(weights, *list, true);
        if (!sum.valid()) return Both(Value(), Value());
        const Value mean = ir::ReduceSum(in[0] * weights, *list, true) / sum;
        const Value variance = ir::ReduceSum(weights * ir::Square(in[0] - mean), *list, true) / sum;
        if (keep) return Both(mean, variance);
        return Both(ir::Squeeze(mean, *list), ir::Squeeze(variance, *list));
      });
  return both.size() == 2 ? std::pair(both[0], both[1]) : std::pair<Tensor, Tensor>();
}

Tensor BatchNormalization(const Tensor& x, const Tensor& mean, const Tensor& variance,
                          const Tensor& offset, const Tensor& scale, double variance_epsilon,
                          absl::string_view name, SourceLocation where) {
  Tensors inputs{x, mean, variance};
  if (offset.valid()) inputs.push_back(offset);
  if (scale.valid()) inputs.push_back(scale);
  return AddOp("BatchNormalization", inputs, name.empty() ? "batchnorm" : name, where,
               [epsilon = variance_epsilon, has_offset = offset.valid(),
                has_scale = scale.valid()](In in) -> Value {
                 Value factor = ir::Rsqrt(in[2] + epsilon);
                 if (has_scale) factor = factor * in.back();
                 Value shift = -in[1] * factor;
                 if (has_offset) shift = in[3] + shift;
                 return in[0] * factor + shift;
               });
}

FusedBatchNormResult FusedBatchNorm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                    const FusedBatchNormOptions& options, SourceLocation where) {
  Tensors inputs{x, scale, offset};
  const bool has_statistics = options.mean.valid() && options.variance.valid();
  const double factor = options.exponential_avg_factor;
  if (!has_statistics && (!options.is_training || factor != 1)) {
    FailOp({x}, "FusedBatchNormV3",
           "needs mean and variance for inference, or for an exponential_avg_factor other than 1",
           where);
    return {};
  }
  if (has_statistics) inputs.insert(inputs.end(), {options.mean, options.variance});
  const auto lower = [first = IsChannelsFirst(options.data_format), training = options.is_training,
                      factor, epsilon = std::max(options.epsilon, 1.001e-5)](In in) -> Values {
    const Values none(3);
    const Value& v = in[0];
    if (v.rank() < 3 || !base::IsFloat(v.dtype())) {
      Reject(v, "expects floats of 4 or 5 axes, got ", v.type().ToString());
      return none;
    }
    const int64_t channels = first ? 1 : v.rank() - 1;
    if (!FitChannels(in, 1, channels)) return none;
    if (!training) {
      const Value wide = ir::Convert(v, in[1].dtype());
      const auto along = [&](Value vector) { return AlongChannels(vector, v, channels); };
      const Value inverse = ir::Rsqrt(ir::StopGradient(in[4]) + epsilon) * in[1];
      const Value y = (wide - along(ir::StopGradient(in[3]))) * along(inverse) + along(in[2]);
      return {ir::Convert(y, v.dtype()), in[3], in[4]};
    }
    const ir::BatchNormResult r =
        ir::BatchNormTraining(v, in[1], in[2], Value(), {.axis = channels, .epsilon = epsilon});
    if (!r.y.valid()) return none;
    const double count = static_cast<double>(v.shape().num_elements()) /
                         static_cast<double>(std::max<int64_t>(1, r.mean.shape().num_elements()));
    Value mean = ir::StopGradient(r.mean);
    Value variance = ir::StopGradient(r.variance) * (count / std::max(count - 1, 1.0));
    if (factor != 1) {
      mean = in[3] * (1 - factor) + mean * factor;
      variance = in[4] * (1 - factor) + variance * factor;
    }
    return {r.y, mean, variance};
  };
  const Tensors all = AddOps("FusedBatchNormV3", inputs, options.name, where, lower);
  return all.size() == 3 ? FusedBatchNormResult{all[0], all[1], all[2]} : FusedBatchNormResult();
}

Tensor ZeroFraction(const Tensor& value, absl::string_view name, SourceLocation where) {
  return AddOp("ZeroFraction", {value}, name.empty() ? "zero_fraction" : name, where, [](In in) {
    const Value zero = ir::Equal(in[0], ir::SplatLike(in[0], 0));
    return ir::ReduceMean(ir::Convert(zero, DType::kF32));
  });
}

Tensor XwPlusB(const Tensor& x, const Tensor& weights, const Tensor& biases, absl::string_view name,
               SourceLocation where) {
  return BiasAdd(MatMul(x, weights, {}, where), biases, "", name.empty() ? "xw_plus_b" : name,
                 where);
}

Tensor ReluLayer(const Tensor& x, const Tensor& weights, const Tensor& biases,
                 absl::string_view name, SourceLocation where) {
  return Relu(XwPlusB(x, weights, biases, "", where), name.empty() ? "relu_layer" : name, where);
}

}  // namespace penstock::session::nn
