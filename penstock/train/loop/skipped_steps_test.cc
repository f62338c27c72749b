// Warnings of a training in which loss scaling skips every step.
#include "penstock/train/loop/skipped_steps.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/nn/optimizers.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace skipped_steps_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SkippedSteps, WarnsOncePerSeriesOfSkippedSteps) {
  SkippedSteps skipped;
  std::vector<int64_t> warned;
  int64_t total = 0;
  for (int64_t step = 1; step <= 100; ++step) {
    total += step != 10 && step != 50;  // these two steps are applied
    if (skipped.After(1, step, total, 1)) warned.push_back(step);
  }
  EXPECT_THAT(warned, ElementsAre(30, 70));
}

TEST(SkippedSteps, CountsExecutionsOfSeveralSteps) {
  SkippedSteps skipped;
  EXPECT_FALSE(skipped.After(8, 8, 8, 128).has_value());
  EXPECT_FALSE(skipped.After(8, 16, 16, 0.5).has_value());
  const auto warning = skipped.After(8, 24, 24, 0.25);
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(*warning, AllOf(HasSubstr("last 24 steps"), HasSubstr("up to step 24"),
                              HasSubstr("0.25"), HasSubstr("TerminateOnNan")));
}

// The number of skipped steps before a resume is unknown.
TEST(SkippedSteps, DoesNotCountStepsBeforeResume) {
  SkippedSteps skipped;
  for (int64_t i = 0; i < 19; ++i) {
    EXPECT_FALSE(skipped.After(1, 1001 + i, 300 + i, 1).has_value()) << i;
  }
}

struct Notes : Callback {
  void Note(absl::string_view text) override { notes.emplace_back(text); }
  bool ShowsNotes() const override { return true; }
  std::vector<std::string> notes;
};

// x + sqrt(w): at w = 0 the loss is finite, but its gradient is infinite at any loss scale.
nn::Network NetOfInfiniteGradients(const char* initializer) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol y = nn::Lambda([=](nn::CallContext& ctx, const ir::Values& in) -> nn::Outputs {
    return in[0] + ir::Sqrt(ctx.Variable("w", {4}, initializer));
  })(x);
  return nn::Network({x}, {nn::Dense({.units = 3})(y)});
}

TEST(SkippedSteps, FitWarnsThatEveryStepIsSkipped) {
  for (const int64_t steps_per_execution : {1, 4}) {
    for (const bool infinite : {true, false}) {
      const auto trainer = testing::SmallTrainer(
          {.network = NetOfInfiniteGradients(infinite ? "zeros" : "ones"),
           .optimizer = nn::LossScaleOptimizer(nn::SGD({.learning_rate = 0.01})),
           .steps_per_execution = steps_per_execution});
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      const auto notes = std::make_shared<Notes>();
      const auto history = (*trainer)->Fit(data::Dataset::FromArrays(testing::Points(320)).Batch(8),
                                           {.epochs = 2, .callbacks = {notes}});
      ASSERT_TRUE(history.ok()) << history.status();
      if (infinite) {
        EXPECT_THAT(notes->notes, ElementsAre(HasSubstr("skipped each of the last 20 steps")));
      } else {
        EXPECT_THAT(notes->notes, IsEmpty());
      }
      EXPECT_TRUE(std::isfinite(*history->epochs.back().Find("loss")));
    }
  }
}

// Without a lower limit, this many halvings would make the scale 0, and every later step would be
// skipped.
TEST(SkippedSteps, LossScaleHasLowerLimit) {
  const auto trainer =
      testing::SmallTrainer({.network = NetOfInfiniteGradients("zeros"),
                             .optimizer = nn::LossScaleOptimizer(nn::SGD({.learning_rate = 0.01})),
                             .steps_per_execution = 50});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history =
      (*trainer)->Fit(data::Dataset::FromArrays(testing::Points(400)).Batch(1), {});
  ASSERT_TRUE(history.ok()) << history.status();
  const auto state = (*trainer)->State();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->Find("optimizer/dynamic_scale")->data<float>()[0], std::exp2(-100.0f));
  EXPECT_EQ(state->Find("optimizer/updates")->data<int32_t>()[0], 0);
}

}  // namespace skipped_steps_test
}  // namespace penstock::train
