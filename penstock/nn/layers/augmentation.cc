#include "penstock/nn/layers/augmentation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers/augmentation_draws.h"
#include "penstock/nn/layers/boxes.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/resize.h"
#include "penstock/nn/layers/sampling.h"
#include "penstock/nn/layers/spatial_input.h"

namespace penstock::nn {
namespace {

using internal::Draw;
using internal::LayerOf;
using internal::Sampling;
using internal::Within;

template <typename Options>
Sampling SamplingOf(const Options& options) {
  return {options.fill_mode, options.interpolation, options.fill_value};
}

template <typename Options>
void SamplingFields(Config& config, Options& options) {
  config("fill_mode", options.fill_mode)("interpolation", options.interpolation)(
      "fill_value", options.fill_value);
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
    const int64_t height = x.shape().dim(1), width = x.shape().dim(2);
    if (height == options_.height && width == options_.width) return x;
    const bool fits = 0 < options_.height && options_.height <= height && 0 < options_.width &&
                      options_.width <= width;
    if (ctx.training() && fits) return Crop(ctx, x);
    return internal::Resize(ctx, x, options_.height, options_.width,
                            {.crop_to_aspect_ratio = true});
  }

 private:
  // Row i of the result is row offset + i of the image: a matrix with ones at these positions.
  static Value SelectionMatrix(Value key, int64_t batch, int64_t in, int64_t out) {
    ir::Graph& graph = *key.graph();
    const Value offset = ir::RandomInt(key, {DType::kI32, {batch, 1, 1}}, 0, in - out + 1);
    const Value source = ir::Iota(graph, {DType::kI32, {1, out, 1}}, 1) + offset;
    const Value there = ir::Iota(graph, {DType::kI32, {1, 1, in}}, 2);
    return ir::Convert(ir::Equal(source, there), DType::kF32);
  }

  Value Crop(CallContext& ctx, Value x) const {
    const int64_t batch = x.shape().dim(0);
    const Value rows = SelectionMatrix(ctx.NextKey(), batch, x.shape().dim(1), options_.height);
    const Value columns = SelectionMatrix(ctx.NextKey(), batch, x.shape().dim(2), options_.width);
    // Pixels are moved, not interpolated: products with one and zero are exact in float32 for every
    // dtype of a pixel.
    return ir::Convert(internal::ApplyMatrices(rows, columns, ir::Convert(x, DType::kF32)),
                       x.dtype());
  }
};

struct RandomFlipLayer : LayerOf<RandomFlipOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomFlip"; }
  void Fields(Config& config) override { config("mode", options_.mode); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    ir::Axes axes;
    if (options_.mode == "horizontal_and_vertical") axes = {1, 2};
    if (options_.mode == "horizontal") axes = {2};
    if (options_.mode == "vertical") axes = {1};
    if (axes.empty()) {
      return ctx.Fail(
          absl::StrCat("mode must be horizontal, vertical or horizontal_and_vertical, got \"",
                       options_.mode, "\""));
    }
    if (!ctx.training()) return x;
    const Value flip = ir::RandomBernoulli(ctx.NextKey(), {x.shape().dim(0), 1, 1, 1}, 0.5);
    return ir::Select(flip, ir::Reverse(x, axes), x);
  }
};

struct RandomTranslationLayer : LayerOf<RandomTranslationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomTranslation"; }
  void Fields(Config& config) override {
    config("height_factor", options_.height_factor)("width_factor", options_.width_factor);
    SamplingFields(config, options_);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid() || !internal::CheckSampling(ctx, SamplingOf(options_)) ||
        !Within(ctx, "height_factor", options_.height_factor, -1, 1) ||
        !Within(ctx, "width_factor", options_.width_factor, -1, 1) || !ctx.training()) {
      return x;
    }
    const auto places = [&](int axis, const Range& factor) {
      const double n = static_cast<double>(x.shape().dim(axis));
      const Value shift =
          Draw(ctx.NextKey(), x.shape().dim(0), 2, {factor.low * n, factor.high * n});
      return ir::Iota(ctx.graph(), {DType::kF32, {1, x.shape().dim(axis)}}, 1) - shift;
    };
    const Value rows = places(1, options_.height_factor);
    return internal::SampleRowsAndColumns(x, rows, places(2, options_.width_factor),
                                          SamplingOf(options_));
  }
};

struct RandomZoomLayer : LayerOf<RandomZoomOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomZoom"; }
  void Fields(Config& config) override {
    config("height_factor", options_.height_factor)("width_factor", options_.width_factor);
    SamplingFields(config, options_);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    const Range width = options_.width_factor.value_or(options_.height_factor);
    if (!x.valid() || !internal::CheckSampling(ctx, SamplingOf(options_)) ||
        !Within(ctx, "height_factor", options_.height_factor, -1, 1) ||
        !Within(ctx, "width_factor", width, -1, 1) || !ctx.training()) {
      return x;
    }
    const auto zoom = [&](const Range& factor) {
      return Draw(ctx.NextKey(), x.shape().dim(0), 2, {1 + factor.low, 1 + factor.high});
    };
    const auto places = [&](int axis, Value by) {
      const double middle = (static_cast<double>(x.shape().dim(axis)) - 1) / 2;
      return ir::Iota(ctx.graph(), {DType::kF32, {1, x.shape().dim(axis)}}, 1) * by +
             middle * (1.0 - by);
    };
    const Value by_rows = zoom(options_.height_factor);
    const Value by_columns = options_.width_factor.has_value() ? zoom(width) : by_rows;
    return internal::SampleRowsAndColumns(x, places(1, by_rows), places(2, by_columns),
                                          SamplingOf(options_));
  }
};

struct RandomRotationLayer : LayerOf<RandomRotationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomRotation"; }
  void Fields(Config& config) override {
    config("factor", options_.factor);
    SamplingFields(config, options_);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid() || !internal::CheckSampling(ctx, SamplingOf(options_)) ||
        !Within(ctx, "factor", options_.factor, -1, 1) || !ctx.training()) {
      return x;
    }
    const int64_t height = x.shape().dim(1), width = x.shape().dim(2);
    const Value angle = Draw(ctx.NextKey(), x.shape().dim(0), 3,
                             {options_.factor.low * 2 * M_PI, options_.factor.high * 2 * M_PI});
    const auto from_middle = [&](int axis, int64_t n) {
      std::vector<int64_t> dims(3, 1);
      dims[axis] = n;
      return ir::Iota(ctx.graph(), {DType::kF32, Shape(dims)}, axis) -
             (static_cast<double>(n) - 1) / 2;
    };
    const Value down = from_middle(1, height), right = from_middle(2, width);
    const Value cos = ir::Cos(angle), sin = ir::Sin(angle);
    const Value rows = sin * right + cos * down + (static_cast<double>(height) - 1) / 2;
    const Value columns = cos * right - sin * down + (static_cast<double>(width) - 1) / 2;
    return internal::SampleAnywhere(x, rows, columns, SamplingOf(options_));
  }
};

struct RandomShearLayer : LayerOf<RandomShearOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomShear"; }
  void Fields(Config& config) override {
    config("x_factor", options_.x_factor)("y_factor", options_.y_factor);
    SamplingFields(config, options_);
  }
  KerasForm keras_form() const override { return {.symmetric_ranges = {"x_factor", "y_factor"}}; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid() || !internal::CheckSampling(ctx, SamplingOf(options_)) ||
        !Within(ctx, "x_factor", options_.x_factor, -1, 1) ||
        !Within(ctx, "y_factor", options_.y_factor, -1, 1) || !ctx.training()) {
      return x;
    }
    const int64_t batch = x.shape().dim(0);
    // Both directions have one random sign.
    const Value positive = ir::RandomBernoulli(ctx.NextKey(), {batch, 1, 1}, 0.5);
    const auto shear = [&](const Range& factor) {
      const Value by = Draw(ctx.NextKey(), batch, 3, factor);
      return ir::Select(positive, by, -by);
    };
    const Value down = ir::Iota(ctx.graph(), {DType::kF32, {1, x.shape().dim(1), 1}}, 1);
    const Value right = ir::Iota(ctx.graph(), {DType::kF32, {1, 1, x.shape().dim(2)}}, 2);
    const Value by_x = shear(options_.x_factor), by_y = shear(options_.y_factor);
    return internal::SampleAnywhere(x, down + by_y * right, right + by_x * down,
                                    SamplingOf(options_));
  }
};

struct RandomErasingLayer : LayerOf<RandomErasingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RandomErasing"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("scale", options_.scale)
        .Optional("fill_value", options_.fill_value)("value_range", options_.value_range);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid() || !Within(ctx, "factor", options_.factor, 0, 1) ||
        !Within(ctx, "scale", options_.scale, 0, 1)) {
      return x;
    }
    const int64_t channels = x.shape().dim(3);
    const size_t fills = options_.fill_value.size();
    if (fills > 1 && static_cast<int64_t>(fills) != channels) {
      return ctx.Fail(
          absl::StrCat("fill_value has ", fills, " numbers for images of ", channels, " channels"));
    }
    if (!ctx.training()) return x;
    const int64_t batch = x.shape().dim(0);
    // All numbers but the noise come from one draw, which compiles much faster than seven.
    const Value drawn = ir::RandomUniform(ctx.NextKey(), {DType::kF32, {6, batch}});
    const auto uniform = [&](int64_t row, const Range& range) {
      const Value u = ir::Reshape(ir::SliceAxis(drawn, 0, row, row + 1), {batch});
      return u * (range.high - range.low) + range.low;
    };
    const Value box = internal::BoxesOf(
        x.shape().dim(1), x.shape().dim(2),
        {ir::Sqrt(uniform(0, options_.scale)), ir::Sqrt(uniform(1, options_.scale))},
        {uniform(2, {0, 1}), uniform(3, {0, 1})});
    const Value applies = ir::Less(uniform(4, {0, 1}), uniform(5, options_.factor));
    const Value erased = ir::And(box, ir::Reshape(applies, {batch, 1, 1, 1}));
    return ir::Select(erased, internal::InRange(Fill(ctx, x), options_.value_range, x.dtype()), x);
  }

 private:
  // f32, broadcasts to x.
  Value Fill(CallContext& ctx, Value x) const {
    const PerChannel& fill = options_.fill_value;
    if (fill.empty()) {
      const double highest = std::max(options_.value_range.low, options_.value_range.high);
      return ir::RandomNormal(ctx.NextKey(), {DType::kF32, x.shape()}, 0, highest);
    }
    std::vector<float> numbers(fill.begin(), fill.end());
    const int64_t n = static_cast<int64_t>(numbers.size());
    return ir::Constant(ctx.graph(), Array::Of<float>({1, 1, 1, n}, numbers));
  }
};

}  // namespace

Layer RandomCrop(const RandomCropOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomCropLayer>(options, location);
}
Layer RandomFlip(const RandomFlipOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomFlipLayer>(options, location);
}
Layer RandomTranslation(const RandomTranslationOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomTranslationLayer>(options, location);
}
Layer RandomRotation(const RandomRotationOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomRotationLayer>(options, location);
}
Layer RandomZoom(const RandomZoomOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomZoomLayer>(options, location);
}
Layer RandomShear(const RandomShearOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomShearLayer>(options, location);
}
Layer RandomErasing(const RandomErasingOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomErasingLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::AugmentationLayers() {
  static constexpr LayerRow kRows[] = {
      {"RandomCrop", MakeDefault<RandomCropLayer>},
      {"RandomFlip", MakeDefault<RandomFlipLayer>},
      {"RandomTranslation", MakeDefault<RandomTranslationLayer>},
      {"RandomRotation", MakeDefault<RandomRotationLayer>},
      {"RandomZoom", MakeDefault<RandomZoomLayer>},
      {"RandomShear", MakeDefault<RandomShearLayer>},
      {"RandomErasing", MakeDefault<RandomErasingLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
