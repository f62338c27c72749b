#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

Program CrossEntropy(F::CrossEntropyOptions options = {}) {
  return [options](Case& c) {
    F::CrossEntropyOptions with = options;
    if (c.x.size() > 2) with.weight = c.x[2];
    return Ts{F::cross_entropy(c.x[0], c.x[1], with)};
  };
}

// With the weight detached.
Program CrossEntropyOfProbabilities() {
  return [](Case& c) {
    return Ts{
        F::cross_entropy(c.x[0], c.x[1], {.weight = c.x[2].detach(), .label_smoothing = 0.1})};
  };
}

}  // namespace

Table LossRows() {
  return {
      {"cross_entropy", CrossEntropy()},
      {"cross_entropy of int32",
       [](Case& c) { return Ts{F::cross_entropy(c.x[0], c.x[1].to(torch::kInt))}; }},
      {"cross_entropy with weights",
       [](Case& c) { return Ts{F::cross_entropy(c.x[0], c.x[1], {.weight = c.x[2].detach()})}; }},
      {"cross_entropy ignoring", CrossEntropy()},
      {"cross_entropy ignoring a class",
       [](Case& c) {
         return Ts{
             F::cross_entropy(c.x[0], c.x[1], {.weight = c.x[2].detach(), .ignore_index = 2})};
       }},
      {"cross_entropy sum", CrossEntropy({.reduction = "sum"})},
      {"cross_entropy none", CrossEntropy({.reduction = "none"})},
      {"cross_entropy smoothed", CrossEntropy({.label_smoothing = 0.1})},
      {"cross_entropy smoothed with weights",
       [](Case& c) {
         return Ts{
             F::cross_entropy(c.x[0], c.x[1], {.weight = c.x[2].detach(), .label_smoothing = 0.2})};
       }},
      {"cross_entropy smoothed none", CrossEntropy({.reduction = "none", .label_smoothing = 0.2})},
      {"cross_entropy of images", CrossEntropy()},
      {"cross_entropy without a batch", CrossEntropy()},
      {"cross_entropy of probabilities", CrossEntropy()},
      {"cross_entropy of probabilities with weights", CrossEntropyOfProbabilities()},
      {"cross_entropy of image probabilities", CrossEntropy({.reduction = "sum"})},
      {"nll_loss", [](Case& c) { return Ts{F::nll_loss(c.x[0], c.x[1])}; }},
      {"nll_loss with weights",
       [](Case& c) { return Ts{F::nll_loss(c.x[0], c.x[1], {.weight = c.x[2].detach()})}; }},
      {"nll_loss of sequences",
       [](Case& c) { return Ts{F::nll_loss(c.x[0], c.x[1], {.reduction = "sum"})}; }},
      {"mse_loss", [](Case& c) { return Ts{F::mse_loss(c.x[0], c.x[1])}; }},
      {"mse_loss none", [](Case& c) { return Ts{F::mse_loss(c.x[0], c.x[1], "none")}; }},
      {"l1_loss", [](Case& c) { return Ts{F::l1_loss(c.x[0], c.x[1], "sum")}; }},
      {"smooth_l1_loss", [](Case& c) { return Ts{F::smooth_l1_loss(c.x[0], c.x[1])}; }},
      {"smooth_l1_loss with beta",
       [](Case& c) { return Ts{F::smooth_l1_loss(c.x[0], c.x[1], "mean", 0.4)}; }},
      {"smooth_l1_loss with beta 0",
       [](Case& c) { return Ts{F::smooth_l1_loss(c.x[0], c.x[1], "mean", 0)}; }},
      {"huber_loss", [](Case& c) { return Ts{F::huber_loss(c.x[0], c.x[1], "mean", 0.7)}; }},
      {"binary_cross_entropy",
       [](Case& c) { return Ts{F::binary_cross_entropy(c.x[0], c.x[1].detach())}; }},
      {"binary_cross_entropy of certainties",
       [](Case& c) { return Ts{F::binary_cross_entropy(c.x[0], c.x[1].detach())}; }},
      {"binary_cross_entropy of mistakes",
       [](Case& c) { return Ts{F::binary_cross_entropy(c.x[0], c.x[1].detach())}; }},
      {"binary_cross_entropy with weights",
       [](Case& c) {
         return Ts{F::binary_cross_entropy(c.x[0], c.x[1].detach(), c.x[2].detach(), "sum")};
       }},
      {"binary_cross_entropy_with_logits",
       [](Case& c) { return Ts{F::binary_cross_entropy_with_logits(c.x[0], c.x[1])}; }},
      {"binary_cross_entropy_with_logits with weights",
       [](Case& c) {
         return Ts{F::binary_cross_entropy_with_logits(
             c.x[0], c.x[1].detach(), {.weight = c.x[2].detach(), .pos_weight = c.x[3].detach()})};
       }},
      {"kl_div", [](Case& c) { return Ts{F::kl_div(c.x[0], c.x[1].detach(), "batchmean")}; }},
      {"kl_div mean", [](Case& c) { return Ts{F::kl_div(c.x[0], c.x[1].detach())}; }},
      {"kl_div of logs", [](Case& c) { return Ts{F::kl_div(c.x[0], c.x[1], "sum", true)}; }},
      {"cosine_similarity", [](Case& c) { return Ts{F::cosine_similarity(c.x[0], c.x[1])}; }},
      {"cosine_similarity over dim 0",
       [](Case& c) { return Ts{F::cosine_similarity(c.x[0], c.x[1], 0)}; }},
      {"soft_margin_loss",
       [](Case& c) { return Ts{F::soft_margin_loss(c.x[0], c.x[1].detach())}; }},
      {"margin_ranking_loss",
       [](Case& c) { return Ts{F::margin_ranking_loss(c.x[0], c.x[1], c.x[2].detach(), 0.3)}; }},
      {"hinge_embedding_loss",
       [](Case& c) { return Ts{F::hinge_embedding_loss(c.x[0], c.x[1].detach(), 0.8)}; }},
      {"cosine_embedding_loss",
       [](Case& c) { return Ts{F::cosine_embedding_loss(c.x[0], c.x[1], c.x[2].detach(), 0.1)}; }},
      {"triplet_margin_loss",
       [](Case& c) { return Ts{F::triplet_margin_loss(c.x[0], c.x[1], c.x[2])}; }},
      {"pairwise_distance",
       [](Case& c) { return Ts{F::pairwise_distance(c.x[0], c.x[1], 2, 1e-6, true)}; }},
      {"multi_margin_loss", [](Case& c) { return Ts{F::multi_margin_loss(c.x[0], c.x[1])}; }},
      {"multi_margin_loss with weights",
       [](Case& c) {
         return Ts{F::multi_margin_loss(
             c.x[0], c.x[1],
             {.p = 2, .margin = 0.5, .weight = c.x[2].detach(), .reduction = "none"})};
       }},
      {"multilabel_soft_margin_loss",
       [](Case& c) {
         return Ts{F::multilabel_soft_margin_loss(c.x[0], c.x[1], c.x[2].detach(), "sum")};
       }},
      {"poisson_nll_loss",
       [](Case& c) { return Ts{F::poisson_nll_loss(c.x[0], c.x[1].detach())}; }},
      {"poisson_nll_loss full",
       [](Case& c) {
         return Ts{F::poisson_nll_loss(c.x[0], c.x[1].detach(),
                                       {.log_input = false, .full = true, .reduction = "sum"})};
       }},
      {"gaussian_nll_loss",
       [](Case& c) { return Ts{F::gaussian_nll_loss(c.x[0], c.x[1], c.x[2])}; }},
      {"gaussian_nll_loss of one variance",
       [](Case& c) {
         return Ts{F::gaussian_nll_loss(c.x[0], c.x[1], c.x[2],
                                        {.full = true, .eps = 0.5, .reduction = "sum"})};
       }},
      {"ctc_loss",
       [](Case& c) {
         return Ts{F::ctc_loss(torch::log_softmax(c.x[0], 2), c.x[1], c.x[2], c.x[3])};
       }},
      {"ctc_loss none",
       [](Case& c) {
         return Ts{F::ctc_loss(torch::log_softmax(c.x[0], 2), c.x[1], c.x[2], c.x[3],
                               {.blank = 4, .reduction = "none", .zero_infinity = true})};
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
