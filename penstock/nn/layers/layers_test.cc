// Behavior of layers that has no counterpart in Keras on one device: replicas, invalid options, and
// Adapt.
#include "penstock/nn/layers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/gradients.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace layers_test {

using ir::testing::Doubles;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// absl::StrCat writes six digits of a number, and float32 has more.
TEST(Layers, UseAllDigitsOfTheirOptions) {
  constexpr double kNumber = 1.2345678;
  const std::pair<Layer, double> rows[] = {{LeakyReLU({.negative_slope = kNumber}), -1},
                                           {ELU({.alpha = kNumber}), -100}};
  for (const auto& [layer, x] : rows) {
    SCOPED_TRACE(layer.class_name());
    const Symbol in = Input({.shape = {1}});
    const Network network({in}, {layer(in)});
    ASSERT_TRUE(network.status().ok()) << network.status();
    ir::Graph graph("digits");
    const auto result =
        network.Apply({.graph = &graph}, {}, {ir::Splat(graph, {DType::kF32, {1, 1}}, x)});
    graph.SetResults({result.outputs[0]});
    const auto got = ir::testing::Run(graph, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(Doubles((*got)[0]), ElementsAre(DoubleNear(-kNumber, 2e-7)));
  }
}

// A training step of batch normalization: y, its gradients with respect to x, gamma, and beta for
// the given cotangent, and the new averages.
void AddTraining(ir::Graph& graph, const Layer& layer, const Shape& shape, bool masked) {
  const auto dims = shape.dims();
  const Symbol in = Input({.shape = {dims.begin() + 1, dims.end()}});
  const Network network({in}, {layer(in)});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const Value x = graph.Parameter({DType::kF32, shape}, "x");
  const Value cotangent = graph.Parameter({DType::kF32, shape}, "cotangent");
  const Value mask = graph.Parameter({DType::kF32, {shape.dim(0)}}, "mask");
  Values weights;
  for (const VariableSpec& variable : network.variables()) {
    weights.push_back(graph.Parameter(variable.type, variable.name));
  }
  const auto result = network.Apply(
      {.graph = &graph, .training = true, .sample_mask = masked ? mask : Value()}, weights, {x});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  Values results = ir::Gradients(result.outputs[0], {x, weights[0], weights[1]}, cotangent);
  results.push_back(result.outputs[0]);
  results.push_back(result.assigned.at(2));
  results.push_back(result.assigned.at(3));
  graph.SetResults(results);
}

TEST(BatchNormalization, SynchronizedReplicasMatchOneReplica) {
  constexpr int kReplicas = 8;
  const Layer layer = BatchNormalization({.momentum = 0.9, .synchronized = true});
  for (const bool masked : {false, true}) {
    ir::Graph whole("whole"), parts("parts", kReplicas);
    AddTraining(whole, layer, {16, 3, 4}, masked);
    AddTraining(parts, layer, {2, 3, 4}, masked);
    const auto random = [](const Shape& shape, uint64_t seed) {
      return ir::testing::RandomArray(shape, seed, -2, 3, DType::kF32);
    };
    const Array x = random({16, 3, 4}, 1), cotangent = random({16, 3, 4}, 2);
    Array mask = Array::Zeros(DType::kF32, {16});
    for (int i = 0; i < 16; ++i) mask.mutable_data<float>()[i] = i % 5 == 2 || i > 13 ? 0 : 1;
    const std::vector<Array> weights = {random({4}, 3), random({4}, 4), random({4}, 5),
                                        ir::testing::RandomArray({4}, 6, 1, 2, DType::kF32)};
    std::vector<Array> arguments{x, cotangent, mask};
    arguments.insert(arguments.end(), weights.begin(), weights.end());
    std::vector<std::vector<Array>> of_replicas;
    for (int r = 0; r < kReplicas; ++r) {
      of_replicas.push_back({x.Slice(2 * r, 2 * r + 2), cotangent.Slice(2 * r, 2 * r + 2),
                             mask.Slice(2 * r, 2 * r + 2)});
      of_replicas[r].insert(of_replicas[r].end(), weights.begin(), weights.end());
    }
    const auto want = ir::testing::Run(whole, arguments);
    const auto got = ir::testing::RunReplicas(parts, of_replicas);
    ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
    const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
      EXPECT_THAT(a, Pointwise(DoubleNear(2e-5), b));
    };
    std::vector<double> dx, y, dgamma(4, 0), dbeta(4, 0);
    for (const std::vector<Array>& of : *got) {
      for (double v : Doubles(of[0])) dx.push_back(v);
      for (double v : Doubles(of[3])) y.push_back(v);
      for (int i = 0; i < 4; ++i) {
        dgamma[i] += Doubles(of[1])[i];
        dbeta[i] += Doubles(of[2])[i];
      }
      near(Doubles(of[4]), Doubles((*want)[4]));
      near(Doubles(of[5]), Doubles((*want)[5]));
    }
    near(dx, Doubles((*want)[0]));
    near(y, Doubles((*want)[3]));
    near(dgamma, Doubles((*want)[1]));
    near(dbeta, Doubles((*want)[2]));
  }
}

TEST(Layers, RejectInvalidOptions) {
  const Symbol x = Input({.shape = {4}}), steps = Input({.shape = {6, 2}}),
               image = Input({.shape = {8, 8, 4}}), volume = Input({.shape = {4, 4, 4, 1}});
  const std::pair<Symbol, const char*> kWrong[] = {
      {Conv1D({.filters = 2, .kernel_size = 7})(steps), "the window reaches over 7 steps"},
      {Conv1D({.filters = 2})(image), "expects sequences [batch, steps, channels]"},
      {Conv2D({.filters = 2, .padding = "causal"})(image), "padding must be \"valid\" or \"same\""},
      {Conv3D({.filters = 2})(image), "expects volumes [batch, depth, height, width, channels]"},
      {Conv2DTranspose({.filters = 2, .kernel_size = 3, .output_padding = 1})(image),
       "output_padding must be at least 0 and below the stride 1, got 1"},
      {Conv2DTranspose({.filters = 2, .padding = "causal"})(image), "padding must be \"valid\""},
      {AdaptiveMaxPooling2D({.output_size = 0})(image), "output_size must be from 1"},
      {MaxPooling3D({.pool_size = {5, 1, 1}})(volume), "the window reaches over 5 voxels"},
      {LayerNormalization({.axis = 0})(x), "axis 0 is not a feature axis"},
      {LayerNormalization({.axis = {1, -1}})(x), "axis 1, -1 is not a feature axis"},
      {GroupNormalization({.groups = 3})(image), "groups (3) must divide the 4 channels"},
      {Subtract()({x, x, x}), "subtracts two inputs, got 3"},
      {Concatenate()({x, image}), "concatenate"},
      {Dot({.axes = 1})({x, steps}), "dot_general"},
      {Dot({})({x, x}), "axes is one number or two"},
      {Dot({.axes = 0})({x, x}), "axis 0 is not one of"},
      {Reshape({.target_shape = {3, -1}})(x), "do not make target_shape [3, -1]"},
      {Reshape({.target_shape = {-1, -1}})(x), "do not make target_shape"},
      {Permute({.dims = {0, 1}})(steps), "counted from 1; got [0, 1]"},
      {Permute({.dims = {1}})(steps), "dims has 1 axes"},
      {Flip({.axis = 0})(steps), "reverses an axis from 1 to 2"},
      {Flip({.axis = 3})(steps), "got 3"},
      {RepeatVector({.n = 0})(x), "n must be above 0"},
      {RepeatVector({.n = 2})(steps), "expects [batch, features]"},
      {Cropping2D({.cropping = 4})(image), "leaves nothing of"},
      {ZeroPadding1D({.padding = {0, -1}})(steps), "padding must not be below 0, got [[0, -1]]"},
      {UpSampling2D({.size = {0, 2}})(image), "size must be above 0"},
      {UpSampling2D({.interpolation = "cubic"})(image), "unknown interpolation \"cubic\""},
      {Resizing({.height = 0, .width = 3})(image), "height and width must be above 0"},
      {Resizing({.height = 3, .width = 3, .fill_mode = "wrap"})(image),
       "fill_mode must be constant"},
      {Resizing(
           {.height = 3, .width = 3, .crop_to_aspect_ratio = true, .pad_to_aspect_ratio = true})(
           image),
       "are mutually exclusive"},
      {SpatialDropout2D({.rate = -0.5})(image), "rate is a probability, got -0.5"},
      {Dropout({.rate = 0.5, .noise_shape = {2, 3, 4}})(x), "noise_shape [2, 3, 4]"},
      {Add()(x), "adds two or more inputs, got 1"},
      {Subtract({.constant = 1})({x, x}), "subtracts two inputs, got 2 and a constant"},
      {LayerScale({.projection_dim = 3})(x), "projection_dim is 3, the input is f32["},
      {Rescaling({.scale = {1, 2}})(image), "one for each channel; got 2 for"},
      {StochasticDepth({.drop_path_rate = 2})(x), "drop_path_rate is a probability, got 2"},
      {GaussianNoise({.stddev = -1})(x), "stddev must not be below 0"},
      {LeakyReLU({.negative_slope = -1})(x), "negative_slope must not be below 0"},
      {PReLU({.shared_axes = {3}})(x), "shared_axes has 3, which is not an axis"},
      {Activation({.activation = "glu"})(Input({.shape = {3}})), "glu expects an axis of even"},
      {Activation({.activation = "threshold"})(x), "threshold needs its threshold"},
      {Activation({.activation = "gelu(maybe)"})(x), "it takes true or false"},
      {Activation({.activation = "elu(1, 2)"})(x), "elu takes alpha"},
      {RandomFlip({.mode = "sideways"})(image), "mode must be horizontal, vertical"},
      {RandomZoom({.height_factor = 2})(image), "height_factor is a range within [-1, 1]"},
      {RandomRotation({.factor = 0.1, .fill_mode = "mirror"})(image), "fill_mode must be reflect"},
      {RandomContrast({.factor = 2})(image), "factor is one or two numbers within [0, 1]"},
      {RandomErasing({.fill_value = {1, 2}})(image), "fill_value has 2 numbers for images of"},
      {RandomErasing({.scale = {0.5, 2}})(image), "scale is a range within [0, 1], got [0.5, 2]"},
      {RandomSaturation({.factor = 0.5})(Input({.shape = {4, 4, 1}})),
       "three channels, RGB, got 1"},
      {RandomHue({.factor = 2})(Input({.shape = {4, 4, 3}})), "factor is a range within [0, 1]"},
      {RandomColorJitter({.contrast_factor = 3})(image), "factor is one or two numbers"},
      {RandomGaussianBlur({.kernel_size = {3, 4}})(image), "kernel_size is an odd number"},
      {RandomPosterization({.factor = 9})(image), "a number of bits from 1 to 8"},
      {RandomInvert({.value_range = {1, 1}})(image), "value_range must have two different ends"},
      {Normalization({.mean = {1, 2, 3}, .variance = {1, 1, 1}})(x), "3 numbers, the axis 4"},
      {Normalization({.mean = {1}})(x), "mean has 1 numbers, variance 0"},
      {CategoryEncoding({})(x), "num_tokens must be above 0"},
      {CategoryEncoding({.num_tokens = 3, .output_mode = "binary"})(x),
       "output_mode must be one_hot"},
      {Discretization({.num_bins = 4})(x), "has no bin_boundaries"},
      {Discretization({.bin_boundaries = {2, 1}})(x), "bin_boundaries must ascend"},
  };
  for (const auto& [symbol, message] : kWrong)
    EXPECT_THAT(Message(symbol.type().status()), HasSubstr(message));
}

// Every layer class round-trips through JSON with its default options.
TEST(Layers, DefaultOptionsRoundTripThroughJson) {
  for (const std::string& class_name : LayerClassNames()) {
    const auto layer = LayerFromConfig(class_name, "", nlohmann::ordered_json::object());
    ASSERT_TRUE(layer.ok()) << layer.status();
    const auto config = LayerConfig(*layer);
    const auto again = LayerFromConfig(class_name, "", config);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(LayerConfig(*again), config) << class_name;
  }
}

// For a range [low, high] Keras draws the contrast from [1 - low, 1 + high].
TEST(Layers, WriteFactorsAsKerasReadsThem) {
  EXPECT_EQ(LayerConfig(RandomContrast({.factor = 0.25}))["factor"].dump(), "[0.25,0.25]");
  EXPECT_EQ(LayerConfig(RandomColorJitter({.contrast_factor = 0.5}))["contrast_factor"].dump(),
            "[0.5,0.5]");
  EXPECT_EQ(LayerConfig(RandomErasing({.factor = 0.5}))["factor"].dump(), "[0.0,0.5]");
  EXPECT_EQ(LayerConfig(RandomErasing())["fill_value"].dump(), "null");
  EXPECT_EQ(LayerConfig(RandomPosterization({.factor = 4}))["factor"].dump(), "[1,4]");
}

TEST(Layers, ReadKerasJson) {
  const auto config = [](const char* class_name, const char* json) {
    const auto layer = LayerFromConfig(class_name, "", nlohmann::ordered_json::parse(json));
    EXPECT_TRUE(layer.ok()) << layer.status();
    return layer.ok() ? LayerConfig(*layer).dump() : "";
  };
  EXPECT_THAT(config("Conv1D", R"({"filters": 2, "kernel_size": [3], "strides": 2})"),
              HasSubstr(R"("kernel_size":[3],"strides":[2])"));
  EXPECT_THAT(config("ZeroPadding1D", R"({"padding": [1, 2]})"), HasSubstr(R"("padding":[1,2])"));
  EXPECT_THAT(config("Cropping3D", R"({"cropping": [[1, 2], [3, 4], [5, 6]]})"),
              HasSubstr("[[1,2],[3,4],[5,6]]"));
  EXPECT_THAT(config("ZeroPadding3D", R"({"padding": [1, 2, 3]})"),
              HasSubstr("[[1,1],[2,2],[3,3]]"));
  EXPECT_THAT(config("Dropout", R"({"rate": 0.5, "noise_shape": [null, 1], "seed": null})"),
              HasSubstr(R"("noise_shape":[null,1])"));
  EXPECT_THAT(config("LayerNormalization", R"({"axis": [1, 2]})"), HasSubstr(R"("axis":[1,2])"));
  EXPECT_THAT(config("Conv2DTranspose", R"({"filters": 1, "output_padding": null})"),
              HasSubstr(R"("output_padding":null)"));
  EXPECT_EQ(config("Rescaling", R"({"scale": [1, 2.5, 3]})"),
            R"({"scale":[1.0,2.5,3.0],"offset":0.0})");
  EXPECT_EQ(config("Add", "{}"), "{}");
  EXPECT_EQ(config("Add", R"({"constant": 3})"), R"({"constant":3.0})");
  EXPECT_THAT(config("Normalization", R"({"axis": [], "mean": [[1, 2], [3, 4]]})"),
              HasSubstr(R"("mean":[1.0,2.0,3.0,4.0])"));
  const char* const kDense =
      R"({"units": 1, "kernel_regularizer": {"class_name": "L2", "config": {"l2": 0.5}}})";
  EXPECT_THAT(config("Dense", kDense), HasSubstr("\"l2(l2=0.5)\""));
  EXPECT_THAT(Message(LayerFromConfig("Conv3D", "", {{"kernel_size", {1, 2}}}).status()),
              HasSubstr("it takes an integer or three"));
}

TEST(Adapt, NormalizationComputesMomentsOverAllBatches) {
  const Array a = ir::testing::RandomArray({5, 2, 3}, 1, -1, 4, DType::kF32),
              b = ir::testing::RandomArray({2, 2, 3}, 2, 3, 9, DType::kF32);
  const Layer layer = Normalization(), all = Normalization({.axis = {}}),
              two = Normalization({.axis = {1, 2}});
  for (const Layer& l : {layer, all, two}) ASSERT_TRUE(Adapt(l, {a, b}).ok());
  const auto config = LayerConfig(layer);
  std::vector<double> x = Doubles(a), more = Doubles(b);
  x.insert(x.end(), more.begin(), more.end());
  // Checks the mean and variance over every `step`th value, for each offset.
  const auto check = [&](const Layer& of, size_t step) {
    const auto json = LayerConfig(of);
    ASSERT_EQ(json["mean"].size(), step);
    for (size_t first = 0; first < step; ++first) {
      double mean = 0, variance = 0;
      const size_t rows = x.size() / step;
      const auto n = static_cast<double>(rows);
      for (size_t i = first; i < x.size(); i += step) mean += x[i] / n;
      for (size_t i = first; i < x.size(); i += step) {
        variance += (x[i] - mean) * (x[i] - mean) / n;
      }
      EXPECT_NEAR(json["mean"][first].get<double>(), mean, 1e-9);
      EXPECT_NEAR(json["variance"][first].get<double>(), variance, 1e-9);
    }
  };
  check(layer, 3);
  check(all, 1);
  check(two, 6);
}

// Expected values computed by keras.layers.Discretization(num_bins, epsilon).adapt on the same
// data.
TEST(Adapt, DiscretizationMatchesKeras) {
  Array x = Array::Zeros(DType::kF32, {1000});
  for (int i = 0; i < 1000; ++i) {
    x.mutable_data<float>()[i] = static_cast<float>((i * 37 % 1000) * (i * 37 % 1000)) / 1000.0f;
  }
  const Layer layer = Discretization({.num_bins = 4});
  ASSERT_TRUE(Adapt(layer, {x.Slice(0, 300), x.Slice(300, 1000)}).ok());
  const std::vector<double> got = LayerConfig(layer)["bin_boundaries"];
  const std::vector<double> want = {64.51597595214844, 251.00694274902344, 562.5117797851562};
  EXPECT_THAT(got, Pointwise(DoubleNear(1e-3), want));
}

TEST(Adapt, RejectsUnsupportedLayersAndData) {
  const Array x = Array::Zeros(DType::kF32, {4, 3}), y = Array::Zeros(DType::kF32, {4, 2});
  EXPECT_THAT(Message(Adapt(Dense({.units = 2}), {x})), HasSubstr("Dense does not support Adapt"));
  EXPECT_THAT(Message(Adapt(Normalization(), {})), HasSubstr("has no data"));
  EXPECT_THAT(Message(Adapt(Normalization(), {x, y})), HasSubstr("batches of one shape"));
  EXPECT_THAT(Message(Adapt(Normalization({.axis = 2}), {x})), HasSubstr("axis 2 is not an axis"));
  EXPECT_THAT(Message(Adapt(Discretization({.bin_boundaries = {1}}), {x})),
              HasSubstr("when num_bins is given"));
}

// Marks steps whose first feature is positive as real.
Layer MaskByFirstFeature() {
  return Lambda([](CallContext& ctx, const Values& x) -> Outputs {
    const Value first = ir::Squeeze(ir::SliceAxis(x[0], 2, 0, 1), {2});
    ctx.SetOutputMask(ir::Greater(first, ir::SplatLike(first, 0)));
    return x[0];
  });
}

TEST(Masks, ExcludeMaskedStepsFromAveragesAndMerges) {
  const Symbol a = Input({.shape = {3, 2}}), b = Input({.shape = {3, 2}});
  const Symbol am = MaskByFirstFeature()(a), bm = MaskByFirstFeature()(b);
  const Network network({a, b}, {GlobalAveragePooling1D()(am), Add()({am, bm}), Add()({am, b}),
                                 Concatenate({.axis = 1})({am, b}), Concatenate()({am, bm})});
  ASSERT_TRUE(network.status().ok()) << network.status();
  ir::Graph graph("masks");
  const Value x = graph.Parameter({DType::kF32, {1, 3, 2}}, "x"),
              y = graph.Parameter({DType::kF32, {1, 3, 2}}, "y");
  const auto result = network.Apply({.graph = &graph}, {}, {x, y});
  EXPECT_FALSE(result.output_masks[0].valid());
  EXPECT_FALSE(result.output_masks[2].valid());  // b has no mask
  const auto number = [](Value mask) { return ir::Convert(mask, DType::kF32); };
  graph.SetResults({result.outputs[0], number(result.output_masks[1]),
                    number(result.output_masks[3]), number(result.output_masks[4])});
  const auto got = ir::testing::Run(graph, {Array::Of<float>({1, 3, 2}, {1, 10, -1, 20, 2, 40}),
                                            Array::Of<float>({1, 3, 2}, {-1, 0, -1, 0, 1, 0})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(Doubles((*got)[0]), ElementsAre(1.5, 25));
  EXPECT_THAT(Doubles((*got)[1]), ElementsAre(1, 0, 1));
  EXPECT_THAT(Doubles((*got)[2]), ElementsAre(1, 0, 1, 1, 1, 1));
  EXPECT_THAT(Doubles((*got)[3]), ElementsAre(1, 0, 1));
}

TEST(CategoryEncoding, WeightsCounts) {
  const Symbol numbers = Input({.shape = {3}, .dtype = DType::kI32}),
               weights = Input({.shape = {3}});
  const Network network(
      {numbers, weights},
      {CategoryEncoding({.num_tokens = 4, .output_mode = "count"})({numbers, weights})});
  ASSERT_TRUE(network.status().ok()) << network.status();
  ir::Graph graph("count");
  const Value n = graph.Parameter({DType::kI32, {1, 3}}, "n"),
              w = graph.Parameter({DType::kF32, {1, 3}}, "w");
  graph.SetResults(network.Apply({.graph = &graph}, {}, {n, w}).outputs);
  const auto got = ir::testing::Run(
      graph, {Array::Of<int32_t>({1, 3}, {3, 0, 3}), Array::Of<float>({1, 3}, {0.5, 2, 0.25})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(Doubles((*got)[0]), ElementsAre(2, 0, 0, 0.75));
}

}  // namespace layers_test
}  // namespace penstock::nn
