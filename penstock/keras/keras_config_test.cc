#include "penstock/keras/keras_config.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/keras_compile.h"
#include "penstock/keras/keras_file.h"
#include "penstock/keras/keras_variables.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace keras_config_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// A network with a shared layer, a nested network called twice, layers of layers, a constant and an
// operation.
nn::Network Everything() {
  const Symbol x = Input({.shape = {6, 4}, .name = "x"});
  const Layer dense = Dense({.units = 4, .kernel_regularizer = "l2(0.02)", .name = "shared"});
  const Symbol inside = Input({.shape = {6, 4}, .name = "inside"});
  const Layer inner = nn::Nested(nn::Network(
      {inside}, {BatchNormalization()(Dense({.units = 4, .activation = "elu(0.5)"})(inside))},
      "inner"));
  Symbol y = Add()({inner(dense(x)), inner(inner(dense(x)))});
  y = MultiHeadAttention({.num_heads = 2, .key_dim = 2, .use_causal_mask = true})({y, x});
  y = Bidirectional(LSTM({.units = 3, .return_sequences = true}))(y);
  y = TimeDistributed(Dense({.units = 2, .name = "each"}))(y);
  y = nn::Flip({.axis = 1})(y);
  return nn::Network({x}, {Multiply({.constant = 2})(y)}, "everything");
}

// As Keras 2 describes a model: calls as nested lists, a nested model whose calls count from 1.
constexpr char kKeras2[] = R"({"class_name": "Functional", "config": {"name": "old", "layers": [
  {"class_name": "InputLayer", "name": "image", "inbound_nodes": [], "config":
    {"batch_input_shape": [null, 8, 8, 3], "dtype": "float32", "sparse": false, "ragged": false,
     "name": "image"}},
  {"class_name": "Conv2D", "name": "conv", "inbound_nodes": [[["image", 0, 0, {}]]], "config":
    {"name": "conv", "trainable": true, "dtype": "float32", "filters": 4, "kernel_size": [3, 3],
     "strides": [1, 1], "padding": "same", "data_format": "channels_last", "dilation_rate": [1, 1],
     "groups": 1, "activation": "relu", "use_bias": false,
     "kernel_initializer": {"class_name": "GlorotUniform", "config": {"seed": null}},
     "kernel_regularizer": {"class_name": "L2", "config": {"l2": 0.1}}}},
  {"class_name": "BatchNormalization", "name": "norm", "inbound_nodes": [[["conv", 0, 0, {}]]],
   "config": {"name": "norm", "trainable": false, "dtype": "float32", "axis": [3], "momentum": 0.9}},
  {"class_name": "Functional", "name": "inner", "inbound_nodes": [[["norm", 0, 0, {}]]], "config":
    {"name": "inner", "layers": [
      {"class_name": "InputLayer", "name": "in", "inbound_nodes": [], "config":
        {"batch_input_shape": [null, 8, 8, 4], "dtype": "float32", "name": "in"}},
      {"class_name": "LeakyReLU", "name": "leaky", "inbound_nodes": [[["in", 0, 0, {}]]], "config":
        {"name": "leaky", "trainable": true, "dtype": "float32", "alpha": 0.25}}],
     "input_layers": [["in", 0, 0]], "output_layers": [["leaky", 0, 0]]}},
  {"class_name": "Add", "name": "add", "config": {"name": "add", "dtype": "float32"},
   "inbound_nodes": [[["norm", 0, 0, {}], ["inner", 1, 0, {}]]]}],
  "input_layers": [["image", 0, 0]], "output_layers": [["add", 0, 0]]}})";

std::string ErrorOf(const Json& json) {
  const absl::Status status = NetworkFromKeras(json, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

Json& LayerOf(Json& model, const std::string& name) {
  for (Json& layer : model["config"]["layers"]) {
    if (layer["name"] == name) return layer;
  }
  ADD_FAILURE() << name;
  return model;
}

TEST(KerasConfig, IsReadAsItWasWritten) {
  const nn::Network network = Everything();
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto keras = NetworkToKeras(network);
  ASSERT_TRUE(keras.ok()) << keras.status();
  const auto again = NetworkFromKeras(*keras, {});
  ASSERT_TRUE(again.ok()) << again.status() << keras->dump(1);
  EXPECT_EQ(again->Summary({.expand_nested = true}), network.Summary({.expand_nested = true}));
  EXPECT_EQ(NetworkToKeras(*again)->dump(1), keras->dump(1));
}

TEST(KerasConfig, KeepsPoliciesAndFrozenLayers) {
  nn::Network network = Everything().WithPolicy("mixed_bfloat16");
  ASSERT_TRUE(network.SetTrainable(false, {"inner", "shared"}).ok());
  ASSERT_TRUE(network.SetTrainable(true, {"inner/dense"}).ok());
  network = network.Refreshed();
  const auto again = NetworkFromKeras(*NetworkToKeras(network), {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->policy().name, "mixed_bfloat16");
  ASSERT_EQ(again->variables().size(), network.variables().size());
  for (size_t i = 0; i < network.variables().size(); ++i) {
    EXPECT_EQ(again->variables()[i].trainable, network.variables()[i].trainable)
        << network.variables()[i].name;
  }
}

TEST(KerasConfig, ChecksOperationsOfOneInput) {
  const nn::Symbol x = Input({.shape = {6, 4}, .name = "x"});
  const auto keras = NetworkToKeras(nn::Network({x}, {nn::Flip({.name = "flip"})(x)}));
  ASSERT_TRUE(keras.ok()) << keras.status();
  Json wrong = *keras;
  LayerOf(wrong, "flip")["config"]["axis"] = nullptr;  // all axes
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("layer 'flip': Penstock has no operation Flip without a "
                                        "number as 'axis'"));
  wrong = *keras;
  LayerOf(wrong, "flip")["config"].erase("axis");
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("'axis'"));
  const auto sequential = NetworkToKeras(
      Sequential({Input({.shape = {4}}), nn::Flip({.name = "flip"}), Dense({.units = 2})})
          .network());
  EXPECT_THAT(std::string(sequential.status().message()), HasSubstr("functional model"));
}

TEST(KerasConfig, ReadsKeras2) {
  const auto network = NetworkFromKeras(Json::parse(kKeras2), {});
  ASSERT_TRUE(network.ok()) << network.status();
  std::vector<std::string> variables;
  for (const nn::VariableSpec& v : network->variables()) {
    variables.push_back(
        absl::StrCat(v.name, v.type.shape.ToString(), v.trainable ? "" : " frozen"));
  }
  EXPECT_THAT(variables,
              ElementsAre("conv/kernel[3,3,3,4]", "norm/gamma[4] frozen", "norm/beta[4] frozen",
                          "norm/moving_mean[4] frozen", "norm/moving_variance[4] frozen"));
  EXPECT_EQ(network->variables()[0].regularizer, "l2(l2=0.1)");
  const Json json = network->ToJson();
  EXPECT_EQ(json["layers"][3]["config"]["network"]["layers"][1]["config"]["negative_slope"], 0.25);
}

TEST(KerasConfig, NamesEveryUnknownLayer) {
  Json json = Json::parse(kKeras2);
  LayerOf(json, "conv")["class_name"] = "Fourier";
  LayerOf(json, "inner")["config"]["layers"][1]["class_name"] = "Wavelet";
  const std::string error = ErrorOf(json);
  EXPECT_THAT(error, HasSubstr("Fourier (layer 'conv'), Wavelet (layer 'leaky')"));
  EXPECT_THAT(error, HasSubstr("custom_layers"));
}

TEST(KerasConfig, NamesOptionsThatPenstockLacks) {
  Json json = Json::parse(kKeras2);
  LayerOf(json, "conv")["config"]["data_format"] = "channels_first";
  EXPECT_THAT(ErrorOf(json), HasSubstr("layer 'conv': Conv2D's option 'data_format' is "
                                       "\"channels_first\""));
  json = Json::parse(kKeras2);
  LayerOf(json, "norm")["config"]["renorm"] = true;
  EXPECT_THAT(ErrorOf(json), HasSubstr("option 'renorm' is true"));
  json = Json::parse(kKeras2);
  LayerOf(json, "conv")["config"]["wavelength"] = 3;
  EXPECT_THAT(ErrorOf(json), HasSubstr("option 'wavelength' is 3"));
  json = Json::parse(kKeras2);
  LayerOf(json, "image")["config"]["batch_input_shape"][1] = nullptr;
  EXPECT_THAT(ErrorOf(json), HasSubstr("[null,null,8,3]"));
  json = Json::parse(kKeras2);
  LayerOf(json, "conv")["inbound_nodes"][0][0][3]["mask"] = {"image", 0, 0};
  EXPECT_THAT(ErrorOf(json), HasSubstr("layer 'conv': its call has the argument 'mask'"));
}

TEST(KerasConfig, RejectsCyclesAndMissingTensors) {
  Json json = Json::parse(kKeras2);
  LayerOf(json, "conv")["inbound_nodes"] = {{{"norm", 0, 0, Json::object()}}};
  EXPECT_THAT(ErrorOf(json), HasSubstr("its inputs depend on its own output"));
  for (const Json& tensor : {Json{"nowhere", 0, 0}, Json{"image", 1, 0}, Json{"image", -1, 0},
                             Json{"image", 0, 1}, Json{"image", 0, -1}, Json{"image", 0, 0.5}}) {
    LayerOf(json, "conv")["inbound_nodes"] = {{tensor}};
    EXPECT_NE(ErrorOf(json), "") << tensor;
  }
  json = Json::parse(kKeras2);
  json["config"]["layers"].push_back(LayerOf(json, "conv"));
  EXPECT_THAT(ErrorOf(json), HasSubstr("two layers of that name"));
}

TEST(KerasConfig, RejectsDeepNesting) {
  Json layer = {{"class_name", "Dense"}, {"config", {{"units", 1}, {"name", "d"}}}};
  for (int i = 0; i < 150; ++i) {
    Json outer = {{"class_name", "TimeDistributed"}, {"config", {{"name", "t"}}}};
    outer["config"]["layer"] = std::move(layer);
    layer = std::move(outer);
  }
  EXPECT_THAT(ErrorOf({{"class_name", "Sequential"}, {"config", {{"layers", {layer}}}}}),
              HasSubstr("levels deep"));
}

// Long chains in reverse order are put in order without recursion, in linear time.
TEST(KerasConfig, ReadsLayersInAnyOrder) {
  Json json = Json::parse(kKeras2);
  Json& layers = json["config"]["layers"];
  std::reverse(layers.begin(), layers.end());
  EXPECT_TRUE(NetworkFromKeras(json, {}).ok());
}

TEST(KerasConfig, NamesLayersThatKerasLacks) {
  const Symbol x = Input({.shape = {6, 4}});
  const auto twice = nn::Lambda([](nn::CallContext&, const nn::Values& in) { return in[0] * 2.0; },
                                {.name = "twice"});
  const nn::Network network(
      {x}, {twice(PositionEmbedding({.sequence_length = 6, .name = "positions"})(x))});
  const absl::Status status = NetworkToKeras(network).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("PositionEmbedding (layer 'positions'), Lambda (layer 'twice')"));
}

// Keras would load a file that computes something else.
TEST(KerasConfig, RejectsLayersAtSeveralPlaces) {
  const Symbol x = Input({.shape = {4}}), inside = Input({.shape = {4}});
  const Layer dense = Dense({.units = 4, .name = "both"});
  const Layer inner = nn::Nested(nn::Network({inside}, {dense(inside)}, "inner"));
  const absl::Status status = NetworkToKeras(nn::Network({x}, {inner(dense(x))})).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 'both' is at several places"));
}

// How Keras describes these arguments of compile.
absl::StatusOr<Json> Compiled(CompileOptions options) {
  options.client = runtime::TestClient(1);
  Model model = Sequential({Input({.shape = {3}}), Dense({.units = 2})});
  PENSTOCK_RETURN_IF_ERROR(model.Compile(options));
  return CompileToKeras((*model.trainer())->objective());
}

TEST(KerasConfig, ReadsMetricsThatKeras2Wraps) {
  const Model model = Sequential({Input({.shape = {3}}), Dense({.units = 2, .name = "d"})});
  CompileOptions options;
  const absl::Status read = CompileFromKeras(Json::parse(R"({
      "loss": "sparse_categorical_crossentropy", "weighted_metrics": null, "loss_weights": null,
      "metrics": [[{"class_name": "MeanMetricWrapper", "config":
          {"name": "accuracy", "dtype": "float32", "fn": "sparse_categorical_accuracy"}}]],
      "optimizer_config": {"class_name": "SGD", "config": {"learning_rate": 0.01}}})"),
                                             model.network(), {}, options);
  ASSERT_TRUE(read.ok()) << read;
  ASSERT_EQ(options.output_metrics.size(), 1u);
  const auto& metrics = options.output_metrics.begin()->second;
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0].Get()->ToJson()["name"], "sparse_categorical_accuracy");
  EXPECT_EQ(metrics[0].Get()->name(), "accuracy");
}

TEST(KerasConfig, DescribesLossesAndMetricsAsKerasDoes) {
  const auto json = Compiled({.loss = "crossentropy", .metrics = {"bce", nn::AUC()}});
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["loss"], "crossentropy");  // Keras has no class of that name
  const Json& metrics = (*json)["metrics"];
  EXPECT_EQ(metrics[0]["class_name"], "BinaryCrossentropy");
  EXPECT_FALSE(metrics[0]["config"].contains("axis"));
  EXPECT_TRUE(metrics[1]["config"]["thresholds"].is_null());
}

TEST(KerasConfig, NamesArgumentsOfCompileThatKerasLacks) {
  const auto error_of = [](const CompileOptions& options) {
    return std::string(Compiled(options).status().message());
  };
  const nn::Loss smooth = nn::SparseCategoricalCrossentropy({.label_smoothing = 0.1});
  EXPECT_THAT(error_of({.loss = smooth}), HasSubstr("label_smoothing"));
  EXPECT_THAT(error_of({.loss = "mse", .metrics = {nn::MeanOfLoss(smooth)}}),
              HasSubstr("label_smoothing"));
  EXPECT_THAT(
      error_of({.loss = "mse", .metrics = {nn::MeanOfLoss(nn::BinaryCrossentropy({.axis = 1}))}}),
      HasSubstr("'axis'"));
  EXPECT_THAT(error_of({.loss = "mse", .metrics = {nn::Accuracy().Named("top1")}}),
              HasSubstr("'top1'"));
  EXPECT_THAT(error_of({.loss = "mse", .metrics = {nn::MeanOfLoss(nn::Huber({.delta = 2}))}}),
              HasSubstr("metric 'huber'"));
  EXPECT_THAT(error_of({.loss = "mse", .metrics = {nn::MeanOfLoss(nn::Huber()).Named("acc")}}),
              HasSubstr("'acc'"));
  EXPECT_EQ(error_of({.loss = "mse", .metrics = {"acc"}}), "");
  EXPECT_THAT(error_of({.loss = "mse", .metrics = {nn::MeanOfLoss(nn::CosineSimilarity())}}),
              HasSubstr("MeanOfLoss(CosineSimilarity)"));
  EXPECT_THAT(error_of({.optimizer = "lars", .loss = "mse"}), HasSubstr("optimizer 'LARS'"));
  EXPECT_THAT(
      error_of({.optimizer = SGD({.learning_rate_multipliers = {{"dense", 0.1}}}), .loss = "mse"}),
      HasSubstr("learning_rate_multipliers"));
  EXPECT_EQ(error_of({.optimizer = "sgd", .loss = "mse", .metrics = {"mae"}}), "");
}

// Files of fewer layers and of other shapes are errors that say so; by name, what fits is loaded.
TEST(KerasVariables, ReportsLegacyFilesThatDoNotFit) {
  const Symbol x = Input({.shape = {3}, .name = "x"});
  const nn::Network net({x},
                        {Dense({.units = 2, .name = "b"})(Dense({.units = 4, .name = "a"})(x))});
  const auto zeros = [](base::Shape shape) { return base::Array::Zeros(base::DType::kF32, shape); };
  save::Weights file{.arrays = {{"first/kernel", zeros({3, 4})}, {"first/bias", zeros({4})}},
                     .metadata = {{"layer_names", R"(["input", "first"])"}}};
  const auto match = [&] { return UseKerasNames(net, file, KerasMatch::kPlace); };
  EXPECT_THAT(std::string(match().status().message()), HasSubstr("1 layers with weights"));
  file.arrays.Append("second/kernel", zeros({4, 2}));
  file.metadata["layer_names"] = R"(["input", "first", "second"])";
  EXPECT_THAT(std::string(match().status().message()), HasSubstr("'second' in the file, with 1"));
  file.arrays.Append("second/bias", zeros({2}));
  ASSERT_TRUE(match().ok());
  EXPECT_EQ(match()->ToString(),
            "{a/kernel: float32[3,4], a/bias: float32[4], b/kernel: float32[4,2], b/bias: "
            "float32[2]}");
}

// Damages a description somewhere, in one of several ways.
void Damage(Json& json, base::Random& random) {
  Json* at = &json;
  while (at->is_structured() && !at->empty() && random.Below(8) != 0) {
    at = &*std::next(at->begin(), static_cast<int64_t>(random.Below(at->size())));
  }
  const std::vector<Json> values = {nullptr,
                                    -1,
                                    0,
                                    1e300,
                                    "",
                                    "x",
                                    true,
                                    Json::array(),
                                    Json::object(),
                                    int64_t{1} << 62,
                                    Json::array({"conv", 0, 0})};
  if (random.Below(4) == 0 && at->is_structured() && !at->empty()) {
    at->erase(std::next(at->begin(), static_cast<int64_t>(random.Below(at->size()))));
  } else if (random.Below(4) == 0 && at->is_array() && !at->empty()) {
    at->push_back((*at)[random.Below(at->size())]);
  } else {
    *at = values[random.Below(values.size())];
  }
}

TEST(KerasConfig, DamagedDescriptionsAreErrorsOrNetworks) {
  const std::vector<Json> good = {Json::parse(kKeras2), *NetworkToKeras(Everything())};
  base::Random random(11);
  int read = 0;
  for (int i = 0; i < 600; ++i) {
    Json json = good[random.Below(good.size())];
    for (uint64_t n = 1 + random.Below(3); n > 0; --n) Damage(json, random);
    const auto network = NetworkFromKeras(json, {});
    if (network.ok()) {
      ++read;
    } else {
      ASSERT_EQ(network.status().code(), absl::StatusCode::kInvalidArgument)
          << network.status() << json.dump().substr(0, 3000);
    }
    (void)CompileFromKeras(json, Everything(), {}, *std::make_unique<CompileOptions>());
  }
  EXPECT_GT(read, 10);
  EXPECT_LT(read, 550);
}

}  // namespace keras_config_test
}  // namespace penstock::keras
