// Layers that make one tensor of several (layers_merge.cc). Included by layers.h.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// Elementwise, with broadcasting; an input of fewer axes gets them right after the batch's: [B, 4]
// meets [B, 5, 4] as [B, 1, 4].
struct MergeOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer Add(const MergeOptions& options = {}, SourceLocation location = SourceLocation::Current());
// The first less the second: of exactly two inputs.
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

// One after the other along `axis`; their other extents are equal.
struct ConcatenateOptions {
  int64_t axis = -1;
  std::string name = "";
  std::string dtype = "";
};
Layer Concatenate(const ConcatenateOptions& options = {},
                  SourceLocation location = SourceLocation::Current());

// Sums of products along an axis of each of two inputs, example by example: [B, a, n] and [B, b, n]
// with axes 2 give [B, a, b]; two vectors give [B, 1]. `normalize` divides both by their length
// along it first, which makes it the cosine.
struct DotOptions {
  AxisList axes = {};  // one for both inputs, or one for each; the batch's cannot be
  bool normalize = false;
  std::string name = "";
  std::string dtype = "";
};
Layer Dot(const DotOptions& options, SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
