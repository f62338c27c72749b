#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

Program Conv2d(F::ConvOptions options) {
  return [options](Case& c) {
    return Ts{F::conv2d(c.x[0], c.x[1], c.x.size() > 2 ? c.x[2] : T(), options)};
  };
}
Program ConvTranspose2d(F::ConvTransposeOptions options) {
  return [options](Case& c) {
    return Ts{F::conv_transpose2d(c.x[0], c.x[1], c.x.size() > 2 ? c.x[2] : T(), options)};
  };
}
Program MaxPool2d(lazy::Sizes kernel, F::MaxPoolOptions options = {}) {
  return [=](Case& c) { return Ts{F::max_pool2d(c.x[0], kernel, options)}; };
}
Program AvgPool2d(lazy::Sizes kernel, F::AvgPoolOptions options = {}) {
  return [=](Case& c) { return Ts{F::avg_pool2d(c.x[0], kernel, options)}; };
}
Program BatchNorm(bool training, double momentum = 0.1, double eps = 1e-5) {
  return [=](Case& c) {
    const T mean = c.x[1].detach().clone(), var = c.x[2].detach().clone();
    const T y = F::batch_norm(
        c.x[0], mean, var,
        {.weight = c.x[3], .bias = c.x[4], .training = training, .momentum = momentum, .eps = eps});
    return Ts{y, mean, var};
  };
}
Program Attention(F::AttentionOptions options = {}) {
  return [options](Case& c) {
    F::AttentionOptions with = options;
    if (c.x.size() > 3) with.attn_mask = c.x[3];
    return Ts{F::scaled_dot_product_attention(c.x[0], c.x[1], c.x[2], with)};
  };
}

Table ConvolutionRows() {
  return {
      {"conv1d", [](Case& c) { return Ts{F::conv1d(c.x[0], c.x[1], c.x[2])}; }},
      {"conv1d with options",
       [](Case& c) {
         return Ts{F::conv1d(c.x[0], c.x[1], {},
                             {.stride = 2, .padding = 2, .dilation = 2, .groups = 2})};
       }},
      {"conv2d", Conv2d({})},
      {"conv2d with stride and padding", Conv2d({.stride = 2, .padding = 1})},
      {"conv2d with pairs", Conv2d({.stride = {2, 1}, .padding = {0, 2}, .dilation = {1, 2}})},
      {"conv2d in groups", Conv2d({.groups = 2})},
      {"conv2d depthwise", Conv2d({.padding = 1, .groups = 4})},
      {"conv2d same", Conv2d({.padding = "same"})},
      {"conv2d same dilated", Conv2d({.padding = "same", .dilation = 2})},
      {"conv2d valid", Conv2d({.padding = "valid"})},
      {"conv2d of one pixel", Conv2d({})},
      {"conv2d without a batch", Conv2d({})},
      {"conv2d of bfloat16", Conv2d({})},
      {"conv3d",
       [](Case& c) {
         return Ts{F::conv3d(c.x[0], c.x[1], c.x[2], {.stride = {1, 2, 1}, .padding = 1})};
       }},
      {"conv_transpose1d",
       [](Case& c) { return Ts{F::conv_transpose1d(c.x[0], c.x[1], c.x[2], {.stride = 2})}; }},
      {"conv_transpose2d", ConvTranspose2d({})},
      {"conv_transpose2d with options",
       ConvTranspose2d({.stride = 2, .padding = 1, .output_padding = 1, .groups = 2})},
      {"conv_transpose2d dilated",
       ConvTranspose2d({.stride = {2, 1}, .padding = {1, 0}, .dilation = {2, 1}})},
  };
}

Table PoolingRows() {
  return {
      {"max_pool1d",
       [](Case& c) { return Ts{F::max_pool1d(c.x[0], 3, {.stride = 2, .padding = 1})}; }},
      {"max_pool2d", MaxPool2d(2)},
      {"max_pool2d overlapping", MaxPool2d(3, {.stride = 2, .padding = 1})},
      {"max_pool2d ceil", MaxPool2d(3, {.stride = 2, .ceil_mode = true})},
      {"max_pool2d dilated",
       MaxPool2d({2, 3}, {.stride = 1, .padding = {1, 0}, .dilation = {2, 1}})},
      {"avg_pool1d",
       [](Case& c) { return Ts{F::avg_pool1d(c.x[0], 3, {.stride = 2, .padding = 1})}; }},
      {"avg_pool2d", AvgPool2d(2)},
      {"avg_pool2d padded", AvgPool2d(3, {.stride = 2, .padding = 1})},
      {"avg_pool2d without padding counted",
       AvgPool2d(3, {.stride = 2, .padding = 1, .count_include_pad = false})},
      {"avg_pool2d ceil", AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true})},
      {"avg_pool2d ceil without padding counted",
       AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})},
      {"avg_pool2d with a divisor", AvgPool2d(2, {.divisor_override = 3})},
      {"adaptive_avg_pool1d", [](Case& c) { return Ts{F::adaptive_avg_pool1d(c.x[0], 3)}; }},
      {"adaptive_avg_pool2d",
       [](Case& c) {
         return Ts{F::adaptive_avg_pool2d(c.x[0], {3, 4})};
       }},
      {"adaptive_avg_pool2d to one", [](Case& c) { return Ts{F::adaptive_avg_pool2d(c.x[0], 1)}; }},
      {"adaptive_avg_pool2d to more",
       [](Case& c) {
         return Ts{F::adaptive_avg_pool2d(c.x[0], {5, -1})};
       }},
      {"adaptive_max_pool1d", [](Case& c) { return Ts{F::adaptive_max_pool1d(c.x[0], 3)}; }},
      {"adaptive_max_pool1d of equal numbers",
       [](Case& c) { return Ts{F::adaptive_max_pool1d(c.x[0], 3)}; }},
      {"adaptive_max_pool2d of equal numbers",
       [](Case& c) {
         return Ts{F::adaptive_max_pool2d(c.x[0], {3, 4})};
       }},
      {"adaptive_max_pool2d",
       [](Case& c) {
         return Ts{F::adaptive_max_pool2d(c.x[0], {3, 1})};
       }},
  };
}

Table NormalizationRows() {
  return {
      {"batch_norm", BatchNorm(true, 0.3)},
      {"batch_norm of a matrix", BatchNorm(true)},
      {"batch_norm in inference", BatchNorm(false, 0.1, 1e-3)},
      {"batch_norm without weights",
       [](Case& c) { return Ts{F::batch_norm(c.x[0], {}, {}, {.training = true})}; }},
      {"layer_norm", [](Case& c) { return Ts{F::layer_norm(c.x[0], 5, c.x[1], c.x[2])}; }},
      {"layer_norm over two dims",
       [](Case& c) {
         return Ts{F::layer_norm(c.x[0], {4, 5}, c.x[1], {}, 1e-3)};
       }},
      {"layer_norm of bfloat16", [](Case& c) { return Ts{F::layer_norm(c.x[0], 16)}; }},
      {"group_norm", [](Case& c) { return Ts{F::group_norm(c.x[0], 3, c.x[1], c.x[2])}; }},
      {"group_norm without weights", [](Case& c) { return Ts{F::group_norm(c.x[0], 2)}; }},
      {"instance_norm", [](Case& c) { return Ts{F::instance_norm(c.x[0], c.x[1], c.x[2])}; }},
      {"local_response_norm",
       [](Case& c) { return Ts{F::local_response_norm(c.x[0], 3, 0.1, 0.75, 2.0)}; }},
      {"embedding", [](Case& c) { return Ts{F::embedding(c.x[0], c.x[1])}; }},
      {"embedding with padding_idx", [](Case& c) { return Ts{F::embedding(c.x[0], c.x[1], 1)}; }},
      {"embedding with padding_idx from the end",
       [](Case& c) { return Ts{F::embedding(c.x[0], c.x[1], -1)}; }},
      {"scaled_dot_product_attention", Attention()},
      {"scaled_dot_product_attention causal", Attention({.is_causal = true})},
      {"scaled_dot_product_attention with a mask", Attention()},
      {"scaled_dot_product_attention with a bool mask", Attention()},
      {"rms_norm", [](Case& c) { return Ts{F::rms_norm(c.x[0], 6, c.x[1], 1e-3)}; }},
      {"rms_norm over two dims",
       [](Case& c) {
         return Ts{F::rms_norm(c.x[0], {3, 4})};
       }},
      {"max_pool3d",
       [](Case& c) {
         return Ts{F::max_pool3d(c.x[0], 2, {.stride = {1, 2, 2}, .padding = 1})};
       }},
      {"avg_pool3d",
       [](Case& c) {
         return Ts{
             F::avg_pool3d(c.x[0], {1, 2, 3}, {.padding = {0, 1, 1}, .count_include_pad = false})};
       }},
      {"adaptive_avg_pool3d",
       [](Case& c) {
         return Ts{F::adaptive_avg_pool3d(c.x[0], {1, 2, 3})};
       }},
      {"embedding_bag sum",
       [](Case& c) { return Ts{F::embedding_bag(c.x[0], c.x[1], c.x[2], {.mode = "sum"})}; }},
      {"embedding_bag mean",
       [](Case& c) { return Ts{F::embedding_bag(c.x[0], c.x[1], c.x[2], {.mode = "mean"})}; }},
      {"embedding_bag max",
       [](Case& c) { return Ts{F::embedding_bag(c.x[0], c.x[1], c.x[2], {.mode = "max"})}; }},
      {"embedding_bag of bags", [](Case& c) { return Ts{F::embedding_bag(c.x[0], c.x[1])}; }},
      {"embedding_bag with weights",
       [](Case& c) {
         return Ts{F::embedding_bag(c.x[0], c.x[1], c.x[2],
                                    {.mode = "sum",
                                     .per_sample_weights = c.x[3],
                                     .include_last_offset = true,
                                     .padding_idx = 2})};
       }},
  };
}

}  // namespace

Table LayerRows() {
  Table rows = ConvolutionRows();
  for (const Table& part : {PoolingRows(), NormalizationRows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace penstock::tests::lazy_rows
