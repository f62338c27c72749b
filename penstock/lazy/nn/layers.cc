// Modules with parameters.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/nn/init.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy::nn {
namespace {

using internal::NormalValues;
using internal::UniformValues;

Array Filled(const Shape& shape, float value) {
  Array values = Array::Uninitialized(DType::kF32, shape);
  std::fill_n(values.mutable_data<float>(), shape.num_elements(), value);
  return values;
}

// Uniform within +-1 / sqrt(fan_in): PyTorch's kaiming_uniform_(a = sqrt(5)), and the bias's range.
Tensor FanInUniform(const Shape& shape, int64_t fan_in) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return MakeParameter(UniformValues(shape, -bound, bound));
}

// Whether the sizes of a module's parameters are valid; else an error of the thread.
bool AllPositive(absl::string_view name, std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes) {
    if (size > 0) continue;
    FailThread(absl::InvalidArgumentError(
        absl::StrCat(name, ": the numbers of features and channels must be above 0, got ", size)));
    return false;
  }
  return true;
}

Shape KernelShape(int64_t first, int64_t second, const std::vector<int64_t>& kernel) {
  std::vector<int64_t> shape{first, second};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  return Shape(shape);
}

// Checks sizes of convolutions; false after an error of the thread.
bool ValidConv(absl::string_view name, int64_t in, int64_t out, int64_t groups,
               const std::vector<int64_t>& kernel) {
  if (!AllPositive(name, {in, out, groups})) return false;
  bool valid = !kernel.empty() && in % groups == 0 && out % groups == 0;
  for (int64_t size : kernel) valid = valid && size > 0;
  if (!valid) {
    FailThread(absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": kernel_size must be one number above 0 for each spatial dim, and "
                     "groups (",
                     groups, ") must divide the channels (", in, ", ", out, ")")));
  }
  return valid;
}

}  // namespace

// ---- Linear ----

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, const LinearOptions& options) {
  if (!AllPositive("Linear", {in_features, out_features})) return;
  weight = register_parameter("weight", FanInUniform({out_features, in_features}, in_features));
  if (options.bias) bias = register_parameter("bias", FanInUniform({out_features}, in_features));
}
Tensor LinearImpl::forward(const Tensor& x, SourceLocation where) {
  return functional::linear(x, weight, bias, where);
}

BilinearImpl::BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features,
                           const LinearOptions& options) {
  if (!AllPositive("Bilinear", {in1_features, in2_features, out_features})) return;
  weight = register_parameter(
      "weight", FanInUniform({out_features, in1_features, in2_features}, in1_features));
  if (options.bias) bias = register_parameter("bias", FanInUniform({out_features}, in1_features));
}
Tensor BilinearImpl::forward(const Tensor& a, const Tensor& b, SourceLocation where) {
  return functional::bilinear(a, b, weight, bias, where);
}

EmbeddingBagImpl::EmbeddingBagImpl(int64_t num_embeddings, int64_t embedding_dim,
                                   const EmbeddingBagModuleOptions& options)
    : options_(options) {
  const Embedding rows(num_embeddings, embedding_dim, {.padding_idx = options.padding_idx});
  weight = register_parameter("weight", rows->weight);
}
Tensor EmbeddingBagImpl::forward(const Tensor& x, const Tensor& offsets,
                                 const Tensor& per_sample_weights, SourceLocation where) {
  return functional::embedding_bag(x, weight, offsets,
                                   {.mode = options_.mode,
                                    .per_sample_weights = per_sample_weights,
                                    .include_last_offset = options_.include_last_offset,
                                    .padding_idx = options_.padding_idx},
                                   where);
}

EmbeddingImpl::EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim,
                             const EmbeddingOptions& options)
    : padding_idx_(options.padding_idx) {
  if (!AllPositive("Embedding", {num_embeddings, embedding_dim})) return;
  Array values = NormalValues({num_embeddings, embedding_dim}, 0, 1);
  if (padding_idx_) {
    const int64_t row = *padding_idx_ < 0 ? *padding_idx_ + num_embeddings : *padding_idx_;
    if (row < 0 || row >= num_embeddings) {
      FailThread(absl::InvalidArgumentError(absl::StrCat(
          "Embedding: padding_idx ", *padding_idx_, " is not within ", num_embeddings, " rows")));
      return;
    }
    std::fill_n(values.mutable_data<float>() + row * embedding_dim, embedding_dim, 0.0f);
  }
  weight = register_parameter("weight", MakeParameter(values));
}
Tensor EmbeddingImpl::forward(const Tensor& x, SourceLocation where) {
  return functional::embedding(x, weight, padding_idx_, where);
}

// ---- Convolutions ----

ConvImpl::ConvImpl(int64_t spatial, int64_t in_channels, int64_t out_channels,
                   const Sizes& kernel_size, const ConvModuleOptions& options)
    : spatial_(spatial),
      options_(options),
      kernel_(kernel_size.Each(static_cast<size_t>(spatial))) {
  if (!ValidConv("Conv", in_channels, out_channels, options.groups, kernel_)) return;
  const Shape shape = KernelShape(out_channels, in_channels / options.groups, kernel_);
  const int64_t fan_in = init::calculate_fans(shape).first;
  weight = register_parameter("weight", FanInUniform(shape, fan_in));
  if (options.bias) bias = register_parameter("bias", FanInUniform({out_channels}, fan_in));
}

Tensor ConvImpl::forward(const Tensor& given, SourceLocation where) {
  functional::ConvOptions options{.stride = options_.stride,
                                  .padding = options_.padding,
                                  .dilation = options_.dilation,
                                  .groups = options_.groups};
  Tensor x = given;
  if (options_.padding_mode != "zeros") {
    const auto axes = static_cast<size_t>(spatial_);
    const std::vector<int64_t> dilation = options_.dilation.Each(axes);
    const std::vector<int64_t> each = options_.padding.sizes().Each(axes);
    const std::string& mode = options_.padding.mode();
    const bool same = mode == "same";
    const bool strided = options_.stride.Each(axes) != std::vector<int64_t>(axes, 1);
    if (kernel_.empty() || dilation.empty() || each.empty() || (same && strided) ||
        !(same || mode.empty() || mode == "valid")) {
      return FailOp("conv", {given},
                    absl::StrCat("kernel_size, padding and dilation must be one number or ", axes,
                                 "; padding may be \"valid\", or \"same\" if the stride is 1"),
                    where);
    }
    std::vector<int64_t> sizes;
    for (size_t i = axes; i-- > 0;) {
      const int64_t total = dilation[i] * (kernel_[i] - 1);
      sizes.push_back(same ? total / 2 : each[i]);
      sizes.push_back(same ? total - total / 2 : each[i]);
    }
    x = functional::pad(x, sizes, options_.padding_mode, 0, where);
    options.padding = 0;
  }
  const auto conv = spatial_ == 1   ? functional::conv1d
                    : spatial_ == 2 ? functional::conv2d
                                    : functional::conv3d;
  return conv(x, weight, bias, options, where);
}

ConvTransposeImpl::ConvTransposeImpl(int64_t spatial, int64_t in_channels, int64_t out_channels,
                                     const Sizes& kernel_size,
                                     const ConvTransposeModuleOptions& options)
    : spatial_(spatial), options_(options) {
  const std::vector<int64_t> kernel = kernel_size.Each(static_cast<size_t>(spatial));
  if (!ValidConv("ConvTranspose", in_channels, out_channels, options.groups, kernel)) return;
  const Shape shape = KernelShape(in_channels, out_channels / options.groups, kernel);
  const int64_t fan_in = init::calculate_fans(shape).first;
  weight = register_parameter("weight", FanInUniform(shape, fan_in));
  if (options.bias) bias = register_parameter("bias", FanInUniform({out_channels}, fan_in));
}

Tensor ConvTransposeImpl::forward(const Tensor& x, SourceLocation where) {
  const functional::ConvTransposeOptions options{.stride = options_.stride,
                                                 .padding = options_.padding,
                                                 .output_padding = options_.output_padding,
                                                 .groups = options_.groups,
                                                 .dilation = options_.dilation};
  const auto conv = spatial_ == 1 ? functional::conv_transpose1d : functional::conv_transpose2d;
  return conv(x, weight, bias, options, where);
}

// ---- Normalization ----

BatchNormImpl::BatchNormImpl(const char* name, int64_t low_rank, int64_t high_rank,
                             int64_t num_features, const BatchNormModuleOptions& options)
    : options_(options), name_(name), low_rank_(low_rank), high_rank_(high_rank) {
  if (!AllPositive(name, {num_features})) return;
  if (options.affine) {
    weight = register_parameter("weight", MakeParameter(Filled({num_features}, 1)));
    bias = register_parameter("bias", MakeParameter(Filled({num_features}, 0)));
  }
  if (!options.track_running_stats) return;
  running_mean = register_buffer("running_mean", MakeParameter(Filled({num_features}, 0)));
  running_var = register_buffer("running_var", MakeParameter(Filled({num_features}, 1)));
  num_batches_tracked =
      register_buffer("num_batches_tracked", MakeParameter(Array::Scalar<int64_t>(0)));
}

Tensor BatchNormImpl::forward(const Tensor& x, SourceLocation where) {
  if (x.defined() && (x.dim() < low_rank_ || x.dim() > high_rank_)) {
    return FailOp(name_, {x},
                  low_rank_ == high_rank_
                      ? absl::StrCat("expects ", low_rank_, " dims")
                      : absl::StrCat("expects ", low_rank_, " or ", high_rank_, " dims"),
                  where);
  }
  const bool tracked = running_mean.defined(), batch = is_training() || !tracked;
  if (is_training() && tracked) {
    const no_grad guard;
    num_batches_tracked.add_(1, where);
    if (!options_.momentum) UpdateCumulative(x, where);
  }
  // Without a momentum the running statistics are updated above.
  const bool updates = is_training() && tracked && options_.momentum.has_value();
  return functional::batch_norm(x, batch && !updates ? Tensor() : running_mean,
                                batch && !updates ? Tensor() : running_var,
                                {.weight = weight,
                                 .bias = bias,
                                 .training = batch,
                                 .momentum = options_.momentum.value_or(0),
                                 .eps = options_.eps},
                                where);
}

// The mean of all batches' statistics: momentum 1 / number of batches.
void BatchNormImpl::UpdateCumulative(const Tensor& x, SourceLocation where) {
  if (!x.defined() || x.dim() < 2) return;
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  const Tensor share = reciprocal(num_batches_tracked, where);
  MoveRunning(mean(x, dims, false, where), var(x, dims, true, false, where), Operand(share, where),
              where);
}

void BatchNormImpl::MoveRunning(const Tensor& mean, const Tensor& variance, const Operand& share,
                                SourceLocation where) {
  running_mean.copy_(lerp(running_mean, mean, share), where);
  running_var.copy_(lerp(running_var, variance, share), where);
}

RMSNormImpl::RMSNormImpl(const Sizes& normalized_shape, const RMSNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  if (!options.elementwise_affine) return;
  for (int64_t size : shape_) {
    if (!AllPositive("RMSNorm", {size})) return;
  }
  weight = register_parameter("weight", MakeParameter(Filled(Shape(shape_.values()), 1)));
}
Tensor RMSNormImpl::forward(const Tensor& x, SourceLocation where) {
  return functional::rms_norm(x, shape_, weight, eps_, where);
}

LayerNormImpl::LayerNormImpl(const Sizes& normalized_shape, const LayerNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  if (!options.elementwise_affine) return;
  for (int64_t size : shape_) {
    if (!AllPositive("LayerNorm", {size})) return;
  }
  weight = register_parameter("weight", MakeParameter(Filled(Shape(shape_.values()), 1)));
  bias = register_parameter("bias", MakeParameter(Filled(Shape(shape_.values()), 0)));
}
Tensor LayerNormImpl::forward(const Tensor& x, SourceLocation where) {
  return functional::layer_norm(x, shape_, weight, bias, eps_, where);
}

GroupNormImpl::GroupNormImpl(int64_t num_groups, int64_t num_channels,
                             const GroupNormOptions& options)
    : groups_(num_groups), eps_(options.eps) {
  if (!options.affine || !AllPositive("GroupNorm", {num_groups, num_channels})) return;
  weight = register_parameter("weight", MakeParameter(Filled({num_channels}, 1)));
  bias = register_parameter("bias", MakeParameter(Filled({num_channels}, 0)));
}
Tensor GroupNormImpl::forward(const Tensor& x, SourceLocation where) {
  return functional::group_norm(x, groups_, weight, bias, eps_, where);
}

InstanceNormImpl::InstanceNormImpl(int num_spatial, int64_t num_features,
                                   const InstanceNormOptions& options)
    : num_spatial_(num_spatial), eps_(options.eps) {
  if (!options.affine || !AllPositive("InstanceNorm", {num_features})) return;
  weight = register_parameter("weight", MakeParameter(Filled({num_features}, 1)));
  bias = register_parameter("bias", MakeParameter(Filled({num_features}, 0)));
}
Tensor InstanceNormImpl::forward(const Tensor& x, SourceLocation where) {
  const int64_t batched = num_spatial_ + 2;
  if (x.defined() && x.dim() == batched - 1) {
    return squeeze(forward(unsqueeze(x, 0, where), where), 0, where);
  }
  if (x.defined() && x.dim() != batched) {
    return FailOp(
        absl::StrCat("InstanceNorm", num_spatial_, "d"), {x},
        absl::StrCat("expects ", batched, " dimensions, or ", batched - 1, " without a batch"),
        where);
  }
  return functional::instance_norm(x, weight, bias, eps_, where);
}

PReLUImpl::PReLUImpl(int64_t num_parameters, const PReLUOptions& options) {
  if (!AllPositive("PReLU", {num_parameters})) return;
  weight = register_parameter(
      "weight", MakeParameter(Filled({num_parameters}, static_cast<float>(options.init))));
}
Tensor PReLUImpl::forward(const Tensor& x, SourceLocation where) {
  return functional::prelu(x, weight, where);
}

}  // namespace penstock::lazy::nn
