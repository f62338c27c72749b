// Wrong uses of torch.nn.functional, dropout, autocast.
#include "penstock/lazy/functional.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/amp.h"
#include "penstock/lazy/nn/recurrent.h"
#include "penstock/lazy/nn/transformer.h"
#include "penstock/lazy/testing/tensors.h"

namespace penstock::lazy::functional_test {

namespace F = nn::functional;

using test::ErrorOf;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor Ones(const Sizes& size) { return ones(size, {.device = TestDevice()}); }

TEST(Functional, CosineSimilarityBroadcastsBeforeItReduces) {
  const Tensor ones_of_row = Make({3}, {1, 1, 1}), ones_of_rows = Make({2, 3}, {1, 1, 1, 1, 1, 1});
  EXPECT_NEAR(ValuesOf(F::cosine_similarity(Make({1, 1}, {1}), ones_of_rows))[0], 1, 1e-6);
  const Tensor y = F::cosine_similarity(ones_of_row, ones_of_rows);
  ASSERT_EQ(y.sizes(), Shape{2});
  for (const float v : ValuesOf(y)) EXPECT_NEAR(v, 1, 1e-6);
}

TEST(Functional, DropoutOfChannelsWithoutABatch) {
  manual_seed(7);
  const std::vector<float> ones(400, 1);
  for (const Tensor& y :
       {F::dropout1d(Make({50, 8}, ones)), F::dropout3d(Make({50, 2, 2, 2}, ones))}) {
    const std::vector<float> values = ValuesOf(y);
    ASSERT_EQ(values.size(), 400u);
    EXPECT_GT(std::count(values.begin(), values.end(), 0.0f), 0);
    for (size_t i = 0; i < values.size(); i += 8) {
      EXPECT_EQ(std::count(values.begin() + i, values.begin() + i + 8, values[i]), 8);
    }
  }
}

TEST(Functional, MessagesOfLayers) {
  const Tensor x = Ones({2, 4, 6, 6}), w = Ones({8, 4, 3, 3});
  EXPECT_THAT(ErrorOf(F::linear(Ones({2, 3}), Ones({5, 4}))),
              AllOf(HasSubstr("linear"), HasSubstr("functional_test.cc"), HasSubstr("f32[2,3]"),
                    HasSubstr("f32[5,4]"), HasSubstr("weight [out, in]")));
  EXPECT_THAT(ErrorOf(F::conv2d(Ones({2, 3, 6, 6}), w)),
              HasSubstr("weight and groups (1) expect 4 channels in x, which has 3"));
  EXPECT_THAT(ErrorOf(F::conv2d(Ones({2, 4}), w)), HasSubstr("expects x of 4 (or 3"));
  EXPECT_THAT(ErrorOf(F::conv2d(x, w, Ones({7}))), HasSubstr("bias must be a vector of 8"));
  EXPECT_THAT(ErrorOf(F::conv2d(x, w, {}, {.stride = 0})), HasSubstr("above 0"));
  EXPECT_THAT(ErrorOf(F::conv2d(x, w, {}, {.padding = "full"})),
              HasSubstr("\"same\" or \"valid\", got \"full\""));
  EXPECT_THAT(ErrorOf(F::conv2d(x, w, {}, {.stride = 2, .padding = "same"})),
              HasSubstr("requires stride 1"));
  EXPECT_THAT(ErrorOf(F::max_pool2d(x, 7)), HasSubstr("the kernel must fit"));
  EXPECT_THAT(ErrorOf(F::max_pool2d(x, 2, {.padding = 2})), HasSubstr("half of the kernel"));
  EXPECT_THAT(ErrorOf(F::adaptive_avg_pool2d(x, {1, 2, 3})), HasSubstr("one number, or 2"));
  EXPECT_THAT(ErrorOf(F::batch_norm(x, Ones({3}), Ones({3}))), HasSubstr("vectors of 4 elements"));
  EXPECT_THAT(ErrorOf(F::batch_norm(Ones({1, 4}), {}, {}, {.training = true})),
              HasSubstr("more than one value per channel"));
  EXPECT_THAT(ErrorOf(F::layer_norm(x, 5)), HasSubstr("weight and bias of the normalized shape"));
  EXPECT_THAT(ErrorOf(F::layer_norm(x, std::vector<int64_t>(9, 1))),
              HasSubstr("weight and bias of the normalized shape"));
  EXPECT_THAT(ErrorOf(F::group_norm(x, 3)), HasSubstr("num_groups (3) divides"));
  EXPECT_THAT(ErrorOf(F::embedding(x, w)), HasSubstr("integer indices"));
  EXPECT_THAT(ErrorOf(F::dropout(x, 1.5)), HasSubstr("p must be from 0 to 1, got 1.5"));
  EXPECT_THAT(ErrorOf(F::gelu(x, "erf")), HasSubstr("\"none\" or \"tanh\", got \"erf\""));
  EXPECT_THAT(ErrorOf(F::interpolate(x, {.size = 3, .mode = "cubic"})),
              HasSubstr("mode \"cubic\" is not supported"));
  EXPECT_THAT(ErrorOf(F::pad(x, {7, 0}, "reflect")), HasSubstr("too large for mode reflect"));
  EXPECT_THAT(ErrorOf(F::pixel_shuffle(x, 3)), HasSubstr("[N, C r^2, H, W]"));
}

TEST(Functional, MessagesOfLosses) {
  const Tensor x = Ones({2, 3}), y = zeros(2, {.dtype = kLong, .device = TestDevice()});
  EXPECT_THAT(ErrorOf(F::cross_entropy(x, y, {.reduction = "avg"})),
              HasSubstr("\"mean\", \"sum\" or \"none\", got \"avg\""));
  EXPECT_THAT(ErrorOf(F::cross_entropy(x, Ones({2}))), HasSubstr("class indices are integers"));
  EXPECT_THAT(ErrorOf(F::cross_entropy(x, cat({y, y}))), HasSubstr("[N, ...]"));
  EXPECT_THAT(ErrorOf(F::cross_entropy(x, y, {.weight = Ones({2})})),
              HasSubstr("weight must be a vector of 3 elements"));
  EXPECT_THAT(ErrorOf(F::cross_entropy(x, y, {.label_smoothing = 2})), HasSubstr("from 0 to 1"));
  EXPECT_THAT(ErrorOf(F::binary_cross_entropy_with_logits(x, Ones({3, 2}))),
              HasSubstr("one shape"));
  // A class index that is out of range is no element of x.
  const Tensor wrong = F::cross_entropy(x, y + 5);
  EXPECT_TRUE(std::isnan(ValuesOf(wrong)[0]));
}

// PyTorch's hinge losses have the gradient of clamp_min: 1 at the bound.
TEST(Functional, HingeLossesHaveAGradientAtTheirBound) {
  Tensor a = zeros({2}, {.device = TestDevice()});
  a.requires_grad_();
  F::margin_ranking_loss(a, zeros({2}, {.device = TestDevice()}), Ones({2})).backward();
  EXPECT_THAT(ValuesOf(a.grad()), testing::ElementsAre(-0.5, -0.5));
}

// As of padding on the left: 0 since PyTorch 2.5, and no NaN in a gradient.
TEST(Functional, AttentionOfARowThatIsMaskedIsZero) {
  Tensor q = Ones({1, 2, 4}).detach().clone();
  q.requires_grad_();
  const Tensor mask =
      tensor(base::Array::Of<bool>({2, 2}, {false, false, true, true}), TestDevice());
  const Tensor y = F::scaled_dot_product_attention(q, q, q, {.attn_mask = mask});
  EXPECT_THAT(ValuesOf(y), testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  y.sum().backward();
  for (const float g : ValuesOf(q.grad())) EXPECT_TRUE(std::isfinite(g));
}

// What is summed does not fit into float16.
TEST(Functional, SumsOfSixteenBitNumbersDoNotOverflow) {
  const auto half = [](const base::Shape& shape, float value) {
    return (Ones(shape) * value).to(kHalf);
  };
  const auto first = [](const Tensor& x) { return ValuesOf(x.to(kFloat))[0]; };
  EXPECT_EQ(first(F::avg_pool2d(half({1, 1, 32, 32}, 100), 32)), 100);
  EXPECT_NEAR(first(norm(half({10000}, 1e-4f))), 0.01, 1e-4);
  EXPECT_EQ(first(norm(half({1}, 300))), 300);
  const Tensor q = half({1, 2, 64}, 40);
  EXPECT_EQ(first(F::scaled_dot_product_attention(q, q, q)), 40);
  const Tensor targets = zeros({40000}, {.dtype = kLong, .device = TestDevice()});
  EXPECT_NEAR(first(F::cross_entropy(half({40000, 8}, 0), targets)), std::log(8), 2e-3);
}

TEST(Functional, InterpolatesIntegersByCopiesOnly) {
  const Tensor bytes =
      tensor(base::Array::Of<uint8_t>({1, 1, 2, 2}, {0, 100, 200, 255}), TestDevice());
  for (const char* mode : {"bilinear", "bicubic"}) {
    EXPECT_THAT(ErrorOf(F::interpolate(bytes, {.size = 4, .mode = mode})), HasSubstr("float"))
        << mode;
  }
  EXPECT_EQ(F::interpolate(bytes, {.size = 4}).sizes(), (base::Shape{1, 1, 4, 4}));
}

TEST(Functional, DropoutKeepsTheMean) {
  manual_seed(5);
  const Tensor x = Ones({200, 200});
  x.grad();
  Tensor leaf = Ones({200, 200}).detach().clone();
  leaf.requires_grad_();
  const Tensor dropped = F::dropout(leaf, 0.25), channels = F::dropout2d(Ones({100, 100, 2, 2}));
  const Tensor self_normalized =
      F::alpha_dropout(randn({200, 200}, {.device = TestDevice()}), 0.2, true);
  dropped.sum().backward();
  ASSERT_TRUE(xm::mark_step().ok());
  const std::vector<float> values = ValuesOf(dropped), gradient = ValuesOf(leaf.grad());
  const auto zeros = std::count(values.begin(), values.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros), 10000, 500);
  EXPECT_EQ(std::count(values.begin(), values.end(), static_cast<float>(1 / 0.75)), 40000 - zeros);
  EXPECT_EQ(values, gradient);  // the same mask
  const std::vector<float> pixels = ValuesOf(channels);
  for (size_t i = 0; i < pixels.size(); i += 4) {
    EXPECT_TRUE(std::equal(pixels.begin() + i, pixels.begin() + i + 4,
                           std::vector<float>(4, pixels[i]).begin()));
  }
  double sum = 0, squares = 0;
  for (float v : ValuesOf(self_normalized)) {
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / 40000, 0, 0.03);
  EXPECT_NEAR(squares / 40000, 1, 0.06);
  // Not in inference; with p = 1 everything is 0.
  EXPECT_EQ(F::dropout(x, 0.5, false).impl(), x.impl());
  EXPECT_EQ(ValuesOf(F::dropout(x, 1).sum())[0], 0);
}

// Frequencies against the softmax of the logits, and the gradient of the relaxed choice.
TEST(Functional, GumbelSoftmaxChoosesByProbability) {
  manual_seed(3);
  const Tensor logits = log(Make({3}, {0.5, 0.3, 0.2})).expand({4000, 3});
  const std::vector<float> share = ValuesOf(mean(F::gumbel_softmax(logits, 1, true), 0));
  EXPECT_THAT(share, testing::Pointwise(testing::FloatNear(0.03f), {0.5f, 0.3f, 0.2f}));
  Tensor x = Make({2, 3}, {1, 2, 3, 0, 0, 0}, true), y = x.detach().clone();
  y.requires_grad_();
  const Tensor weights = Make({2, 3}, {1, -2, 3, 0.5, 1, 2});
  manual_seed(4);
  const Tensor hard = F::gumbel_softmax(x, 0.7, true);
  sum(hard * weights).backward();
  manual_seed(4);
  const Tensor soft = F::gumbel_softmax(y, 0.7);
  sum(soft * weights).backward();
  EXPECT_EQ(ValuesOf(x.grad()), ValuesOf(y.grad()));
  EXPECT_EQ(ValuesOf(argmax(hard, 1).to(kFloat)), ValuesOf(argmax(soft, 1).to(kFloat)));
  EXPECT_THAT(ValuesOf(sum(hard, 1)), testing::Pointwise(testing::FloatNear(1e-5f), {1.0f, 1.0f}));
  F::gumbel_softmax(x, 0);
  EXPECT_THAT(ErrorOf(x), HasSubstr("tau above 0"));
}

TEST(Autocast, ConvertsByOperation) {
  const Tensor x = Ones({2, 4});
  Tensor w = Ones({3, 4}).detach().clone();
  w.requires_grad_();
  {
    const amp::autocast scope("bfloat16");
    const Tensor y = F::linear(x, w);
    EXPECT_EQ(y.dtype(), kBFloat16);
    EXPECT_EQ((y + 1).dtype(), kBFloat16);
    EXPECT_EQ(softmax(y, 1).dtype(), kFloat);
    EXPECT_EQ(F::layer_norm(y, 3).dtype(), kFloat);
    EXPECT_EQ(F::mse_loss(y, y).dtype(), kFloat);
    EXPECT_EQ(exp(y).dtype(), kFloat);
    EXPECT_EQ(F::relu(y).dtype(), kBFloat16);
    {
      const amp::autocast off("bfloat16", false);
      EXPECT_EQ(F::linear(x, w).dtype(), kFloat);
    }
    EXPECT_EQ(matmul(x, t(w)).dtype(), kBFloat16);
    y.sum().backward();
  }
  EXPECT_EQ(F::linear(x, w).dtype(), kFloat);
  EXPECT_EQ(w.grad().dtype(), kFloat);
  EXPECT_EQ(ValuesOf(w.grad())[0], 2);
  const amp::autocast wrong("int8");
  EXPECT_THAT(ErrorOf(x), HasSubstr("\"bfloat16\" or \"float16\", got \"int8\""));
}

// Every function of the lists in amp.cc, with one input in bfloat16 and the others in float32.
TEST(Autocast, ResultTypesAreThoseOfPyTorchsLists) {
  const Tensor x = Ones({3, 3}).to(kBFloat16) * 0.5, y = Ones({3, 3}) * 0.25;
  const Tensor image = Ones({1, 2, 4, 4}).to(kBFloat16), kernel = Ones({2, 2, 3, 3});
  const Tensor vector = Ones({3}), classes = zeros(3, {.dtype = kLong, .device = TestDevice()});
  const Tensor index = zeros({3, 3}, {.dtype = kLong, .device = TestDevice()});
  nn::LSTM lstm(3, 2);
  nn::MultiheadAttention attention(3, 1);
  lstm->to(TestDevice());
  attention->to(TestDevice());
  const amp::autocast scope("bfloat16");
  const std::vector<std::pair<std::string, Tensor>> narrow = {
      {"linear", F::linear(x, y, vector)},
      {"matmul", matmul(x, y)},
      {"mm", mm(y, x)},
      {"bmm", bmm(unsqueeze(x, 0), unsqueeze(y, 0))},
      {"mv", mv(x, vector)},
      {"addmm", addmm(x, y, y)},
      {"baddbmm", baddbmm(unsqueeze(x, 0), unsqueeze(y, 0), unsqueeze(y, 0))},
      {"einsum", einsum("ij,jk->ik", {x, y})},
      {"conv1d", F::conv1d(Ones({1, 4, 4}).to(kBFloat16), Ones({1, 4, 3}))},
      {"conv2d", F::conv2d(image, kernel)},
      {"conv_transpose2d", F::conv_transpose2d(image, kernel)},
      {"prelu", F::prelu(x, vector)},
      {"lstm", lstm(unsqueeze(x, 0)).output},
      {"attention", attention(unsqueeze(x, 0), unsqueeze(x, 0), unsqueeze(x, 0)).output},
      {"scaled_dot_product_attention",
       F::scaled_dot_product_attention(unsqueeze(x, 0), unsqueeze(y, 0), unsqueeze(y, 0))},
      {"relu", relu(x)},
      {"tanh", tanh(x)},
      {"max_pool2d", F::max_pool2d(image, 2)},
      {"batch_norm", F::batch_norm(image, Ones({2}), Ones({2}))},
  };
  for (const auto& [name, result] : narrow) EXPECT_EQ(result.dtype(), kBFloat16) << name;
  const std::vector<std::pair<std::string, Tensor>> wide = {
      {"acos", acos(x)},
      {"asin", asin(x)},
      {"cosh", cosh(x)},
      {"exp", exp(x)},
      {"expm1", expm1(x)},
      {"log", log(x)},
      {"log10", log10(x)},
      {"log1p", log1p(x)},
      {"log2", log2(x)},
      {"pow", pow(x, 2)},
      {"reciprocal", reciprocal(x)},
      {"rsqrt", rsqrt(x)},
      {"sinh", sinh(x)},
      {"tan", tan(x)},
      {"softplus", F::softplus(x)},
      {"cumprod", cumprod(x, 0)},
      {"cumsum", cumsum(x, 0)},
      {"prod", prod(x, 0)},
      {"sum", sum(x)},
      {"norm", norm(x)},
      {"logsumexp", logsumexp(x, 0)},
      {"softmax", softmax(x, 0)},
      {"log_softmax", log_softmax(x, 0)},
      {"layer_norm", F::layer_norm(x, 3, vector, vector)},
      {"group_norm", F::group_norm(image, 2, Ones({2}), Ones({2}))},
      {"cosine_similarity", F::cosine_similarity(x, y)},
      {"binary_cross_entropy", F::binary_cross_entropy(x, y, x)},
      {"binary_cross_entropy_with_logits",
       F::binary_cross_entropy_with_logits(x, y, {.weight = x, .pos_weight = x})},
      {"cosine_embedding_loss", F::cosine_embedding_loss(x, x, vector)},
      {"cross_entropy", F::cross_entropy(x, classes, {.weight = vector.to(kBFloat16)})},
      {"hinge_embedding_loss", F::hinge_embedding_loss(x, x)},
      {"huber_loss", F::huber_loss(x, x)},
      {"kl_div", F::kl_div(x, x)},
      {"l1_loss", F::l1_loss(x, x)},
      {"margin_ranking_loss", F::margin_ranking_loss(x, x, x)},
      {"mse_loss", F::mse_loss(x, x)},
      {"nll_loss", F::nll_loss(x, classes)},
      {"smooth_l1_loss", F::smooth_l1_loss(x, x)},
      {"soft_margin_loss", F::soft_margin_loss(x, x)},
      {"triplet_margin_loss", F::triplet_margin_loss(x, x, x * 0.5)},
      {"multi_margin_loss", F::multi_margin_loss(x, classes)},
      {"poisson_nll_loss", F::poisson_nll_loss(x, x)},
      {"cdist", cdist(x, x)},
      {"erfinv", erfinv(x)},
      // The widest type of the inputs.
      {"addcdiv", addcdiv(x, x, y)},
      {"addcmul", addcmul(x, x, y)},
      {"atan2", atan2(x, y)},
      {"bilinear", F::bilinear(x, x, Ones({2, 3, 3}))},
      {"cat", cat({x, y})},
      {"dot", dot(select(x, 0, 0), vector)},
      {"tensordot", tensordot(x, y, {{0, 1}, {0, 1}})},
      {"cross", cross(Ones({3}).to(kBFloat16), Ones({3}))},
      {"scatter_add", scatter_add(x, 0, index, y)},
      {"stack", stack({x, y})},
  };
  for (const auto& [name, result] : wide) EXPECT_EQ(result.dtype(), kFloat) << name;
  EXPECT_EQ(dot(select(x, 0, 0), select(x, 0, 1)).dtype(), kBFloat16);
  // Computed in float32: the difference is no bfloat16.
  const Tensor a = Ones({1, 1}).to(kBFloat16) * 3, b = Ones({1, 1}).to(kBFloat16) * 0.00390625;
  EXPECT_EQ(ValuesOf(F::triplet_margin_loss(a, b, a, 2, 2, 0))[0], 3 - 0.00390625f + 2);
}

}  // namespace penstock::lazy::functional_test
