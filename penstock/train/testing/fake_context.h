// A TrainingContext without a training: tests call a callback's hooks themselves.
#pragma once

#include <string>

#include "penstock/train/callback.h"

namespace penstock::train::testing {

// 3 epochs of 20 steps of 10 examples; "val_accuracy" is a metric that is maximized.
class FakeContext : public TrainingContext {
 public:
  void Stop(std::string reason) override { stopped = std::move(reason); }
  absl::StatusOr<base::NamedArrays> State() override { return weights; }
  absl::StatusOr<base::NamedArrays> Weights() override { return weights; }
  absl::Status SetWeights(const base::NamedArrays& to) override {
    weights = to;
    return absl::OkStatus();
  }
  absl::StatusOr<double> LearningRate() override { return rate; }
  absl::Status SetLearningRate(double to) override {
    rate = to;
    return absl::OkStatus();
  }
  std::string Progress() override { return "{}"; }
  absl::Status Resume(const base::NamedArrays&, absl::string_view) override {
    return absl::OkStatus();
  }
  int64_t examples_per_step() const override { return 10; }
  int64_t steps_per_epoch() const override { return 20; }
  int epochs() const override { return 3; }
  absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const override {
    if (name == "val_accuracy") return MonitorInfo{.better = Mode::kMax};
    return TrainingContext::FindMonitor(name);
  }
  FitStats stats() const override { return measured; }

  std::string stopped;  // reason of the latest Stop
  base::NamedArrays weights;
  double rate = 1;
  FitStats measured;
};

// An InferenceContext without an evaluation.
class FakeInference : public InferenceContext {
 public:
  void Stop() override { stopped = true; }
  int64_t num_batches() override { return batches; }
  int64_t examples() const override { return seen; }
  TrainingContext* training() override { return validates; }
  bool failed() const override { return has_failed; }

  bool stopped = false, has_failed = false;
  int64_t batches = -1, seen = 0;
  TrainingContext* validates = nullptr;
};

}  // namespace penstock::train::testing
