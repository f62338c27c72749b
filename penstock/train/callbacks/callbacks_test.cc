#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/callbacks/learning_rate.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/testing/fake_context.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace callbacks_test {

using testing::FakeContext;
using ::testing::HasSubstr;
using testing::NewPath;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

History FitUntilNan(Trainer& trainer, const base::NamedArrays& points) {
  auto history = trainer.Fit(data::Dataset::FromArrays(points).Batch(8),
                             {.epochs = 2, .callbacks = {TerminateOnNan()}});
  EXPECT_TRUE(history.ok()) << history.status();
  return history.ok() ? *history : History();
}

TEST(LearningRateScheduler, SetsRateOfEachEpochFromPreviousOne) {
  auto trainer = SmallTrainer({.optimizer = nn::SGD({.learning_rate = 0.5})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<double> rates;
  const auto watch = LambdaCallback(
      {.on_epoch_end = [&](train::TrainingContext& run, const Position&, const Logs&) {
        rates.push_back(*run.LearningRate());
        return absl::OkStatus();
      }});
  const auto halve =
      LearningRateScheduler([](int epoch, double rate) { return epoch == 0 ? rate : rate / 2; });
  const auto data = data::Dataset::FromArrays(Points(32)).Batch(8);
  ASSERT_TRUE((*trainer)->Fit(data, {.epochs = 3, .callbacks = {halve, watch}}).ok());
  EXPECT_THAT(rates, ::testing::ElementsAre(0.5, 0.25, 0.125));
}

TEST(LearningRateScheduler, RejectsOptimizerWithSchedule) {
  auto trainer = SmallTrainer(
      {.optimizer = nn::SGD(
           {.learning_rate = nn::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 10})})});
  const auto data = data::Dataset::FromArrays(Points(32)).Batch(8);
  const auto history = (*trainer)->Fit(
      data, {.callbacks = {LearningRateScheduler([](int, double rate) { return rate; })}});
  EXPECT_THAT(std::string(history.status().message()), HasSubstr("is a schedule's"));
}

TEST(LambdaCallback, CallsItsFunctions) {
  auto trainer = SmallTrainer();
  std::string calls;
  const auto note = [&](const char* what) {
    calls += what;
    return absl::OkStatus();
  };
  const auto callback = LambdaCallback(
      {.on_train_begin = [&](train::TrainingContext&) { return note("("); },
       .on_epoch_begin = [&](train::TrainingContext&, const Position&) { return note("["); },
       .on_train_batch_begin = [&](train::TrainingContext&, const Position&) { return note("<"); },
       .on_train_batch_end = [&](train::TrainingContext&, const Position&,
                                 const Logs&) { return note(">"); },
       .on_epoch_end = [&](train::TrainingContext&, const Position&,
                           const Logs&) { return note("]"); },
       .on_train_end = [&](train::TrainingContext&) { return note(")"); }});
  const auto data = data::Dataset::FromArrays(Points(32)).Batch(16);
  ASSERT_TRUE(
      (*trainer)->Fit(data, {.epochs = 2, .callbacks = {callback, LambdaCallback({})}}).ok());
  // A batch may begin before an earlier one ends, so the two hooks are compared separately.
  const auto without = [&](char hook) {
    std::string others = calls;
    std::erase(others, hook);
    return others;
  };
  EXPECT_EQ(without('<'), "([>>][>>])");
  EXPECT_EQ(without('>'), "([<<][<<])");
}

TEST(LambdaCallback, EndsTrainingWithItsException) {
  auto trainer = SmallTrainer();
  const auto throws = LambdaCallback(
      {.on_epoch_end = [](train::TrainingContext&, const Position&, const Logs&) -> absl::Status {
        throw std::runtime_error("no socket");
      }});
  const auto data = data::Dataset::FromArrays(Points(32)).Batch(16);
  const auto history = (*trainer)->Fit(data, {.epochs = 2, .callbacks = {throws}});
  EXPECT_EQ(history.status(), absl::InternalError("callback LambdaCallback.EpochEnd: threw "
                                                  "std::runtime_error: no socket"));
}

// An error stops the third epoch. The second run resumes with EarlyStopping's best value and
// removes the backup at the end.
TEST(BackupAndRestore, ResumesAfterErrorWithBestValuesAndRemovesBackup) {
  const std::string folder = NewPath("_backup");
  const auto data = data::Dataset::FromArrays(Points(32)).Batch(8);
  std::vector<int> epochs;
  double best_after = 0;
  for (const bool fails : {true, false}) {
    auto trainer = SmallTrainer();
    const auto stopping = EarlyStopping({.monitor = "loss", .patience = 50});
    const auto watch = LambdaCallback(
        {.on_epoch_begin = [&](train::TrainingContext&, const Position& at) -> absl::Status {
          epochs.push_back(at.epoch);
          if (fails && at.epoch == 2) return absl::InternalError("the machine is gone");
          if (!fails && at.epoch == 2) {
            best_after = nlohmann::json::parse(stopping->Save())["best"] == "inf" ? 0 : 1;
          }
          return absl::OkStatus();
        }});
    const auto history = (*trainer)->Fit(
        data,
        {.epochs = 4, .callbacks = {watch, stopping, BackupAndRestore({.backup_dir = folder})}});
    EXPECT_EQ(history.ok(), !fails) << history.status();
    EXPECT_EQ(std::filesystem::is_empty(folder), !fails);
  }
  // The checkpoint of epoch 1 was saved before its EpochEnd, which therefore runs again.
  EXPECT_THAT(epochs, ::testing::ElementsAre(0, 1, 2, 1, 2, 3));
  EXPECT_EQ(best_after, 1);
  std::filesystem::remove_all(folder);
}

// Otherwise a schedule that multiplies the rate would apply twice after a restart.
TEST(LearningRateScheduler, ResumedEpochKeepsItsRate) {
  FakeContext run;
  const auto callback = LearningRateScheduler([](int, double rate) { return rate / 2; });
  ASSERT_TRUE(callback->EpochBegin(run, {.epoch = 1, .step = 0, .total_steps = 7}).ok());
  EXPECT_EQ(run.rate, 0.5);
  ASSERT_TRUE(callback->EpochBegin(run, {.epoch = 1, .step = 3, .total_steps = 10}).ok());
  EXPECT_EQ(run.rate, 0.5);
  // A checkpoint may be saved before the first step, when the epoch's loop is compiled.
  const auto resumed = LearningRateScheduler([](int, double rate) { return rate / 2; });
  ASSERT_TRUE(resumed->TrainBegin(run).ok());
  ASSERT_TRUE(resumed->Restore(callback->Save()).ok());
  ASSERT_TRUE(resumed->EpochBegin(run, {.epoch = 1, .step = 0, .total_steps = 7}).ok());
  EXPECT_EQ(run.rate, 0.5);
  ASSERT_TRUE(resumed->EpochBegin(run, {.epoch = 2, .step = 0, .total_steps = 14}).ok());
  EXPECT_EQ(run.rate, 0.25);
  EXPECT_FALSE(resumed->Restore("{}").ok());
}

TEST(TerminateOnNan, NamesInputLayerOrLossAndKeepsWeights) {
  const float infinity = std::numeric_limits<float>::infinity();
  struct Case {
    const char* what;
    const char* named;
  };
  for (const Case& c :
       {Case{"input", "epoch 1, step 2: the input 'x' is not finite"},
        Case{"weights", "the output of layer 'logits' (Dense)"}, Case{"label", "the loss"}}) {
    SCOPED_TRACE(c.what);
    base::NamedArrays points = Points(24);
    auto trainer = SmallTrainer({.network = SmallNet()});
    ASSERT_TRUE(trainer.ok());
    if (c.what[0] == 'i') {
      Array x = points.Find("x")->Clone();
      x.mutable_data<float>()[4 * 9] = infinity;  // in the second batch
      points.Set("x", x);
    } else if (c.what[0] == 'w') {
      base::NamedArrays weights = *(*trainer)->Weights();
      Array kernel = weights.Find("logits/kernel")->Clone();
      for (int i = 0; i < 24; ++i) kernel.mutable_data<float>()[i] = 3e38f;
      weights.Set("logits/kernel", kernel);
      ASSERT_TRUE((*trainer)->SetWeights(weights).ok());
    } else {
      Array y = points.Find("y")->Clone();
      y.mutable_data<int64_t>()[20] = 3;
      points.Set("y", y);
    }
    const History history = FitUntilNan(**trainer, points);
    EXPECT_THAT(history.stop_reason, HasSubstr(c.named));
    const auto weights = (*trainer)->Weights();
    ASSERT_TRUE(weights.ok()) << weights.status();
    for (const auto& [name, array] : *weights) {
      for (float v : array.values<float>()) EXPECT_TRUE(std::isfinite(v)) << name;
    }
  }
}

// Files are closed, and the backup is not removed as it would be after a successful training.
TEST(TrainEnd, IsCalledForEveryCallbackAfterOneFails) {
  const std::string folder = NewPath("_backup");
  auto trainer = SmallTrainer();
  const auto fails = LambdaCallback({.on_train_end = [](TrainingContext&) {
    return absl::UnavailableError("the log's server is gone");
  }});
  int ended = 0;
  bool failed = false;
  const auto watch = LambdaCallback({.on_train_end = [&](TrainingContext& context) {
    ++ended;
    failed = context.failed();
    return absl::OkStatus();
  }});
  const auto data = data::Dataset::FromArrays(Points(32)).Batch(8);
  const auto history = (*trainer)->Fit(
      data, {.callbacks = {BackupAndRestore({.backup_dir = folder}), fails, watch}});
  EXPECT_EQ(history.status(), absl::UnavailableError("the log's server is gone"));
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(failed);
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

// The rate applies to the step about to be dispatched: compares with single-step trainings.
TEST(BatchBegin, SetsLearningRateOfItsOwnStep) {
  const auto batch = data::Dataset::FromArrays(Points(8)).Batch(8);
  const auto weights = [&](const std::vector<double>& rates, bool by_step) -> base::NamedArrays {
    auto trainer = SmallTrainer({.optimizer = nn::SGD({.learning_rate = 0.5})});
    if (by_step) {
      const auto set = LambdaCallback(
          {.on_train_batch_begin = [&](TrainingContext& context, const Position& at) {
            return context.SetLearningRate(rates[at.step]);
          }});
      const FitOptions fit{.callbacks = {set},
                           .steps_per_epoch = static_cast<int64_t>(rates.size())};
      EXPECT_TRUE((*trainer)->Fit(batch.Repeat(), fit).ok());
    } else {
      for (const double rate : rates) {
        EXPECT_TRUE((*trainer)->SetLearningRate(rate).ok());
        EXPECT_TRUE((*trainer)->Fit(batch, {}).ok());
      }
    }
    return *(*trainer)->Weights();
  };
  const std::vector<double> rates = {0.5, 0.0, 0.25, 0.0, 0.1};
  EXPECT_EQ(testing::LargestDifference(weights(rates, true), weights(rates, false)), 0);
}

}  // namespace callbacks_test
}  // namespace penstock::train
