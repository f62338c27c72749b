// Merge layers: several inputs, one output (layers/merge.cc). Included by layers.h.
#pragma once

#include <optional>
#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// Elementwise, with broadcasting; an input with fewer axes gets axes of 1 right after the batch
// axis: [B, 4] is broadcast with [B, 5, 4] as [B, 1, 4].
struct MergeOptions {
  // A number that is merged after the inputs, of which one is then enough: Add({.constant = 3})(x)
  // is x + 3. In Keras such an expression is an operation, which networks number and list as they
  // do layers of this class.
  std::optional<double> constant = std::nullopt;
  // False: masks of the inputs are ignored and dropped, as by Keras's operations (x + y).
  bool use_masks = true;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Add(const MergeOptions& options = {}, SourceLocation location = SourceLocation::Current());
// The first input minus the second; requires exactly two inputs.
Layer Subtract(const MergeOptions& options = {},
               SourceLocation location = SourceLocation::Current());
Layer Multiply(const MergeOptions& options = {},
               SourceLocation location = SourceLocation::Current());
Layer Average(const MergeOptions& options = {},
              SourceLocation location = SourceLocation::Current());
Layer Maximum(const MergeOptions& options = {},
              SourceLocation location = SourceLocation::Current());
Layer Minimum(const MergeOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// The first input plus the second times `scale`: the residual connection of InceptionResNetV2.
struct CustomScaleLayerOptions {
  double scale = 1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer CustomScaleLayer(const CustomScaleLayerOptions& options = {},
                       SourceLocation location = SourceLocation::Current());

// Concatenation along `axis`; the other extents must be equal.
struct ConcatenateOptions {
  int64_t axis = -1;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Concatenate(const ConcatenateOptions& options = {},
                  SourceLocation location = SourceLocation::Current());

// Dot product along an axis of each of two inputs, example by example: [B, a, n] and [B, b, n] with
// axes 2 give [B, a, b]; two vectors give [B, 1]. `normalize` first divides both by their norm
// along it, which gives the cosine similarity.
struct DotOptions {
  AxisList axes = {};  // one for both inputs, or one for each; not the batch axis
  bool normalize = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Dot(const DotOptions& options, SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
