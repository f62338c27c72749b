#include "penstock/train/loop/nan_diagnosis.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::train {

absl::StatusOr<std::string> FindNan(DeviceModel& model, const DeviceBatch& batch, int64_t step) {
  const Strategy& strategy = model.strategy();
  PENSTOCK_ASSIGN_OR_RETURN(const Diagnosis diagnosis,
                            DiagnoseStep(model.objective(), model.layout(), *batch.types,
                                         strategy.num_replicas(), strategy.lowering()));
  PENSTOCK_ASSIGN_OR_RETURN(auto executable, strategy.client().Compile(diagnosis.program));
  std::vector<runtime::Buffers> arguments = model.state().replicas();
  for (size_t r = 0; r < arguments.size(); ++r) {
    arguments[r].insert(arguments[r].end(), batch.replicas[r].begin(), batch.replicas[r].end());
    if (batch.types->depth == 1) continue;
    PENSTOCK_ASSIGN_OR_RETURN(
        arguments[r].back(),
        strategy.client().Put(Array::Scalar(static_cast<int32_t>(step)), strategy.device(r)));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable->Execute(arguments));
  PENSTOCK_ASSIGN_OR_RETURN(const Array found, results[0][0].Get());
  const auto finite = found.values<int32_t>();
  const auto bad = std::find(finite.begin(), finite.end(), 0);
  if (bad == finite.end()) return "a number that was finite when the step was repeated";
  return diagnosis.places[bad - finite.begin()];
}

std::string WrongLabels(const DeviceModel& model, const DeviceBatch& batch, int64_t step) {
  const std::vector<Target>* targets = model.TargetsToCheck();
  const nn::Network& network = model.objective().network;
  if (targets == nullptr) return "";
  for (const runtime::Buffers& replica : batch.replicas) {
    for (size_t t = 0; t < targets->size(); ++t) {
      absl::StatusOr<Array> labels = replica[network.inputs().size() + t].Get();
      if (!labels.ok()) return "";
      if (batch.types->depth > 1) labels = labels->Row(step);
      const absl::Status status =
          (*targets)[t].loss.CheckLabels(*labels, network.outputs()[t].type);
      if (!status.ok()) return absl::StrCat(". Its labels: ", status.message());
    }
  }
  return "";
}

}  // namespace penstock::train
