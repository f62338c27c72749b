// When Checkpoint saves, and what training does meanwhile: asynchronous saves, saves by time, and
// SIGTERM. What a checkpoint contains is tested in loop/resume*_test.cc.
#include "penstock/train/callbacks/checkpoint.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/termination_signal.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/nn/optimizers.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/save/testing/gated_file_system.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/fake_context.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace checkpoint_callback_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

constexpr char kFolder[] = "memory://bucket/run";
constexpr int kEpochs = 3;

data::Dataset Batches() { return data::Dataset::FromArrays(Points(26)).Shuffle(20).Batch(8); }

std::vector<save::CheckpointInfo> Complete(io::FileSystem& fs) {
  const absl::StatusOr<save::CheckpointList> list = save::CheckpointManager(fs, kFolder).List();
  EXPECT_TRUE(list.ok()) << list.status();
  return list.ok() ? list->complete : std::vector<save::CheckpointInfo>();
}

std::vector<int64_t> Steps(io::FileSystem& fs) {
  std::vector<int64_t> steps;
  for (const save::CheckpointInfo& info : Complete(fs)) steps.push_back(info.step);
  return steps;
}

// A training of kEpochs epochs of 4 steps.
class CheckpointCallbackTest : public ::testing::Test {
 protected:
  CheckpointCallbackTest() {
    auto trainer = SmallTrainer({.network = SmallNet(/*dropout=*/0.3, /*batch_norm=*/true)});
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
    first_ = *trainer_->State();
  }

  // `others` are called before the checkpoint callback.
  absl::StatusOr<History> Fit(CheckpointOptions checkpoint,
                              std::vector<std::shared_ptr<Callback>> others = {}) {
    PENSTOCK_RETURN_IF_ERROR(trainer_->SetState(first_));
    FitOptions fit{
        .epochs = kEpochs, .callbacks = std::move(others), .validation_data = &validation_};
    if (checkpoint.file_system == nullptr) checkpoint.file_system = fs_;
    fit.callbacks.push_back(Checkpoint(checkpoint));
    if (checkpoint.termination == nullptr) last_ = fit.callbacks.back();
    return trainer_->Fit(Batches(), fit);
  }

  std::unique_ptr<Trainer> trainer_;
  base::NamedArrays first_;
  std::shared_ptr<Callback> last_;  // outlives Fit, since its destructor waits for saves
  const std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
  const data::Dataset validation_ = data::Dataset::FromArrays(Points(20, 2)).Batch(8);
};

// ---- One training at a time ----

// Two would replace and remove each other's files.
TEST_F(CheckpointCallbackTest, ASecondTrainingInTheFolderIsAnErrorAtItsStart) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "checkpoint_lock_", absl::Hex(base::EntropySeed()));
  const std::shared_ptr<io::FileSystem> local = io::FileSystem::Default();
  const CheckpointOptions options = {.folder = folder, .every_steps = 1, .file_system = local};
  const auto second = *SmallTrainer({.network = SmallNet(0, false)});
  int64_t steps = 0;
  const auto count =
      LambdaCallback({.on_train_batch_begin = [&](TrainingContext&, const Position&) {
        ++steps;
        return absl::OkStatus();
      }});
  absl::Status meanwhile, read;
  const auto others =
      LambdaCallback({.on_train_batch_end = [&](TrainingContext&, const Position& at, const Logs&) {
        if (at.total_steps != 3) return absl::OkStatus();
        meanwhile = second->Fit(Batches(), {.callbacks = {count, Checkpoint(options)}}).status();
        read = save::CheckpointManager(*local, folder).ReadLatest().status();
        return absl::OkStatus();
      }});
  ASSERT_TRUE(Fit(options, {others}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(meanwhile)) << meanwhile;
  EXPECT_THAT(std::string(meanwhile.message()),
              AllOf(HasSubstr("another training saves its checkpoints in " + folder),
                    HasSubstr("another folder")));
  EXPECT_EQ(steps, 0);
  EXPECT_TRUE(read.ok()) << "readers are not blocked: " << read;
  const CheckpointOptions again = {.folder = folder + "/other", .file_system = local};
  EXPECT_TRUE(second->Fit(Batches(), {.callbacks = {Checkpoint(again)}}).ok());
  EXPECT_TRUE(Fit(options).ok()) << "the lock ends with the training";
  EXPECT_TRUE(local->RemoveRecursively(folder).ok());
}

// ---- Asynchronous saves ----

TEST_F(CheckpointCallbackTest, AsynchronousCheckpointsAreThoseOfSynchronousSaves) {
  struct Content {
    std::vector<std::string> files = {};
    std::string state = {};
    std::optional<double> score = {};
    bool operator==(const Content&) const = default;
  };
  const auto train = [&](bool asynchronous) {
    const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
    const absl::StatusOr<History> history =
        Fit({.folder = kFolder,
             .every_steps = 3,
             .keep = 4,
             .keep_best = "val_loss",
             .file_system = fs,
             .asynchronous = asynchronous},
            {EarlyStopping({.patience = 9, .restore_best_weights = true})});
    EXPECT_TRUE(history.ok()) << history.status();
    std::map<int64_t, Content> contents;
    for (const save::CheckpointInfo& info : Complete(*fs)) {
      Content& content = contents[info.step];
      content.state = info.state;
      content.score = info.score;
      for (const std::string& uri : info.files) content.files.push_back(*io::ReadFile(*fs, uri));
    }
    return contents;
  };
  const std::map<int64_t, Content> asynchronous = train(true);
  EXPECT_GE(asynchronous.size(), 4u);
  EXPECT_TRUE(asynchronous.begin()->second.score.has_value() ||
              asynchronous.rbegin()->second.score.has_value());
  EXPECT_TRUE(asynchronous == train(false));
}

// All steps of the training are done while the first checkpoint is being written.
TEST_F(CheckpointCallbackTest, TrainingGoesOnDuringWriteAndFitWaitsForIt) {
  struct Ending {
    const char* name;
    std::function<absl::Status(TrainingContext&)> end;  // in the last epoch's EpochEnd
    bool ok = true;
  };
  const Ending kEndings[] = {
      {"last epoch", [](TrainingContext&) { return absl::OkStatus(); }},
      {"stop",
       [](TrainingContext& context) {
         context.Stop("enough");
         return absl::OkStatus();
       }},
      {"error", [](TrainingContext&) { return absl::CancelledError("the user"); }, false}};
  for (const Ending& ending : kEndings) {
    SCOPED_TRACE(ending.name);
    const std::shared_ptr<io::FileSystem> inner = io::MakeMemoryFileSystem();
    const auto gate = std::make_shared<save::GatedFileSystem>(inner);
    int steps = 0;
    const auto watch = LambdaCallback(
        {.on_train_begin =
             [&](TrainingContext&) {
               gate->Close();
               return absl::OkStatus();
             },
         .on_train_batch_end =
             [&](TrainingContext&, const Position&, const Logs&) {
               ++steps;
               return absl::OkStatus();
             },
         .on_epoch_end =
             [&](TrainingContext& context, const Position& at, const Logs&) {
               return at.epoch + 1 == kEpochs ? ending.end(context) : absl::OkStatus();
             },
         .on_train_end =
             [&](TrainingContext&) {
               gate->AwaitWriter();
               EXPECT_THAT(Steps(*inner), IsEmpty());
               gate->Open();
               return absl::OkStatus();
             }});
    // Only one save: a second one would wait for it.
    const absl::StatusOr<History> history =
        Fit({.folder = kFolder, .every_epochs = 0, .every_steps = 7, .file_system = gate}, {watch});
    EXPECT_EQ(history.ok(), ending.ok) << history.status();
    EXPECT_EQ(steps, 4 * kEpochs);
    EXPECT_THAT(Steps(*inner), ElementsAre(7));
  }
}

TEST_F(CheckpointCallbackTest, BackgroundErrorIsReturnedAtTheNextStep) {
  std::atomic<bool> full = false;
  const auto fs = std::make_shared<save::FaultyFileSystem>(fs_, [&](int64_t) {
    return full ? absl::ResourceExhaustedError("no space left on device") : absl::OkStatus();
  });
  // By hooks, since a training of a few steps may end before the write fails.
  for (const bool at_begin : {true, false}) {
    full = false;
    const auto callback = Checkpoint({.folder = kFolder, .every_steps = 1000, .file_system = fs});
    testing::FakeContext context;
    context.weights = {{"w", Array::Of<float>({2}, {1, 2})}};
    ASSERT_TRUE(callback->Check(context).ok());
    ASSERT_TRUE(callback->TrainBegin(context).ok());
    full = true;
    Position at{.epoch = 0, .step = 1000, .total_steps = 1000};
    absl::Status status = callback->BatchEnd(context, at, {});
    while (status.ok()) {  // does not end if the error is lost
      ++at.total_steps;
      if (at.total_steps % 1000 == 0) ++at.total_steps;  // no other save
      status = at_begin ? callback->BatchBegin(context, at) : callback->BatchEnd(context, at, {});
      std::this_thread::yield();
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("saving a checkpoint of step 1000"), HasSubstr("no space left")));
    EXPECT_TRUE(callback->TrainEnd(context).ok()) << "the error was returned already";
  }
}

TEST_F(CheckpointCallbackTest, ErrorOfTheLastWriteIsReturnedByFit) {
  const auto gate = std::make_shared<save::GatedFileSystem>(fs_);
  std::atomic<bool> full = false;
  const auto fs = std::make_shared<save::FaultyFileSystem>(gate, [&](int64_t) {
    return full ? absl::ResourceExhaustedError("no space left on device") : absl::OkStatus();
  });
  // The only write is that after the last step. It is in progress when the training ends.
  const auto watch = LambdaCallback({.on_train_begin =
                                         [&](TrainingContext&) {
                                           full = true;
                                           gate->Close();
                                           return absl::OkStatus();
                                         },
                                     .on_train_end =
                                         [&](TrainingContext&) {
                                           gate->AwaitWriter();
                                           gate->Open();
                                           return absl::OkStatus();
                                         }});
  const absl::Status status =
      Fit({.folder = kFolder, .every_epochs = kEpochs, .remove_at_end = true, .file_system = fs},
          {watch})
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("saving a checkpoint of step 12"));
}

// A compilation may use up all memory, so the checkpoint before it is complete when it begins.
TEST_F(CheckpointCallbackTest, SaveBeforeCompilingIsAwaited) {
  const auto gate = std::make_shared<save::GatedFileSystem>(fs_);
  const auto callback = Checkpoint({.folder = kFolder, .file_system = gate});
  testing::FakeContext context;
  context.weights = {{"w", Array::Of<float>({2}, {1, 2})}};
  ASSERT_TRUE(callback->Check(context).ok());
  ASSERT_TRUE(callback->TrainBegin(context).ok());
  gate->Close();
  std::thread opener([&] {
    gate->AwaitWriter();
    gate->Open();
  });
  EXPECT_TRUE(callback->BeforeCompiling(context, {.step = 3, .total_steps = 3}).ok());
  EXPECT_THAT(Steps(*fs_), ElementsAre(3));
  opener.join();
}

// ---- Saves by time ----

TEST_F(CheckpointCallbackTest, SavesEveryFewMinutes) {
  base::FakeClock clock;
  const auto minute =
      LambdaCallback({.on_train_batch_begin = [&](TrainingContext&, const Position&) {
        clock.Advance(60);
        return absl::OkStatus();
      }});
  // Synchronous, so that no save is postponed.
  const auto train = [&](CheckpointOptions options) {
    const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
    options.file_system = fs;
    options.keep = 100;
    options.asynchronous = false;
    options.clock = &clock;
    const absl::StatusOr<History> history = Fit(options, {minute});
    EXPECT_TRUE(history.ok()) << history.status();
    return Steps(*fs);
  };
  EXPECT_THAT(train({.folder = kFolder, .every_epochs = 0, .every = absl::Minutes(5)}),
              ElementsAre(5, 10));
  // The time since any save counts.
  EXPECT_THAT(train({.folder = kFolder, .every_epochs = 1, .every = absl::Minutes(3)}),
              ElementsAre(3, 4, 7, 8, 11, 12));
  EXPECT_THAT(
      train({.folder = kFolder, .every_epochs = 0, .every_steps = 6, .every = absl::Minutes(4)}),
      ElementsAre(4, 6, 10, 12));
  EXPECT_THAT(train({.folder = kFolder, .every_epochs = 0, .every = absl::Hours(1)}), IsEmpty());
  for (const CheckpointOptions& options :
       {CheckpointOptions{.folder = kFolder, .every = -absl::Seconds(1)},
        CheckpointOptions{.folder = kFolder, .every_epochs = 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Fit(options).status()));
  }
}

TEST_F(CheckpointCallbackTest, SaveByTimeIsPostponedDuringWrite) {
  base::FakeClock clock;
  const auto gate = std::make_shared<save::GatedFileSystem>(fs_);
  int steps = 0;
  const auto watch = LambdaCallback({.on_train_begin =
                                         [&](TrainingContext&) {
                                           gate->Close();
                                           return absl::OkStatus();
                                         },
                                     .on_train_batch_begin =
                                         [&](TrainingContext&, const Position&) {
                                           clock.Advance(60);
                                           ++steps;
                                           return absl::OkStatus();
                                         },
                                     .on_train_end =
                                         [&](TrainingContext&) {
                                           gate->Open();
                                           return absl::OkStatus();
                                         }});
  const absl::StatusOr<History> history = Fit({.folder = kFolder,
                                               .every_epochs = 0,
                                               .keep = 100,
                                               .file_system = gate,
                                               .every = absl::Minutes(1),
                                               .clock = &clock},
                                              {watch});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(steps, 4 * kEpochs) << "training waited for the write of step 1";
  EXPECT_THAT(Steps(*fs_), ElementsAre(1));
}

// ---- SIGTERM ----

// Receives SIGTERM in a given call of a hook, and counts what the training does after that.
class GetsSigterm : public Callback {
 public:
  explicit GetsSigterm(int at) : at_(at) {}
  absl::Status TrainBegin(TrainingContext&) override { return Next(1); }
  absl::Status EpochBegin(TrainingContext&, const Position&) override { return Next(1); }
  absl::Status BatchBegin(TrainingContext&, const Position&) override {
    if (met()) ++batches_;
    return Next(0);
  }
  absl::Status BatchEnd(TrainingContext&, const Position&, const Logs&) override { return Next(1); }
  absl::Status EpochTrained(TrainingContext&, const Position&) override { return Next(0); }
  absl::Status TestBegin(InferenceContext&) override { return Next(0); }
  absl::Status TestBatchEnd(InferenceContext&, int64_t, const Logs&) override {
    if (met()) ++validation_batches_;
    return Next(0);
  }
  absl::Status EpochEnd(TrainingContext&, const Position&, const Logs&) override { return Next(0); }

  bool met() const { return at_ < 0; }
  // The checkpoint callback decides in BatchBegin whether the batch that begins is the last one. A
  // validation ends with the batch that is being evaluated.
  void ExpectTimely() const {
    EXPECT_LE(batches_, allowed_);
    EXPECT_EQ(validation_batches_, 0);
  }

 private:
  absl::Status Next(int allowed) {
    if (at_-- == 0) {
      allowed_ = allowed;
      std::raise(SIGTERM);
    }
    return absl::OkStatus();
  }
  int at_;
  int allowed_ = 0, batches_ = 0, validation_batches_ = 0;
};

class SigtermTest : public CheckpointCallbackTest,
                    public ::testing::WithParamInterface<CheckpointOptions> {
 protected:
  struct Result {
    base::NamedArrays state;
    History history;
  };

  // A training that SIGTERM reaches at call `at` of a hook; -1: never.
  absl::StatusOr<Result> Train(const std::shared_ptr<io::FileSystem>& fs, int at,
                               bool* met = nullptr) {
    CheckpointOptions options = GetParam();
    options.file_system = fs;
    PENSTOCK_ASSIGN_OR_RETURN(options.termination, base::TerminationSignal::Install());
    const auto sigterm = std::make_shared<GetsSigterm>(at < 0 ? 1 << 30 : at);
    Result result;
    PENSTOCK_ASSIGN_OR_RETURN(
        result.history,
        Fit(options, {EarlyStopping({.patience = 9, .restore_best_weights = true}), sigterm}));
    if (met != nullptr) *met = sigterm->met();
    if (result.history.interrupted) sigterm->ExpectTimely();
    PENSTOCK_ASSIGN_OR_RETURN(result.state, trainer_->State());
    return result;
  }
};

const char* SavesName(size_t index) {
  constexpr const char* kNames[] = {"Epochs", "Steps", "EpochsAndSteps", "OnlySigtermSynchronous"};
  return kNames[index];
}

INSTANTIATE_TEST_SUITE_P(
    Saves, SigtermTest,
    ::testing::Values(CheckpointOptions{.folder = kFolder, .every_epochs = 1},
                      CheckpointOptions{.folder = kFolder, .every_epochs = 0, .every_steps = 3},
                      CheckpointOptions{.folder = kFolder, .every_epochs = 2, .every_steps = 4},
                      CheckpointOptions{
                          .folder = kFolder, .every_epochs = 0, .asynchronous = false}),
    [](const auto& info) { return SavesName(info.index); });

TEST_P(SigtermTest, AtAnyPointIsSavedAndResumesBitIdentically) {
  const absl::StatusOr<Result> whole = Train(io::MakeMemoryFileSystem(), -1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE(whole->history.interrupted);
  int interruptions = 0;
  bool met = true;
  for (int at = 0; met && !HasFailure(); ++at) {
    SCOPED_TRACE(absl::StrCat("SIGTERM in call ", at));
    const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
    absl::StatusOr<Result> result = Train(fs, at, &met);
    ASSERT_TRUE(result.ok()) << result.status();
    if (result->history.interrupted) {
      ++interruptions;
      ASSERT_FALSE(Steps(*fs).empty());
      EXPECT_THAT(result->history.stop_reason,
                  HasSubstr(absl::StrCat("SIGTERM was received; the checkpoint of step ",
                                         Steps(*fs).back(), " is saved in ", kFolder)));
      EXPECT_EQ(result->history.stats.size(), result->history.epochs.size());
      result = Train(fs, -1);
      ASSERT_TRUE(result.ok()) << result.status();
    }
    EXPECT_EQ(result->history.stop_reason, "");
    ASSERT_EQ(result->history.epochs.size(), whole->history.epochs.size());
    for (size_t e = 0; e < whole->history.epochs.size(); ++e) {
      for (const auto& [name, value] : whole->history.epochs[e]) {
        ASSERT_NE(result->history.epochs[e].Find(name), nullptr) << name;
        EXPECT_EQ(*result->history.epochs[e].Find(name), value) << name << " of epoch " << e;
      }
    }
    for (const auto& [name, array] : whole->state) {
      EXPECT_TRUE(base::BitwiseEqual(array, *result->state.Find(name))) << name;
    }
  }
  EXPECT_GT(interruptions, 10 * kEpochs);
}

// The next start may get the signal too, and so on; each proceeds a little.
TEST_P(SigtermTest, RepeatedSignalsAreBitIdentical) {
  constexpr int kCalls = 8;  // of hooks before the signal: as many as the end of an epoch has
  const absl::StatusOr<Result> whole = Train(io::MakeMemoryFileSystem(), -1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  absl::StatusOr<Result> result = Train(fs, kCalls);
  int runs = 1;
  for (; result.ok() && result->history.interrupted && runs < 100; ++runs) {
    result = Train(fs, kCalls);
  }
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(runs, 3);
  EXPECT_EQ(result->history.stop_reason, "");
  for (const auto& [name, array] : whole->state) {
    EXPECT_TRUE(base::BitwiseEqual(array, *result->state.Find(name))) << name;
  }
}

// A callback that interrupts before the validation, as one for another signal would.
TEST_F(CheckpointCallbackTest, InterruptionAtEndOfEpochSkipsValidation) {
  class Interrupts : public Callback {
   public:
    absl::Status EpochTrained(TrainingContext& context, const Position&) override {
      EXPECT_TRUE(context.Interrupt("the power fails"));
      EXPECT_FALSE(context.Interrupt("again")) << "it is interrupted already";
      return absl::OkStatus();
    }
    absl::Status TestBegin(InferenceContext&) override { return Unexpected(); }
    absl::Status EpochEnd(TrainingContext&, const Position&, const Logs&) override {
      return Unexpected();
    }
    absl::Status TrainEnd(TrainingContext& context) override {
      EXPECT_TRUE(context.interrupted());
      return absl::OkStatus();
    }
    static absl::Status Unexpected() { return absl::InternalError("the training continues"); }
  };
  const absl::StatusOr<History> history =
      Fit({.folder = kFolder}, {std::make_shared<Interrupts>()});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_TRUE(history->interrupted);
  EXPECT_EQ(history->stop_reason, "the power fails");
  EXPECT_TRUE(history->epochs.empty());
  EXPECT_THAT(Steps(*fs_), ElementsAre(4));
}

TEST_F(CheckpointCallbackTest, InterruptedTrainingKeepsItsBackup) {
  const auto train = [&](int at) -> absl::StatusOr<History> {
    PENSTOCK_ASSIGN_OR_RETURN(const auto sigterm, base::TerminationSignal::Install());
    return Fit({.folder = kFolder, .remove_at_end = true, .termination = sigterm},
               {std::make_shared<GetsSigterm>(at)});
  };
  ASSERT_TRUE(train(3)->interrupted);
  EXPECT_EQ(Steps(*fs_).size(), 1u);
  ASSERT_FALSE(train(1 << 30)->interrupted);
  EXPECT_THAT(Steps(*fs_), IsEmpty());
}

}  // namespace checkpoint_callback_test
}  // namespace penstock::train
