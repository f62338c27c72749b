#include "penstock/models/transformer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::models::internal {

using nn::Symbol;

Symbol TransformerNorm(Symbol x, const std::string& name) {
  return nn::LayerNormalization({.epsilon = 1e-6, .name = name})(x);
}

Symbol AddPositions(Symbol x) {
  if (!x.type().ok()) return x;
  const Symbol learned = nn::PositionEmbedding({.sequence_length = x.type()->shape.dim(1),
                                                .initializer = kTableInitializer,
                                                .name = "position_embedding"})(x);
  return nn::Add({.name = "add_positions"})({x, learned});
}

absl::Status CheckPatches(absl::string_view model, const std::vector<int64_t>& image_shape,
                          int64_t patch_size) {
  const bool fill = image_shape.size() == 3 && patch_size > 0 && image_shape[0] % patch_size == 0 &&
                    image_shape[1] % patch_size == 0;
  if (fill) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(model, " expects images [height, width, channels] that patches of ", patch_size,
                   "x", patch_size, " fill, got [", absl::StrJoin(image_shape, ", "), "]"));
}

Symbol Patches(Symbol image, int64_t patch_size, int64_t dim) {
  if (!image.type().ok()) return image;
  const auto& shape = image.type()->shape;
  const int64_t patches = (shape.dim(1) / patch_size) * (shape.dim(2) / patch_size);
  image = nn::Conv2D({.filters = dim,
                      .kernel_size = patch_size,
                      .strides = patch_size,
                      .name = "patch_embedding"})(image);
  return nn::Reshape({.target_shape = {patches, dim}, .name = "patches"})(image);
}

Symbol TransformerBlock(Symbol x, const TransformerBlockOptions& options, const std::string& name) {
  const auto& type = x.type();
  if (!type.ok()) return x;
  const int64_t dim = type->shape.dim(-1);
  const auto added = [&](Symbol to, Symbol y, const char* half) {
    if (options.dropout > 0) {
      y = nn::Dropout({.rate = options.dropout, .name = absl::StrCat(name, "_drop", half)})(y);
    }
    return nn::Add({.name = absl::StrCat(name, "_add", half)})({to, y});
  };
  Symbol y = TransformerNorm(x, name + "_norm1");
  y = nn::MultiHeadAttention({.num_heads = options.heads,
                              .key_dim = dim / options.heads,
                              .use_causal_mask = options.causal,
                              .name = name + "_attention"})({y, y});
  x = added(x, y, "1");
  y = TransformerNorm(x, name + "_norm2");
  y = nn::Dense({.units = options.mlp_dim, .activation = "gelu", .name = name + "_mlp1"})(y);
  y = nn::Dense({.units = dim, .name = name + "_mlp2"})(y);
  return added(x, y, "2");
}

absl::Status CheckTransformer(const char* model, int64_t dim, int64_t depth, int64_t heads,
                              int64_t mlp_dim) {
  if (dim > 0 && depth > 0 && heads > 0 && mlp_dim > 0 && dim % heads == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      model, " expects dim, depth, heads and mlp_dim above 0, and heads that divide dim; ",
      "got dim ", dim, ", depth ", depth, ", heads ", heads, ", mlp_dim ", mlp_dim));
}

}  // namespace penstock::models::internal
