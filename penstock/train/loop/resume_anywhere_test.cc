// A training that is interrupted at any point and restarted has the weights, history, and log of an
// uninterrupted one; checkpoints of other trainings are rejected.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/optimizers.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/csv_logger.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/callbacks/learning_rate.h"
#include "penstock/train/callbacks/tensorboard.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace resume_anywhere_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

constexpr char kFolder[] = "memory://bucket/run";
constexpr int64_t kPoints = 26;  // 4 batches of 8, the last one of 2
constexpr int kEpochs = 4;

data::Dataset Rows(int64_t points = kPoints) { return data::Dataset::FromArrays(Points(points)); }

// Interrupts the training at a given call of a callback hook.
class Ends : public Callback {
 public:
  explicit Ends(int at) : at_(at) {}
  std::string state_name() const override { return "Ends"; }
  bool RunsLast() const override { return true; }
  absl::Status EpochBegin(TrainingContext&, const Position&) override { return Next(); }
  absl::Status BatchEnd(TrainingContext&, const Position&, const Logs&) override { return Next(); }
  absl::Status EpochTrained(TrainingContext&, const Position&) override { return Next(); }
  absl::Status EpochEnd(TrainingContext&, const Position&, const Logs&) override { return Next(); }

 private:
  absl::Status Next() {
    return at_-- == 0 ? absl::CancelledError("the machine is gone") : absl::OkStatus();
  }
  int at_;
};

struct Result {
  base::NamedArrays state;
  History history;
  std::string log;
};

struct Scenario {
  int replicas = 1;
  int64_t every_steps = 0;
  bool endless = false;

  data::Dataset Data() const {
    const data::Dataset rows = Rows().Shuffle(20).Batch(8);
    return endless ? rows.Repeat() : rows;
  }
};

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class ResumeAnywhere : public ::testing::TestWithParam<Scenario> {
 protected:
  void SetUp() override {
    auto trainer = SmallTrainer({.network = SmallNet(/*dropout=*/0.3, /*batch_norm=*/true),
                                 .replicas = GetParam().replicas,
                                 .steps_per_execution = kAutoSteps});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
    first_ = *trainer_->State();
    log_ = testing::NewPath(".csv");
  }
  void TearDown() override { std::filesystem::remove(log_); }

  // Starts a new run or resumes from `fs`; interrupts it at call number `end`, or trains to the end
  // if -1.
  absl::StatusOr<Result> Train(const std::shared_ptr<io::FileSystem>& fs, int end,
                               bool ends_before_saving = false) {
    PENSTOCK_RETURN_IF_ERROR(trainer_->SetState(first_));
    FitOptions fit{.epochs = kEpochs,
                   .validation_data = &validation_,
                   .steps_per_epoch = GetParam().endless ? 3 : 0};
    fit.callbacks = {
        ReduceLROnPlateau({.monitor = "loss", .factor = 0.5, .patience = 1, .min_delta = 0.5}),
        EarlyStopping(
            {.monitor = "val_loss", .min_delta = 0.2, .patience = 3, .restore_best_weights = true}),
        CsvLogger({.path = log_})};
    const auto ends = std::make_shared<Ends>(end);
    if (ends_before_saving) fit.callbacks.push_back(ends);
    if (fs != nullptr) {
      fit.callbacks.push_back(Checkpoint({.folder = kFolder,
                                          .every_steps = GetParam().every_steps,
                                          .keep = 1,
                                          .keep_best = "val_accuracy",
                                          .file_system = fs}));
    }
    if (!ends_before_saving) fit.callbacks.push_back(ends);
    Result result;
    PENSTOCK_ASSIGN_OR_RETURN(result.history, trainer_->Fit(GetParam().Data(), fit));
    PENSTOCK_ASSIGN_OR_RETURN(result.state, trainer_->State());
    result.log = Contents(log_);
    return result;
  }

  void ExpectSame(const Result& a, const Result& b) {
    for (const auto& [name, array] : a.state) {
      EXPECT_TRUE(base::BitwiseEqual(array, *b.state.Find(name))) << name;
    }
    ASSERT_EQ(a.history.epochs.size(), b.history.epochs.size());
    for (size_t e = 0; e < a.history.epochs.size(); ++e) {
      auto other = b.history.epochs[e].begin();
      for (const auto& entry : a.history.epochs[e]) EXPECT_EQ(entry, *other++) << "epoch " << e;
      EXPECT_EQ(other, b.history.epochs[e].end());
    }
    EXPECT_EQ(a.history.stop_reason, b.history.stop_reason);
    EXPECT_EQ(a.log, b.log);
  }

  std::unique_ptr<Trainer> trainer_;
  base::NamedArrays first_;
  std::string log_;
  const data::Dataset validation_ = data::Dataset::FromArrays(Points(10, 2)).Batch(8);
};

INSTANTIATE_TEST_SUITE_P(Trainings, ResumeAnywhere,
                         ::testing::Values(Scenario{.every_steps = 1},
                                           Scenario{.replicas = 2, .every_steps = 3},
                                           Scenario{.replicas = 2},
                                           Scenario{.every_steps = 2, .endless = true}),
                         [](const auto& info) {
                           const Scenario& s = info.param;
                           return absl::StrCat(s.replicas, "Replicas", s.every_steps, "Steps",
                                               s.endless ? "Endless" : "");
                         });

TEST_P(ResumeAnywhere, InterruptionAtAnyPointIsBitIdentical) {
  const absl::StatusOr<Result> whole = Train(nullptr, -1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const bool before_saving : {false, true}) {
    if (before_saving && GetParam().every_steps == 1) break;  // the same points as after saving
    bool ended = true;
    int moments = 0;
    for (; ended && !HasFailure(); ++moments) {
      SCOPED_TRACE(absl::StrCat(before_saving ? "before" : "after", " saving, moment ", moments));
      const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
      const absl::StatusOr<Result> broken = Train(fs, moments, before_saving);
      ended = !broken.ok();
      if (ended) {
        ASSERT_TRUE(absl::IsCancelled(broken.status())) << broken.status();
      }
      const absl::StatusOr<Result> resumed = Train(fs, -1);
      ASSERT_TRUE(resumed.ok()) << resumed.status();
      ExpectSame(*whole, *resumed);
    }
    EXPECT_GT(moments, 4 * kEpochs);
  }
}

// Every run proceeds a few calls further than the previous one.
TEST_P(ResumeAnywhere, RepeatedInterruptionsAreBitIdentical) {
  const absl::StatusOr<Result> whole = Train(nullptr, -1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  int runs = 0;
  absl::StatusOr<Result> result = absl::CancelledError("");
  for (; absl::IsCancelled(result.status()) && runs < 100; ++runs) result = Train(fs, 7);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(runs, 2);
  ExpectSame(*whole, *result);
}

// Trains `network`, saving checkpoints to the folder or resuming from it.
absl::Status TrainInto(const std::shared_ptr<io::FileSystem>& fs, const nn::Network& network,
                       const nn::Optimizer& optimizer,
                       std::vector<std::shared_ptr<Callback>> callbacks = {}, int epochs = 1) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto trainer,
                            SmallTrainer({.network = network, .optimizer = optimizer}));
  callbacks.push_back(Checkpoint({.folder = kFolder, .file_system = fs}));
  return trainer->Fit(Rows().Batch(8), {.epochs = epochs, .callbacks = std::move(callbacks)})
      .status();
}

nn::Network Net(const std::string& name, const std::vector<std::string>& activations) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  nn::Symbol h = x;
  for (size_t i = 0; i < activations.size(); ++i) {
    h = nn::Dense({.units = 4, .activation = activations[i], .name = absl::StrCat("d", i)})(h);
  }
  return nn::Network({x}, {nn::Dense({.units = 3, .name = "logits"})(h)}, name);
}

const nn::Optimizer kSgd = nn::SGD({.learning_rate = 0.1});

std::string RejectionMessage(const nn::Network& saved, const nn::Optimizer& saved_by,
                             const nn::Network& resumed, const nn::Optimizer& resumed_by) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  EXPECT_TRUE(TrainInto(fs, saved, saved_by).ok());
  const absl::Status status = TrainInto(fs, resumed, resumed_by, {}, 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  // The checkpoint is unchanged.
  EXPECT_TRUE(TrainInto(fs, saved, saved_by, {}, 2).ok());
  return std::string(status.message());
}

TEST(ResumeRejects, AnotherArchitectureAndNamesBoth) {
  // The larger network has all arrays of the smaller one.
  EXPECT_THAT(RejectionMessage(Net("deep", {"tanh", "tanh"}), kSgd, Net("flat", {"tanh"}), kSgd),
              AllOf(HasSubstr("network 'deep' with 4 layers"),
                    HasSubstr("network 'flat' with 3 layers"), HasSubstr("another folder")));
  // The same arrays, but another activation.
  EXPECT_THAT(RejectionMessage(Net("a", {"tanh"}), kSgd, Net("a", {"relu"}), kSgd),
              AllOf(HasSubstr("layer 1"), HasSubstr("tanh"), HasSubstr("relu")));
}

TEST(ResumeRejects, AnotherOptimizerAndOtherSlots) {
  EXPECT_THAT(RejectionMessage(Net("a", {"tanh"}), kSgd, Net("a", {"tanh"}), nn::Adam({})),
              AllOf(HasSubstr("trained by SGD"), HasSubstr("trained by Adam")));
  const nn::Optimizer momentum = nn::SGD({.learning_rate = 0.1, .momentum = 0.9});
  EXPECT_THAT(RejectionMessage(Net("a", {"tanh"}), kSgd, Net("a", {"tanh"}), momentum),
              AllOf(HasSubstr("lacks"), HasSubstr("optimizer/momentum/d0/kernel")));
  EXPECT_THAT(RejectionMessage(Net("a", {"tanh"}), momentum, Net("a", {"tanh"}), kSgd),
              AllOf(HasSubstr("this run lacks"), HasSubstr("optimizer/momentum/d0/kernel")));
}

TEST(ResumeAccepts, ChangedTrainingOptions) {
  const auto net = [](double rate, const std::string& initializer) {
    const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
    const nn::Symbol h = nn::Dropout({.rate = rate})(x);
    return nn::Network(
        {x}, {nn::Dense({.units = 3, .kernel_initializer = initializer, .name = "logits"})(h)});
  };
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(TrainInto(fs, net(0.1, "glorot_uniform"), kSgd).ok());
  const absl::Status status = TrainInto(fs, net(0.2, "zeros"), kSgd, {}, 2);
  EXPECT_TRUE(status.ok()) << status;
}

// A run that lost half of its devices, or got more: the numbers of one that was not interrupted, up
// to the order of the sums. Its network computes the same on any number of replicas: each of them
// would draw its own numbers in Dropout.
TEST(ResumeAccepts, AnotherNumberOfReplicas) {
  struct Run {
    History history;
    base::NamedArrays weights;
  };
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol h = nn::BatchNormalization({.momentum = 0.9, .synchronized = true})(
      nn::Dense({.units = 8, .activation = "tanh"})(x));
  const nn::Network network({x}, {nn::Dense({.units = 3})(h)});
  // Trains until step `end`; 0: to the end.
  const auto train = [&](const std::shared_ptr<io::FileSystem>& fs, int replicas,
                         int64_t end) -> absl::StatusOr<Run> {
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto trainer,
        SmallTrainer(
            {.network = network, .optimizer = nn::Adam({.epsilon = 1e-3}), .replicas = replicas}));
    const data::Dataset validation = data::Dataset::FromArrays(Points(10, 2)).Batch(8);
    const auto ends = LambdaCallback({.on_train_batch_end = [&](TrainingContext&,
                                                                const Position& at, const Logs&) {
      return at.total_steps == end ? absl::CancelledError("the machine is gone") : absl::OkStatus();
    }});
    FitOptions fit{.epochs = kEpochs, .callbacks = {ends}, .validation_data = &validation};
    fit.callbacks.push_back(Checkpoint({.folder = kFolder, .every_steps = 2, .file_system = fs}));
    Run run;
    PENSTOCK_ASSIGN_OR_RETURN(run.history, trainer->Fit(Rows().Shuffle(20).Batch(8), fit));
    PENSTOCK_ASSIGN_OR_RETURN(run.weights, trainer->Weights());
    return run;
  };
  const absl::StatusOr<Run> whole = train(io::MakeMemoryFileSystem(), 1, 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const std::vector<int>& replicas : {std::vector{2, 1, 2}, {1, 3, 2}}) {
    const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
    // In the middle of the second epoch, and in the third one.
    ASSERT_TRUE(absl::IsCancelled(train(fs, replicas[0], 7).status()));
    ASSERT_TRUE(absl::IsCancelled(train(fs, replicas[1], 11).status()));
    const absl::StatusOr<Run> run = train(fs, replicas[2], 0);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_LT(testing::LargestDifference(whole->weights, run->weights), 1e-5);
    ASSERT_EQ(run->history.epochs.size(), whole->history.epochs.size());
    for (size_t e = 0; e < whole->history.epochs.size(); ++e) {
      for (const auto& [name, value] : whole->history.epochs[e]) {
        ASSERT_NE(run->history.epochs[e].Find(name), nullptr) << name;
        EXPECT_NEAR(*run->history.epochs[e].Find(name), value, 1e-5) << name << ", epoch " << e;
      }
    }
  }
}

// Rewrites the saved progress in the format of an older version.
void Rewrite(io::FileSystem& fs, const std::function<void(nlohmann::ordered_json&)>& change) {
  save::CheckpointManager manager(fs, kFolder);
  save::Checkpoint checkpoint = manager.ReadLatest()->checkpoint;
  auto json = nlohmann::ordered_json::parse(checkpoint.state);
  change(json);
  checkpoint.state = json.dump();
  ASSERT_TRUE(manager.Save(checkpoint).ok());
}

TEST(ResumeRejects, OtherArraysWhereThereIsNoFingerprint) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(TrainInto(fs, Net("deep", {"tanh", "tanh"}), kSgd).ok());
  const auto forget = [](nlohmann::ordered_json& json) { json.erase("model"); };
  Rewrite(*fs, forget);
  const absl::Status status = TrainInto(fs, Net("flat", {"tanh"}), kSgd, {}, 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("2 arrays that this run lacks"), HasSubstr("d1/kernel")));
  EXPECT_TRUE(TrainInto(fs, Net("deep", {"tanh", "tanh"}), kSgd, {}, 2).ok());
}

TEST(ResumeAccepts, ManifestsOfOlderVersions) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const auto stopping = EarlyStopping({.monitor = "loss", .patience = 5});
  ASSERT_TRUE(TrainInto(fs, Net("a", {"tanh"}), kSgd, {stopping}).ok());
  const std::string best = stopping->Save();
  Rewrite(*fs, [&](nlohmann::ordered_json& json) {
    for (const char* key :
         {"model", "trained", "logs", "batch_rows", "known_steps_per_epoch", "auto_steps"}) {
      json.erase(key);
    }
    json["epoch"] = 1;
    json["step"] = 0;
    json["history"] = nlohmann::ordered_json::parse(R"([[["loss", 0.5], ["accuracy", "nan"]]])");
    json["callbacks"] = nlohmann::ordered_json::array({"", best, ""});
  });
  const auto again = EarlyStopping({.monitor = "loss", .patience = 5});
  const auto check =
      LambdaCallback({.on_epoch_begin = [&](train::TrainingContext&, const Position& at) {
        EXPECT_EQ(again->Save(), best);
        EXPECT_EQ(at.epoch, 1);
        return absl::OkStatus();
      }});
  const absl::Status status = TrainInto(fs, Net("a", {"tanh"}), kSgd, {again, check}, 2);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ResumeAccepts, AddedRemovedAndReorderedCallbacks) {
  const std::string log = testing::NewPath(".csv");
  const auto loss = [] { return EarlyStopping({.monitor = "loss", .patience = 9}); };
  const auto accuracy = [] {
    return EarlyStopping({.monitor = "accuracy", .patience = 9, .mode = Mode::kMax});
  };
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const auto first_loss = loss(), first_accuracy = accuracy();
  ASSERT_TRUE(TrainInto(fs, Net("a", {"tanh"}), kSgd,
                        {first_loss, ReduceLROnPlateau({.monitor = "loss"}), first_accuracy}, 2)
                  .ok());
  const auto second_loss = loss(), second_accuracy = accuracy();
  bool checked = false;
  const auto check =
      LambdaCallback({.on_epoch_begin = [&](train::TrainingContext&, const Position&) {
        // The state saved before the end of the second epoch is that of the first epoch.
        if (!checked) {
          const auto best = [](const Callback& c) {
            return std::stod(nlohmann::json::parse(c.Save())["best"].get<std::string>());
          };
          EXPECT_GT(best(*second_loss), 0.4) << "it has the best loss of the first epoch";
          EXPECT_LE(best(*second_accuracy), 1);
          EXPECT_GE(best(*second_accuracy), 0);
        }
        checked = true;
        return absl::OkStatus();
      }});
  const absl::Status status =
      TrainInto(fs, Net("a", {"tanh"}), kSgd,
                {second_accuracy, check, CsvLogger({.path = log}), TerminateOnNan(), second_loss},
                /*epochs=*/3);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(checked);
  std::filesystem::remove(log);
}

// The checkpoint of an epoch is saved before validation and the other callbacks, which may fail.
TEST(ResumeAfterAnError, DoesNotRepeatFinishedEpoch) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const auto trainer = *SmallTrainer();
  const data::Dataset missing = Rows(8)
                                    .Map([](const base::NamedArrays&, base::NamedArrays*) {
                                      return absl::UnavailableError("the disk does not answer");
                                    })
                                    .Batch(8);
  const data::Dataset there = Rows(8).Batch(8);
  std::vector<std::pair<int, int64_t>> steps;
  bool fails = true;
  const auto watch = LambdaCallback(
      {.on_train_batch_end = [&](train::TrainingContext&, const Position& at,
                                 const Logs&) -> absl::Status {
         steps.emplace_back(at.epoch, at.step);
         return absl::OkStatus();
       },
       .on_epoch_end =
           [&](train::TrainingContext&, const Position&, const Logs&) {
             return fails ? absl::ResourceExhaustedError("the disk is full") : absl::OkStatus();
           }});
  const auto train = [&](const data::Dataset& validation) {
    return trainer->Fit(Rows().Batch(8),
                        {.epochs = 1,
                         .callbacks = {watch, Checkpoint({.folder = kFolder, .file_system = fs})},
                         .validation_data = &validation});
  };
  EXPECT_FALSE(train(missing).ok());
  EXPECT_EQ(steps.size(), 4u);
  EXPECT_TRUE(absl::IsResourceExhausted(train(there).status()));
  fails = false;
  const absl::StatusOr<History> history = train(there);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(steps.size(), 4u) << "no step was repeated";
  ASSERT_EQ(history->epochs.size(), 1u);
  EXPECT_NE(history->epochs[0].Find("loss"), nullptr);
  EXPECT_NE(history->epochs[0].Find("val_loss"), nullptr);
}

// For example, TensorBoard's files on a full disk.
TEST(ResumeAfterAnError, UnwritableLogDoesNotEndTraining) {
  class Log : public Callback {
   public:
    bool IsLog() const override { return true; }
    absl::Status BatchEnd(train::TrainingContext&, const Position&, const Logs&) override {
      return Full();
    }
    absl::Status EpochEnd(train::TrainingContext&, const Position&, const Logs&) override {
      return Full();
    }
    absl::Status TrainEnd(train::TrainingContext&) override { return Full(); }
    int calls = 0;

   private:
    absl::Status Full() {
      ++calls;
      return absl::ResourceExhaustedError("the disk is full");
    }
  };
  const auto log = std::make_shared<Log>();
  const auto trainer = *SmallTrainer();
  const auto history = trainer->Fit(Rows().Batch(8), {.epochs = 2, .callbacks = {log}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(log->calls, 4 * 2 + 2 + 1);
  EXPECT_THAT(history->incomplete_logs,
              ::testing::ElementsAre(absl::StrCat(log->name(), ": the disk is full")));
  EXPECT_TRUE(TensorBoard({.folder = "f"})->IsLog());
}

TEST(ResumeRejects, NewRunInFolderOfAnotherRun) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(TrainInto(fs, SmallNet(), kSgd).ok());
  const auto trainer = *SmallTrainer();
  const auto anew = Checkpoint({.folder = kFolder, .resume = false, .file_system = fs});
  const absl::Status status =
      trainer->Fit(Rows().Batch(8), {.epochs = 3, .callbacks = {anew}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("checkpoints of an earlier run"));
}

// The manifest has a size limit, which a long history must not exceed.
TEST(Resume, RestoresHistoryOfManyEpochs) {
  constexpr int kMany = 100'000;
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(TrainInto(fs, SmallNet(), kSgd).ok());
  {
    save::CheckpointManager manager(*fs, kFolder);
    save::Checkpoint checkpoint = manager.ReadLatest()->checkpoint;
    auto json = nlohmann::ordered_json::parse(checkpoint.state);
    json["epoch"] = kMany;
    json["history"] = {{"epochs", kMany}, {"names", {"loss", "val_loss"}}};
    for (const char* name : {"loss", "val_loss"}) {
      Array values = Array::Zeros(DType::kF64, {kMany}), has = Array::Zeros(DType::kBool, {kMany});
      for (int i = 0; i < kMany; ++i) {
        values.mutable_data<double>()[i] = 1.0 / (i + 3);
        has.mutable_data<bool>()[i] = name[0] == 'l' || i % 2 == 1;
      }
      values.mutable_data<double>()[7] = std::nan("");
      checkpoint.arrays.Set(absl::StrCat("run/history/", name), values);
      checkpoint.arrays.Set(absl::StrCat("run/history_has/", name), has);
    }
    checkpoint.state = json.dump();
    ASSERT_TRUE(manager.Save(checkpoint).ok());
  }
  const auto trainer = *SmallTrainer({.optimizer = kSgd});
  const absl::StatusOr<History> history = trainer->Fit(
      Rows().Batch(8),
      {.epochs = kMany + 2, .callbacks = {Checkpoint({.folder = kFolder, .file_system = fs})}});
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->epochs.size(), kMany + 2u);
  EXPECT_EQ(*history->epochs[kMany - 1].Find("val_loss"), 1.0 / (kMany + 2));
  EXPECT_EQ(history->epochs[kMany - 2].Find("val_loss"), nullptr);
  EXPECT_TRUE(std::isnan(*history->epochs[7].Find("loss")));
  save::CheckpointManager manager(*fs, kFolder);
  EXPECT_LT(manager.ReadLatest()->checkpoint.state.size(), 10'000u);
}

}  // namespace resume_anywhere_test
}  // namespace penstock::train
