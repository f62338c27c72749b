// Convolution over any number of spatial axes. Both gradients are convolutions again (Dumoulin and
// Visin: A guide to convolution arithmetic for deep learning, 2016), so every derivative is one.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

// Attributes of a convolution node.
struct Conv {
  Ints strides, low, high, lhs_dilation, rhs_dilation;
  int64_t feature_groups, batch_groups;
  ConvolutionOptions::Dimensions dims;

  int spatial() const { return static_cast<int>(strides.size()); }
};

Attributes ToAttributes(const Conv& c) {
  const auto flat = [](int64_t first, int64_t second, const Axes& spatial) {
    Ints all{first, second};
    all.insert(all.end(), spatial.begin(), spatial.end());
    return all;
  };
  return {{"strides", c.strides},
          {"low", c.low},
          {"high", c.high},
          {"lhs_dilation", c.lhs_dilation},
          {"rhs_dilation", c.rhs_dilation},
          {"feature_group_count", c.feature_groups},
          {"batch_group_count", c.batch_groups},
          {"input", flat(c.dims.input_batch, c.dims.input_feature, c.dims.input_spatial)},
          {"kernel",
           flat(c.dims.kernel_input_feature, c.dims.kernel_output_feature, c.dims.kernel_spatial)},
          {"output", flat(c.dims.output_batch, c.dims.output_feature, c.dims.output_spatial)}};
}

Conv FromAttributes(const Attributes& a) {
  Conv c;
  c.strides = a.Get<Ints>("strides");
  c.low = a.Get<Ints>("low");
  c.high = a.Get<Ints>("high");
  c.lhs_dilation = a.Get<Ints>("lhs_dilation");
  c.rhs_dilation = a.Get<Ints>("rhs_dilation");
  c.feature_groups = a.Get<int64_t>("feature_group_count");
  c.batch_groups = a.Get<int64_t>("batch_group_count");
  const Ints &in = a.Get<Ints>("input"), &kernel = a.Get<Ints>("kernel"),
             &out = a.Get<Ints>("output");
  c.dims = {.input_batch = in[0],
            .input_feature = in[1],
            .input_spatial = Axes(in.begin() + 2, in.end()),
            .kernel_input_feature = kernel[0],
            .kernel_output_feature = kernel[1],
            .kernel_spatial = Axes(kernel.begin() + 2, kernel.end()),
            .output_batch = out[0],
            .output_feature = out[1],
            .output_spatial = Axes(out.begin() + 2, out.end())};
  return c;
}

// The size that `size` elements take with `dilation - 1` holes between neighbors.
int64_t Dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

InferResult InferConvolution(const Node& node) {
  const TensorType &in = node.operands[0].type(), &kernel = node.operands[1].type();
  const Conv c = FromAttributes(node.attributes);
  const auto wrong = [&](absl::string_view message) {
    return OpError(node, absl::StrCat(message, "; input ", in.ToString(), ", kernel ",
                                      kernel.ToString(), ", feature groups ", c.feature_groups,
                                      ", batch groups ", c.batch_groups));
  };
  if (in.dtype != kernel.dtype || in.shape.rank() != kernel.shape.rank() ||
      in.shape.rank() != c.spatial() + 2) {
    return wrong("input and kernel must have one element type and as many axes");
  }
  for (const char* of : {"input", "kernel", "output"}) {
    const Ints& given = node.attributes.Get<Ints>(of);
    Ints sorted = given, all(in.shape.rank());
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all) {
      return wrong(absl::StrCat(of, " dimensions ", MlirList(given), " do not name each of ",
                                all.size(), " axes once"));
    }
  }
  const int64_t channels = in.shape.dim(c.dims.input_feature),
                batch = in.shape.dim(c.dims.input_batch);
  const int64_t filters = kernel.shape.dim(c.dims.kernel_output_feature);
  if (c.feature_groups < 1 || c.batch_groups < 1 || (c.feature_groups > 1 && c.batch_groups > 1) ||
      channels % c.feature_groups != 0 || filters % c.feature_groups != 0 ||
      batch % c.batch_groups != 0 || filters % c.batch_groups != 0) {
    return wrong("groups must divide channels, filters and batch");
  }
  if (kernel.shape.dim(c.dims.kernel_input_feature) * c.feature_groups != channels) {
    return wrong(absl::StrCat("the kernel expects ",
                              kernel.shape.dim(c.dims.kernel_input_feature) * c.feature_groups,
                              " channels, the input has ", channels));
  }
  Ints dims(in.shape.rank());
  dims[c.dims.output_batch] = batch / c.batch_groups;
  dims[c.dims.output_feature] = filters;
  for (int i = 0; i < c.spatial(); ++i) {
    if (c.strides[i] < 1 || c.lhs_dilation[i] < 1 || c.rhs_dilation[i] < 1) {
      return wrong("strides and dilations must be above 0");
    }
    const int64_t extent =
        Dilated(in.shape.dim(c.dims.input_spatial[i]), c.lhs_dilation[i]) + c.low[i] + c.high[i];
    const int64_t reach = Dilated(kernel.shape.dim(c.dims.kernel_spatial[i]), c.rhs_dilation[i]);
    dims[c.dims.output_spatial[i]] =
        extent < reach || reach == 0 ? 0 : (extent - reach) / c.strides[i] + 1;
  }
  return std::vector<TensorType>{{in.dtype, Shape(dims)}};
}

// Splits axis `from` into (groups, rest) and merges the groups into axis `into`, as its leading
// part.
Value MoveGroups(Value x, int64_t from, int64_t into, int64_t groups) {
  if (groups == 1) return x;
  Ints dims(x.shape().begin(), x.shape().end());
  const int64_t rest = dims[from] / groups;
  dims[from] = rest;
  dims.insert(dims.begin() + from, groups);  // [.., groups, rest, ..]
  const Value split = Reshape(x, Shape(dims));
  const int64_t into_now = into >= from ? into + 1 : into;
  Axes permutation;
  for (int64_t i = 0; i < split.rank(); ++i) {
    if (i == from) continue;
    if (i == into_now) permutation.push_back(from);
    permutation.push_back(i);
  }
  Ints joined(x.shape().begin(), x.shape().end());
  joined[from] = rest;
  joined[into] *= groups;
  return Reshape(Transpose(split, permutation), Shape(joined));
}

Value EmitConv(Value input, Value kernel, const Conv& c);

Value EmitInputGradient(Value cotangent, Value kernel, const Attributes& of_convolution,
                        const Shape& input);
Value EmitKernelGradient(Value input, Value cotangent, const Attributes& of_convolution,
                         const Shape& kernel);

// Input gradient: the cotangent, dilated by the strides, convolved with the reversed kernel with
// input and output features exchanged.
Value InputGradient(Value cotangent, Value kernel, const Conv& c, const Shape& input) {
  Conv t = c;
  t.dims.input_batch = c.dims.output_batch;
  t.dims.input_feature = c.dims.output_feature;
  t.dims.input_spatial = c.dims.output_spatial;
  std::swap(t.dims.kernel_input_feature, t.dims.kernel_output_feature);
  t.dims.output_batch = c.dims.input_batch;
  t.dims.output_feature = c.dims.input_feature;
  t.dims.output_spatial = c.dims.input_spatial;
  if (c.feature_groups > 1) {
    kernel = MoveGroups(kernel, c.dims.kernel_output_feature, c.dims.kernel_input_feature,
                        c.feature_groups);
  } else if (c.batch_groups > 1) {
    kernel = MoveGroups(kernel, c.dims.kernel_output_feature, c.dims.kernel_input_feature,
                        c.batch_groups);
    t.feature_groups = c.batch_groups;
  }
  t.batch_groups = 1;
  for (int i = 0; i < c.spatial(); ++i) {
    const int64_t in = Dilated(input.dim(c.dims.input_spatial[i]), c.lhs_dilation[i]);
    const int64_t reach = Dilated(kernel.shape().dim(c.dims.kernel_spatial[i]), c.rhs_dilation[i]);
    const int64_t out = Dilated(cotangent.shape().dim(c.dims.output_spatial[i]), c.strides[i]);
    t.low[i] = reach - c.low[i] - 1;
    t.high[i] = in + reach - 1 - out - t.low[i];
  }
  t.strides = c.lhs_dilation;
  t.lhs_dilation = c.strides;
  Value gradient = EmitConv(cotangent, Reverse(kernel, c.dims.kernel_spatial), t);
  if (c.batch_groups > 1) {
    gradient = MoveGroups(gradient, c.dims.input_feature, c.dims.input_batch, c.batch_groups);
  }
  return gradient;
}

// Kernel gradient: the input convolved with the cotangent as kernel; batch and features are
// exchanged, so that the sum is over the batch.
Value KernelGradient(Value input, Value cotangent, const Conv& c, const Shape& kernel) {
  Conv t = c;
  std::swap(t.dims.input_batch, t.dims.input_feature);
  t.dims.kernel_input_feature = c.dims.output_batch;
  t.dims.kernel_output_feature = c.dims.output_feature;
  t.dims.kernel_spatial = c.dims.output_spatial;
  t.dims.output_batch = c.dims.kernel_input_feature;
  t.dims.output_feature = c.dims.kernel_output_feature;
  t.dims.output_spatial = c.dims.kernel_spatial;
  t.feature_groups = c.batch_groups;
  t.batch_groups = c.feature_groups;
  for (int i = 0; i < c.spatial(); ++i) {
    const int64_t in = Dilated(input.shape().dim(c.dims.input_spatial[i]), c.lhs_dilation[i]);
    const int64_t reach = Dilated(kernel.dim(c.dims.kernel_spatial[i]), c.rhs_dilation[i]);
    const int64_t out = Dilated(cotangent.shape().dim(c.dims.output_spatial[i]), c.strides[i]);
    t.high[i] = out + reach - in - c.low[i] - 1;
  }
  t.strides = c.rhs_dilation;
  t.rhs_dilation = c.strides;
  return EmitConv(input, cotangent, t);
}

// Dimension numbers: "[b, 0, 1, f]".
std::string DimensionNames(int64_t first, const char* first_name, int64_t second,
                           const char* second_name, const Axes& spatial) {
  std::vector<std::string> names(spatial.size() + 2);
  names[first] = first_name;
  names[second] = second_name;
  for (size_t i = 0; i < spatial.size(); ++i) names[spatial[i]] = absl::StrCat(i);
  return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
}

void PrintConvolution(Printer& printer, const Node& node) {
  const Conv c = FromAttributes(node.attributes);
  const ConvolutionOptions::Dimensions& d = c.dims;
  std::vector<std::string> padding;
  for (int i = 0; i < c.spatial(); ++i)
    padding.push_back(absl::StrCat("[", c.low[i], ", ", c.high[i], "]"));
  std::string precision;
  if (const absl::string_view named = printer.precision(); !named.empty()) {
    precision = absl::StrCat(", precision_config = [#stablehlo<precision ", named,
                             ">, #stablehlo<precision ", named, ">]");
  }
  printer.Line(
      node,
      absl::StrCat(
          "stablehlo.convolution(", printer.Names(node.operands), ") dim_numbers = ",
          DimensionNames(d.input_batch, "b", d.input_feature, "f", d.input_spatial), "x",
          DimensionNames(d.kernel_input_feature, "i", d.kernel_output_feature, "o",
                         d.kernel_spatial),
          "->", DimensionNames(d.output_batch, "b", d.output_feature, "f", d.output_spatial),
          ", window = {stride = ", MlirList(c.strides), ", pad = [", absl::StrJoin(padding, ", "),
          "], lhs_dilate = ", MlirList(c.lhs_dilation), ", rhs_dilate = ", MlirList(c.rhs_dilation),
          "} {batch_group_count = ", c.batch_groups, " : i64, feature_group_count = ",
          c.feature_groups, " : i64", precision, "} : ", FunctionType(node)));
}

// Shape of a gradient's result: of the convolution's input, or of its kernel.
Shape ShapeOf(const Node& node) { return Shape(node.attributes.Get<Ints>("shape")); }

// A convolution and its two gradients are linear in both operands, and each is the derivative of
// the others. (Nothing to sum over gives zeros.)
const OpDef kConvolution = {
    .name = "stablehlo.convolution",
    .infer = InferConvolution,
    .gradient = [](const GradientArgs& g) -> Values {
      if (g.cotangent().shape().num_elements() == 0) return {Value(), Value()};
      const Value input = g.operand(0), kernel = g.operand(1);
      return {EmitInputGradient(g.cotangent(), kernel, g.node.attributes, input.shape()),
              EmitKernelGradient(input, g.cotangent(), g.node.attributes, kernel.shape())};
    },
    .print = PrintConvolution,
    .expensive = true};

const OpDef kInputGradient = {
    .name = "penstock.convolution_input_gradient",
    .infer = InferByDecomposing,
    .gradient = [](const GradientArgs& g) -> Values {
      const Value cotangent = g.operand(0), kernel = g.operand(1);
      return {EmitConv(g.cotangent(), kernel, FromAttributes(g.node.attributes)),
              EmitKernelGradient(g.cotangent(), cotangent, g.node.attributes, kernel.shape())};
    },
    .decompose = [](Graph&, const Node& node, const Values& in) -> Values {
      return {InputGradient(in[0], in[1], FromAttributes(node.attributes), ShapeOf(node))};
    }};

const OpDef kKernelGradient = {
    .name = "penstock.convolution_kernel_gradient",
    .infer = InferByDecomposing,
    .gradient = [](const GradientArgs& g) -> Values {
      const Value input = g.operand(0), cotangent = g.operand(1);
      return {EmitInputGradient(cotangent, g.cotangent(), g.node.attributes, input.shape()),
              EmitConv(input, g.cotangent(), FromAttributes(g.node.attributes))};
    },
    .decompose = [](Graph&, const Node& node, const Values& in) -> Values {
      return {KernelGradient(in[0], in[1], FromAttributes(node.attributes), ShapeOf(node))};
    }};

Value EmitGradient(const OpDef& op, Value a, Value b, Attributes attributes, const Shape& shape) {
  attributes.Set("shape", Ints(shape.begin(), shape.end()));
  return EmitOne(op, {a, b}, std::move(attributes));
}

Value EmitInputGradient(Value cotangent, Value kernel, const Attributes& of_convolution,
                        const Shape& input) {
  return EmitGradient(kInputGradient, cotangent, kernel, of_convolution, input);
}

Value EmitKernelGradient(Value input, Value cotangent, const Attributes& of_convolution,
                         const Shape& kernel) {
  return EmitGradient(kKernelGradient, input, cotangent, of_convolution, kernel);
}

// Turns negative padding into a slice of the input: XLA:CPU's convolutions read outside the input
// if the low padding is negative (seen with jaxlib 0.8 and 0.10). Padding that is negative only on
// the high side, as in the kernel gradient of most strided convolutions, stays as it is. Changes
// `input` and `c` together; leaves an invalid combination for the convolution to report.
void Crop(Value& input, Conv& c) {
  const int rank = input.rank();
  const bool negative =
      std::any_of(c.low.begin(), c.low.end(), [](int64_t low) { return low < 0; });
  if (!negative || static_cast<int>(c.dims.input_spatial.size()) != c.spatial()) return;
  Ints begin(rank, 0), end(input.shape().begin(), input.shape().end());
  for (int i = 0; i < c.spatial(); ++i) {
    const int64_t axis = c.dims.input_spatial[i], dilation = c.lhs_dilation[i];
    if (axis < 0 || axis >= rank || dilation < 1) return;
    const int64_t size = end[axis];
    const int64_t extent = Dilated(size, dilation) + c.low[i] + c.high[i];
    // Crops whole elements; if that removes too many holes between them, pads the rest again.
    const auto cut = [&](int64_t& padding) {
      if (padding >= 0) return int64_t{0};
      const int64_t elements = (-padding + dilation - 1) / dilation;
      padding += elements * dilation;
      return elements;
    };
    begin[axis] = cut(c.low[i]);
    end[axis] = size - cut(c.high[i]);
    if (begin[axis] < end[axis]) continue;
    begin[axis] = end[axis] = 0;  // only padding and holes are left
    c.low[i] = std::max<int64_t>(0, extent);
    c.high[i] = 0;
  }
  input = Slice(input, begin, end);
}

Value EmitConv(Value input, Value kernel, const Conv& c) {
  Conv cropped = c;
  Crop(input, cropped);
  return EmitOne(kConvolution, {input, kernel}, ToAttributes(cropped));
}

// Reads the options of a convolution of operands with `input`'s rank and fills in the defaults.
// False, and an error of the graph, for invalid options.
bool FromOptions(Value input, const ConvolutionOptions& options, Conv& c) {
  const int rank = input.rank(), spatial = rank - 2;
  const auto sized = [&](const Ints& given, absl::string_view what) {
    if (given.empty() || static_cast<int>(given.size()) == spatial) return true;
    input.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("convolution: ", what, " expects one number for each of ", spatial,
                     " spatial axes, got ", given.size())));
    return false;
  };
  if (rank < 2) {
    input.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("convolution: expects a batch and features, got ", input.type().ToString())));
    return false;
  }
  Ints low, high;
  for (const auto& [before, after] : options.padding) {
    low.push_back(before);
    high.push_back(after);
  }
  if (!sized(options.strides, "strides") || !sized(low, "padding") ||
      !sized(options.lhs_dilation, "lhs_dilation") ||
      !sized(options.rhs_dilation, "rhs_dilation")) {
    return false;
  }
  const auto or_default = [&](const Ints& given, int64_t value) {
    return given.empty() ? Ints(spatial, value) : given;
  };
  c = {.strides = or_default(options.strides, 1),
       .low = or_default(low, 0),
       .high = or_default(high, 0),
       .lhs_dilation = or_default(options.lhs_dilation, 1),
       .rhs_dilation = or_default(options.rhs_dilation, 1),
       .feature_groups = options.feature_group_count,
       .batch_groups = options.batch_group_count,
       .dims = options.dimensions};
  if (c.dims.input_batch < 0) {
    Axes after_batch, leading;
    for (int64_t i = 0; i < spatial; ++i) {
      after_batch.push_back(i + 1);
      leading.push_back(i);
    }
    c.dims = {.input_batch = 0,
              .input_feature = rank - 1,
              .input_spatial = after_batch,
              .kernel_input_feature = rank - 2,
              .kernel_output_feature = rank - 1,
              .kernel_spatial = leading,
              .output_batch = 0,
              .output_feature = rank - 1,
              .output_spatial = after_batch};
  }
  return true;
}

}  // namespace

Value Convolution(Value input, Value kernel, const ConvolutionOptions& options) {
  if (!input.valid() || !kernel.valid()) return Value();
  Conv c;
  return FromOptions(input, options, c) ? EmitConv(input, kernel, c) : Value();
}

Value ConvolutionTranspose(Value output, Value kernel, const Shape& input,
                           const ConvolutionOptions& options) {
  if (!output.valid() || !kernel.valid()) return Value();
  Conv c;
  if (!FromOptions(output, options, c)) return Value();
  return EmitInputGradient(output, kernel, ToAttributes(c), input);
}

std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t kernel, int64_t stride,
                                        int64_t dilation) {
  const int64_t positions = (size + stride - 1) / stride;
  const int64_t total =
      std::max<int64_t>(0, (positions - 1) * stride + Dilated(kernel, dilation) - size);
  return {total / 2, total - total / 2};
}

OpList ConvolutionOps() {
  static constexpr const OpDef* kOps[] = {&kConvolution, &kInputGradient, &kKernelGradient};
  return kOps;
}

}  // namespace penstock::ir
