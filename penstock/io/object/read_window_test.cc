#include "penstock/io/object/read_window.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace penstock::io {
namespace read_window_test {

constexpr int64_t kMiB = 1 << 20;

// Simulated network and reader. The first byte of a range arrives after `latency` seconds;
// `connection`, `network`, and `reader` are the throughputs of one connection, of all connections
// together, and of the reader, in bytes per second.
struct World {
  double latency, connection, network, reader;

  // Throughput of the stream with this window.
  double Rate(const ReadWindow& window) const {
    const double one_range = latency + window.range_bytes() / connection;
    return std::min({window.bytes() / one_range, network, reader});
  }
};

ReadWindow AfterSeconds(const World& world, double seconds, int64_t max_bytes) {
  ReadWindow window(max_bytes, 0);
  for (double now = 0; now < seconds;) {
    const int64_t bytes = window.range_bytes();
    now += bytes / world.Rate(window);
    window.OnRangeReceived(world.latency, bytes / world.connection, bytes);
    window.OnBytesConsumed(now, bytes);
  }
  return window;
}

TEST(ReadWindow, SaturatesNetworkAtAnyLatency) {
  for (const double latency : {0.0, 0.001, 0.02, 0.05, 0.2}) {
    SCOPED_TRACE(latency);
    const World world{latency, 50e6, 500e6, 1e12};
    const ReadWindow window = AfterSeconds(world, 10, 512 * kMiB);
    EXPECT_EQ(world.Rate(window), 500e6);
    // The window is at most twice the size that this throughput needs.
    EXPECT_LE(window.bytes(), 2.1 * 500e6 * (latency + window.range_bytes() / 50e6) + 4 * kMiB);
  }
}

TEST(ReadWindow, ConvergesInFewRoundTrips) {
  const World world{0.05, 1e9, 1e9, 1e12};
  EXPECT_EQ(world.Rate(AfterSeconds(world, 0.5, 512 * kMiB)), 1e9);
}

TEST(ReadWindow, StaysWithinItsBounds) {
  EXPECT_EQ(ReadWindow(64 * kMiB, 0).bytes(), 4 * kMiB);
  EXPECT_EQ(ReadWindow(64 * kMiB, 1000 * kMiB).bytes(), 64 * kMiB);
  EXPECT_EQ(ReadWindow(0, 0).bytes(), 4 * kMiB);
  EXPECT_EQ(AfterSeconds({0.2, 50e6, 1e10, 1e12}, 10, 64 * kMiB).bytes(), 64 * kMiB);
  for (int64_t bytes = 4 * kMiB; bytes <= 1024 * kMiB; bytes += kMiB) {
    const ReadWindow window(1024 * kMiB, bytes);
    EXPECT_GE(window.range_bytes(), kMiB);
    EXPECT_LE(window.range_bytes(), 8 * kMiB);
    EXPECT_LE(window.range_bytes() * 4, window.bytes());
  }
}

TEST(ReadWindow, StaysSmallForSlowReader) {
  EXPECT_LE(AfterSeconds({0.05, 50e6, 500e6, 20e6}, 10, 512 * kMiB).bytes(), 4 * kMiB);
}

TEST(ReadWindow, ShrinksWhenReaderSlowsDown) {
  World world{0.05, 50e6, 500e6, 1e12};
  ReadWindow window = AfterSeconds(world, 5, 512 * kMiB);
  const int64_t before = window.bytes();
  for (int i = 0; i < 100; ++i) window.OnBytesConsumed(1000 + i, kMiB);
  EXPECT_GT(before, 16 * kMiB);
  EXPECT_EQ(window.bytes(), 4 * kMiB);
}

}  // namespace read_window_test
}  // namespace penstock::io
