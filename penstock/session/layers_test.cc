#include "penstock/session/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/gradients.h"
#include "penstock/session/losses.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"

namespace penstock::session::layers {
namespace layers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOf(const Variables& variables) {
  std::vector<std::string> names;
  for (const Variable& variable : variables) names.push_back(variable.def()->name);
  return names;
}

class LayersTest : public testing::Test {
 protected:
  Session Open() {
    EXPECT_EQ(graph_.status(), absl::OkStatus());
    Session session("", {.client = runtime::TestClient(1)});
    EXPECT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
    return session;
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

TEST_F(LayersTest, WithoutASeedEachRunOfTheInitializersDrawsOtherValues) {
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  Dense(x, 3, {.name = "dense"});
  Session session = Open(), other = Open();
  const Array first = *session.GetVariableValue("dense/kernel");
  EXPECT_FALSE(BitwiseEqual(first, *other.GetVariableValue("dense/kernel")));
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_FALSE(BitwiseEqual(first, *session.GetVariableValue("dense/kernel")));
}

TEST_F(LayersTest, DenseComputesWithItsVariables) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  const Tensor y = Dense(x, 3, {.activation = "relu"});
  EXPECT_EQ(y.name(), "dense/Relu:0");
  EXPECT_EQ(y.shape().ToString(), "[?,3]");
  EXPECT_THAT(NamesOf(TrainableVariables()), ElementsAre("dense/kernel", "dense/bias"));
  Session session = Open();
  ASSERT_EQ(session.SetVariableValue("dense/kernel", Array::Of<float>({2, 3}, {1, 2, -3, 4, 5, 6})),
            absl::OkStatus());
  ASSERT_EQ(session.SetVariableValue("dense/bias", Array::Of<float>({3}, {0, -20, 100})),
            absl::OkStatus());
  const auto got = session.Run(y, {{x, Array::Of<float>({1, 2}, {1, 2})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->values<float>(), ElementsAre(9, 0, 109));
}

TEST_F(LayersTest, NamesAreNumberedPerScopeAndReuseShares) {
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  const auto model = [&] { return Dense(Dense(x, 4), 4, {.name = "out"}); };
  Tensor a, b, c;
  {
    const VariableScope scope("model");
    a = model();
  }
  {
    const VariableScope scope("model", Reuse::kReuse);
    b = model();
  }
  c = Dense(x, 4, {.name = "shared"});
  Dense(x, 4, {.name = "shared", .reuse = Reuse::kReuse});
  Dense(x, 4);
  Dense(x, 4);
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_THAT(NamesOf(TrainableVariables()),
              ElementsAre("model/dense/kernel", "model/dense/bias", "model/out/kernel",
                          "model/out/bias", "shared/kernel", "shared/bias", "dense/kernel",
                          "dense/bias", "dense_1/kernel", "dense_1/bias"));
  EXPECT_EQ(a.name(), "model/out/BiasAdd:0");
  EXPECT_EQ(b.name(), "model_1/out/BiasAdd:0");
  Dense(x, 4, {.name = "shared"});
  EXPECT_THAT(graph_.status().message(), HasSubstr("it exists already"));
}

TEST_F(LayersTest, ActivationsAreNamesOperationsOrFunctions) {
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  const Tensor by_function =
      Dense(x, 4, {.activation = [](const Tensor& y) { return Identity(y, "mine"); }});
  const Tensor by_operation = Dense(x, 4, {.activation = Identity});
  const Tensor by_name = Dense(x, 4, {.activation = "leaky_relu(0.1)"});
  EXPECT_EQ(by_function.name(), "dense/mine:0");
  EXPECT_EQ(by_operation.name(), "dense_1/Identity:0");
  EXPECT_EQ(by_name.name(), "dense_2/LeakyRelu:0");
  Dense(x, 4, {.activation = "rellu"});
  EXPECT_THAT(graph_.status().message(), HasSubstr("rellu"));
}

TEST_F(LayersTest, InitialValuesAreThoseOfKerasForTheSeed) {
  graph_.SetRandomSeed(7);
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  Dense(x, 3, {.name = "dense"});
  Session session = Open();
  const ::penstock::nn::Symbol in = ::penstock::nn::Input({.shape = {4}});
  const ::penstock::nn::Network network({in}, {::penstock::nn::Dense({.units = 3})(in)});
  const auto expected = network.Initialize(7);
  ASSERT_TRUE(expected.ok());
  for (const auto& [name, value] : *expected) {
    EXPECT_TRUE(BitwiseEqual(*session.GetVariableValue(name), value)) << name;
  }
}

TEST_F(LayersTest, ScopesInitializerAndOwnInitializersWin) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  {
    const VariableScope scope("s", Reuse::kNone, ConstantInitializer(3));
    Dense(x, 1, {.name = "a"});
    Dense(x, 1, {.kernel_initializer = OnesInitializer(), .name = "b"});
  }
  Session session = Open();
  const auto first = [&](const char* name) {
    return session.GetVariableValue(name)->values<float>()[0];
  };
  EXPECT_EQ(first("s/a/kernel"), 3);
  EXPECT_EQ(first("s/a/bias"), 0);
  EXPECT_EQ(first("s/b/kernel"), 1);
}

TEST_F(LayersTest, ConvolutionsAndPoolingOfUnknownSizes) {
  const Tensor x = Placeholder(DType::kF32, {-1, -1, -1, 3}, "x");
  Tensor y = Conv2D(x, 4, 3, {.strides = 2, .padding = "SAME"});
  EXPECT_EQ(y.shape().ToString(), "[?,?,?,4]");
  y = MaxPooling2D(y, 2, 2);
  y = SeparableConv2D(y, 5, {1, 2}, {.depth_multiplier = 2});
  y = Conv2DTranspose(y, 2, 2, {.strides = 2});
  EXPECT_THAT(NamesOf(TrainableVariables()),
              ElementsAre("conv2d/kernel", "conv2d/bias", "separable_conv2d/depthwise_kernel",
                          "separable_conv2d/pointwise_kernel", "separable_conv2d/bias",
                          "conv2d_transpose/kernel", "conv2d_transpose/bias"));
  Session session = Open();
  const auto got = session.Run(y, {{x, Array::Zeros(DType::kF32, {2, 8, 12, 3})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->shape(), Shape({2, 4, 4, 2}));
}

TEST_F(LayersTest, ChannelsFirstIsTheSameLayer) {
  const Tensor last = Placeholder(DType::kF32, {1, 2, 3, 2}, "last");
  const Tensor first = Placeholder(DType::kF32, {1, 2, 2, 3}, "first");
  const Tensor a = Conv2D(last, 1, 2, {.name = "c"});
  const Tensor b =
      Conv2D(first, 1, 2, {.data_format = "channels_first", .name = "c", .reuse = Reuse::kReuse});
  const Tensor flat = Flatten(first, "", "channels_first");
  EXPECT_EQ(b.shape().ToString(), "[1,1,1,2]");
  EXPECT_EQ(flat.shape().ToString(), "[1,12]");
  Session session = Open();
  const Array x = Array::Of<float>({1, 2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Array moved = Array::Of<float>({1, 2, 2, 3}, {1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12});
  const auto got = session.Run({a, b, flat}, {{last, x}, {first, moved}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ((*got)[0].values<float>()[i], (*got)[1].values<float>()[i]);
  }
  EXPECT_THAT((*got)[2].values<float>(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST_F(LayersTest, BatchNormalizationUpdatesItsAveragesByUpdateOps) {
  const Tensor x = Placeholder(DType::kF32, {-1, 1}, "x");
  const Tensor training = Placeholder(DType::kBool, Shape(), "training");
  const Tensor y = BatchNormalization(x, {.momentum = 0.5, .epsilon = 0, .training = training});
  EXPECT_THAT(
      NamesOf(GlobalVariables()),
      ElementsAre("batch_normalization/gamma", "batch_normalization/beta",
                  "batch_normalization/moving_mean", "batch_normalization/moving_variance"));
  EXPECT_EQ(TrainableVariables().size(), 2u);
  const Operations updates = graph_.GetCollectionOperations(graph_keys::kUpdateOps);
  ASSERT_EQ(updates.size(), 2u);
  Session session = Open();
  const Array batch = Array::Of<float>({2, 1}, {1, 5});
  const auto run = [&](bool trains) {
    return session.Run({y, updates[0], updates[1]},
                       {{x, batch}, {training, Array::Scalar(trains)}});
  };
  auto got = run(true);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), ElementsAre(-1, 1));
  EXPECT_EQ(session.GetVariableValue("batch_normalization/moving_mean")->item<float>(), 1.5);
  EXPECT_EQ(session.GetVariableValue("batch_normalization/moving_variance")->item<float>(), 2.5);
  got = run(false);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_FLOAT_EQ((*got)[0].values<float>()[0], (1 - 1.5) / std::sqrt(2.5));
  EXPECT_EQ(session.GetVariableValue("batch_normalization/moving_mean")->item<float>(), 1.5);
}

// As a discriminator of two batches: each moves the averages.
TEST_F(LayersTest, BatchNormalizationOfTwoCallsAddsUpTheirUpdates) {
  const Tensor a = Placeholder(DType::kF32, {-1, 1}, "a"),
               b = Placeholder(DType::kF32, {-1, 1}, "b");
  BatchNormalization(a, {.momentum = 0.5, .training = true, .name = "bn"});
  BatchNormalization(b, {.momentum = 0.5, .training = true, .name = "bn", .reuse = Reuse::kReuse});
  const Operation update = Group(graph_.GetCollectionOperations(graph_keys::kUpdateOps));
  Session session = Open();
  ASSERT_EQ(session.Run(update, {{a, Array::Of<float>({2, 1}, {1, 3})},
                                 {b, Array::Of<float>({2, 1}, {6, 10})}}),
            absl::OkStatus());
  // TensorFlow's assign_sub of the value at the start: 0 + (2 - 0) / 2 + (8 - 0) / 2.
  EXPECT_FLOAT_EQ(session.GetVariableValue("bn/moving_mean")->item<float>(), 5);
  // 1 + (1 - 1) / 2 + (4 - 1) / 2
  EXPECT_FLOAT_EQ(session.GetVariableValue("bn/moving_variance")->item<float>(), 2.5);
}

TEST_F(LayersTest, DropoutDrawsInTrainingOnly) {
  graph_.SetRandomSeed(1);
  const Tensor x = Constant(Array::Of<float>({2, 4}, {1, 1, 1, 1, 1, 1, 1, 1}));
  const Tensor dropped = Dropout(x, 0.5, {.training = true}), kept = Dropout(x, 0.5);
  Session session = Open();
  const auto first = session.Run({dropped, kept}), second = session.Run({dropped, kept});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  for (const float value : (*first)[0].values<float>()) EXPECT_TRUE(value == 0 || value == 2);
  EXPECT_FALSE(BitwiseEqual((*first)[0], (*second)[0]));
  for (const float value : (*first)[1].values<float>()) EXPECT_EQ(value, 1);
}

TEST_F(LayersTest, RegularizersAreLossesOfNewVariables) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  Dense(x, 2,
        {.kernel_initializer = OnesInitializer(),
         .kernel_regularizer = "l2(0.5)",
         .activity_regularizer = "l1(1)",
         .name = "d"});
  Dense(x, 2, {.kernel_regularizer = "l2(0.5)", .name = "d", .reuse = Reuse::kReuse});
  const Tensors penalties = losses::GetRegularizationLosses();
  ASSERT_EQ(penalties.size(), 2u);
  const Tensor total = losses::GetRegularizationLoss();
  Session session = Open();
  const auto got = session.Run(total, {{x, Array::Of<float>({2, 2}, {1, 1, 1, 1})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->item<float>(), 0.5 * 4 + 8 / 2);
}

TEST_F(LayersTest, NetworkIsAppliedAndDifferentiated) {
  const ::penstock::nn::Symbol in = ::penstock::nn::Input({.shape = {3}, .dtype = DType::kU8});
  ::penstock::nn::Symbol h = ::penstock::nn::Rescaling({.scale = 0.5})(in);
  h = ::penstock::nn::Dense({.units = 2, .kernel_regularizer = "l2(0.1)"})(h);
  const ::penstock::nn::Network network({in}, {::penstock::nn::BatchNormalization()(h)});
  ASSERT_EQ(network.status(), absl::OkStatus());
  const Tensor x = Placeholder(DType::kU8, {-1, 3}, "x");
  const Tensor y = Apply(network, {x}, {.training = true})[0];
  EXPECT_EQ(y.shape().ToString(), "[?,2]");
  EXPECT_THAT(NamesOf(TrainableVariables()),
              ElementsAre("dense/kernel", "dense/bias", "batch_normalization/gamma",
                          "batch_normalization/beta"));
  EXPECT_EQ(losses::GetRegularizationLosses().size(), 1u);
  EXPECT_EQ(graph_.GetCollectionOperations(graph_keys::kUpdateOps).size(), 2u);
  const Tensor again = Apply(network, {x}, {.name = "second"})[0];
  EXPECT_EQ(GlobalVariables().size(), 12u);
  const Tensor gradient = Gradients({y}, {TrainableVariables()[3]})[0];
  Session session = Open();
  const auto got = session.Run({gradient, again}, {{x, Array::Zeros(DType::kU8, {5, 3})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), ElementsAre(5, 5));
  EXPECT_EQ((*got)[1].shape(), Shape({5, 2}));
}

TEST_F(LayersTest, AnyLayerOfRoomNnIsCalled) {
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  Call(::penstock::nn::LayerNormalization(), {x});
  Call(::penstock::nn::LayerNormalization(), {x});
  EXPECT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(NamesOf(TrainableVariables())[2], "layer_normalization_1/gamma");
}

TEST_F(LayersTest, RejectsUnknownExtentOfAVariable) {
  Dense(Placeholder(DType::kF32, {-1, -1}, "x"), 3);
  EXPECT_THAT(graph_.status().message(), HasSubstr("depends on an unknown extent"));
}

TEST_F(LayersTest, RejectsInputOfAnotherShapeThanTheNetworks) {
  const ::penstock::nn::Symbol in = ::penstock::nn::Input({.shape = {3}});
  const ::penstock::nn::Network network({in}, {::penstock::nn::Dense({.units = 2})(in)});
  Apply(network, {Placeholder(DType::kF32, {-1, 4}, "x")});
  EXPECT_THAT(graph_.status().message(), HasSubstr("got float32[?,4]"));
}

}  // namespace
}  // namespace layers_test
}  // namespace penstock::session::layers
