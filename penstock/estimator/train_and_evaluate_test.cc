#include "penstock/estimator/train_and_evaluate.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_model.h"

namespace penstock::estimator {
namespace train_and_evaluate_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::SmallModelFn;
using testing::TemporaryFolder;
using testing::TestBatches;
using testing::TrainBatches;

class TrainAndEvaluateTest : public ::testing::Test {
 protected:
  TrainAndEvaluateTest() {
    config_.save_checkpoints_steps = 4;
    config_.clock = &clock_;
    config_.log = [this](absl::string_view line) {
      if (absl::StartsWith(line, "evaluation of step")) {
        evaluated_.emplace_back(line.substr(0, line.find(':')));
      }
    };
  }
  // Advances the clock by a second in each step.
  Hook Tick() {
    class TickHook : public SessionRunHook {
     public:
      explicit TickHook(base::FakeClock* clock) : clock_(clock) {}
      SessionRunArgs BeforeRun(RunContext&) override {
        clock_->Advance(1);
        return {};
      }
      base::FakeClock* clock_;
    };
    return std::make_shared<TickHook>(&clock_);
  }

  base::FakeClock clock_;
  RunConfig config_ = QuietConfig();
  std::vector<std::string> evaluated_;
  const TemporaryFolder folder_;
};

TEST_F(TrainAndEvaluateTest, EvaluatesCheckpointsButTheFirstAndThrottledOnes) {
  Estimator estimator({.model_fn = SmallModelFn, .model_dir = folder_.path(), .config = config_});
  const absl::StatusOr<EvalResult> result =
      TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 18, .hooks = {Tick()}},
                       {.input_fn = TestBatches(), .throttle_secs = 6});
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(result->at("global_step"), 18);
  // Checkpoints of steps 0, 4, 8, 12, 16 and 18, a second for each step.
  EXPECT_THAT(evaluated_, ElementsAre("evaluation of step 4", "evaluation of step 12",
                                      "evaluation of step 18"));
}

TEST_F(TrainAndEvaluateTest, EvaluatesAFinishedTraining) {
  Estimator estimator({.model_fn = SmallModelFn, .model_dir = folder_.path(), .config = config_});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 3}), absl::OkStatus());
  const absl::StatusOr<EvalResult> result =
      TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 3},
                       {.input_fn = TestBatches(), .name = "held_out"});
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(result->at("global_step"), 3);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/eval_held_out"));
}

TEST(WarmStart, TakesVariablesOfAnotherCheckpoint) {
  const TemporaryFolder from, to, renamed, missing;
  Estimator first({.model_fn = SmallModelFn, .model_dir = from.path(), .config = QuietConfig()});
  ASSERT_EQ(first.Train(TrainBatches(), {.steps = 5}), absl::OkStatus());
  const auto train = [&](const std::string& folder, WarmStartSettings settings, double rate) {
    Estimator estimator({.model_fn = SmallModelFn,
                         .model_dir = folder,
                         .config = QuietConfig(),
                         .params = {{"rate", rate}},
                         .warm_start_from = std::move(settings)});
    return estimator.Train(TrainBatches(), {.steps = 1});
  };
  // A learning rate of 0 keeps the initial values.
  ASSERT_EQ(train(to.path(), {from.path(), "hidden/k"}, 0), absl::OkStatus());
  Estimator second({.model_fn = SmallModelFn, .model_dir = to.path(), .config = QuietConfig()});
  EXPECT_TRUE(base::BitwiseEqual(*first.GetVariableValue("hidden/kernel"),
                                 *second.GetVariableValue("hidden/kernel")));
  EXPECT_FALSE(base::BitwiseEqual(*first.GetVariableValue("logits/kernel"),
                                  *second.GetVariableValue("logits/kernel")));

  ASSERT_EQ(
      train(renamed.path(), {from.path(), "hidden/bias", {{"hidden/bias", "hidden/bias/Adam"}}}, 0),
      absl::OkStatus());
  Estimator third({.model_fn = SmallModelFn, .model_dir = renamed.path(), .config = QuietConfig()});
  EXPECT_TRUE(base::BitwiseEqual(*first.GetVariableValue("hidden/bias/Adam"),
                                 *third.GetVariableValue("hidden/bias")));

  EXPECT_THAT(train(missing.path(), {from.path(), "nothing"}, 0).message(),
              HasSubstr("matches none of the model's trainable variables"));
  EXPECT_THAT(train(missing.path(), {from.path(), "("}, 0).message(),
              HasSubstr("is not a regular expression"));
  EXPECT_THAT(train(missing.path(), {from.path(), ".*", {{"hidden/bias", "x"}}}, 0).message(),
              HasSubstr("has no variable 'x'"));
  EXPECT_THAT(train(missing.path(), {"/no/such/folder"}, 0).message(), HasSubstr("warm start"));
}

}  // namespace train_and_evaluate_test
}  // namespace penstock::estimator
