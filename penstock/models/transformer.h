// Transformer block, shared by several models. Internal to room models.
#pragma once

#include <string>
#include <vector>

#include "penstock/nn/layers.h"

namespace penstock::models::internal {

struct TransformerBlockOptions {
  int64_t heads = 4;
  int64_t mlp_dim = 256;
  double dropout = 0;   // of each branch, before the residual addition
  bool causal = false;  // position i attends to positions up to i
};

// Pre-normalization transformer block: attention, then two dense layers with a gelu between them,
// each a residual branch with a layer normalization in front (Xiong et al.: On layer normalization
// in the transformer architecture, 2020). Layers are "<name>_norm1", "_attention", "_add1",
// "_norm2", "_mlp1", "_mlp2", "_add2", and with dropout also "_drop1", "_drop2".
nn::Symbol TransformerBlock(nn::Symbol x, const TransformerBlockOptions& options,
                            const std::string& name);

// An error, with the name `model` in front, for sizes that are not positive or if dim is not
// divisible by heads.
absl::Status CheckTransformer(const char* model, int64_t dim, int64_t depth, int64_t heads,
                              int64_t mlp_dim);

// The layer normalization that all transformer models use.
nn::Symbol TransformerNorm(nn::Symbol x, const std::string& name);

// x plus learned embeddings of its steps: layers "position_embedding", "add_positions".
nn::Symbol AddPositions(nn::Symbol x);

// An error, with the name `model` in front, if patches do not fill images of this shape.
absl::Status CheckPatches(absl::string_view model, const std::vector<int64_t>& image_shape,
                          int64_t patch_size);

// Features [batch, patches, dim] of the patches of an image that CheckPatches accepts: layers
// "patch_embedding", "patches".
nn::Symbol Patches(nn::Symbol image, int64_t patch_size, int64_t dim);

// Initializer of embedding tables: Devlin et al. 2018, Radford et al. 2019.
inline constexpr char kTableInitializer[] = "random_normal(0, 0.02)";

}  // namespace penstock::models::internal
