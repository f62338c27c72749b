// User-defined training steps: loss, metrics, and error messages.
#include <stdexcept>

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

// The default step, written as a custom step.
StepResult Crossentropy(const StepContext& step) {
  const nn::Loss loss = nn::SparseCategoricalCrossentropy({.from_logits = true});
  return {.loss = loss.PerExample(step.labels[0], step.apply(step.inputs)[0])};
}

TEST(CustomStep, DefaultStepAsCustomStepIsBitIdentical) {
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

// A gradient penalty (Gulrajani et al. 2017): training differentiates through the gradient, so
// minimizing the penalty alone makes it small.
TEST(CustomStep, DifferentiatesThroughGradientPenalty) {
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

// Calls the network twice in a step, as a GAN's critic does for real and generated examples.
TEST(CustomStep, SecondCallUpdatesMovingAveragesOfFirst) {
  std::vector<NamedArrays> weights;
  for (const int calls : {1, 2}) {
    const CustomStep custom{[=](const StepContext& step) {
      StepResult result = Crossentropy(step);
      if (calls == 2) result.loss = Crossentropy(step).loss;
      return result;
    }};
    auto trainer = Make(custom, 1, /*batch_norm=*/true);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const data::Dataset one = data::Dataset::FromArrays(testing::Points(8)).Batch(8);
    ASSERT_TRUE((*trainer)->Fit(one, {.epochs = 1}).ok());
    weights.push_back(*(*trainer)->Weights());
  }
  // m moves from 0 to (1 - d) x, then to (1 - d^2) x = (1 + d) (1 - d) x, where d is the momentum.
  constexpr double kMomentum = 0.9;
  int found = 0;
  for (const auto& [name, once] : weights[0]) {
    if (name.find("moving_mean") == std::string::npos) continue;
    const Array& twice = *weights[1].Find(name);
    for (int64_t i = 0; i < once.num_elements(); ++i) {
      EXPECT_NEAR(twice.data<float>()[i], (1 + kMomentum) * once.data<float>()[i], 1e-6);
      found += once.data<float>()[i] != 0;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(CustomStep, EachCallDrawsDifferentRandomNumbers) {
  auto strategy = Strategy::Create(runtime::TestClient(1), {.replicas = 1});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const CustomStep difference{[](const StepContext& step) -> StepResult {
                                const ir::Value a = step.apply(step.inputs)[0],
                                                b = step.apply(step.inputs)[0];
                                const ir::Value differs = ir::ReduceSum(ir::Abs(a - b), {1});
                                return {.loss = differs, .measured = {differs}};
                              },
                              {"differs"}};
  const auto trainer = Trainer::Create(
      {.objective = {.network =
                         nn::Network({x}, {nn::Dense({.units = 3})(nn::Dropout({.rate = 0.5})(x))}),
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({})}},
                     .optimizer = nn::SGD({.learning_rate = 0.1}),
                     .custom = difference},
       .strategy = *strategy,
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .seed = 3});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(Data(), {.epochs = 1});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_GT(*history->epochs[0].Get("differs"), 0);
}

TEST(CustomStep, ExceptionIsError) {
  auto trainer = Make(CustomStep{
      [](const StepContext&) -> StepResult { throw std::runtime_error("no such file"); }});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(Data(), {.epochs = 1});
  EXPECT_EQ(history.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(history.status().message()), HasSubstr("threw an exception: no such"));
}

TEST(CustomStep, ReportsInvalidResults) {
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
