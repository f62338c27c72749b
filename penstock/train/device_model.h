// DeviceModel: a trainer's model on the devices: its state there and its compiled programs. The
// loops of training, evaluation and prediction run on it. Internal to room train.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/iterator.h"
#include "penstock/train/loop/steps_tuner.h"
#include "penstock/train/options.h"
#include "penstock/train/program_cache.h"
#include "penstock/train/state.h"

namespace penstock::train {

class DeviceModel {
 public:
  // Initializes the state and transfers it to the devices.
  static absl::StatusOr<std::unique_ptr<DeviceModel>> Create(TrainerOptions options);
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  const TrainerOptions& options() const { return options_; }
  const Objective& objective() const { return options_.objective; }
  const Strategy& strategy() const { return options_.strategy; }
  const StateLayout& layout() const { return layout_; }
  // Whether the devices are the cores of this machine.
  bool on_cpu() const { return strategy().client().platform() == "cpu"; }
  DeviceState& state() { return state_; }
  ProgramCache& programs() { return programs_; }
  // Shared by all calls of Fit, so that measurements are not repeated.
  StepsTuner& steps_tuner() { return steps_tuner_; }

  // Variables of the network, by name; their moving averages while these are in use. SetWeights
  // ends that use.
  absl::StatusOr<NamedArrays> Weights() const;
  absl::Status SetWeights(const NamedArrays& weights);
  // DeviceState::UseAverages; FAILED_PRECONDITION if the optimizer has none.
  absl::Status UseAverages(bool use);
  bool has_averages() const;
  // The constant learning rate; does not wait for the devices. FAILED_PRECONDITION with a schedule.
  absl::StatusOr<double> LearningRate() const;
  absl::Status SetLearningRate(double rate);
  // All entries of the layout.
  absl::StatusOr<NamedArrays> State() const;
  absl::Status SetState(const NamedArrays& state);
  // The same on the devices: buffers of the layout's types, [replica][entry], which no one else uses.
  absl::Status SetStateOnDevices(std::vector<runtime::Buffers> replicas);

  // Metric sums of zero, on each replica.
  absl::StatusOr<std::vector<runtime::Buffers>> ZeroMetrics() const;
  // The numbers of a step program's report, by name.
  Logs LogsOf(const Array& report) const;
  // The learning rate of the step after the one that made this report.
  double NextLearningRate(const Array& report) const;
  // How this model's datasets are read: `read`, with the model's seed. `trace` may be null.
  data::IteratorOptions IteratorOptionsFor(const ReadOptions& read, base::Trace* trace) const;
  // The targets whose losses can check labels; null with a custom step.
  const std::vector<Target>* TargetsToCheck() const;

 private:
  explicit DeviceModel(TrainerOptions options);

  const TrainerOptions options_;
  const std::vector<std::string> report_names_;
  const StateLayout layout_;
  DeviceState state_;
  double learning_rate_ = 0;  // a constant one, as in state_
  ProgramCache programs_;
  StepsTuner steps_tuner_;
};

}  // namespace penstock::train
