// Trainings that are interrupted and resumed, and readers of a model_dir that another training
// writes.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/train/saver.h"

namespace penstock::estimator {
namespace resume_test {

using ::testing::HasSubstr;
namespace fs = std::filesystem;
using testing::QuietConfig;
using testing::SmallEstimator;
using testing::TemporaryFolder;
using testing::TestBatches;
using testing::TrainBatches;

// Fails after `steps` runs, without the hooks' End: as a process that is killed.
class FailAfter : public SessionRunHook {
 public:
  explicit FailAfter(int64_t steps) : left_(steps) {}
  absl::Status AfterRun(RunContext&, const RunValues&) override {
    return --left_ == 0 ? absl::AbortedError("killed by the test") : absl::OkStatus();
  }

 private:
  int64_t left_;
};

base::NamedArrays Variables(const Estimator& estimator) {
  const auto arrays = session::train::LoadCheckpoint(*estimator.LatestCheckpoint());
  return arrays.ok() ? *arrays : base::NamedArrays();
}

void ExpectSameVariables(const Estimator& a, const Estimator& b) {
  const base::NamedArrays left = Variables(a), right = Variables(b);
  ASSERT_GT(left.size(), 4u);
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, value] : left) {
    ASSERT_NE(right.Find(name), nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(value, *right.Find(name))) << name;
  }
}

// Dropout draws random numbers, Shuffle another order in each epoch of 12 batches.
TEST(Resume, ContinuesBitForBitAfterBeingKilledAtAnyStep) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 5;
  const Params params = {{"dropout", 0.3}};
  const TemporaryFolder undisturbed;
  Estimator expected = SmallEstimator(undisturbed.path(), config, params);
  ASSERT_EQ(expected.Train(TrainBatches(), {.max_steps = 23}), absl::OkStatus());
  for (const int64_t killed_after : {1, 5, 13, 22}) {
    const TemporaryFolder folder;
    {
      Estimator first = SmallEstimator(folder.path(), config, params);
      const absl::Status killed = first.Train(
          TrainBatches(), {.hooks = {std::make_shared<FailAfter>(killed_after)}, .max_steps = 23});
      ASSERT_TRUE(absl::IsAborted(killed)) << killed;
    }
    Estimator second = SmallEstimator(folder.path(), config, params);
    EXPECT_EQ(second.GetVariableValue("global_step")->item<int64_t>(), killed_after / 5 * 5);
    ASSERT_EQ(second.Train(TrainBatches(), {.max_steps = 23}), absl::OkStatus());
    ExpectSameVariables(expected, second);
  }
}

TEST(Resume, HasTheSameSeedWithoutTfRandomSeed) {
  RunConfig config = QuietConfig();
  config.tf_random_seed.reset();
  config.save_checkpoints_steps = 5;
  const TemporaryFolder folder;
  Estimator first = SmallEstimator(folder.path(), config);
  ASSERT_EQ(first.Train(TrainBatches(), {.max_steps = 5}), absl::OkStatus());
  // Two continuations of one checkpoint see the same batches.
  const TemporaryFolder copy;
  fs::copy(folder.path(), copy.path(), fs::copy_options::recursive);
  Estimator second = SmallEstimator(copy.path(), config);
  ASSERT_EQ(first.Train(TrainBatches(), {.max_steps = 15}), absl::OkStatus());
  ASSERT_EQ(second.Train(TrainBatches(), {.max_steps = 15}), absl::OkStatus());
  ExpectSameVariables(first, second);
}

TEST(Resume, TwoCallsEqualOne) {
  const TemporaryFolder one, two;
  Estimator whole = SmallEstimator(one.path()), parts = SmallEstimator(two.path());
  ASSERT_EQ(whole.Train(TrainBatches(), {.steps = 20}), absl::OkStatus());
  ASSERT_EQ(parts.Train(TrainBatches(), {.steps = 7}), absl::OkStatus());
  ASSERT_EQ(parts.Train(TrainBatches(), {.steps = 13}), absl::OkStatus());
  ExpectSameVariables(whole, parts);
}

TEST(Resume, StartsTheInputAgainAfterItsEnd) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  ASSERT_EQ(estimator.Train(TestBatches()), absl::OkStatus());  // 4 batches
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 4);
  ASSERT_EQ(estimator.Train(TestBatches()), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 8);
}

TEST(Resume, StartsTheInputAgainOnRequestAndWhenItHasChanged) {
  for (const bool changed : {false, true}) {
    RunConfig config = QuietConfig();
    config.resume_input = changed;
    std::string log;
    config.log = [&log](absl::string_view line) { absl::StrAppend(&log, line, "\n"); };
    const TemporaryFolder folder;
    Estimator estimator = SmallEstimator(folder.path(), config);
    ASSERT_EQ(estimator.Train(TestBatches(), {.steps = 3}), absl::OkStatus());
    // From the position of the checkpoint there would be 1 batch left of 4.
    const data::Dataset again = changed ? TestBatches().Prefetch(3) : TestBatches();
    ASSERT_EQ(estimator.Train(again), absl::OkStatus());
    EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 3 + 4);
    EXPECT_EQ(absl::StrContains(log, "the input has changed"), changed) << log;
  }
}

TEST(Resume, IgnoresCheckpointsWithoutIndex) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 5;
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path(), config);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 10}), absl::OkStatus());
  // A process that was killed between data and index.
  fs::remove(folder.path() + "/model.ckpt-10.index");
  EXPECT_THAT(*estimator.LatestCheckpoint(), HasSubstr("model.ckpt-5"));
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 12}), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 12);
}

TEST(Resume, KeepsTheNewestCheckpointsAndTheirPositions) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 2;
  config.keep_checkpoint_max = 2;
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path(), config);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 6}), absl::OkStatus());
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 8}), absl::OkStatus());
  std::vector<std::string> indices, positions;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    if (absl::EndsWith(name, ".index")) indices.push_back(name);
    if (absl::EndsWith(name, ".position")) positions.push_back(name);
  }
  EXPECT_THAT(indices, ::testing::UnorderedElementsAre("model.ckpt-6.index", "model.ckpt-8.index"));
  EXPECT_THAT(positions,
              ::testing::UnorderedElementsAre("model.ckpt-6.position", "model.ckpt-8.position"));
}

TEST(Resume, KeepsACheckpointOfEveryFewHoursWithItsPosition) {
  base::FakeClock clock;
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 1;
  config.keep_checkpoint_max = 1;
  config.keep_checkpoint_every_n_hours = 2;
  config.clock = &clock;
  class Hour : public SessionRunHook {
   public:
    explicit Hour(base::FakeClock* clock) : clock_(clock) {}
    SessionRunArgs BeforeRun(RunContext&) override {
      clock_->Advance(3600);
      return {};
    }

   private:
    base::FakeClock* clock_;
  };
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path(), config);
  ASSERT_EQ(
      estimator.Train(TrainBatches(), {.hooks = {std::make_shared<Hour>(&clock)}, .steps = 5}),
      absl::OkStatus());
  for (int step = 0; step <= 5; ++step) {
    const std::string path = absl::StrCat(folder.path(), "/model.ckpt-", step);
    const bool kept = step == 3 || step == 5;
    EXPECT_EQ(fs::exists(path + ".index"), kept) << path;
    EXPECT_EQ(fs::exists(path + ".position"), kept) << path;
  }
}

TEST(Resume, RejectsAGraphThatDiffersFromTheCheckpoint) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  Estimator wider = SmallEstimator(folder.path(), QuietConfig(), {{"units", 9}});
  const absl::Status train = wider.Train(TrainBatches(), {.steps = 1});
  EXPECT_EQ(train.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(train.message(), HasSubstr("model.ckpt-1"));
  EXPECT_THAT(train.message(), HasSubstr("hidden/kernel' (float32[4,9], in the checkpoint "
                                         "float32[4,8])"));
  EXPECT_FALSE(wider.Evaluate(TestBatches()).ok());

  Estimator other({.model_fn = [](const NamedTensors& features, const NamedTensors& labels,
                                  ModeKeys mode) -> EstimatorSpec {
                     const session::Tensor logits =
                         session::layers::Dense(features["x"], 3, {.name = "only"});
                     const session::Tensor loss =
                         session::losses::SparseSoftmaxCrossEntropy(labels, logits);
                     return {.mode = mode,
                             .loss = loss,
                             .train_op = session::train::GradientDescentOptimizer(0.1).Minimize(
                                 loss, session::GetGlobalStep())};
                   },
                   .model_dir = folder.path(),
                   .config = QuietConfig()});
  const absl::Status names = other.Train(TrainBatches(), {.steps = 1});
  EXPECT_THAT(names.message(), HasSubstr("the checkpoint lacks 'only/kernel', 'only/bias'"));
  EXPECT_THAT(names.message(), HasSubstr("only the checkpoint has"));
  EXPECT_THAT(names.message(), HasSubstr("'hidden/bias'"));
}

// Only every fourth run is a step, as where gradients are accumulated; the first one of this process is.
TEST(Resume, CountsTheStepsOfATrainOpThatAccumulates) {
  const TemporaryFolder folder;
  Estimator estimator(
      {.model_fn = [](const NamedTensors& features, const NamedTensors& labels,
                      ModeKeys mode) -> EstimatorSpec {
         namespace tf = session;
         const auto number = [](int64_t x) { return tf::Constant(base::Array::Scalar(x)); };
         const tf::Variable runs(base::Array::Scalar<int64_t>(3), "runs", {.trainable = false});
         const tf::Tensor run = tf::AssignAdd(runs, number(1));
         const tf::Tensor step =
             tf::Cast(tf::Equal(tf::Mod(run, number(4)), number(0)), base::DType::kI64);
         return {.mode = mode,
                 .loss = tf::losses::SparseSoftmaxCrossEntropy(labels,
                                                               tf::layers::Dense(features["x"], 3)),
                 .train_op = tf::Operation(tf::AssignAdd(tf::GetGlobalStep(), step))};
       },
       .model_dir = folder.path(),
       .config = QuietConfig()});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 5}), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 5);
  EXPECT_EQ(estimator.GetVariableValue("runs")->item<int64_t>(), 3 + 17);
  EXPECT_THAT(*estimator.LatestCheckpoint(), HasSubstr("model.ckpt-5"));
}

// Saves often, while others evaluate each new checkpoint and old ones are removed.
TEST(Resume, OtherEstimatorsEvaluateEachNewCheckpoint) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 1;
  config.keep_checkpoint_max = 1;
  const TemporaryFolder folder;
  std::atomic<bool> done = false;
  absl::Status trained;
  std::thread trainer([&] {
    Estimator estimator = SmallEstimator(folder.path(), config);
    trained = estimator.Train(TrainBatches(), {.max_steps = 40});
    done = true;
  });
  const auto evaluate = [&] {
    Estimator evaluator = SmallEstimator(folder.path());
    double last = -1;
    for (bool ended = false; !ended;) {
      ended = done;
      const auto latest = evaluator.LatestCheckpoint();
      if (!latest.ok() || latest->empty()) continue;
      const absl::StatusOr<EvalResult> result = evaluator.Evaluate(TestBatches());
      EXPECT_EQ(result.status(), absl::OkStatus());
      if (!result.ok()) break;
      EXPECT_GE(result->at("global_step"), last);
      last = result->at("global_step");
    }
    EXPECT_EQ(last, 40);
  };
  std::thread second(evaluate);
  evaluate();
  second.join();
  trainer.join();
  EXPECT_EQ(trained, absl::OkStatus());
}

// The program of the next test's child process: trains in $PENSTOCK_RESUME_TEST.
TEST(ResumeProcess, TrainsInTheFolderOfTheEnvironment) {
  const char* folder = std::getenv("PENSTOCK_RESUME_TEST");
  if (folder == nullptr) return;  // run by ContinuesAfterAProcessWasKilled only
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 2;
  Estimator estimator = SmallEstimator(folder, config, {{"dropout", 0.3}});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 100000}), absl::OkStatus());
}

// Another process trains, this one evaluates its checkpoints, kills it and continues.
TEST(ResumeProcess, ContinuesAfterAProcessWasKilled) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    ::setenv("PENSTOCK_RESUME_TEST", folder.path().c_str(), 1);
    ::setenv("GTEST_OUTPUT", "", 1);
    ::execl("/proc/self/exe", "estimator_tests",
            "--gtest_filter=ResumeProcess.TrainsInTheFolderOfTheEnvironment", nullptr);
    ::_exit(127);
  }
  ASSERT_GT(child, 0);
  RunConfig config = QuietConfig();
  const Params params = {{"dropout", 0.3}};
  Estimator here = SmallEstimator(folder.path(), config, params);
  double last = 0;
  while (last < 6) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) != 0) FAIL() << "the child ended: " << status;
    const auto latest = here.LatestCheckpoint();
    if (!latest.ok() || latest->empty()) continue;
    const absl::StatusOr<EvalResult> result = here.Evaluate(TestBatches());
    EXPECT_EQ(result.status(), absl::OkStatus());
    last = result.ok() ? result->at("global_step") : 1e9;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const int64_t step = here.GetVariableValue("global_step")->item<int64_t>();
  ASSERT_EQ(here.Train(TrainBatches(), {.max_steps = step + 5}), absl::OkStatus());
  const TemporaryFolder undisturbed;
  Estimator expected = SmallEstimator(undisturbed.path(), config, params);
  ASSERT_EQ(expected.Train(TrainBatches(), {.max_steps = step + 5}), absl::OkStatus());
  ExpectSameVariables(expected, here);
}

TEST(Resume, StartsTheInputAgainAfterStepsThatUsedItUp) {
  for (const bool unknown_length : {false, true}) {
    const TemporaryFolder folder;
    Estimator estimator = SmallEstimator(folder.path());
    const InputFn input = [unknown_length](const Params&) {
      const data::Dataset flowers = data::Dataset::FromArrays(testing::Flowers(30));
      return (unknown_length ? flowers.IgnoreErrors() : flowers).Batch(8);  // 4 batches
    };
    for (int64_t i = 1; i <= 3; ++i) {
      ASSERT_EQ(estimator.Train(input, {.steps = 4}), absl::OkStatus());
      EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 4 * i)
          << unknown_length;
    }
  }
}

}  // namespace resume_test
}  // namespace penstock::estimator
