// A model_dir whose bytes change, or that is something else or is gone while a training uses it: an error that names it, or
// nothing changes.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/estimator/train_and_evaluate.h"
#include "penstock/session/train/saver.h"

namespace penstock::estimator {
namespace damage_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::SmallModelFn;
using testing::TestBatches;
using testing::TrainBatches;

class Damage : public testing::SmallEstimatorTest {
 protected:
  static std::string Read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {(std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()};
  }
  static void Write(const std::string& file, absl::string_view text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  }
};

// Never other values than those that were saved.
TEST_F(Damage, ChangedBytesAreAnErrorOrChangeNothing) {
  Estimator estimator = Make();
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  const std::string path = File("model.ckpt-2"), pristine = folder() + "/pristine";
  fs::copy(dir(), pristine);
  const base::NamedArrays saved = session::train::LoadCheckpoint(path).value();
  const std::vector<std::string> names = {"model.ckpt-2.index", "model.ckpt-2.data-00000-of-00001",
                                          "model.ckpt-2.position", "checkpoint"};
  for (base::RandomCases cases(150); cases.Next() && !HasFailure();) {
    base::Random random(cases.seed());
    const std::string& name = names[random.Next() % names.size()];
    const std::string whole = Read(File(name));
    std::string changed = whole;
    std::set<size_t> places;
    for (uint64_t i = 1 + random.Next() % 3; i > 0; --i) {
      const size_t at = random.Next() % whole.size();
      changed[at] = static_cast<char>(changed[at] ^ (1 << random.Next() % 8));
      places.insert(at);
    }
    if (random.Next() % 4 == 0) changed.resize(random.Next() % whole.size());
    Write(File(name), changed);
    SCOPED_TRACE(
        absl::StrCat(cases.Describe(), ": ", name, " at ", *places.begin(), " of ", whole.size()));
    const auto loaded = session::train::LoadCheckpoint(path);
    if (loaded.ok()) {
      EXPECT_EQ(loaded->size(), saved.size());
      for (const auto& [variable, value] : saved) {
        const base::Array* const now = loaded->Find(variable);
        EXPECT_TRUE(now != nullptr && base::BitwiseEqual(*now, value)) << variable;
      }
    } else {
      EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("model.ckpt-2"));
    }
    const auto latest = estimator.LatestCheckpoint();
    if (!latest.ok()) {
      EXPECT_THAT(std::string(latest.status().message()), HasSubstr("checkpoint"));
    }
    const std::string error = TrainError(estimator, {.max_steps = 2});
    if (!error.empty()) {
      EXPECT_THAT(error, HasSubstr("/run/"));
    }
    // A training may have saved something.
    fs::remove_all(dir());
    fs::copy(pristine, dir());
  }
}

// Training from the start would replace them.
TEST_F(Damage, AStateFileThatNamesNoCheckpointLosesNone) {
  std::string log;
  RunConfig config = QuietConfig();
  config.log = [&](absl::string_view line) { absl::StrAppend(&log, line, "\n"); };
  Estimator estimator = Make(SmallModelFn, config);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.max_steps = 2}), absl::OkStatus());
  int64_t step = 2;
  for (const char* text : {"", "# nothing\n", "model_checkpoint_path: \"model.ckpt-77\"\n"}) {
    Write(File("checkpoint"), text);
    log.clear();
    EXPECT_EQ(estimator.LatestCheckpoint().value(), File(absl::StrCat("model.ckpt-", step)));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("checkpoint names no checkpoint that exists, using "
                                            "model.ckpt-",
                                            step, ", the newest one in the folder")));
    EXPECT_EQ(TrainError(estimator), "");
    EXPECT_EQ(Step(), ++step);
  }
  // Without checkpoints it says nothing.
  fs::remove_all(dir());
  fs::create_directory(dir());
  Write(File("checkpoint"), "");
  EXPECT_EQ(TrainError(estimator), "");
  EXPECT_EQ(Step(), 1);
}

TEST_F(Damage, AModelDirThatIsAPipeIsAnErrorNotAHang) {
  ASSERT_EQ(::mkfifo(dir().c_str(), 0600), 0);
  Estimator estimator = Make();
  EXPECT_THAT(TrainError(estimator), HasSubstr("/run"));
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()), HasSubstr("/run"));
  EXPECT_FALSE(estimator.GetVariableNames().ok());
}

// Calls a function after each step.
class EachStep : public SessionRunHook {
 public:
  explicit EachStep(std::function<void(int64_t)> action) : action_(std::move(action)) {}
  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    action_(context.global_step());
    return absl::OkStatus();
  }

 private:
  const std::function<void(int64_t)> action_;
};

TEST_F(Damage, AModelDirThatIsRemovedMeanwhileIsMadeAgain) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 2;
  config.save_summary_steps = 1;
  config.log_step_count_steps = 1;
  Estimator estimator = Make(SmallModelFn, config);
  const auto removes = std::make_shared<EachStep>([&](int64_t step) {
    if (step % 3 == 0) fs::remove_all(dir());
  });
  EXPECT_EQ(TrainError(estimator, {.hooks = {removes}, .max_steps = 7}), "");
  EXPECT_EQ(Step(), 7);
  EXPECT_EQ(TrainError(estimator, {.max_steps = 8}), "");
}

TEST_F(Damage, AModelDirThatBecomesAFileMeanwhileIsAnErrorThatNamesIt) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 2;
  Estimator estimator = Make(SmallModelFn, config);
  const auto replaces = std::make_shared<EachStep>([&](int64_t step) {
    if (step != 3) return;
    fs::rename(dir(), folder() + "/moved");
    Write(dir(), "a file");
  });
  EXPECT_THAT(TrainError(estimator, {.hooks = {replaces}, .max_steps = 7}), HasSubstr("/run"));
  fs::remove(dir());
  fs::rename(folder() + "/moved", dir());
  EXPECT_EQ(Step(), 2);
  EXPECT_EQ(TrainError(estimator, {.max_steps = 4}), "");
}

// Another training there, or an evaluation, at the third step.
TEST_F(Damage, ASecondTrainingInTheFolderIsAnErrorAtItsStart) {
  Estimator estimator = Make(), second = Make();
  std::string error, evaluation;
  int64_t evaluated = 0;
  const auto others = std::make_shared<EachStep>([&](int64_t step) {
    if (step != 3) return;
    error = TrainError(second);
    const auto result = second.Evaluate(TestBatches());
    evaluation = std::string(result.status().message());
    ++evaluated;
  });
  EXPECT_EQ(TrainError(estimator, {.hooks = {others}, .max_steps = 4}), "");
  EXPECT_THAT(error, HasSubstr("another training saves its checkpoints in " + dir()));
  EXPECT_EQ(evaluation, "");
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(TrainError(second, {.max_steps = 5}), "") << "the lock ends with the training";
}

// Two estimators, each with evaluations and summaries, in one folder, which is a mistake: one waits a moment, and is
// rejected if the other one still trains. What is saved is complete.
TEST_F(Damage, TwoTrainingsWithEvaluationsInOneFolder) {
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 1;
  config.keep_checkpoint_max = 1;
  config.save_summary_steps = 1;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Estimator estimator = Make(SmallModelFn, config);
      const auto result = TrainAndEvaluate(estimator, {.input_fn = TrainBatches(), .max_steps = 8},
                                           {.input_fn = TestBatches(), .throttle_secs = 0});
      if (!result.ok()) {
        EXPECT_THAT(std::string(result.status().message()), HasSubstr("another training saves"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Estimator estimator = Make(SmallModelFn, config);
  EXPECT_EQ(TrainError(estimator, {.max_steps = 9}), "");
  EXPECT_EQ(Step(), 9);
}

}  // namespace damage_test
}  // namespace penstock::estimator
