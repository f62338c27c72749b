// Convolutions.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/ops/spatial.h"

namespace penstock::session::nn {

using internal::In;
using internal::Layout;
using internal::Reject;
using ir::Value;

namespace {

// Arguments of a convolution, which are checked against the input when it is lowered.
struct ConvArguments {
  int spatial = 2;
  Ints strides;
  Padding padding;
  ConvOptions options;
};

// ir's options for an input of this shape and a filter of this window.
std::optional<ir::ConvolutionOptions> OptionsFor(const Value& at, const ConvArguments& a,
                                                 const Layout& layout, const Shape& input,
                                                 const Shape& filter) {
  const auto strides = internal::PerAxis(a.strides, layout);
  const auto dilations = internal::PerAxis(a.options.dilations, layout);
  if (!strides.has_value() || !dilations.has_value()) {
    Reject(at, "strides and dilations are one positive number, one for each of the ", a.spatial,
           " spatial axes, or one for each of the ", layout.rank(), " axes");
    return std::nullopt;
  }
  for (const auto* each : {&*strides, &*dilations}) {
    if ((*each)[0] != 1 || (*each)[layout.channels()] != 1) {
      Reject(at, "strides and dilations of batch and channels have to be 1");
      return std::nullopt;
    }
  }
  std::vector<int64_t> window(layout.rank(), 1);
  for (int i = 0; i < a.spatial; ++i) window[layout.first_spatial() + i] = filter.dim(i);
  const auto padding = internal::PaddingOf(a.padding, input, window, *strides, *dilations);
  if (!padding.has_value()) {
    Reject(at, "padding is SAME, VALID or a pair for each of the ", layout.rank(), " axes, not \"",
           a.padding.name(), "\"");
    return std::nullopt;
  }
  ir::ConvolutionOptions o{.strides = internal::SpatialPart(*strides, layout),
                           .padding = internal::SpatialPart(*padding, layout),
                           .rhs_dilation = internal::SpatialPart(*dilations, layout)};
  o.dimensions = {.input_batch = 0,
                  .input_feature = layout.channels(),
                  .kernel_input_feature = a.spatial,
                  .kernel_output_feature = a.spatial + 1,
                  .output_batch = 0,
                  .output_feature = layout.channels()};
  for (int i = 0; i < a.spatial; ++i) {
    o.dimensions.input_spatial.push_back(layout.first_spatial() + i);
    o.dimensions.kernel_spatial.push_back(i);
    o.dimensions.output_spatial.push_back(layout.first_spatial() + i);
  }
  return o;
}

std::optional<Layout> LayoutFor(const Value& at, const ConvArguments& a) {
  const auto layout = internal::LayoutOf(a.options.data_format, a.spatial);
  if (!layout.has_value()) Reject(at, "unknown data_format \"", a.options.data_format, "\"");
  return layout;
}

// Whether input and filter have the ranks of this convolution.
bool HaveRanks(const Value& input, const Value& filter, const Layout& layout) {
  if (input.rank() == layout.rank() && filter.rank() == layout.rank()) return true;
  Reject(input, "expects an input and a filter of ", layout.rank(), " axes, got ",
         input.type().ToString(), " and ", filter.type().ToString());
  return false;
}

Value ConvolutionOf(Value input, Value filter, const ConvArguments& a) {
  const auto layout = LayoutFor(input, a);
  if (!layout.has_value() || !HaveRanks(input, filter, *layout)) return Value();
  auto options = OptionsFor(input, a, *layout, input.shape(), filter.shape());
  if (!options.has_value()) return Value();
  const int64_t channels = input.shape().dim(layout->channels());
  const int64_t per_group = filter.shape().dim(a.spatial);
  if (per_group < 1 || channels % per_group != 0) {
    return Reject(input, "the ", channels, " channels of the input ", input.type().ToString(),
                  " are not those of the filter ", filter.type().ToString(), ", nor a multiple");
  }
  options->feature_group_count = channels / per_group;
  return ir::Convolution(input, filter, *options);
}

// filter [window, in, multiplier].
Value DepthwiseOf(Value input, Value filter, const ConvArguments& a) {
  const auto layout = LayoutFor(input, a);
  if (!layout.has_value() || !HaveRanks(input, filter, *layout)) return Value();
  const int64_t channels = input.shape().dim(layout->channels());
  if (filter.shape().dim(2) != channels) {
    return Reject(input, "the ", channels, " channels of the input ", input.type().ToString(),
                  " are not those of the filter ", filter.type().ToString());
  }
  const Shape& f = filter.shape();
  return ConvolutionOf(input,
                       ir::Reshape(filter, Shape({f.dim(0), f.dim(1), 1, channels * f.dim(3)})), a);
}

Tensor AddConvolution(absl::string_view type, const Tensor& input, const Tensor& filter,
                      const ConvArguments& a, SourceLocation where,
                      Value (*function)(Value, Value, const ConvArguments&) = ConvolutionOf) {
  return AddOp(type, {input, filter}, a.options.name, where,
               [a, function](In in) { return function(in[0], in[1], a); });
}

// The convolution's input, of this shape, from its output.
Value TransposeOf(Value value, Value filter, Shape shape, const ConvArguments& a) {
  const auto layout = LayoutFor(value, a);
  if (!layout.has_value() || !HaveRanks(value, filter, *layout)) return Value();
  if (shape.rank() != layout->rank()) {
    return Reject(value, "output_shape ", shape.ToString(), " does not have ", layout->rank(),
                  " axes");
  }
  if (shape.dim(0) == -1) shape.set_dim(0, value.shape().dim(0));
  auto options = OptionsFor(value, a, *layout, shape, filter.shape());
  if (!options.has_value()) return Value();
  if (filter.shape().dim(a.spatial) != shape.dim(layout->channels())) {
    return Reject(value, "the filter ", filter.type().ToString(), " has [window, out, in]; its ",
                  filter.shape().dim(a.spatial), " outputs are not the channels of output_shape ",
                  shape.ToString());
  }
  return ir::ConvolutionTranspose(value, filter, shape, *options);
}

Tensor AddTranspose(absl::string_view type, const Tensor& value, const Tensor& filter,
                    const ShapeArgument& output_shape, const ConvArguments& a,
                    SourceLocation where) {
  return internal::AddShaped(
      {.type = type,
       .name = a.options.name,
       .where = where,
       .inputs = {value, filter},
       .shape = output_shape,
       .dtype = value.dtype(),
       .has_shape = false},
      [a](const internal::ShapedIn& s) { return TransposeOf(s.in[0], s.in[1], s.shape, a); });
}

}  // namespace

Tensor Conv1D(const Tensor& value, const Tensor& filters, int64_t stride, const Padding& padding,
              const ConvOptions& options, SourceLocation where) {
  return AddConvolution("Conv1D", value, filters, {1, stride, padding, options}, where);
}

Tensor Conv2D(const Tensor& input, const Tensor& filter, const Ints& strides,
              const Padding& padding, const ConvOptions& options, SourceLocation where) {
  return AddConvolution("Conv2D", input, filter, {2, strides, padding, options}, where);
}

Tensor Conv3D(const Tensor& input, const Tensor& filter, const Ints& strides,
              const Padding& padding, const ConvOptions& options, SourceLocation where) {
  return AddConvolution("Conv3D", input, filter, {3, strides, padding, options}, where);
}

Tensor DepthwiseConv2D(const Tensor& input, const Tensor& filter, const Ints& strides,
                       const Padding& padding, const ConvOptions& options, SourceLocation where) {
  return AddConvolution("DepthwiseConv2dNative", input, filter, {2, strides, padding, options},
                        where, DepthwiseOf);
}

Tensor SeparableConv2D(const Tensor& input, const Tensor& depthwise_filter,
                       const Tensor& pointwise_filter, const Ints& strides, const Padding& padding,
                       const ConvOptions& options, SourceLocation where) {
  ConvOptions first = options;
  first.name = "depthwise";
  const Tensor depthwise = DepthwiseConv2D(input, depthwise_filter, strides, padding, first, where);
  return Conv2D(depthwise, pointwise_filter, 1, "VALID",
                {.data_format = options.data_format, .name = options.name}, where);
}

Tensor AtrousConv2D(const Tensor& value, const Tensor& filters, int64_t rate,
                    const Padding& padding, absl::string_view name, SourceLocation where) {
  return Conv2D(value, filters, 1, padding, {.dilations = rate, .name = std::string(name)}, where);
}

Tensor Conv1DTranspose(const Tensor& input, const Tensor& filters,
                       const ShapeArgument& output_shape, const Ints& strides,
                       const Padding& padding, const ConvOptions& options, SourceLocation where) {
  return AddTranspose("Conv1DTranspose", input, filters, output_shape,
                      {1, strides, padding, options}, where);
}

Tensor Conv2DTranspose(const Tensor& value, const Tensor& filter, const ShapeArgument& output_shape,
                       const Ints& strides, const Padding& padding, const ConvOptions& options,
                       SourceLocation where) {
  return AddTranspose("Conv2DTranspose", value, filter, output_shape,
                      {2, strides, padding, options}, where);
}

Tensor Conv3DTranspose(const Tensor& value, const Tensor& filter, const ShapeArgument& output_shape,
                       const Ints& strides, const Padding& padding, const ConvOptions& options,
                       SourceLocation where) {
  return AddTranspose("Conv3DTranspose", value, filter, output_shape,
                      {3, strides, padding, options}, where);
}

}  // namespace penstock::session::nn
