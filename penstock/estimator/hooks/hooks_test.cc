#include "penstock/estimator/hooks/hooks.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/summary.h"

namespace penstock::estimator {
namespace hooks_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::SmallEstimator;
using testing::SmallModelFn;
using testing::TemporaryFolder;
using testing::TestBatches;
using testing::TrainBatches;

// Records the calls of its methods.
class Recorder : public SessionRunHook {
 public:
  Recorder(std::string name, std::vector<std::string>* calls)
      : name_(std::move(name)), calls_(calls) {}
  absl::Status Begin() override { return Record("begin"); }
  absl::Status AfterCreateSession(RunContext&) override { return Record("create"); }
  SessionRunArgs BeforeRun(RunContext&) override {
    (void)Record("before");
    return {.fetches = {session::GetGlobalStep()}};
  }
  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    // The value at the start of the run.
    EXPECT_EQ(values.results.at(0).item<int64_t>(), context.global_step() - 1);
    return Record("after");
  }
  absl::Status End(RunContext&) override { return Record("end"); }

 private:
  absl::Status Record(absl::string_view call) {
    calls_->push_back(absl::StrCat(name_, " ", call));
    return absl::OkStatus();
  }
  std::string name_;
  std::vector<std::string>* calls_;
};

TEST(SessionRunHook, IsCalledInTensorFlowsOrder) {
  const TemporaryFolder folder;
  std::vector<std::string> calls;
  Estimator estimator = SmallEstimator(folder.path());
  ASSERT_EQ(estimator.Train(TrainBatches(), {.hooks = {std::make_shared<Recorder>("a", &calls),
                                                       std::make_shared<Recorder>("b", &calls)},
                                             .steps = 2}),
            absl::OkStatus());
  EXPECT_THAT(calls, ElementsAre("a begin", "b begin", "a create", "b create", "a before",
                                 "b before", "a after", "b after", "a before", "b before",
                                 "a after", "b after", "a end", "b end"));
}

// In TensorFlow: the saver, the program's hooks, then those of the EstimatorSpec.
TEST(SessionRunHook, OfTheSpecComesAfterTheProgramsAndTheCheckpoint) {
  const TemporaryFolder folder;
  std::vector<std::string> calls;
  class Listener : public CheckpointSaverListener {
   public:
    explicit Listener(std::vector<std::string>* calls) : calls_(calls) {}
    absl::Status AfterSave(RunContext&, int64_t step) override {
      calls_->push_back(absl::StrCat("saved ", step));
      return absl::OkStatus();
    }

   private:
    std::vector<std::string>* calls_;
  };
  Estimator estimator(
      {.model_fn =
           [&calls](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
             EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
             spec.training_hooks = {std::make_shared<Recorder>("spec", &calls)};
             return spec;
           },
       .model_dir = folder.path(),
       .config = QuietConfig()});
  ASSERT_EQ(
      estimator.Train(TrainBatches(), {.hooks = {std::make_shared<Recorder>("program", &calls)},
                                       .steps = 1,
                                       .saving_listeners = {std::make_shared<Listener>(&calls)}}),
      absl::OkStatus());
  EXPECT_THAT(calls, ElementsAre("program begin", "spec begin", "saved 0", "program create",
                                 "spec create", "program before", "spec before", "program after",
                                 "spec after", "saved 1", "program end", "spec end"));
}

TEST(SessionRunHook, StopsTrainingOnRequest) {
  class StopAfterThree : public SessionRunHook {
    absl::Status AfterRun(RunContext& context, const RunValues&) override {
      if (context.global_step() == 3) context.RequestStop();
      return absl::OkStatus();
    }
  };
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  ASSERT_EQ(estimator.Train(TrainBatches(), {.hooks = {std::make_shared<StopAfterThree>()}}),
            absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 3);
}

TEST(SessionRunHook, ReportsExceptions) {
  class Throws : public SessionRunHook {
    SessionRunArgs BeforeRun(RunContext&) override { throw std::runtime_error("a mistake"); }
  };
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  EXPECT_THAT(estimator.Train(TrainBatches(), {.hooks = {std::make_shared<Throws>()}}).message(),
              HasSubstr("a mistake"));
  EXPECT_THAT(estimator.Train(TrainBatches(), {.hooks = {nullptr}}).message(),
              HasSubstr("must not be null"));
}

TEST(StopAtStepHook, CountsFromTheStartOrFromZero) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  const auto train = [&](const StopAtStepOptions& options) {
    return estimator.Train(TrainBatches(), {.hooks = {StopAtStepHook(options)}});
  };
  ASSERT_EQ(train({.num_steps = 2}), absl::OkStatus());
  ASSERT_EQ(train({.num_steps = 2}), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 4);
  ASSERT_EQ(train({.last_step = 6}), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 6);
  EXPECT_THAT(train({}).message(), HasSubstr("exactly one of num_steps and last_step"));
  EXPECT_THAT(train({.num_steps = 1, .last_step = 1}).message(), HasSubstr("exactly one"));
  EXPECT_THAT(train({.last_step = 0}).message(), HasSubstr("last_step is 0"));
}

// A model_fn whose only variable counts the steps; the loss is NaN in step `nan_step`, or never.
ModelFn CountingModel(int64_t nan_step, Hooks hooks = {}) {
  return [nan_step, hooks](const NamedTensors& features, const NamedTensors&,
                           ModeKeys mode) -> EstimatorSpec {
    const session::Variable step = session::GetGlobalStep();
    const session::Tensor number = session::Cast(step.Value() + 1, base::DType::kF32, "counted");
    const session::Tensor mean = session::ReduceMean(features["x"]);
    const session::Tensor zero =
        session::Cast(session::NotEqual(step.Value() + 1, nan_step), base::DType::kF32);
    // 0 / 0 in that step, otherwise the number of the step.
    const session::Tensor loss = number * zero / zero + mean * 0;
    session::summary::Scalar("number", number);
    Hooks own = hooks;
    own.push_back(LoggingTensorHook({.tensors = {{"number", number}}, .every_n_iter = 3}));
    return {.mode = mode,
            .loss = loss,
            .train_op = session::Operation(
                session::AssignAdd(step, session::Constant(base::Array::Scalar<int64_t>(1)))),
            .training_hooks = own};
  };
}

TEST(LoggingTensorHook, PrintsTheFirstAndEveryNthStep) {
  RunConfig config = QuietConfig();
  std::vector<std::string> log;
  config.log = [&](absl::string_view line) {
    if (absl::StrContains(line, "number")) log.emplace_back(line.substr(0, line.find(" (")));
  };
  const TemporaryFolder folder;
  Estimator estimator(
      {.model_fn = CountingModel(-1), .model_dir = folder.path(), .config = config});
  // TensorFlow's hooks are often made outside of the model_fn, with names of tensors.
  const Hook by_name = LoggingTensorHook(
      {.tensors = {{"number", "counted"}, {"same", "counted:0"}}, .every_n_iter = 6});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.hooks = {by_name}, .steps = 8}), absl::OkStatus());
  EXPECT_THAT(
      log, ElementsAre("step 1: number = 1, same = 1", "step 1: number = 1", "step 4: number = 4",
                       "step 7: number = 7, same = 7", "step 7: number = 7"));
}

TEST(LoggingTensorHook, PrintsEveryNSecondsAndAtTheEnd) {
  base::FakeClock clock;
  class Tick : public SessionRunHook {
   public:
    explicit Tick(base::FakeClock* clock) : clock_(clock) {}
    absl::Status AfterRun(RunContext&, const RunValues&) override {
      clock_->Advance(1);
      return absl::OkStatus();
    }
    base::FakeClock* clock_;
  };
  RunConfig config = QuietConfig();
  std::vector<std::string> log;
  config.log = [&](absl::string_view line) {
    if (absl::StartsWith(line, "values")) log.emplace_back(line);
  };
  const TemporaryFolder folder;
  Estimator estimator(
      {.model_fn =
           [&](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
             EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
             spec.training_hooks = {
                 std::make_shared<Tick>(&clock),
                 LoggingTensorHook({.tensors = {{"step", session::GetGlobalStep().Value()}},
                                    .every_n_secs = 2,
                                    .at_end = true,
                                    .formatter =
                                        [](const base::NamedArrays& values) {
                                          return absl::StrCat("values ",
                                                              values[0].second.item<int64_t>());
                                        },
                                    .clock = &clock})};
             return spec;
           },
       .model_dir = folder.path(),
       .config = config});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 4}), absl::OkStatus());
  EXPECT_THAT(log, ElementsAre("values 0", "values 3", "values 4"));
}

TEST(LoggingTensorHook, RejectsContradictions) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  const auto message = [&](const LoggingTensorOptions& options) {
    return std::string(
        estimator.Train(TrainBatches(), {.hooks = {LoggingTensorHook(options)}}).message());
  };
  EXPECT_THAT(message({}), HasSubstr("has no tensors"));
  EXPECT_THAT(message({.tensors = {{"x", session::Tensor()}}, .every_n_iter = 1}),
              HasSubstr("'x': it is invalid"));
  EXPECT_THAT(message({.tensors = {{"x", "softmax_tensor"}}, .every_n_iter = 1}),
              HasSubstr("'x': "));
  EXPECT_THAT(message({.tensors = {{"x", "global_step/Assign:3"}}, .every_n_iter = 1}),
              HasSubstr("outputs"));
}

TEST(NanTensorHook, NamesTheStepAndSavesNoCheckpointAfterIt) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 2;
  const TemporaryFolder folder;
  Estimator estimator({.model_fn = CountingModel(5), .model_dir = folder.path(), .config = config});
  const absl::Status status = estimator.Train(TrainBatches(), {.steps = 20});
  EXPECT_THAT(status.message(), HasSubstr("is NaN in step 5"));
  EXPECT_THAT(*estimator.LatestCheckpoint(), HasSubstr("model.ckpt-4"));
}

TEST(NanTensorHook, IsLookedAtWhenTrainingEnds) {
  const TemporaryFolder folder;
  Estimator estimator(
      {.model_fn = CountingModel(3), .model_dir = folder.path(), .config = QuietConfig()});
  EXPECT_THAT(estimator.Train(TrainBatches(), {.steps = 4}).message(),
              HasSubstr("is NaN in step 3"));
}

// Advances a clock in each step.
class Tick : public SessionRunHook {
 public:
  explicit Tick(base::FakeClock* clock, double seconds = 0.001)
      : clock_(clock), seconds_(seconds) {}
  SessionRunArgs BeforeRun(RunContext&) override {
    clock_->Advance(seconds_);
    return {};
  }

 private:
  base::FakeClock* clock_;
  double seconds_;
};

TEST(CheckpointSaverHook, SavesEveryFewSeconds) {
  base::FakeClock clock;
  RunConfig config = QuietConfig();
  config.save_checkpoints_secs = 5;
  config.clock = &clock;
  std::vector<std::string> saved;
  config.log = [&](absl::string_view line) {
    if (absl::StrContains(line, "saved")) saved.emplace_back(line.substr(line.rfind('-') + 1));
  };
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path(), config, {}, CountingModel(-1));
  ASSERT_EQ(
      estimator.Train(TrainBatches(), {.hooks = {std::make_shared<Tick>(&clock, 2)}, .steps = 8}),
      absl::OkStatus());
  EXPECT_THAT(saved, ElementsAre("0", "3", "6", "8"));
}

TEST(StepCounterHook, PrintsStepsOfASecond) {
  base::FakeClock clock;
  RunConfig config = QuietConfig();
  std::vector<std::string> log;
  config.log = [&](absl::string_view line) {
    if (absl::StrContains(line, "global_step")) log.emplace_back(line);
  };
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path(), config, {}, CountingModel(-1));
  const Hook counter = StepCounterHook({.every_n_steps = 3, .clock = &clock});
  ASSERT_EQ(estimator.Train(TrainBatches(),
                            {.hooks = {std::make_shared<Tick>(&clock, 0.5), counter}, .steps = 7}),
            absl::OkStatus());
  EXPECT_THAT(log, ElementsAre("global_step/sec: 2", "global_step/sec: 2"));
}

TEST(Progress, PrintsLossAndSpeedInPlainWords) {
  base::FakeClock clock;
  RunConfig config = QuietConfig();
  config.log_step_count_steps = 4;
  config.clock = &clock;
  std::vector<std::string> log;
  config.log = [&](absl::string_view line) { log.emplace_back(line); };
  const TemporaryFolder folder;
  Estimator estimator(
      {.model_fn = CountingModel(-1), .model_dir = folder.path(), .config = config});
  ASSERT_EQ(
      estimator.Train(TrainBatches(), {.hooks = {std::make_shared<Tick>(&clock)}, .steps = 8}),
      absl::OkStatus());
  EXPECT_THAT(log, ::testing::IsSupersetOf({"step 1: loss = 1", "step 4: loss = 4 (1,000 steps/s)",
                                            "step 8: loss = 8 (1,000 steps/s)"}));
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("saved checkpoint")));
}

TEST(SummarySaver, WritesEventFiles) {
  RunConfig config = QuietConfig();
  config.save_summary_steps = 2;
  const TemporaryFolder folder;
  Estimator estimator(
      {.model_fn = CountingModel(-1), .model_dir = folder.path(), .config = config});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 4}), absl::OkStatus());
  int events = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    events += absl::StrContains(entry.path().filename().string(), "tfevents");
  }
  EXPECT_GE(events, 1);
}

// summary::MergeAll() of a graph without summaries is an invalid tensor.
TEST(SummarySaver, RejectsAnInvalidSummary) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  const Hook hook = SummarySaverHook(
      {.save_steps = 1, .output_dir = folder.path(), .summary_ops = {session::Tensor()}});
  EXPECT_THAT(estimator.Train(TrainBatches(), {.hooks = {hook}, .steps = 1}).message(),
              HasSubstr("an invalid tensor is among the summary_ops"));
}

TEST(FinalOpsHook, EvaluatesAtTheEnd) {
  const TemporaryFolder folder;
  std::shared_ptr<FinalOpsHook> final_ops;
  Estimator estimator(
      {.model_fn =
           [&](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
             EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
             final_ops =
                 std::make_shared<FinalOpsHook>(session::Fetches{session::GetGlobalStep().Value()});
             spec.training_hooks = {final_ops};
             return spec;
           },
       .model_dir = folder.path(),
       .config = QuietConfig()});
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 3}), absl::OkStatus());
  ASSERT_EQ(final_ops->final_ops_values().size(), 1u);
  EXPECT_EQ(final_ops->final_ops_values()[0].item<int64_t>(), 3);
}

}  // namespace hooks_test
}  // namespace penstock::estimator
