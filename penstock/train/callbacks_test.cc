#include "penstock/train/callbacks.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/io/memory_file_system.h"
#include "penstock/nn/layers.h"
#include "penstock/record/tfrecord.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/progress.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace callbacks_test {

using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

std::string NewPath(const std::string& name) {
  return ::testing::TempDir() + "/" + std::to_string(getpid()) + "_" +
         std::to_string(base::EntropySeed()) + name;
}

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A run that is not trained: callbacks are called by hand.
class FakeRun : public Run {
 public:
  void Stop(std::string reason) override { stopped = std::move(reason); }
  absl::StatusOr<base::NamedArrays> State() override { return weights; }
  absl::StatusOr<base::NamedArrays> Weights() override { return weights; }
  absl::Status SetWeights(const base::NamedArrays& w) override {
    weights = w;
    return absl::OkStatus();
  }
  absl::StatusOr<double> LearningRate() override { return rate; }
  absl::Status SetLearningRate(double to) override {
    rate = to;
    return absl::OkStatus();
  }
  double rate = 1;
  std::string Progress() override { return "{}"; }
  absl::Status Resume(const base::NamedArrays&, absl::string_view) override {
    return absl::OkStatus();
  }
  int64_t examples_per_step() const override { return 10; }
  int64_t steps_per_epoch() const override { return 20; }
  int epochs() const override { return 3; }
  absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const override {
    return name == "val_accuracy" ? MonitorInfo{.better = Mode::kMax} : Run::FindMonitor(name);
  }
  FitStats stats() const override { return measured; }

  std::string stopped;
  base::NamedArrays weights;
  FitStats measured;
};

TEST(EarlyStopping, WaitsItsPatienceAndRestoresTheBest) {
  auto callback =
      EarlyStopping({.monitor = "val_loss", .patience = 2, .restore_best_weights = true});
  FakeRun run;
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

TEST(EarlyStopping, MoreAccuracyIsBetterAndNaNNeverIs) {
  auto callback = EarlyStopping({.monitor = "val_accuracy", .patience = 2});
  FakeRun run;
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

TEST(EarlyStopping, ANameThatIsNotMeasuredIsAnErrorThatListsThose) {
  FakeRun run;
  const absl::Status status = EarlyStopping()->EpochEnd(run, {}, {{"loss", 1.0}});
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("nothing named 'val_loss' is measured; there are loss"));
}

// What Keras 3's ReduceLROnPlateau does with the same numbers, epoch by epoch.
TEST(ReduceLROnPlateau, WaitsCoolsDownAndStopsAtTheLeastRate) {
  auto callback = ReduceLROnPlateau(
      {.factor = 0.5, .patience = 2, .min_delta = 0.1, .cooldown = 1, .min_lr = 0.3});
  FakeRun run;
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  // Better; two that are not by 0.1: halved; one epoch of cooldown that does not count, then two.
  const double losses[] = {1.0, 0.95, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92};
  const double rates[] = {1, 1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3};
  for (int epoch = 0; epoch < 9; ++epoch) {
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = epoch}, {{"val_loss", losses[epoch]}}).ok());
    EXPECT_DOUBLE_EQ(run.rate, rates[epoch]) << epoch;
  }
}

TEST(ReduceLROnPlateau, GoesOnCountingAfterARestart) {
  const ReduceLROnPlateauOptions options{.monitor = "loss", .patience = 3};
  auto before = ReduceLROnPlateau(options), after = ReduceLROnPlateau(options);
  FakeRun run;
  for (const auto& callback : {before, after}) ASSERT_TRUE(callback->TrainBegin(run).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(before->EpochEnd(run, {}, {{"loss", 2.0}}).ok());
  ASSERT_TRUE(after->Restore(before->Save()).ok());
  EXPECT_EQ(run.rate, 1);
  ASSERT_TRUE(after->EpochEnd(run, {}, {{"loss", 2.0}}).ok());
  EXPECT_DOUBLE_EQ(run.rate, 0.1);
  EXPECT_FALSE(after->Restore("{}").ok());
}

// As in Keras, which takes the absolute value.
TEST(EarlyStopping, IgnoresTheSignOfMinDelta) {
  for (const double min_delta : {0.5, -0.5}) {
    auto callback = EarlyStopping({.min_delta = min_delta, .patience = 1});
    FakeRun run;
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"val_loss", 2.0}}).ok());
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 1}, {{"val_loss", 1.4}}).ok());
    EXPECT_EQ(run.stopped, "");
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 2}, {{"val_loss", 1.0}}).ok());
    EXPECT_NE(run.stopped, "");
  }
}

// The error of a training with one maximized metric, one minimized and one without a direction;
// without validation data unless it is given.
absl::Status FitError(std::vector<std::shared_ptr<Callback>> callbacks, FitOptions options = {},
                      nn::Optimizer optimizer = nn::SGD({.learning_rate = 0.1})) {
  auto trainer = Trainer::Create(
      {.objective = {.network = SmallNet(),
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                  .metrics = {nn::Accuracy().Named("loss_like"), nn::Mean()}}},
                     .optimizer = std::move(optimizer)},
       .strategy = *Strategy::Create(runtime::TestClient(1), {})});
  if (!trainer.ok()) return trainer.status();
  options.callbacks = std::move(callbacks);
  return (*trainer)->Fit(data::Dataset::FromArrays(Points(16)).Batch(8), options).status();
}
std::string FitMessage(std::shared_ptr<Callback> callback, const FitOptions& options = {}) {
  return std::string(FitError({std::move(callback)}, options).message());
}

// Which direction is better shows in the best epoch that a checkpoint folder keeps: the last one of
// a training that improves.
TEST(Monitors, UseTheDirectionOfTheMetricAndNotItsName) {
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
    const auto ask = LambdaCallback({.on_train_begin = [&, monitor = name](train::Run& run) {
      found = *run.FindMonitor(monitor);
      return absl::OkStatus();
    }});
    ASSERT_TRUE((*trainer)->Fit(points, {.validation = &points, .callbacks = {ask}}).ok());
    EXPECT_EQ(found.better, best == std::string("max") ? Mode::kMax : Mode::kMin) << name;
  }
}

TEST(Monitors, ANumberWithoutADirectionAsksForAMode) {
  EXPECT_THAT(FitMessage(EarlyStopping({.monitor = "mean"})),
              HasSubstr("EarlyStopping monitors 'mean', which does not say whether more or less"));
  EXPECT_THAT(FitMessage(ReduceLROnPlateau({.monitor = "mean"})), HasSubstr("set mode to"));
  EXPECT_THAT(FitMessage(Checkpoint({.folder = NewPath("_ck"), .keep_best = "mean"})),
              HasSubstr("set mode to"));
  EXPECT_EQ(FitMessage(EarlyStopping({.monitor = "mean", .mode = Mode::kMax})), "");
}

TEST(Monitors, ANameThatIsNeverMeasuredIsAnErrorBeforeTheFirstStep) {
  int steps = 0;
  const auto count =
      LambdaCallback({.on_train_batch_end = [&](train::Run&, const Position&, const Logs&) {
        ++steps;
        return absl::OkStatus();
      }});
  EXPECT_THAT(std::string(FitError({count, EarlyStopping()}).message()),
              HasSubstr("'val_loss' is not measured, since there is no validation data"));
  EXPECT_THAT(std::string(FitError({count, EarlyStopping({.monitor = "auc"})}).message()),
              HasSubstr("nothing named 'auc' is measured; there are loss, loss_like, mean"));
  EXPECT_EQ(steps, 0);
}

// Keeps the notes that the user sees.
class Notes : public Callback {
 public:
  bool ShowsNotes() const override { return true; }
  void Note(absl::string_view text) override { texts.emplace_back(text); }
  std::vector<std::string> texts;
};

TEST(Monitors, EpochsWithoutValidationAreSkippedWithAWarning) {
  const data::Dataset points = data::Dataset::FromArrays(Points(16)).Batch(8);
  const std::string folder = NewPath("_ck");
  const auto notes = std::make_shared<Notes>();
  const std::vector<std::shared_ptr<Callback>> callbacks = {
      EarlyStopping({.patience = 9}), ReduceLROnPlateau(),
      Checkpoint({.folder = folder, .keep_best = "val_loss"}), notes};
  EXPECT_EQ(FitError(callbacks, {.epochs = 5, .validation = &points, .validation_freq = 2}),
            absl::OkStatus());
  EXPECT_THAT(notes->texts,
              ::testing::UnorderedElementsAre(
                  HasSubstr("EarlyStopping: 'val_loss' is measured only every 2 epochs"),
                  HasSubstr("ReduceLROnPlateau: 'val_loss' is measured only every 2 epochs"),
                  HasSubstr("Checkpoint's keep_best: 'val_loss' is measured only every 2")));
  std::filesystem::remove_all(folder);
  notes->texts.clear();
  EXPECT_EQ(FitError({EarlyStopping({.patience = 9}), notes}, {.epochs = 5, .validation = &points}),
            absl::OkStatus());
  EXPECT_EQ(FitError({EarlyStopping({.monitor = "loss"}), notes},
                     {.epochs = 5, .validation = &points, .validation_freq = 2}),
            absl::OkStatus());
  EXPECT_TRUE(notes->texts.empty());
}

TEST(Monitors, AnEpochlessValidationIsAnErrorBeforeTheFirstStep) {
  const data::Dataset points = data::Dataset::FromArrays(Points(16)).Batch(8);
  const auto error = [&](int initial_epoch, int epochs) {
    return std::string(FitError({EarlyStopping()}, {.epochs = epochs,
                                                    .initial_epoch = initial_epoch,
                                                    .validation = &points,
                                                    .validation_freq = 5})
                           .message());
  };
  EXPECT_THAT(error(0, 4), HasSubstr("'val_loss' is never measured: validation_freq is 5, and the "
                                     "epochs are 1 to 4"));
  EXPECT_THAT(error(5, 9), HasSubstr("epochs are 6 to 9"));
  EXPECT_EQ(error(0, 5), "");
  EXPECT_EQ(error(4, 5), "");
}

// What no epoch's work may be lost for.
TEST(Validation, DataThatIsMissingEmptyOrEndlessIsAnErrorBeforeTheFirstStep) {
  int steps = 0, generators = 0;
  const auto count =
      LambdaCallback({.on_train_batch_end = [&](train::Run&, const Position&, const Logs&) {
        ++steps;
        return absl::OkStatus();
      }});
  const auto error = [&](const data::Dataset& validation) {
    return std::string(FitError({count}, {.validation = &validation}).message());
  };
  const auto points = [](int64_t rows) { return data::Dataset::FromArrays(Points(16)).Take(rows); };
  EXPECT_THAT(error(points(0).Batch(8)), HasSubstr("validation: there is nothing to evaluate"));
  EXPECT_THAT(error(points(7).Batch(8, {.drop_remainder = true})), HasSubstr("dataset is empty"));
  EXPECT_THAT(error(points(8).Batch(8).Repeat()), HasSubstr("validation: the data has no end"));
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

  // Nobody can say of a generator what it gives, without consuming it.
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

TEST(Options, InvalidNumbersAreNamedBeforeTheFirstStep) {
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

TEST(Options, ACallbackThatSetsTheRateRefusesAScheduleBeforeTheFirstStep) {
  const nn::Optimizer scheduled = nn::SGD(
      {.learning_rate = nn::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 10})});
  EXPECT_THAT(
      std::string(FitError({ReduceLROnPlateau({.monitor = "loss", .patience = 50})}, {}, scheduled)
                      .message()),
      HasSubstr("ReduceLROnPlateau cannot set the learning rate, which is a schedule's"));
}

// A stack of a million batches of 1.5 MB, and a number of steps above the maximum.
TEST(Options, StepsPerExecutionThatDoNotFitIntoMemoryAreAnError) {
  auto trainer = SmallTrainer({.steps_per_execution = kMostStepsPerExecution});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::Status status =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(65536)).Batch(65536), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("take fewer steps"));
  EXPECT_THAT(
      std::string(
          SmallTrainer({.steps_per_execution = kMostStepsPerExecution + 1}).status().message()),
      HasSubstr("steps_per_execution must be from 1 to 1048576"));
}

// A file is in the place of folders that would be needed. Existing files stay unchanged.
TEST(Destinations, UnwritableOnesAreErrorsBeforeTheFirstStep) {
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
  // Another callback is rejected, after the logger's own check.
  EXPECT_FALSE(FitError({CsvLogger({.path = log}), Checkpoint({.folder = below})}).ok());
  EXPECT_EQ(Contents(file), "kept");
  EXPECT_EQ(Contents(log), "the log of last week");
  std::filesystem::remove(file);
  std::filesystem::remove(log);
}

// An object cannot grow: each flush rewrites it, and after 256 KiB a second one is started.
TEST(TensorBoard, WritesToFileSystemsWhoseFilesCannotGrow) {
  const auto memory = io::MakeMemoryFileSystem();
  base::FakeClock clock;
  FakeRun run;
  auto callback = TensorBoard(
      {.folder = "memory://tb", .update_every_steps = 1, .file_system = memory, .clock = &clock});
  ASSERT_EQ(callback->Check(run), absl::OkStatus());
  ASSERT_TRUE(callback->EpochBegin(run, {}).ok());
  const auto records = [&] {
    std::vector<size_t> counts;
    const auto files = memory->ListRecursive("memory://tb");
    for (size_t i = 0; files.ok() && i < files->size(); ++i) {
      auto reader = record::TfRecordReader::Open(*memory, (*files)[i].uri);
      counts.push_back(0);
      for (;;) {
        const auto block = (*reader)->ReadBlock();
        if (!block.ok() || block->empty()) break;
        counts.back() += block->size();
      }
    }
    return counts;
  };
  const auto step = [&](int64_t number) {
    EXPECT_TRUE(callback->BatchEnd(run, {.total_steps = number}, {{"loss", 0.5}}).ok());
  };
  clock.Advance(100);
  step(1);
  EXPECT_THAT(records(), ::testing::ElementsAre(2));  // the version and step 1
  step(2);
  EXPECT_THAT(records(), ::testing::ElementsAre(2)) << "within 30 seconds";
  clock.Advance(31);
  step(3);
  EXPECT_THAT(records(), ::testing::ElementsAre(4));
  for (int64_t i = 4; i <= 10000; ++i) step(i);
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  size_t steps = 0;
  for (size_t count : records()) steps += count - 1;
  EXPECT_EQ(steps, 10000u);
  EXPECT_GT(records().size(), 1u);
}

TEST(LearningRateScheduler, SetsTheRateOfEachEpochFromTheOneBefore) {
  auto trainer = testing::SmallTrainer({.optimizer = nn::SGD({.learning_rate = 0.5})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<double> rates;
  const auto watch =
      LambdaCallback({.on_epoch_end = [&](train::Run& run, const Position&, const Logs&) {
        rates.push_back(*run.LearningRate());
        return absl::OkStatus();
      }});
  const auto halve =
      LearningRateScheduler([](int epoch, double rate) { return epoch == 0 ? rate : rate / 2; });
  const auto data = data::Dataset::FromArrays(testing::Points(32)).Batch(8);
  ASSERT_TRUE((*trainer)->Fit(data, {.epochs = 3, .callbacks = {halve, watch}}).ok());
  EXPECT_THAT(rates, ::testing::ElementsAre(0.5, 0.25, 0.125));
}

TEST(LearningRateScheduler, AScheduleOfTheOptimizerCannotBeSet) {
  auto trainer = testing::SmallTrainer(
      {.optimizer = nn::SGD(
           {.learning_rate = nn::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 10})})});
  const auto data = data::Dataset::FromArrays(testing::Points(32)).Batch(8);
  const auto history = (*trainer)->Fit(
      data, {.callbacks = {LearningRateScheduler([](int, double rate) { return rate; })}});
  EXPECT_THAT(std::string(history.status().message()), HasSubstr("is a schedule's"));
}

TEST(LambdaCallback, CallsWhatItWasGiven) {
  auto trainer = testing::SmallTrainer();
  std::string calls;
  const auto note = [&](const char* what) {
    calls += what;
    return absl::OkStatus();
  };
  const auto callback = LambdaCallback(
      {.on_train_begin = [&](train::Run&) { return note("("); },
       .on_epoch_begin = [&](train::Run&, const Position&) { return note("["); },
       .on_train_batch_end = [&](train::Run&, const Position&, const Logs&) { return note("."); },
       .on_epoch_end = [&](train::Run&, const Position&, const Logs&) { return note("]"); },
       .on_train_end = [&](train::Run&) { return note(")"); }});
  const auto data = data::Dataset::FromArrays(testing::Points(32)).Batch(16);
  ASSERT_TRUE(
      (*trainer)->Fit(data, {.epochs = 2, .callbacks = {callback, LambdaCallback({})}}).ok());
  EXPECT_EQ(calls, "([..][..])");
}

TEST(LambdaCallback, EndsTheTrainingWithItsException) {
  auto trainer = testing::SmallTrainer();
  const auto throws = LambdaCallback(
      {.on_epoch_end = [](train::Run&, const Position&, const Logs&) -> absl::Status {
        throw std::runtime_error("no socket");
      }});
  const auto data = data::Dataset::FromArrays(testing::Points(32)).Batch(16);
  const auto history = (*trainer)->Fit(data, {.epochs = 2, .callbacks = {throws}});
  EXPECT_EQ(history.status(), absl::InternalError("callback LambdaCallback.EpochEnd: threw "
                                                  "std::runtime_error: no socket"));
}

// Stopped in the third epoch by an error, then run again: it goes on there, and EarlyStopping still
// knows its best. After the end nothing is left.
TEST(BackupAndRestore, GoesOnAfterAnErrorWithTheBestNumbersAndLeavesNothingBehind) {
  const std::string folder = NewPath("_backup");
  const auto data = data::Dataset::FromArrays(testing::Points(32)).Batch(8);
  std::vector<int> epochs;
  double best_after = 0;
  for (const bool fails : {true, false}) {
    auto trainer = testing::SmallTrainer();
    const auto stopping = EarlyStopping({.monitor = "loss", .patience = 50});
    const auto watch =
        LambdaCallback({.on_epoch_begin = [&](train::Run&, const Position& at) -> absl::Status {
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
  // The checkpoint of epoch 1 was saved before its EpochEnd, which runs again.
  EXPECT_THAT(epochs, ::testing::ElementsAre(0, 1, 2, 1, 2, 3));
  EXPECT_EQ(best_after, 1);
  std::filesystem::remove_all(folder);
}

TEST(CsvLogger, OneHeadingAndALineForEachEpochAlsoWhenAppending) {
  const std::string path = NewPath(".csv");
  FakeRun run;
  for (int part = 0; part < 2; ++part) {
    auto callback = CsvLogger({.path = path, .append = part == 1});
    ASSERT_TRUE(callback->TrainBegin(run).ok());
    ASSERT_TRUE(
        callback->EpochEnd(run, {.epoch = part}, {{"loss", 0.5 + part}, {"accuracy", 0.25}}).ok());
    ASSERT_TRUE(callback->TrainEnd(run).ok());
  }
  EXPECT_EQ(Contents(path), "epoch,loss,accuracy\n0,0.5,0.25\n1,1.5,0.25\n");
  std::filesystem::remove(path);
}

// A resumed run (Position::total_steps > 0) that starts with `epoch`.
std::string ResumeCsv(const std::string& path, int epoch, bool append,
                      absl::string_view restored = "") {
  FakeRun run;
  auto callback = CsvLogger({.path = path, .append = append});
  EXPECT_TRUE(callback->TrainBegin(run).ok());
  if (!restored.empty()) {
    EXPECT_TRUE(callback->Restore(restored).ok());
  }
  const Position at{.epoch = epoch, .step = 1, .total_steps = 9};
  EXPECT_TRUE(callback->EpochBegin(run, at).ok());
  EXPECT_TRUE(callback->EpochEnd(run, at, {{"loss", 9}}).ok());
  EXPECT_TRUE(callback->TrainEnd(run).ok());
  return Contents(path);
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(CsvLogger, ARejectedResumeLeavesTheFile) {
  const std::string path = NewPath(".csv");
  WriteText(path, "epoch,loss\n0,1\n");
  FakeRun run;
  auto callback = CsvLogger({.path = path});
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());  // another callback's TrainBegin failed
  EXPECT_EQ(Contents(path), "epoch,loss\n0,1\n");
  std::filesystem::remove(path);
}

TEST(CsvLogger, AResumedRunReplacesTheRowsOfItsEpochs) {
  const std::string path = NewPath(".csv");
  const std::string rows = "epoch,loss\n0,1\n1,2\n2,3\n";
  for (const bool append : {false, true}) {
    SCOPED_TRACE(append);
    WriteText(path, rows);
    EXPECT_EQ(ResumeCsv(path, 1, append, R"({"bytes":15,"pending":""})"), "epoch,loss\n0,1\n1,9\n");
    // A checkpoint without the logger's state, and a row truncated by a kill.
    WriteText(path, rows + "3,");
    EXPECT_EQ(ResumeCsv(path, 2, append), "epoch,loss\n0,1\n1,2\n2,9\n");
    EXPECT_EQ(ResumeCsv(path, 0, append), "epoch,loss\n0,9\n");
    // Rows of an earlier training in the same file stay.
    WriteText(path, rows + "0,4\n1,5\n");
    EXPECT_EQ(ResumeCsv(path, 1, append), rows + "0,4\n1,9\n");
    // Rows that could not be written before the checkpoint was saved.
    WriteText(path, rows);
    EXPECT_EQ(ResumeCsv(path, 2, append, R"({"bytes":15,"pending":"1,7\n"})"),
              "epoch,loss\n0,1\n1,7\n2,9\n");
    // The file was deleted.
    WriteText(path, "");
    EXPECT_EQ(ResumeCsv(path, 1, append, R"({"bytes":15,"pending":""})"), "epoch,loss\n1,9\n");
  }
  std::filesystem::remove(path);
}

TEST(CsvLogger, AFullDiskIsAWarningAndNoRowIsLostAfterwards) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  FakeRun run;
  auto callback = CsvLogger({.path = "/dev/full"});
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  EXPECT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"loss", 1}}).ok());
  EXPECT_TRUE(callback->EpochEnd(run, {.epoch = 1}, {{"loss", 2}}).ok());
  EXPECT_TRUE(callback->TrainEnd(run).ok());
}

TEST(EarlyStopping, RestoresTheBestWeightsWithTheBestNumber) {
  const EarlyStoppingOptions options{
      .monitor = "loss", .patience = 3, .restore_best_weights = true};
  FakeRun run;
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

  // If the earlier run did not save them, the best number is dropped as well.
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

// Otherwise a schedule that multiplies the rate would do so again at every restart.
TEST(LearningRateScheduler, AResumedEpochKeepsItsRate) {
  FakeRun run;
  const auto callback = LearningRateScheduler([](int, double rate) { return rate / 2; });
  ASSERT_TRUE(callback->EpochBegin(run, {.epoch = 1, .step = 0, .total_steps = 7}).ok());
  EXPECT_EQ(run.rate, 0.5);
  ASSERT_TRUE(callback->EpochBegin(run, {.epoch = 1, .step = 3, .total_steps = 10}).ok());
  EXPECT_EQ(run.rate, 0.5);
}

// Seen are steps 3, 6 and 8 of the first epoch, then 11: events are due at 4, 8 and 12.
TEST(TensorBoard, PeriodsThatEndWithinAnExecutionAreNotMissed) {
  const std::string folder = NewPath("_tb");
  FakeRun run;
  auto callback = TensorBoard({.folder = folder, .update_every_steps = 4});
  ASSERT_TRUE(callback->EpochBegin(run, {}).ok());
  for (int64_t step : {3, 6, 8, 11}) {
    ASSERT_TRUE(callback->BatchEnd(run, {.total_steps = step}, {{"loss", 0.5}}).ok());
  }
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  const auto file = std::filesystem::directory_iterator(folder + "/train")->path().string();
  auto reader = record::TfRecordReader::Open(*io::FileSystem::Default(), file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto block = (*reader)->ReadBlock();
  ASSERT_TRUE(block.ok()) << block.status();
  ASSERT_EQ(block->records.size(), 3u);  // the version, then steps 6 and 8
  EXPECT_THAT(std::string(block->records[1]), HasSubstr("\x10\x06"));
  EXPECT_THAT(std::string(block->records[2]), HasSubstr("\x10\x08"));
  std::filesystem::remove_all(folder);
}

TEST(TensorBoard, EventsOfTrainingAndValidationStandInTheirFolders) {
  const std::string folder = NewPath("_tb");
  FakeRun run;
  auto callback = TensorBoard({.folder = folder});
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 3}, {{"loss", 0.5}, {"val_loss", 0.75}}).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  for (const auto& [name, value] : {std::pair("train", 0.5f), std::pair("validation", 0.75f)}) {
    const auto file = std::filesystem::directory_iterator(folder + "/" + name)->path().string();
    auto reader = record::TfRecordReader::Open(*io::FileSystem::Default(), file);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const auto block = (*reader)->ReadBlock();
    ASSERT_TRUE(block.ok()) << block.status();
    ASSERT_EQ(block->records.size(), 2u);
    EXPECT_THAT(std::string(block->records[0]), HasSubstr("brain.Event:2"));
    // Value { 1: "epoch_loss", 2: float }, step 3.
    std::string wanted(
        "\x0a\x0a"
        "epoch_loss\x15",
        13);
    wanted.append(reinterpret_cast<const char*>(&value), 4);
    EXPECT_THAT(std::string(block->records[1]), HasSubstr(wanted));
    EXPECT_THAT(std::string(block->records[1]), HasSubstr("\x10\x03"));
  }
  std::filesystem::remove_all(folder);
}

History FitUntilNan(Trainer& trainer, const base::NamedArrays& points) {
  auto history = trainer.Fit(data::Dataset::FromArrays(points).Batch(8),
                             {.epochs = 2, .callbacks = {TerminateOnNan()}});
  EXPECT_TRUE(history.ok()) << history.status();
  return history.ok() ? *history : History();
}

TEST(TerminateOnNan, NamesTheInputTheLayerOrTheLossAndKeepsTheWeights) {
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

std::string ProgressOf(ProgressOptions::Style style) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line =
      ProgressLine({.out = file, .style = style, .seconds_between_lines = 10, .clock = &clock});
  FakeRun run;
  EXPECT_TRUE(line->EpochBegin(run, {.epoch = 1}).ok());
  for (int64_t step = 1; step <= 20; ++step) {
    clock.Advance(1);
    EXPECT_TRUE(line->BatchEnd(run, {.epoch = 1, .step = step}, {{"loss", 0.5}}).ok());
  }
  EXPECT_TRUE(
      line->EpochEnd(run, {.epoch = 1, .step = 20}, {{"loss", 0.25}, {"accuracy", 1e-5}}).ok());
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(ProgressLine, WithoutATerminalItIsALineNowAndThen) {
  EXPECT_EQ(ProgressOf(ProgressOptions::Style::kLines),
            "Epoch 2/3  10/20  10.0 img/s  loss 0.5000  ETA 0:00:10\n"
            "Epoch 2/3  20/20  10.0 img/s  loss 0.5000  ETA 0:00:00\n"
            "Epoch 2/3  20/20  10.0 img/s  loss 0.2500  accuracy 1.000e-05  0:00:20\n");
}

TEST(ProgressLine, OnATerminalItIsWrittenOver) {
  const std::string text = ProgressOf(ProgressOptions::Style::kTerminal);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 21);
  EXPECT_THAT(text, ::testing::EndsWith("accuracy 1.000e-05  0:00:20\n"));
}

TEST(ProgressLine, TheEndOfAnEpochSaysHowLongTheDevicesWereIdle) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line = ProgressLine({.out = file, .style = ProgressOptions::Style::kLines, .clock = &clock});
  FakeRun run;
  run.measured = {.seconds = 20, .idle_data = 1.5, .idle_compile = 0.5, .idle_host = 0.001};
  ASSERT_TRUE(line->EpochBegin(run, {.epoch = 1}).ok());
  clock.Advance(20);
  ASSERT_TRUE(line->EpochEnd(run, {.epoch = 1, .step = 20}, {{"loss", 0.25}}).ok());
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text,
            "Epoch 2/3  20/20  10.0 img/s  loss 0.2500  0:00:20  idle 10.0 % (data 7.5 %, compile "
            "2.5 %)\n");
}

TEST(ProgressLine, ANoteHasALineOfItsOwn) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line =
      ProgressLine({.out = file, .style = ProgressOptions::Style::kTerminal, .clock = &clock});
  FakeRun run;
  ASSERT_TRUE(line->EpochBegin(run, {.epoch = 1}).ok());
  clock.Advance(1);
  ASSERT_TRUE(line->BatchEnd(run, {.epoch = 1, .step = 1}, {{"loss", 0.5}}).ok());
  line->Note("read: pack the files");
  ASSERT_TRUE(line->TrainEnd(run).ok());
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_THAT(text, ::testing::EndsWith("\nnote: read: pack the files\n"));
}

TEST(ProgressLine, SaysWhyAProgramIsCompiledAgain) {
  std::FILE* file = std::tmpfile();
  auto line = ProgressLine({.out = file, .style = ProgressOptions::Style::kLines});
  line->Recompiling("train_step", "argument 'x' changed");
  std::rewind(file);
  char text[100] = {};
  EXPECT_GT(std::fread(text, 1, sizeof(text) - 1, file), 0u);
  std::fclose(file);
  EXPECT_STREQ(text, "train_step is compiled again: argument 'x' changed\n");
}

TEST(ProgressLine, DurationsReadWell) {
  EXPECT_EQ(FormatDuration(0.4), "0:00:00");
  EXPECT_EQ(FormatDuration(3725), "1:02:05");
  EXPECT_EQ(FormatDuration(2 * 86400 + 61), "2 d 0:01:01");
}

}  // namespace callbacks_test
}  // namespace penstock::train
