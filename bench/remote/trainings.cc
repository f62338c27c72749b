#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/models/models.h"
#include "penstock/nn/layers.h"
#include "penstock/train/trainer.h"

#include "bench/idioms/idioms.h"
#include "bench/remote/remote.h"

namespace penstock::remote {
namespace {

using base::DType;
using data::Dataset;

constexpr int64_t kEndless = int64_t{1} << 40;
constexpr int64_t kImages = 2560, kSide = 32, kClasses = 10, kBatch = 128;
constexpr int64_t kFlowers = 150, kFlowerBatch = 16;

struct Work {
  const char* name;
  bool iris;
  int64_t steps_per_execution;
  int64_t items;   // of a step
  double seconds;  // of a round; steps of ResNet-20 take a tenth of a second
};
constexpr Work kTable[] = {
    {"resnet20", false, 1, kBatch, 3},
    {"iris_32", true, 32, 1, 1},
    {"iris_auto", true, train::kAutoSteps, 1, 1},
};

// ---- Data: in the memory of this process, so batches go over the connection ----

Dataset DataOf(const Work& work) {
  const int64_t rows = work.iris ? kFlowers : kImages;
  const base::NamedArrays arrays = {
      {"image", work.iris ? idioms::Numbers({rows, 4}) : idioms::Pixels({rows, kSide, kSide, 3})},
      {"class", idioms::Cycle(rows, work.iris ? 3 : kClasses)}};
  return Dataset::FromArrays(arrays)
      .Repeat()
      .Shuffle(rows)
      .Batch(work.iris ? kFlowerBatch : kBatch, {.drop_remainder = true})
      .Prefetch();
}

// ---- Training ----

nn::Network IrisNetwork() {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "image"});
  const nn::Symbol hidden = nn::Dense({.units = 10, .activation = "sigmoid"})(x);
  return nn::Network({x}, {nn::Dense({.units = 3})(hidden)});
}

// One product a step: an epoch is quick.
nn::Network LinearNetwork() {
  const nn::Symbol x =
      nn::Input({.shape = {kSide, kSide, 3}, .dtype = DType::kU8, .name = "image"});
  const nn::Symbol pixels = nn::Rescaling({.scale = 1 / 255.0})(x);
  return nn::Network({x}, {nn::Dense({.units = kClasses})(nn::Flatten()(pixels))});
}

absl::StatusOr<std::unique_ptr<train::Trainer>> MakeTrainer(std::shared_ptr<runtime::Client> client,
                                                            const nn::Network& network,
                                                            const nn::Optimizer& optimizer,
                                                            int64_t steps_per_execution) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Strategy strategy,
                            train::Strategy::Create(std::move(client), {.replicas = 1}));
  return train::Trainer::Create(
      {.objective = {.network = network,
                     .targets = {{.loss =
                                      nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                     .optimizer = optimizer},
       .strategy = std::move(strategy),
       .columns = {.inputs = {"image"}, .labels = {"class"}},
       .steps_per_execution = steps_per_execution});
}

// Measures from the first report to the last one, without compilation and filling of buffers, and stops.
class Speed : public train::Callback {
 public:
  Speed(double stop_after, const BenchWorker* worker) : stop_after_(stop_after), worker_(worker) {}

  absl::Status BatchEnd(train::TrainingContext& run, const train::Position& position,
                        const train::Logs&) override {
    const double now = base::Clock::Real()->Seconds();
    if (steps_ == 0) {
      began_ = now;
      first_ = position.total_steps;
      cpu_ -= Cpu();
    }
    steps_ = position.total_steps;
    seconds_ = now - began_;
    if (seconds_ < stop_after_ || stopped_) return absl::OkStatus();
    stopped_ = true;
    cpu_ += Cpu();
    run.Stop("measured");
    return absl::OkStatus();
  }

  double steps() const { return static_cast<double>(steps_ - first_); }
  double seconds() const { return seconds_; }
  double cpu_seconds() const { return cpu_; }

 private:
  double Cpu() const { return OwnCpuSeconds() + (worker_ == nullptr ? 0 : worker_->CpuSeconds()); }

  const double stop_after_;
  const BenchWorker* const worker_;
  double began_ = 0, seconds_ = 0, cpu_ = 0;
  int64_t first_ = 0, steps_ = 0;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<Round> TrainingRounds(absl::string_view name,
                                     std::shared_ptr<runtime::Client> client,
                                     const BenchWorker* worker) {
  const Work* work = std::find_if(std::begin(kTable), std::end(kTable),
                                  [&](const Work& row) { return row.name == name; });
  if (work == std::end(kTable)) return absl::NotFoundError(absl::StrCat("unknown work ", name));
  const nn::Network network =
      work->iris
          ? IrisNetwork()
          : models::ResNetCifar({.depth = 20, .input_dtype = DType::kU8, .rescale = 1 / 255.0});
  const nn::Optimizer optimizer = work->iris ? nn::SGD({.learning_rate = 0.5})
                                             : nn::SGD({.learning_rate = 0.01, .momentum = 0.9});
  PENSTOCK_ASSIGN_OR_RETURN(
      std::shared_ptr<train::Trainer> trainer,
      MakeTrainer(std::move(client), network, optimizer, work->steps_per_execution));
  return [work, worker, trainer, data = DataOf(*work)]() -> absl::StatusOr<std::string> {
    const auto speed = std::make_shared<Speed>(work->seconds, worker);
    PENSTOCK_RETURN_IF_ERROR(
        trainer->Fit(data, {.callbacks = {speed}, .steps_per_epoch = kEndless}).status());
    const double items = speed->steps() * static_cast<double>(work->items);
    return absl::StrFormat("{\"items_per_second\": %.2f, \"cpu_us_per_item\": %.3f}",
                           items / speed->seconds(), 1e6 * speed->cpu_seconds() / items);
  };
}

absl::StatusOr<Round> CachedEpochRounds(std::shared_ptr<runtime::Client> client,
                                        const BenchWorker& worker, const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(
      std::shared_ptr<train::Trainer> trainer,
      MakeTrainer(std::move(client), LinearNetwork(), nn::SGD({.learning_rate = 0.01}), 1));
  // 50,000 images, the size of CIFAR-10: 391 steps.
  const Dataset data = Dataset::FromTfRecords({folder + "/*.tfrec"})
                           .ParseExample({.features = {{.name = "image", .dtype = DType::kString},
                                                       {.name = "class", .dtype = DType::kI64}}})
                           .DecodeImage({.channels = 3, .height = kSide, .width = kSide})
                           .Cache()
                           .Repeat(5)
                           .Shuffle(1000)
                           .Batch(kBatch)
                           .Prefetch(2);
  const auto epoch = [trainer, data]() {
    return trainer->Fit(data, {.read = {.place = train::PipelinePlace::kWorker}}).status();
  };
  PENSTOCK_RETURN_IF_ERROR(epoch());  // compiles, and fills the cache
  return [epoch, &worker]() -> absl::StatusOr<std::string> {
    const int64_t before = worker.Bytes();
    PENSTOCK_RETURN_IF_ERROR(epoch());
    return absl::StrFormat("{\"megabytes\": %.4f}",
                           1e-6 * static_cast<double>(worker.Bytes() - before));
  };
}

}  // namespace penstock::remote
