// Modules: registration, state_dict and PyTorch's files, initial values, wrong uses.
#include "penstock/lazy/nn/modules.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/io/file_system.h"
#include "penstock/lazy/nn/init.h"
#include "penstock/lazy/nn/recurrent.h"
#include "penstock/lazy/nn/transformer.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/save/save.h"

namespace penstock::lazy::modules_test {

using test::ErrorOf;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The example of module.h.
struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(6, 4));
  nn::Linear fc2 = register_module("fc2", nn::Linear(4, 2, {.bias = false}));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.5));
  nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(2));
  Tensor forward(const Tensor& x) { return norm(fc2(dropout(relu(fc1(flatten(x, 1)))))); }
};

std::vector<std::string> NamesOf(const nn::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, x] : tensors) names.push_back(name);
  return names;
}

TEST(Modules, NamesAreThoseOfPyTorch) {
  Net net;
  EXPECT_THAT(NamesOf(net.named_parameters()),
              ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "norm.weight", "norm.bias"));
  EXPECT_THAT(NamesOf(net.state_dict()),
              ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "norm.weight", "norm.bias",
                          "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  std::vector<std::string> paths;
  net.apply([&](const std::string& path, nn::Module&) { paths.push_back(path); });
  EXPECT_THAT(paths, ElementsAre("", "fc1", "fc2", "dropout", "norm"));
  const nn::LSTM lstm(3, 2, {.num_layers = 2, .bias = false, .bidirectional = true});
  EXPECT_THAT(
      NamesOf(lstm->named_parameters()),
      ElementsAre("weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse",
                  "weight_ih_l1", "weight_hh_l1", "weight_ih_l1_reverse", "weight_hh_l1_reverse"));
  const nn::MultiheadAttention attention(4, 2);
  EXPECT_THAT(NamesOf(attention->state_dict()),
              ElementsAre("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"));
}

TEST(Modules, TrainEvalGradAndMoving) {
  Net net;  // on the process's device
  net.to(TestDevice());
  net.eval();
  EXPECT_FALSE(net.dropout->is_training());
  const Tensor x = Make({3, 6}, std::vector<float>(18, 1));
  EXPECT_EQ(ValuesOf(net.forward(x)), ValuesOf(net.forward(x)));
  net.train();
  net.forward(x).sum().backward();
  EXPECT_TRUE(net.fc1->weight.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.fc1->weight.grad().defined());
  const auto impl = net.fc1->weight.impl();
  const std::vector<float> before = ValuesOf(net.fc1->weight);
  net.to(TestDevice(1));
  EXPECT_EQ(net.fc1->weight.impl(), impl);  // an optimizer keeps it
  EXPECT_EQ(net.fc1->weight.device(), TestDevice(1));
  EXPECT_EQ(ValuesOf(net.fc1->weight), before);
  net.to(kBFloat16);
  EXPECT_EQ(net.fc1->weight.dtype(), kBFloat16);
  EXPECT_EQ(net.norm->num_batches_tracked.dtype(), kLong);
  EXPECT_TRUE(net.fc1->weight.requires_grad());
  net.requires_grad_(false);
  EXPECT_FALSE(net.fc1->weight.requires_grad());
}

TEST(Modules, StateGoesThroughFilesOfPyTorch) {
  manual_seed(1);
  Net net;
  const auto arrays = net.state_arrays();
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  auto& fs = *io::FileSystem::Default();
  const std::string file = ::testing::TempDir() + "/modules_test_state.pt";
  ASSERT_TRUE(save::WriteWeights(fs, file, {.arrays = *arrays}).ok());
  const auto read = save::ReadWeights(fs, file);
  ASSERT_TRUE(read.ok()) << read.status();
  Net other;
  EXPECT_NE(ValuesOf(other.fc1->weight), ValuesOf(net.fc1->weight));
  const absl::Status loaded = other.load_state_dict(read->arrays);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(ValuesOf(other.fc1->weight), ValuesOf(net.fc1->weight));
}

TEST(Modules, LoadStateDictNamesWhatDoesNotFit) {
  Net net;
  base::NamedArrays arrays = *net.state_arrays(), renamed;
  for (const auto& [name, array] : arrays) {
    renamed.Append(name == "fc1.bias" ? "fc1.offset" : name, array);
  }
  const absl::Status strict = net.load_state_dict(renamed);
  EXPECT_THAT(std::string(strict.message()),
              AllOf(HasSubstr("Missing key(s) in state_dict: \"fc1.bias\""),
                    HasSubstr("Unexpected key(s) in state_dict: \"fc1.offset\""),
                    HasSubstr("strict = false")));
  nn::IncompatibleKeys keys;
  EXPECT_TRUE(net.load_state_dict(renamed, /*strict=*/false, &keys).ok());
  EXPECT_THAT(keys.missing_keys, ElementsAre("fc1.bias"));
  EXPECT_THAT(keys.unexpected_keys, ElementsAre("fc1.offset"));
  // Shapes are errors always; all of them are listed, and nothing is changed.
  const std::vector<float> before = ValuesOf(net.fc1->bias);
  arrays.Set("fc1.bias", Array::Of<float>({4}, {9, 9, 9, 9}));
  arrays.Set("fc2.weight", Array::Zeros(kFloat, {4, 2}));
  arrays.Set("norm.bias", Array::Strings({2}, {"a", "b"}));
  for (const bool strict : {true, false}) {
    EXPECT_THAT(
        std::string(net.load_state_dict(arrays, strict).message()),
        AllOf(HasSubstr("size mismatch for fc2.weight: its shape is [4,2] in state_dict and [2,4]"),
              HasSubstr("cannot copy norm.bias"), Not(HasSubstr("strict = false"))));
  }
  EXPECT_EQ(ValuesOf(net.fc1->bias), before);
}

TEST(Modules, LoadStateDictTakesWhatPyTorchTakes) {
  Net net;
  base::NamedArrays all = *net.state_arrays(), arrays;
  for (const auto& [name, array] : all) {
    if (name != "norm.num_batches_tracked") arrays.Append(name, array);
  }
  arrays.Set("fc1.bias", Array::Of<double>({4}, {1, 2, 3, 4}));
  const absl::Status loaded = net.load_state_dict(arrays);
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_THAT(ValuesOf(net.fc1->bias), ElementsAre(1, 2, 3, 4));
  arrays.Set("norm.num_batches_tracked", Array::Of<float>({1}, {7}));
  EXPECT_TRUE(net.load_state_dict(arrays).ok());
  EXPECT_EQ(net.norm->num_batches_tracked.item<int64_t>().value_or(0), 7);
}

// A value that is loaded while another one is recorded, and a parameter that is a view.
TEST(Modules, LoadedValuesReplaceRecordedOnes) {
  nn::Module module;
  const Tensor memory = Make({2}, {1, 2});
  Tensor a = module.register_parameter("a", Make({1}, {1}));
  const Tensor b = module.register_parameter("b", memory.detach());
  const auto fill = [&](double value) {
    const no_grad guard;
    a.fill_(value);
  };
  fill(5);
  const base::NamedArrays arrays = {{"a", Array::Of<float>({1}, {3})},
                                    {"b", Array::Of<float>({2}, {4, 5})}};
  ASSERT_TRUE(module.load_state_dict(arrays).ok());
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(a), ElementsAre(3));
  EXPECT_THAT(ValuesOf(memory), ElementsAre(4, 5));
  fill(6);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(a), ElementsAre(6));
}

TEST(Modules, AViewOfAParameterThatWasMovedSinceIsAnError) {
  for (const bool type : {true, false}) {
    nn::Module module;
    const Tensor a = module.register_parameter("a", Make({2}, {1, 2}));
    const Tensor view = narrow(a, 0, 1, 1);
    type ? module.to(kBFloat16) : module.to(test::TestDevice(1));
    EXPECT_THAT(ErrorOf(view + 1), AllOf(HasSubstr("f32[1] on xla:0 is a view of one that is "),
                                         HasSubstr(type ? "bf16[2] on xla:0" : "f32[2] on xla:1"),
                                         HasSubstr("make the view again")));
    EXPECT_THAT(ErrorOf(view), HasSubstr("make the view again"));
  }
}

TEST(Modules, InstanceNormOfAnImageWithoutABatch) {
  const Tensor image = Make({2, 2, 2}, {1, 2, 3, 6, 4, 4, 8, 8});
  const Tensor y = nn::InstanceNorm2d(2)(image), batch = nn::InstanceNorm2d(2)(unsqueeze(image, 0));
  EXPECT_EQ(ValuesOf(y), ValuesOf(batch));
  EXPECT_EQ(y.dim(), 3);
  EXPECT_THAT(ErrorOf(nn::InstanceNorm1d(2)(unsqueeze(image, 0))),
              AllOf(HasSubstr("InstanceNorm1d"), HasSubstr("expects 3 dimensions")));
}

TEST(Modules, MessagesOfWrongUses) {
  nn::Module module;
  module.register_parameter("a.b", Make({1}, {1}));
  EXPECT_THAT(ErrorOf(Make({1}, {1})), HasSubstr("must not be empty, contain '.', or be used"));
  nn::Linear(0, 3);
  EXPECT_THAT(ErrorOf(Make({1}, {1})), HasSubstr("Linear: the numbers of features"));
  nn::Conv2d(3, 4, 3, {.groups = 2});
  EXPECT_THAT(ErrorOf(Make({1}, {1})), HasSubstr("groups (2) must divide the channels (3, 4)"));
  nn::MultiheadAttention(6, 4);
  EXPECT_THAT(ErrorOf(Make({1}, {1})), HasSubstr("embed_dim (6)"));
  EXPECT_THAT(ErrorOf(nn::BatchNorm2d(3)(Make({2, 3}, std::vector<float>(6)))),
              AllOf(HasSubstr("BatchNorm2d"), HasSubstr("expects 4 dims")));
  nn::Sequential list({nn::ReLU(), nn::LSTM(2, 2)});
  EXPECT_THAT(ErrorOf(list(Make({1, 2}, {1, 2}))), HasSubstr("the module has no forward(Tensor)"));
  EXPECT_FALSE(list[5].ptr());
  EXPECT_THAT(ErrorOf(Make({1}, {1})), HasSubstr("there is no module 5 in a list of 2"));
  EXPECT_THAT(ErrorOf(nn::LSTM(3, 2)(Make({4, 1, 2}, std::vector<float>(8))).output),
              HasSubstr("expects [T, N, 3]"));
}

TEST(Modules, PaddedConvolutionsCheckTheirOptions) {
  const Tensor x = Make({1, 3, 4, 4}, std::vector<float>(48, 1));
  const auto error = [&](Sizes kernel, const nn::ConvModuleOptions& options) {
    nn::Conv2d conv(3, 2, std::move(kernel), options);
    conv->to(TestDevice());
    return ErrorOf(conv(x));
  };
  const std::string expected = "must be one number or 2";
  EXPECT_THAT(error(3, {.padding = {1, 1, 1}, .padding_mode = "reflect"}), HasSubstr(expected));
  EXPECT_NE(error({3, 3, 3}, {.padding = 1, .padding_mode = "circular"}), "");
  EXPECT_THAT(error(3, {.padding = "full", .padding_mode = "reflect"}), HasSubstr(expected));
  EXPECT_THAT(error(3, {.stride = 2, .padding = "same", .padding_mode = "reflect"}),
              HasSubstr("if the stride is 1"));
  EXPECT_EQ(error(3, {.padding = "same", .padding_mode = "reflect"}), "");
  EXPECT_EQ(error(3, {.stride = 2, .padding = 1, .padding_mode = "circular"}), "");
}

TEST(Modules, AttentionChecksItsMasks) {
  const nn::MultiheadAttention attention(4, 2);
  attention->to(TestDevice());
  const auto none = [](const Sizes& sizes, DType dtype = kFloat) {
    return zeros(sizes, {.dtype = dtype, .device = TestDevice()});
  };
  const Tensor q = Make({3, 2, 4}, std::vector<float>(24, 1));   // [L, N, E]
  const Tensor kv = Make({5, 2, 4}, std::vector<float>(40, 1));  // [S, N, E]
  const auto error = [&](const nn::AttentionCallOptions& options) {
    return ErrorOf(attention(q, kv, kv, options).output);
  };
  EXPECT_THAT(error({.key_padding_mask = none({5, 2}, kBool)}),
              HasSubstr("key_padding_mask [2, 5]"));
  EXPECT_THAT(error({.attn_mask = none({5, 3})}), HasSubstr("attn_mask [3, 5] or [4, 3, 5]"));
  EXPECT_THAT(error({.key_padding_mask = none({2, 5}, kLong)}),
              HasSubstr("bool or floating point"));
  EXPECT_EQ(error({.key_padding_mask = none({2, 5}, kBool), .attn_mask = none({4, 3, 5})}), "");
}

// torch: copy.deepcopy of the given layer.
TEST(Modules, EncodersCopyTheLayerAsItIs) {
  nn::TransformerEncoderLayer layer(4, 2);
  {
    const no_grad guard;
    for (Tensor& parameter : layer->parameters()) parameter.fill_(0.5);  // recorded, not computed
  }
  layer->requires_grad_(false);
  layer->eval();
  const nn::TransformerEncoder encoder(layer, 2);
  EXPECT_FALSE(encoder->children().empty());
  for (const auto& [name, parameter] : encoder->named_parameters()) {
    EXPECT_FALSE(parameter.requires_grad()) << name;
    for (const float value : ValuesOf(parameter)) ASSERT_EQ(value, 0.5f) << name;
  }
  bool training = false;
  encoder->apply([&](const std::string& path, nn::Module& module) {
    training |= !path.empty() && path != "layers" && module.is_training();
  });
  EXPECT_FALSE(training);
}

TEST(Modules, AnEmptyModuleInAListIsAnError) {
  const nn::LayerNorm none = nullptr;
  nn::ModuleDict({{"norm", none}, {"fc", nn::Linear(2, 3)}});
  EXPECT_THAT(ErrorOf(Make({1}, {1})), HasSubstr("module \"norm\" is empty"));
}

// ---- Initial values ----

struct Range {
  double low, high, mean, deviation;
};
Range RangeOf(const Tensor& x) {
  Range range{1e30, -1e30, 0, 0};
  const std::vector<float> values = ValuesOf(x);
  for (float v : values) {
    range.low = std::min<double>(range.low, v);
    range.high = std::max<double>(range.high, v);
    range.mean += v / static_cast<double>(values.size());
  }
  for (float v : values) range.deviation += (v - range.mean) * (v - range.mean);
  range.deviation = std::sqrt(range.deviation / static_cast<double>(values.size()));
  return range;
}

TEST(Modules, ConstantsAreExactInFloat64) {
  const Tensor wide = zeros(1, {.dtype = kDouble, .device = TestDevice()});
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_EQ(nn::init::constant_(wide, 0.1).item<double>().value(), 0.1);
}

TEST(Modules, InitialValuesHavePyTorchsDistributions) {
  manual_seed(2);
  const nn::Linear linear(400, 100);
  const Range weight = RangeOf(linear->weight), bias = RangeOf(linear->bias);
  EXPECT_NEAR(weight.high, 0.05, 1e-4);  // 1 / sqrt(400)
  EXPECT_NEAR(weight.low, -0.05, 1e-4);
  EXPECT_NEAR(weight.deviation, 0.1 / std::sqrt(12.0), 1e-3);
  EXPECT_LE(bias.high, 0.05);
  EXPECT_GT(bias.high, 0.03);
  EXPECT_NEAR(RangeOf(nn::Conv2d(16, 64, 5)->weight).high, 0.05, 1e-4);
  EXPECT_NEAR(RangeOf(nn::Embedding(200, 100)->weight).deviation, 1, 0.03);
  EXPECT_NEAR(RangeOf(nn::GRU(10, 100)->parameters()[0]).high, 0.1, 1e-3);

  const Tensor x = zeros({200, 50, 2}, {.device = TestDevice()});
  ASSERT_TRUE(xm::mark_step().ok());
  // fan_in 100, fan_out 400.
  EXPECT_NEAR(RangeOf(nn::init::xavier_uniform_(x, 2)).high, 2 * std::sqrt(6.0 / 500), 1e-3);
  EXPECT_NEAR(RangeOf(nn::init::xavier_normal_(x)).deviation, std::sqrt(2.0 / 500), 2e-3);
  EXPECT_NEAR(RangeOf(nn::init::kaiming_normal_(x, 0, "fan_out", "relu")).deviation,
              std::sqrt(2.0 / 400), 2e-3);
  EXPECT_NEAR(RangeOf(nn::init::kaiming_uniform_(x, std::sqrt(5.0))).high, 0.1, 1e-3);
  const Range cut = RangeOf(nn::init::trunc_normal_(x, 1, 1, 0.5, 2));
  EXPECT_GE(cut.low, 0.5);
  EXPECT_LE(cut.high, 2);
  EXPECT_NEAR(cut.low, 0.5, 0.01);
  EXPECT_EQ(RangeOf(nn::init::constant_(x, 3)).low, 3);
  const Tensor square = zeros({8, 20}, {.device = TestDevice()});
  ASSERT_TRUE(xm::mark_step().ok());
  nn::init::orthogonal_(square, 3);
  const std::vector<float> product = ValuesOf(matmul(square, t(square)));
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(product[i], i % 9 == 0 ? 9 : 0, 1e-4);
  nn::init::xavier_uniform_(zeros(3, {.device = TestDevice()}));
  EXPECT_THAT(ErrorOf(square), HasSubstr("fans require 2 dims or more"));
}

// As torch.manual_seed before making a model.
TEST(Modules, SeedsRepeatInitialValues) {
  manual_seed(9);
  const nn::Linear a(3, 3), b(3, 3);
  manual_seed(9);
  const nn::Linear c(3, 3);
  EXPECT_EQ(ValuesOf(a->weight), ValuesOf(c->weight));
  EXPECT_NE(ValuesOf(a->weight), ValuesOf(b->weight));
}

TEST(Modules, ASequenceOfPaddingGivesNoNaN) {
  const nn::TransformerEncoderLayer layer(
      4, 2, {.dim_feedforward = 4, .dropout = 0, .batch_first = true});
  layer->to(TestDevice());
  const Tensor x = Make({2, 3, 4}, std::vector<float>(24, 1));
  const Tensor padding =
      tensor(base::Array::Of<bool>({2, 3}, {true, true, true, false, false, false}), TestDevice());
  const Tensor y = layer(x, Tensor(), padding);
  for (const float value : ValuesOf(y)) EXPECT_TRUE(std::isfinite(value));
  y.sum().backward();
  for (const auto& [name, p] : layer->named_parameters()) {
    for (const float value : ValuesOf(p.grad())) EXPECT_TRUE(std::isfinite(value)) << name;
  }
}

}  // namespace penstock::lazy::modules_test
