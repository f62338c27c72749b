#include "penstock/monitor/training_monitor.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/clock.h"
#include "penstock/data/dataset.h"
#include "penstock/monitor/device_kinds.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/schedules.h"
#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/live_training.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::monitor {
namespace training_monitor_test {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Not;
using ::testing::NotNull;
using train::TrainingContext;
using train::testing::SmallOptions;
using train::testing::SmallTrainer;

data::Dataset Batches() {
  return data::Dataset::FromArrays(train::testing::Points(100)).Batch(16);  // the last one has 4
}

// Trains with a monitor that publishes after every execution.
absl::StatusOr<train::History> Train(Registry& registry, const SmallOptions& options,
                                     train::FitOptions fit = {}) {
  auto trainer = SmallTrainer(options);
  if (!trainer.ok()) return trainer.status();
  fit.callbacks.push_back(TrainingMonitor(registry, {.publish_seconds = 0}));
  return (*trainer)->Fit(Batches(), fit);
}

TEST(TrainingMonitorTest, AgreesWithFitStatsAndHistory) {
  Registry registry;
  const auto history = Train(registry, {}, {.epochs = 3});
  ASSERT_TRUE(history.ok()) << history.status();
  const Snapshot s = registry.Take();
  EXPECT_EQ(s.state, "ended");
  EXPECT_EQ(*s.Find("penstock_steps_total"), 21);
  EXPECT_EQ(*s.Find("penstock_examples_total"), 300);
  EXPECT_EQ(*s.Find("penstock_executions_total"), 21);
  EXPECT_EQ(*s.Find("penstock_epoch"), 3);
  EXPECT_EQ(*s.Find("penstock_epochs"), 3);
  EXPECT_EQ(*s.Find("penstock_steps_per_epoch"), 7);
  EXPECT_NEAR(*s.Find("penstock_learning_rate"), 0.1, 1e-7);
  for (const auto& [name, value] : history->epochs.back()) {
    EXPECT_EQ(*s.Find("penstock_log", name), value) << name;
  }
  // The last publication is at the end of the last epoch, a moment before its times are taken.
  train::FitStats stats;
  for (const train::FitStats& epoch : history->stats) stats += epoch;
  const double seconds = *s.Find("penstock_training_seconds_total");
  EXPECT_LE(seconds, stats.seconds);
  EXPECT_GE(seconds, stats.seconds - history->stats.back().seconds);
  const double idle_of_causes = *s.Find("penstock_idle_seconds_total", "data") +
                                *s.Find("penstock_idle_seconds_total", "compile") +
                                *s.Find("penstock_idle_seconds_total", "callbacks") +
                                *s.Find("penstock_idle_seconds_total", "host");
  EXPECT_LE(idle_of_causes, seconds);
  EXPECT_LE(*s.Find("penstock_idle_seconds_total", "compile"), stats.idle_compile);
  EXPECT_GT(*s.Find("penstock_idle_seconds_total", "compile"), 0);
  const double* idle = s.Find("penstock_idle_ratio");
  ASSERT_THAT(idle, NotNull());
  EXPECT_GE(*idle, 0);
  EXPECT_LE(*idle, 1);
  // No time of a first step of an epoch.
  for (const MetricValue& metric : s.metrics) {
    if (metric.name == "penstock_step_duration_seconds") {
      EXPECT_EQ(metric.count, 18);
    }
  }
  EXPECT_GT(*s.Find("penstock_step_p99_seconds"), 0);
  EXPECT_GE(*s.Find("penstock_step_p99_seconds"), *s.Find("penstock_step_p50_seconds"));
}

TEST(TrainingMonitorTest, ChangesNoNumberOfTheTraining) {
  Registry registry;
  const auto watched = Train(registry, {.steps_per_execution = 3}, {.epochs = 2});
  ASSERT_TRUE(watched.ok()) << watched.status();
  auto trainer = SmallTrainer({.steps_per_execution = 3});
  const auto alone = (*trainer)->Fit(Batches(), {.epochs = 2});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ((*watched)["loss"], (*alone)["loss"]);
  EXPECT_EQ(watched->stats[1].executions, alone->stats[1].executions);
}

TEST(TrainingMonitorTest, ShowsThePipelineAndItsMemory) {
  Registry registry;
  ASSERT_TRUE(Train(registry, {}).ok());
  const Snapshot s = registry.Take();
  int stages = 0;
  for (const MetricValue& metric : s.metrics) {
    if (metric.name == "penstock_pipeline_stage_utilization_ratio") ++stages;
  }
  EXPECT_EQ(stages, 2);
  EXPECT_THAT(s.Find("penstock_pipeline_memory_bytes"), NotNull());
}

TEST(TrainingMonitorTest, TellsOfCompilationsEpochsAndCheckpoints) {
  Registry registry;
  const std::string folder = train::testing::NewPath("checkpoints");
  const auto history =
      Train(registry, {.steps_per_execution = 3},
            {.epochs = 2, .callbacks = {train::Checkpoint({.folder = folder, .every_epochs = 1})}});
  ASSERT_TRUE(history.ok()) << history.status();
  const Snapshot s = registry.Take();
  const auto has = [&](const char* kind, const std::string& text) {
    EXPECT_THAT(s.events, Contains(::testing::AllOf(Field(&Event::kind, kind),
                                                    Field(&Event::text, HasSubstr(text)))))
        << kind;
  };
  has("compiled", "train_steps in ");
  has("epoch", "epoch 2/2  loss ");
  has("checkpoint", "saving step 14 in ");
  has("ended", "the training has ended");
  EXPECT_EQ(*s.Find("penstock_compilations_total"), 1);
  EXPECT_EQ(*s.Find("penstock_events_total", "checkpoint"), 2);
}

TEST(TrainingMonitorTest, SaysThatATrainingFailed) {
  Registry registry;
  auto trainer = SmallTrainer();
  const auto bad =
      data::Dataset::FromArrays(
          {{"z", train::testing::Points(8).Find("x")->Cast(base::DType::kF32).value()}})
          .Batch(4);
  EXPECT_FALSE((*trainer)->Fit(bad, {.callbacks = {TrainingMonitor(registry)}}).ok());
  EXPECT_EQ(registry.Take().state, "failed");
}

TEST(TrainingMonitorTest, CountsTwoTrainingsOfOneRegistryTogether) {
  Registry registry;
  auto trainer = SmallTrainer();
  const auto monitor = TrainingMonitor(registry, {.publish_seconds = 0});
  double seconds = 0;
  for (int fit = 1; fit <= 2; ++fit) {
    ASSERT_TRUE((*trainer)->Fit(Batches(), {.callbacks = {monitor}}).ok());
    EXPECT_EQ(*registry.Take().Find("penstock_steps_total"), 7 * fit);
    EXPECT_GT(*registry.Take().Find("penstock_training_seconds_total"), seconds);
    seconds = *registry.Take().Find("penstock_training_seconds_total");
  }
}

TEST(TrainingMonitorTest, ShowsTheRateOfASchedule) {
  Registry registry;
  const auto rate = nn::PolynomialDecay(
      {.initial_learning_rate = 0.5, .decay_steps = 28, .end_learning_rate = 0});
  ASSERT_TRUE(Train(registry, {.optimizer = nn::SGD({.learning_rate = rate})}, {.epochs = 2}).ok());
  EXPECT_NEAR(*registry.Take().Find("penstock_learning_rate"), 0.25, 1e-7);  // after 14 steps
}

// Numbers of a training whose program calls kernels of this process, which the compiler cannot
// count, or not.
Snapshot TrainOnCpu(bool kernels, int64_t steps_per_execution, int replicas, double peak_flops = 0,
                    const nn::Network& net = train::testing::SmallNet()) {
  Registry registry;
  auto client = runtime::OpenClient({.device = "cpu", .cpu_devices = replicas, .kernels = kernels});
  EXPECT_TRUE(client.ok()) << client.status();
  auto strategy = train::Strategy::Create(*client, {.replicas = replicas});
  auto trainer =
      train::Trainer::Create({.objective = {.network = net,
                                            .targets = {{.loss = nn::SparseCategoricalCrossentropy(
                                                             {.from_logits = true})}},
                                            .optimizer = nn::SGD({.learning_rate = 0.1})},
                              .strategy = *strategy,
                              .columns = {.inputs = {"x"}, .labels = {"y"}},
                              .steps_per_execution = steps_per_execution});
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  const auto monitor = TrainingMonitor(registry, {.peak_flops = peak_flops, .publish_seconds = 0});
  EXPECT_TRUE((*trainer)->Fit(Batches(), {.callbacks = {monitor}}).ok());
  return registry.Take();
}

Snapshot TrainWithoutKernels(int64_t steps_per_execution, int replicas, double peak_flops = 0) {
  return TrainOnCpu(false, steps_per_execution, replicas, peak_flops);
}

// Layers that are wide enough for kernels.
TEST(TrainingMonitorTest, CountsTheFlopsOfKernels) {
  const nn::Symbol x = nn::Input({.shape = {4}});
  const nn::Symbol wide = nn::Dense({.units = 256, .activation = "relu"})(x);
  const nn::Network net({x}, {nn::Dense({.units = 3})(nn::Dense({.units = 128})(wide))});
  const double with = *TrainOnCpu(true, 1, 1, 0, net).Find("penstock_flops_per_step");
  const double without = *TrainOnCpu(false, 1, 1, 0, net).Find("penstock_flops_per_step");
  EXPECT_GT(with, 3 * 2.0 * 16 * 256 * 128);
  EXPECT_NEAR(with / without, 1, 0.1);
}

TEST(TrainingMonitorTest, CountsTheFlopsOfOneStepHoweverManyAnExecutionHas) {
  const double single = *TrainWithoutKernels(1, 1).Find("penstock_flops_per_step");
  // Matrix products: forward, gradients of the weights and of the hidden layer. The rest is
  // elementwise.
  constexpr double kProducts = 2.0 * 16 * (2 * 4 * 8 + 3 * 8 * 3);
  EXPECT_GT(single, kProducts);
  EXPECT_LT(single, 4 * kProducts);
  const double in_a_loop = *TrainWithoutKernels(4, 1).Find("penstock_flops_per_step");
  EXPECT_NEAR(in_a_loop / single, 1, 0.25);
  // Two replicas do the same work together, and some of it twice.
  const double both = *TrainWithoutKernels(1, 2).Find("penstock_flops_per_step");
  EXPECT_NEAR(both / single, 1, 0.5);
}

TEST(TrainingMonitorTest, ComputesMxuFromTheRateAndThePeak) {
  const Snapshot s = TrainWithoutKernels(1, 2, 1e9);
  EXPECT_EQ(*s.Find("penstock_peak_flops"), 2e9);
  EXPECT_EQ(*s.Find("penstock_devices"), 2);
  const double rate = *s.Find("penstock_flops_per_second");
  EXPECT_GT(rate, 0);
  EXPECT_DOUBLE_EQ(*s.Find("penstock_mxu_ratio"), rate / 2e9);
}

TEST(TrainingMonitorTest, KnowsNoPeakOfACpu) {
  Registry registry;
  ASSERT_TRUE(Train(registry, {}).ok());
  EXPECT_THAT(registry.Take().Find("penstock_mxu_ratio"), IsNull());
  EXPECT_GT(*registry.Take().Find("penstock_flops_per_second"), 0);
}

TEST(TrainingMonitorTest, SaysHowLongThereWasNoStep) {
  base::FakeClock clock;
  clock.Advance(5);
  Registry registry(&clock);
  const auto monitor = TrainingMonitor(registry);
  auto trainer = SmallTrainer({.clock = &clock});
  ASSERT_TRUE((*trainer)->Fit(Batches(), {.callbacks = {monitor}}).ok());
  clock.Advance(30);
  const Snapshot s = registry.Take();
  const double* since = s.Find("penstock_seconds_since_step");
  ASSERT_THAT(since, NotNull());
  EXPECT_EQ(*since, 30);
  EXPECT_THAT(s.words, Not(HasSubstr("no step"))) << "the training has ended";
}

// Reads the registry in the middle of a callback that takes a minute, of one execution.
class SlowCallback : public train::Callback {
 public:
  SlowCallback(base::FakeClock& clock, Registry& registry) : clock_(clock), registry_(registry) {}
  absl::Status BatchEnd(train::TrainingContext&, const train::Position& position,
                        const train::Logs&) override {
    if (position.step != 3) return absl::OkStatus();
    clock_.Advance(60);
    words = registry_.Take().words;
    return absl::OkStatus();
  }

  std::string words;

 private:
  base::FakeClock& clock_;
  Registry& registry_;
};

TEST(TrainingMonitorTest, SaysWhileNothingMovesWhatTheHostDoes) {
  base::FakeClock clock;
  clock.Advance(5);
  Registry registry(&clock);
  const auto slow = std::make_shared<SlowCallback>(clock, registry);
  ASSERT_TRUE(Train(registry, {.clock = &clock}, {.callbacks = {slow}}).ok());
  EXPECT_EQ(slow->words, "no step has ended for 60 s: running callbacks");
}

TEST(TrainingMonitorTest, MayEndBeforeTheRegistryIsRead) {
  Registry registry;
  { const auto monitor = TrainingMonitor(registry); }
  EXPECT_EQ(registry.Take().state, "");
}

// ---- Several trainings of one registry ----

class Tick : public train::Callback {  // an execution takes a second
 public:
  explicit Tick(base::FakeClock& clock) : clock_(clock) {}
  absl::Status BatchEnd(TrainingContext&, const train::Position&, const train::Logs&) override {
    clock_.Advance(1);
    return absl::OkStatus();
  }

 private:
  base::FakeClock& clock_;
};

// The largest value of a number that was published.
class Largest : public train::Callback {
 public:
  Largest(Registry& registry, const char* number) : registry_(registry), number_(number) {}
  absl::Status BatchEnd(TrainingContext&, const train::Position&, const train::Logs&) override {
    const Snapshot s = registry_.Take();
    if (const double* value = s.Find(number_)) largest = std::max(largest, *value);
    return absl::OkStatus();
  }
  double largest = 0;

 private:
  Registry& registry_;
  const char* const number_;
};

TEST(TrainingMonitorTest, CountsNoExamplesOfAnEarlierTrainingInTheRate) {
  base::FakeClock clock;
  clock.Advance(5);
  Registry registry(&clock);
  auto trainer = SmallTrainer({.clock = &clock});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto rate = std::make_shared<Largest>(registry, "penstock_examples_per_second");
  const auto monitor = TrainingMonitor(registry, {.publish_seconds = 0});
  for (int fit = 0; fit < 2; ++fit) {
    const auto history =
        (*trainer)->Fit(Batches(), {.callbacks = {std::make_shared<Tick>(clock), monitor, rate}});
    ASSERT_TRUE(history.ok()) << history.status();
  }
  EXPECT_GT(rate->largest, 0);
  EXPECT_LE(rate->largest, 16 + 1e-9);  // a batch in a second
}

TEST(TrainingMonitorTest, ForgetsTheStagesOfAnEarlierPipeline) {
  Registry registry;
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto monitor = TrainingMonitor(registry, {.publish_seconds = 0});
  const auto points = data::Dataset::FromArrays(train::testing::Points(100));
  ASSERT_TRUE((*trainer)->Fit(points.Shuffle(50).Batch(16), {.callbacks = {monitor}}).ok());
  ASSERT_TRUE((*trainer)->Fit(points.Batch(16), {.callbacks = {monitor}}).ok());
  std::vector<std::string> stages;
  for (const MetricValue& metric : registry.Take().metrics) {
    if (metric.name == "penstock_pipeline_stage_utilization_ratio") stages.push_back(metric.label);
  }
  EXPECT_THAT(stages, ::testing::ElementsAre(::testing::StartsWith("0 "), "1 Batch(16)"));
}

// ---- Memory of devices ----

class ClientWithMemory : public runtime::CountingClient {
 public:
  using CountingClient::CountingClient;
  runtime::FreeMemoryInfo FreeMemory(const runtime::Device& device) override {
    asked.push_back(device.index);
    return {.bytes = 1 << 20, .where = "device"};  // not shared
  }
  std::vector<int> asked;
};

TEST(TrainingMonitorTest, AsksForTheMemoryOfOneDeviceAtATime) {
  base::FakeClock clock;
  clock.Advance(5);
  Registry registry(&clock);
  const auto client = std::make_shared<ClientWithMemory>(runtime::TestClient(4));
  auto trainer = SmallTrainer({.replicas = 4, .client = client, .clock = &clock});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Fit(Batches(), {}).ok());
  client->asked.clear();  // the compilation asked, too
  const auto history = (*trainer)->Fit(
      Batches(), {.callbacks = {std::make_shared<Tick>(clock),
                                TrainingMonitor(registry, {.publish_seconds = 0})}});
  ASSERT_TRUE(history.ok()) << history.status();
  // After each of 7 batches.
  EXPECT_THAT(client->asked, ::testing::ElementsAre(0, 1, 2, 3, 0, 1, 2));
}

}  // namespace training_monitor_test
}  // namespace penstock::monitor
