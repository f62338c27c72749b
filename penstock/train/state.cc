#include "penstock/train/state.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"

namespace penstock::train {
namespace {

Array InitialSlot(const nn::SlotSpec& slot) {
  Array out = Array::Zeros(slot.type.dtype, slot.type.shape);
  base::VisitNumeric(slot.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(out.mutable_data<T>(), out.num_elements(), static_cast<T>(slot.initial_value));
  });
  return out;
}

}  // namespace

StateLayout StateLayout::Make(const Objective& objective) {
  const nn::Network& network = objective.network;
  const nn::Optimizer& optimizer = objective.optimizer;
  StateLayout layout;
  const auto add = [&](std::string name, ir::TensorType type) {
    layout.entries.push_back({std::move(name), std::move(type)});
    return layout.size() - 1;
  };
  const auto& variables = network.variables();
  layout.num_variables = static_cast<int>(variables.size());
  for (const nn::VariableSpec& v : variables) add(v.name, v.type);
  for (const nn::VariableSpec& v : variables) {
    const auto slots = v.trainable ? optimizer.Slots(v.name, v.type) : std::vector<nn::SlotSpec>();
    layout.first_slot.push_back(v.trainable ? layout.size() : -1);
    layout.num_slots.push_back(static_cast<int>(slots.size()));
    layout.average.push_back(-1);
    for (const nn::SlotSpec& slot : slots) {
      if (slot.name == nn::Optimizer::kAverage) layout.average.back() = layout.size();
      add(absl::StrCat("optimizer/", slot.name, "/", v.name), slot.type);
    }
  }
  layout.first_shared = layout.size();
  for (const nn::SlotSpec& slot : optimizer.SharedSlots()) {
    add(absl::StrCat("optimizer/", slot.name), slot.type);
    ++layout.num_shared;
  }
  if (optimizer.learning_rate().is_constant()) {
    layout.learning_rate = add("optimizer/learning_rate", {DType::kF32, {}});
  }
  layout.iteration = add("optimizer/iteration", {DType::kI32, {}});
  layout.key = add("random/key", {DType::kU32, {2}});
  layout.halted = add("halted", {DType::kI32, {}});
  layout.first_metric = layout.size();
  const std::vector<std::string> names = ReportNames(objective);
  size_t next = 0;
  const auto add_metric = [&](const std::vector<ir::TensorType>& states) {
    const std::string& name = names[next++];
    for (size_t i = 0; i < states.size(); ++i)
      add(absl::StrCat("metrics/", name, "/", i), states[i]);
  };
  for (size_t i = 0; i < NumMeans(objective); ++i) add_metric(nn::MeanStates());
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    const Target& target = objective.targets[t];
    for (const auto* metrics : {&target.metrics, &target.weighted_metrics}) {
      for (const nn::Metric& metric : *metrics)
        add_metric(metric.States(network.outputs()[t].type));
    }
  }
  return layout;
}

bool IsTrainingState(absl::string_view name) {
  return absl::StartsWith(name, "optimizer/") || absl::StartsWith(name, "metrics/") ||
         absl::StartsWith(name, "run/") || name == "random/key" || name == "halted";
}

NamedArrays InitialState(const StateLayout& layout, NamedArrays variables,
                         const nn::Optimizer& optimizer, uint64_t seed) {
  NamedArrays state = std::move(variables);
  for (int i = layout.num_variables; i < layout.size(); ++i) {
    const auto& [name, type] = layout.entries[i];
    state.Set(name, Array::Zeros(type.dtype, type.shape));
  }
  const auto begin = [&](int first, const std::vector<nn::SlotSpec>& slots) {
    for (const nn::SlotSpec& slot : slots)
      state.Set(layout.entries[first++].name, InitialSlot(slot));
  };
  for (int i = 0; i < layout.num_variables; ++i) {
    const auto& [name, type] = layout.entries[i];
    if (layout.first_slot[i] >= 0) begin(layout.first_slot[i], optimizer.Slots(name, type));
  }
  begin(layout.first_shared, optimizer.SharedSlots());
  if (layout.learning_rate >= 0) {
    const double rate = optimizer.learning_rate().constant();
    state.Set(layout.entries[layout.learning_rate].name, Array::Scalar(static_cast<float>(rate)));
  }
  // Not the number that seeds the initializers.
  const uint64_t key = base::MixSeeds(seed, 0x6b6579);
  state.Set(
      layout.entries[layout.key].name,
      Array::Of<uint32_t>({2}, {static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key)}));
  state.Set(layout.entries[layout.halted].name, Array::Scalar<int32_t>(-1));
  return state;
}

absl::StatusOr<DeviceState> DeviceState::Put(const StateLayout& layout, const Strategy& strategy,
                                             const NamedArrays& arrays) {
  DeviceState state;
  state.replicas_.assign(strategy.num_replicas(), runtime::Buffers(layout.size()));
  for (int i = 0; i < layout.size(); ++i) {
    const Array* array = arrays.Find(layout.entries[i].name);
    if (array == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the state lacks '", layout.entries[i].name, "'"));
    }
    PENSTOCK_RETURN_IF_ERROR(state.Set(layout, strategy, i, *array));
  }
  return state;
}

absl::Status DeviceState::Set(const StateLayout& layout, const Strategy& strategy, int entry,
                              const Array& array) {
  const auto& [name, type] = layout.entries[entry];
  if (array.dtype() != type.dtype || !(array.shape() == type.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is ", type.ToString(), "; got ", array.TypeString()));
  }
  for (int r = 0; r < strategy.num_replicas(); ++r) {
    // The step program donates the state, so each replica needs memory of its own.
    PENSTOCK_ASSIGN_OR_RETURN(replicas_[r][entry],
                              strategy.client().Put(array.Clone(), strategy.device(r)));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedArrays> DeviceState::Get(const StateLayout& layout, int begin, int end) const {
  return Get(layout, begin, end, own_variables_.empty() ? replicas_[0] : own_variables_[0]);
}

runtime::Buffers DeviceState::Entries() const {
  runtime::Buffers entries = replicas_[0];
  if (!own_variables_.empty()) {
    std::copy(own_variables_[0].begin(), own_variables_[0].end(), entries.begin());
  }
  return entries;
}

DeviceState DeviceState::Of(std::vector<runtime::Buffers> replicas) {
  DeviceState state;
  state.replicas_ = std::move(replicas);
  return state;
}

absl::StatusOr<NamedArrays> DeviceState::GetSeenVariables(const StateLayout& layout) const {
  return Get(layout, 0, layout.num_variables, replicas_[0]);
}

std::vector<runtime::Buffers> DeviceState::TrainingReplicas() const {
  std::vector<runtime::Buffers> replicas = replicas_;
  for (size_t r = 0; r < own_variables_.size(); ++r) {
    std::copy(own_variables_[r].begin(), own_variables_[r].end(), replicas[r].begin());
  }
  return replicas;
}

absl::StatusOr<NamedArrays> DeviceState::Get(const StateLayout& layout, int begin, int end,
                                             const runtime::Buffers& variables) const {
  // All transfers are started before the first one is waited for.
  std::vector<Array> arrays;
  std::vector<std::shared_ptr<runtime::Event>> events;
  for (int i = begin; i < end; ++i) {
    const ir::TensorType& type = layout.entries[i].type;
    arrays.push_back(Array::Uninitialized(type.dtype, type.shape));
    const runtime::Buffer& buffer = i < layout.num_variables ? variables[i] : replicas_[0][i];
    PENSTOCK_ASSIGN_OR_RETURN(events.emplace_back(), buffer.GetAsync(arrays.back()));
  }
  NamedArrays out;
  for (int i = begin; i < end; ++i) {
    PENSTOCK_RETURN_IF_ERROR(events[i - begin]->Await());
    out.Append(layout.entries[i].name, arrays[i - begin]);
  }
  return out;
}

absl::Status DeviceState::UseAverages(bool use, const StateLayout& layout,
                                      const Strategy& strategy) {
  if (use == !own_variables_.empty()) return absl::OkStatus();
  if (!use) {
    for (size_t r = 0; r < replicas_.size(); ++r)
      std::copy(own_variables_[r].begin(), own_variables_[r].end(), replicas_[r].begin());
    own_variables_.clear();
    return absl::OkStatus();
  }
  std::vector<runtime::Buffers> own(replicas_.size());
  for (size_t r = 0; r < replicas_.size(); ++r)
    own[r].assign(replicas_[r].begin(), replicas_[r].begin() + layout.num_variables);
  own_variables_ = std::move(own);
  for (int i = 0; i < layout.num_variables; ++i) {
    const int average = layout.average[i];
    if (average < 0) continue;
    if (layout.entries[average].type == layout.entries[i].type) {
      for (runtime::Buffers& replica : replicas_) replica[i] = replica[average];
    } else {
      PENSTOCK_RETURN_IF_ERROR(SetToAverage(i, layout, strategy));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceState::SetToAverage(int variable, const StateLayout& layout,
                                       const Strategy& strategy) {
  const int from = layout.average[variable];
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays average, Get(layout, from, from + 1));
  PENSTOCK_ASSIGN_OR_RETURN(
      const Array value,
      average.Find(layout.entries[from].name)->Cast(layout.entries[variable].type.dtype));
  return Set(layout, strategy, variable, value);
}

absl::Status DeviceState::TakeAverages(const StateLayout& layout, const Strategy& strategy) {
  PENSTOCK_RETURN_IF_ERROR(UseAverages(false, layout, strategy));
  for (int i = 0; i < layout.num_variables; ++i) {
    if (layout.average[i] < 0) continue;
    PENSTOCK_RETURN_IF_ERROR(SetToAverage(i, layout, strategy));
  }
  return absl::OkStatus();
}

}  // namespace penstock::train
