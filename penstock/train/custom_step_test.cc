// Steps of one's own: what they minimise, measure, and what is said when they are wrong.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/gradients.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/testing/small_training.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace custom_step_test {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Trainer>> Make(std::optional<CustomStep> custom, int replicas = 1,
                                              bool batch_norm = false) {
  auto strategy = Strategy::Create(runtime::TestClient(replicas), {.replicas = replicas});
  if (!strategy.ok()) return strategy.status();
  const nn::Loss loss = nn::SparseCategoricalCrossentropy({.from_logits = true});
  return Trainer::Create({.objective = {.network = testing::SmallNet(0, batch_norm),
                                        .targets = {{.loss = loss, .metrics = {nn::Accuracy()}}},
                                        .optimizer = nn::SGD({.learning_rate = 0.1}),
                                        .custom = std::move(custom)},
                          .strategy = *strategy,
                          .columns = {.inputs = {"x"}, .labels = {"y"}},
                          .seed = 3});
}

data::Dataset Data() { return data::Dataset::FromArrays(testing::Points(30)).Batch(8); }

// The usual step, written by hand.
StepResult Crossentropy(const StepContext& step) {
  const nn::Loss loss = nn::SparseCategoricalCrossentropy({.from_logits = true});
  return {.loss = loss.PerExample(step.labels[0], step.apply(step.inputs)[0])};
}

TEST(CustomStep, TheUsualStepWrittenByHandGivesTheSameWeightsBitForBit) {
  for (const int replicas : {1, 3}) {
    auto own = Make(CustomStep{Crossentropy}, replicas, true), usual = Make({}, replicas, true);
    ASSERT_TRUE(own.ok() && usual.ok()) << own.status();
    const auto a = (*own)->Fit(Data(), {.epochs = 2}), b = (*usual)->Fit(Data(), {.epochs = 2});
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    EXPECT_EQ(*a->epochs[1].Get("loss"), *b->epochs[1].Get("loss"));
    EXPECT_EQ(*a->epochs[1].Get("accuracy"), *b->epochs[1].Get("accuracy"));
    EXPECT_EQ(testing::LargestDifference(*(*own)->Weights(), *(*usual)->Weights()), 0);
  }
}

// A gradient within the loss (Gulrajani et al. 2017: the slope of the output by the input): the
// penalty is measured, and training by it alone makes it small.
TEST(CustomStep, AGradientWithinTheLossIsTrainedThrough) {
  const CustomStep flat{[](const StepContext& step) -> StepResult {
                          const ir::Value y = step.apply(step.inputs)[0];
                          const ir::Value slope =
                              ir::Gradients(ir::ReduceSum(y), {step.inputs[0]})[0];
                          const ir::Value penalty = ir::ReduceSum(ir::Square(slope), {1});
                          return {.loss = penalty, .measured = {penalty, step.mask}};
                        },
                        {"penalty", "real"}};
  auto trainer = Make(flat, 2);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(Data(), {.epochs = 30});
  ASSERT_TRUE(history.ok()) << history.status();
  const Logs &first = history->epochs.front(), &last = history->epochs.back();
  EXPECT_EQ(*first.Get("penalty"), *first.Get("loss"));
  EXPECT_EQ(*first.Get("real"), 1);  // padding does not count
  EXPECT_LT(*last.Get("penalty"), *first.Get("penalty") / 10);
  EXPECT_EQ(*(*trainer)->Evaluate(Data())->Get("real"), 1);
}

TEST(CustomStep, WhatIsWrongWithItIsSaid) {
  const auto error = [](CustomStep step) {
    auto trainer = Make(std::move(step));
    return std::string((*trainer)->Fit(Data(), {}).status().message());
  };
  EXPECT_THAT(error({[](const StepContext& step) -> StepResult { return {.loss = step.mask}; }}),
              HasSubstr("never calls apply"));
  EXPECT_THAT(error({[](const StepContext& step) -> StepResult {
                return {.loss = step.apply(step.inputs)[0]};
              }}),
              HasSubstr("a loss for each example"));
  EXPECT_THAT(error({Crossentropy, {"penalty"}}), HasSubstr("gives 0 measured values"));
}

}  // namespace custom_step_test
}  // namespace penstock::train
