// Sampling of images at points of a grid.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

// Positions of elements along an axis for points from -1 to 1, which are the centers of the first
// and the last element (align_corners) or their outer edges.
Value Unnormalized(Value at, int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  return align_corners ? (at + 1.0) * ((n - 1) / 2) : ((at + 1.0) * n - 1.0) / 2.0;
}

// Positions clamped into the image; outside of it, and at its ends, without gradient, as PyTorch.
Value Clipped(Value at, int64_t size) {
  const Value low = SplatLike(at, 0), high = SplatLike(at, static_cast<double>(size - 1));
  const Value inside = ir::And(ir::Greater(at, low), ir::Less(at, high));
  const Value end = ir::Select(ir::Greater(at, low), high, low);  // that of NaN is 0
  return ir::Select(inside, at, end);
}

// Positions reflected at the ends, as often as needed.
Value Reflected(Value at, int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5,
               span = static_cast<double>(size) - (align_corners ? 1 : 0);
  if (span <= 0) return SplatLike(at, 0);
  const Value distance = ir::Abs(at - low);
  const Value flips = ir::StopGradient(ir::Floor(distance / span));
  const Value extra = distance - flips * span;
  const Value is_odd = ir::Equal(ir::Remainder(flips, SplatLike(flips, 2)), SplatLike(flips, 1));
  return ir::Select(is_odd, span - extra, extra) + low;
}

Value SourcePosition(Value at, int64_t size, const GridSampleOptions& options) {
  at = Unnormalized(at, size, options.align_corners);
  if (options.padding_mode == "border") return Clipped(at, size);
  if (options.padding_mode == "reflection") {
    return Clipped(Reflected(at, size, options.align_corners), size);
  }
  return at;
}

// x [N, C, H, W] at integral positions [N, P] of its rows and columns: [N, C, P], 0 outside.
Value Gathered(Value x, Value row, Value column) {
  const Shape& shape = x.shape();
  const int64_t height = shape.dim(2), width = shape.dim(3);
  const auto within = [](Value at, int64_t size) {
    return ir::And(ir::GreaterEqual(at, SplatLike(at, 0)),
                   ir::Less(at, SplatLike(at, static_cast<double>(size))));
  };
  const Value inside = ir::And(within(row, height), within(column, width));
  const Value zero = SplatLike(row, 0);
  const auto index = [&](Value at) {
    return ir::Convert(ir::Select(inside, at, zero), DType::kI32);
  };
  const Value flat = index(row) * static_cast<double>(width) + index(column);
  const Value pixels = ir::Reshape(x, {shape.dim(0), shape.dim(1), height * width});
  const Value taken = ir::TakeAlongAxis(pixels, ir::ExpandDims(flat, 1), 2);
  return ir::Select(ir::ExpandDims(inside, 1), taken, SplatLike(taken, 0));
}

Value Bilinear(Value x, Value row, Value column) {
  const Value top = ir::StopGradient(ir::Floor(row)), left = ir::StopGradient(ir::Floor(column));
  const Value down = row - top, right = column - left;
  const auto corner = [&](double i, double j) {
    const Value weight = (i == 0 ? 1.0 - down : down) * (j == 0 ? 1.0 - right : right);
    return Gathered(x, top + i, left + j) * ir::ExpandDims(weight, 1);
  };
  return corner(0, 0) + corner(0, 1) + corner(1, 0) + corner(1, 1);
}

// Empty: the arguments are valid.
std::string WrongGrid(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  if (!x.defined() || !grid.defined()) return "an input is undefined";
  if (x.dim() != 4 || grid.dim() != 4 || grid.size(3) != 2 || grid.size(0) != x.size(0) ||
      x.size(2) == 0 || x.size(3) == 0 || !base::IsFloat(x.dtype()) ||
      !base::IsFloat(grid.dtype())) {
    return "expects floats: images [N, C, H, W] that are not empty, and a grid [N, H', W', 2]";
  }
  if (options.mode != "bilinear" && options.mode != "nearest") {
    return absl::StrCat("mode must be \"bilinear\" or \"nearest\", got \"", options.mode, "\"");
  }
  for (const char* known : {"zeros", "border", "reflection"}) {
    if (options.padding_mode == known) return "";
  }
  return absl::StrCat("padding_mode must be \"zeros\", \"border\" or \"reflection\", got \"",
                      options.padding_mode, "\"");
}

}  // namespace

Tensor grid_sample(const Tensor& input, const Tensor& points, const GridSampleOptions& options,
                   SourceLocation where) {
  Tensor x = input, grid = points;
  Tensor* const both[] = {&x, &grid};
  lazy::internal::CastAll("grid_sample", both);
  const std::string wrong = WrongGrid(x, grid, options);
  if (!wrong.empty()) return FailOp("grid_sample", {x, grid}, wrong, where);
  return Record("grid_sample", {x, grid}, where, [&](const Values& in) {
    const Shape &image = in[0].shape(), &out = in[1].shape();
    const int64_t n = out.dim(0), height = out.dim(1), width = out.dim(2);
    const Value flat = lazy::internal::Widened(ir::Reshape(in[1], {n, height * width, 2}));
    const auto coordinate = [&](int64_t i, int64_t size) {
      return SourcePosition(ir::Squeeze(ir::SliceAxis(flat, 2, i, i + 1), {2}), size, options);
    };
    const Value column = coordinate(0, image.dim(3)), row = coordinate(1, image.dim(2));
    const Value wide = lazy::internal::Widened(in[0]);
    const Value y = options.mode == "nearest" ? Gathered(wide, ir::Round(row), ir::Round(column))
                                              : Bilinear(wide, row, column);
    return ir::Convert(ir::Reshape(y, {n, image.dim(1), height, width}), in[0].dtype());
  });
}

Tensor affine_grid(const Tensor& theta, const Sizes& size, bool align_corners,
                   SourceLocation where) {
  constexpr int64_t kMost = int64_t{1} << 32;  // pixels
  if (!lazy::internal::IsFloatTensor(theta) || theta.dim() != 3 || theta.size(1) != 2 ||
      theta.size(2) != 3 || size.size() != 4 || size[0] != theta.size(0) || size[2] <= 0 ||
      size[3] <= 0 || size[2] > kMost / size[3]) {
    return FailOp("affine_grid", {theta},
                  absl::StrCat("expects floats theta [N, 2, 3] and a size of four numbers (N, C, "
                               "H, W), got ",
                               size.ToString()),
                  where);
  }
  return Record("affine_grid", {theta}, where, [&](const Values& in) {
    const int64_t height = size[2], width = size[3];
    ir::Graph& graph = *in[0].graph();
    const ir::TensorType type{in[0].dtype(), {height, width}};
    // Centers of `count` pixels from -1 to 1.
    const auto centers = [&](int64_t count, int64_t axis) {
      const Value i = ir::Iota(graph, type, axis);
      const auto n = static_cast<double>(count);
      if (!align_corners) return (i * 2.0 + (1.0 - n)) / n;
      return count == 1 ? i : i * (2 / (n - 1)) - 1.0;
    };
    Values parts;
    for (const Value& part : {centers(width, 1), centers(height, 0), ir::Splat(graph, type, 1)}) {
      parts.push_back(ir::Reshape(part, {height * width, 1}));
    }
    const Value points = ir::Concatenate(parts, 1);  // [H W, 3]
    const Value moved =
        ir::DotGeneral(in[0], points, {.lhs_contracting = {2}, .rhs_contracting = {1}});
    return ir::Reshape(ir::Transpose(moved, {0, 2, 1}), {size[0], height, width, 2});
  });
}

}  // namespace penstock::lazy::nn::functional
