// Images: tf.image.* under TensorFlow's names in CamelCase. Images are [height, width, channels] or
// [batch, height, width, channels], of any numeric type; heights and widths have to be known when
// the program is compiled.
//
//   tf::Tensor large = tf::image::ResizeImageWithCropOrPad(image, 40, 40);
//   tf::Tensor crop = tf::RandomCrop(large, {32, 32, 3});
//   tf::Tensor input = tf::image::PerImageStandardization(tf::image::RandomFlipLeftRight(crop));
//
// Random functions draw other numbers in each Run, by the graph's seed and their own (see
// random_ops.h). As in TensorFlow 1, one number is drawn for a whole batch, except by the random
// flips, which draw for each image.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "penstock/session/graph.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session::image {

enum class ResizeMethod { kBilinear = 0, kNearestNeighbor = 1, kBicubic = 2, kArea = 3 };
struct ResizeOptions {
  bool align_corners = false;
  bool preserve_aspect_ratio = false;
  std::string name = "";
};
// tf.image.resize_images: [height, width] of the result; float32 unless kNearestNeighbor or the
// size does not change. As in TensorFlow 1, without half-pixel centers: position i of the result is
// i * in / out of the input, or with align_corners i * (in - 1) / (out - 1).
Tensor ResizeImages(const Tensor& images, std::pair<int64_t, int64_t> size,
                    ResizeMethod method = ResizeMethod::kBilinear,
                    const ResizeOptions& options = {},
                    SourceLocation where = SourceLocation::Current());

// ---- Flips and crops ----
Tensor FlipLeftRight(const Tensor& image, SourceLocation where = SourceLocation::Current());
Tensor FlipUpDown(const Tensor& image, SourceLocation where = SourceLocation::Current());
Tensor TransposeImage(const Tensor& image, absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
// k times 90 degrees counterclockwise.
Tensor Rot90(const Tensor& image, int64_t k = 1, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// With probability 1/2, for each image of a batch.
Tensor RandomFlipLeftRight(const Tensor& image, std::optional<uint64_t> seed = {},
                           SourceLocation where = SourceLocation::Current());
Tensor RandomFlipUpDown(const Tensor& image, std::optional<uint64_t> seed = {},
                        SourceLocation where = SourceLocation::Current());
// The central part of this fraction of height and width.
Tensor CentralCrop(const Tensor& image, double central_fraction,
                   SourceLocation where = SourceLocation::Current());
Tensor CropToBoundingBox(const Tensor& image, int64_t offset_height, int64_t offset_width,
                         int64_t target_height, int64_t target_width,
                         SourceLocation where = SourceLocation::Current());
// The image at an offset in zeros.
Tensor PadToBoundingBox(const Tensor& image, int64_t offset_height, int64_t offset_width,
                        int64_t target_height, int64_t target_width,
                        SourceLocation where = SourceLocation::Current());
// Crops or pads each side evenly.
Tensor ResizeImageWithCropOrPad(const Tensor& image, int64_t target_height, int64_t target_width,
                                SourceLocation where = SourceLocation::Current());

// ---- Pixels ----
// (x - mean) / max(stddev, 1 / sqrt(number of elements)) of each image; integers give float32.
Tensor PerImageStandardization(const Tensor& image,
                               SourceLocation where = SourceLocation::Current());
// Converted between ranges: floats 0 to 1, integers 0 to their maximum.
Tensor ConvertImageDtype(const Tensor& image, DType dtype, bool saturate = false,
                         absl::string_view name = "",
                         SourceLocation where = SourceLocation::Current());
// image + delta; integers as fractions of their range.
Tensor AdjustBrightness(const Tensor& image, const Operand& delta,
                        SourceLocation where = SourceLocation::Current());
// (x - mean) * factor + mean, with the mean of each channel and image.
Tensor AdjustContrast(const Tensor& images, const Operand& contrast_factor,
                      SourceLocation where = SourceLocation::Current());
Tensor AdjustGamma(const Tensor& image, const Operand& gamma = 1, const Operand& gain = 1,
                   SourceLocation where = SourceLocation::Current());
// RGB images. delta, a fraction of the color circle, is added to the hue; the saturation is
// multiplied by its factor.
Tensor AdjustHue(const Tensor& image, const Operand& delta, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor AdjustSaturation(const Tensor& image, const Operand& saturation_factor,
                        absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());
// With a delta in [-max_delta, max_delta), a factor in [lower, upper).
Tensor RandomBrightness(const Tensor& image, double max_delta, std::optional<uint64_t> seed = {},
                        SourceLocation where = SourceLocation::Current());
Tensor RandomContrast(const Tensor& image, double lower, double upper,
                      std::optional<uint64_t> seed = {},
                      SourceLocation where = SourceLocation::Current());
Tensor RandomHue(const Tensor& image, double max_delta, std::optional<uint64_t> seed = {},
                 SourceLocation where = SourceLocation::Current());
Tensor RandomSaturation(const Tensor& image, double lower, double upper,
                        std::optional<uint64_t> seed = {},
                        SourceLocation where = SourceLocation::Current());
Tensor RgbToGrayscale(const Tensor& images, absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
Tensor GrayscaleToRgb(const Tensor& images, absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
// Floats in [0, 1].
Tensor RgbToHsv(const Tensor& images, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor HsvToRgb(const Tensor& images, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor RgbToYuv(const Tensor& images, SourceLocation where = SourceLocation::Current());
Tensor YuvToRgb(const Tensor& images, SourceLocation where = SourceLocation::Current());

// ---- Parts of images ----
// [batch, rows, columns, ksize * ksize * channels]: the window at each position
// (tf.image.extract_image_patches). ksizes, strides and rates (dilations) as strides of
// convolutions; padding is "SAME" or "VALID".
Tensor ExtractImagePatches(const Tensor& images, const Ints& ksizes, const Ints& strides,
                           const Ints& rates, const Padding& padding, absl::string_view name = "",
                           SourceLocation where = SourceLocation::Current());
// Boxes of images, resized to crop_size: [boxes, height, width, channels], float32. boxes
// [boxes, 4] are y1, x1, y2, x2 as fractions of the image's height - 1 and width - 1, box_ind
// [boxes] the numbers of their images. Positions outside have the extrapolation_value.
struct CropAndResizeOptions {
  std::string method = "bilinear";  // or nearest
  double extrapolation_value = 0;
  std::string name = "";
};
Tensor CropAndResize(const Tensor& image, const Tensor& boxes, const Tensor& box_ind,
                     std::pair<int64_t, int64_t> crop_size,
                     const CropAndResizeOptions& options = {},
                     SourceLocation where = SourceLocation::Current());

// ---- Measures ----
// Sum of absolute differences of neighbors, for each image.
Tensor TotalVariation(const Tensor& images, absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
// Differences to the next row and the next column; zeros at the end.
std::pair<Tensor, Tensor> ImageGradients(const Tensor& image,
                                         SourceLocation where = SourceLocation::Current());
// [..., 2]: derivatives by rows and by columns, with reflected borders.
Tensor SobelEdges(const Tensor& image, SourceLocation where = SourceLocation::Current());
// Peak signal-to-noise ratio in decibels, for each image.
Tensor Psnr(const Tensor& a, const Tensor& b, double max_val, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::image
