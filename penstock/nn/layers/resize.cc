#include "penstock/nn/layers/resize.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace penstock::nn::internal {
namespace {

// Interpolation kernels: weight by distance (as in jax.image.resize).
double Triangle(double x) { return std::max(0.0, 1 - x); }
// Keys: Cubic convolution interpolation for digital image processing, 1981; with a = -0.5.
double Cubic(double x) {
  if (x >= 2) return 0;
  return x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : ((1.5 * x - 2.5) * x) * x + 1;
}
double Lanczos(double radius, double x) {
  if (x > radius) return 0;
  if (x <= 1e-3) return 1;
  return radius * std::sin(M_PI * x) * std::sin(M_PI * x / radius) / (M_PI * M_PI * x * x);
}

struct Interpolation {
  const char* name;
  double (*weight)(double distance);  // nullptr: nearest neighbor
};
constexpr Interpolation kInterpolations[] = {
    {"bilinear", Triangle},
    {"nearest", nullptr},
    {"bicubic", Cubic},
    {"lanczos3", [](double x) { return Lanczos(3, x); }},
    {"lanczos5", [](double x) { return Lanczos(5, x); }},
};

const Interpolation* Find(const std::string& name) {
  for (const Interpolation& row : kInterpolations) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// Weights of the window's positions for output `y`.
std::vector<double> WeightsOf(const Interpolation& kind, int64_t extent, int64_t out, int64_t y,
                              bool antialias) {
  std::vector<double> weights(extent, 0);
  const double scale = static_cast<double>(extent) / static_cast<double>(out);
  if (kind.weight == nullptr) {
    // In float32, as in JAX: at some sizes, double selects the neighbor.
    const float place =
        (static_cast<float>(y) + 0.5f) * static_cast<float>(extent) / static_cast<float>(out);
    weights[std::min(extent - 1, static_cast<int64_t>(std::floor(place)))] = 1;
    return weights;
  }
  const double center = (static_cast<double>(y) + 0.5) * scale - 0.5;
  const double width = antialias ? std::max(scale, 1.0) : 1;
  double sum = 0;
  for (int64_t i = 0; i < extent; ++i) {
    weights[i] = kind.weight(std::abs(center - static_cast<double>(i)) / width);
    sum += weights[i];
  }
  for (double& w : weights) w /= sum;
  return weights;
}

}  // namespace

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

Array ResizeMatrix(int64_t in, int64_t begin, int64_t extent, int64_t out,
                   const std::string& interpolation, bool antialias) {
  Array matrix = Array::Zeros(DType::kF32, {1, out, in});
  float* m = matrix.mutable_data<float>();
  for (int64_t y = 0; y < out; ++y) {
    const std::vector<double> weights = WeightsOf(*Find(interpolation), extent, out, y, antialias);
    for (int64_t i = 0; i < extent; ++i) m[y * in + begin + i] = static_cast<float>(weights[i]);
  }
  return matrix;
}

bool IsInterpolation(const std::string& name) { return Find(name) != nullptr; }

std::string InterpolationNames() {
  std::string names;
  for (const Interpolation& row : kInterpolations) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return names;
}

Value ToPixels(Value x, DType dtype) {
  if (!x.valid() || base::IsFloat(dtype)) return ir::Convert(x, dtype);
  double low = 0, high = 0;
  base::VisitNumeric(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      low = static_cast<double>(std::numeric_limits<T>::lowest());
      high = static_cast<double>(std::numeric_limits<T>::max());
    }
  });
  return ir::Convert(ir::Clamp(ir::SplatLike(x, low), ir::Round(x), ir::SplatLike(x, high)), dtype);
}

Value Resize(CallContext& ctx, Value images, int64_t height, int64_t width,
             const ResizeOptions& options) {
  if (!images.valid()) return images;
  if (height <= 0 || width <= 0) {
    return ctx.Fail(absl::StrCat("height and width must be above 0, got ", height, " and ", width));
  }
  if (!IsInterpolation(options.interpolation)) {
    return ctx.Fail(absl::StrCat("unknown interpolation \"", options.interpolation,
                                 "\"; available: ", InterpolationNames()));
  }
  if (options.crop_to_aspect_ratio && options.pad_to_aspect_ratio) {
    return ctx.Fail("crop_to_aspect_ratio and pad_to_aspect_ratio are mutually exclusive");
  }
  const DType dtype = images.dtype();
  Value x = ir::Convert(images, DType::kF32);
  if (!x.valid()) return x;
  int64_t in_height = x.shape().dim(1), in_width = x.shape().dim(2);
  // This function builds tables of size before * after for the height and for the width.
  constexpr int64_t kMax = 1 << 28;
  for (const auto& [in, out] : {std::pair(in_height, height), std::pair(in_width, width)}) {
    if (in <= kMax && out <= kMax && in * out <= kMax) continue;
    return ctx.Fail(absl::StrCat("a resize from ", in, " to ", out, " pixels is too large"));
  }
  int64_t top = 0, left = 0, window_height = in_height, window_width = in_width;
  // The sides that, combined with the other one, have the target aspect ratio.
  const int64_t fit_height = in_width * height / width, fit_width = in_height * width / height;
  if (options.crop_to_aspect_ratio) {
    window_height = std::clamp<int64_t>(fit_height, 1, in_height);
    window_width = std::clamp<int64_t>(fit_width, 1, in_width);
    top = (in_height - window_height) / 2;
    left = (in_width - window_width) / 2;
  } else if (options.pad_to_aspect_ratio) {
    // As in Keras: one of the two is padded, equally at both ends.
    const int64_t above = (std::max(in_height, fit_height) - in_height) / 2;
    const int64_t beside = above > 0 ? 0 : (std::max(in_width, fit_width) - in_width) / 2;
    x = ir::Pad(x, options.fill_value, {{}, {above, above, 0}, {beside, beside, 0}, {}});
    window_height = in_height += 2 * above;
    window_width = in_width += 2 * beside;
    if (in_height > kMax / height || in_width > kMax / width) {
      return ctx.Fail(absl::StrCat("padding ", images.type().ToString(), " to the aspect of ",
                                   height, " x ", width, " makes it too large"));
    }
  }
  ir::Graph& graph = *x.graph();
  const auto matrix = [&](int64_t in, int64_t begin, int64_t extent, int64_t out) {
    return ir::Constant(
        graph, ResizeMatrix(in, begin, extent, out, options.interpolation, options.antialias));
  };
  return ToPixels(ApplyMatrices(matrix(in_height, top, window_height, height),
                                matrix(in_width, left, window_width, width), x),
                  dtype);
}

}  // namespace penstock::nn::internal
