#include "penstock/train/loop/batch_gradients.h"

#include <memory>
#include <utility>
#include <vector>

#include "penstock/base/status.h"

namespace penstock::train {

absl::StatusOr<NamedArrays> BatchGradients(DeviceModel& model, const DeviceBatch& batch,
                                           const CompileListeners& listeners) {
  const Strategy& strategy = model.strategy();
  const StateLayout& layout = model.layout();
  std::vector<int> trained;
  for (int i = 0; i < layout.num_variables; ++i) {
    if (layout.first_slot[i] >= 0) trained.push_back(i);
  }
  NamedArrays gradients;
  if (trained.empty()) return gradients;
  PENSTOCK_ASSIGN_OR_RETURN(const auto program,
                            model.programs().Get(ProgramKind::kGradients, *batch.types, listeners));
  std::vector<runtime::Buffers> arguments = model.state().TrainingReplicas();
  for (size_t r = 0; r < arguments.size(); ++r) {
    arguments[r].insert(arguments[r].end(), batch.replicas[r].begin(), batch.replicas[r].end());
    if (batch.types->depth == 1) continue;
    PENSTOCK_ASSIGN_OR_RETURN(
        arguments[r].back(),
        strategy.client().Put(Array::Scalar(static_cast<int32_t>(batch.steps - 1)),
                              strategy.device(static_cast<int>(r))));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto results, program->Execute(arguments));
  // All transfers are started before the first one is waited for.
  std::vector<Array> arrays;
  std::vector<std::shared_ptr<runtime::Event>> events;
  for (size_t t = 0; t < trained.size(); ++t) {
    const ir::TensorType type =
        nn::Optimizer::SlotType(layout.entries[static_cast<size_t>(trained[t])].type);
    arrays.push_back(Array::Uninitialized(type.dtype, type.shape));
    PENSTOCK_ASSIGN_OR_RETURN(events.emplace_back(), results[0][t].GetAsync(arrays.back()));
  }
  for (size_t t = 0; t < trained.size(); ++t) {
    PENSTOCK_RETURN_IF_ERROR(events[t]->Await());
    gradients.Append(layout.entries[static_cast<size_t>(trained[t])].name, arrays[t]);
  }
  return gradients;
}

}  // namespace penstock::train
