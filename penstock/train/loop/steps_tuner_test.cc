#include "penstock/train/loop/steps_tuner.h"

#include <algorithm>
#include <bit>
#include <set>

#include "gtest/gtest.h"

namespace penstock::train {
namespace steps_tuner_test {

// Simulates executions that take `start` seconds plus `step` seconds per step on the device, and
// `host` seconds on the host, until the tuner has converged.
void Train(StepsTuner& tuner, double host, double start, double step, int64_t batch_bytes = 100,
           int64_t steps_per_epoch = -1) {
  for (int i = 0; i < 100; ++i) {
    const auto steps = static_cast<double>(tuner.steps());
    tuner.Measured({.depth = tuner.depth(),
                    .steps = tuner.steps(),
                    .host_seconds = host,
                    .device_seconds = start + steps * step,
                    .batch_bytes = batch_bytes,
                    .steps_per_epoch = steps_per_epoch});
  }
}

TEST(StepsTuner, KeepsFixedNumber) {
  StepsTuner tuner(32);
  Train(tuner, 1, 1, 1);
  EXPECT_EQ(tuner.depth(), 32);
  EXPECT_EQ(tuner.steps(), 32);
}

TEST(StepsTuner, KeepsSingleStepsIfTheyAreLong) {
  StepsTuner tuner(0);
  Train(tuner, /*host=*/100e-6, /*start=*/20e-6, /*step=*/50e-3);
  EXPECT_EQ(tuner.depth(), 1);
}

// Executions to a device that is `round_trip` seconds away, with as many in flight as are allowed.
void TrainRemotely(StepsTuner& tuner, double host, double step, double round_trip,
                   double in_flight) {
  for (int i = 0; i < 100; ++i) {
    const double device = static_cast<double>(tuner.steps()) * step;
    tuner.Measured({.depth = tuner.depth(),
                    .steps = tuner.steps(),
                    .host_seconds = host,
                    .device_seconds = std::max(device, (round_trip + device) / in_flight),
                    .batch_bytes = 100,
                    .round_trip_seconds = round_trip});
  }
}

TEST(StepsTuner, FillsTheRoundTripWithExecutionsInFlight) {
  // A step of 5 us seems to take 1.7 ms at first, beside which the host's work seems little.
  StepsTuner tuner(0);
  TrainRemotely(tuner, /*host=*/50e-6, /*step=*/5e-6, /*round_trip=*/0.02, /*in_flight=*/12);
  EXPECT_EQ(tuner.depth(), StepsTuner::kMaxDepth);
  EXPECT_EQ(tuner.steps(), StepsTuner::kMaxDepth);
}

TEST(StepsTuner, KeepsSingleStepsThatAreLongerThanTheRoundTrip) {
  StepsTuner tuner(0);
  TrainRemotely(tuner, /*host=*/100e-6, /*step=*/0.1, /*round_trip=*/0.02, /*in_flight=*/3);
  EXPECT_EQ(tuner.depth(), 1);
}

TEST(StepsTuner, TakesFewerStepsOnceTheLoopShowsHowLongTheyAre) {
  // 2 ms: ten hide the connection's work, and 32 executions in flight fill more than a round trip.
  StepsTuner tuner(0);
  TrainRemotely(tuner, /*host=*/10e-6, /*step=*/2e-3, /*round_trip=*/0.02, /*in_flight=*/32);
  EXPECT_EQ(tuner.steps(), 10);
}

TEST(StepsTuner, ReducesHostTimeToJustBelowOnePercent) {
  StepsTuner tuner(0);
  Train(tuner, /*host=*/50e-6, /*start=*/100e-6, /*step=*/200e-6);
  EXPECT_LT(50e-6 / (100e-6 + 200e-6 * static_cast<double>(tuner.steps())), 0.01);
  EXPECT_GT(50e-6 / (200e-6 * static_cast<double>(tuner.steps())), 0.009);
  EXPECT_GE(tuner.depth(), tuner.steps());
}

TEST(StepsTuner, LimitsStackToEpochAndMemory) {
  StepsTuner short_epochs(0);
  Train(short_epochs, 50e-6, 0, 5e-6, 100, /*steps_per_epoch=*/10);
  EXPECT_EQ(short_epochs.depth(), 8);
  StepsTuner large_batches(0);
  Train(large_batches, 50e-6, 0, 5e-6, /*batch_bytes=*/10 << 20);
  EXPECT_EQ(large_batches.depth(), 4);
  StepsTuner huge_batches(0);
  Train(huge_batches, 50e-6, 0, 5e-6, /*batch_bytes=*/100 << 20);
  EXPECT_EQ(huge_batches.depth(), 1);
  StepsTuner tiny_steps(0);
  Train(tiny_steps, 50e-6, 0, 1e-6);
  EXPECT_EQ(tiny_steps.steps(), StepsTuner::kMaxDepth);
}

// A restarted job on a slightly faster or slower machine uses the cached program of the first run.
TEST(StepsTuner, SimilarTimingsGiveSameDepth) {
  std::set<int64_t> depths;
  for (int percent = 80; percent <= 120; ++percent) {
    StepsTuner tuner(0);
    Train(tuner, /*host=*/25e-6 * percent / 100, /*start=*/100e-6, /*step=*/900e-6);
    EXPECT_TRUE(std::has_single_bit(static_cast<uint64_t>(tuner.depth()))) << tuner.depth();
    depths.insert(tuner.depth());
  }
  EXPECT_LE(depths.size(), 2u);
}

TEST(StepsTuner, ResumedRunUsesSavedResultWithoutMeasuring) {
  StepsTuner first(0);
  EXPECT_FALSE(first.found().has_value());
  Train(first, 50e-6, 100e-6, 200e-6);
  ASSERT_TRUE(first.found().has_value());
  StepsTuner second(0);
  second.Restore(*first.found());
  EXPECT_EQ(second.depth(), first.depth());
  EXPECT_EQ(second.steps(), first.steps());
  Train(second, 50e-3, 100e-6, 200e-6);  // different timings
  EXPECT_EQ(second.depth(), first.depth());
  EXPECT_EQ(second.steps(), first.steps());
  StepsTuner fixed(3);
  fixed.Restore(*first.found());
  EXPECT_EQ(fixed.depth(), 3);
  EXPECT_FALSE(fixed.found().has_value());
  for (const StepsTuner::Found& bad : {StepsTuner::Found{0, 1, true},
                                       {4, 5, true},
                                       {4, 0, true},
                                       {1 << 30, 1, true},
                                       {4, 4, false, -1},
                                       {4, 4, false, 3}}) {
    StepsTuner tuner(0);
    tuner.Restore(bad);
    EXPECT_EQ(tuner.depth(), 1);
  }
}

// Compiling the loop may take longer than the job lives, so that every run is killed during it.
TEST(StepsTuner, CompilesImmediatelyTwiceThenOnlyAfterCheckpoint) {
  StepsTuner first(0);
  while (first.depth() == 1) first.Measured({.host_seconds = 50e-6, .device_seconds = 5e-6});
  const int64_t depth = first.depth();
  EXPECT_TRUE(first.wants_checkpoint());
  ASSERT_TRUE(first.found().has_value());
  EXPECT_EQ(first.found()->attempts, 1);

  StepsTuner second(0);
  second.Restore(*first.found());
  EXPECT_EQ(second.depth(), depth);
  EXPECT_TRUE(second.wants_checkpoint());
  EXPECT_EQ(second.found()->attempts, 2);

  StepsTuner third(0);
  third.Restore(*second.found());
  EXPECT_EQ(third.depth(), 1);
  Train(third, 50e-6, 0, 5e-6);
  EXPECT_EQ(third.depth(), 1);
  third.Release();
  EXPECT_EQ(third.depth(), depth);
  EXPECT_FALSE(third.wants_checkpoint()) << "the checkpoint that released it is enough";
  EXPECT_EQ(third.found()->attempts, 2) << "the fourth is held as well";

  // The loop runs at last.
  Train(third, 50e-6, 0, 5e-6);
  EXPECT_EQ(third.found()->attempts, 0);
  EXPECT_FALSE(third.wants_checkpoint());
  StepsTuner fourth(0);
  fourth.Restore(*third.found());
  EXPECT_EQ(fourth.depth(), depth);
  EXPECT_FALSE(fourth.wants_checkpoint());
}

}  // namespace steps_tuner_test
}  // namespace penstock::train
