#include "penstock/train/loop/in_flight.h"

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
