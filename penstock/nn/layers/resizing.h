// Layers that resize or crop images (layers/resizing.cc). Included by layers.h.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// Resizes images (bytes or floats), with half-pixel centers. `antialias` applies a low-pass filter
// when downsampling.
struct ResizingOptions {
  int64_t height = 0;
  int64_t width = 0;
  Interpolation interpolation = "bilinear";  // bilinear, nearest, bicubic, lanczos3, lanczos5
  bool crop_to_aspect_ratio = false;  // crop first: the largest centered window of this ratio
  bool pad_to_aspect_ratio = false;   // pad first: a border of fill_value to reach this ratio
  FillMode fill_mode = "constant";    // the only supported mode, as in Keras
  double fill_value = 0;
  bool antialias = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Resizing(const ResizingOptions& options, SourceLocation location = SourceLocation::Current());

// The central height x width pixels. Of a smaller image: the largest centered window of that aspect
// ratio, resized bilinearly. The result has the layer's compute type.
struct CenterCropOptions {
  int64_t height = 0;
  int64_t width = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer CenterCrop(const CenterCropOptions& options,
                 SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
