// Compares the models' numbers of parameters with the formulas of their papers.
#include "penstock/models/models.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/layers.h"
#include "penstock/nn/network_size.h"

namespace penstock::models {
namespace models_test {

using base::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;

// He et al. 2015, section 4.2, for 3 input channels and 10 classes. A convolution has k k in out
// weights and no bias; a batch normalization has 2 weights and 2 moving averages per channel.
struct Count {
  int64_t trainable = 0, moving = 0;
};
Count ResNetCount(int64_t blocks, int64_t filters) {
  Count count;
  const auto conv = [&](int64_t k, int64_t in, int64_t out) {
    count.trainable += k * k * in * out + 2 * out;
    count.moving += 2 * out;
  };
  conv(3, 3, filters);
  int64_t in = filters;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t out = filters << stage;
    for (int64_t block = 0; block < blocks; ++block) {
      conv(3, in, out);
      conv(3, out, out);
      if (in != out) conv(1, in, out);
      in = out;
    }
  }
  count.trainable += in * 10 + 10;
  return count;
}

TEST(ResNetCifar, MatchesParameterCountsOfPaper) {
  for (const int64_t depth : {8, 20, 32, 56}) {
    const nn::Network network = ResNetCifar({.depth = depth});
    ASSERT_TRUE(network.status().ok()) << network.status();
    const Count count = ResNetCount((depth - 2) / 6, 16);
    EXPECT_EQ(network.CountParameters(/*trainable_only=*/true), count.trainable) << depth;
    EXPECT_EQ(network.CountParameters(), count.trainable + count.moving) << depth;
  }
  // Table 6 of the paper: 0.27, 0.46, and 0.85 million parameters.
  EXPECT_EQ(ResNetCifar({.depth = 20}).CountParameters(true), 272474);
  EXPECT_NEAR(ResNetCifar({.depth = 32}).CountParameters(true), 0.46e6, 0.01e6);
  EXPECT_NEAR(ResNetCifar({.depth = 56}).CountParameters(true), 0.85e6, 0.01e6);
}

TEST(ResNetCifar, StagesHalveTheImageAndDoubleTheFilters) {
  const nn::Network network = ResNetCifar(
      {.depth = 8, .input_shape = {32, 24, 1}, .input_dtype = DType::kU8, .classes = 7});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_EQ(network.inputs()[0].name, "image");
  EXPECT_EQ(network.inputs()[0].type.ToString(), "ui8[?,32,24,1]");
  EXPECT_EQ(network.outputs()[0].type.ToString(), "f32[?,7]");
  std::vector<std::string> stages;
  for (const auto& use : network.uses()) {
    if (use.name.size() > 4 && use.name.substr(use.name.size() - 4) == "_out")
      stages.push_back(use.type().ToString());
  }
  EXPECT_THAT(stages,
              ::testing::ElementsAre("f32[?,32,24,16]", "f32[?,16,12,32]", "f32[?,8,6,64]"));
}

TEST(ResNetCifar, TranslatesOnlyIfRequested) {
  const auto shifts = [](const nn::Network& network) {
    int count = 0;
    for (const auto& use : network.uses())
      count += use.layer.valid() && use.layer.class_name() == "RandomTranslation";
    return count;
  };
  EXPECT_EQ(shifts(ResNetCifar({.depth = 8})), 0);
  EXPECT_EQ(shifts(ResNetCifar({.depth = 8, .width_shift = 0.1})), 1);
}

TEST(ResNetCifar, RejectsInvalidDepth) {
  for (const int64_t depth : {-4, 2, 18, 51}) {
    EXPECT_THAT(std::string(ResNetCifar({.depth = depth}).status().message()), HasSubstr("6n + 2"))
        << depth;
  }
}

TEST(Mlp, HasRequestedLayers) {
  const nn::Network network =
      Mlp({.input_shape = {4, 5}, .input_dtype = DType::kU8, .hidden = {8, 6}, .classes = 3});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_EQ(network.CountParameters(), 20 * 8 + 8 + 8 * 6 + 6 + 6 * 3 + 3);
  EXPECT_EQ(network.outputs()[0].type.ToString(), "f32[?,3]");
}

// Numbers of parameters in Keras's documentation; tests/interop compares layer by layer.
TEST(ImageNetModels, MatchParameterCountsOfKeras) {
  const std::map<std::string, int64_t> parameters = {
      {"resnet50", 25636712},
      {"resnet101", 44707176},
      {"resnet152", 60419944},
      {"resnet50_v2", 25613800},
      {"resnet101_v2", 44675560},
      {"resnet152_v2", 60380648},
      {"vgg16", 138357544},
      {"vgg19", 143667240},

      {"mobilenet", 4253864},
      {"mobilenet_v2", 3538984},
      {"mobilenet_v3_small", 2554968},
      {"mobilenet_v3_large", 5507432},

      {"efficientnet_b0", 5330571},
      {"efficientnet_b1", 7856239},
      {"efficientnet_b2", 9177569},
      {"efficientnet_b3", 12320535},
      {"efficientnet_b4", 19466823},
      {"efficientnet_b5", 30562527},
      {"efficientnet_b6", 43265143},
      {"efficientnet_b7", 66658687},

      {"efficientnet_v2_b0", 7200312},
      {"efficientnet_v2_b1", 8212124},
      {"efficientnet_v2_b2", 10178374},
      {"efficientnet_v2_b3", 14467622},
      {"efficientnet_v2_s", 21612360},
      {"efficientnet_v2_m", 54431388},
      {"efficientnet_v2_l", 119027848},

      {"convnext_tiny", 28589128},
      {"convnext_small", 50223688},
      {"convnext_base", 88591464},
      {"convnext_large", 197767336},
      {"convnext_xlarge", 350196968},

      {"densenet121", 8062504},
      {"densenet169", 14307880},
      {"densenet201", 20242984},
      {"xception", 22910480},
      {"inception_v3", 23851784},
      {"inception_resnet_v2", 55873736},
      {"nasnet_mobile", 5326716},
      {"nasnet_large", 88949818},
  };
  for (const ModelInfo& model : Models()) {
    if (model.keras_name == nullptr) continue;
    const nn::Network network = model.make({});
    ASSERT_TRUE(network.status().ok()) << network.status();
    ASSERT_TRUE(parameters.contains(model.name)) << model.name;
    EXPECT_EQ(network.CountParameters(), parameters.at(model.name)) << model.name;
    EXPECT_EQ(network.outputs()[0].type.ToString(), "f32[?,1000]");
    EXPECT_EQ(network.inputs()[0].type.shape.dim(1), model.image_size);
  }
  EXPECT_EQ(ResNet50({.include_top = false}).CountParameters(), 23587712);
  EXPECT_EQ(VGG16({.include_top = false}).CountParameters(), 14714688);
  EXPECT_EQ(MobileNetV2({.alpha = 1.4}).CountParameters(), 6156712);
  EXPECT_EQ(MobileNetV2({.alpha = 0.35}).CountParameters(), 1691208);
}

// Numbers in tensorflow/tpu's test, models/official/efficientnet/lite/
// efficientnet_lite_builder_test.py.
TEST(EfficientNetLite, MatchesParameterCountsOfItsSource) {
  const std::map<std::string, int64_t> parameters = {
      {"efficientnet_lite0", 4652008},  {"efficientnet_lite1", 5416680},
      {"efficientnet_lite2", 6092072},  {"efficientnet_lite3", 8197096},
      {"efficientnet_lite4", 13006568},
  };
  const std::map<std::string, int64_t> sizes = {
      {"efficientnet_lite0", 224}, {"efficientnet_lite1", 240}, {"efficientnet_lite2", 260},
      {"efficientnet_lite3", 280}, {"efficientnet_lite4", 300},
  };
  for (const auto& [name, trainable] : parameters) {
    const auto network = ByName(name);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->CountParameters(/*trainable_only=*/true), trainable) << name;
    EXPECT_EQ(network->inputs()[0].type.shape.dim(1), sizes.at(name));
  }
  const nn::Network network = EfficientNetLite0();
  EXPECT_EQ(network.name(), "efficientnet-lite0");
  const auto rescaling = nn::LayerConfig(network.uses()[1].layer);
  EXPECT_NEAR(127 * rescaling["scale"].get<double>() + rescaling["offset"].get<double>(), 0, 1e-12);
  EXPECT_EQ(EfficientNetLite0({.include_preprocessing = false}).uses()[1].name, "stem_conv");
}

// The probability that training drops a residual path grows from block to block.
TEST(ImageNetModels, DropResidualPathsAsRequested) {
  const auto rates = [](const nn::Network& network, const char* class_name, const char* option) {
    std::vector<double> rates;
    for (const auto& use : network.uses()) {
      if (!use.layer.valid() || use.layer.class_name() != class_name) continue;
      if (use.name == "top_dropout") continue;
      rates.push_back(nn::LayerConfig(use.layer)[option].get<double>());
    }
    return rates;
  };
  const auto blocks = rates(EfficientNetB0({.drop_connect = 0.32}), "Dropout", "rate");
  ASSERT_EQ(blocks.size(), 9);  // of 16 blocks, those with a shortcut
  EXPECT_NEAR(blocks.front(), 0.32 * 2 / 16, 1e-12);
  EXPECT_NEAR(blocks.back(), 0.32 * 14 / 16, 1e-12);
  EXPECT_TRUE(rates(EfficientNetB0({.drop_connect = 0}), "Dropout", "rate").empty());
  const auto paths =
      rates(ConvNeXtTiny({.drop_connect = 0.17}), "StochasticDepth", "drop_path_rate");
  ASSERT_EQ(paths.size(), 17);  // of 18 blocks, all but the first
  EXPECT_NEAR(paths.front(), 0.01, 1e-12);
  EXPECT_NEAR(paths.back(), 0.17, 1e-12);
  EXPECT_TRUE(rates(ConvNeXtTiny(), "StochasticDepth", "drop_path_rate").empty());
}

// Billions of multiply-adds that torchvision publishes for networks with the same layers (as
// "GFLOPS"); the exact numbers are sums over the layers.
TEST(ImageNetModels, HaveThePublishedNumbersOfMultiplyAdds) {
  const std::map<std::string, double> billions = {
      {"vgg16", 15.470},
      {"vgg19", 19.632},
      {"densenet121", 2.834},
      {"densenet169", 3.360},
      {"densenet201", 4.291},
      {"inception_v3", 5.713},
      {"mobilenet_v2", 0.301},
      {"mobilenet_v3_small", 0.057},
      {"efficientnet_b0", 0.386},
      {"efficientnet_b1", 0.687},
      {"efficientnet_v2_s", 8.366},
      {"efficientnet_v2_m", 24.582},
      {"efficientnet_v2_l", 56.080},
      {"convnext_tiny", 4.456},
      {"convnext_small", 8.684},
      {"convnext_base", 15.355},
      {"convnext_large", 34.361},
      {"mobilenet_v3_large", 0.217},
      {"vit_b_16", 17.564},
      {"vit_b_32", 4.409},
      {"vit_l_16", 61.555},
      {"vit_l_32", 15.378},
      {"vit_h_14", 167.295},
  };
  const auto multiply_adds = [](const nn::Network& network) {
    return nn::SizeOf(network).value_or(nn::NetworkSize()).multiply_adds;
  };
  for (const auto& [name, published] : billions) {
    const auto network = ByName(name);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_NEAR(static_cast<double>(multiply_adds(*network)) / 1e9, published, 0.0006) << name;
  }
  EXPECT_EQ(multiply_adds(VGG16()), 15470264320);
  EXPECT_EQ(multiply_adds(ResNet50()), 3857973248);
  EXPECT_EQ(multiply_adds(MobileNet()), 568740352);
  EXPECT_EQ(multiply_adds(MobileNetV2()), 300774272);
}

TEST(ImageNetModels, EndAsRequested) {
  const auto output = [](const ImageNetOptions& options) {
    return ResNet50(options).outputs()[0].type.ToString();
  };
  const std::vector<int64_t> shape = {64, 96, 3};
  EXPECT_EQ(output({.input_shape = shape}), "f32[?,1000]");
  EXPECT_EQ(output({.input_shape = shape, .include_top = false}), "f32[?,2,3,2048]");
  EXPECT_EQ(output({.input_shape = shape, .include_top = false, .pooling = "avg"}), "f32[?,2048]");
  EXPECT_EQ(output({.input_shape = shape, .include_top = false, .pooling = TopPooling::kMax}),
            "f32[?,2048]");
  // Keras ignores the pooling of a network with its top.
  EXPECT_EQ(output({.input_shape = shape, .pooling = "max", .classes = 7}), "f32[?,7]");
  const nn::Network network = VGG19({.classifier_activation = "softmax", .name = "mine"});
  EXPECT_EQ(network.name(), "mine");
  EXPECT_EQ(nn::LayerConfig(network.uses().back().layer)["activation"], "softmax");
}

TEST(ImageNetModels, DescribeTheirPreprocessing) {
  EXPECT_EQ(Preprocessing("mobilenet_v2")->mode, PreprocessMode::kTf);
  EXPECT_EQ(Preprocessing("resnet50_v2")->scale[1], 1 / 127.5);
  EXPECT_EQ(Preprocessing("resnet50_v2")->offset[1], -1);
  EXPECT_TRUE(Preprocessing("vgg19")->reverse_channels);
  EXPECT_EQ(Preprocessing("vgg19")->offset[2], -123.68);
  EXPECT_EQ(Preprocessing("mlp")->scale[0], 1);
  EXPECT_EQ(Preprocessing("mobilenet")->mode, PreprocessMode::kTf);
  EXPECT_EQ(Preprocessing("convnext_base")->mode, PreprocessMode::kInside);
  EXPECT_EQ(Preprocessing("convnext_base")->scale[0], 1);
  // Means and standard deviations of ImageNet, as in torchvision.
  const ImagePreprocessing torch = PreprocessingOf(PreprocessMode::kTorch);
  EXPECT_NEAR(255 * 0.456 * torch.scale[1] + torch.offset[1], 0, 1e-12);
  EXPECT_NEAR(255 * (0.485 + 0.229) * torch.scale[0] + torch.offset[0], 1, 1e-12);
  EXPECT_FALSE(torch.reverse_channels);
  EXPECT_FALSE(Preprocessing("vgg20").ok());
  EXPECT_STREQ(ModeName(Preprocessing("mlp")->mode), "none");
  EXPECT_STREQ(ModeName(Preprocessing("convnext_tiny")->mode), "inside");
  EXPECT_STREQ(ModeName(Preprocessing("vgg19")->mode), "caffe");
  EXPECT_STREQ(ModeName(Preprocessing("xception")->mode), "tf");
  EXPECT_STREQ(ModeName(Preprocessing("densenet121")->mode), "torch");
}

TEST(ImageNetModels, ApplyInputLayersFirst) {
  std::vector<nn::Layer> layers = PreprocessingLayers(PreprocessMode::kCaffe);
  ASSERT_EQ(layers.size(), 2u);
  layers.insert(layers.begin(), nn::RandomFlip());
  for (const char* name : {"vgg16", "mlp", "resnet8", "vision_transformer"}) {
    const auto network = ByName(name, {.input_shape = {32, 32, 3},
                                       .classes = 4,
                                       .input_dtype = DType::kU8,
                                       .input_layers = layers});
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_GT(network->uses().size(), 4u);
    std::vector<std::string> first;
    for (int i = 1; i < 4; ++i) first.push_back(network->uses()[static_cast<size_t>(i)].name);
    EXPECT_THAT(first, ::testing::ElementsAre("random_flip", "rgb_to_bgr", "preprocessing"))
        << name;
  }
  EXPECT_TRUE(PreprocessingLayers(PreprocessMode::kInside).empty());
  EXPECT_EQ(PreprocessingLayers(PreprocessMode::kTorch).size(), 1u);
}

TEST(ImageNetModels, AcceptBytesAndMixedPrecision) {
  const ImageNetOptions options{
      .input_shape = {64, 48, 3}, .classes = 4, .input_dtype = DType::kU8, .rescale = 1 / 255.0};
  for (const char* name : {"resnet50", "resnet50_v2", "vgg16", "mobilenet_v2", "mobilenet_v3_small",
                           "efficientnet_b0", "efficientnet_v2_b0", "convnext_tiny", "vit_b_16"}) {
    const auto network = ByName(name, options);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->inputs()[0].type.ToString(), "ui8[?,64,48,3]");
    const nn::Network mixed = network->WithPolicy("mixed_bfloat16");
    ASSERT_TRUE(mixed.status().ok()) << mixed.status();
    EXPECT_EQ(mixed.outputs()[0].type.ToString(), "bf16[?,4]");
    EXPECT_EQ(mixed.CountParameters(), network->CountParameters());
  }
  // Float inputs that are used unchanged need no preprocessing layer.
  EXPECT_EQ(ResNet50().uses()[1].name, "conv1_pad");
  EXPECT_EQ(ResNet50({.rescale = 2}).uses()[1].name, "rescaling");
}

TEST(ImageNetModels, RejectInvalidOptions) {
  const auto message = [](const nn::Network& network) {
    return std::string(network.status().message());
  };
  EXPECT_THAT(message(ResNet50({.input_shape = {31, 224, 3}})),
              HasSubstr("at least 32 pixels in height and width, got [31, 224, 3]"));
  EXPECT_THAT(message(ResNet50V2({.alpha = 0.5})), HasSubstr("resnet50_v2 has no option alpha"));
  EXPECT_THAT(message(VGG16({.momentum = 0.5})), HasSubstr("vgg16 has no option momentum"));
  EXPECT_THAT(message(EfficientNetV2S({.imagenet_rescaling = true})),
              HasSubstr("efficientnet_v2_s has no option imagenet_rescaling"));
  EXPECT_THAT(message(MobileNet({.drop_connect = 0.1})), HasSubstr("no option drop_connect"));
  EXPECT_THAT(message(ConvNeXtTiny({.drop_connect = 2})), HasSubstr("is a probability"));
  EXPECT_THAT(message(VGG16({.include_top = false, .pooling = "min"})),
              HasSubstr("unknown pooling 'min'; available: avg, max"));
  EXPECT_THAT(message(VGG19({.classes = 0})), HasSubstr("classes must be above 0, got 0"));
  EXPECT_THAT(message(VGG16({.input_shape = {32, 31, 3}})),
              HasSubstr("at least 32 pixels in height and width, got [32, 31, 3]"));
  EXPECT_THAT(message(MobileNetV2({.input_shape = {224, 224}})), HasSubstr("got [224, 224]"));
  EXPECT_THAT(message(MobileNetV2({.alpha = 0})), HasSubstr("above 0, got 0"));
}

// Per block: two norms of 2 dim; query, key, value, and output of dim^2 + dim; two dense layers.
int64_t BlockCount(int64_t dim, int64_t mlp) {
  return 2 * 2 * dim + 4 * (dim * dim + dim) + dim * mlp + mlp + mlp * dim + dim;
}

TEST(VisionTransformer, MatchesParameterFormulaAndHasReadableNames) {
  const nn::Network network = VisionTransformer({.input_shape = {24, 16, 3},
                                                 .patch_size = 8,
                                                 .dim = 12,
                                                 .depth = 3,
                                                 .heads = 2,
                                                 .mlp_dim = 20,
                                                 .classes = 5});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const int64_t patches = 3 * 2;
  EXPECT_EQ(network.CountParameters(),
            8 * 8 * 3 * 12 + 12 + patches * 12 + 3 * BlockCount(12, 20) + 2 * 12 + 12 * 5 + 5);
  EXPECT_EQ(network.outputs()[0].type.ToString(), "f32[?,5]");
  std::vector<std::string> names;
  for (const auto& use : network.uses()) names.push_back(use.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"patch_embedding", "position_embedding",
                                              "block1_norm1", "block3_attention", "block3_add2",
                                              "norm", "avg_pool", "logits"}));
  // ViT-S/16 of Beyer et al.: 22.05 million parameters.
  EXPECT_NEAR(VisionTransformer({.input_shape = {224, 224, 3},
                                 .patch_size = 16,
                                 .dim = 384,
                                 .depth = 12,
                                 .heads = 6,
                                 .mlp_dim = 1536,
                                 .classes = 1000})
                  .CountParameters(),
              22.05e6, 0.01e6);
}

TEST(ViT, EndsAsRequested) {
  const auto output = [](const ImageNetOptions& options) {
    return ViTB16(options).outputs()[0].type.ToString();
  };
  const std::vector<int64_t> shape = {32, 48, 3};  // 2x3 patches and the class token
  EXPECT_EQ(output({.input_shape = shape, .classes = 9}), "f32[?,9]");
  EXPECT_EQ(output({.input_shape = shape, .include_top = false}), "f32[?,7,768]");
  EXPECT_EQ(output({.input_shape = shape, .include_top = false, .pooling = "avg"}), "f32[?,768]");
  EXPECT_EQ(output({.input_shape = shape, .include_top = false, .pooling = "max"}), "f32[?,768]");
  EXPECT_EQ(output({.input_shape = {16, 16, 1}, .include_top = false}), "f32[?,2,768]");
  // What the patches fill is the image after the layers of the input.
  EXPECT_EQ(output({.input_shape = {30, 31, 3},
                    .include_top = false,
                    .input_layers = {nn::Resizing({.height = 16, .width = 32})}}),
            "f32[?,3,768]");
  const auto error = [](const nn::Network& network) {
    return std::string(network.status().message());
  };
  EXPECT_THAT(error(ViTB16({.input_shape = {32, 40, 3}})),
              AllOf(HasSubstr("vit_b_16 expects"), HasSubstr("16x16 fill, got [32, 40, 3]")));
  EXPECT_THAT(error(ViTH14({.input_shape = {13, 14, 3}})), HasSubstr("at least 14 pixels"));
  EXPECT_THAT(error(ViTL32({.dropout = 0.1})), HasSubstr("vit_l_32 has no option dropout"));
}

TEST(Gpt, MatchesParameterFormula) {
  const GptOptions options{.vocabulary_size = 30, .sequence_length = 9, .dim = 12, .depth = 2};
  const nn::Network network = Gpt(options);
  ASSERT_TRUE(network.status().ok()) << network.status();
  const int64_t tied = 30 * 12 + 9 * 12 + 2 * BlockCount(12, 48) + 2 * 12;
  EXPECT_EQ(network.CountParameters(), tied);
  EXPECT_EQ(network.inputs()[0].type.ToString(), "i32[?,9]");
  EXPECT_EQ(network.outputs()[0].type.ToString(), "f32[?,9,30]");
  GptOptions apart = options;
  apart.tie_weights = false;
  EXPECT_EQ(Gpt(apart).CountParameters(), tied + 12 * 30);
  // GPT-2 with 124 million parameters (Radford et al. 2019).
  EXPECT_EQ(
      Gpt({.vocabulary_size = 50257, .sequence_length = 1024, .dim = 768, .depth = 12, .heads = 12})
          .CountParameters(),
      124439808);
}

TEST(Transformers, RoundTripThroughJsonAndAcceptMixedPrecision) {
  for (const nn::Network& network : {VisionTransformer({.dropout = 0.1}), ViTB32(),
                                     Gpt({.dropout = 0.1}), Gpt({.tie_weights = false})}) {
    const auto again = nn::Network::FromJson(network.ToJson());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), network.ToJson());
    EXPECT_EQ(again->CountParameters(), network.CountParameters());
    const nn::Network mixed = network.WithPolicy("mixed_bfloat16");
    ASSERT_TRUE(mixed.status().ok()) << mixed.status();
    EXPECT_EQ(mixed.outputs()[0].type.dtype, DType::kBF16);
  }
}

TEST(Transformers, RejectInvalidOptions) {
  const auto message = [](const nn::Network& network) {
    return std::string(network.status().message());
  };
  EXPECT_THAT(message(VisionTransformer({.input_shape = {32, 30, 3}})),
              HasSubstr("that patches of 4x4 fill, got [32, 30, 3]"));
  EXPECT_THAT(message(VisionTransformer({.heads = 5})),
              HasSubstr("heads that divide dim; got dim 64"));
  EXPECT_THAT(message(Gpt({.dim = 0})), HasSubstr("a GPT expects dim, depth"));
  EXPECT_THAT(message(Gpt({.sequence_length = 0})), HasSubstr("above 0, got 256 and 0"));
}

TEST(ByName, BuildsEachModelAndListsNamesOnError) {
  for (const ModelInfo& model : Models()) {
    const double shift = model.options & kShift ? 0.1 : 0;
    // A multiple of the smallest size, which vision transformers need.
    const int64_t smallest = model.min_image_size, side = (31 + smallest) / smallest * smallest;
    const auto network = ByName(model.name, {.input_shape = {side, side, 3},
                                             .classes = 5,
                                             .height_shift = shift,
                                             .width_shift = shift});
    ASSERT_TRUE(network.ok()) << model.name << ": " << network.status();
    EXPECT_EQ(network->outputs()[0].type.ToString(), "f32[?,5]") << model.name;
    const auto of_default_size = ByName(model.name, {.classes = 5});
    ASSERT_TRUE(of_default_size.ok()) << of_default_size.status();
    EXPECT_EQ(of_default_size->inputs()[0].type.shape.dim(2), model.image_size) << model.name;
  }
  EXPECT_THAT(std::string(ByName("mlp", {.include_top = false}).status().message()),
              HasSubstr("the network mlp has no option include_top"));
  EXPECT_THAT(std::string(ByName("resnet21", {.input_shape = {16, 16, 3}}).status().message()),
              AllOf(HasSubstr("unknown model 'resnet21'"), HasSubstr("mlp, resnet8, resnet20")));
  // A flat input is not an image.
  EXPECT_THAT(std::string(ByName("resnet20", {.input_shape = {64}}).status().message()),
              HasSubstr("expects images"));
}

}  // namespace models_test
}  // namespace penstock::models
