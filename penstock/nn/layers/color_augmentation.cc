#include "penstock/nn/layers/color_augmentation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/layers/augmentation_draws.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/resize.h"
#include "penstock/nn/layers/spatial_input.h"

namespace penstock::nn {
namespace {

using internal::Chance;
using internal::Draw;
using internal::LayerOf;
using internal::Within;

// ---- Formulas: f32 images [batch, height, width, channels], random parameters from `key` ----

double Extent(const Range& range) { return std::abs(range.high - range.low); }
double Lowest(const Range& range) { return std::min(range.low, range.high); }
double Highest(const Range& range) { return std::max(range.low, range.high); }

// Pixels of value_range converted to [0, high], and back.
Value ToScale(Value x, const Range& range, double high) {
  return (x - Lowest(range)) * (high / Extent(range));
}
Value FromScale(Value x, const Range& range, double high) {
  return x * (Extent(range) / high) + Lowest(range);
}

Value Contrasted(Value key, Value x, const Range& factor) {
  // A single number f is the range [-f, f]; the lower end is the maximum reduction.
  const Value contrast =
      Draw(key, x.shape().dim(0), 4, {1 - std::abs(factor.low), 1 + factor.high});
  const Value mean = ir::ReduceMean(x, {1, 2}, true);
  return (x - mean) * contrast + mean;
}

Value Brightened(Value key, Value x, const Range& factor, const Range& value_range) {
  return x + Draw(key, x.shape().dim(0), 4, factor) * Extent(value_range);
}

// Planes [batch, height, width, 1] of red, green and blue, or of hue, saturation and value. Hue and
// saturation are from 0 to 1.
struct Planes {
  Value a, b, c;
};
Planes ColorPlanes(Value x) {
  const Values planes = ir::Split(x, 3, 3);
  return {planes[0], planes[1], planes[2]};
}
Value JoinPlanes(const Planes& planes) {
  return ir::Concatenate({planes.a, planes.b, planes.c}, 3);
}

// Smith, Color gamut transform pairs, 1978.
Planes ToHsv(Value rgb) {
  const double tiny = std::numeric_limits<float>::epsilon();
  const Value zeros = ir::SplatLike(rgb, 0);
  const auto [r, g, b] =
      ColorPlanes(ir::Select(ir::Less(ir::Abs(rgb), ir::SplatLike(rgb, tiny)), zeros, rgb));
  const Value zero = ir::SplatLike(r, 0), one = ir::SplatLike(r, 1);
  const Value value = ir::Maximum(ir::Maximum(r, g), b);
  const Value range = value - ir::Minimum(ir::Minimum(r, g), b);
  const Value is_lit = ir::Greater(value, zero), is_colored = ir::Greater(range, zero);
  const Value saturation = ir::Select(is_lit, range / ir::Select(is_lit, value, one), zero);
  const Value sixth = 1.0 / (6.0 * ir::Select(is_colored, range, one));
  Value hue = ir::Select(ir::Equal(value, g), sixth * (b - r) + 2.0 / 6, sixth * (r - g) + 4.0 / 6);
  hue = ir::Select(ir::Equal(value, r), sixth * (g - b), hue);
  hue = ir::Select(is_colored, hue, zero);
  return {hue + ir::Convert(ir::Less(hue, zero), DType::kF32), saturation, value};
}

Value ToRgb(const Planes& hsv) {
  const Value sector = (hsv.a - ir::Floor(hsv.a)) * 6.0;
  const auto channel = [&](Value full) {
    return hsv.c * ((1.0 - hsv.b) + hsv.b * Clip(full, 0, 1));
  };
  return JoinPlanes({channel(ir::Abs(sector - 3.0) - 1.0), channel(2.0 - ir::Abs(sector - 2.0)),
                     channel(2.0 - ir::Abs(sector - 4.0))});
}

Value Saturated(Value key, Value x, const Range& factor) {
  const Value f = Draw(key, x.shape().dim(0), 4, factor);
  Planes hsv = ToHsv(x);
  hsv.b = Clip(hsv.b * (f / (1.0 - f + kEpsilon)), 0, 1);
  return ToRgb(hsv);
}

Value HueTurned(Value key, Value x, const Range& factor, const Range& value_range) {
  const int64_t batch = x.shape().dim(0);
  const Value by = 0.5 * Draw(ir::FoldIn(key, 0u), batch, 4, factor);
  const Value positive = ir::RandomBernoulli(ir::FoldIn(key, 1u), {batch, 1, 1, 1}, 0.5);
  Planes hsv = ToHsv(ToScale(x, value_range, 1));
  hsv.a = hsv.a + ir::Select(positive, by, -by);
  return FromScale(Clip(ToRgb(hsv), 0, 1), value_range, 1);
}

// [batch, height, width, 1]; images of one channel are gray.
Value Gray(Value x) {
  if (x.shape().dim(3) == 1) return x;
  const Planes rgb = ColorPlanes(x);
  return 0.2989 * rgb.a + 0.587 * rgb.b + 0.114 * rgb.c;
}

// Matrix [batch, n, n] that applies a filter of 2 * radius + 1 taps, weights [batch, 1, 1] of each
// distance, along an axis with zeros outside.
Value FilterMatrix(ir::Graph& graph, int64_t n, int64_t radius, const Values& weights) {
  const ir::TensorType type{DType::kI32, {1, n, n}};
  const Value apart = ir::Abs(ir::Iota(graph, type, 1) - ir::Iota(graph, type, 2));
  Value matrix;
  for (int64_t distance = 0; distance <= radius; ++distance) {
    const Value here = ir::Equal(apart, ir::SplatLike(apart, static_cast<double>(distance)));
    const Value term = ir::Convert(here, DType::kF32) * weights[distance];
    matrix = matrix.valid() ? matrix + term : term;
  }
  return matrix;
}

Value Sharpened(Value key, Value x, const Range& factor) {
  ir::Graph& graph = *x.graph();
  const Value f = Draw(key, x.shape().dim(0), 4, factor);
  // The filter is 1/13 everywhere but 5/13 in the middle.
  const Value one = ir::Splat(graph, {DType::kF32, {1, 1, 1}}, 1);
  const auto box = [&](int axis) {
    return FilterMatrix(graph, x.shape().dim(axis), 1, {one, one});
  };
  const Value smoothed = (internal::ApplyMatrices(box(1), box(2), x) + 4.0 * x) / 13.0;
  return x + (1.0 - 2.0 * f) * (smoothed - x);
}

Value Blurred(Value key, Value x, const Size<2>& kernel_size, const Range& sigma) {
  const int64_t batch = x.shape().dim(0);
  const auto matrix = [&](int axis, int64_t size, uint32_t number) {
    const Value s = Draw(ir::FoldIn(key, number), batch, 3, sigma) + 1e-6;
    Values weights;
    Value sum;
    for (int64_t distance = 0; distance <= size / 2; ++distance) {
      const double d = static_cast<double>(distance);
      weights.push_back(ir::Exp(-0.5 * ir::Square(d / s)));
      sum = distance == 0 ? weights[0] : sum + 2.0 * weights.back();
    }
    for (Value& weight : weights) weight = weight / sum;
    return FilterMatrix(*x.graph(), x.shape().dim(axis), size / 2, weights);
  };
  return internal::ApplyMatrices(matrix(1, kernel_size[1], 0), matrix(2, kernel_size[0], 1), x);
}

Value Posterized(Value key, Value x, const AxisList& bits, const Range& value_range) {
  const ir::TensorType type{DType::kI32, {x.shape().dim(0), 1, 1, 1}};
  const Value drawn = bits[0] == bits[1] ? ir::Splat(*x.graph(), type, static_cast<double>(bits[0]))
                                         : ir::RandomInt(key, type, bits[0], bits[1]);
  // 2^(8 - bits), exactly.
  const Value one = ir::SplatLike(drawn, 1);
  const Value step = ir::Convert(ir::ShiftLeft(one, ir::SplatLike(drawn, 8) - drawn), DType::kF32);
  const Value bytes = ir::Floor(Clip(ToScale(x, value_range, 255), 0, 255));
  return FromScale(ir::Floor(bytes / step) * step, value_range, 255);
}

Value Solarized(Value key, Value x, const SolarizationOptions& options) {
  const int64_t batch = x.shape().dim(0);
  const Value addition = Draw(ir::FoldIn(key, 0u), batch, 4, options.addition_factor);
  const Value threshold = Draw(ir::FoldIn(key, 1u), batch, 4, options.threshold_factor);
  const Value sum = Clip(ToScale(x, options.value_range, 255) + 255.0 * addition, 0, 255);
  return FromScale(ir::Select(ir::Less(sum, 255.0 * threshold), sum, 255.0 - sum),
                   options.value_range, 255);
}

Value Stretched(Value x, const Range& value_range) {
  const Value low = ir::ReduceMin(x, {1, 2}, true), high = ir::ReduceMax(x, {1, 2}, true);
  const Value constant = ir::Equal(low, high);
  const Value extent = ir::Select(constant, ir::SplatLike(low, 1), high - low);
  return ir::Select(constant, x, FromScale((x - low) / extent, value_range, 1));
}

// ---- Layers ----

// Base of the layers: the check of the input, and conversion to f32 and back.
template <typename Options>
struct ColorLayer : LayerOf<Options> {
  using LayerOf<Options>::LayerOf;
  // False after an error of the layer.
  virtual bool CheckOptions(CallContext& ctx, const Value& images) const = 0;
  virtual Value Transform(Value key, Value x) const = 0;
  virtual bool applies_in_inference() const { return false; }
  // Range of the result; nullopt: it is not clamped.
  virtual std::optional<Range> clamp() const {
    if constexpr (requires(Options o) { o.value_range; }) {
      return this->options_.value_range;
    } else {
      return std::nullopt;
    }
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value images = internal::ImageInput(ctx, inputs);
    if (!images.valid() || !CheckRange(ctx) || !CheckOptions(ctx, images)) return images;
    if (!ctx.training() && !applies_in_inference()) return images;
    const Value key = applies_in_inference() ? Value() : ctx.NextKey();
    const Value y = Transform(key, ir::Convert(images, DType::kF32));
    if (!clamp().has_value()) return internal::ToPixels(y, images.dtype());
    return internal::InRange(y, *clamp(), images.dtype());
  }

 private:
  bool CheckRange(CallContext& ctx) const {
    if constexpr (requires(Options o) { o.value_range; }) {
      const Range& range = this->options_.value_range;
      if (Extent(range) > 0) return true;
      ctx.Fail(absl::StrCat("value_range must have two different ends, got [", range.low, ", ",
                            range.high, "]"));
      return false;
    }
    return true;
  }
};

// Whether images have three channels (or one, if `or_one`); otherwise an error of the layer.
bool AreRgb(CallContext& ctx, const Value& images, bool or_one = false) {
  const int64_t channels = images.shape().dim(3);
  if (channels == 3 || (or_one && channels == 1)) return true;
  ctx.Fail(absl::StrCat("takes images of three channels, RGB", or_one ? ", or one" : "", ", got ",
                        channels));
  return false;
}

// A single number f is the range [-f, f]; the lower end is the maximum reduction.
bool IsContrast(CallContext& ctx, const Range& factor) {
  const double less = std::abs(factor.low), more = factor.high;
  if (less <= 1 && more >= 0 && more <= 1) return true;
  ctx.Fail(absl::StrCat("factor is one or two numbers within [0, 1], got ", less, " and ", more));
  return false;
}

// A contrast factor as Keras reads it: [f, f] for a single number f, which Range holds as [-f, f].
void KerasContrast(Range& factor) { factor.low = std::abs(factor.low); }

struct RandomContrastLayer : ColorLayer<RandomContrastOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomContrast"; }
  void Fields(Config& config) override {
    KerasContrast(options_.factor);
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    return IsContrast(ctx, options_.factor);
  }
  Value Transform(Value key, Value x) const override { return Contrasted(key, x, options_.factor); }
};

struct RandomBrightnessLayer : ColorLayer<RandomBrightnessOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomBrightness"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    return Within(ctx, "factor", options_.factor, -1, 1);
  }
  Value Transform(Value key, Value x) const override {
    return Brightened(key, x, options_.factor, options_.value_range);
  }
};

struct RandomSaturationLayer : ColorLayer<RandomSaturationOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomSaturation"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value& images) const override {
    return Within(ctx, "factor", options_.factor, -1, 1) && AreRgb(ctx, images);
  }
  std::optional<Range> clamp() const override { return std::nullopt; }
  Value Transform(Value key, Value x) const override { return Saturated(key, x, options_.factor); }
};

struct RandomHueLayer : ColorLayer<RandomHueOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomHue"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value& images) const override {
    return Within(ctx, "factor", options_.factor, 0, 1) && AreRgb(ctx, images);
  }
  Value Transform(Value key, Value x) const override {
    return HueTurned(key, x, options_.factor, options_.value_range);
  }
};

struct RandomColorJitterLayer : ColorLayer<RandomColorJitterOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomColorJitter"; }
  void Fields(Config& config) override {
    if (options_.contrast_factor.has_value()) KerasContrast(*options_.contrast_factor);
    config("value_range", options_.value_range)("brightness_factor", options_.brightness_factor)(
        "contrast_factor", options_.contrast_factor)(
        "saturation_factor", options_.saturation_factor)("hue_factor", options_.hue_factor);
  }
  bool CheckOptions(CallContext& ctx, const Value& images) const override {
    const auto& [range, brightness, contrast, saturation, hue, name, dtype] = options_;
    if (brightness.has_value() && !Within(ctx, "brightness_factor", *brightness, -1, 1))
      return false;
    if (contrast.has_value() && !IsContrast(ctx, *contrast)) return false;
    if (saturation.has_value() && !Within(ctx, "saturation_factor", *saturation, 0, 1))
      return false;
    if (hue.has_value() && !Within(ctx, "hue_factor", *hue, 0, 1)) return false;
    return (!saturation.has_value() && !hue.has_value()) || AreRgb(ctx, images);
  }
  // Each part clamps, except the change of saturation.
  std::optional<Range> clamp() const override { return std::nullopt; }
  Value Transform(Value key, Value x) const override {
    const Range& range = options_.value_range;
    const auto key_of = [&](uint32_t part) { return ir::FoldIn(key, part); };
    const auto clamped = [&](Value y) { return internal::InRange(y, range, DType::kF32); };
    if (const auto& f = options_.brightness_factor; f.has_value())
      x = clamped(Brightened(key_of(0), x, *f, range));
    if (const auto& f = options_.contrast_factor; f.has_value())
      x = clamped(Contrasted(key_of(1), x, *f));
    if (const auto& f = options_.saturation_factor; f.has_value()) x = Saturated(key_of(2), x, *f);
    if (const auto& f = options_.hue_factor; f.has_value())
      x = clamped(HueTurned(key_of(3), x, *f, range));
    return x;
  }
};

struct RandomGrayscaleLayer : ColorLayer<RandomGrayscaleOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomGrayscale"; }
  void Fields(Config& config) override { config("factor", options_.factor); }
  bool CheckOptions(CallContext& ctx, const Value& images) const override {
    return Within(ctx, "factor", {options_.factor, options_.factor}, 0, 1) &&
           AreRgb(ctx, images, /*or_one=*/true);
  }
  Value Transform(Value key, Value x) const override {
    const Value is_gray = ir::RandomBernoulli(key, {x.shape().dim(0), 1, 1, 1}, options_.factor);
    return ir::Select(is_gray, Gray(x), x);
  }
};

struct RandomColorDegenerationLayer : ColorLayer<RandomColorDegenerationOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomColorDegeneration"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value& images) const override {
    return Within(ctx, "factor", options_.factor, -1, 1) && AreRgb(ctx, images, /*or_one=*/true);
  }
  Value Transform(Value key, Value x) const override {
    return x + Draw(key, x.shape().dim(0), 4, options_.factor) * (Gray(x) - x);
  }
};

struct RandomSharpnessLayer : ColorLayer<RandomSharpnessOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomSharpness"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    return Within(ctx, "factor", options_.factor, 0, 1);
  }
  Value Transform(Value key, Value x) const override { return Sharpened(key, x, options_.factor); }
};

struct RandomGaussianBlurLayer : ColorLayer<RandomGaussianBlurOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomGaussianBlur"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("kernel_size", options_.kernel_size)("sigma", options_.sigma)(
        "value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    constexpr int64_t kMaxSize = 255;  // the graph has a few operations for each tap
    for (int64_t size : options_.kernel_size) {
      if (size >= 1 && size <= kMaxSize && size % 2 == 1) continue;
      ctx.Fail(absl::StrCat("kernel_size is an odd number from 1 to ", kMaxSize, ", got ", size));
      return false;
    }
    return Within(ctx, "factor", options_.factor, 0, 1) &&
           Within(ctx, "sigma", options_.sigma, 0, 1);
  }
  Value Transform(Value key, Value x) const override {
    const Value applies = Chance(ir::FoldIn(key, 0u), x.shape().dim(0), options_.factor);
    return ir::Select(applies,
                      Blurred(ir::FoldIn(key, 1u), x, options_.kernel_size, options_.sigma), x);
  }
};

struct RandomInvertLayer : ColorLayer<RandomInvertOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomInvert"; }
  void Fields(Config& config) override {
    config("factor", options_.factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    return Within(ctx, "factor", options_.factor, 0, 1);
  }
  std::optional<Range> clamp() const override { return std::nullopt; }
  Value Transform(Value key, Value x) const override {
    return ir::Select(Chance(key, x.shape().dim(0), options_.factor),
                      Highest(options_.value_range) - x, x);
  }
};

struct RandomPosterizationLayer : ColorLayer<RandomPosterizationOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "RandomPosterization"; }
  void Fields(Config& config) override {
    if (options_.factor.size() == 1) options_.factor = {1, options_.factor[0]};
    config("factor", options_.factor)("value_range", options_.value_range);
    if (options_.factor.size() == 1) options_.factor = {1, options_.factor[0]};
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    const AxisList bits = Bits();
    if (bits.size() == 2 && 1 <= bits[0] && bits[0] <= bits[1] && bits[1] <= 8) return true;
    ctx.Fail("factor is a number of bits from 1 to 8, or two of them");
    return false;
  }
  Value Transform(Value key, Value x) const override {
    return Posterized(key, x, Bits(), options_.value_range);
  }

 private:
  AxisList Bits() const {
    return options_.factor.size() == 1 ? AxisList{1, options_.factor[0]} : options_.factor;
  }
};

struct SolarizationLayer : ColorLayer<SolarizationOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "Solarization"; }
  void Fields(Config& config) override {
    config("addition_factor", options_.addition_factor)(
        "threshold_factor", options_.threshold_factor)("value_range", options_.value_range);
  }
  bool CheckOptions(CallContext& ctx, const Value&) const override {
    return Within(ctx, "addition_factor", options_.addition_factor, 0, 1) &&
           Within(ctx, "threshold_factor", options_.threshold_factor, 0, 1);
  }
  Value Transform(Value key, Value x) const override { return Solarized(key, x, options_); }
};

struct AutoContrastLayer : ColorLayer<AutoContrastOptions> {
  using ColorLayer::ColorLayer;
  absl::string_view class_name() const override { return "AutoContrast"; }
  void Fields(Config& config) override { config("value_range", options_.value_range); }
  bool CheckOptions(CallContext&, const Value&) const override { return true; }
  bool applies_in_inference() const override { return true; }
  std::optional<Range> clamp() const override { return std::nullopt; }
  Value Transform(Value, Value x) const override { return Stretched(x, options_.value_range); }
};

}  // namespace

Layer RandomContrast(const RandomContrastOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomContrastLayer>(options, location);
}
Layer RandomBrightness(const RandomBrightnessOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomBrightnessLayer>(options, location);
}
Layer RandomSaturation(const RandomSaturationOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomSaturationLayer>(options, location);
}
Layer RandomHue(const RandomHueOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomHueLayer>(options, location);
}
Layer RandomColorJitter(const RandomColorJitterOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomColorJitterLayer>(options, location);
}
Layer RandomGrayscale(const RandomGrayscaleOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomGrayscaleLayer>(options, location);
}
Layer RandomColorDegeneration(const RandomColorDegenerationOptions& options,
                              SourceLocation location) {
  return internal::MakeLayer<RandomColorDegenerationLayer>(options, location);
}
Layer RandomSharpness(const RandomSharpnessOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomSharpnessLayer>(options, location);
}
Layer RandomGaussianBlur(const RandomGaussianBlurOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomGaussianBlurLayer>(options, location);
}
Layer RandomInvert(const RandomInvertOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomInvertLayer>(options, location);
}
Layer RandomPosterization(const RandomPosterizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<RandomPosterizationLayer>(options, location);
}
Layer Solarization(const SolarizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<SolarizationLayer>(options, location);
}
Layer AutoContrast(const AutoContrastOptions& options, SourceLocation location) {
  return internal::MakeLayer<AutoContrastLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::ColorAugmentationLayers() {
  static constexpr LayerRow kRows[] = {
      {"RandomContrast", MakeDefault<RandomContrastLayer>},
      {"RandomBrightness", MakeDefault<RandomBrightnessLayer>},
      {"RandomSaturation", MakeDefault<RandomSaturationLayer>},
      {"RandomHue", MakeDefault<RandomHueLayer>},
      {"RandomColorJitter", MakeDefault<RandomColorJitterLayer>},
      {"RandomGrayscale", MakeDefault<RandomGrayscaleLayer>},
      {"RandomColorDegeneration", MakeDefault<RandomColorDegenerationLayer>},
      {"RandomSharpness", MakeDefault<RandomSharpnessLayer>},
      {"RandomGaussianBlur", MakeDefault<RandomGaussianBlurLayer>},
      {"RandomInvert", MakeDefault<RandomInvertLayer>},
      {"RandomPosterization", MakeDefault<RandomPosterizationLayer>},
      {"Solarization", MakeDefault<SolarizationLayer>},
      {"AutoContrast", MakeDefault<AutoContrastLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
