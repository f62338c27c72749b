// Callbacks that monitor a value: EarlyStopping, ReduceLROnPlateau, and keep_best of Checkpoint.
#include <cmath>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/callbacks/learning_rate.h"
#include "penstock/train/testing/fake_context.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace monitors_test {

using testing::FakeContext;
using testing::FitError;
using ::testing::HasSubstr;
using testing::NewPath;
using testing::Points;
using testing::SmallNet;

std::string FitMessage(std::shared_ptr<Callback> callback, const FitOptions& options = {}) {
  return std::string(FitError({std::move(callback)}, options).message());
}

// Collects the notes shown to the user.
class Notes : public Callback {
 public:
  bool ShowsNotes() const override { return true; }
  void Note(absl::string_view text) override { texts.emplace_back(text); }
  std::vector<std::string> texts;
};

TEST(EarlyStopping, StopsAfterPatienceAndRestoresBestWeights) {
  auto callback =
      EarlyStopping({.monitor = "val_loss", .patience = 2, .restore_best_weights = true});
  FakeContext run;
  const double losses[] = {1.0, 0.5, 0.6, 0.55, 0.4};
  int epochs = 0;
  for (double loss : losses) {
    run.weights = {{"w", Array::Scalar(static_cast<float>(loss))}};
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = epochs++}, {{"val_loss", loss}}).ok());
    if (!run.stopped.empty()) break;
  }
  EXPECT_EQ(epochs, 4);
  EXPECT_THAT(run.stopped,
              HasSubstr("val_loss has not become better than 0.5 (epoch 2) for 2 epochs"));
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  EXPECT_EQ(run.weights.Find("w")->item<float>(), 0.5f);
}

// Keras: the first epoch's weights, as nothing is better than NaN.
TEST(EarlyStopping, OfNaNsRestoresTheFirstEpoch) {
  auto callback =
      EarlyStopping({.monitor = "val_loss", .patience = 2, .restore_best_weights = true});
  FakeContext run;
  for (int epoch = 0; run.stopped.empty() && epoch < 9; ++epoch) {
    run.weights = {{"w", Array::Scalar(static_cast<float>(epoch))}};
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = epoch}, {{"val_loss", std::nan("")}}).ok());
  }
  EXPECT_EQ(run.stopped, "val_loss has not been a finite number for 2 epochs");
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  EXPECT_EQ(run.weights.Find("w")->item<float>(), 0.0f);
}

TEST(EarlyStopping, MaximizesAccuracyAndNeverPrefersNaN) {
  auto callback = EarlyStopping({.monitor = "val_accuracy", .patience = 2});
  FakeContext run;
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  for (double accuracy : {0.5, 0.6, 0.7}) {
    ASSERT_TRUE(callback->EpochEnd(run, {}, {{"val_accuracy", accuracy}}).ok());
  }
  EXPECT_EQ(run.stopped, "");
  for (int i = 1; i < 3; ++i) {
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = i}, {{"val_accuracy", std::nan("")}}).ok());
  }
  EXPECT_NE(run.stopped, "");
}

TEST(EarlyStopping, UnknownMonitorErrorListsMetrics) {
  FakeContext run;
  const absl::Status status = EarlyStopping()->EpochEnd(run, {}, {{"loss", 1.0}});
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("nothing named 'val_loss' is measured; there are loss"));
}

// Expected rates computed by Keras 3's ReduceLROnPlateau from the same losses.
TEST(ReduceLROnPlateau, ObservesPatienceCooldownAndMinimumRate) {
  auto callback = ReduceLROnPlateau(
      {.factor = 0.5, .patience = 2, .min_delta = 0.1, .cooldown = 1, .min_lr = 0.3});
  FakeContext run;
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  // An improvement; two epochs without an improvement of 0.1, which halve the rate; one epoch of
  // cooldown, which does not count; then two more.
  const double losses[] = {1.0, 0.95, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92};
  const double rates[] = {1, 1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3};
  for (int epoch = 0; epoch < 9; ++epoch) {
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = epoch}, {{"val_loss", losses[epoch]}}).ok());
    EXPECT_DOUBLE_EQ(run.rate, rates[epoch]) << epoch;
  }
}

TEST(ReduceLROnPlateau, ContinuesCountingAfterRestart) {
  const ReduceLROnPlateauOptions options{.monitor = "loss", .patience = 3};
  auto before = ReduceLROnPlateau(options), after = ReduceLROnPlateau(options);
  FakeContext run;
  for (const auto& callback : {before, after}) ASSERT_TRUE(callback->TrainBegin(run).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(before->EpochEnd(run, {}, {{"loss", 2.0}}).ok());
  ASSERT_TRUE(after->Restore(before->Save()).ok());
  EXPECT_EQ(run.rate, 1);
  ASSERT_TRUE(after->EpochEnd(run, {}, {{"loss", 2.0}}).ok());
  EXPECT_DOUBLE_EQ(run.rate, 0.1);
  EXPECT_FALSE(after->Restore("{}").ok());
}

// As in Keras, which uses the absolute value.
TEST(EarlyStopping, IgnoresSignOfMinDelta) {
  for (const double min_delta : {0.5, -0.5}) {
    auto callback = EarlyStopping({.min_delta = min_delta, .patience = 1});
    FakeContext run;
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"val_loss", 2.0}}).ok());
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 1}, {{"val_loss", 1.4}}).ok());
    EXPECT_EQ(run.stopped, "");
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 2}, {{"val_loss", 1.0}}).ok());
    EXPECT_NE(run.stopped, "");
  }
}

// The best epoch kept in the checkpoint folder reveals the direction: the last one of a training
// that improves.
TEST(Monitors, UseDirectionOfMetricNotItsName) {
  const data::Dataset points = data::Dataset::FromArrays(Points(64)).Batch(16);
  for (const auto& [name, best] :
       {std::pair("loss_like", "max"), std::pair("loss", "min"), std::pair("val_loss_like", "max"),
        std::pair("val_loss", "min")}) {
    auto trainer = Trainer::Create(
        {.objective = {.network = SmallNet(),
                       .targets = {{.loss =
                                        nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                    .metrics = {nn::Accuracy().Named("loss_like")}}},
                       .optimizer = nn::SGD({.learning_rate = 0.1})},
         .strategy = *Strategy::Create(runtime::TestClient(1), {})});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    MonitorInfo found;
    const auto ask =
        LambdaCallback({.on_train_begin = [&, monitor = name](train::TrainingContext& run) {
          found = *run.FindMonitor(monitor);
          return absl::OkStatus();
        }});
    ASSERT_TRUE((*trainer)->Fit(points, {.callbacks = {ask}, .validation_data = &points}).ok());
    EXPECT_EQ(found.better, best == std::string("max") ? Mode::kMax : Mode::kMin) << name;
  }
}

TEST(Monitors, MetricWithoutDirectionRequiresMode) {
  EXPECT_THAT(FitMessage(EarlyStopping({.monitor = "mean"})),
              HasSubstr("EarlyStopping monitors 'mean', which does not say whether more or less"));
  EXPECT_THAT(FitMessage(ReduceLROnPlateau({.monitor = "mean"})), HasSubstr("set mode to"));
  EXPECT_THAT(FitMessage(Checkpoint({.folder = NewPath("_ck"), .keep_best = "mean"})),
              HasSubstr("set mode to"));
  EXPECT_EQ(FitMessage(EarlyStopping({.monitor = "mean", .mode = Mode::kMax})), "");
}

TEST(Monitors, UnknownMetricIsErrorBeforeFirstStep) {
  int steps = 0;
  const auto count = LambdaCallback(
      {.on_train_batch_end = [&](train::TrainingContext&, const Position&, const Logs&) {
        ++steps;
        return absl::OkStatus();
      }});
  EXPECT_THAT(std::string(FitError({count, EarlyStopping()}).message()),
              HasSubstr("'val_loss' is not measured, since there is no validation data"));
  EXPECT_THAT(std::string(FitError({count, EarlyStopping({.monitor = "auc"})}).message()),
              HasSubstr("nothing named 'auc' is measured; there are loss, loss_like, mean"));
  EXPECT_EQ(steps, 0);
}

TEST(Monitors, SkipsEpochsWithoutValidationWithWarning) {
  const data::Dataset points = data::Dataset::FromArrays(Points(16)).Batch(8);
  const std::string folder = NewPath("_ck");
  const auto notes = std::make_shared<Notes>();
  const std::vector<std::shared_ptr<Callback>> callbacks = {
      EarlyStopping({.patience = 9}), ReduceLROnPlateau(),
      Checkpoint({.folder = folder, .keep_best = "val_loss"}), notes};
  EXPECT_EQ(FitError(callbacks, {.epochs = 5, .validation_data = &points, .validation_freq = 2}),
            absl::OkStatus());
  EXPECT_THAT(notes->texts,
              ::testing::UnorderedElementsAre(
                  HasSubstr("EarlyStopping: 'val_loss' is measured only every 2 epochs"),
                  HasSubstr("ReduceLROnPlateau: 'val_loss' is measured only every 2 epochs"),
                  HasSubstr("Checkpoint's keep_best: 'val_loss' is measured only every 2")));
  std::filesystem::remove_all(folder);
  notes->texts.clear();
  EXPECT_EQ(
      FitError({EarlyStopping({.patience = 9}), notes}, {.epochs = 5, .validation_data = &points}),
      absl::OkStatus());
  EXPECT_EQ(FitError({EarlyStopping({.monitor = "loss"}), notes},
                     {.epochs = 5, .validation_data = &points, .validation_freq = 2}),
            absl::OkStatus());
  EXPECT_TRUE(notes->texts.empty());
}

TEST(Monitors, ValidationThatNeverRunsIsErrorBeforeFirstStep) {
  const data::Dataset points = data::Dataset::FromArrays(Points(16)).Batch(8);
  const auto error = [&](int initial_epoch, int epochs) {
    return std::string(FitError({EarlyStopping()}, {.epochs = epochs,
                                                    .validation_data = &points,
                                                    .initial_epoch = initial_epoch,
                                                    .validation_freq = 5})
                           .message());
  };
  EXPECT_THAT(error(0, 4), HasSubstr("'val_loss' is never measured: validation_freq is 5, and the "
                                     "epochs are 1 to 4"));
  EXPECT_THAT(error(5, 9), HasSubstr("epochs are 6 to 9"));
  EXPECT_EQ(error(0, 5), "");
  EXPECT_EQ(error(4, 5), "");
}

TEST(EarlyStopping, RestoresBestWeightsWithBestValue) {
  const EarlyStoppingOptions options{
      .monitor = "loss", .patience = 3, .restore_best_weights = true};
  FakeContext run;
  auto first = EarlyStopping(options);
  ASSERT_TRUE(first->TrainBegin(run).ok());
  run.weights = {{"w", Array::Scalar(7.0f)}};
  ASSERT_TRUE(first->EpochEnd(run, {.epoch = 0}, {{"loss", 0.5}}).ok());

  auto second = EarlyStopping(options);
  ASSERT_TRUE(second->TrainBegin(run).ok());
  ASSERT_TRUE(second->RestoreArrays(first->SaveArrays()).ok());
  ASSERT_TRUE(second->Restore(first->Save()).ok());
  run.weights = {{"w", Array::Scalar(8.0f)}};
  ASSERT_TRUE(second->EpochEnd(run, {.epoch = 1}, {{"loss", 0.6}}).ok());
  ASSERT_TRUE(second->TrainEnd(run).ok());
  EXPECT_EQ(run.weights.Find("w")->item<float>(), 7.0f);

  // If the earlier run saved no best weights, the best value is reset as well.
  auto third = EarlyStopping(options);
  ASSERT_TRUE(third->TrainBegin(run).ok());
  ASSERT_TRUE(third->Restore(first->Save()).ok());
  run.weights = {{"w", Array::Scalar(9.0f)}};
  ASSERT_TRUE(third->EpochEnd(run, {.epoch = 1}, {{"loss", 0.6}}).ok());
  run.weights = {{"w", Array::Scalar(10.0f)}};
  ASSERT_TRUE(third->EpochEnd(run, {.epoch = 2}, {{"loss", 0.7}}).ok());
  ASSERT_TRUE(third->TrainEnd(run).ok());
  EXPECT_EQ(run.weights.Find("w")->item<float>(), 9.0f);
}

}  // namespace monitors_test
}  // namespace penstock::train
