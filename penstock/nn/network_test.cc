// Networks as descriptions: names, shapes, errors with the user's source line, JSON, and summaries.
#include "penstock/nn/network.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace network_test {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::vector<std::string> UseNames(const Network& network) {
  std::vector<std::string> names;
  for (const Network::Use& use : network.uses()) names.push_back(use.name);
  return names;
}

std::vector<std::string> VariableNames(const Network& network) {
  std::vector<std::string> names;
  for (const VariableSpec& v : network.variables())
    names.push_back(absl::StrCat(v.name, " ", v.type.ToString()));
  return names;
}

TEST(Network, NumbersUnnamedLayersAsKeras) {
  const Symbol x = Input({.shape = {4}});
  Symbol y = Dense({.units = 3})(x);
  y = ReLU()(y);
  y = Dense({.units = 2, .name = "middle"})(y);
  y = Dense({.units = 5})(y);
  y = Dense({.units = 6})(y);
  const Network network({x}, {y});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_THAT(UseNames(network),
              ElementsAre("input_layer", "dense", "re_lu", "middle", "dense_1", "dense_2"));
  EXPECT_EQ(network.variables()[0].name, "dense/kernel");
  EXPECT_EQ(network.variables().back().name, "dense_2/bias");
}

// Of two branches, layers farther from the output come first, as in Keras's summary.
TEST(Network, OrdersBranchesByDistanceFromOutput) {
  const Symbol x = Input({.shape = {4}});
  const Symbol near = Dense({.units = 3, .name = "near"})(x);
  const Symbol far = ReLU({.name = "middle"})(Dense({.units = 3, .name = "far"})(x));
  const Symbol other = Dense({.units = 3, .name = "other"})(x);
  const Network network({x}, {Add({.name = "sum"})({near, far, other})});
  EXPECT_THAT(UseNames(network),
              ElementsAre("input_layer", "far", "near", "middle", "other", "sum"));
  using From = Network::Use::From;
  EXPECT_THAT(network.uses().back().inputs, ElementsAre(From{2}, From{3}, From{4}));
  EXPECT_EQ(network.variables()[0].name, "far/kernel");
}

TEST(Network, AutomaticNamesSkipGivenNames) {
  const Symbol x = Input({.shape = {4}});
  const Symbol y =
      Dense({.units = 3})(Dense({.units = 3})(Dense({.units = 3, .name = "dense"})(x)));
  EXPECT_THAT(UseNames(Network({x}, {y})),
              ElementsAre("input_layer", "dense", "dense_1", "dense_2"));
}

TEST(Network, RejectsDuplicateLayerNames) {
  const Symbol x = Input({.shape = {4}});
  const Network network({x},
                        {Dense({.units = 3, .name = "a"})(Dense({.units = 3, .name = "a"})(x))});
  EXPECT_THAT(Message(network.status()), HasSubstr("two layers are named 'a'"));
}

TEST(Network, LayerCalledTwiceSharesVariables) {
  const Symbol x = Input({.shape = {4}});
  const Layer shared = Dense({.units = 4});
  const Network network({x}, {shared(shared(x))});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_THAT(VariableNames(network), ElementsAre("dense/kernel f32[4,4]", "dense/bias f32[4]"));
}

TEST(Network, RejectsSharedLayerWithAnotherWidth) {
  const Symbol x = Input({.shape = {4}});
  const Layer shared = Dense({.units = 3, .name = "twice"});
  const Network network({x}, {shared(shared(x))});
  EXPECT_THAT(Message(network.status()),
              AllOf(HasSubstr("twice/kernel"), HasSubstr("f32[4,3]"), HasSubstr("f32[3,3]")));
}

TEST(Network, ErrorsNameLayerShapesAndLine) {
  const Symbol image = Input({.shape = {8, 8, 3}});
  const Symbol flat = Flatten()(image);
  const int line = __LINE__ + 1;
  const Symbol wrong = Conv2D({.filters = 4, .kernel_size = 3, .name = "stem"})(flat);
  // Layers downstream of the first error do not hide it.
  const Network network({image}, {Dense({.units = 10})(wrong)});
  EXPECT_THAT(Message(network.status()),
              AllOf(HasSubstr("stem"), HasSubstr("expects images [batch, height, width, channels]"),
                    HasSubstr("f32[2,192]"), HasSubstr(absl::StrCat("network_test.cc:", line))));
}

TEST(Network, RejectsAddOfIncompatibleShapes) {
  const Symbol x = Input({.shape = {4}});
  const Symbol sum = Add()({Dense({.units = 3})(x), Dense({.units = 5})(x)});
  EXPECT_THAT(Message(sum.type().status()),
              AllOf(HasSubstr("add"), HasSubstr("f32[2,3]"), HasSubstr("f32[2,5]")));
}

TEST(Network, RejectsInvalidOptions) {
  const Symbol x = Input({.shape = {4}}), image = Input({.shape = {4, 4, 1}});
  const std::pair<Symbol, const char*> kWrong[] = {
      {Dense({})(x), "units must be above 0, got 0"},
      {Dense({.units = 3, .activation = "rellu"})(x), "unknown activation 'rellu'; available:"},
      {Dropout({.rate = 1.5})(x), "rate is a probability, got 1.5"},
      {Conv2D({.filters = 2, .kernel_size = 5})(image), "the window reaches over 5 pixels"},
      {Conv2D({.filters = 2, .padding = "full"})(image), "padding must be \"valid\" or \"same\""},
      {Conv2D({.filters = 2, .groups = 3})(image), "groups"},
      {DepthwiseConv2D({.kernel_size = 1, .depth_multiplier = 0})(image),
       "depth_multiplier must be above 0"},
      {SeparableConv2D({.kernel_size = 1})(image), "filters must be above 0, got 0"},
      {ZeroPadding2D({.padding = {{0, 0}, {-1, 2}}})(image), "got [[0, 0], [-1, 2]]"},
      {ReLU({.max_value = -1})(image), "max_value, negative_slope and threshold"},
      {MaxPooling2D({.pool_size = 0})(image), "must be above 0"},
      {BatchNormalization({.axis = 0})(x), "axis 0 is not a feature axis"},
      {Add()(x), "adds two or more inputs, got 1"},
      {Dense({.units = 1})({x, x}), "takes one input, got 2"},
      {Dense({.units = 1})(Symbol()), "is called on a tensor that no layer produced"},
      {RandomCrop({.height = 0, .width = 3})(image), "height and width must be above 0"},
      {Input({.shape = {4, -1}}), "known: got [4,-1]"},
  };
  for (const auto& [symbol, message] : kWrong)
    EXPECT_THAT(Message(symbol.type().status()), HasSubstr(message));
}

TEST(Network, InitializeRejectsUnknownInitializer) {
  const Symbol x = Input({.shape = {4}});
  const Network network({x}, {Dense({.units = 3, .kernel_initializer = "he"})(x)});
  ASSERT_TRUE(network.status().ok());
  EXPECT_THAT(Message(network.Initialize(1).status()),
              AllOf(HasSubstr("dense/kernel"), HasSubstr("unknown initializer 'he'"),
                    HasSubstr("he_normal")));
}

TEST(Network, ErrorNamesUnlistedInput) {
  const Symbol a = Input({.shape = {4}, .name = "left"}),
               b = Input({.shape = {4}, .name = "right"});
  const Network network({a}, {Add()({a, b})});
  EXPECT_THAT(Message(network.status()),
              HasSubstr("'right' that is not among the network's inputs"));
}

// Shapes according to the formulas in Keras's documentation.
TEST(Layers, OutputShapes) {
  const Symbol image = Input({.shape = {11, 8, 6}});
  const std::pair<Symbol, const char*> kShapes[] = {
      {Conv2D({.filters = 5, .kernel_size = 3})(image), "f32[?,9,6,5]"},
      {Conv2D({.filters = 5, .kernel_size = {3, 2}, .strides = 2})(image), "f32[?,5,4,5]"},
      {Conv2D({.filters = 5, .kernel_size = 3, .strides = 2, .padding = "same"})(image),
       "f32[?,6,4,5]"},
      {Conv2D({.filters = 5, .kernel_size = 3, .dilation_rate = 2})(image), "f32[?,7,4,5]"},
      {Conv2D({.filters = 6, .kernel_size = 1, .groups = 3})(image), "f32[?,11,8,6]"},
      {DepthwiseConv2D({.kernel_size = 3, .depth_multiplier = 2})(image), "f32[?,9,6,12]"},
      {SeparableConv2D({.filters = 5, .kernel_size = 3, .padding = "same"})(image),
       "f32[?,11,8,5]"},
      {ZeroPadding2D()(image), "f32[?,13,10,6]"},
      {ZeroPadding2D({.padding = {1, 2}})(image), "f32[?,13,12,6]"},
      {ZeroPadding2D({.padding = {{0, 1}, {2, 3}}})(image), "f32[?,12,13,6]"},
      {MaxPooling2D()(image), "f32[?,5,4,6]"},
      {AveragePooling2D({.pool_size = 3, .strides = 1, .padding = "same"})(image), "f32[?,11,8,6]"},
      {GlobalAveragePooling2D()(image), "f32[?,6]"},
      {GlobalMaxPooling2D({.keepdims = true})(image), "f32[?,1,1,6]"},
      {Flatten()(image), "f32[?,528]"},
      {Dense({.units = 7})(image), "f32[?,11,8,7]"},
      {BatchNormalization()(image), "f32[?,11,8,6]"},
      {RandomCrop({.height = 5, .width = 4})(image), "f32[?,5,4,6]"},
      {RandomTranslation({.height_factor = 0.1, .width_factor = 0.1})(image), "f32[?,11,8,6]"},
      {Rescaling({.scale = 2})(Input({.shape = {3}, .dtype = DType::kU8})), "f32[?,3]"},
  };
  for (const auto& [symbol, type] : kShapes) {
    ASSERT_TRUE(symbol.type().ok()) << type << ": " << symbol.type().status();
    EXPECT_EQ(symbol.type()->ToString(), type);
  }
}

Network Everything() {
  const Symbol image = Input({.shape = {8, 8, 2}, .dtype = DType::kU8, .name = "image"});
  Symbol x = Rescaling({.scale = 1 / 255.0})(image);
  x = RandomTranslation({.height_factor = 0.1, .width_factor = {0, 0.2}})(x);
  x = RandomCrop({.height = 6, .width = 6})(x);
  const Symbol a = Conv2D({.filters = 4,
                           .kernel_size = {3, 1},
                           .padding = "same",
                           .groups = 2,
                           .use_bias = false,
                           .kernel_initializer = "he_normal"})(x);
  Symbol b = Conv2D({.filters = 4, .kernel_size = 1, .activation = "relu"})(x);
  b = BatchNormalization({.momentum = 0.9, .scale = false})(b);
  x = Add({.name = "sum"})({a, b});
  x = ZeroPadding2D({.padding = {{0, 1}, {2, 3}}})(x);
  x = DepthwiseConv2D({.kernel_size = 3, .depth_multiplier = 2})(x);
  x = SeparableConv2D({.filters = 4, .kernel_size = 3, .dtype = "mixed_bfloat16"})(x);
  x = ReLU({.max_value = 6})(x);
  x = MaxPooling2D()(x);
  x = AveragePooling2D({.pool_size = 2, .strides = 1, .padding = "same"})(x);
  const Layer shared = Dense({.units = 4, .name = "shared"});
  x = shared(shared(x));
  x = Dropout({.rate = 0.25})(ReLU()(x));
  x = Activation({.activation = "tanh"})(x);
  const Symbol other = GlobalMaxPooling2D({.keepdims = true})(x);
  return Network({image},
                 {Softmax()(Dense({.units = 3})(GlobalAveragePooling2D()(x))), Flatten()(other)},
                 "everything");
}

TEST(Network, RoundTripsThroughJson) {
  const Network network = Everything();
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto again = Network::FromJson(Json::parse(network.ToJson().dump()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), network.ToJson());
  EXPECT_EQ(VariableNames(*again), VariableNames(network));
  EXPECT_EQ(again->Summary(), network.Summary());
  // Initial values depend only on names and the seed.
  const auto a = network.Initialize(5), b = again->Initialize(5), c = network.Initialize(6);
  for (const auto& [name, array] : *a) EXPECT_TRUE(BitwiseEqual(array, *b->Find(name))) << name;
  EXPECT_FALSE(BitwiseEqual(*a->Find("shared/kernel"), *c->Find("shared/kernel")));
}

TEST(Network, RejectsInvalidJson) {
  const Json good = Everything().ToJson();
  const auto error = [&](auto change) {
    Json json = good;
    change(json);
    return Message(Network::FromJson(json).status());
  };
  EXPECT_THAT(error([](Json& j) { j = Json::array(); }), HasSubstr("not a description"));
  EXPECT_THAT(error([](Json& j) { j.erase("layers"); }), HasSubstr("layers"));
  EXPECT_THAT(error([](Json& j) { j["outputs"] = {99}; }),
              HasSubstr("outputs take output 0 of layer 99"));
  EXPECT_THAT(error([](Json& j) { j["layers"][1]["class_name"] = "Dens"; }), HasSubstr("Dens"));
  EXPECT_THAT(error([](Json& j) { j["layers"][1]["inputs"] = {7}; }),
              HasSubstr("does not come before"));
  EXPECT_THAT(error([](Json& j) { j["layers"][1]["config"]["scales"] = 2; }),
              AllOf(HasSubstr("unknown option 'scales'"), HasSubstr("scale, offset")));
  EXPECT_THAT(error([](Json& j) { j["layers"][1]["config"]["scale"] = "two"; }),
              HasSubstr("option 'scale' is \"two\"; it takes a number"));
  EXPECT_THAT(error([](Json& j) { j["layers"][1]["config"]["scale"] = true; }),
              HasSubstr("it takes a number"));
}

TEST(Summary, CountsParametersAndOmitsConnectionsOfAChain) {
  const Symbol x = Input({.shape = {28, 28, 1}, .name = "image"});
  Symbol y = Conv2D({.filters = 32, .kernel_size = 3})(x);
  y = BatchNormalization()(y);
  y = Dense({.units = 10})(Flatten()(y));
  const Network network({x}, {y}, "small");
  const int64_t conv = 3 * 3 * 32 + 32, norm = 4 * 32, dense = 26 * 26 * 32 * 10 + 10;
  EXPECT_EQ(network.CountParameters(), conv + norm + dense);
  EXPECT_EQ(network.CountParameters(/*trainable_only=*/true), conv + norm / 2 + dense);
  EXPECT_THAT(network.Summary(), AllOf(HasSubstr("Model: \"small\""), HasSubstr("conv2d (Conv2D)"),
                                       HasSubstr("(None, 26, 26, 32)"), HasSubstr("216,330"),
                                       HasSubstr(" Total params: 216,778 (846.79 KB)"),
                                       HasSubstr(" Non-trainable params: 64 (256.00 B)")));
  EXPECT_THAT(network.Summary(), ::testing::Not(HasSubstr("Connected to")));
  EXPECT_THAT(Everything().Summary(), HasSubstr("Connected to"));
}

}  // namespace network_test
}  // namespace penstock::nn
