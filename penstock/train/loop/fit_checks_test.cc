// Checks before the first step of a training.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/csv_logger.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/callbacks/learning_rate.h"
#include "penstock/train/callbacks/tensorboard.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace fit_checks_test {

using testing::Contents;
using testing::FitError;
using ::testing::HasSubstr;
using testing::NewPath;
using testing::Points;
using testing::SmallTrainer;

std::string FitMessage(std::shared_ptr<Callback> callback, const FitOptions& options = {}) {
  return std::string(FitError({std::move(callback)}, options).message());
}

// Without these checks, the work of an epoch would be lost.
TEST(Validation, MissingEmptyOrInfiniteDataIsErrorBeforeFirstStep) {
  int steps = 0, generators = 0;
  const auto count = LambdaCallback(
      {.on_train_batch_end = [&](train::TrainingContext&, const Position&, const Logs&) {
        ++steps;
        return absl::OkStatus();
      }});
  const auto error = [&](const data::Dataset& validation) {
    return std::string(FitError({count}, {.validation_data = &validation}).message());
  };
  const auto points = [](int64_t rows) { return data::Dataset::FromArrays(Points(16)).Take(rows); };
  EXPECT_THAT(error(points(0).Batch(8)), HasSubstr("validation: there is nothing to evaluate"));
  EXPECT_THAT(error(points(7).Batch(8, {.drop_remainder = true})), HasSubstr("dataset is empty"));
  EXPECT_THAT(error(points(8).Batch(8).Repeat()), HasSubstr("validation: the data has no end"));
  // Of unknown length, as files are.
  const data::Dataset endless = points(8).IgnoreErrors().Repeat().Batch(8).Prefetch(1);
  EXPECT_THAT(error(endless), HasSubstr("validation: the data has no end"));
  const auto evaluated = (*SmallTrainer())->Evaluate(endless).status();
  EXPECT_THAT(std::string(evaluated.message()),
              HasSubstr("no end: limit its batches with Take(n) or steps"));
  EXPECT_TRUE((*SmallTrainer())->Evaluate(endless, {.steps = 1}).ok());
  EXPECT_TRUE((*SmallTrainer())->Evaluate(points(8).IgnoreErrors().Batch(8).Repeat(2)).ok());
  EXPECT_THAT(error(points(8).Batch(0)), HasSubstr("validation: "));
  const std::string file = NewPath(".tfrec");
  const auto records = [&] {
    return data::Dataset::FromTfRecords({file})
        .ParseExample({.features = {{.name = "x", .dtype = DType::kF32, .shape = {4}},
                                    {.name = "y", .dtype = DType::kI64}}})
        .Batch(8);
  };
  EXPECT_THAT(error(records()), HasSubstr(file));  // missing
  std::ofstream(file).close();
  EXPECT_THAT(error(records()), HasSubstr("validation: there is nothing to evaluate"));
  EXPECT_THAT(error(records().IgnoreErrors()), HasSubstr("there is nothing to evaluate"));
  std::filesystem::remove(file);
  EXPECT_EQ(steps, 0);

  // A generator cannot be checked without consuming it.
  const auto make = [&](const data::GeneratorContext&) -> data::ElementGenerator {
    EXPECT_GT(steps, 0) << "the generator was begun before the first step";
    ++generators;
    return [given = false](base::NamedArrays* element) mutable -> absl::StatusOr<bool> {
      if (std::exchange(given, true)) return false;
      for (const auto& [name, array] : Points(1)) element->Set(name, array.Row(0));
      return true;
    };
  };
  const data::Dataset generated =
      data::Dataset::FromGenerator(make, {{"x", DType::kF32, {4}}, {"y", DType::kI64, {}}});
  EXPECT_EQ(error(generated.Batch(8)), "");
  EXPECT_EQ(generators, 1);
}

TEST(Options, NamesInvalidNumbersBeforeFirstStep) {
  const double nan = std::nan("");
  const std::string folder = NewPath("_never");
  const auto error = [](std::shared_ptr<Callback> callback) {
    return FitMessage(std::move(callback));
  };
  const std::string loss = "loss";
  EXPECT_THAT(error(EarlyStopping({.monitor = loss, .patience = -1})), HasSubstr("patience"));
  EXPECT_THAT(error(EarlyStopping({.monitor = loss, .start_from_epoch = -1})),
              HasSubstr("start_from_epoch must be at least 0, got -1"));
  EXPECT_THAT(error(EarlyStopping({.monitor = loss, .min_delta = nan})), HasSubstr("min_delta"));
  for (const double factor : {1.0, 0.0, -2.0, nan}) {
    EXPECT_THAT(error(ReduceLROnPlateau({.monitor = loss, .factor = factor})),
                HasSubstr("factor must be above 0 and below 1"));
  }
  EXPECT_THAT(error(ReduceLROnPlateau({.monitor = loss, .patience = -1})), HasSubstr("patience"));
  EXPECT_THAT(error(ReduceLROnPlateau({.monitor = loss, .cooldown = -1})), HasSubstr("cooldown"));
  EXPECT_THAT(error(ReduceLROnPlateau({.monitor = loss, .min_lr = -1})), HasSubstr("min_lr"));
  EXPECT_THAT(error(Checkpoint({.folder = ""})), HasSubstr("folder is empty"));
  EXPECT_THAT(error(Checkpoint({.folder = folder, .keep = 0})), HasSubstr("keep must be at least"));
  EXPECT_THAT(error(Checkpoint({.folder = folder, .every_epochs = -1})),
              HasSubstr("every_epochs must be at least 0"));
  EXPECT_THAT(error(Checkpoint({.folder = folder, .every_epochs = 0})), HasSubstr("never save"));
  EXPECT_THAT(error(BackupAndRestore({.backup_dir = folder, .save_freq = -3})),
              HasSubstr("BackupAndRestore's save_freq must be at least 0, got -3"));
  EXPECT_THAT(error(BackupAndRestore({.backup_dir = ""})),
              HasSubstr("BackupAndRestore's backup_dir is empty"));
  EXPECT_THAT(error(BackupAndRestore({.backup_dir = "/proc/nowhere"})),
              HasSubstr("BackupAndRestore's backup_dir: "));
  EXPECT_THAT(error(Checkpoint(
                  {.folder = folder, .every_epochs = 0, .every_steps = 5, .keep_best = "loss"})),
              HasSubstr("keep_best needs an every_epochs"));
  EXPECT_THAT(error(TensorBoard({.folder = folder, .update_every_steps = -1})),
              HasSubstr("update_every_steps"));
  EXPECT_THAT(error(TensorBoard({.folder = folder, .profile_steps = {5, 2}})),
              HasSubstr("TensorBoard's profile_steps"));
  EXPECT_THAT(
      std::string(
          FitError({},
                   {.profile = ProfileOptions{.folder = folder, .first_step = 5, .last_step = 2}})
              .message()),
      HasSubstr("profile: first_step is 5 and last_step 2"));
  EXPECT_THAT(error(LearningRateScheduler(nullptr)), HasSubstr("has no schedule"));
  EXPECT_THAT(error(nullptr), HasSubstr("callback 0 (from 0) is null"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_THAT(std::string(FitError({}, {.steps_per_epoch = -1}).message()),
              HasSubstr("steps_per_epoch must be at least 0"));
  EXPECT_THAT(std::string(FitError({}, {.class_weight = {{1, -0.5}}}).message()),
              HasSubstr("class_weight of class 1 is -0.5"));
}

TEST(Options, CallbackThatSetsRateRejectsScheduleBeforeFirstStep) {
  const nn::Optimizer scheduled = nn::SGD(
      {.learning_rate = nn::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 10})});
  EXPECT_THAT(
      std::string(FitError({ReduceLROnPlateau({.monitor = "loss", .patience = 50})}, {}, scheduled)
                      .message()),
      HasSubstr("ReduceLROnPlateau cannot set the learning rate, which is a schedule's"));
}

// A stack of a million batches of 1.5 MB, and a number of steps above the maximum.
TEST(Options, RejectsStepsPerExecutionBeyondMemory) {
  auto trainer = SmallTrainer({.steps_per_execution = kMaxStepsPerExecution});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::Status status =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(65536)).Batch(65536), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("take fewer steps"));
  EXPECT_THAT(
      std::string(
          SmallTrainer({.steps_per_execution = kMaxStepsPerExecution + 1}).status().message()),
      HasSubstr("steps_per_execution must be from 1 to 1048576"));
}

// A file occupies the path of a required folder. Existing files must not change.
TEST(Destinations, UnwritablePathsAreErrorsBeforeFirstStep) {
  const std::string file = NewPath("_in_the_way"), log = NewPath(".csv");
  std::ofstream(file) << "kept";
  std::ofstream(log) << "the log of last week";
  const std::string below = file + "/below";
  for (const auto& callback :
       {Checkpoint({.folder = below}), CsvLogger({.path = below}), TensorBoard({.folder = below}),
        CsvLogger({.path = ::testing::TempDir()}), CsvLogger({.path = "gs://bucket/log.csv"})}) {
    EXPECT_FALSE(FitError({callback}).ok());
  }
  EXPECT_FALSE(FitError({}, {.profile = ProfileOptions{.folder = below, .out = nullptr}}).ok());
  // Another callback is rejected after the logger's own check.
  EXPECT_FALSE(FitError({CsvLogger({.path = log}), Checkpoint({.folder = below})}).ok());
  EXPECT_EQ(Contents(file), "kept");
  EXPECT_EQ(Contents(log), "the log of last week");
  std::filesystem::remove(file);
  std::filesystem::remove(log);
}

}  // namespace fit_checks_test
}  // namespace penstock::train
