// PyTorch's names and layouts; tests/interop/torch_models_test.cc compares outputs with PyTorch.
#include "penstock/models/torch_weights.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/models/models.h"
#include "penstock/models/torch_names.h"
#include "penstock/models/transformer.h"
#include "penstock/nn/layers.h"

namespace penstock::models {
namespace torch_weights_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

nn::Network SmallResNet(int64_t classes) {
  return ResNet50V1_5({.input_shape = {32, 32, 3}, .classes = classes});
}

// Arrays of the network's shapes; those of its first and last kernel are numbered.
NamedArrays Numbered(const nn::Network& network) {
  NamedArrays arrays;
  for (const nn::VariableSpec& spec : network.variables()) {
    Array array = Array::Zeros(DType::kF32, spec.type.shape);
    if (spec.name == "conv1_conv/kernel" || spec.name == "predictions/kernel") {
      for (int64_t i = 0; i < array.num_elements(); ++i) {
        array.mutable_data<float>()[i] = static_cast<float>(i);
      }
    }
    arrays.Append(spec.name, array);
  }
  return arrays;
}

// Names in PyTorch of all variables; empty if the network has none.
std::set<std::string> TorchNames(const nn::Network& network, const char* layout = "") {
  const auto arrays = ToTorch(network, Numbered(network), layout);
  EXPECT_TRUE(arrays.ok()) << arrays.status();
  std::set<std::string> names;
  if (!arrays.ok()) return names;
  for (const auto& [name, array] : *arrays) names.insert(name);
  EXPECT_EQ(names.size(), network.variables().size()) << network.name() << ": names are used twice";
  return names;
}

// Numbers of parameters in torchvision's documentation.
TEST(TorchWeights, NetworksHaveTorchvisionsParameters) {
  const std::pair<nn::Network, int64_t> networks[] = {
      {ResNet50V1_5(), 25557032},
      {ResNet101V1_5(), 44549160},
      {ResNet152V1_5(), 60192808},
      {MobileNetV2Torch(), 3504872},
      {EfficientNetB0Torch(), 5288548},
      {EfficientNetB4Torch(), 19341616},
      {EfficientNetB7Torch(), 66347960},
      {VGG16(), 138357544},
      {VGG19(), 143667240},
      {DenseNet121(), 7978856},
      {DenseNet169(), 14149480},
      {DenseNet201(), 20013928},
      {ViTB16(), 86567656},
      {ViTB32(), 88224232},
      {ViTL16(), 304326632},
      {ViTL32(), 306535400},
      {ViTH14(), 632045800},
      {ViTH14({.input_shape = {518, 518, 3}}), 633470440}};
  for (const auto& [network, parameters] : networks) {
    ASSERT_TRUE(network.status().ok()) << network.status();
    EXPECT_EQ(network.CountParameters(/*trainable_only=*/true), parameters) << network.name();
  }
}

TEST(TorchWeights, EveryNetworkWithALayoutHasNamesForAllVariables) {
  int layouts = 0;
  for (const ModelInfo& model : Models()) {
    if (model.torch.empty()) continue;
    std::vector<std::string> names;
    const nn::Network network = model.make({});
    for (const nn::VariableSpec& variable : network.variables()) names.push_back(variable.name);
    for (const TorchLayout& layout : model.torch) {
      std::set<std::string> torch_names;
      for (const auto& variable : internal::TorchVariablesOf(layout, names, "")) {
        EXPECT_NE(variable.torch_name, "") << model.name << ": " << variable.name;
        EXPECT_TRUE(
            torch_names.insert(absl::StrCat(variable.torch_name, " ", variable.form.part)).second)
            << model.name << ": " << variable.torch_name << " is used twice";
      }
      ++layouts;
    }
  }
  EXPECT_GE(layouts, 30);
}

TEST(TorchWeights, ResNetHasTorchvisionsNames) {
  const std::set<std::string> names = TorchNames(ResNet50V1_5());
  for (const char* name : {"conv1.weight", "bn1.running_mean", "layer1.0.downsample.0.weight",
                           "layer1.0.downsample.1.running_var", "layer3.5.conv2.weight",
                           "layer4.2.bn3.bias", "fc.weight", "fc.bias"}) {
    EXPECT_THAT(names, Contains(name));
  }
  EXPECT_THAT(names, Not(Contains("conv1.bias")));
  EXPECT_THAT(names, Not(Contains("layer1.1.downsample.0.weight")));
}

TEST(TorchWeights, AxesArePermutedThereAndBack) {
  const nn::Network network = SmallResNet(2);
  const NamedArrays ours = Numbered(network);
  const auto theirs = ToTorch(network, ours);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  const Array& conv = *theirs->Find("conv1.weight");
  ASSERT_EQ(conv.TypeString(), "float32[64,3,7,7]");
  EXPECT_EQ(conv.item<float>({5, 2, 4, 6}),
            ours.Find("conv1_conv/kernel")->item<float>({4, 6, 2, 5}));
  const Array& dense = *theirs->Find("fc.weight");
  ASSERT_EQ(dense.TypeString(), "float32[2,2048]");
  EXPECT_EQ(dense.item<float>({1, 77}), ours.Find("predictions/kernel")->item<float>({77, 1}));

  // Prefixes: of DataParallel, and of a training's checkpoint with other arrays beside the weights.
  for (const std::string prefix : {"", "module.", "state_dict/model."}) {
    NamedArrays file;
    for (const auto& [name, array] : *theirs) file.Append(prefix + name, array);
    file.Append(prefix + "bn1.num_batches_tracked", Array::Scalar<int64_t>(7));
    if (!prefix.empty()) file.Append("optimizer/0/exp_avg", Array::Scalar<float>(7));
    const auto again = MatchWeights(network, file);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->complete()) << again->ToString();
    EXPECT_EQ(again->layout, "torchvision");
    ASSERT_EQ(again->arrays.size(), ours.size());
    for (const auto& [name, array] : ours) {
      ASSERT_TRUE(base::BitwiseEqual(*again->arrays.Find(name), array)) << name;
    }
  }
}

// PyTorch flattens [channels, height, width], here it is [height, width, channels].
TEST(TorchWeights, DenseLayerAfterFlattenIsReordered) {
  const nn::Network network = VGG16({.input_shape = {64, 96, 3}, .classes = 2});
  ASSERT_TRUE(network.status().ok()) << network.status();
  NamedArrays ours = Numbered(network);
  Array kernel = Array::Zeros(DType::kF32, {2 * 3 * 512, 4096});
  const auto ours_at = [](int64_t y, int64_t x, int64_t channel) {
    return (y * 3 + x) * 512 + channel;
  };
  kernel.mutable_data<float>()[ours_at(1, 2, 77) * 4096 + 5] = 1;
  ours.Set("fc1/kernel", kernel);
  const auto theirs = ToTorch(network, ours);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  const Array& weight = *theirs->Find("classifier.0.weight");
  ASSERT_EQ(weight.TypeString(), "float32[4096,3072]");
  EXPECT_EQ(weight.item<float>({5, 77 * 6 + 1 * 3 + 2}), 1);
  const auto again = MatchWeights(network, *theirs);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->complete()) << again->ToString();
  EXPECT_TRUE(base::BitwiseEqual(*again->arrays.Find("fc1/kernel"), kernel));
}

// The layers of a vision transformer with one block over steps of 6 features, two heads of 3.
nn::Network SmallAttention(int64_t steps) {
  const nn::Symbol x = nn::Input({.shape = {steps, 6}});
  const nn::Symbol token = nn::PositionEmbedding({.sequence_length = 1, .name = "class_token"})(
      nn::Cropping1D({.cropping = {0, steps - 1}})(x));
  nn::Symbol y = internal::AddPositions(nn::Concatenate({.axis = 1})({token, x}));
  y = internal::TransformerBlock(y, {.heads = 2, .mlp_dim = 5}, "block1");
  return nn::Network({x}, {internal::TransformerNorm(y, "norm")}, "small_attention");
}

// Arrays of the network's shapes with a number of their own at each place.
NamedArrays AllNumbered(const nn::Network& network) {
  NamedArrays arrays;
  float next = 0;
  for (const nn::VariableSpec& spec : network.variables()) {
    Array array = Array::Zeros(DType::kF32, spec.type.shape);
    for (int64_t i = 0; i < array.num_elements(); ++i) array.mutable_data<float>()[i] = next++;
    arrays.Append(spec.name, array);
  }
  return arrays;
}

// PyTorch's in_proj_weight: rows are queries, keys and values, of each head by head.
TEST(TorchWeights, AttentionIsJoinedAndCutApart) {
  const nn::Network network = SmallAttention(4);
  ASSERT_TRUE(network.status().ok()) << network.status();
  const NamedArrays ours = AllNumbered(network);
  const std::string block = "encoder.layers.encoder_layer_0.";
  const struct {
    const char* layout;
    std::string weight, bias, output, mlp, positions;
  } rows[] = {
      {"torchvision", block + "self_attention.in_proj_weight",
       block + "self_attention.in_proj_bias", block + "self_attention.out_proj.weight",
       block + "mlp.3.weight", "encoder.pos_embedding"},
      {"torchvision_old", block + "self_attention.in_proj_weight",
       block + "self_attention.in_proj_bias", block + "self_attention.out_proj.weight",
       block + "mlp.linear_2.weight", "encoder.pos_embedding"},
      {"timm", "blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias", "blocks.0.attn.proj.weight",
       "blocks.0.mlp.fc2.weight", "pos_embed"},
  };
  for (const auto& row : rows) {
    const auto theirs = ToTorch(network, ours, row.layout);
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    EXPECT_EQ(theirs->size(), network.variables().size() - 4) << row.layout;
    for (const std::string& name : {row.weight, row.bias, row.output, row.mlp, row.positions}) {
      ASSERT_NE(theirs->Find(name), nullptr) << name;
    }
    const Array &weight = *theirs->Find(row.weight), &bias = *theirs->Find(row.bias);
    ASSERT_EQ(weight.TypeString(), "float32[18,6]");
    ASSERT_EQ(bias.TypeString(), "float32[18]");
    const char* const parts[] = {"query", "key", "value"};
    for (int64_t part = 0; part < 3; ++part) {
      const std::string name = absl::StrCat("block1_attention/", parts[part], "/");
      const Array &kernel_here = *ours.Find(name + "kernel"),
                  &bias_here = *ours.Find(name + "bias");
      for (int64_t head = 0; head < 2; ++head) {
        for (int64_t i = 0; i < 3; ++i) {
          const int64_t at = part * 6 + head * 3 + i;
          EXPECT_EQ(bias.item<float>({at}), bias_here.item<float>({head, i}));
          EXPECT_EQ(weight.item<float>({at, 4}), kernel_here.item<float>({4, head, i}));
        }
      }
    }
    EXPECT_EQ(theirs->Find(row.output)->item<float>({5, 1 * 3 + 2}),
              ours.Find("block1_attention/attention_output/kernel")->item<float>({1, 2, 5}));
    EXPECT_EQ(theirs->Find(row.positions)->TypeString(), "float32[1,5,6]");

    const auto again = MatchWeights(network, *theirs);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->complete()) << again->ToString();
    EXPECT_EQ(again->layout, row.layout);
    for (const auto& [name, array] : ours) {
      ASSERT_TRUE(base::BitwiseEqual(*again->arrays.Find(name), array)) << name;
    }
  }
}

TEST(TorchWeights, AttentionOfOtherShapesIsListed) {
  const nn::Network network = SmallAttention(4);
  const auto good = ToTorch(network, AllNumbered(network));
  ASSERT_TRUE(good.ok()) << good.status();
  const std::string block = "encoder.layers.encoder_layer_0.self_attention.";
  const Array wrong[] = {Array::Scalar<float>(1),
                         Array::Strings({18}, std::vector<std::string>(18, "a")),
                         Array::Zeros(DType::kF32, {17}),
                         Array::Zeros(DType::kF32, {0}),
                         Array::Zeros(DType::kF32, {21}),
                         Array::Zeros(DType::kF32, {6, 18}),
                         Array::Zeros(DType::kF32, {0, 6}),
                         Array::Zeros(DType::kF32, {12, 9}),
                         Array::Zeros(DType::kF32, {18, 6, 1})};
  for (const Array& array : wrong) {
    NamedArrays file = *good;
    for (const char* name : {"in_proj_weight", "in_proj_bias", "out_proj.weight"}) {
      file.Set(block + name, array);
    }
    file.Set("class_token", array);
    const auto matched = MatchWeights(network, file);
    ASSERT_TRUE(matched.ok()) << matched.status();
    EXPECT_EQ(matched->mismatched.size(), 3u + 3u + 1u + 1u) << array.TypeString();
    EXPECT_EQ(matched->arrays.size(), network.variables().size() - 8);
  }
  NamedArrays ours = AllNumbered(network);
  for (const Array& array : wrong) {
    if (array.rank() == 2) continue;  // two axes of a bias
    ours.Set("block1_attention/key/bias", array);
    const absl::Status error = ToTorch(network, ours).status();
    EXPECT_TRUE(absl::IsInvalidArgument(error)) << array.TypeString() << error;
  }
}

TEST(TorchWeights, PositionsOfAnotherImageSizeAreNamed) {
  const nn::Network network = SmallAttention(4);
  const auto file = ToTorch(SmallAttention(9), AllNumbered(SmallAttention(9)));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto matched = MatchWeights(network, *file);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_THAT(matched->mismatched, ::testing::SizeIs(1));
  EXPECT_THAT(matched->likely_cause, HasSubstr("the file has 10 positions, the network 5"));
}

// Its layers have the same names, without a class token.
TEST(TorchWeights, NetworkWithoutClassTokenIsRejected) {
  const nn::Network network = VisionTransformer(
      {.patch_size = 16, .dim = 6, .depth = 1, .heads = 2, .mlp_dim = 5, .include_top = false});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto file = ToTorch(SmallAttention(4), AllNumbered(SmallAttention(4)));
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status error = MatchWeights(network, *file).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(error)) << error;
  EXPECT_THAT(std::string(error.message()), HasSubstr("vit_b_16"));
  EXPECT_TRUE(absl::IsUnimplemented(ToTorch(network, AllNumbered(network)).status()));
}

TEST(TorchWeights, KerasNamesAreTakenAsTheyAre) {
  const nn::Network network = SmallResNet(2);
  const auto found = MatchWeights(network, Numbered(network));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->complete()) << found->ToString();
  EXPECT_FALSE(found->is_torch());
}

TEST(TorchWeights, NetworkWithinANetworkGetsItsWeights) {
  const auto file = ToTorch(SmallResNet(9), Numbered(SmallResNet(9)));
  ASSERT_TRUE(file.ok()) << file.status();
  const nn::Network backbone =
      ResNet50V1_5({.input_shape = {32, 32, 3}, .include_top = false, .pooling = "avg"});
  const nn::Symbol image = nn::Input({.shape = {32, 32, 3}});
  const nn::Network whole(
      {image}, {nn::Dense({.units = 5, .name = "head"})(nn::Nested(backbone)(image))}, "whole");
  const auto matched = MatchWeights(whole, *file);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_EQ(matched->arrays.size(), backbone.variables().size());
  EXPECT_NE(matched->arrays.Find("resnet50_v1_5/conv1_conv/kernel"), nullptr);
  EXPECT_THAT(matched->missing, UnorderedElementsAre("head/kernel", "head/bias"));
  EXPECT_THAT(matched->unused, UnorderedElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(matched->likely_cause, HasSubstr("another head"));
}

TEST(TorchWeights, MismatchesNameTheLikelyCause) {
  const nn::Network network = SmallResNet(5);
  const auto file = ToTorch(SmallResNet(9), Numbered(SmallResNet(9)));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto head = MatchWeights(network, *file);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->arrays.size(), network.variables().size() - 2);
  EXPECT_EQ(head->ToString(),
            "265 of 267 variables fit the file, which has the names of torchvision\n"
            "2 variables have another shape:\n"
            "  predictions/kernel is f32[2048,5], fc.weight in the file float32[9,2048]\n"
            "  predictions/bias is f32[5], fc.bias in the file float32[9]\n"
            "likely cause: the head of the file has 9 classes, that of the network 5: keep a new "
            "head (skip_mismatch; --new-head)");

  const nn::Network features = ResNet50V1_5({.input_shape = {32, 32, 3}, .include_top = false});
  const auto part = MatchWeights(features, *file);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_THAT(part->missing, IsEmpty());
  EXPECT_THAT(part->unused, UnorderedElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(part->likely_cause, HasSubstr("with its top"));

  const nn::Network deep = ResNet101V1_5({.input_shape = {32, 32, 3}, .classes = 9});
  const auto deeper = MatchWeights(deep, *file);
  ASSERT_TRUE(deeper.ok()) << deeper.status();
  const std::string text = deeper->ToString();
  EXPECT_THAT(text, AllOf(HasSubstr("conv4_block7_1_conv/kernel (layer3.6.conv1.weight)"),
                          HasSubstr(" more")));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 19);

  const auto other = MatchWeights(network, {{"a", Array::Scalar<float>(1)}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(other->ToString(), AllOf(HasSubstr("0 of 267"), HasSubstr("another network")));
}

// Arrays of a file that is not a state_dict, under names of one.
TEST(TorchWeights, ArraysOfOtherTypesAndRanksAreListed) {
  const nn::Network network = VGG16({.input_shape = {64, 32, 3}, .classes = 2});
  const NamedArrays file = {{"features.0.weight", Array::Strings({1}, {"a"})},
                            {"features.0.bias", Array::Scalar<float>(1)},
                            {"features.2.weight", Array::Zeros(DType::kF32, {0, 3, 3, 0})},
                            {"features.2.bias", Array::Zeros(DType::kI64, {64})},
                            {"classifier.0.weight", Array::Zeros(DType::kF32, {4096, 1000})},
                            {"classifier.3.weight", Array::Zeros(DType::kF32, {0, 4096})},
                            {"classifier.6.weight", Array::Zeros(DType::kF32, {2, 4096, 1})}};
  const auto matched = MatchWeights(network, file);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_EQ(matched->layout, "torchvision");
  EXPECT_EQ(matched->mismatched.size(), 6u) << matched->ToString();
  EXPECT_EQ(matched->others.size(), 6u);
  EXPECT_EQ(matched->arrays.size(), 1u) << "Model::SetWeights converts types";
}

// The names and shapes of these pairs are equal, what they compute is not.
TEST(TorchWeights, NetworksThatComputeOtherwiseAreRejected) {
  const struct {
    ModelFunction torch, keras;
    const char* name;
  } rows[] = {{MobileNetV2Torch, MobileNetV2, "mobilenet_v2_torch"},
              {EfficientNetB0Torch, EfficientNetB0, "efficientnet_b0_torch"},
              {EfficientNetB0Torch, EfficientNetLite0, "efficientnet_b0_torch"},
              {ResNet50V1_5, ResNet50, "resnet50_v1_5"}};
  for (const auto& row : rows) {
    const nn::Network torch = row.torch({.input_shape = {32, 32, 3}, .classes = 2});
    const nn::Network keras = row.keras({.input_shape = {32, 32, 3}, .classes = 2});
    const auto file = ToTorch(torch, Numbered(torch));
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status error = MatchWeights(keras, *file).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(error)) << keras.name() << error;
    EXPECT_THAT(std::string(error.message()), HasSubstr(row.name));
    EXPECT_TRUE(MatchWeights(torch, *file)->complete());
  }
}

TEST(TorchWeights, ErrorNamesTheNetworksThatHaveNames) {
  const nn::Network keras = ResNet50({.input_shape = {32, 32, 3}});
  EXPECT_THAT(std::string(ToTorch(keras, Numbered(keras)).status().message()),
              AllOf(HasSubstr("no names for the layers of network 'resnet50'"),
                    HasSubstr("resnet50_v1_5")));
  EXPECT_FALSE(ToTorch(SmallResNet(2), {}).ok());
}

}  // namespace torch_weights_test
}  // namespace penstock::models
