// Layers that move elements about without reckoning (layers_reshaping.cc). Included by layers.h.
#pragma once

#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// [batch, ...] -> [batch, everything].
struct FlattenOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer Flatten(const FlattenOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// [batch, ...] -> [batch] + target_shape, of which one extent may be -1: what is left.
struct ReshapeOptions {
  std::vector<int64_t> target_shape = {};
  std::string name = "";
  std::string dtype = "";
};
Layer Reshape(const ReshapeOptions& options, SourceLocation location = SourceLocation::Current());

// Axis i of the result (the batch is 0) is axis dims[i - 1] of the input: {2, 1} swaps two.
struct PermuteOptions {
  std::vector<int64_t> dims = {};
  std::string name = "";
  std::string dtype = "";
};
Layer Permute(const PermuteOptions& options, SourceLocation location = SourceLocation::Current());

// [batch, features] -> [batch, n, features].
struct RepeatVectorOptions {
  int64_t n = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RepeatVector(const RepeatVectorOptions& options,
                   SourceLocation location = SourceLocation::Current());

// Zeros before and after each spatial axis of [batch, ..., channels].
template <int N>
struct ZeroPaddingOptions {
  Ends<N> padding = 1;
  std::string name = "";
  std::string dtype = "";
};
Layer ZeroPadding1D(const ZeroPaddingOptions<1>& options = {},
                    SourceLocation location = SourceLocation::Current());
Layer ZeroPadding2D(const ZeroPaddingOptions<2>& options = {},
                    SourceLocation location = SourceLocation::Current());
Layer ZeroPadding3D(const ZeroPaddingOptions<3>& options = {},
                    SourceLocation location = SourceLocation::Current());

// Leaves out so many positions at the ends of each spatial axis. Keras's default is none for images
// and one at each end for the others.
template <int N>
struct CroppingOptions {
  Ends<N> cropping = N == 2 ? 0 : 1;
  std::string name = "";
  std::string dtype = "";
};
Layer Cropping1D(const CroppingOptions<1>& options = {},
                 SourceLocation location = SourceLocation::Current());
Layer Cropping2D(const CroppingOptions<2>& options = {},
                 SourceLocation location = SourceLocation::Current());
Layer Cropping3D(const CroppingOptions<3>& options = {},
                 SourceLocation location = SourceLocation::Current());

// Each position `size` times; images may be interpolated instead ("nearest", "bilinear", "bicubic",
// "lanczos3", "lanczos5": as Resizing).
template <int N>
struct UpSamplingOptions {
  Size<N> size = 2;
  std::string name = "";
  std::string dtype = "";
};
template <>
struct UpSamplingOptions<2> {
  Size<2> size = 2;
  std::string interpolation = "nearest";
  std::string name = "";
  std::string dtype = "";
};
Layer UpSampling1D(const UpSamplingOptions<1>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer UpSampling2D(const UpSamplingOptions<2>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer UpSampling3D(const UpSamplingOptions<3>& options = {},
                   SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
