// Resizing of images, with the sampling positions of TensorFlow 1: without half-pixel centers.
// Formulas: tensorflow/core/kernels/image/{image_resizer_state.h, resize_*_op.cc}.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/image_internal.h"
#include "penstock/session/ops/image_ops.h"

namespace penstock::session::image {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

// Weighted taps of each position of the result along one axis.
struct Taps {
  // By tap: a position of the input and a weight for each position of the result.
  std::vector<std::vector<int32_t>> places;
  std::vector<std::vector<float>> weights;
};

float ScaleOf(int64_t in, int64_t out, bool align_corners) {
  return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                  : static_cast<float>(in) / static_cast<float>(out);
}

void AddTap(Taps& taps, size_t tap, int64_t place, int64_t in, float weight) {
  if (taps.places.size() <= tap) taps.places.resize(tap + 1), taps.weights.resize(tap + 1);
  taps.places[tap].push_back(static_cast<int32_t>(std::clamp<int64_t>(place, 0, in - 1)));
  taps.weights[tap].push_back(weight);
}

Taps NearestTaps(int64_t in, int64_t out, bool align_corners) {
  const float scale = ScaleOf(in, out, align_corners);
  Taps taps;
  for (int64_t i = 0; i < out; ++i) {
    const float at = static_cast<float>(i) * scale;
    AddTap(taps, 0, static_cast<int64_t>(align_corners ? std::round(at) : std::floor(at)), in, 1);
  }
  return taps;
}

Taps BilinearTaps(int64_t in, int64_t out, bool align_corners) {
  const float scale = ScaleOf(in, out, align_corners);
  Taps taps;
  for (int64_t i = 0; i < out; ++i) {
    const float at = static_cast<float>(i) * scale, low = std::floor(at);
    AddTap(taps, 0, static_cast<int64_t>(low), in, 1 - (at - low));
    AddTap(taps, 1, static_cast<int64_t>(low) + 1, in, at - low);
  }
  return taps;
}

// Keys's kernel with a = -0.75, tabulated at 1024 positions as TensorFlow does.
float CubicNear(double x) { return static_cast<float>(((1.25 * x) - 2.25) * x * x + 1); }
float CubicFar(double x) {
  constexpr double kA = -0.75;
  return static_cast<float>(((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA);
}

Taps BicubicTaps(int64_t in, int64_t out, bool align_corners) {
  const float scale = ScaleOf(in, out, align_corners);
  Taps taps;
  for (int64_t i = 0; i < out; ++i) {
    const float at = static_cast<float>(i) * scale;
    const int64_t low = static_cast<int64_t>(std::floor(at));
    const double delta = std::nearbyint((at - static_cast<float>(low)) * 1024) / 1024;
    const std::array<float, 4> weights = {CubicFar(delta + 1), CubicNear(delta),
                                          CubicNear(1 - delta), CubicFar(2 - delta)};
    for (size_t tap = 0; tap < 4; ++tap) {
      AddTap(taps, tap, low - 1 + static_cast<int64_t>(tap), in, weights[tap]);
    }
  }
  return taps;
}

// Weights [out, in] of the mean over the part of the input that a position of the result covers.
Array AreaMatrix(int64_t in, int64_t out, bool align_corners) {
  const float scale = ScaleOf(in, out, align_corners);
  Array matrix = Array::Zeros(DType::kF32, Shape({out, in}));
  float* const weights = matrix.mutable_data<float>();
  for (int64_t i = 0; i < out; ++i) {
    const float begin = static_cast<float>(i) * scale, end = begin + scale;
    for (int64_t k = static_cast<int64_t>(std::floor(begin)); static_cast<float>(k) < end; ++k) {
      const float low = static_cast<float>(k);
      const float covered = std::max(0.0f, std::min(end, low + 1) - std::max(begin, low));
      weights[i * in + std::clamp<int64_t>(k, 0, in - 1)] += covered / scale;
    }
  }
  return matrix;
}

// Products with the matrices of rows and columns; [batch, height, width, channels].
Value Average(Value x, int64_t height, int64_t width, bool align_corners) {
  const Value rows = ir::Constant(*x.graph(), AreaMatrix(x.shape().dim(1), height, align_corners));
  const Value columns =
      ir::Constant(*x.graph(), AreaMatrix(x.shape().dim(2), width, align_corners));
  x = ir::DotGeneral(rows, x, {.lhs_contracting = {1}, .rhs_contracting = {1}});
  x = ir::DotGeneral(columns, x, {.lhs_contracting = {1}, .rhs_contracting = {2}});
  return ir::Transpose(x, {2, 1, 0, 3});  // from [width, height, batch, channels]
}

// The weighted sum of the taps along an axis of NHWC images.
Value Resample(Value x, int64_t axis, const Taps& taps, bool weighted) {
  Value sum;
  for (size_t tap = 0; tap < taps.places.size(); ++tap) {
    const int64_t out = static_cast<int64_t>(taps.places[tap].size());
    const Value places = ir::Constant(
        *x.graph(), Array::Of<int32_t>(Shape({out}), absl::MakeConstSpan(taps.places[tap])));
    Value part = ir::Take(x, places, axis);
    if (!weighted || !part.valid()) return part;
    std::vector<int64_t> dims(4, 1);
    dims[axis] = out;
    part =
        part * ir::Constant(*x.graph(),
                            Array::Of<float>(Shape(dims), absl::MakeConstSpan(taps.weights[tap])));
    sum = sum.valid() ? sum + part : part;
  }
  return sum;
}

using TapsFunction = Taps (*)(int64_t in, int64_t out, bool align_corners);
TapsFunction TapsOf(ResizeMethod method) {
  switch (method) {
    case ResizeMethod::kNearestNeighbor:
      return NearestTaps;
    case ResizeMethod::kBicubic:
      return BicubicTaps;
    default:
      return BilinearTaps;
  }
}

// The largest size within `size` of the image's aspect ratio.
std::pair<int64_t, int64_t> SameAspect(int64_t h, int64_t w, std::pair<int64_t, int64_t> size) {
  const float height = static_cast<float>(h), width = static_cast<float>(w);
  const float scale =
      std::min(static_cast<float>(size.first) / height, static_cast<float>(size.second) / width);
  return {static_cast<int64_t>(std::nearbyint(scale * height)),
          static_cast<int64_t>(std::nearbyint(scale * width))};
}

Value ResizeOf(Value x, std::pair<int64_t, int64_t> size, ResizeMethod method,
               const ResizeOptions& o) {
  const int64_t h = x.shape().dim(1), w = x.shape().dim(2);
  if (h < 1 || w < 1 || size.first < 1 || size.second < 1) {
    return Reject(x, "cannot resize ", x.type().ToString(), " to ", size.first, " x ", size.second);
  }
  if (o.preserve_aspect_ratio) size = SameAspect(h, w, size);
  const auto [height, width] = size;
  if (height == h && width == w) return x;
  const bool weighted = method != ResizeMethod::kNearestNeighbor;
  const TapsFunction taps = TapsOf(method);
  if (weighted) x = ir::Convert(x, DType::kF32);
  if (method == ResizeMethod::kArea) return Average(x, height, width, o.align_corners);
  const Value rows = Resample(x, 1, taps(h, height, o.align_corners), weighted);
  return rows.valid() ? Resample(rows, 2, taps(w, width, o.align_corners), weighted) : rows;
}

}  // namespace

Tensor ResizeImages(const Tensor& images, std::pair<int64_t, int64_t> size, ResizeMethod method,
                    const ResizeOptions& options, SourceLocation where) {
  return internal::AddImageOp("resize", {images}, options.name, where, [=](const Value& x, In) {
    return ResizeOf(x, size, method, options);
  });
}

}  // namespace penstock::session::image
