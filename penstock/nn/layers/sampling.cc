#include "penstock/nn/layers/sampling.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/layers/resize.h"

namespace penstock::nn::internal {
namespace {

// Maps integers outside [0, size) into it per the fill mode; under "constant" they are unchanged.
Value Fold(Value place, int64_t size, const std::string& fill_mode) {
  const double n = static_cast<double>(size);
  const auto modulo = [](Value x, double m) { return x - ir::Floor(x / m) * m; };
  if (fill_mode == "wrap") return modulo(place, n);
  if (fill_mode == "nearest") {
    return ir::Clamp(ir::SplatLike(place, 0), place, ir::SplatLike(place, n - 1));
  }
  if (fill_mode == "reflect") {
    const Value folded = modulo(place, 2 * n);
    return ir::Minimum(folded, 2 * n - 1 - folded);
  }
  return place;
}

// A pixel that contributes to a sample, and its weight.
struct Tap {
  Value place;   // f32, integral
  Value weight;  // invalid: 1
};
std::vector<Tap> TapsOf(Value places, const std::string& interpolation) {
  if (interpolation == "nearest") return {{ir::Floor(places + 0.5), Value()}};
  const Value low = ir::Floor(places), fraction = places - low;
  return {{low, 1.0 - fraction}, {low + 1.0, fraction}};
}

// [batch or 1, n] positions among `size` pixels -> [batch or 1, n, size] weights.
Value MatrixOf(Value places, int64_t size, const Sampling& sampling) {
  const Value there = ir::Iota(*places.graph(), {DType::kF32, {1, 1, size}}, 2);
  Value matrix;
  for (const Tap& tap : TapsOf(ir::ExpandDims(places, 2), sampling.interpolation)) {
    Value one =
        ir::Convert(ir::Equal(Fold(tap.place, size, sampling.fill_mode), there), DType::kF32);
    if (tap.weight.valid()) one = one * tap.weight;
    matrix = matrix.valid() ? matrix + one : one;
  }
  return matrix;
}

}  // namespace

bool CheckSampling(CallContext& ctx, const Sampling& sampling) {
  const std::string& fill = sampling.fill_mode;
  if (fill != "reflect" && fill != "wrap" && fill != "nearest" && fill != "constant") {
    ctx.Fail(
        absl::StrCat("fill_mode must be reflect, wrap, nearest or constant, got \"", fill, "\""));
    return false;
  }
  if (sampling.interpolation != "bilinear" && sampling.interpolation != "nearest") {
    ctx.Fail(absl::StrCat("interpolation must be bilinear or nearest, got \"",
                          sampling.interpolation, "\""));
    return false;
  }
  return true;
}

Value SampleRowsAndColumns(Value images, Value rows, Value columns, const Sampling& sampling) {
  if (!images.valid() || !rows.valid() || !columns.valid()) return Value();
  const Value by_rows = MatrixOf(rows, images.shape().dim(1), sampling);
  const Value by_columns = MatrixOf(columns, images.shape().dim(2), sampling);
  Value y = ApplyMatrices(by_rows, by_columns, ir::Convert(images, DType::kF32));
  if (sampling.fill_mode == "constant") {
    // The remainder of a pixel's weights to 1 is the contribution from outside the image.
    const Value down = ir::ReduceSum(by_rows, {2}, true);
    const Value across = ir::ReduceSum(by_columns, {2}, true);
    const Value inside =
        ir::ExpandDims(down, 3) * ir::ExpandDims(ir::Transpose(across, {0, 2, 1}), 3);
    y = y + (1.0 - inside) * sampling.fill_value;
  }
  return ToPixels(y, images.dtype());
}

Value SampleAnywhere(Value images, Value rows, Value columns, const Sampling& sampling) {
  if (!images.valid() || !rows.valid() || !columns.valid()) return Value();
  ir::Graph& graph = *images.graph();
  const int64_t batch = images.shape().dim(0), height = images.shape().dim(1),
                width = images.shape().dim(2), channels = images.shape().dim(3);
  const Value pixels =
      ir::Reshape(ir::Convert(images, DType::kF32), {batch * height * width, channels});
  const Value first =
      ir::Iota(graph, {DType::kI32, {batch, 1, 1}}, 0) * static_cast<double>(height * width);
  const auto inside = [](Value place, int64_t size) {
    return ir::And(ir::GreaterEqual(place, ir::SplatLike(place, 0)),
                   ir::LessEqual(place, ir::SplatLike(place, static_cast<double>(size) - 1)));
  };
  Value y;
  for (const Tap& row : TapsOf(rows, sampling.interpolation)) {
    for (const Tap& column : TapsOf(columns, sampling.interpolation)) {
      const Value down = ir::Convert(Fold(row.place, height, sampling.fill_mode), DType::kI32);
      const Value across = ir::Convert(Fold(column.place, width, sampling.fill_mode), DType::kI32);
      Value read = ir::Take(pixels, first + down * static_cast<double>(width) + across, 0);
      if (sampling.fill_mode == "constant") {
        const Value real = ir::And(inside(row.place, height), inside(column.place, width));
        read = ir::Select(ir::ExpandDims(real, 3), read, ir::SplatLike(read, sampling.fill_value));
      }
      if (row.weight.valid()) read = read * ir::ExpandDims(row.weight * column.weight, 3);
      y = y.valid() ? y + read : read;
    }
  }
  return ToPixels(y, images.dtype());
}

}  // namespace penstock::nn::internal
