#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/image_input.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

// Moving and resizing images are written as products with small matrices (one for rows, one for
// columns) instead of gathers: matrix products are what accelerators do best, and they have
// gradients.

// rows [B or 1, out, height] and columns [B or 1, out, width] applied to images [B, height, width,
// C].
Value ApplyMatrices(Value rows, Value columns, Value images) {
  const int64_t batch = images.shape().dim(0);
  const auto per_image = [&](Value m) {
    return ir::BroadcastTo(m, {batch, m.shape().dim(1), m.shape().dim(2)});
  };
  // [B, out_h, h] x [B, h, w, C] -> [B, out_h, w, C]; then the widths: -> [B, out_h, C, out_w].
  const Value moved = ir::DotGeneral(
      per_image(rows), images,
      {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}});
  const Value both = ir::DotGeneral(
      moved, per_image(columns),
      {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {0}, .rhs_batch = {0}});
  return ir::Transpose(both, {0, 1, 3, 2});
}

// The matrix [1, out, in] of bilinear resizing of the window [begin, begin + extent) to `out`
// pixels, with half-pixel centres.
Value ResizeMatrix(ir::Graph& graph, int64_t in, int64_t begin, int64_t extent, int64_t out) {
  Array matrix = Array::Zeros(DType::kF32, {1, out, in});
  float* m = matrix.mutable_data<float>();
  for (int64_t y = 0; y < out; ++y) {
    const double centre = (y + 0.5) * static_cast<double>(extent) / static_cast<double>(out) - 0.5;
    const double low = std::floor(centre);
    for (int k = 0; k < 2; ++k) {
      const int64_t source =
          begin + std::clamp<int64_t>(static_cast<int64_t>(low) + k, 0, extent - 1);
      m[y * in + source] += static_cast<float>(k == 0 ? 1 - (centre - low) : centre - low);
    }
  }
  return ir::Constant(graph, matrix);
}

struct RandomCropLayer : LayerOf<RandomCropOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomCrop"; }
  void Fields(Config& config) override {
    config("height", options_.height)("width", options_.width);
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    if (options_.height <= 0 || options_.width <= 0) {
      return ctx.Fail(absl::StrCat("height and width must be above 0, got ", options_.height,
                                   " and ", options_.width));
    }
    const int64_t height = x.shape().dim(1), width = x.shape().dim(2);
    if (height == options_.height && width == options_.width) return x;
    const bool fits = options_.height <= height && options_.width <= width;
    return ctx.training() && fits ? Crop(ctx, x) : SmartResize(x);
  }

 private:
  // Row i of the result is row offset + i of the image: a matrix with a one at each such place.
  static Value SelectionMatrix(Value key, int64_t batch, int64_t in, int64_t out) {
    ir::Graph& graph = *key.graph();
    const Value offset = ir::RandomInt(key, {DType::kI32, {batch, 1, 1}}, 0, in - out + 1);
    const Value wanted = ir::Iota(graph, {DType::kI32, {1, out, 1}}, 1) + offset;
    const Value there = ir::Iota(graph, {DType::kI32, {1, 1, in}}, 2);
    return ir::Convert(ir::Equal(wanted, there), DType::kF32);
  }

  Value Crop(CallContext& ctx, Value x) const {
    const int64_t batch = x.shape().dim(0);
    const Value rows = SelectionMatrix(ctx.NextKey(), batch, x.shape().dim(1), options_.height);
    const Value columns = SelectionMatrix(ctx.NextKey(), batch, x.shape().dim(2), options_.width);
    // Pixels are moved, not mixed: products with one and zero are exact in float32 for every dtype
    // that a pixel comes in.
    return ir::Convert(ApplyMatrices(rows, columns, ir::Convert(x, DType::kF32)), x.dtype());
  }

  // keras.utils.image_dataset_utils.smart_resize: the largest centred window of the wanted aspect
  // ratio.
  Value SmartResize(Value x) const {
    const int64_t height = x.shape().dim(1), width = x.shape().dim(2);
    const int64_t window_height =
        std::min(height, std::max<int64_t>(1, width * options_.height / options_.width));
    const int64_t window_width =
        std::min(width, std::max<int64_t>(1, height * options_.width / options_.height));
    ir::Graph& graph = *x.graph();
    const Value rows =
        ResizeMatrix(graph, height, (height - window_height) / 2, window_height, options_.height);
    const Value columns =
        ResizeMatrix(graph, width, (width - window_width) / 2, window_width, options_.width);
    const Value resized = ApplyMatrices(rows, columns, ir::Convert(x, DType::kF32));
    return ir::Convert(base::IsFloat(x.dtype()) ? resized : ir::Round(resized), x.dtype());
  }
};

struct RandomTranslationLayer : LayerOf<RandomTranslationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomTranslation"; }
  void Fields(Config& config) override {
    config("height_factor", options_.height_factor)("width_factor", options_.width_factor)(
        "fill_mode", options_.fill_mode)("interpolation", options_.interpolation)(
        "fill_value", options_.fill_value);
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    const std::string& fill = options_.fill_mode;
    if (fill != "reflect" && fill != "wrap" && fill != "nearest" && fill != "constant") {
      return ctx.Fail(
          absl::StrCat("fill_mode is reflect, wrap, nearest or constant, got \"", fill, "\""));
    }
    if (options_.interpolation != "bilinear" && options_.interpolation != "nearest") {
      return ctx.Fail(absl::StrCat("interpolation is bilinear or nearest, got \"",
                                   options_.interpolation, "\""));
    }
    for (const Range& range : {options_.height_factor, options_.width_factor}) {
      if (!(range.low >= -1 && range.low <= range.high && range.high <= 1)) {
        return ctx.Fail(absl::StrCat("a factor is a range within [-1, 1], got [", range.low, ", ",
                                     range.high, "]"));
      }
    }
    if (!ctx.training()) return x;
    const int64_t batch = x.shape().dim(0);
    const Value rows = ShiftMatrix(ctx.NextKey(), batch, x.shape().dim(1), options_.height_factor);
    const Value columns =
        ShiftMatrix(ctx.NextKey(), batch, x.shape().dim(2), options_.width_factor);
    Value moved = ApplyMatrices(rows, columns, ir::Convert(x, DType::kF32));
    if (fill == "constant") {
      // What the weights of a pixel lack of 1 came from outside the image.
      const Value inside =
          ir::ExpandDims(ir::ReduceSum(rows, {2}, true), 3) *
          ir::Reshape(ir::ReduceSum(columns, {2}), {batch, 1, x.shape().dim(2), 1});
      moved = moved + (1.0 - inside) * options_.fill_value;
    }
    return ir::Convert(base::IsFloat(x.dtype()) ? moved : ir::Round(moved), x.dtype());
  }

 private:
  // Row y of the result comes from the image's row y - shift, between two rows when that is no
  // whole number.
  Value ShiftMatrix(Value key, int64_t batch, int64_t size, const Range& factor) const {
    ir::Graph& graph = *key.graph();
    const Value shift =
        ir::RandomUniform(key, {DType::kF32, {batch, 1, 1}}, factor.low * static_cast<double>(size),
                          factor.high * static_cast<double>(size));
    const Value source = ir::Iota(graph, {DType::kF32, {1, size, 1}}, 1) - shift;
    if (options_.interpolation == "nearest") return OneAt(ir::Floor(source + 0.5), size);
    const Value low = ir::Floor(source), fraction = source - low;
    return OneAt(low, size) * (1.0 - fraction) + OneAt(low + 1.0, size) * fraction;
  }

  // [batch, size, 1] of places, whole numbers, possibly outside -> [batch, size, size] with a one
  // at each place, brought inside by the fill mode; a row of zeros for an outside place under
  // "constant".
  Value OneAt(Value place, int64_t size) const {
    ir::Graph& graph = *place.graph();
    const double n = static_cast<double>(size);
    const auto modulo = [](Value x, double m) { return x - ir::Floor(x / m) * m; };
    if (options_.fill_mode == "wrap") {
      place = modulo(place, n);
    } else if (options_.fill_mode == "nearest") {
      place = ir::Clamp(ir::SplatLike(place, 0), place, ir::SplatLike(place, n - 1));
    } else if (options_.fill_mode == "reflect") {
      const Value folded = modulo(place, 2 * n);
      place = ir::Minimum(folded, 2 * n - 1 - folded);
    }
    return ir::Convert(ir::Equal(place, ir::Iota(graph, {DType::kF32, {1, 1, size}}, 2)),
                       DType::kF32);
  }
};

}  // namespace

Layer RandomCrop(const RandomCropOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomCropLayer>(options, location);
}
Layer RandomTranslation(const RandomTranslationOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomTranslationLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::AugmentationLayers() {
  static constexpr LayerRow kRows[] = {
      {"RandomCrop", MakeDefault<RandomCropLayer>},
      {"RandomTranslation", MakeDefault<RandomTranslationLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
