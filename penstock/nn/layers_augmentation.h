// Random changes of images, on the device, in training alone (layers_augmentation.cc). Included by
// layers.h. Each image has its own; bytes stay bytes.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// In training: a window of height x width at a place drawn for each image (Keras draws one for the
// batch). Otherwise, and when the image is smaller than that: the largest centred window of that
// aspect ratio, resized bilinearly, as Keras's documentation says (Keras 3.15 itself then returns
// the images uncropped).
struct RandomCropOptions {
  int64_t height = 0;
  int64_t width = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RandomCrop(const RandomCropOptions& options,
                 SourceLocation location = SourceLocation::Current());

// Mirrors every second image, by chance: "horizontal" left and right, "vertical" top and bottom,
// "horizontal_and_vertical" both at once, as Keras 3 does.
struct RandomFlipOptions {
  std::string mode = "horizontal_and_vertical";
  std::string name = "";
  std::string dtype = "";
};
Layer RandomFlip(const RandomFlipOptions& options = {},
                 SourceLocation location = SourceLocation::Current());

// Moves each image by fractions of its size drawn from the ranges; positive is down and right.
// What comes in from outside follows fill_mode: reflect (dcba|abcd|dcba), wrap (abcd|abcd|abcd),
// nearest (aaaa|abcd|dddd) or constant (fill_value).
struct RandomTranslationOptions {
  Range height_factor = 0;
  Range width_factor = 0;
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";  // bilinear, nearest
  double fill_value = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RandomTranslation(const RandomTranslationOptions& options,
                        SourceLocation location = SourceLocation::Current());

// Turns each image about its middle by a fraction of a full turn drawn from the range; positive is
// counter-clockwise.
struct RandomRotationOptions {
  Range factor = 0;
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";
  double fill_value = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RandomRotation(const RandomRotationOptions& options,
                     SourceLocation location = SourceLocation::Current());

// Makes what an image shows 1 + factor times smaller, about its middle: 0.2 zooms out, -0.2 in.
// Without width_factor both sides have the same.
struct RandomZoomOptions {
  Range height_factor = 0;
  OptionalRange width_factor = std::nullopt;
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";
  double fill_value = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RandomZoom(const RandomZoomOptions& options,
                 SourceLocation location = SourceLocation::Current());

// (x - mean) * c + mean, by the mean of each channel of each image, kept within value_range; c is
// drawn from [1 - low, 1 + high]. One number means both, as Keras's documentation says (Keras 3.15
// itself then takes [1, 1 + factor]).
struct RandomContrastOptions {
  Range factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  std::string dtype = "";
};
Layer RandomContrast(const RandomContrastOptions& options,
                     SourceLocation location = SourceLocation::Current());

// Adds a fraction of value_range's extent, drawn from the range, to all of an image; kept within
// value_range.
struct RandomBrightnessOptions {
  Range factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  std::string dtype = "";
};
Layer RandomBrightness(const RandomBrightnessOptions& options,
                       SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
