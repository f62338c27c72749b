#include "penstock/train/loop/in_flight.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace penstock::train {
namespace in_flight_test {

TEST(InFlight, SynchronizesWhereThatSavesMemoryWithoutCost) {
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, 0.1, 0.0015), 0u);
}

TEST(InFlight, KeepsExecutionsQueuedForShortStepsSlowHostsAndAccelerators) {
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, 0.01, 0.00001), InFlight::kLimit);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, 0.1, 0.01), InFlight::kLimit);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 0.1, 0.0005), InFlight::kLimit);
}

TEST(InFlight, CoversTheRoundTripToDevicesElsewhere) {
  // 20 ms away: waiting for each execution of 0.1 s would cost a sixth.
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, 0.1, 0.0001, 0.02), InFlight::kLimit + 1);
  // Near: the next batch would cross the connection while the device waits.
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, 0.1, 0.0001, 0.0005), InFlight::kLimit + 1);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 0.002, 0.0001, 0.02), InFlight::kLimit + 10);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 1e-6, 0, 0.02), InFlight::kMaxLimit);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 0, 0, 0.02), InFlight::kMaxLimit);
  // Their batches stay in memory.
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 0.002, 0, 0.02, InFlight::kMaxBytes / 3),
            InFlight::kLimit + 3);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 0.002, 0, 0.02, InFlight::kMaxBytes * 2),
            InFlight::kLimit);
}

TEST(InFlight, GathersShortExecutionsOfDevicesElsewhere) {
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, InFlight::kAheadSeconds / 20, 0, 0.00005),
            InFlight::kLimit + 20);
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/true, InFlight::kAheadSeconds / 20, 0), InFlight::kLimit);
}

// A worker may allow a session little memory.
TEST(InFlight, KeepsWithinTheMemoryThatIsFree) {
  EXPECT_EQ(InFlight::LimitFor(/*on_cpu=*/false, 0.0001, 0, 0.00005, 24'000, 1 << 17),
            InFlight::kLimit + 5);
}

// Executions of 2 ms at 20 ms: while too few are in flight, each seems to take its part of the round trip.
TEST(InFlight, GrowsUntilTheRoundTripIsFull) {
  constexpr double kStep = 0.002, kRoundTrip = 0.02;
  size_t limit = InFlight::kLimit;
  for (int i = 0; i < 20; ++i) {
    const double seconds = std::max(kStep, (kRoundTrip + kStep) / static_cast<double>(limit + 1));
    limit = InFlight::LimitFor(/*on_cpu=*/false, seconds, 0, kRoundTrip);
  }
  EXPECT_EQ(limit, InFlight::kLimit + 10);
}

TEST(InFlight, IgnoresSingleSlowStep) {
  InFlight in_flight;
  in_flight.SetLimit(0);
  for (int i = 0; i < 5; ++i) in_flight.Measured(/*on_cpu=*/true, 0.1, 0.0001);
  in_flight.Measured(/*on_cpu=*/true, 0.1, 0.01);
  EXPECT_TRUE(in_flight.waits_for_each());
  for (int i = 0; i < 5; ++i) in_flight.Measured(/*on_cpu=*/true, 0.1, 0.01);
  EXPECT_FALSE(in_flight.waits_for_each());
}

TEST(InFlight, IsFullAboveItsLimit) {
  InFlight in_flight;
  EXPECT_FALSE(in_flight.full());
  in_flight.SetLimit(0);
  EXPECT_FALSE(in_flight.full());
  EXPECT_TRUE(in_flight.empty());
}

}  // namespace in_flight_test
}  // namespace penstock::train
