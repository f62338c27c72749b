// Flips and crops of images, conversions between ranges.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/image_internal.h"
#include "penstock/session/ops/image_ops.h"

namespace penstock::session {

using internal::In;
using internal::Reject;
using ir::Value;

namespace internal {

Value OnBatch(In in, const ImageFunction& lower) {
  const Value& x = in[0];
  if (x.rank() == 4) return lower(x, in);
  if (x.rank() != 3) {
    return Reject(x, "expects images [height, width, channels] or [batch, height, width, ",
                  "channels], got ", x.type().ToString());
  }
  const Value y = lower(ir::ExpandDims(x, 0), in);
  return y.valid() ? ir::Squeeze(y, {0}) : y;
}

Tensor AddImageOp(absl::string_view type, const Tensors& inputs, absl::string_view name,
                  SourceLocation where, ImageFunction lower) {
  return AddOp(type, inputs, name, where,
               [lower = std::move(lower)](In in) { return OnBatch(in, lower); });
}

Value ConvertImage(Value image, DType dtype, bool saturate) {
  const DType from = image.dtype();
  if (from == dtype) return image;
  const bool to_float = base::IsFloat(dtype), from_float = base::IsFloat(from);
  const auto narrowed = [&](Value x) {
    if (!saturate || !x.valid()) return ir::Convert(x, dtype);
    const Value low = ScalarLike(x, std::max(LowestOf(dtype), LowestOf(x.dtype())));
    const Value high = ScalarLike(x, std::min(HighestOf(dtype), HighestOf(x.dtype())));
    return ir::Convert(ir::Clamp(low, x, high), dtype);
  };
  if (from_float && to_float) return ir::Convert(image, dtype);
  if (from_float) return narrowed(image * (HighestOf(dtype) + 0.5));
  if (to_float) return ir::Convert(image, dtype) * (1 / HighestOf(from));
  if (HighestOf(from) > HighestOf(dtype)) {
    const double scale = std::floor((HighestOf(from) + 1) / (HighestOf(dtype) + 1));
    // Floor division: the values of signed images may be negative.
    const Value q = image / scale, rest = ir::Remainder(image, ScalarLike(image, scale));
    if (!base::IsSigned(from)) return narrowed(q);
    const Value below = ir::Less(rest, ScalarLike(rest, 0));
    return narrowed(ir::Select(below, q - 1.0, q));
  }
  const double scale = std::floor((HighestOf(dtype) + 1) / (HighestOf(from) + 1));
  return narrowed(image) * scale;
}

Value InFloat(Value image, bool saturate, const std::function<Value(Value image)>& function) {
  const bool stays = image.dtype() == DType::kF16 || image.dtype() == DType::kF32;
  const Value y = function(stays ? image : ConvertImage(image, DType::kF32, false));
  return y.valid() ? ConvertImage(y, image.dtype(), saturate) : y;
}

}  // namespace internal

namespace image {

using internal::AddImageOp;

namespace {

Value Window(Value x, int64_t top, int64_t left, int64_t height, int64_t width) {
  const int64_t h = x.shape().dim(1), w = x.shape().dim(2);
  if (top < 0 || left < 0 || height < 0 || width < 0 || top + height > h || left + width > w) {
    return Reject(x, "the box of ", height, " x ", width, " at (", top, ", ", left,
                  ") is not within the image ", x.type().ToString());
  }
  return ir::SliceAxis(ir::SliceAxis(x, 1, top, top + height), 2, left, left + width);
}

Value Border(Value x, int64_t top, int64_t left, int64_t height, int64_t width) {
  const int64_t bottom = height - top - x.shape().dim(1), right = width - left - x.shape().dim(2);
  if (top < 0 || left < 0 || bottom < 0 || right < 0) {
    return Reject(x, "the image ", x.type().ToString(), " at (", top, ", ", left,
                  ") is not within ", height, " x ", width);
  }
  return ir::Pad(x, 0, {{}, {top, bottom}, {left, right}, {}});
}

Value CropOrPad(Value x, int64_t height, int64_t width) {
  if (height < 1 || width < 1) return Reject(x, "the target size has to be positive");
  const int64_t h = x.shape().dim(1), w = x.shape().dim(2);
  const auto half = [](int64_t by) { return by > 0 ? by / 2 : 0; };
  // Python's floor division of a negative difference: an odd element is cropped at the end.
  const Value cropped =
      Window(x, half(h - height), half(w - width), std::min(h, height), std::min(w, width));
  if (!cropped.valid()) return cropped;
  return Border(cropped, half(height - h), half(width - w), height, width);
}

Tensor AddRandomFlip(absl::string_view type, const Tensor& image, std::optional<uint64_t> seed,
                     SourceLocation where, int64_t axis) {
  if (!image.valid()) return internal::InvalidInput(type, where);
  return internal::AddRandom(
      type, {image}, "", where, seed, {{image.dtype(), image.shape()}}, [axis](In in, Value key) {
        return internal::OnBatch(in, [&](const Value& x, In) {
          const Shape each({x.shape().dim(0), 1, 1, 1});
          const Value flip = ir::Less(ir::RandomUniform(key, {DType::kF32, each}),
                                      ir::Splat(*x.graph(), {DType::kF32, {}}, 0.5));
          return ir::Select(flip, ir::Reverse(x, {axis}), x);
        });
      });
}

}  // namespace

Tensor FlipLeftRight(const Tensor& image, SourceLocation where) {
  return AddImageOp("flip_left_right", {image}, "", where,
                    [](const Value& x, In) { return ir::Reverse(x, {2}); });
}

Tensor FlipUpDown(const Tensor& image, SourceLocation where) {
  return AddImageOp("flip_up_down", {image}, "", where,
                    [](const Value& x, In) { return ir::Reverse(x, {1}); });
}

Tensor TransposeImage(const Tensor& image, absl::string_view name, SourceLocation where) {
  return AddImageOp("transpose", {image}, name, where, [](const Value& x, In) {
    return ir::Transpose(x, {0, 2, 1, 3});
  });
}

Tensor Rot90(const Tensor& image, int64_t k, absl::string_view name, SourceLocation where) {
  return AddImageOp("rot90", {image}, name, where, [k](const Value& x, In) -> Value {
    switch (((k % 4) + 4) % 4) {
      case 1:
        return ir::Transpose(ir::Reverse(x, {2}), {0, 2, 1, 3});
      case 2:
        return ir::Reverse(x, {1, 2});
      case 3:
        return ir::Reverse(ir::Transpose(x, {0, 2, 1, 3}), {2});
      default:
        return x;
    }
  });
}

Tensor RandomFlipLeftRight(const Tensor& image, std::optional<uint64_t> seed,
                           SourceLocation where) {
  return AddRandomFlip("random_flip_left_right", image, seed, where, 2);
}

Tensor RandomFlipUpDown(const Tensor& image, std::optional<uint64_t> seed, SourceLocation where) {
  return AddRandomFlip("random_flip_up_down", image, seed, where, 1);
}

Tensor CentralCrop(const Tensor& image, double central_fraction, SourceLocation where) {
  if (!(central_fraction > 0 && central_fraction <= 1)) {
    return FailOp({image}, "central_crop",
                  absl::StrCat("central_fraction is in (0, 1], got ", central_fraction), where);
  }
  return AddImageOp("central_crop", {image}, "", where, [central_fraction](const Value& x, In) {
    const auto start = [&](int64_t extent) {
      const double all = static_cast<double>(extent);
      return static_cast<int64_t>((all - all * central_fraction) / 2);
    };
    const int64_t h = x.shape().dim(1), w = x.shape().dim(2), top = start(h), left = start(w);
    return Window(x, top, left, h - 2 * top, w - 2 * left);
  });
}

Tensor CropToBoundingBox(const Tensor& image, int64_t offset_height, int64_t offset_width,
                         int64_t target_height, int64_t target_width, SourceLocation where) {
  return AddImageOp("crop_to_bounding_box", {image}, "", where, [=](const Value& x, In) {
    return Window(x, offset_height, offset_width, target_height, target_width);
  });
}

Tensor PadToBoundingBox(const Tensor& image, int64_t offset_height, int64_t offset_width,
                        int64_t target_height, int64_t target_width, SourceLocation where) {
  return AddImageOp("pad_to_bounding_box", {image}, "", where, [=](const Value& x, In) {
    return Border(x, offset_height, offset_width, target_height, target_width);
  });
}

Tensor ResizeImageWithCropOrPad(const Tensor& image, int64_t target_height, int64_t target_width,
                                SourceLocation where) {
  return AddImageOp("resize_image_with_crop_or_pad", {image}, "", where,
                    [=](const Value& x, In) { return CropOrPad(x, target_height, target_width); });
}

Tensor ConvertImageDtype(const Tensor& image, DType dtype, bool saturate, absl::string_view name,
                         SourceLocation where) {
  return AddOp("convert_image", {image}, name, where,
               [dtype, saturate](In in) { return internal::ConvertImage(in[0], dtype, saturate); });
}

Tensor TotalVariation(const Tensor& images, absl::string_view name, SourceLocation where) {
  return AddOp("total_variation", {images}, name, where, [](In in) -> Value {
    const int rank = in[0].rank();
    if (rank != 3 && rank != 4) return Reject(in[0], "expects 3 or 4 axes");
    const ir::Axes axes{-3, -2, -1};
    const auto along = [&](int64_t axis) {
      const int64_t n = in[0].shape().dim(static_cast<int>(axis));
      return ir::ReduceSum(
          ir::Abs(ir::SliceAxis(in[0], axis, 1, n) - ir::SliceAxis(in[0], axis, 0, n - 1)), axes);
    };
    return along(rank - 3) + along(rank - 2);
  });
}

std::pair<Tensor, Tensor> ImageGradients(const Tensor& image, SourceLocation where) {
  const Tensors both = AddOps("image_gradients", {image}, "", where, [](In in) -> ir::Values {
    const Value& x = in[0];
    if (x.rank() != 4) {
      Reject(x, "expects images [batch, height, width, channels], got ", x.type().ToString());
      return ir::Values(2);
    }
    const auto along = [&](int64_t axis) {
      const int64_t n = x.shape().dim(static_cast<int>(axis));
      std::vector<ir::PadAxis> end(4);
      end[axis] = {0, 1};
      return ir::Pad(ir::SliceAxis(x, axis, 1, n) - ir::SliceAxis(x, axis, 0, n - 1), 0, end);
    };
    return {along(1), along(2)};
  });
  return both.size() == 2 ? std::pair(both[0], both[1]) : std::pair<Tensor, Tensor>();
}

Tensor SobelEdges(const Tensor& image, SourceLocation where) {
  const Tensor padded = Pad(image, {{0, 0}, {1, 1}, {1, 1}, {0, 0}}, {.mode = "REFLECT"}, where);
  return AddOp("sobel_edges", {padded}, "", where, [](In in) -> Value {
    const Value& x = in[0];
    const int64_t h = x.shape().dim(1) - 2, w = x.shape().dim(2) - 2;
    const auto at = [&](int64_t row, int64_t column) {
      return ir::SliceAxis(ir::SliceAxis(x, 1, row, row + h), 2, column, column + w);
    };
    const Value down = at(2, 0) + at(2, 1) * 2.0 + at(2, 2) - at(0, 0) - at(0, 1) * 2.0 - at(0, 2);
    const Value right = at(0, 2) + at(1, 2) * 2.0 + at(2, 2) - at(0, 0) - at(1, 0) * 2.0 - at(2, 0);
    return ir::Concatenate({ir::ExpandDims(down, 4), ir::ExpandDims(right, 4)}, 4);
  });
}

}  // namespace image
}  // namespace penstock::session
