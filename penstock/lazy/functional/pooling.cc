// Pooling.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::Value;
using ir::Values;

// A window over the last axes of x.
struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

// Number of positions on one axis.
int64_t Positions(int64_t extent, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                  bool ceil_mode) {
  const int64_t span = extent + 2 * padding - dilation * (kernel - 1) - 1;
  int64_t count = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  // The last window starts within the input or its low padding.
  if (ceil_mode && (count - 1) * stride >= extent + padding) --count;
  return count;
}

// High padding so that there are that many positions.
int64_t HighPadding(int64_t extent, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation, int64_t positions) {
  const int64_t covered = (positions - 1) * stride + dilation * (kernel - 1) + 1;
  return std::max(padding, covered - extent - padding);
}

// Checks and completes the sizes; false after an error.
bool Resolve(absl::string_view name, const Tensor& x, int64_t spatial, const Sizes& kernel,
             const Sizes& stride, const Sizes& padding, const Sizes& dilation, Window& out,
             SourceLocation where) {
  if (!x.defined() || (x.dim() != spatial + 1 && x.dim() != spatial + 2)) {
    FailOp(name, {x},
           absl::StrCat("expects ", spatial + 2, " dims, or ", spatial + 1, " without the batch"),
           where);
    return false;
  }
  const auto axes = static_cast<size_t>(spatial);
  out = {kernel.Each(axes), stride.empty() ? kernel.Each(axes) : stride.Each(axes),
         padding.Each(axes), dilation.Each(axes)};
  bool valid =
      !out.kernel.empty() && !out.stride.empty() && !out.padding.empty() && !out.dilation.empty();
  for (size_t i = 0; valid && i < axes; ++i) {
    const int64_t extent = x.size(static_cast<int64_t>(i) - spatial);
    valid = out.kernel[i] > 0 && out.stride[i] > 0 && out.dilation[i] > 0 && out.padding[i] >= 0 &&
            out.padding[i] * 2 <= out.kernel[i] &&
            extent + 2 * out.padding[i] >= out.dilation[i] * (out.kernel[i] - 1) + 1;
  }
  if (!valid) {
    FailOp(name, {x},
           absl::StrCat("kernel_size ", kernel.ToString(), ", stride ", stride.ToString(),
                        ", padding ", padding.ToString(), " and dilation ", dilation.ToString(),
                        " must be one number, or ", axes,
                        ", above 0 (padding: up to half of the kernel), and the kernel must fit"),
           where);
  }
  return valid;
}

ir::WindowOptions ToWindowOptions(const Shape& shape, const Window& window, bool ceil_mode) {
  const size_t leading = static_cast<size_t>(shape.rank()) - window.kernel.size();
  ir::WindowOptions options{.size = std::vector<int64_t>(leading, 1),
                            .strides = std::vector<int64_t>(leading, 1),
                            .dilation = std::vector<int64_t>(leading, 1),
                            .padding = {leading, {0, 0}}};
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const int64_t extent = shape.dim(static_cast<int>(leading + i)), kernel = window.kernel[i],
                  stride = window.stride[i], padding = window.padding[i],
                  dilation = window.dilation[i];
    const int64_t positions = Positions(extent, kernel, stride, padding, dilation, ceil_mode);
    options.size.push_back(kernel);
    options.strides.push_back(stride);
    options.dilation.push_back(dilation);
    options.padding.emplace_back(padding,
                                 HighPadding(extent, kernel, stride, padding, dilation, positions));
  }
  return options;
}

Tensor MaxPool(absl::string_view name, int64_t spatial, const Tensor& x, const Sizes& kernel_size,
               const MaxPoolOptions& options, SourceLocation where) {
  Window window;
  if (!Resolve(name, x, spatial, kernel_size, options.stride, options.padding, options.dilation,
               window, where)) {
    return Tensor();
  }
  return Record(name, {x}, where, [&](const Values& in) {
    return ir::ReduceWindow(in[0], ir::WindowReducer::kMax,
                            ToWindowOptions(in[0].shape(), window, options.ceil_mode));
  });
}

// Number of elements that each position's sum is divided by, on one axis.
std::vector<double> Divisors(int64_t extent, int64_t kernel, int64_t stride, int64_t padding,
                             const AvgPoolOptions& options) {
  std::vector<double> divisors;
  const int64_t positions = Positions(extent, kernel, stride, padding, 1, options.ceil_mode);
  for (int64_t i = 0; i < positions; ++i) {
    const int64_t begin = i * stride - padding;
    const int64_t end = std::min(begin + kernel, extent + padding);
    const int64_t count = options.count_include_pad
                              ? end - begin
                              : std::min(end, extent) - std::max<int64_t>(begin, 0);
    divisors.push_back(static_cast<double>(count));
  }
  return divisors;
}

// `values` along `axis` of a shape of that rank with ones elsewhere.
Value AlongAxis(ir::Graph& graph, const std::vector<double>& values, DType dtype, int rank,
                int axis) {
  Array array = Array::Uninitialized(DType::kF64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), array.mutable_data<double>());
  std::vector<int64_t> shape(rank, 1);
  shape[axis] = static_cast<int64_t>(values.size());
  return ir::Reshape(ir::Convert(ir::Constant(graph, *array.Cast(DType::kF32)), dtype),
                     Shape(shape));
}

Value DividedByCounts(Value sums, const Shape& input, const Window& window,
                      const AvgPoolOptions& options) {
  if (options.divisor_override) return sums / static_cast<double>(*options.divisor_override);
  double uniform = 1;
  const int leading = input.rank() - static_cast<int>(window.kernel.size());
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const int axis = leading + static_cast<int>(i);
    const std::vector<double> divisors =
        Divisors(input.dim(axis), window.kernel[i], window.stride[i], window.padding[i], options);
    if (std::all_of(divisors.begin(), divisors.end(), [&](double d) { return d == divisors[0]; })) {
      uniform *= divisors.empty() ? 1 : divisors[0];
    } else {
      sums = sums / AlongAxis(*sums.graph(), divisors, sums.dtype(), input.rank(), axis);
    }
  }
  return uniform == 1 ? sums : sums / uniform;
}

Tensor AvgPool(absl::string_view name, int64_t spatial, const Tensor& x, const Sizes& kernel_size,
               const AvgPoolOptions& options, SourceLocation where) {
  Window window;
  if (!Resolve(name, x, spatial, kernel_size, options.stride, options.padding, 1, window, where)) {
    return Tensor();
  }
  if (options.divisor_override == 0) {
    return FailOp(name, {x}, "divisor_override must not be 0", where);
  }
  return Record(name, {x}, where, [&](const Values& in) {
    // The sums of 16-bit numbers may be too large for these.
    const DType dtype = in[0].dtype();
    const Value x = base::IsFloat(dtype) ? lazy::internal::Widened(in[0]) : in[0];
    const Value sums = ir::ReduceWindow(x, ir::WindowReducer::kSum,
                                        ToWindowOptions(in[0].shape(), window, options.ceil_mode));
    if (!sums.valid()) return sums;
    return ir::Convert(DividedByCounts(sums, in[0].shape(), window, options), dtype);
  });
}

// ---- Adaptive pooling: position i covers [floor(i n / out), ceil((i + 1) n / out)) ----

Value MeanOver(Value x, int64_t axis, int64_t out) {
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  if (out == extent) return x;
  if (out == 1) return ir::ReduceMean(x, {axis}, /*keep_dims=*/true);
  Values parts;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * extent / out, end = ((i + 1) * extent + out - 1) / out;
    parts.push_back(ir::ReduceMean(ir::SliceAxis(x, axis, begin, end), {axis}, true));
  }
  return ir::Concatenate(parts, axis);
}

// Maxima of windows of `size` along an axis, one after the other. The gradient goes to the first of
// equal ones, not to all as ReduceMax's does.
Value WindowMax(Value x, int64_t axis, int64_t size) {
  ir::WindowOptions options{.size = std::vector<int64_t>(x.rank(), 1),
                            .strides = std::vector<int64_t>(x.rank(), 1)};
  options.size[axis] = options.strides[axis] = size;
  return ir::ReduceWindow(x, ir::WindowReducer::kMax, options);
}

Value MaxOver(Value x, int64_t axis, int64_t out) {
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  if (extent % out == 0) return WindowMax(x, axis, extent / out);
  Values parts;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * extent / out, end = ((i + 1) * extent + out - 1) / out;
    parts.push_back(WindowMax(ir::SliceAxis(x, axis, begin, end), axis, end - begin));
  }
  return ir::Concatenate(parts, axis);
}

Tensor Adaptive(absl::string_view name, int64_t spatial, const Tensor& x, const Sizes& output_size,
                SourceLocation where, Value (*over)(Value x, int64_t axis, int64_t out)) {
  constexpr int64_t kMost = 1 << 14;  // each position is an operation
  std::vector<int64_t> sizes = output_size.Each(static_cast<size_t>(spatial));
  bool valid = x.defined() && !sizes.empty() && (x.dim() == spatial + 1 || x.dim() == spatial + 2);
  for (size_t i = 0; valid && i < sizes.size(); ++i) {
    // None in PyTorch is -1 here: the input's size.
    const int64_t extent = x.size(static_cast<int64_t>(i) - spatial);
    if (sizes[i] == -1) sizes[i] = extent;
    valid = sizes[i] > 0 && sizes[i] <= kMost && extent > 0;
  }
  if (!valid) {
    return FailOp(name, {x},
                  absl::StrCat("expects ", spatial + 2, " dims (or ", spatial + 1,
                               " without the batch), and an output_size of one number, or ",
                               spatial, ", from 1 to ", kMost, "; got ", output_size.ToString()),
                  where);
  }
  return Record(name, {x}, where, [&](const Values& in) {
    const bool all_ones = std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s == 1; });
    const int64_t first = in[0].rank() - spatial;
    if (all_ones && over == MeanOver) {
      ir::Axes axes;
      for (int64_t i = 0; i < spatial; ++i) axes.push_back(first + i);
      return ir::ReduceMean(in[0], axes, /*keep_dims=*/true);
    }
    Value y = in[0];
    // From the last axis to the first: so the first of equal maxima is the first in memory.
    for (size_t i = sizes.size(); i-- > 0;) {
      if (y.valid()) y = over(y, first + static_cast<int64_t>(i), sizes[i]);
    }
    return y;
  });
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const Sizes& kernel_size, const MaxPoolOptions& options,
                  SourceLocation where) {
  return MaxPool("max_pool1d", 1, x, kernel_size, options, where);
}
Tensor max_pool2d(const Tensor& x, const Sizes& kernel_size, const MaxPoolOptions& options,
                  SourceLocation where) {
  return MaxPool("max_pool2d", 2, x, kernel_size, options, where);
}
Tensor avg_pool1d(const Tensor& x, const Sizes& kernel_size, const AvgPoolOptions& options,
                  SourceLocation where) {
  return AvgPool("avg_pool1d", 1, x, kernel_size, options, where);
}
Tensor avg_pool2d(const Tensor& x, const Sizes& kernel_size, const AvgPoolOptions& options,
                  SourceLocation where) {
  return AvgPool("avg_pool2d", 2, x, kernel_size, options, where);
}
Tensor max_pool3d(const Tensor& x, const Sizes& kernel_size, const MaxPoolOptions& options,
                  SourceLocation where) {
  return MaxPool("max_pool3d", 3, x, kernel_size, options, where);
}
Tensor avg_pool3d(const Tensor& x, const Sizes& kernel_size, const AvgPoolOptions& options,
                  SourceLocation where) {
  return AvgPool("avg_pool3d", 3, x, kernel_size, options, where);
}
Tensor adaptive_avg_pool3d(const Tensor& x, const Sizes& output_size, SourceLocation where) {
  return Adaptive("adaptive_avg_pool3d", 3, x, output_size, where, MeanOver);
}
Tensor adaptive_avg_pool1d(const Tensor& x, const Sizes& output_size, SourceLocation where) {
  return Adaptive("adaptive_avg_pool1d", 1, x, output_size, where, MeanOver);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const Sizes& output_size, SourceLocation where) {
  return Adaptive("adaptive_avg_pool2d", 2, x, output_size, where, MeanOver);
}
Tensor adaptive_max_pool1d(const Tensor& x, const Sizes& output_size, SourceLocation where) {
  return Adaptive("adaptive_max_pool1d", 1, x, output_size, where, MaxOver);
}
Tensor adaptive_max_pool2d(const Tensor& x, const Sizes& output_size, SourceLocation where) {
  return Adaptive("adaptive_max_pool2d", 2, x, output_size, where, MaxOver);
}

}  // namespace penstock::lazy::nn::functional
