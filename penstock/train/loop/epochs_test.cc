// The transition between epochs: read-ahead of the next epoch, and idle-time statistics.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace epochs_test {

using testing::Points;
using testing::SmallTrainer;

// 64 rows. In the second pass, the last row becomes available only after the third pass has begun.
struct Passes {
  data::Dataset Dataset() {
    return data::Dataset::FromGenerator(
        [this](const data::GeneratorContext& context) {
          {
            const std::lock_guard lock(mutex);
            epochs.push_back(context.epoch);
          }
          changed.notify_all();
          return [this, epoch = context.epoch,
                  row = int64_t{0}](base::NamedArrays* out) mutable -> absl::StatusOr<bool> {
            if (row == 64) return false;
            if (epoch == 1 && row == 63) {
              std::unique_lock lock(mutex);
              read_ahead = changed.wait_for(lock, std::chrono::seconds(60),
                                            [&] { return epochs.size() == 3; });
            }
            *out = {{"x", points.Find("x")->Row(row)}, {"y", points.Find("y")->Row(row)}};
            ++row;
            return true;
          };
        },
        {{"x", DType::kF32, {4}}, {"y", DType::kI64, {}}});
  }

  const base::NamedArrays points = Points(64);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> epochs;
  bool read_ahead = false;
};

TEST(Epochs, ReadsAheadIntoNextEpoch) {
  Passes passes;
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(passes.Dataset().Batch(8), {.epochs = 3});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_TRUE(passes.read_ahead);
  // No pass is opened after the last epoch.
  EXPECT_THAT(passes.epochs, ::testing::ElementsAre(0, 1, 2));
  // The results equal those of a dataset in memory.
  auto other = SmallTrainer();
  const auto plain =
      (*other)->Fit(data::Dataset::FromArrays(passes.points).Batch(8), {.epochs = 3});
  ASSERT_TRUE(plain.ok()) << plain.status();
  for (int e = 0; e < 3; ++e) {
    EXPECT_EQ(*history->epochs[e].Get("loss"), *plain->epochs[e].Get("loss"));
  }
}

// The fake clock advances only where the test says so, while nothing is in flight.
TEST(Epochs, StatsAttributeIdleTime) {
  static base::FakeClock clock;
  class Slow : public Callback {
   public:
    void Compiling(absl::string_view, bool begin) override {
      if (begin) clock.Advance(5);
    }
    absl::Status EpochBegin(train::TrainingContext&, const Position&) override {
      clock.Advance(2);
      return absl::OkStatus();
    }
    absl::Status EpochEnd(train::TrainingContext& run, const Position&, const Logs&) override {
      seen = run.stats().IdleToString();
      return absl::OkStatus();
    }
    std::string seen;
  };
  auto trainer = SmallTrainer({.clock = &clock});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto slow = std::make_shared<Slow>();
  const auto history =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8), {.callbacks = {slow}});
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->stats.size(), 1u);
  const FitStats& stats = history->stats[0];
  EXPECT_EQ(stats.steps, 8);
  EXPECT_EQ(stats.executions, 8);
  EXPECT_EQ(stats.seconds, 7);
  EXPECT_EQ(stats.idle_compile, 5);
  EXPECT_EQ(stats.idle_callbacks, 2);
  EXPECT_EQ(stats.idle_data + stats.idle_host, 0);
  EXPECT_EQ(slow->seen, "idle 100.0 % (compile 71.4 %, callbacks 28.6 %)");
}

// The first batch of a pass takes 10 seconds and a step takes one: the third pass is opened when
// the second one has 20 steps left, twice the time needed.
TEST(Epochs, OpensNextEpochEarlyEnoughForItsFirstBatch) {
  constexpr int64_t kSteps = 50;
  base::FakeClock clock;
  std::atomic<int64_t> steps{0};
  std::mutex mutex;
  std::condition_variable opened;
  std::vector<int64_t> opened_at;
  const base::NamedArrays points = Points(8 * kSteps);
  const data::Dataset dataset = data::Dataset::FromGenerator(
      [&](const data::GeneratorContext&) {
        const std::lock_guard lock(mutex);
        if (opened_at.size() < 2) clock.Advance(10);
        opened_at.push_back(steps.load());
        opened.notify_all();
        return [&points, row = int64_t{0}](base::NamedArrays* out) mutable -> absl::StatusOr<bool> {
          if (row == points.Find("x")->dim(0)) return false;
          *out = {{"x", points.Find("x")->Row(row)}, {"y", points.Find("y")->Row(row)}};
          ++row;
          return true;
        };
      },
      {{"x", DType::kF32, {4}}, {"y", DType::kI64, {}}});
  auto trainer = SmallTrainer({.clock = &clock});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto second =
      LambdaCallback({.on_train_batch_end = [&](TrainingContext&, const Position&, const Logs&) {
        if (++steps == 2 * kSteps - 14) {
          // By now the third pass has been requested; a thread of the pipeline opens it eventually.
          // Without the request, this wait times out.
          std::unique_lock lock(mutex);
          opened.wait_for(lock, std::chrono::seconds(30), [&] { return opened_at.size() == 3; });
          EXPECT_EQ(opened_at.size(), 3u);
        }
        clock.Advance(1);
        return absl::OkStatus();
      }});
  ASSERT_TRUE((*trainer)->Fit(dataset.Batch(8), {.epochs = 3, .callbacks = {second}}).ok());
  ASSERT_EQ(opened_at.size(), 3u);
  EXPECT_EQ(opened_at[1], kSteps);  // the length of a pass is not known earlier
  // Executions are in flight and the clock advances between dispatches, so the step is approximate.
  EXPECT_GE(opened_at[2], 2 * kSteps - 22);
}

}  // namespace epochs_test
}  // namespace penstock::train
