// Data augmentation of images, on the device, in training only (layers/augmentation.cc). Included
// by layers.h. Each image gets its own random parameters; bytes stay bytes.
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

// (x - mean) * c + mean with the mean of each channel of each image, clamped to value_range; c is
// drawn from [1 - low, 1 + high]. A single number means both, as Keras documents (Keras 3.15 itself
// then uses [1, 1 + factor]).
struct RandomContrastOptions {
  Range factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomContrast(const RandomContrastOptions& options,
                     SourceLocation location = SourceLocation::Current());

// Adds a fraction of value_range's extent, drawn from the range, to all pixels of an image; clamped
// to value_range.
struct RandomBrightnessOptions {
  Range factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomBrightness(const RandomBrightnessOptions& options,
                       SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
