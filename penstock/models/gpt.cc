#include "penstock/models/gpt.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/transformer.h"

namespace penstock::models {

using nn::Symbol;

nn::Network Gpt(const GptOptions& options) {
  if (options.vocabulary_size <= 0 || options.sequence_length <= 0) {
    return nn::Network(absl::InvalidArgumentError(
        absl::StrCat("a GPT expects vocabulary_size and sequence_length above 0, got ",
                     options.vocabulary_size, " and ", options.sequence_length)));
  }
  const int64_t mlp_dim = options.mlp_dim == 0 ? 4 * options.dim : options.mlp_dim;
  if (absl::Status status =
          internal::CheckTransformer("a GPT", options.dim, options.depth, options.heads, mlp_dim);
      !status.ok()) {
    return nn::Network(std::move(status));
  }
  const Symbol input = nn::Input(
      {.shape = {options.sequence_length}, .dtype = options.input_dtype, .name = "tokens"});
  const nn::Layer table =
      nn::ReversibleEmbedding({.input_dim = options.vocabulary_size,
                               .output_dim = options.dim,
                               .tie_weights = options.tie_weights,
                               .embeddings_initializer = internal::kTableInitializer,
                               .name = "token_embedding"});
  Symbol x = internal::AddPositions(table(input));
  if (options.dropout > 0) x = nn::Dropout({.rate = options.dropout, .name = "drop"})(x);
  for (int64_t i = 1; i <= options.depth; ++i) {
    x = internal::TransformerBlock(
        x, {.heads = options.heads, .mlp_dim = mlp_dim, .dropout = options.dropout, .causal = true},
        absl::StrCat("block", i));
  }
  return nn::Network({input}, {table(internal::TransformerNorm(x, "norm"))}, "gpt");
}

}  // namespace penstock::models
