// Data augmentation of images that moves or erases pixels, on the device, in training only
// (layers/augmentation.cc). Included by layers.h. Each image gets its own random parameters; bytes
// stay bytes. color_augmentation.h has the layers that change colors, batch_augmentation.h MixUp
// and CutMix.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// In training: a window of height x width at a random position for each image (Keras uses one for
// the batch). In inference, and if the image is smaller than that: the largest centered window of
// that aspect ratio, resized bilinearly, as Keras documents (Keras 3.15 itself then returns the
// images uncropped).
struct RandomCropOptions {
  int64_t height = 0;
  int64_t width = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomCrop(const RandomCropOptions& options,
                 SourceLocation location = SourceLocation::Current());

// Mirrors each image with probability 1/2: "horizontal" left-right, "vertical" top-bottom,
// "horizontal_and_vertical" both at once, as Keras 3 does.
struct RandomFlipOptions {
  FlipMode mode = "horizontal_and_vertical";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomFlip(const RandomFlipOptions& options = {},
                 SourceLocation location = SourceLocation::Current());

// Translates each image by fractions of its size drawn from the ranges; positive is down and right.
// Values from outside the image follow fill_mode: reflect (dcba|abcd|dcba), wrap (abcd|abcd|abcd),
// nearest (aaaa|abcd|dddd) or constant (fill_value).
struct RandomTranslationOptions {
  Range height_factor = 0;
  Range width_factor = 0;
  FillMode fill_mode = "reflect";
  Interpolation interpolation = "bilinear";  // bilinear, nearest
  double fill_value = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomTranslation(const RandomTranslationOptions& options,
                        SourceLocation location = SourceLocation::Current());

// Rotates each image about its center by a fraction of a full turn drawn from the range; positive
// is counterclockwise.
struct RandomRotationOptions {
  Range factor = 0;
  FillMode fill_mode = "reflect";
  Interpolation interpolation = "bilinear";
  double fill_value = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomRotation(const RandomRotationOptions& options,
                     SourceLocation location = SourceLocation::Current());

// Scales the contents of each image about its center by 1 / (1 + factor): 0.2 zooms out, -0.2 in.
// Without width_factor, both sides use the same factor.
struct RandomZoomOptions {
  Range height_factor = 0;
  OptionalRange width_factor = std::nullopt;
  FillMode fill_mode = "reflect";
  Interpolation interpolation = "bilinear";
  double fill_value = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomZoom(const RandomZoomOptions& options,
                 SourceLocation location = SourceLocation::Current());

// Shears each image: column x of row y of the result is column x + x_factor * y of the image, and
// row y + y_factor * x; the factors are drawn from the ranges and get one random sign. A single
// number f is the range [-f, f].
struct RandomShearOptions {
  Range x_factor = 0;
  Range y_factor = 0;
  Interpolation interpolation = "bilinear";
  FillMode fill_mode = "reflect";
  double fill_value = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomShear(const RandomShearOptions& options,
                  SourceLocation location = SourceLocation::Current());

// Zhong et al., Random erasing data augmentation, 2020. Replaces a box of an image with a
// probability drawn from `factor`. The squares of the box's sides, as fractions of the image's, are
// drawn from `scale`.
struct RandomErasingOptions {
  UnitRange factor = {0, 1};
  UnitRange scale = {0.02, 0.33};
  // One number, or one for each channel. Default: normal noise with value_range's maximum as
  // standard deviation.
  PerChannel fill_value = {};
  Range value_range = {0, 255};  // fill values are clamped to it
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomErasing(const RandomErasingOptions& options = {},
                    SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
