#include "penstock/estimator/train_and_evaluate.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_estimator.h"

namespace penstock::estimator {
namespace train_and_evaluate_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::SmallEstimator;
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
  Estimator estimator = SmallEstimator(folder_.path(), config_);
  const absl::StatusOr<EvalResult> result =
      TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 18, .hooks = {Tick()}},
                       {.input_fn = TestBatches(), .throttle_secs = 6});
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(result->at("global_step"), 18);
  // Checkpoints of steps 0, 4, 8, 12, 16 and 18, a second for each step.
  EXPECT_THAT(evaluated_, ElementsAre("evaluation of step 4", "evaluation of step 12",
                                      "evaluation of step 18"));
}

TEST_F(TrainAndEvaluateTest, CountsThrottleSecsFromTheBeginningOfAnEvaluation) {
  class Slow : public SessionRunHook {  // an evaluation takes 3 seconds
   public:
    explicit Slow(base::FakeClock* clock) : clock_(clock) {}
    absl::Status End(RunContext&) override {
      clock_->Advance(3);
      return absl::OkStatus();
    }
    base::FakeClock* clock_;
  };
  Estimator estimator = SmallEstimator(folder_.path(), config_);
  const auto result = TrainAndEvaluate(
      estimator, {.input_fn = TrainBatches(), .max_steps = 12, .hooks = {Tick()}},
      {.input_fn = TestBatches(), .hooks = {std::make_shared<Slow>(&clock_)}, .throttle_secs = 5});
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_THAT(evaluated_,
              ElementsAre("evaluation of step 4", "evaluation of step 8", "evaluation of step 12"));
}

TEST_F(TrainAndEvaluateTest, ExportsACheckpointOnce) {
  using Calls = std::vector<std::pair<double, bool>>;
  class Recorder : public Exporter {
   public:
    explicit Recorder(Calls* calls) : calls_(calls) {}
    std::string name() const override { return "recorder"; }
    absl::StatusOr<std::string> Export(Estimator&, const std::string&, const std::string&,
                                       const EvalResult& result, bool is_final) override {
      calls_->emplace_back(result.at("global_step"), is_final);
      return "";
    }
    Calls* calls_;
  };
  Calls calls;
  Estimator estimator = SmallEstimator(folder_.path(), config_);
  const auto result = TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 8},
                                       {.input_fn = TestBatches(),
                                        .exporters = {std::make_shared<Recorder>(&calls)},
                                        .throttle_secs = 0});
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(calls, (Calls{{4, false}, {8, true}}));
}

TEST_F(TrainAndEvaluateTest, EvaluatesAFinishedTraining) {
  Estimator estimator = SmallEstimator(folder_.path(), config_);
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
  // A parser that calls itself for each group would run out of stack.
  EXPECT_THAT(train(missing.path(), {from.path(), std::string(40000, '(')}, 0).message(),
              HasSubstr("has 40000 characters, but must have at most 1000"));
  EXPECT_THAT(train(missing.path(), {from.path(), ".*", {{"hidden/bias", "x"}}}, 0).message(),
              HasSubstr("has no variable 'x'"));
  EXPECT_THAT(train(missing.path(), {"/no/such/folder"}, 0).message(), HasSubstr("warm start"));
}

// ---- Exporters ----

ServingInputReceiverFn Receiver() {
  return BuildRawServingInputReceiverFn(
      {{.name = "x", .dtype = base::DType::kF32, .shape = {-1, 4}}});
}

size_t CountFolders(const std::string& path) {
  std::error_code none;
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path, none),
                                           std::filesystem::directory_iterator()));
}

TEST_F(TrainAndEvaluateTest, ExportersWriteTheirCheckpointsAndRemoveOnlyTheirOwn) {
  Estimator estimator = SmallEstimator(folder_.path(), config_);
  const std::string exports = folder_.path() + "/export/";
  // Of an earlier process.
  std::filesystem::create_directories(exports + "latest/1");
  int compared = 0;
  const auto never = [&](const EvalResult& best, const EvalResult& current) {
    compared += best.at("global_step") < current.at("global_step");
    return false;
  };
  const absl::StatusOr<EvalResult> result = TrainAndEvaluate(
      estimator, {.input_fn = TrainBatches(), .max_steps = 14},
      {.input_fn = TestBatches(),
       .exporters = {FinalExporter("final", Receiver()), LatestExporter("latest", Receiver(), 2),
                     BestExporter("best", Receiver(), never)},
       .throttle_secs = 0});
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(CountFolders(exports + "final"), 1u);
  EXPECT_EQ(CountFolders(exports + "latest"), 3u);  // of 4, 8, 12, 14 the last two
  EXPECT_TRUE(std::filesystem::exists(exports + "latest/1"));
  EXPECT_EQ(CountFolders(exports + "best"), 1u);  // the first
  EXPECT_GE(compared, 3);
}

TEST_F(TrainAndEvaluateTest, AnExporterThatFailsLosesNoCheckpoint) {
  Estimator estimator = SmallEstimator(folder_.path(), config_);
  // Its folder cannot be made any more.
  bool blocks = true;
  const auto receiver = [&] {
    if (blocks) std::ofstream(folder_.path() + "/export") << "a file";
    return Receiver()();
  };
  const EvalSpec spec{.input_fn = TestBatches(),
                      .exporters = {LatestExporter("latest", receiver)},
                      .throttle_secs = 0};
  const absl::Status status =
      TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 12}, spec).status();
  EXPECT_THAT(status.message(),
              ::testing::AllOf(HasSubstr("exporter 'latest' at step 4, whose checkpoint is saved"),
                               HasSubstr("/export")));
  EXPECT_THAT(*estimator.LatestCheckpoint(), HasSubstr("model.ckpt-4"));
  blocks = false;
  std::filesystem::remove(folder_.path() + "/export");
  EXPECT_EQ(
      TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 12}, spec).status(),
      absl::OkStatus());
}

TEST_F(TrainAndEvaluateTest, ExportersOfOneFolderAreRejectedBeforeTheTraining) {
  Estimator estimator = SmallEstimator(folder_.path(), config_);
  const auto error = [&](Exporters exporters) {
    return std::string(TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 2},
                                        {.input_fn = TestBatches(), .exporters = exporters})
                           .status()
                           .message());
  };
  const auto one = FinalExporter("a", Receiver());
  EXPECT_THAT(error({one, LatestExporter("a", Receiver())}), HasSubstr("two exporters are named"));
  EXPECT_THAT(error({FinalExporter("a/b", Receiver())}), HasSubstr("'a/b'"));
  EXPECT_THAT(error({nullptr}), HasSubstr("null exporter"));
  EXPECT_EQ(*estimator.LatestCheckpoint(), "");
}

}  // namespace train_and_evaluate_test
}  // namespace penstock::estimator
