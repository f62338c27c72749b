// Several steps per execution: results, callbacks, programs, and state equal those of single steps.
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/testing/ticking_clock.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace steps_test {

using ::testing::AllOf;
using testing::ChangingBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LargestDifference;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

// Records the calls of its hooks.
class Witness : public Callback {
 public:
  void Compiling(absl::string_view program, bool begin) override {
    if (begin) compiled.emplace_back(program);
  }
  void Recompiling(absl::string_view program, absl::string_view why) override {
    recompiled.push_back(absl::StrCat(program, ": ", why));
  }
  absl::Status BatchEnd(TrainingContext& run, const Position& position, const Logs&) override {
    steps.push_back(position.total_steps);
    if (position.total_steps == stop_after) run.Stop("enough");
    return absl::OkStatus();
  }

  std::vector<std::string> compiled, recompiled;
  std::vector<int64_t> steps;
  int64_t stop_after = -1;
};

// 61 rows in batches of 8: 8 steps per epoch, the last with 5 rows.
data::Dataset Batches() { return data::Dataset::FromArrays(Points(61)).Shuffle(61).Batch(8); }

struct Trained {
  base::NamedArrays state;
  History history;
  std::shared_ptr<Witness> witness = std::make_shared<Witness>();
};

struct Training {
  int64_t steps_per_execution = 1;
  int replicas = 1;
  int64_t steps_per_epoch = 0;
  std::string checkpoints = "";
  int64_t stop_after = -1;
};

// Dropout, momentum, and moving averages, so that all kinds of state are covered.
absl::StatusOr<Trained> Train(const Training& training) {
  PENSTOCK_ASSIGN_OR_RETURN(auto trainer,
                            SmallTrainer({.network = SmallNet(0.3, /*batch_norm=*/true),
                                          .replicas = training.replicas,
                                          .steps_per_execution = training.steps_per_execution}));
  Trained trained;
  trained.witness->stop_after = training.stop_after;
  FitOptions fit{
      .epochs = 3, .callbacks = {trained.witness}, .steps_per_epoch = training.steps_per_epoch};
  if (!training.checkpoints.empty()) {
    fit.callbacks.push_back(Checkpoint({.folder = training.checkpoints, .every_steps = 5}));
  }
  const data::Dataset data = training.steps_per_epoch > 0 ? Batches().Repeat() : Batches();
  PENSTOCK_ASSIGN_OR_RETURN(trained.history, trainer->Fit(data, fit));
  PENSTOCK_ASSIGN_OR_RETURN(trained.state, trainer->State());
  return trained;
}

void ExpectSame(const Trained& a, const Trained& b) {
  for (const auto& [name, array] : a.state) {
    EXPECT_TRUE(base::BitwiseEqual(array, *b.state.Find(name))) << name;
  }
  ASSERT_EQ(a.history.epochs.size(), b.history.epochs.size());
  for (size_t e = 0; e < a.history.epochs.size(); ++e) {
    for (const auto& [name, value] : a.history.epochs[e]) {
      EXPECT_EQ(value, *b.history.epochs[e].Find(name)) << name;
    }
  }
}

TEST(StepsPerExecution, IsBitIdenticalToSingleSteps) {
  const auto single = Train({});
  ASSERT_TRUE(single.ok()) << single.status();
  // 3 leaves a remainder; 64 exceeds the number of steps.
  for (int64_t steps : {int64_t{3}, int64_t{64}, kAutoSteps}) {
    SCOPED_TRACE(steps);
    const auto several = Train({.steps_per_execution = steps});
    ASSERT_TRUE(several.ok()) << several.status();
    ExpectSame(*single, *several);
  }
}

TEST(StepsPerExecution, EndsExecutionsAtEpochEndWithinPass) {
  const auto single = Train({.steps_per_epoch = 5});
  const auto several = Train({.steps_per_execution = 4, .steps_per_epoch = 5});
  ASSERT_TRUE(several.ok()) << several.status();
  ExpectSame(*single, *several);
  EXPECT_THAT(several->witness->steps, ElementsAre(4, 5, 9, 10, 14, 15));
}

TEST(StepsPerExecution, RunsRemainderAndPartialBatchInOneProgram) {
  const auto trained = Train({.steps_per_execution = 3});
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_THAT(trained->witness->compiled, ElementsAre("train_steps"));
  EXPECT_THAT(trained->witness->steps, ElementsAre(3, 6, 8, 11, 14, 16, 19, 22, 24));
  EXPECT_EQ(trained->state.Find("optimizer/iteration")->item<int32_t>(), 24);
  EXPECT_EQ(trained->history.stats[1].steps, 8);
  EXPECT_EQ(trained->history.stats[1].executions, 3);
}

TEST(StepsPerExecution, AutoReportsWhyItCompilesLoop) {
  base::TickingClock clock;  // host work always exceeds a hundredth of the time
  auto trainer = SmallTrainer({.steps_per_execution = kAutoSteps, .clock = &clock});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto witness = std::make_shared<Witness>();
  ASSERT_TRUE((*trainer)->Fit(Batches(), {.epochs = 4, .callbacks = {witness}}).ok());
  EXPECT_THAT(witness->compiled, ElementsAre("train_step", "train_steps"));
  EXPECT_THAT(witness->recompiled,
              ElementsAre(HasSubstr("train_steps: steps_per_execution is auto")));
}

TEST(StepsPerExecution, ReplicasLoopTogether) {
  const auto single = Train({.replicas = 4});
  const auto several = Train({.steps_per_execution = 3, .replicas = 4});
  ASSERT_TRUE(several.ok()) << several.status();
  ExpectSame(*single, *several);
}

TEST(StepsPerExecution, CheckpointsAtExactStepsAndResumesBitIdentically) {
  const auto whole = Train({.steps_per_execution = 4});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string folder = testing::NewPath("_steps");
  // Stops within an epoch, four steps after the latest checkpoint.
  const auto broken = Train({.steps_per_execution = 4, .checkpoints = folder, .stop_after = 14});
  ASSERT_TRUE(broken.ok()) << broken.status();
  EXPECT_THAT(broken->witness->steps, ElementsAre(4, 5, 8, 10, 14));
  const auto resumed = Train({.steps_per_execution = 4, .checkpoints = folder});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_THAT(resumed->witness->steps, ElementsAre(14, 15, 16, 20, 24));
  ExpectSame(*whole, *resumed);
  std::filesystem::remove_all(folder);
}

TEST(StepsPerExecution, DonatesEntireStateThroughLoop) {
  const nn::Network network = SmallNet(0.3, true);
  const Objective objective{
      network, {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}}, nn::Adam()};
  const StateLayout layout = StateLayout::Make(objective);
  for (const bool halt_on_nan : {false, true}) {
    const auto program =
        TrainStep(objective, layout,
                  {.inputs = {{DType::kF32, {8, 4}}}, .labels = {{DType::kI64, {8}}}, .depth = 16},
                  1, halt_on_nan);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto executable = runtime::TestClient(1)->Compile(*program);
    ASSERT_TRUE(executable.ok()) << executable.status();
    EXPECT_EQ((*executable)->Memory()->aliased, ChangingBytes(layout, halt_on_nan));
  }
}

TEST(StepsPerExecution, NanErrorNamesStepWithinExecution) {
  base::NamedArrays points = Points(96);
  Array x = points.Find("x")->Clone();
  x.mutable_data<float>()[4 * 50] = std::numeric_limits<float>::infinity();  // in batch 7 of 12
  points.Set("x", x);
  auto trainer = SmallTrainer({.steps_per_execution = 4});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(data::Dataset::FromArrays(points).Batch(8),
                                       {.callbacks = {TerminateOnNan()}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(history->stop_reason, HasSubstr("epoch 1, step 7: the input 'x' is not finite"));
  EXPECT_EQ((*trainer)->State()->Find("optimizer/iteration")->item<int32_t>(), 6);

  // The weights equal those after the six preceding steps.
  auto other = SmallTrainer({});
  base::NamedArrays good;
  for (const auto& [name, array] : points) good.Set(name, array.Slice(0, 48));
  ASSERT_TRUE((*other)->Fit(data::Dataset::FromArrays(good).Batch(8), {}).ok());
  EXPECT_EQ(LargestDifference(*(*trainer)->Weights(), *(*other)->Weights()), 0);
}

// A network for rows of x with `axes` axes.
nn::Network NetOfAxes(int axes) {
  std::vector<int64_t> shape(axes, 1);
  shape.back() = 4;
  const nn::Symbol x = nn::Input({.shape = shape, .name = "x"});
  return nn::Network({x}, {nn::Dense({.units = 3, .name = "logits"})(nn::Flatten()(x))});
}
data::Dataset BatchesOfAxes(int axes) {
  base::NamedArrays points = Points(61);
  std::vector<int64_t> shape(axes + 1, 1);
  shape.front() = 61;
  shape.back() = 4;
  points.Set("x", *points.Find("x")->Reshape(base::Shape(shape)));
  return data::Dataset::FromArrays(points).Batch(8);
}

// Room data produces batches of at most 7 axes, so a stack has at most 8, the maximum rank.
TEST(StepsPerExecution, StacksBatchesOfMaximumRank) {
  std::vector<base::NamedArrays> states;
  for (const int64_t steps : {int64_t{1}, int64_t{3}, kAutoSteps}) {
    base::TickingClock clock;
    auto trainer =
        SmallTrainer({.network = NetOfAxes(6), .steps_per_execution = steps, .clock = &clock});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto witness = std::make_shared<Witness>();
    const auto history = (*trainer)->Fit(BatchesOfAxes(6), {.epochs = 4, .callbacks = {witness}});
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_EQ(witness->compiled.back(), steps == 1 ? "train_step" : "train_steps");
    states.push_back(*(*trainer)->State());
    for (const auto& [name, array] : states[0]) {
      EXPECT_TRUE(base::BitwiseEqual(array, *states.back().Find(name))) << name;
    }
  }
}

TEST(StepsPerExecution, RejectsBatchesAboveMaximumRankBeforeFirstStep) {
  for (const int64_t steps : {int64_t{1}, int64_t{3}, kAutoSteps}) {
    const auto trainer = SmallTrainer({.network = NetOfAxes(7), .steps_per_execution = steps});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto witness = std::make_shared<Witness>();
    const absl::Status status =
        (*trainer)->Fit(BatchesOfAxes(7), {.callbacks = {witness}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("column x: float32[1,1,1,1,1,1,4] has too many dimensions"));
    EXPECT_TRUE(witness->compiled.empty());
  }
}

TEST(StepsPerExecution, RejectsNegativeNumber) {
  EXPECT_THAT(
      std::string(SmallTrainer({.steps_per_execution = -1}).status().message()),
      HasSubstr("steps_per_execution must be from 1 to 1048576, or kAutoSteps (0), got -1"));
}

}  // namespace steps_test
}  // namespace penstock::train
