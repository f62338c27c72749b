// Brightness, contrast, colors and measures of images.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/image_internal.h"
#include "penstock/session/ops/image_ops.h"

namespace penstock::session::image {

using internal::AddImageOp;
using internal::ConvertImage;
using internal::In;
using internal::InFloat;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

Tensors InputsWith(const Tensor& image, std::initializer_list<const Operand*> operands) {
  Tensors inputs{image};
  for (const Operand* operand : operands) {
    if (!operand->is_number()) inputs.push_back(operand->tensor());
  }
  return inputs;
}

// An adjustment of images in float32 by an operand.
using Adjustment = Value (*)(Value image, Value by);
Tensor AddAdjustment(absl::string_view type, const Tensor& image, const Operand& by,
                     absl::string_view name, SourceLocation where, bool saturate,
                     Adjustment adjust) {
  return AddOp(type, InputsWith(image, {&by}), name, where, [=](In in) {
    return InFloat(in[0], saturate, [&](Value x) {
      const Value given = internal::OperandValues(in, 1).Next(by, x);
      return adjust(x, ir::Convert(given, x.dtype()));
    });
  });
}

// The same by a number that is drawn in [low, high).
Tensor AddRandomAdjustment(absl::string_view type, const Tensor& image, double low, double high,
                           std::optional<uint64_t> seed, SourceLocation where, bool saturate,
                           Adjustment adjust) {
  if (!image.valid()) return internal::InvalidInput(type, where);
  if (!(high > low)) {
    return FailOp({image}, type,
                  absl::StrCat("the upper limit ", high, " has to be above the lower one, ", low),
                  where);
  }
  return internal::AddRandom(
      type, {image}, "", where, seed, {{image.dtype(), image.shape()}}, [=](In in, Value key) {
        return InFloat(in[0], saturate, [&](Value x) {
          const Value by = ir::RandomUniform(key, {DType::kF32, {}}, low, high);
          return adjust(x, ir::Convert(by, x.dtype()));
        });
      });
}

Value Brighten(Value x, Value delta) { return x + delta; }

Value ChangeContrast(Value x, Value factor) {
  if (x.rank() < 3) return Reject(x, "expects images, got ", x.type().ToString());
  const Value mean = ir::ReduceMean(x, {-3, -2}, true);
  return (x - mean) * factor + mean;
}

// ---- Hue, saturation, value ----

bool IsRgb(const Value& x) {
  if (x.rank() >= 1 && x.shape().dim(-1) == 3) return true;
  Reject(x, "expects 3 channels on the last axis, got ", x.type().ToString());
  return false;
}

struct Channels {
  Value a, b, c;
};
Channels SplitChannels(const Value& x) {
  const Values parts = ir::Split(x, 3, x.rank() - 1);
  return {parts[0], parts[1], parts[2]};
}
Value JoinChannels(const Channels& c) { return ir::Concatenate({c.a, c.b, c.c}, -1); }

// Hue in [0, 1), saturation, value; TensorFlow's formula.
Value ToHsv(Value x) {
  if (!IsRgb(x)) return Value();
  const auto [r, g, b] = SplitChannels(x);
  const Value value = ir::Maximum(r, ir::Maximum(g, b));
  const Value range = value - ir::Minimum(r, ir::Minimum(g, b));
  const Value zero = ir::SplatLike(value, 0), one = ir::SplatLike(value, 1);
  const Value has_value = ir::Greater(value, zero), has_range = ir::Greater(range, zero);
  const Value saturation = ir::Select(has_value, range / ir::Select(has_value, value, one), zero);
  const Value norm = 1.0 / (ir::Select(has_range, range, one) * 6.0);
  Value hue = ir::Select(
      ir::Equal(r, value), norm * (g - b),
      ir::Select(ir::Equal(g, value), norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0));
  hue = ir::Select(has_range, hue, zero);
  hue = ir::Select(ir::Less(hue, zero), hue + 1.0, hue);
  return JoinChannels({hue, saturation, value});
}

Value ToRgb(Value x) {
  if (!IsRgb(x)) return Value();
  // Not a structured binding, which clang's lambdas cannot capture.
  const Channels hsv = SplitChannels(x);
  const Value hue = hsv.a * 6.0, zero = ir::SplatLike(hue, 0), one = ir::SplatLike(hue, 1);
  const auto part = [&](double at, bool inside) {
    const Value distance = ir::Abs(hue - at);
    const Value ramp = inside ? 2.0 - distance : distance - 1.0;
    const Value weight = ir::Clamp(zero, ramp, one);
    return ((1.0 - hsv.b) + hsv.b * weight) * hsv.c;
  };
  return JoinChannels({part(3, false), part(2, true), part(4, true)});
}

Value ShiftHue(Value x, Value delta) {
  const Value hsv = ToHsv(x);
  if (!hsv.valid()) return hsv;
  const auto [h, s, v] = SplitChannels(hsv);
  const Value shifted = h + delta;
  return ToRgb(JoinChannels({shifted - ir::Floor(shifted), s, v}));
}

Value ScaleSaturation(Value x, Value factor) {
  const Value hsv = ToHsv(x);
  if (!hsv.valid()) return hsv;
  const auto [h, s, v] = SplitChannels(hsv);
  const Value zero = ir::SplatLike(s, 0), one = ir::SplatLike(s, 1);
  return ToRgb(JoinChannels({h, ir::Clamp(zero, s * factor, one), v}));
}

// x [..., 3] times a matrix [3][n], row by row.
Value MixChannels(const Value& x, const std::vector<double>& matrix, int64_t outputs) {
  if (!IsRgb(x)) return Value();
  const std::vector<float> narrow(matrix.begin(), matrix.end());
  const Value kernel = ir::Convert(
      ir::Constant(*x.graph(), Array::Of<float>(Shape({3, outputs}), absl::MakeConstSpan(narrow))),
      x.dtype());
  return ir::DotGeneral(x, kernel, {.lhs_contracting = {x.rank() - 1}, .rhs_contracting = {0}});
}

}  // namespace

Tensor PerImageStandardization(const Tensor& image, SourceLocation where) {
  return AddImageOp("per_image_standardization", {image}, "", where, [](const Value& x, In) {
    const Value wide = ir::Convert(x, DType::kF32);
    const ir::Axes axes{1, 2, 3};
    const double count = static_cast<double>(x.shape().num_elements()) /
                         static_cast<double>(std::max<int64_t>(1, x.shape().dim(0)));
    const Value centered = wide - ir::ReduceMean(wide, axes, true);
    const Value deviation = ir::Sqrt(ir::ReduceMean(ir::Square(centered), axes, true));
    return centered / ir::Maximum(deviation, ir::SplatLike(deviation, 1 / std::sqrt(count)));
  });
}

Tensor AdjustBrightness(const Tensor& image, const Operand& delta, SourceLocation where) {
  return AddAdjustment("adjust_brightness", image, delta, "", where, true, Brighten);
}

Tensor AdjustContrast(const Tensor& images, const Operand& contrast_factor, SourceLocation where) {
  return AddAdjustment("adjust_contrast", images, contrast_factor, "", where, true, ChangeContrast);
}

Tensor AdjustGamma(const Tensor& image, const Operand& gamma, const Operand& gain,
                   SourceLocation where) {
  return AddOp("adjust_gamma", InputsWith(image, {&gamma, &gain}), "", where, [=](In in) {
    return InFloat(in[0], true, [&](Value x) {
      internal::OperandValues operands(in, 1);
      const Value exponent = operands.Next(gamma, x), factor = operands.Next(gain, x);
      return factor * ir::Power(x, exponent);
    });
  });
}

Tensor AdjustHue(const Tensor& image, const Operand& delta, absl::string_view name,
                 SourceLocation where) {
  return AddAdjustment("adjust_hue", image, delta, name, where, false, ShiftHue);
}

Tensor AdjustSaturation(const Tensor& image, const Operand& saturation_factor,
                        absl::string_view name, SourceLocation where) {
  return AddAdjustment("adjust_saturation", image, saturation_factor, name, where, false,
                       ScaleSaturation);
}

Tensor RandomBrightness(const Tensor& image, double max_delta, std::optional<uint64_t> seed,
                        SourceLocation where) {
  return AddRandomAdjustment("random_brightness", image, -max_delta, max_delta, seed, where, true,
                             Brighten);
}

Tensor RandomContrast(const Tensor& image, double lower, double upper, std::optional<uint64_t> seed,
                      SourceLocation where) {
  return AddRandomAdjustment("random_contrast", image, lower, upper, seed, where, true,
                             ChangeContrast);
}

Tensor RandomHue(const Tensor& image, double max_delta, std::optional<uint64_t> seed,
                 SourceLocation where) {
  return AddRandomAdjustment("random_hue", image, -max_delta, max_delta, seed, where, false,
                             ShiftHue);
}

Tensor RandomSaturation(const Tensor& image, double lower, double upper,
                        std::optional<uint64_t> seed, SourceLocation where) {
  return AddRandomAdjustment("random_saturation", image, lower, upper, seed, where, false,
                             ScaleSaturation);
}

Tensor RgbToGrayscale(const Tensor& images, absl::string_view name, SourceLocation where) {
  return AddOp("rgb_to_grayscale", {images}, name, where, [](In in) -> Value {
    const Value y =
        MixChannels(ConvertImage(in[0], DType::kF32, false), {0.2989, 0.5870, 0.1140}, 1);
    return y.valid() ? ConvertImage(y, in[0].dtype(), false) : y;
  });
}

Tensor GrayscaleToRgb(const Tensor& images, absl::string_view name, SourceLocation where) {
  return AddOp("grayscale_to_rgb", {images}, name, where, [](In in) -> Value {
    if (in[0].rank() < 1 || in[0].shape().dim(-1) != 1) {
      return Reject(in[0], "expects 1 channel on the last axis, got ", in[0].type().ToString());
    }
    return ir::Concatenate({in[0], in[0], in[0]}, -1);
  });
}

Tensor RgbToHsv(const Tensor& images, absl::string_view name, SourceLocation where) {
  return AddOp("RGBToHSV", {images}, name, where, [](In in) { return ToHsv(in[0]); });
}

Tensor HsvToRgb(const Tensor& images, absl::string_view name, SourceLocation where) {
  return AddOp("HSVToRGB", {images}, name, where, [](In in) { return ToRgb(in[0]); });
}

Tensor RgbToYuv(const Tensor& images, SourceLocation where) {
  return AddOp("rgb_to_yuv", {images}, "", where, [](In in) {
    return MixChannels(in[0],
                       {0.299, -0.14714119, 0.61497538, 0.587, -0.28886916, -0.51496512, 0.114,
                        0.43601035, -0.10001026},
                       3);
  });
}

Tensor YuvToRgb(const Tensor& images, SourceLocation where) {
  return AddOp("yuv_to_rgb", {images}, "", where, [](In in) {
    return MixChannels(in[0], {1, 1, 1, 0, -0.394642334, 2.03206185, 1.13988303, -0.58062185, 0},
                       3);
  });
}

Tensor Psnr(const Tensor& a, const Tensor& b, double max_val, absl::string_view name,
            SourceLocation where) {
  return AddOp("PSNR", {a, b}, name, where, [max_val](In in) -> Value {
    if (in[0].rank() < 3) return Reject(in[0], "expects images, got ", in[0].type().ToString());
    const Value x = ConvertImage(in[0], DType::kF32, false);
    const Value y = ConvertImage(in[1], DType::kF32, false);
    const Value error = ir::ReduceMean(ir::Square(x - y), {-3, -2, -1});
    if (!error.valid()) return error;
    const double range =
        base::IsFloat(in[0].dtype()) ? max_val : max_val / internal::HighestOf(in[0].dtype());
    return 20 * std::log10(range) - ir::Log(error) * (10 / std::log(10.0));
  });
}

}  // namespace penstock::session::image
