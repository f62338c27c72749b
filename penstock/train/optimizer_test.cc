// Support for optimizers in training: initial slots, variable averages, gradient accumulation, and
// loss scaling.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace optimizer_test {

using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

// State after one pass over 60 points in batches of `batch`.
NamedArrays Trained(const nn::Optimizer& optimizer, int64_t batch, int replicas = 1) {
  const auto trainer = SmallTrainer({.optimizer = optimizer, .replicas = replicas});
  PENSTOCK_CHECK_OK(trainer);
  const data::Dataset points = data::Dataset::FromArrays(Points(60)).Batch(batch);
  PENSTOCK_CHECK_OK((*trainer)->Fit(points, {}));
  auto state = (*trainer)->State();
  PENSTOCK_CHECK_OK(state);
  return *std::move(state);
}

TEST(Optimizer, SlotsHaveTheirInitialValues) {
  for (const nn::Optimizer& optimizer :
       {nn::Adagrad({.initial_accumulator_value = 0.25}), nn::Nadam(), nn::Adafactor()}) {
    const auto trainer = SmallTrainer({.optimizer = optimizer});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto state = (*trainer)->State();
    ASSERT_TRUE(state.ok()) << state.status();
    if (optimizer.class_name() == "Adagrad") {
      const Array slot = *state->Get("optimizer/accumulator/hidden/kernel");
      EXPECT_EQ(slot.TypeString(), "float32[4,8]");
      EXPECT_THAT(slot.values<float>(), ::testing::Each(0.25f));
    } else if (optimizer.class_name() == "Nadam") {
      EXPECT_EQ(state->Find("optimizer/u_product")->item<float>(), 1);
    } else {
      EXPECT_EQ(state->Find("optimizer/r/hidden/kernel")->TypeString(), "float32[4]");
      EXPECT_EQ(state->Find("optimizer/velocity/hidden/bias")->TypeString(), "float32[8]");
    }
    EXPECT_TRUE((*trainer)->Fit(data::Dataset::FromArrays(Points(60)).Batch(20), {}).ok());
  }
}

TEST(Optimizer, AveragesReplaceVariablesAfterFit) {
  const NamedArrays plain = Trained(nn::SGD({.learning_rate = 0.1}), 10);
  const NamedArrays averaged =
      Trained(nn::SGD({.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.5}), 10);
  for (const char* name : {"hidden/kernel", "logits/bias"}) {
    const Array& value = *averaged.Find(name);
    const Array& average = *averaged.Find(absl::StrCat("optimizer/average/", name));
    EXPECT_TRUE(base::BitwiseEqual(value, average)) << name;
    EXPECT_FALSE(base::BitwiseEqual(value, *plain.Find(name))) << name;
  }
}

TEST(Optimizer, AccumulatedGradientsMatchLargeBatch) {
  nn::SGDOptions sgd{.learning_rate = 0.1, .momentum = 0.9};
  const NamedArrays large = Trained(nn::SGD(sgd), 20);
  sgd.gradient_accumulation_steps = 5;
  const NamedArrays small = Trained(nn::SGD(sgd), 4, 2);
  NamedArrays a, b;
  for (const char* name : {"hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias"}) {
    a.Set(name, *large.Find(name));
    b.Set(name, *small.Find(name));
  }
  EXPECT_LT(testing::LargestDifference(a, b), 1e-5);
}

// Bias after one step with gradients below the range of float16 (2^-26).
double StepOfTinyGradients(const nn::Optimizer& optimizer) {
  const nn::Symbol x = nn::Input({.shape = {1}, .name = "x"});
  const nn::Symbol h = nn::Dense({.units = 1, .kernel_initializer = "zeros", .name = "first"})(x);
  const nn::Symbol y =
      nn::Dense({.units = 1, .kernel_initializer = "constant(0.00012207)", .name = "second"})(h);
  auto strategy = Strategy::Create(runtime::TestClient(1), {});
  PENSTOCK_CHECK_OK(strategy);
  const auto trainer =
      Trainer::Create({.objective = {.network = nn::Network({x}, {y}).WithPolicy("mixed_float16"),
                                     .targets = {{.loss = nn::MeanSquaredError()}},
                                     .optimizer = optimizer},
                       .strategy = *std::move(strategy),
                       .columns = {.inputs = {"x"}, .labels = {"y"}}});
  PENSTOCK_CHECK_OK(trainer);
  const data::Dataset one =
      data::Dataset::FromArrays(
          {{"x", Array::Of<float>({1, 1}, {1})}, {"y", Array::Of<float>({1, 1}, {1.0f / 16384})}})
          .Batch(1);
  PENSTOCK_CHECK_OK((*trainer)->Fit(one, {}));
  return (*trainer)->Weights()->Find("first/bias")->item<float>();
}

TEST(Optimizer, LossScalingKeepsSmallFloat16Gradients) {
  const nn::SGDOptions sgd{.learning_rate = 1048576};
  nn::SGDOptions scaled = sgd;
  scaled.loss_scale_factor = 4096;
  const double want = 1048576 * 2 * 0.00012207 / 16384;
  EXPECT_EQ(StepOfTinyGradients(nn::SGD(sgd)), 0);
  EXPECT_NEAR(StepOfTinyGradients(nn::SGD(scaled)), want, want * 1e-3);
  EXPECT_NEAR(StepOfTinyGradients(nn::LossScaleOptimizer(nn::SGD(sgd))), want, want * 1e-3);
}

TEST(Optimizer, LossScaleRecoversFromOverflow) {
  const auto trainer = SmallTrainer(
      {.network = SmallNet().WithPolicy("mixed_float16"),
       .optimizer = nn::LossScaleOptimizer(nn::SGD({.learning_rate = 0.1, .momentum = 0.9}),
                                           {.initial_scale = 1 << 24})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const data::Dataset points = data::Dataset::FromArrays(Points(200)).Batch(10);
  const auto history = (*trainer)->Fit(points, {.epochs = 10, .callbacks = {TerminateOnNan()}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->epochs.size(), 10);
  EXPECT_GT(*(*trainer)->Evaluate(points)->Get("accuracy"), 0.85);
  const auto state = (*trainer)->State();
  const int updates = state->Find("optimizer/updates")->item<int32_t>();
  EXPECT_LT(updates, 200);
  EXPECT_GT(updates, 150);
  EXPECT_LT(state->Find("optimizer/dynamic_scale")->item<float>(), 1 << 24);
  EXPECT_EQ(state->Find("optimizer/iteration")->item<int32_t>(), 200);
}

}  // namespace optimizer_test
}  // namespace penstock::train
