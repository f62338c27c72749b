#include "penstock/train/device_model.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"
#include "penstock/train/weights.h"

namespace penstock::train {
namespace {

absl::Status CheckTrainerOptions(const TrainerOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckObjective(options.objective));
  if (options.steps_per_execution >= 0 && options.steps_per_execution <= kMaxStepsPerExecution) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("steps_per_execution must be from 1 to ",
                                                 kMaxStepsPerExecution, ", or kAutoSteps (0), got ",
                                                 options.steps_per_execution));
}

// Call before variables are initialized: variables, slots and metric sums are first created on the
// host.
absl::Status CheckFitsInMemory(const StateLayout& layout) {
  constexpr double kGiga = 1e9;
  double bytes = 0, largest_bytes = -1;
  const StateLayout::Entry* largest = nullptr;
  for (const StateLayout::Entry& entry : layout.entries) {
    const std::optional<int64_t> size = base::CheckedBytes(entry.type.dtype, entry.type.shape);
    if (!size.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("'", entry.name, "' would be ",
                                                     entry.type.ToString(),
                                                     ", whose number of bytes overflows"));
    }
    bytes += static_cast<double>(*size);
    if (static_cast<double>(*size) > largest_bytes) {
      largest_bytes = static_cast<double>(*size);
      largest = &entry;
    }
  }
  const base::MemoryHeadroom room = base::AvailableMemory();
  if (largest == nullptr || bytes <= static_cast<double>(room.bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("the model with its optimizer is %.3g GB, the largest array '%s', %s, has "
                      "%.3g GB; %s has only "
                      "%s free",
                      bytes / kGiga, largest->name, largest->type.ToString(), largest_bytes / kGiga,
                      room.limited_by, base::PrintBytes(room.bytes)));
}

}  // namespace

DeviceModel::DeviceModel(TrainerOptions options)
    : options_(std::move(options)),
      report_names_(ReportNames(options_.objective)),
      layout_(StateLayout::Make(options_.objective)),
      programs_(options_, layout_),
      steps_tuner_(options_.steps_per_execution) {}

absl::StatusOr<std::unique_ptr<DeviceModel>> DeviceModel::Create(TrainerOptions options) {
  PENSTOCK_RETURN_IF_ERROR(CheckTrainerOptions(options));
  const std::optional<NamedArrays> weights = std::exchange(options.initial_weights, std::nullopt);
  auto model = std::unique_ptr<DeviceModel>(new DeviceModel(std::move(options)));
  const Objective& objective = model->objective();
  const uint64_t seed = model->options_.seed;
  PENSTOCK_RETURN_IF_ERROR(CheckFitsInMemory(model->layout_));
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays variables,
                            weights.has_value()
                                ? VariablesFromWeights(objective.network, model->layout_, *weights)
                                : objective.network.Initialize(seed));
  PENSTOCK_RETURN_IF_ERROR(model->SetState(
      InitialState(model->layout_, std::move(variables), objective.optimizer, seed)));
  return model;
}

absl::StatusOr<NamedArrays> DeviceModel::Weights() const {
  return state_.GetSeenVariables(layout_);
}

absl::Status DeviceModel::SetWeights(const NamedArrays& weights) {
  // Everything is checked before anything is changed.
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays variables,
                            VariablesFromWeights(objective().network, layout_, weights));
  PENSTOCK_RETURN_IF_ERROR(state_.UseAverages(false, layout_, strategy()));
  for (int i = 0; i < layout_.num_variables; ++i) {
    PENSTOCK_RETURN_IF_ERROR(
        state_.Set(layout_, strategy(), i, *variables.Find(layout_.entries[i].name)));
  }
  return absl::OkStatus();
}

bool DeviceModel::has_averages() const { return objective().optimizer.options().use_ema; }

absl::Status DeviceModel::UseAverages(bool use) {
  if (!has_averages()) {
    return absl::FailedPreconditionError(
        "the optimizer keeps no moving averages of the variables; give it use_ema = true");
  }
  return state_.UseAverages(use, layout_, strategy());
}

absl::StatusOr<double> DeviceModel::LearningRate() const {
  if (layout_.learning_rate < 0) {
    return absl::FailedPreconditionError(
        "the learning rate is a schedule's, computed by each step; to read or set it, construct "
        "the optimizer with a number");
  }
  return learning_rate_;
}

absl::Status DeviceModel::SetLearningRate(double rate) {
  PENSTOCK_RETURN_IF_ERROR(LearningRate().status());
  if (!(rate >= 0) || !std::isfinite(rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a learning rate must be finite and not negative, got ", rate));
  }
  const auto rounded = static_cast<float>(rate);
  PENSTOCK_RETURN_IF_ERROR(
      state_.Set(layout_, strategy(), layout_.learning_rate, Array::Scalar(rounded)));
  learning_rate_ = rounded;
  return absl::OkStatus();
}

absl::StatusOr<NamedArrays> DeviceModel::State() const {
  return state_.Get(layout_, 0, layout_.size());
}

absl::Status DeviceModel::SetState(const NamedArrays& state) {
  PENSTOCK_ASSIGN_OR_RETURN(state_, DeviceState::Put(layout_, strategy(), state));
  if (layout_.learning_rate >= 0) {
    learning_rate_ = state.Find(layout_.entries[layout_.learning_rate].name)->data<float>()[0];
  }
  return absl::OkStatus();
}

absl::Status DeviceModel::SetStateOnDevices(std::vector<runtime::Buffers> replicas) {
  if (layout_.learning_rate >= 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const Array rate,
                              replicas[0][static_cast<size_t>(layout_.learning_rate)].Get());
    learning_rate_ = rate.data<float>()[0];
  }
  state_ = DeviceState::Of(std::move(replicas));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<runtime::Buffers>> DeviceModel::ZeroMetrics() const {
  std::vector<runtime::Buffers> zeros(strategy().num_replicas());
  for (int r = 0; r < strategy().num_replicas(); ++r) {
    for (int i = layout_.first_metric; i < layout_.size(); ++i) {
      const ir::TensorType& type = layout_.entries[i].type;
      PENSTOCK_ASSIGN_OR_RETURN(
          zeros[r].emplace_back(),
          strategy().client().Put(Array::Zeros(type.dtype, type.shape), strategy().device(r)));
    }
  }
  return zeros;
}

Logs DeviceModel::LogsOf(const Array& report) const {
  const float* numbers = report.data<float>();
  Logs logs;
  for (size_t i = 0; i < report_names_.size(); ++i) logs.Set(report_names_[i], numbers[i]);
  return logs;
}

double DeviceModel::NextLearningRate(const Array& report) const {
  return layout_.learning_rate >= 0 ? learning_rate_ : report.data<float>()[report_names_.size()];
}

data::IteratorOptions DeviceModel::IteratorOptionsFor(const ReadOptions& read,
                                                      base::Trace* trace) const {
  data::IteratorOptions options{.pool = read.pool,
                                .file_system = read.file_system,
                                .seed = options_.seed,
                                .deterministic = read.deterministic,
                                .trace = trace};
  if (trace != nullptr) options.clock = options_.clock;
  return options;
}

const std::vector<Target>* DeviceModel::TargetsToCheck() const {
  return objective().custom.has_value() ? nullptr : &objective().targets;
}

}  // namespace penstock::train
