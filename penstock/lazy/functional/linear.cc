// Linear functions: linear, convolutions and their transposes.
#include "absl/strings/str_cat.h"

#include "penstock/lazy/amp.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::Value;
using ir::Values;
using lazy::internal::CastAll;

// Dimension numbers of PyTorch: NC..., OI..., NC...
ir::ConvolutionOptions::Dimensions PyTorchDimensions(int64_t spatial) {
  ir::ConvolutionOptions::Dimensions d;
  d.input_batch = d.output_batch = 0;
  d.input_feature = d.output_feature = 1;
  d.kernel_output_feature = 0;
  d.kernel_input_feature = 1;
  for (int64_t i = 0; i < spatial; ++i) {
    d.input_spatial.push_back(2 + i);
    d.kernel_spatial.push_back(2 + i);
    d.output_spatial.push_back(2 + i);
  }
  return d;
}

Tensors WithBias(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Tensors inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  return inputs;
}

// y [N, out, ...] + bias.
Value AddChannels(Value y, Value bias) {
  if (!y.valid() || !bias.valid()) return y;
  std::vector<int64_t> shape(y.rank(), 1);
  shape[1] = -1;
  return y + ir::Reshape(bias, Shape(shape));
}

// What both kinds of convolution check. Empty: the arguments fit.
std::string WrongShapes(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t spatial,
                        int64_t channels, int64_t out_channels, int64_t groups) {
  if (weight.dim() != spatial + 2 || (x.dim() != spatial + 2 && x.dim() != spatial + 1)) {
    return absl::StrCat("expects x of ", spatial + 2, " (or ", spatial + 1,
                        ", without the batch) and weight of ", spatial + 2, " dims");
  }
  if (groups <= 0) return absl::StrCat("groups must be above 0, got ", groups);
  const int64_t given = x.size(-spatial - 1);
  if (given != channels || channels % groups != 0 || out_channels % groups != 0) {
    return absl::StrCat("weight and groups (", groups, ") expect ", channels,
                        " channels in x, which has ", given);
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != out_channels)) {
    return absl::StrCat("bias must be a vector of ", out_channels, " elements");
  }
  return "";
}

bool AllAtLeast(const std::vector<int64_t>& values, int64_t low) {
  for (int64_t value : values) {
    if (value < low) return false;
  }
  return !values.empty();
}

// Low and high padding of each axis. Empty: invalid.
std::vector<std::pair<int64_t, int64_t>> ResolvePadding(const ConvOptions& options,
                                                        const Tensor& weight, int64_t spatial) {
  const auto axes = static_cast<size_t>(spatial);
  std::vector<std::pair<int64_t, int64_t>> padding;
  if (options.padding.mode() == "same") {
    const std::vector<int64_t> dilation = options.dilation.Each(axes);
    for (size_t i = 0; i < axes; ++i) {
      const int64_t total = dilation[i] * (weight.size(2 + static_cast<int64_t>(i)) - 1);
      padding.emplace_back(total / 2, total - total / 2);
    }
    return padding;
  }
  const Sizes sizes = options.padding.mode().empty() ? options.padding.sizes() : Sizes(0);
  for (int64_t size : sizes.Each(axes)) padding.emplace_back(size, size);
  return padding;
}

// Empty: the options are valid.
std::string WrongOptions(const ConvOptions& options, size_t axes) {
  const std::string& mode = options.padding.mode();
  if (!AllAtLeast(options.stride.Each(axes), 1) || !AllAtLeast(options.dilation.Each(axes), 1)) {
    return absl::StrCat("stride ", options.stride.ToString(), " and dilation ",
                        options.dilation.ToString(), " must be one number above 0, or ", axes);
  }
  if (!mode.empty() && mode != "same" && mode != "valid") {
    return absl::StrCat("padding must be sizes, \"same\" or \"valid\", got \"", mode, "\"");
  }
  if (mode == "same" && options.stride.Each(axes) != std::vector<int64_t>(axes, 1)) {
    return "padding \"same\" requires stride 1";
  }
  if (mode.empty() && !AllAtLeast(options.padding.sizes().Each(axes), 0)) {
    return absl::StrCat("padding ", options.padding.sizes().ToString(), " must be one number, or ",
                        axes, ", none negative");
  }
  return "";
}

Tensor Conv(absl::string_view name, int64_t spatial, Tensor x, Tensor weight, Tensor bias,
            const ConvOptions& options, SourceLocation where) {
  Tensor* const all[] = {&x, &weight, &bias};
  CastAll(name, all);
  const Tensors inputs = WithBias(x, weight, bias);
  if (!x.defined() || !weight.defined())
    return FailOp(name, inputs, "an input is undefined", where);
  const auto axes = static_cast<size_t>(spatial);
  std::string wrong = WrongOptions(options, axes);
  if (wrong.empty()) {
    const int64_t out = weight.dim() > 1 ? weight.size(0) : 0,
                  in = weight.dim() > 1 ? weight.size(1) * options.groups : 0;
    wrong = WrongShapes(x, weight, bias, spatial, in, out, options.groups);
  }
  if (!wrong.empty()) return FailOp(name, inputs, wrong, where);
  ir::ConvolutionOptions convolution{.strides = options.stride.Each(axes),
                                     .padding = ResolvePadding(options, weight, spatial),
                                     .rhs_dilation = options.dilation.Each(axes),
                                     .feature_group_count = options.groups,
                                     .dimensions = PyTorchDimensions(spatial)};
  return Record(name, inputs, where, [&](const Values& in) {
    const bool batched = in[0].rank() == spatial + 2;
    const Value images = batched ? in[0] : ir::ExpandDims(in[0], 0);
    Value y = ir::Convolution(images, in[1], convolution);
    if (in.size() > 2) y = AddChannels(y, in[2]);
    return batched || !y.valid() ? y : ir::Squeeze(y, {0});
  });
}

// The result's extent on one axis (the formula of PyTorch's documentation).
int64_t TransposedExtent(int64_t extent, int64_t kernel, int64_t stride, int64_t padding,
                         int64_t output_padding, int64_t dilation) {
  return (extent - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1;
}

// It is the transpose of a convolution with `options` from [N, out, ...] to x. The convolution's
// kernel [C, out / groups, ...] has the layout of PyTorch's weight.
Value TransposedValue(Value x, Value weight, const ConvTransposeOptions& options, size_t axes) {
  const auto stride = options.stride.Each(axes), padding = options.padding.Each(axes),
             dilation = options.dilation.Each(axes),
             output_padding = options.output_padding.Each(axes);
  ir::ConvolutionOptions convolution{.strides = stride,
                                     .rhs_dilation = dilation,
                                     .feature_group_count = options.groups,
                                     .dimensions = PyTorchDimensions(static_cast<int64_t>(axes))};
  std::vector<int64_t> shape{x.shape().dim(0), weight.shape().dim(1) * options.groups};
  for (size_t i = 0; i < axes; ++i) {
    const int at = static_cast<int>(i) + 2;
    const int64_t extent = x.shape().dim(at), kernel = weight.shape().dim(at);
    const int64_t out =
        TransposedExtent(extent, kernel, stride[i], padding[i], output_padding[i], dilation[i]);
    shape.push_back(out);
    // Such that the convolution of `out` positions has `extent` positions.
    const int64_t covered = (extent - 1) * stride[i] + dilation[i] * (kernel - 1) + 1;
    convolution.padding.emplace_back(padding[i], covered - out - padding[i]);
  }
  return ir::ConvolutionTranspose(x, weight, Shape(shape), convolution);
}

Tensor ConvTranspose(absl::string_view name, int64_t spatial, Tensor x, Tensor weight, Tensor bias,
                     const ConvTransposeOptions& options, SourceLocation where) {
  Tensor* const all[] = {&x, &weight, &bias};
  CastAll(name, all);
  const Tensors inputs = WithBias(x, weight, bias);
  if (!x.defined() || !weight.defined())
    return FailOp(name, inputs, "an input is undefined", where);
  const auto axes = static_cast<size_t>(spatial);
  std::string wrong;
  if (!AllAtLeast(options.stride.Each(axes), 1) || !AllAtLeast(options.dilation.Each(axes), 1) ||
      !AllAtLeast(options.padding.Each(axes), 0) ||
      !AllAtLeast(options.output_padding.Each(axes), 0)) {
    wrong = absl::StrCat(
        "stride and dilation (above 0), padding and output_padding (not negative) must be one "
        "number, or ",
        axes);
  } else {
    const int64_t in = weight.dim() > 1 ? weight.size(0) : 0,
                  out = weight.dim() > 1 ? weight.size(1) * options.groups : 0;
    wrong = WrongShapes(x, weight, bias, spatial, in, out, options.groups);
  }
  if (!wrong.empty()) return FailOp(name, inputs, wrong, where);
  return Record(name, inputs, where, [&](const Values& in) {
    const bool batched = in[0].rank() == spatial + 2;
    Value y = TransposedValue(batched ? in[0] : ir::ExpandDims(in[0], 0), in[1], options, axes);
    if (in.size() > 2) y = AddChannels(y, in[2]);
    return batched || !y.valid() ? y : ir::Squeeze(y, {0});
  });
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& matrix, const Tensor& offset,
              SourceLocation where) {
  Tensor x = input, weight = matrix, bias = offset;
  Tensor* const all[] = {&x, &weight, &bias};
  CastAll("linear", all);
  const Tensors inputs = WithBias(x, weight, bias);
  if (!x.defined() || !weight.defined()) {
    return FailOp("linear", inputs, "an input is undefined", where);
  }
  if (weight.dim() != 2 || x.dim() == 0 || x.size(-1) != weight.size(1)) {
    return FailOp("linear", inputs,
                  "expects x [..., in] and weight [out, in]; the last sizes must be equal", where);
  }
  return Record("linear", inputs, where, [](const Values& in) {
    const Value y = ir::DotGeneral(in[0], in[1],
                                   {.lhs_contracting = {in[0].rank() - 1}, .rhs_contracting = {1}});
    return in.size() > 2 ? y + in[2] : y;
  });
}

Tensor bilinear(const Tensor& left, const Tensor& right, const Tensor& matrices, const Tensor& bias,
                SourceLocation where) {
  Tensor a = left, b = right, weight = matrices;
  Tensor* const all[] = {&a, &b, &weight};
  CastAll("bilinear", all);
  const amp::autocast off("bfloat16", false);  // the types are what the sum is computed in
  Tensor y = einsum("...i,oij,...j->...o", {a, weight, b}, where);
  return bias.defined() ? add(Operand(y, where), Operand(bias, where)) : y;
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              SourceLocation where) {
  return Conv("conv1d", 1, x, weight, bias, options, where);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              SourceLocation where) {
  return Conv("conv2d", 2, x, weight, bias, options, where);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              SourceLocation where) {
  return Conv("conv3d", 3, x, weight, bias, options, where);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options, SourceLocation where) {
  return ConvTranspose("conv_transpose1d", 1, x, weight, bias, options, where);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options, SourceLocation where) {
  return ConvTranspose("conv_transpose2d", 2, x, weight, bias, options, where);
}

}  // namespace penstock::lazy::nn::functional
