#include "penstock/session/train/optimizer.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/testing/checks.h"
#include "penstock/nn/optimizers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/layers.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/learning_rate.h"
#include "penstock/session/train/moving_average.h"

namespace penstock::session::train {
namespace optimizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// sum of (w - target)^2 / 2, whose gradient is w - target.
Tensor HalfSquares(const Tensor& w, const Tensor& target) {
  return AddOp("Loss", {w, target}, "loss", SourceLocation::Current(),
               [](const ir::Values& in) { return ir::ReduceSum(ir::Square(in[0] - in[1])) * 0.5; });
}

class OptimizerTest : public testing::Test {
 protected:
  Session Open() { return Session("", {.client = runtime::TestClient(1)}); }
  static std::vector<float> ValuesOf(const Session& session, const Variable& variable) {
    const absl::StatusOr<Array> value = session.GetVariableValue(variable.def()->name);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    const absl::Span<const float> values = value->values<float>();
    return {values.begin(), values.end()};
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

TEST_F(OptimizerTest, GradientDescentUpdatesVariablesAndGlobalStep) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  const Variable frozen(Array::Of<float>({2}, {1, 2}), "frozen", {.trainable = false});
  const Tensor loss = HalfSquares(w, Constant({3.0, 3.0}));
  const Variable step = GetOrCreateGlobalStep();
  const Operation train = GradientDescentOptimizer(0.5).Minimize(loss, step);
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(train.name(), "GradientDescent");
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(train), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(2.f, 2.5f));
  EXPECT_THAT(ValuesOf(session, frozen), ElementsAre(1.f, 2.f));
  ASSERT_EQ(session.Run(train), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(2.5f, 2.75f));
  EXPECT_EQ(session.GetVariableValue("global_step")->item<int64_t>(), 2);
}

TEST_F(OptimizerTest, SlotsAreInTheVariableScopeOfTheCall) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  {
    const VariableScope scope("b");
    MomentumOptimizer(0.1, 0.9).Minimize(ReduceSum(w));
  }
  {
    const NameScope scope("c");
    AdamOptimizer().Minimize(ReduceSum(w));
  }
  std::vector<std::string> names;
  for (const Variable& variable : GlobalVariables()) names.push_back(variable.def()->name);
  EXPECT_THAT(names, testing::IsSupersetOf({"b/w/Momentum", "w/Adam", "w/Adam_1"}));
}

TEST_F(OptimizerTest, MovingAveragesAreInTheVariableScopeOfTheCall) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  ExponentialMovingAverage average(0.75);
  {
    const VariableScope scope("b");
    average.Apply({w});
  }
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(average.Average(w).name(), "b/w/ExponentialMovingAverage:0");
  EXPECT_EQ(average.VariablesToRestore().at("b/w/ExponentialMovingAverage"), w);
}

TEST_F(OptimizerTest, SlotsHaveTensorFlowsNames) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  const Tensor loss = HalfSquares(w, Constant({3.0, 3.0}));
  const auto names = [&](Optimizer optimizer) {
    optimizer.Minimize(loss);
    std::vector<std::string> out;
    for (const Variable& variable : optimizer.variables()) out.push_back(variable.def()->name);
    return out;
  };
  EXPECT_THAT(names(MomentumOptimizer(0.1, 0.9)), ElementsAre("w/Momentum"));
  EXPECT_THAT(names(AdamOptimizer()),
              ElementsAre("beta1_power", "beta2_power", "w/Adam", "w/Adam_1"));
  EXPECT_THAT(names(AdamOptimizer()),
              ElementsAre("beta1_power_1", "beta2_power_1", "w/Adam_2", "w/Adam_3"));
  EXPECT_THAT(names(RMSPropOptimizer(0.1, 0.9, 0, 1e-10, /*centered=*/true)),
              ElementsAre("w/RMSProp", "w/RMSProp_1", "w/RMSProp_2"));
  EXPECT_THAT(names(AdadeltaOptimizer()), ElementsAre("w/Adadelta", "w/Adadelta_1"));
  EXPECT_THAT(names(AdagradOptimizer(0.1)), ElementsAre("w/Adagrad"));
  EXPECT_THAT(names(FtrlOptimizer(0.1, -0.5, 0.1, 0, 0, {.linear_name = "linear"})),
              ElementsAre("w/Ftrl", "w/linear"));
  EXPECT_EQ(graph_.status(), absl::OkStatus());
  for (const Variable& variable : TrainableVariables()) EXPECT_EQ(variable.name(), "w:0");
}

TEST_F(OptimizerTest, AdamFollowsItsFormulaAndTensorFlowsPowers) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  AdamOptimizer optimizer(0.1, 0.8, 0.9, 1e-4);
  const Operation train = optimizer.Minimize(HalfSquares(w, Constant({3.0})));
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  double x = 1, m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    ASSERT_EQ(session.Run(train), absl::OkStatus());
    const double g = x - 3;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    x -= 0.1 * std::sqrt(1 - std::pow(0.9, t)) / (1 - std::pow(0.8, t)) * m / (std::sqrt(v) + 1e-4);
    EXPECT_NEAR(ValuesOf(session, w)[0], x, 1e-5);
    EXPECT_NEAR(ValuesOf(session, optimizer.GetSlot(w, "m"))[0], m, 1e-5);
    EXPECT_NEAR(ValuesOf(session, optimizer.GetSlot(w, "v"))[0], v, 1e-5);
    EXPECT_NEAR(session.GetVariableValue("beta1_power")->item<float>(), std::pow(0.8, t + 1), 1e-6);
    EXPECT_NEAR(session.GetVariableValue("beta2_power")->item<float>(), std::pow(0.9, t + 1), 1e-6);
  }
}

// A training that continues from TensorFlow's checkpoint has its powers only.
TEST_F(OptimizerTest, AdamContinuesFromPowers) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  AdamOptimizer optimizer(0.1);
  const Operation train = optimizer.Minimize(HalfSquares(w, Constant({3.0})));
  Session session = Open();
  for (const int updates : {0, 1, 99, 4999, 2000000}) {
    ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
    const auto set = [&](const char* name, double value) {
      ASSERT_EQ(session.SetVariableValue(name, Array::Scalar(static_cast<float>(value))),
                absl::OkStatus());
    };
    set("beta1_power", std::pow(0.9, updates + 1));
    set("beta2_power", std::pow(0.999, updates + 1));
    ASSERT_EQ(session.Run(train), absl::OkStatus());
    const double m = 0.1 * -2, v = 0.001 * 4;
    const double rate =
        0.1 * std::sqrt(1 - std::pow(0.999, updates + 1)) / (1 - std::pow(0.9, updates + 1));
    EXPECT_NEAR(ValuesOf(session, w)[0], 1 - rate * m / std::sqrt(v), 2e-5) << updates;
    EXPECT_NEAR(session.GetVariableValue("beta2_power")->item<float>(),
                std::pow(0.999, updates + 2), 1e-5);
  }
}

TEST_F(OptimizerTest, GradientsAreChangedBetweenComputingAndApplying) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  GradientDescentOptimizer optimizer(1.0);
  GradientsAndVariables pairs = optimizer.ComputeGradients(HalfSquares(w, Constant({3.0, 3.0})));
  ASSERT_EQ(pairs.size(), 1u);
  pairs[0].gradient =
      AddOp("Clip", {pairs[0].gradient}, "", SourceLocation::Current(),
            [](const ir::Values& in) { return ir::Maximum(in[0], ir::SplatLike(in[0], -1)); });
  const Operation train = optimizer.ApplyGradients(pairs, {}, "train");
  EXPECT_EQ(train.name(), "train");
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(train), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(2.f, 3.f));
}

TEST_F(OptimizerTest, LearningRateIsFedOrFollowsTheGlobalStep) {
  const Variable w(Array::Of<float>({1}, {0}), "w");
  const Variable step = GetOrCreateGlobalStep();
  const Tensor loss = HalfSquares(w, Constant({1.0}));
  const Tensor rate = Placeholder(DType::kF32, Shape(), "rate");
  const Operation fed = GradientDescentOptimizer(rate).Minimize(loss);
  const Operation scheduled =
      GradientDescentOptimizer(PiecewiseConstant(step, {0}, {0.5, 0.25})).Minimize(loss, step);
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(fed, {{rate, Array::Scalar(0.125f)}}), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(0.125f));
  ASSERT_EQ(session.Run(scheduled), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(0.125f + 0.5f * 0.875f));
  ASSERT_EQ(session.Run(scheduled), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(0.5625f + 0.25f * 0.4375f));
}

// exp(-110) is 0 in float32.
TEST_F(OptimizerTest, NaturalExpDecayHasAnyRate) {
  const Tensor step = Placeholder(DType::kI64, Shape(), "step");
  const Tensor smooth = NaturalExpDecay(0.5, step, 1000, 110);
  const Tensor stairs = NaturalExpDecay(0.5, step, 10, 0.25, /*staircase=*/true);
  Session session = Open();
  const auto rates = session.Run({smooth, stairs}, {{step, Array::Scalar<int64_t>(29)}});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_NEAR((*rates)[0].item<float>(), 0.5 * std::exp(-3.19), 1e-6);
  EXPECT_NEAR((*rates)[1].item<float>(), 0.5 * std::exp(-0.5), 1e-6);
  EXPECT_FALSE(NaturalExpDecay(0.5, step, 0, 1).valid());
  EXPECT_THAT(std::string(graph_.status().message()), HasSubstr("decay_steps must be above 0"));
}

TEST_F(OptimizerTest, TakesAnyOptimizerOfRoomNn) {
  const Variable w(Array::Of<float>({2}, {3, 4}), "w");
  const Operation train =
      Optimizer(::penstock::nn::SGD({.learning_rate = ::penstock::nn::PiecewiseConstantDecay(
                                         {.boundaries = {0}, .values = {1, 0.5}}),
                                     .global_clipnorm = 1}),
                "sgd")
          .Minimize(HalfSquares(w, Constant({0.0, 0.0})));
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(train), absl::OkStatus());
  EXPECT_NEAR(ValuesOf(session, w)[0], 3 - 0.6, 1e-6);
  EXPECT_NEAR(ValuesOf(session, w)[1], 4 - 0.8, 1e-6);
  EXPECT_EQ(session.GetVariableValue("sgd/iteration")->item<int64_t>(), 1);
  ASSERT_EQ(session.Run(train), absl::OkStatus());
  EXPECT_NEAR(ValuesOf(session, w)[0], 2.4 - 0.3, 1e-6);
}

TEST_F(OptimizerTest, LossScaleSkipsInfiniteGradients) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  const Tensor target = Placeholder(DType::kF32, {1}, "target");
  const Operation train =
      Optimizer(::penstock::nn::LossScaleOptimizer(::penstock::nn::SGD({.learning_rate = 0.5}),
                                                   {.initial_scale = 4}),
                "scaled")
          .Minimize(HalfSquares(w, target));
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto run = [&](float value) {
    return session.Run(train, {{target, Array::Of<float>({1}, {value})}});
  };
  ASSERT_EQ(run(3), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(2.f));
  ASSERT_EQ(run(INFINITY), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(2.f));
  EXPECT_EQ(session.GetVariableValue("scaled/dynamic_scale")->item<float>(), 2);
}

TEST_F(OptimizerTest, RejectsLossThatDependsOnNoVariable) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  GradientDescentOptimizer(0.1).Minimize(HalfSquares(Constant({1.0}), Constant({2.0})));
  EXPECT_THAT(graph_.status().message(), HasSubstr("No gradients provided for any variable"));
  EXPECT_THAT(graph_.status().message(), HasSubstr("[w]"));
}

TEST_F(OptimizerTest, RejectsInvalidLearningRate) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  GradientDescentOptimizer(Tensor()).Minimize(ReduceSum(w));
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("the learning rate is an invalid tensor"));
}

TEST_F(OptimizerTest, RejectsInvalidLoss) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  AdamOptimizer().Minimize(Tensor());
  EXPECT_THAT(graph_.status().message(), HasSubstr("the loss is an invalid tensor"));
}

// What is built in a branch belongs to it; the variables of layers and optimizers do not.
TEST_F(OptimizerTest, TrainsInABranch) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  const Tensor trains = Placeholder(DType::kBool, Shape(), "trains");
  AdamOptimizer optimizer(0.1);
  const Tensor step = Cond(
      trains,
      [&] {
        const Tensor loss = HalfSquares(layers::Dense(x, 1), Constant({1.0}));
        const ControlDependencies after(Operations{optimizer.Minimize(loss)});
        return Identity(Constant(1.0));
      },
      [&] { return Constant(0.0); });
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto bias = [&] {
    return session.GetVariableValue("dense/bias").value_or(Array::Scalar(-1.f)).item<float>();
  };
  for (const bool value : {false, true}) {
    const auto got =
        session.Run(step, {{x, Array::Of<float>({1, 2}, {0, 0})}, {trains, Array::Scalar(value)}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->item<float>(), value ? 1 : 0);
    EXPECT_NEAR(bias(), value ? 0.1 : 0, 1e-4);
  }
}

TEST_F(OptimizerTest, RejectsWrongPairs) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  const auto error_of = [&](const GradientsAndVariables& pairs) {
    Graph graph;
    const auto scope = graph.AsDefault();
    GradientDescentOptimizer(0.1).ApplyGradients(pairs);
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error_of({}), HasSubstr("no variables are given"));
  EXPECT_THAT(error_of({{Tensor(), Variable()}}), HasSubstr("a variable is invalid"));
  GradientDescentOptimizer(0.1).ApplyGradients({{Constant({1.0}), w}, {Constant({1.0}), w}});
  EXPECT_THAT(graph_.status().message(), HasSubstr("'w' is given twice"));
}

TEST_F(OptimizerTest, RejectsGradientOfAnotherShape) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  GradientDescentOptimizer(0.1).ApplyGradients({{Constant({1.0, 2.0}), w}});
  EXPECT_THAT(graph_.status().message(), HasSubstr("gradient of variable 'w' has shape [2]"));
}

TEST_F(OptimizerTest, SkipsVariablesWithoutGradient) {
  const Variable w(Array::Of<float>({1}, {1}), "w"), other(Array::Of<float>({1}, {1}), "other");
  const GradientsAndVariables pairs =
      MomentumOptimizer(0.1, 0.9).ComputeGradients(HalfSquares(w, Constant({2.0})));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_TRUE(pairs[0].gradient.valid());
  EXPECT_FALSE(pairs[1].gradient.valid());
  MomentumOptimizer optimizer(0.1, 0.9);
  optimizer.ApplyGradients(pairs);
  EXPECT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_TRUE(optimizer.GetSlot(w, "momentum").valid());
  EXPECT_FALSE(optimizer.GetSlot(other, "momentum").valid());
  EXPECT_FALSE(optimizer.GetSlot(w, "m").valid());
}

TEST_F(OptimizerTest, MovingAverageFollowsTheUpdatedVariable) {
  const Variable w(Array::Of<float>({1}, {1}), "w");
  const Operation train = GradientDescentOptimizer(0.5).Minimize(HalfSquares(w, Constant({3.0})));
  ExponentialMovingAverage ema(0.75);
  Operation update;
  {
    const ControlDependencies after(Operations{train});
    update = ema.Apply();
  }
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(ema.Average(w).name(), "w/ExponentialMovingAverage:0");
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(update), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, w), ElementsAre(2.f));
  EXPECT_THAT(ValuesOf(session, ema.Average(w)), ElementsAre(1.25f));
  EXPECT_EQ(ema.VariablesToRestore().at("w/ExponentialMovingAverage"), w);
}

TEST_F(OptimizerTest, MovingAveragesAreRestoredOfVariablesThatAreNotTrainable) {
  const Variable w(Array::Of<float>({1}, {1}), "w"),
      mean(Array::Of<float>({1}, {1}), "mean", {.trainable = false}),
      other(Array::Of<float>({1}, {1}), "other", {.trainable = false});
  ExponentialMovingAverage ema(0.75);
  ema.Apply({w, mean});
  const auto names = ema.VariablesToRestore();
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(names.at("mean/ExponentialMovingAverage"), mean);
  EXPECT_EQ(names.at("other"), other);
}

TEST_F(OptimizerTest, MovingAverageBeginsWithTheVariablesValueOfTheSameRunOrWithAnAssignedOne) {
  const Variable w(RandomNormal({3}), "w");
  ExponentialMovingAverage ema(0.75);
  ema.Apply();
  const Operation restart = Assign(ema.Average(w), w);
  Session session = Open();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_EQ(ValuesOf(session, ema.Average(w)), ValuesOf(session, w));
  ASSERT_EQ(session.SetVariableValue("w", Array::Of<float>({3}, {1, 2, 3})), absl::OkStatus());
  ASSERT_EQ(session.Run(restart), absl::OkStatus());
  EXPECT_THAT(ValuesOf(session, ema.Average(w)), ElementsAre(1, 2, 3));
}

// As one that a program gives to an estimator, which builds a graph in each call.
TEST(OptimizerOfGraphsTest, HasSlotsOfItsOwnInEachGraph) {
  AdamOptimizer optimizer(0.1);
  ExponentialMovingAverage ema(0.5);
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int i = 0; i < 2; ++i) {
    graphs.push_back(std::make_unique<Graph>());
    const auto scope = graphs.back()->AsDefault();
    const Variable w(Array::Of<float>({2}, {1, 2}), "w");
    EXPECT_TRUE(optimizer.variables().empty());
    const Operation train = optimizer.Minimize(HalfSquares(w, Constant({3.0, 3.0})));
    const Operation average = ema.Apply();
    ASSERT_EQ(graphs.back()->status(), absl::OkStatus());
    EXPECT_EQ(optimizer.GetSlot(w, "m").def()->graph, graphs.back().get());
    EXPECT_EQ(ema.Average(w).def()->graph, graphs.back().get());
    EXPECT_EQ(optimizer.variables().size(), 4u);
    Session session("", {.client = runtime::TestClient(1)});
    ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
    EXPECT_EQ(session.Run({train, average}).status(), absl::OkStatus());
  }
  EXPECT_FALSE(optimizer.GetSlot(Variable(), "m").valid());
}

}  // namespace
}  // namespace optimizer_test
}  // namespace penstock::session::train
