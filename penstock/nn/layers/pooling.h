// Pooling layers of sequences, images and volumes (layers/pooling.cc). Included by layers.h.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// Strides default to the pool size. Average pooling excludes padding from the mean.
template <int N>
struct PoolingOptions {
  Size<N> pool_size = 2;
  OptionalSize<N> strides = std::nullopt;
  Padding padding = "valid";  // valid, same
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer MaxPooling1D(const PoolingOptions<1>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer MaxPooling2D(const PoolingOptions<2>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer MaxPooling3D(const PoolingOptions<3>& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer AveragePooling1D(const PoolingOptions<1>& options = {},
                       SourceLocation location = SourceLocation::Current());
Layer AveragePooling2D(const PoolingOptions<2>& options = {},
                       SourceLocation location = SourceLocation::Current());
Layer AveragePooling3D(const PoolingOptions<3>& options = {},
                       SourceLocation location = SourceLocation::Current());

// Global pooling: [batch, ..., channels] -> [batch, channels]. The average of a masked sequence is
// over its real steps.
struct GlobalPoolingOptions {
  bool keepdims = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer GlobalMaxPooling1D(const GlobalPoolingOptions& options = {},
                         SourceLocation location = SourceLocation::Current());
Layer GlobalMaxPooling2D(const GlobalPoolingOptions& options = {},
                         SourceLocation location = SourceLocation::Current());
Layer GlobalMaxPooling3D(const GlobalPoolingOptions& options = {},
                         SourceLocation location = SourceLocation::Current());
Layer GlobalAveragePooling1D(const GlobalPoolingOptions& options = {},
                             SourceLocation location = SourceLocation::Current());
Layer GlobalAveragePooling2D(const GlobalPoolingOptions& options = {},
                             SourceLocation location = SourceLocation::Current());
Layer GlobalAveragePooling3D(const GlobalPoolingOptions& options = {},
                             SourceLocation location = SourceLocation::Current());

// Adaptive pooling to output_size windows of nearly equal size: window i of `out` over n positions
// is [floor(i n / out), ceil((i + 1) n / out)).
template <int N>
struct AdaptivePoolingOptions {
  Size<N> output_size = 1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer AdaptiveMaxPooling1D(const AdaptivePoolingOptions<1>& options,
                           SourceLocation location = SourceLocation::Current());
Layer AdaptiveMaxPooling2D(const AdaptivePoolingOptions<2>& options,
                           SourceLocation location = SourceLocation::Current());
Layer AdaptiveMaxPooling3D(const AdaptivePoolingOptions<3>& options,
                           SourceLocation location = SourceLocation::Current());
Layer AdaptiveAveragePooling1D(const AdaptivePoolingOptions<1>& options,
                               SourceLocation location = SourceLocation::Current());
Layer AdaptiveAveragePooling2D(const AdaptivePoolingOptions<2>& options,
                               SourceLocation location = SourceLocation::Current());
Layer AdaptiveAveragePooling3D(const AdaptivePoolingOptions<3>& options,
                               SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
