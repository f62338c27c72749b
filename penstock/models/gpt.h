// Small decoder-only language model (GPT-2; Radford et al.: Language models are unsupervised
// multitask learners, 2019). Predicts the next token at each of `sequence_length` positions:
// "tokens" [batch, sequence_length] -> logits [batch, sequence_length, vocabulary_size]. Logits at
// position i depend only on tokens up to i (causal), so a shorter text may be padded at its end
// with any token.
//
//   nn::Network net = Gpt({.vocabulary_size = 128, .sequence_length = 32, .depth = 4});
#pragma once

#include <cstdint>

#include "penstock/base/dtype.h"
#include "penstock/nn/network.h"

namespace penstock::models {

struct GptOptions {
  int64_t vocabulary_size = 256;
  int64_t sequence_length = 64;
  base::DType input_dtype = base::DType::kI32;
  int64_t dim = 64;
  int64_t depth = 2;
  int64_t heads = 4;
  int64_t mlp_dim = 0;  // 0: 4 * dim
  double dropout = 0;
  bool tie_weights = true;  // the output projection shares the token embedding
};
nn::Network Gpt(const GptOptions& options = {});

}  // namespace penstock::models
