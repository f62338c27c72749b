// What a training run keeps on the devices: variables, the optimizer's slots, the step, the random
// key and the sums of the metrics. Every replica holds the same values.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/train/objective.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

using base::Array;
using base::DType;
using base::NamedArrays;

// The state's entries in the order in which programs take them:
//   variables...                        "conv2d/kernel"
//   slots, variable by variable...      "optimizer/momentum/conv2d/kernel"
//   the optimizer's own numbers...      "optimizer/dynamic_scale"
//   "optimizer/learning_rate"           f32, only when the schedule is a constant: callbacks may
//                                       set it
//   "optimizer/iteration"               i32, finished steps
//   "random/key"                        ui32[2]
//   "halted"                            i32, the step whose numbers were not finite, where somebody
//                                       wants to know (halt_on_nan); -1 while all is well
//   metrics...                          "metrics/loss/0", "metrics/accuracy/1", as ReportNames
struct StateLayout {
  struct Entry {
    std::string name;
    ir::TensorType type;
  };
  std::vector<Entry> entries;
  int num_variables = 0;
  // Of each variable; -1 and 0 for those that are not trained.
  std::vector<int> first_slot, num_slots;
  int first_shared = 0, num_shared = 0;
  // Of each variable: the entry that takes its place when training ends; -1: none.
  std::vector<int> average;
  int learning_rate = -1;
  int iteration = -1;
  int key = -1;
  int halted = -1;
  int first_metric = 0;  // metrics are the last entries

  static StateLayout Make(const Objective& objective);
  int size() const { return static_cast<int>(entries.size()); }
};

// First values of a whole state.
absl::StatusOr<NamedArrays> InitialState(const StateLayout& layout, const nn::Network& network,
                                         const nn::Optimizer& optimizer, uint64_t seed);

// The state on the devices.
class DeviceState {
 public:
  // Copies `arrays` (all of the layout's names and types) to every replica.
  static absl::StatusOr<DeviceState> Put(const StateLayout& layout, const Strategy& strategy,
                                         const NamedArrays& arrays);

  // Entries [begin, end) from replica 0, as they are after all steps given so far.
  absl::StatusOr<NamedArrays> Get(const StateLayout& layout, int begin, int end) const;
  absl::Status Set(const StateLayout& layout, const Strategy& strategy, int entry,
                   const Array& array);

  // Gives every variable the value of its moving average, where the optimizer keeps one.
  absl::Status TakeAverages(const StateLayout& layout, const Strategy& strategy);

  const std::vector<runtime::Buffers>& replicas() const { return replicas_; }
  std::vector<runtime::Buffers>& replicas() { return replicas_; }

 private:
  std::vector<runtime::Buffers> replicas_;  // [replica][entry]
};

}  // namespace penstock::train
