// Padding, resizing and rearranging of images.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::Value;
using ir::Values;

// ---- pad ----

int64_t SourceOf(int64_t at, int64_t extent, absl::string_view mode) {
  if (mode == "replicate") return std::clamp<int64_t>(at, 0, extent - 1);
  if (mode == "circular") return ((at % extent) + extent) % extent;
  if (at < 0) at = -at;  // reflect
  return at >= extent ? 2 * (extent - 1) - at : at;
}

// Elements of x along `axis` at positions that are known here.
Value TakePositions(Value x, const std::vector<int64_t>& positions, int64_t axis) {
  const auto count = static_cast<int64_t>(positions.size());
  const Array array = Array::Of<int64_t>({count}, absl::MakeConstSpan(positions));
  return ir::Take(x, ir::Constant(*x.graph(), *array.Cast(DType::kI32)), axis);
}

Value PadByPositions(Value x, int64_t axis, int64_t low, int64_t high, absl::string_view mode) {
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  std::vector<int64_t> positions;
  for (int64_t i = -low; i < extent + high; ++i) positions.push_back(SourceOf(i, extent, mode));
  return TakePositions(x, positions, axis);
}

// Empty: the arguments are valid.
std::string WrongPadding(const Tensor& x, const Sizes& sizes, absl::string_view mode) {
  if (sizes.size() % 2 != 0 || static_cast<int64_t>(sizes.size() / 2) > x.dim()) {
    return absl::StrCat("expects two sizes for each of the last dims, got ", sizes.ToString());
  }
  if (mode == "constant") return "";
  if (mode != "reflect" && mode != "replicate" && mode != "circular") {
    return absl::StrCat(
        "mode must be \"constant\", \"reflect\", \"replicate\" or \"circular\", "
        "got \"",
        mode, "\"");
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t extent = x.size(-1 - static_cast<int64_t>(i / 2));
    const int64_t most = mode == "reflect" ? extent - 1 : mode == "circular" ? extent : sizes[i];
    if (extent == 0 || sizes[i] < -extent || sizes[i] > most) {
      return absl::StrCat("padding ", sizes[i], " is too large for mode ", mode, " and size ",
                          extent);
    }
  }
  return "";
}

// ---- interpolate ----

struct Axis {
  int64_t in, out;
  double scale;  // input positions per output position
};

// `exact`: of the pixel's center, as mode nearest-exact.
int64_t NearestSource(const Axis& axis, int64_t i, bool exact) {
  const float at = static_cast<float>(i) + (exact ? 0.5F : 0.0F);
  return std::min(static_cast<int64_t>(std::floor(at * static_cast<float>(axis.scale))),
                  axis.in - 1);
}

// The interpolation matrix [out, in]: at most two weights in a row.
Array LinearWeights(const Axis& axis, bool align_corners) {
  Array weights = Array::Zeros(DType::kF32, {axis.out, axis.in});
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = 0;
    if (!align_corners) {
      at = std::max(0.0, (static_cast<double>(i) + 0.5) * axis.scale - 0.5);
    } else if (axis.out > 1) {
      at = static_cast<double>(i) * static_cast<double>(axis.in - 1) /
           static_cast<double>(axis.out - 1);
    }
    const int64_t low = std::min(static_cast<int64_t>(at), axis.in - 1);
    const int64_t high = std::min(low + 1, axis.in - 1);
    const double fraction = at - static_cast<double>(low);
    float* row = weights.mutable_data<float>() + i * axis.in;
    row[low] += static_cast<float>(1 - fraction);
    row[high] += static_cast<float>(fraction);
  }
  return weights;
}

// The same for cubic convolution with A = -0.75 (Keys, 1981): four weights in a row, at positions
// clamped into the input.
Array CubicWeights(const Axis& axis, bool align_corners) {
  constexpr double kA = -0.75;
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  Array weights = Array::Zeros(DType::kF64, {axis.out, axis.in});
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = (static_cast<double>(i) + 0.5) * axis.scale - 0.5;
    if (align_corners) {
      at = axis.out == 1 ? 0
                         : static_cast<double>(i) * static_cast<double>(axis.in - 1) /
                               static_cast<double>(axis.out - 1);
    }
    const auto low = static_cast<int64_t>(std::floor(at));
    const double t = at - static_cast<double>(low);
    const double each[] = {far(1 + t), near(t), near(1 - t), far(2 - t)};
    double* row = weights.mutable_data<double>() + i * axis.in;
    for (int64_t k = 0; k < 4; ++k) {
      row[std::clamp<int64_t>(low - 1 + k, 0, axis.in - 1)] += each[k];
    }
  }
  return weights;
}

// x with `axis` replaced by weights times it.
Value MultiplyAxis(Value x, const Array& weights, int64_t axis) {
  if (!x.valid()) return x;
  const absl::StatusOr<Array> cast = weights.Cast(x.dtype());
  if (!cast.ok()) {
    x.graph()->Fail(cast.status());
    return Value();
  }
  const Value matrix = ir::Constant(*x.graph(), *cast);
  // [..., out] at the end, then moved back.
  const Value y = ir::DotGeneral(x, matrix, {.lhs_contracting = {axis}, .rhs_contracting = {1}});
  if (!y.valid()) return y;
  ir::Axes order;
  for (int64_t i = 0; i + 1 < y.rank(); ++i) order.push_back(i);
  order.insert(order.begin() + axis, y.rank() - 1);
  return ir::Transpose(y, order);
}

// Empty message: `axes` has the spatial axes.
std::string ResolveAxes(const Tensor& x, const InterpolateOptions& options,
                        std::vector<Axis>& axes) {
  const int64_t spatial = x.dim() - 2;
  const std::string& mode = options.mode;
  const bool any = mode == "nearest" || mode == "nearest-exact" || mode == "area",
             smooth = (mode == "linear" && spatial == 1) || (mode == "bilinear" && spatial == 2) ||
                      (mode == "bicubic" && spatial == 2) || (mode == "trilinear" && spatial == 3);
  if (spatial < 1 || spatial > 3 || !(any || smooth)) {
    return absl::StrCat("mode \"", mode, "\" is not supported for ", x.dim(),
                        " dims; use nearest, nearest-exact, area, linear for [N, C, L], bilinear "
                        "and bicubic for [N, C, H, W], trilinear for [N, C, D, H, W]");
  }
  if (options.align_corners && any) {
    return "align_corners requires mode linear, bilinear, bicubic or trilinear";
  }
  const auto count = static_cast<size_t>(spatial);
  const std::vector<int64_t> size =
      options.size.empty() ? std::vector<int64_t>() : options.size.Each(count);
  std::vector<double> factors = options.scale_factor;
  if (factors.size() == 1) factors.resize(count, factors[0]);
  if (size.size() != count && factors.size() != count) {
    return absl::StrCat("expects a size or a scale_factor of one number, or ", count);
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = x.size(static_cast<int64_t>(i) + 2);
    Axis axis{in, 0, 0};
    if (!size.empty()) {
      axis.out = size[i];
      axis.scale = static_cast<double>(in) / static_cast<double>(axis.out);
    } else {
      axis.out = static_cast<int64_t>(std::floor(static_cast<double>(in) * factors[i]));
      axis.scale = 1 / factors[i];
    }
    if (in <= 0 || axis.out <= 0) return "the sizes must be above 0";
    axes.push_back(axis);
  }
  return "";
}

}  // namespace

Tensor pad(const Tensor& x, const Sizes& sizes, absl::string_view mode, double value,
           SourceLocation where) {
  if (!x.defined()) return FailOp("pad", {x}, "the input is undefined", where);
  const std::string wrong = WrongPadding(x, sizes, mode);
  if (!wrong.empty()) return FailOp("pad", {x}, wrong, where);
  return Record("pad", {x}, where, [&](const Values& in) {
    const auto rank = static_cast<int64_t>(in[0].rank());
    if (mode == "constant") {
      std::vector<ir::PadAxis> padding(static_cast<size_t>(rank));
      for (size_t i = 0; i < sizes.size(); i += 2) {
        padding[rank - 1 - static_cast<int64_t>(i / 2)] = {sizes[i], sizes[i + 1], 0};
      }
      return ir::Pad(in[0], value, padding);
    }
    Value y = in[0];
    for (size_t i = 0; i < sizes.size(); i += 2) {
      if (sizes[i] == 0 && sizes[i + 1] == 0) continue;
      y = PadByPositions(y, rank - 1 - static_cast<int64_t>(i / 2), sizes[i], sizes[i + 1], mode);
    }
    return y;
  });
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& options, SourceLocation where) {
  if (!x.defined()) return FailOp("interpolate", {x}, "the input is undefined", where);
  std::vector<Axis> axes;
  const std::string wrong = ResolveAxes(x, options, axes);
  if (!wrong.empty()) return FailOp("interpolate", {x}, wrong, where);
  const bool nearest = options.mode == "nearest" || options.mode == "nearest-exact";
  // The weights are fractions, which integers do not have.
  if (!nearest && !lazy::internal::RequireFloat("interpolate", x, where)) return Tensor();
  if (options.mode == "area") {
    std::vector<int64_t> sizes;
    for (const Axis& axis : axes) sizes.push_back(axis.out);
    const auto pool = axes.size() == 1   ? adaptive_avg_pool1d
                      : axes.size() == 2 ? adaptive_avg_pool2d
                                         : adaptive_avg_pool3d;
    return pool(x, sizes, where);
  }
  return Record("interpolate", {x}, where, [&](const Values& in) {
    Value y = in[0];
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto at = static_cast<int64_t>(i) + 2;
      if (!nearest) {
        const auto weights = options.mode == "bicubic" ? CubicWeights : LinearWeights;
        y = MultiplyAxis(y, weights(axes[i], options.align_corners), at);
        continue;
      }
      std::vector<int64_t> positions;
      for (int64_t k = 0; k < axes[i].out; ++k) {
        positions.push_back(NearestSource(axes[i], k, options.mode == "nearest-exact"));
      }
      y = TakePositions(y, positions, at);
    }
    return y;
  });
}

Tensor pixel_shuffle(const Tensor& x, int64_t r, SourceLocation where) {
  if (!x.defined() || x.dim() != 4 || r <= 0 || r > x.size(1) || x.size(1) % (r * r) != 0) {
    return FailOp("pixel_shuffle", {x},
                  absl::StrCat("expects [N, C r^2, H, W] for the upscale_factor r = ", r), where);
  }
  return Record("pixel_shuffle", {x}, where, [&](const Values& in) {
    const Shape& s = in[0].shape();
    const int64_t n = s.dim(0), c = s.dim(1) / (r * r), h = s.dim(2), w = s.dim(3);
    const Value split = ir::Reshape(in[0], {n, c, r, r, h, w});
    return ir::Reshape(ir::Transpose(split, {0, 1, 4, 2, 5, 3}), {n, c, h * r, w * r});
  });
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r, SourceLocation where) {
  if (!x.defined() || x.dim() != 4 || r <= 0 || x.size(2) % r != 0 || x.size(3) % r != 0) {
    return FailOp("pixel_unshuffle", {x},
                  absl::StrCat("expects [N, C, H r, W r] for the downscale_factor r = ", r), where);
  }
  return Record("pixel_unshuffle", {x}, where, [&](const Values& in) {
    const Shape& s = in[0].shape();
    const int64_t n = s.dim(0), c = s.dim(1), h = s.dim(2) / r, w = s.dim(3) / r;
    const Value split = ir::Reshape(in[0], {n, c, h, r, w, r});
    return ir::Reshape(ir::Transpose(split, {0, 1, 3, 5, 2, 4}), {n, c * r * r, h, w});
  });
}

Tensor unfold(const Tensor& x, const Sizes& kernel_size, const UnfoldOptions& options,
              SourceLocation where) {
  const std::vector<int64_t> k = kernel_size.Each(2), d = options.dilation.Each(2),
                             p = options.padding.Each(2), s = options.stride.Each(2);
  if (!x.defined() || x.dim() != 4 || k.empty() || d.empty() || p.empty() || s.empty() ||
      std::min({k[0], k[1], d[0], d[1], s[0], s[1]}) <= 0 || std::min(p[0], p[1]) < 0) {
    return FailOp("unfold", {x},
                  "expects [N, C, H, W], and one number or two for kernel_size and each option",
                  where);
  }
  int64_t out[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t span = x.size(2 + i) + 2 * p[i] - d[i] * (k[i] - 1) - 1;
    out[i] = span < 0 ? 0 : span / s[i] + 1;
    if (out[i] == 0) return FailOp("unfold", {x}, "the kernel does not fit", where);
  }
  return Record("unfold", {x}, where, [&](const Values& in) {
    const Value padded = ir::Pad(in[0], 0, {{}, {}, {p[0], p[0], 0}, {p[1], p[1], 0}});
    Values parts;
    for (int64_t i = 0; i < k[0]; ++i) {
      for (int64_t j = 0; j < k[1]; ++j) {
        const int64_t top = i * d[0], left = j * d[1];
        const Value rows = ir::SliceAxis(padded, 2, top, top + (out[0] - 1) * s[0] + 1, s[0]);
        const Value part = ir::SliceAxis(rows, 3, left, left + (out[1] - 1) * s[1] + 1, s[1]);
        parts.push_back(ir::ExpandDims(part, 2));
      }
    }
    const Shape& shape = in[0].shape();
    return ir::Reshape(ir::Concatenate(parts, 2),
                       {shape.dim(0), shape.dim(1) * k[0] * k[1], out[0] * out[1]});
  });
}

Tensor fold(const Tensor& x, const Sizes& output_size, const Sizes& kernel_size,
            const UnfoldOptions& options, SourceLocation where) {
  constexpr int64_t kMost = 1 << 24;
  const std::vector<int64_t> k = kernel_size.Each(2), d = options.dilation.Each(2),
                             p = options.padding.Each(2), s = options.stride.Each(2),
                             size = output_size.Each(2);
  if (!x.defined() || x.dim() != 3 || k.empty() || d.empty() || p.empty() || s.empty() ||
      size.empty() || std::min({k[0], k[1], d[0], d[1], s[0], s[1], size[0], size[1]}) <= 0 ||
      std::max({k[0], k[1], d[0], d[1], s[0], s[1], size[0], size[1], p[0], p[1]}) > kMost ||
      std::min(p[0], p[1]) < 0 || x.size(1) % (k[0] * k[1]) != 0) {
    return FailOp("fold", {x},
                  "expects [N, C * kernel elements, positions], and one number or two for "
                  "output_size, kernel_size and each option",
                  where);
  }
  int64_t in[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t span = size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1;
    in[i] = span < 0 ? 0 : span / s[i] + 1;
  }
  if (in[0] * in[1] != x.size(2)) {
    return FailOp("fold", {x},
                  absl::StrCat("expects ", in[0], " x ", in[1], " positions, got ", x.size(2)),
                  where);
  }
  return Record("fold", {x}, where, [&](const Values& v) {
    const int64_t n = v[0].shape().dim(0), c = v[0].shape().dim(1) / (k[0] * k[1]);
    const Value patches = ir::Reshape(v[0], {n, c, k[0] * k[1], in[0], in[1]});
    Value sum;
    for (int64_t i = 0; i < k[0] * k[1]; ++i) {
      Value part = ir::Squeeze(ir::SliceAxis(patches, 2, i, i + 1), {2});
      std::vector<ir::PadAxis> padding{{}, {}};
      for (int axis = 0; axis < 2; ++axis) {  // negative: cut off
        const int64_t at = (axis == 0 ? i / k[1] : i % k[1]) * d[axis] - p[axis];
        const int64_t end = at + (in[axis] - 1) * s[axis] + 1;
        padding.push_back({at, size[axis] - end, s[axis] - 1});
      }
      part = ir::Pad(part, 0, padding);
      sum = i == 0 ? part : sum + part;
    }
    return sum;
  });
}

Tensor channel_shuffle(const Tensor& x, int64_t groups, SourceLocation where) {
  if (!x.defined() || x.dim() < 3 || groups <= 0 || x.size(1) % groups != 0) {
    return FailOp("channel_shuffle", {x},
                  absl::StrCat("expects [N, C, ...] with channels that ", groups, " divides"),
                  where);
  }
  return Record("channel_shuffle", {x}, where, [&](const Values& in) {
    const Shape& shape = in[0].shape();
    const Value split = ir::Reshape(in[0], {shape.dim(0), groups, shape.dim(1) / groups, -1});
    return ir::Reshape(ir::Transpose(split, {0, 2, 1, 3}), shape);
  });
}

}  // namespace penstock::lazy::nn::functional
