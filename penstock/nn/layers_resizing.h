// Layers that change how many pixels images have (layers_resizing.cc). Included by layers.h.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// Images, bytes or numbers, at another size, with half-pixel centres. `antialias` blurs what would
// alias when the image becomes smaller.
struct ResizingOptions {
  int64_t height = 0;
  int64_t width = 0;
  std::string interpolation = "bilinear";  // bilinear, nearest, bicubic, lanczos3, lanczos5
  bool crop_to_aspect_ratio = false;       // first the largest centred window of the wanted shape
  bool pad_to_aspect_ratio = false;        // first a border of fill_value that makes it that shape
  std::string fill_mode = "constant";      // the only one, as in Keras
  double fill_value = 0;
  bool antialias = false;
  std::string name = "";
  std::string dtype = "";
};
Layer Resizing(const ResizingOptions& options, SourceLocation location = SourceLocation::Current());

// The middle height x width pixels. Of a smaller image: the largest centred window of that aspect
// ratio, resized bilinearly. The result is of the layer's compute type.
struct CenterCropOptions {
  int64_t height = 0;
  int64_t width = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer CenterCrop(const CenterCropOptions& options,
                 SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
