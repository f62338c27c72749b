// Benchmark of checkpoints, which `bench/run save` runs beside its peers:
//
//   bench_save serve FOLDER [sync]     for each line of stdin, trains two steps, saves a checkpoint
//                                      of 512 MiB by train::Checkpoint after the second one, reads
//                                      it back, removes it, and prints
//                                      {"blocked_seconds": 0.15, "copy_seconds": 0.14,
//                                       "beyond_copy_seconds": 0.01, "write_seconds": 0.9,
//                                       "total_seconds": 1.05, "restore_seconds": 0.6}
//
// blocked: training waits for the save. copy: the part of it in which the state is copied to the
// host. total: from the beginning of the save until the checkpoint is complete, including fsync;
// write: the part of it after the copy. restore: files to devices, with the files in the page
// cache. The state is 32 arrays of 16 MiB: 16 kernels and their momentum.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/optimizers.h"
#include "penstock/runtime/client.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

using base::Array;
using base::DType;

constexpr int64_t kUnits = 2048;  // a kernel has 16 MiB
constexpr int kLayers = 16;       // with momentum 512 MiB
constexpr int64_t kRows = 8;
constexpr int64_t kSteps = 2;

double Now() { return base::Clock::Real()->Seconds(); }

// Forwards to the training, and measures its State.
class TimedContext : public train::TrainingContext {
 public:
  explicit TimedContext(train::TrainingContext& inner) : inner_(inner) {}

  absl::StatusOr<base::NamedArrays> State() override {
    const double begin = Now();
    auto state = inner_.State();
    copy_seconds_ += Now() - begin;
    return state;
  }
  double copy_seconds() const { return copy_seconds_; }

  void Stop(std::string reason) override { inner_.Stop(std::move(reason)); }
  bool Interrupt(std::string reason) override { return inner_.Interrupt(std::move(reason)); }
  absl::StatusOr<base::NamedArrays> Weights() override { return inner_.Weights(); }
  absl::Status SetWeights(const base::NamedArrays& weights) override {
    return inner_.SetWeights(weights);
  }
  absl::StatusOr<double> LearningRate() override { return inner_.LearningRate(); }
  absl::Status SetLearningRate(double rate) override { return inner_.SetLearningRate(rate); }
  std::string Progress() override { return inner_.Progress(); }
  absl::Status Resume(const base::NamedArrays& state, absl::string_view progress) override {
    return inner_.Resume(state, progress);
  }
  int64_t examples_per_step() const override { return inner_.examples_per_step(); }
  int64_t steps_per_epoch() const override { return inner_.steps_per_epoch(); }
  int epochs() const override { return inner_.epochs(); }

 private:
  train::TrainingContext& inner_;
  double copy_seconds_ = 0;
};

// Measures the hooks of a checkpoint callback.
class TimedCheckpoint : public train::Callback {
 public:
  explicit TimedCheckpoint(const train::CheckpointOptions& options)
      : inner_(train::Checkpoint(options)) {}

  bool RunsLast() const override { return true; }
  bool WantsState(const train::Position& at) const override { return inner_->WantsState(at); }
  absl::Status TrainBegin(train::TrainingContext& context) override {
    const double begin = Now();
    const absl::Status status = inner_->TrainBegin(context);
    restore_seconds = Now() - begin;
    return status;
  }
  absl::Status BatchBegin(train::TrainingContext& context, const train::Position& at) override {
    return inner_->BatchBegin(context, at);
  }
  absl::Status BatchEnd(train::TrainingContext& context, const train::Position& at,
                        const train::Logs& logs) override {
    if (!WantsState(at)) return inner_->BatchEnd(context, at, logs);
    TimedContext timed(context);
    began_ = Now();
    const absl::Status status = inner_->BatchEnd(timed, at, logs);
    blocked_seconds = Now() - began_;
    copy_seconds = timed.copy_seconds();
    return status;
  }
  absl::Status TrainEnd(train::TrainingContext& context) override {
    const absl::Status status = inner_->TrainEnd(context);
    total_seconds = Now() - began_;
    return status;
  }

  double restore_seconds = 0, blocked_seconds = 0, copy_seconds = 0, total_seconds = 0;

 private:
  const std::shared_ptr<train::Callback> inner_;
  double began_ = 0;
};

absl::StatusOr<std::unique_ptr<train::Trainer>> MakeTrainer() {
  const nn::Symbol x = nn::Input({.shape = {kUnits}, .name = "x"});
  nn::Symbol h = x;
  for (int i = 0; i < kLayers; ++i) h = nn::Dense({.units = kUnits, .use_bias = false})(h);
  PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = "cpu"}));
  PENSTOCK_ASSIGN_OR_RETURN(train::Strategy strategy, train::Strategy::Create(std::move(client)));
  return train::Trainer::Create(
      {.objective = {.network = nn::Network({x}, {h}),
                     .targets = {{.loss = nn::MeanSquaredError()}},
                     .optimizer = nn::SGD({.learning_rate = 1e-6, .momentum = 0.9})},
       .strategy = std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}}});
}

absl::StatusOr<std::string> Round(train::Trainer& trainer, const std::string& folder,
                                  bool asynchronous) {
  const Array rows = Array::Zeros(DType::kF32, {kRows, kUnits});
  const data::Dataset batches =
      data::Dataset::FromArrays({{"x", rows}, {"y", rows}}).Batch(kRows).Repeat();
  const train::CheckpointOptions options{
      .folder = folder, .every_epochs = 0, .every_steps = kSteps, .asynchronous = asynchronous};
  const auto fit = [&](const std::shared_ptr<TimedCheckpoint>& checkpoint) {
    return trainer.Fit(batches, {.callbacks = {checkpoint}, .steps_per_epoch = kSteps}).status();
  };
  const auto saving = std::make_shared<TimedCheckpoint>(options);
  PENSTOCK_RETURN_IF_ERROR(fit(saving));
  const auto restoring = std::make_shared<TimedCheckpoint>(options);
  PENSTOCK_RETURN_IF_ERROR(fit(restoring));
  PENSTOCK_RETURN_IF_ERROR(io::FileSystem::Default()->RemoveRecursively(folder));
  return absl::StrFormat(
      "{\"blocked_seconds\": %.6f, \"copy_seconds\": %.6f, \"beyond_copy_seconds\": %.6f, "
      "\"write_seconds\": %.6f, \"total_seconds\": %.6f, \"restore_seconds\": %.6f}",
      saving->blocked_seconds, saving->copy_seconds, saving->blocked_seconds - saving->copy_seconds,
      saving->total_seconds - saving->copy_seconds, saving->total_seconds,
      restoring->restore_seconds);
}

absl::Status Main(const std::vector<std::string>& arguments) {
  const bool synchronous = arguments.size() == 3 && arguments[2] == "sync";
  if (arguments.size() < 2 || arguments[0] != "serve" || (arguments.size() > 2 && !synchronous)) {
    return absl::InvalidArgumentError("usage: bench_save serve FOLDER [sync]");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto trainer, MakeTrainer());
  int round = 0;
  for (std::string line; std::getline(std::cin, line); ++round) {
    const std::string folder = io::JoinPath(arguments[1], absl::StrCat("round", round));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string answer, Round(*trainer, folder, !synchronous));
    std::cout << answer << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const absl::Status status = penstock::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "bench_save: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
