// Pooling and normalization over windows of channels.
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/ops/spatial.h"

namespace penstock::session::nn {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

struct PoolArguments {
  int spatial;
  bool max;
  Ints ksize, strides;
  Padding padding;
  PoolOptions options;
};

Value PoolOf(Value x, const PoolArguments& a) {
  const auto layout = internal::LayoutOf(a.options.data_format, a.spatial);
  if (!layout.has_value()) {
    return Reject(x, "unknown data_format \"", a.options.data_format, "\"");
  }
  if (x.rank() != layout->rank()) {
    return Reject(x, "expects ", layout->rank(), " axes, got ", x.type().ToString());
  }
  const auto size = internal::PerAxis(a.ksize, *layout);
  const auto strides = internal::PerAxis(a.strides, *layout);
  if (!size.has_value() || !strides.has_value()) {
    return Reject(x, "ksize and strides are one positive number, one for each of the ", a.spatial,
                  " spatial axes, or one for each of the ", layout->rank(), " axes");
  }
  const std::vector<int64_t> ones(layout->rank(), 1);
  const auto padding = internal::PaddingOf(a.padding, x.shape(), *size, *strides, ones);
  if (!padding.has_value()) {
    return Reject(x, "padding is SAME, VALID or a pair for each of the ", layout->rank(),
                  " axes, not \"", a.padding.name(), "\"");
  }
  const ir::WindowOptions window{.size = *size, .strides = *strides, .padding = *padding};
  if (a.max) return ir::ReduceWindow(x, ir::WindowReducer::kMax, window);
  const Value sum = ir::ReduceWindow(x, ir::WindowReducer::kSum, window);
  if (a.padding.name() == "VALID") {
    double count = 1;
    for (const int64_t extent : *size) count *= static_cast<double>(extent);
    return sum.valid() ? sum / count : sum;
  }
  return sum / ir::ReduceWindow(ir::SplatLike(x, 1), ir::WindowReducer::kSum, window);
}

Tensor AddPool(absl::string_view type, const Tensor& value, const PoolArguments& a,
               SourceLocation where) {
  return AddOp(type, {value}, a.options.name, where, [a](In in) { return PoolOf(in[0], a); });
}

}  // namespace

#define PENSTOCK_POOL_(name_, spatial_, max_)                                                 \
  Tensor name_(const Tensor& value, const Ints& ksize, const Ints& strides,                   \
               const Padding& padding, const PoolOptions& options, SourceLocation where) {    \
    return AddPool(#name_, value, {spatial_, max_, ksize, strides, padding, options}, where); \
  }
PENSTOCK_POOL_(MaxPool, 2, true)
PENSTOCK_POOL_(AvgPool, 2, false)
PENSTOCK_POOL_(MaxPool1D, 1, true)
PENSTOCK_POOL_(AvgPool1D, 1, false)
PENSTOCK_POOL_(MaxPool3D, 3, true)
PENSTOCK_POOL_(AvgPool3D, 3, false)
#undef PENSTOCK_POOL_

Tensor LocalResponseNormalization(const Tensor& input,
                                  const LocalResponseNormalizationOptions& options,
                                  SourceLocation where) {
  return AddOp("LRN", {input}, options.name, where, [options](In in) -> Value {
    const Value& x = in[0];
    if (x.rank() != 4 || options.depth_radius < 0) {
      return Reject(x, "expects 4 axes and a depth_radius of at least 0, got ",
                    x.type().ToString());
    }
    const int64_t r = options.depth_radius;
    const Value sum = ir::ReduceWindow(
        ir::Square(x), ir::WindowReducer::kSum,
        {.size = {1, 1, 1, 2 * r + 1}, .padding = {{0, 0}, {0, 0}, {0, 0}, {r, r}}});
    if (!sum.valid()) return sum;
    const Value base = sum * options.alpha + options.bias;
    return x * ir::Power(base, ir::SplatLike(base, -options.beta));
  });
}

}  // namespace penstock::session::nn
