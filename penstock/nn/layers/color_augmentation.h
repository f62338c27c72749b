// Data augmentation of images that changes their colors, on the device
// (layers/color_augmentation.cc). Included by layers.h. In training only, except AutoContrast. Each
// image gets its own random parameters; bytes stay bytes. `value_range` is the range of the pixels.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

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

// Multiplies the saturation (of HSV) by f / (1 - f), at most to 1, with f drawn from `factor`: 0.5
// changes nothing, 0 gives gray images, 1 fully saturated ones. A single number f means [0, f], as
// Keras documents (Keras 3.15 itself makes [-f, f] of it, also in its files, where factors below 0
// give gray images; and it limits the saturation to value_range).
// For images of three channels, RGB.
struct RandomSaturationOptions {
  UnitRange factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomSaturation(const RandomSaturationOptions& options,
                       SourceLocation location = SourceLocation::Current());

// Turns the hue by f / 2 of the color circle, with f drawn from `factor` and a random sign. RGB.
struct RandomHueOptions {
  UnitRange factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomHue(const RandomHueOptions& options,
                SourceLocation location = SourceLocation::Current());

// RandomBrightness, RandomContrast, RandomSaturation and RandomHue in this order, each of them only
// if its factor is given.
struct RandomColorJitterOptions {
  Range value_range = {0, 255};
  OptionalRange brightness_factor = std::nullopt;
  OptionalRange contrast_factor = std::nullopt;
  OptionalUnitRange saturation_factor = std::nullopt;
  OptionalUnitRange hue_factor = std::nullopt;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomColorJitter(const RandomColorJitterOptions& options,
                        SourceLocation location = SourceLocation::Current());

// Makes images gray with probability `factor`, with equal channels: 0.2989 R + 0.587 G + 0.114 B.
// Images of one channel are unchanged.
struct RandomGrayscaleOptions {
  double factor = 0.5;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomGrayscale(const RandomGrayscaleOptions& options = {},
                      SourceLocation location = SourceLocation::Current());

// x + f (gray - x) with f drawn from `factor`: 0 changes nothing, 1 is gray. A single number f
// means [0, f], as Keras documents (Keras 3.15 itself makes [-f, f] of it, also in its files).
struct RandomColorDegenerationOptions {
  UnitRange factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomColorDegeneration(const RandomColorDegenerationOptions& options,
                              SourceLocation location = SourceLocation::Current());

// x + (1 - 2 f) (smoothed - x) with f drawn from `factor`: 0 smooths by a filter of 3 x 3 pixels,
// 0.5 changes nothing, 1 sharpens.
struct RandomSharpnessOptions {
  UnitRange factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomSharpness(const RandomSharpnessOptions& options,
                      SourceLocation location = SourceLocation::Current());

// Blurs an image with a probability drawn from `factor`, by a Gaussian filter whose standard
// deviations across and down, in pixels, are drawn from `sigma` for each image (in Keras for the
// batch). Outside of the image there are zeros.
struct RandomGaussianBlurOptions {
  UnitRange factor = {0, 1};
  Size<2> kernel_size = 3;  // odd; across, down
  UnitRange sigma = {0, 1};
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomGaussianBlur(const RandomGaussianBlurOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// The maximum of value_range minus the pixels, with a probability drawn from `factor`.
struct RandomInvertOptions {
  UnitRange factor = {0, 1};
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomInvert(const RandomInvertOptions& options = {},
                   SourceLocation location = SourceLocation::Current());

// Keeps the highest bits of the pixels as bytes: a number of bits from 1 to 8. A range {low, high}
// is drawn from without `high`, as in Keras, and a single number f means {1, f}.
struct RandomPosterizationOptions {
  AxisList factor = {1, 8};
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RandomPosterization(const RandomPosterizationOptions& options,
                          SourceLocation location = SourceLocation::Current());

// Adds a number to the pixels, then inverts those that are not below a threshold; both are
// fractions of value_range's extent, drawn from the factors.
struct SolarizationOptions {
  UnitRange addition_factor = 0;
  UnitRange threshold_factor = 0;
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Solarization(const SolarizationOptions& options = {},
                   SourceLocation location = SourceLocation::Current());

// Stretches each channel of each image to the whole value_range, also in inference; constant
// channels are unchanged.
struct AutoContrastOptions {
  Range value_range = {0, 255};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer AutoContrast(const AutoContrastOptions& options = {},
                   SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
