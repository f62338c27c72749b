#include "penstock/models/vision_transformer.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/models/preparation.h"
#include "penstock/models/transformer.h"

namespace penstock::models {
namespace {

using nn::Symbol;

absl::Status Check(const VisionTransformerOptions& options) {
  constexpr char kModel[] = "a vision transformer";
  PENSTOCK_RETURN_IF_ERROR(internal::CheckPatches(kModel, options.input_shape, options.patch_size));
  return internal::CheckTransformer(kModel, options.dim, options.depth, options.heads,
                                    options.mlp_dim);
}

}  // namespace

nn::Network VisionTransformer(const VisionTransformerOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return nn::Network(std::move(status));
  const Symbol input =
      nn::Input({.shape = options.input_shape, .dtype = options.input_dtype, .name = "image"});
  Symbol x = internal::Prepared(input, options);
  x = internal::AddPositions(internal::Patches(x, options.patch_size, options.dim));
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
