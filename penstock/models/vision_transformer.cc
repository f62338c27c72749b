#include "penstock/models/vision_transformer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/models/preparation.h"
#include "penstock/models/transformer.h"

namespace penstock::models {
namespace {

using nn::Symbol;

absl::Status Check(const VisionTransformerOptions& options) {
  const std::vector<int64_t>& shape = options.input_shape;
  const int64_t patch = options.patch_size;
  if (shape.size() != 3 || patch <= 0 || shape[0] % patch != 0 || shape[1] % patch != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a vision transformer expects images [height, width, channels] that patches of ", patch,
        "x", patch, " fill, got [", absl::StrJoin(shape, ", "), "]"));
  }
  return internal::CheckTransformer("a vision transformer", options.dim, options.depth,
                                    options.heads, options.mlp_dim);
}

}  // namespace

nn::Network VisionTransformer(const VisionTransformerOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return nn::Network(std::move(status));
  const int64_t patch = options.patch_size;
  const int64_t patches = (options.input_shape[0] / patch) * (options.input_shape[1] / patch);
  const Symbol input =
      nn::Input({.shape = options.input_shape, .dtype = options.input_dtype, .name = "image"});
  Symbol x = internal::Prepared(input, options);
  x = nn::Conv2D(
      {.filters = options.dim, .kernel_size = patch, .strides = patch, .name = "patch_embedding"})(
      x);
  x = nn::Reshape({.target_shape = {patches, options.dim}, .name = "patches"})(x);
  x = internal::AddPositions(x, patches);
  if (options.dropout > 0) x = nn::Dropout({.rate = options.dropout, .name = "drop"})(x);
  for (int64_t i = 1; i <= options.depth; ++i) {
    x = internal::TransformerBlock(
        x, {.heads = options.heads, .mlp_dim = options.mlp_dim, .dropout = options.dropout},
        absl::StrCat("block", i));
  }
  x = internal::TransformerNorm(x, "norm");
  if (options.include_top) {
    x = nn::GlobalAveragePooling1D({.name = "avg_pool"})(x);
    x = nn::Dense({.units = options.classes, .name = "logits"})(x);
  }
  return nn::Network({input}, {x}, "vision_transformer");
}

}  // namespace penstock::models
