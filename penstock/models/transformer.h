// The block that transformers are made of. Internal to room models.
#pragma once

#include <string>

#include "penstock/nn/layers.h"

namespace penstock::models::internal {

struct TransformerBlockOptions {
  int64_t heads = 4;
  int64_t mlp_dim = 256;
  double dropout = 0;   // of each half, before it is added
  bool causal = false;  // step i looks at steps up to i
};

// Attention, then two dense layers with a gelu between, each added to what it was given, which is
// normalised first (Xiong et al.: On layer normalization in the transformer architecture, 2020).
// Layers are "<name>_norm1", "_attention", "_add1", "_norm2", "_mlp1", "_mlp2", "_add2", with
// dropout also "_drop1", "_drop2".
nn::Symbol TransformerBlock(nn::Symbol x, const TransformerBlockOptions& options,
                            const std::string& name);

// An error, in the words of `model`, for sizes that are not above 0, or heads that do not divide
// dim.
absl::Status CheckTransformer(const char* model, int64_t dim, int64_t depth, int64_t heads,
                              int64_t mlp_dim);

// The normalisation that all of them use.
nn::Symbol TransformerNorm(nn::Symbol x, const std::string& name);

// x plus what is learned about each of its positions: "position_embedding", "add_positions".
nn::Symbol AddPositions(nn::Symbol x, int64_t positions);

// The first values of tables: Devlin et al. 2018, Radford et al. 2019.
inline constexpr char kTableInitializer[] = "random_normal(0, 0.02)";

}  // namespace penstock::models::internal
