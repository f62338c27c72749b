// State of a training on the devices: variables, the optimizer's slots, the iteration, the RNG key
// and the sums of the metrics. Every replica has the same values.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/train/objective.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

using base::Array;
using base::DType;
using base::NamedArrays;

// Names, types and order of the state's entries; programs take them in this order:
//   variables...                        "conv2d/kernel"
//   slots, variable by variable...      "optimizer/momentum/conv2d/kernel"
//   the optimizer's shared slots...     "optimizer/dynamic_scale"
//   "optimizer/learning_rate"           f32; only with a constant learning rate, which callbacks
//   may
//                                       set
//   "optimizer/iteration"               i32, completed steps
//   "random/key"                        ui32[2]
//   "halted"                            i32, the first step with a number that was not finite, if a
//                                       callback stops on NaN (halt_on_nan); else -1
//   metrics...                          "metrics/loss/0", "metrics/accuracy/1", as ReportNames
struct StateLayout {
  struct Entry {
    std::string name;
    ir::TensorType type;
  };
  std::vector<Entry> entries;
  int num_variables = 0;
  // [variable]: -1 and 0 for frozen variables.
  std::vector<int> first_slot, num_slots;
  int first_shared = 0, num_shared = 0;
  // [variable]: the entry that replaces its value when training ends; -1: none.
  std::vector<int> average;
  int learning_rate = -1;
  int iteration = -1;
  int key = -1;
  int halted = -1;
  int first_metric = 0;  // metrics are the last entries

  static StateLayout Make(const Objective& objective);
  int size() const { return static_cast<int>(entries.size()); }
};

// Whether a checkpoint's array of this name is something else than a variable: a part of the state
// above, or of the run ("run/history/loss"). A variable may have such a name, too.
bool IsTrainingState(absl::string_view name);

// Initial values of a whole state, with these values of the variables. `seed`: of the RNG key.
NamedArrays InitialState(const StateLayout& layout, NamedArrays variables,
                         const nn::Optimizer& optimizer, uint64_t seed);

// The state on the devices.
class DeviceState {
 public:
  // Transfers `arrays` (every entry of the layout) to every replica.
  static absl::StatusOr<DeviceState> Put(const StateLayout& layout, const Strategy& strategy,
                                         const NamedArrays& arrays);

  // Entries [begin, end) from replica 0, as of the last dispatched step; blocks on the device. Of
  // the variables their own values, also while averages are in use.
  absl::StatusOr<NamedArrays> Get(const StateLayout& layout, int begin, int end) const;
  // The same entries, all of them, on the devices.
  runtime::Buffers Entries() const;
  // The state in these buffers, [replica][entry], which no one else uses.
  static DeviceState Of(std::vector<runtime::Buffers> replicas);
  // Replaces one entry on every replica.
  absl::Status Set(const StateLayout& layout, const Strategy& strategy, int entry,
                   const Array& array);

  // Replaces every variable by its moving average, where the optimizer has one.
  absl::Status TakeAverages(const StateLayout& layout, const Strategy& strategy);
  // Lets evaluation see the moving averages in place of the variables (true), or the variables
  // again (false). Nothing is copied unless an average's type is not the variable's. No training
  // step may be dispatched while averages are in use; Set of a variable changes what is seen.
  absl::Status UseAverages(bool use, const StateLayout& layout, const Strategy& strategy);
  // Variables as evaluation sees them.
  absl::StatusOr<NamedArrays> GetSeenVariables(const StateLayout& layout) const;

  // What the next training step reads: of the variables their own values, also while averages are in
  // use.
  std::vector<runtime::Buffers> TrainingReplicas() const;

  const std::vector<runtime::Buffers>& replicas() const { return replicas_; }
  std::vector<runtime::Buffers>& replicas() { return replicas_; }

 private:
  absl::StatusOr<NamedArrays> Get(const StateLayout& layout, int begin, int end,
                                  const runtime::Buffers& variables) const;
  absl::Status SetToAverage(int variable, const StateLayout& layout, const Strategy& strategy);

  std::vector<runtime::Buffers> replicas_;  // [replica][entry]
  // [replica][variable]: the variables while averages are in use, otherwise empty.
  std::vector<runtime::Buffers> own_variables_;
};

}  // namespace penstock::train
