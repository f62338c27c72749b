// What may happen to a training from outside: files that are damaged, missing or something else,
// hooks that fail or stop at each callback, exceptions of the program's functions, absurd intervals.
// Nothing is lost, nothing hangs, and each error names the place.
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>

#include "penstock/base/testing/sanitized.h"
#include "penstock/estimator/feature_column/feature_column.h"
#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/estimator/train_and_evaluate.h"
#include "penstock/session/train/saver.h"

namespace penstock::estimator {
namespace faults_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::SmallModelFn;
using testing::TestBatches;
using testing::TrainBatches;

class Faults : public testing::SmallEstimatorTest {
 protected:
  std::string TrainError(Estimator& estimator, int64_t max_steps = 4) {
    return SmallEstimatorTest::TrainError(estimator, {.max_steps = max_steps});
  }
  static void Write(const std::string& file, absl::string_view text) {
    fs::remove(file);
    std::ofstream(file, std::ios::binary) << text;
  }
};

// ---- Files ----

TEST_F(Faults, ADamagedStateFileIsAnErrorThatNamesIt) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  for (const absl::string_view text : {"\x01\x02", "model_checkpoint_path: ", "no colon"}) {
    Write(File("checkpoint"), text);
    EXPECT_THAT(TrainError(estimator), HasSubstr("run/checkpoint")) << text;
    EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()),
                HasSubstr("run/checkpoint"));
  }
}

TEST_F(Faults, APipeInThePlaceOfAFileIsAnErrorNotAHang) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  for (const char* name : {"checkpoint", "model.ckpt-2.index", "model.ckpt-2.position"}) {
    const std::string file = File(name), kept = File("kept");
    fs::rename(file, kept);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_THAT(TrainError(estimator), HasSubstr("FIFO")) << name;
    fs::remove(file);
    fs::rename(kept, file);
  }
  EXPECT_EQ(estimator.Train(TrainBatches(), {.max_steps = 4}), absl::OkStatus());
}

// As an index that is missing.
TEST_F(Faults, AFolderInThePlaceOfAnIndexIsNoCheckpoint) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  fs::remove(File("model.ckpt-2.index"));
  fs::create_directory(File("model.ckpt-2.index"));
  EXPECT_THAT(*estimator.LatestCheckpoint(), HasSubstr("model.ckpt-0"));
}

TEST_F(Faults, ATruncatedCheckpointIsAnErrorThatNamesTheFile) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  const std::string data = File("model.ckpt-2.data-00000-of-00001");
  const auto size = fs::file_size(data);
  fs::resize_file(data, size / 2);
  EXPECT_THAT(TrainError(estimator), HasSubstr("model.ckpt-2"));
  fs::resize_file(data, size);  // with zeros
  EXPECT_THAT(TrainError(estimator), HasSubstr("model.ckpt-2"));
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()),
              HasSubstr("model.ckpt-2"));
  EXPECT_THAT(std::string(estimator.Predict(TestBatches()).status().message()),
              HasSubstr("model.ckpt-2"));
  fs::remove(data);
  EXPECT_THAT(TrainError(estimator), HasSubstr("model.ckpt-2"));
}

TEST_F(Faults, APositionOfAnyContentIsUsedOrAnError) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  const auto position = [](absl::string_view epoch, absl::string_view elements, bool ended) {
    return absl::StrCat("{\"seed\":\"7\",\"epoch\":", epoch, ",\"elements\":", elements,
                        ",\"ended\":", ended ? "true" : "false",
                        ",\"pipeline\":\"x\",\"draws\":2}");
  };
  const absl::string_view huge = "9223372036854775807", beyond = "18446744073709551615";
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"seed\":7}"), position(huge, "2", true),
        position(beyond, "2", true), position("0", huge, false), position("-1", "2", false),
        position("1.5", "2", false), std::string(10000, '['), std::string("\xff\xfe")}) {
    Write(File("model.ckpt-2.position"), text);
    EXPECT_THAT(TrainError(estimator), HasSubstr("position is corrupt")) << text;
  }
  Write(File("model.ckpt-2.position"), position("3", "2", true));
  EXPECT_EQ(TrainError(estimator), "");
}

TEST_F(Faults, AnotherModelsCheckpointIsAnErrorAndStays) {
  {
    session::Graph graph;
    const auto scope = graph.AsDefault();
    const session::Variable step(base::Array::Of<float>({2}, {1, 2}), "global_step");
    session::Session session("cpu");
    ASSERT_EQ(session.Run(session::GlobalVariablesInitializer()), absl::OkStatus());
    fs::create_directories(dir());
    session::train::Saver saver(session::train::SaverOptions{});
    ASSERT_TRUE(saver.Save(session, File("model.ckpt"), std::optional<int64_t>(9)).ok());
  }
  Estimator estimator = Make();
  EXPECT_THAT(TrainError(estimator), AllOf(HasSubstr("does not fit"), HasSubstr("global_step")));
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()),
              HasSubstr("does not fit"));
  EXPECT_TRUE(fs::exists(File("model.ckpt-9.index")));
}

TEST_F(Faults, AFileInThePlaceOfAFolderIsAnErrorThatNamesIt) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 1}), absl::OkStatus());
  Write(File("eval"), "a file");
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()),
              HasSubstr("run/eval"));
  Write(folder() + "/exports", "a file");
  EXPECT_THAT(
      std::string(
          estimator
              .ExportSavedModel(folder() + "/exports",
                                BuildRawServingInputReceiverFn(
                                    {{.name = "x", .dtype = base::DType::kF32, .shape = {-1, 4}}}))
              .status()
              .message()),
      HasSubstr("/exports"));
}

TEST_F(Faults, TrainingsInOneFolderAtOnceLeaveACompleteCheckpoint) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 1;
  config.keep_checkpoint_max = 2;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Estimator estimator = Make(SmallModelFn, config);
      // One of them may find a file that the other one has removed.
      (void)estimator.Train(TrainBatches(), {.max_steps = 12});
    });
  }
  for (std::thread& thread : threads) thread.join();
  Estimator estimator = Make(SmallModelFn, config);
  EXPECT_EQ(estimator.Train(TrainBatches(), {.max_steps = 13}), absl::OkStatus());
  EXPECT_EQ(Step(), 13);
}

// ---- Hooks ----

enum class Callback { kBegin, kAfterCreateSession, kBeforeRun, kAfterRun, kEnd };
constexpr Callback kCallbacks[] = {Callback::kBegin, Callback::kAfterCreateSession,
                                   Callback::kBeforeRun, Callback::kAfterRun, Callback::kEnd};

// Calls a function in one callback.
class Acts : public SessionRunHook {
 public:
  using Action = std::function<absl::Status(RunContext*)>;
  Acts(Callback at, Action action) : at_(at), action_(std::move(action)) {}
  absl::Status Begin() override { return At(Callback::kBegin, nullptr); }
  absl::Status AfterCreateSession(RunContext& context) override {
    return At(Callback::kAfterCreateSession, &context);
  }
  SessionRunArgs BeforeRun(RunContext& context) override {
    if (!At(Callback::kBeforeRun, &context).ok()) throw std::runtime_error("on purpose");
    return {};
  }
  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    return At(Callback::kAfterRun, &context);
  }
  absl::Status End(RunContext& context) override { return At(Callback::kEnd, &context); }

 private:
  absl::Status At(Callback at, RunContext* context) {
    return at == at_ ? action_(context) : absl::OkStatus();
  }
  const Callback at_;
  const Action action_;
};

TEST_F(Faults, AHookThatFailsAtAnyCallbackLosesNoCheckpoint) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  const auto fails = [](RunContext*) { return absl::AbortedError("on purpose"); };
  for (const Callback at : kCallbacks) {
    const Hook hook = std::make_shared<Acts>(at, fails);
    EXPECT_THAT(estimator.Train(TrainBatches(), {.hooks = {hook}, .steps = 1}).message(),
                HasSubstr("on purpose"));
    EXPECT_THAT(estimator.Evaluate(TestBatches(), {.hooks = {hook}}).status().message(),
                HasSubstr("on purpose"));
    EXPECT_GE(Step(), 2);
  }
  const int64_t before = Step();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  EXPECT_EQ(Step(), before + 1);
}

TEST_F(Faults, AHookMayRequestAStopAtAnyCallback) {
  const auto stop = [](RunContext* context) {
    if (context != nullptr) context->RequestStop();
    return absl::OkStatus();
  };
  Estimator estimator = Make();
  for (const Callback at : kCallbacks) {
    const Hook hook = std::make_shared<Acts>(at, stop);
    EXPECT_EQ(estimator.Train(TrainBatches(), {.hooks = {hook}, .steps = 3}), absl::OkStatus());
    EXPECT_EQ(estimator.Evaluate(TestBatches(), {.hooks = {hook}}).status(), absl::OkStatus());
    const auto stream = estimator.Predict(TestBatches(), {.hooks = {hook}});
    ASSERT_EQ(stream.status(), absl::OkStatus());
    base::NamedArrays example;
    EXPECT_TRUE((*stream)->Next(&example).ok());
  }
}

TEST_F(Faults, AHookThatFetchesOrFeedsNonsenseIsAnError) {
  class Fetches : public SessionRunHook {
    SessionRunArgs BeforeRun(RunContext&) override { return {.fetches = {session::Tensor()}}; }
  };
  class Feeds : public SessionRunHook {
    SessionRunArgs BeforeRun(RunContext&) override {
      return {.feeds = {{session::GetGlobalStep().Value(), base::Array::Of<float>({2}, {1, 2})}}};
    }
  };
  class Closes : public SessionRunHook {
    absl::Status AfterRun(RunContext& context, const RunValues&) override {
      context.session().Close();
      return absl::OkStatus();
    }
  };
  Estimator estimator = Make();
  const auto error = [&](Hook hook) {
    return std::string(
        estimator.Train(TrainBatches(), {.hooks = {std::move(hook)}, .steps = 2}).message());
  };
  EXPECT_THAT(error(std::make_shared<Fetches>()), HasSubstr("invalid tensor or operation"));
  EXPECT_THAT(error(std::make_shared<Feeds>()), HasSubstr("global_step"));
  EXPECT_THAT(error(std::make_shared<Closes>()), HasSubstr("closed"));
}

class CountsSaves : public CheckpointSaverListener {
 public:
  absl::Status AfterSave(RunContext&, int64_t) override {
    ++saves;
    return absl::OkStatus();
  }
  int saves = 0;
};

TEST_F(Faults, ACheckpointSaverOfTheProgramReplacesTheConfigurations) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 1;
  std::vector<std::string> log;
  config.log = [&](absl::string_view line) {
    if (absl::StrContains(line, "saved checkpoint")) log.emplace_back(line);
  };
  Estimator estimator = Make(SmallModelFn, config);
  const auto own = std::make_shared<CountsSaves>(), given = std::make_shared<CountsSaves>();
  const Hook saver =
      CheckpointSaverHook({.checkpoint_dir = dir(), .save_steps = 4, .listeners = {own}});
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(estimator.Train(TrainBatches(),
                              {.hooks = {saver}, .steps = 4, .saving_listeners = {given}}),
              absl::OkStatus());
  }
  EXPECT_EQ(log.size(), 3u);  // 0, 4 and 8
  EXPECT_EQ(own->saves, 3);
  EXPECT_EQ(given->saves, 3);
}

// Also one that the model_fn returns: two savers would remove each other's checkpoints.
TEST_F(Faults, ACheckpointSaverOfTheModelFnReplacesTheConfigurations) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 1;
  config.keep_checkpoint_max = 1;
  const std::string folder = dir();
  const auto model_fn = [folder](const NamedTensors& features, const NamedTensors& labels,
                                 ModeKeys mode, const Params& params) {
    EstimatorSpec spec = SmallModelFn(features, labels, mode, params);
    spec.training_hooks = {
        CheckpointSaverHook({.checkpoint_dir = folder, .save_steps = 1, .max_to_keep = 0})};
    return spec;
  };
  Estimator estimator = Make(model_fn, config);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 4}), absl::OkStatus());
  for (int step = 0; step <= 4; ++step) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(folder, "/model.ckpt-", step, ".index")))
        << step;
  }
}

// ---- Intervals ----

TEST_F(Faults, IntervalsThatNeverEndDoNothing) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = INT64_MAX;
  config.save_summary_steps = INT64_MAX;
  config.log_step_count_steps = INT64_MAX;
  int saves = 0;
  config.log = [&](absl::string_view line) {
    saves += absl::StrContains(line, "saved checkpoint");
  };
  Estimator estimator = Make(SmallModelFn, config);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 3}), absl::OkStatus());
  EXPECT_EQ(saves, 2);  // before the first step and at the end
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 3}), absl::OkStatus());
  EXPECT_EQ(saves, 3);
}

// ---- Functions of the program ----

TEST_F(Faults, ExceptionsOfFunctionsOfASpecAreErrors) {
  RunConfig config = QuietConfig();
  config.tpu_config = {.iterations_per_loop = 1, .num_shards = 1};
  TPUEstimator estimator(
      {.model_fn =
           [](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
             const EstimatorSpec plain = SmallModelFn(features, labels, mode, {});
             TPUEstimatorSpec spec{.mode = mode,
                                   .predictions = plain.predictions,
                                   .loss = plain.loss,
                                   .train_op = plain.train_op};
             spec.eval_metrics.metric_fn = [](const NamedTensors&) -> EvalMetricOps {
               throw std::runtime_error("no metric");
             };
             spec.host_call.host_fn = [](const NamedTensors&) -> session::Operations {
               throw std::runtime_error("no host");
             };
             return spec;
           },
       .model_dir = dir(),
       .config = config,
       .train_batch_size = 8,
       .eval_batch_size = 8});
  const auto train = [](const Params&) { return TrainBatches(); };
  const auto test = [](const Params&) { return TestBatches(); };
  EXPECT_THAT(estimator.Train(train, {.steps = 1}).message(),
              AllOf(HasSubstr("host_call"), HasSubstr("no host")));
  EXPECT_THAT(estimator.Evaluate(test).status().message(),
              AllOf(HasSubstr("eval_metrics"), HasSubstr("no metric")));
}

TEST_F(Faults, ExceptionsOfOtherFunctionsOfTheProgramAreErrors) {
  class Throws : public SessionRunHook {
    int64_t StepsUntilNext(int64_t) const override { throw std::runtime_error("no steps"); }
  };
  EXPECT_THAT(
      Make().Train(TrainBatches(), {.hooks = {std::make_shared<Throws>()}, .steps = 1}).message(),
      HasSubstr("no steps"));
  Estimator transformed({.model_fn = SmallModelFn,
                         .model_dir = dir(),
                         .config = QuietConfig(),
                         .input_transform = [](const data::Dataset&,
                                               const std::vector<std::string>&) -> data::Dataset {
                           throw std::runtime_error("no dataset");
                         }});
  EXPECT_THAT(TrainError(transformed),
              AllOf(HasSubstr("input_transform"), HasSubstr("no dataset")));
  RunConfig config = QuietConfig();
  config.log = [](absl::string_view) { throw std::runtime_error("no log"); };
  Estimator logs = Make(SmallModelFn, config);
  EXPECT_THAT(TrainError(logs), HasSubstr("no log"));
  EXPECT_THAT(logs.Evaluate(TestBatches()).status().message(), HasSubstr("no log"));
  EXPECT_THAT(logs.Predict(TestBatches()).status().message(), HasSubstr("no log"));
}

TEST_F(Faults, AMetricThatIsNoNumberIsAnError) {
  Estimator estimator =
      Make([](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
        if (mode == ModeKeys::kEval) {
          spec.eval_metric_ops["all"] = {spec.predictions["probabilities"],
                                         spec.predictions["probabilities"]};
        }
        return spec;
      });
  EXPECT_FALSE(estimator.Evaluate(TestBatches()).ok());
}

TEST_F(Faults, AModelOfOtherShapesInEvaluationIsAnError) {
  Estimator estimator =
      Make([](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        return SmallModelFn(features, labels, mode, {{"units", mode == ModeKeys::kEval ? 5 : 8}});
      });
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()),
              AllOf(HasSubstr("does not fit"), HasSubstr("hidden/kernel")));
}

TEST_F(Faults, PredictReturnsTheRemainderAndSkipsBatchesWithoutRows) {
  Estimator estimator = Make();
  for (const int64_t rows : {1, 7, 8, 9}) {
    auto stream = estimator.Predict(TestBatches(rows, 8)).value();
    int64_t count = 0;
    for (base::NamedArrays example; stream->Next(&example).value();) ++count;
    EXPECT_EQ(count, rows);
    base::NamedArrays example;
    EXPECT_FALSE(stream->Next(&example).value());  // the end stays
  }
  auto stream = estimator.Predict(TestBatches(8, 8).Take(0)).value();
  base::NamedArrays example;
  EXPECT_FALSE(stream->Next(&example).value());
}

TEST_F(Faults, ATableThatDoesNotFitIntoMemoryIsAnError) {
  // A sanitizer ends the program instead.
  if (base::kSanitized) GTEST_SKIP();
  namespace fc = feature_column;
  for (const int64_t buckets : {int64_t{1} << 45, int64_t{1} << 62}) {
    Estimator estimator =
        Make([buckets](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
          const fc::FeatureColumn ids = fc::CategoricalColumnWithIdentity("label", buckets);
          NamedTensors all = features;
          all.Set("label", labels.Single());
          const session::Tensor net = fc::InputLayer(all, {fc::EmbeddingColumn(ids, 1 << 10)});
          EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
          spec.loss = spec.loss + session::ReduceMean(net);
          return spec;
        });
    EXPECT_NE(TrainError(estimator), "");
  }
}

TEST_F(Faults, InfiniteInputsEndWithTheSteps) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 2}), absl::OkStatus());
  EXPECT_TRUE(estimator.Evaluate(TrainBatches(), {.steps = 3}).ok());
  EXPECT_TRUE(estimator.Evaluate(TestBatches(), {.steps = INT64_MAX}).ok());
}

}  // namespace faults_test
}  // namespace penstock::estimator
