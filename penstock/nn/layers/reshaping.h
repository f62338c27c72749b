// Layers that rearrange elements (layers/reshaping.cc). Included by layers.h.
#pragma once

#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// [batch, ...] -> [batch, product of the other extents].
struct FlattenOptions {
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Flatten(const FlattenOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// [batch, ...] -> [batch] + target_shape, of which one extent may be -1 (inferred).
struct ReshapeOptions {
  std::vector<int64_t> target_shape = {};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Reshape(const ReshapeOptions& options, SourceLocation location = SourceLocation::Current());

// Transposition of the axes of an example: axis i of the result (the batch is 0) is axis dims[i -
// 1] of the input; {2, 1} swaps two axes.
struct PermuteOptions {
  std::vector<int64_t> dims = {};
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Permute(const PermuteOptions& options, SourceLocation location = SourceLocation::Current());

// [batch, features] -> [batch, n, features].
struct RepeatVectorOptions {
  int64_t n = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer RepeatVector(const RepeatVectorOptions& options,
                   SourceLocation location = SourceLocation::Current());

// Zero padding before and after each spatial axis of [batch, ..., channels].
template <int N>
struct ZeroPaddingOptions {
  Ends<N> padding = 1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer ZeroPadding1D(const ZeroPaddingOptions<1>& options = {},
                    SourceLocation location = SourceLocation::Current());
Layer ZeroPadding2D(const ZeroPaddingOptions<2>& options = {},
                    SourceLocation location = SourceLocation::Current());
Layer ZeroPadding3D(const ZeroPaddingOptions<3>& options = {},
                    SourceLocation location = SourceLocation::Current());

// Reverses the order of elements along an axis that is not the batch: {.axis = -1} turns RGB images
// into BGR images. In Keras this is the operation keras.ops.flip.
struct FlipOptions {
  int64_t axis = -1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Flip(const FlipOptions& options = {}, SourceLocation location = SourceLocation::Current());

// Removes positions at the ends of each spatial axis. Keras's default is none for images and one at
// each end for the others.
template <int N>
struct CroppingOptions {
  Ends<N> cropping = N == 2 ? 0 : 1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Cropping1D(const CroppingOptions<1>& options = {},
                 SourceLocation location = SourceLocation::Current());
Layer Cropping2D(const CroppingOptions<2>& options = {},
                 SourceLocation location = SourceLocation::Current());
Layer Cropping3D(const CroppingOptions<3>& options = {},
                 SourceLocation location = SourceLocation::Current());

// Repeats each position `size` times; images may be interpolated instead ("nearest", "bilinear",
// "bicubic", "lanczos3", "lanczos5": as Resizing).
template <int N>
struct UpSamplingOptions {
  Size<N> size = 2;
  std::string name = "";
  DTypePolicy dtype = "";
};
template <>
struct UpSamplingOptions<2> {
  Size<2> size = 2;
  Interpolation interpolation = "nearest";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer UpSampling1D(const UpSamplingOptions<1>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer UpSampling2D(const UpSamplingOptions<2>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer UpSampling3D(const UpSamplingOptions<3>& options = {},
                   SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
