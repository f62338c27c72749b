#include "penstock/train/steps_tuner.h"

#include "gtest/gtest.h"

namespace penstock::train {
namespace steps_tuner_test {

// Executions on devices that take `start` seconds to start one and `step` for each step, with a
// host that works `host` seconds for each; until the tuner does not change its mind any more.
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

TEST(StepsTuner, AFixedNumberStays) {
  StepsTuner tuner(32);
  Train(tuner, 1, 1, 1);
  EXPECT_EQ(tuner.depth(), 32);
  EXPECT_EQ(tuner.steps(), 32);
}

TEST(StepsTuner, LongStepsStaySingleAndNothingElseIsCompiled) {
  StepsTuner tuner(0);
  Train(tuner, /*host=*/100e-6, /*start=*/20e-6, /*step=*/50e-3);
  EXPECT_EQ(tuner.depth(), 1);
}

TEST(StepsTuner, TheHostWorksForLessThanAHundredthOfTheTimeAndNotMuchLess) {
  StepsTuner tuner(0);
  Train(tuner, /*host=*/50e-6, /*start=*/100e-6, /*step=*/200e-6);
  EXPECT_LT(50e-6 / (100e-6 + 200e-6 * static_cast<double>(tuner.steps())), 0.01);
  EXPECT_GT(50e-6 / (200e-6 * static_cast<double>(tuner.steps())), 0.009);
  EXPECT_GE(tuner.depth(), tuner.steps());
}

TEST(StepsTuner, AStackIsNoLargerThanTheEpochAndItsMemory) {
  StepsTuner short_epochs(0);
  Train(short_epochs, 50e-6, 0, 5e-6, 100, /*steps_per_epoch=*/10);
  EXPECT_EQ(short_epochs.depth(), 10);
  StepsTuner large_batches(0);
  Train(large_batches, 50e-6, 0, 5e-6, /*batch_bytes=*/10 << 20);
  EXPECT_EQ(large_batches.depth(), 6);
  StepsTuner huge_batches(0);
  Train(huge_batches, 50e-6, 0, 5e-6, /*batch_bytes=*/100 << 20);
  EXPECT_EQ(huge_batches.depth(), 1);
  StepsTuner tiny_steps(0);
  Train(tiny_steps, 50e-6, 0, 1e-6);
  EXPECT_EQ(tiny_steps.steps(), StepsTuner::kMostDepth);
}

}  // namespace steps_tuner_test
}  // namespace penstock::train
