#include "penstock/train/program_cache.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::train {

absl::StatusOr<std::shared_ptr<runtime::Executable>> ProgramCache::Get(
    ProgramKind kind, const BatchTypes& types, const CompileListeners& listeners) {
  std::vector<Entry>& programs = programs_[static_cast<size_t>(kind)];
  for (const Entry& entry : programs) {
    if (entry.types == types) return entry.executable;
  }
  base::Trace::Span printing(listeners.trace, "build and print a program");
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, Print(kind, types));
  printing.End();
  std::string why;
  const bool trains = kind == ProgramKind::kTrain || kind == ProgramKind::kTrainHaltOnNan;
  if (trains && !programs.empty() && programs.back().types.depth != types.depth) {
    why = absl::StrCat("steps_per_execution is auto, and one step at a time leaves the devices ",
                       "waiting: up to ", types.depth, " steps are one execution now");
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto executable, Compile(program, types, why, listeners));
  programs.push_back({types, executable});
  return executable;
}

absl::StatusOr<ir::Program> ProgramCache::Print(ProgramKind kind, const BatchTypes& types) const {
  const Objective& objective = options_.objective;
  const Strategy& strategy = options_.strategy;
  switch (kind) {
    case ProgramKind::kTrain:
    case ProgramKind::kTrainHaltOnNan:
      return TrainStep(objective, layout_, types, strategy.num_replicas(),
                       kind == ProgramKind::kTrainHaltOnNan, strategy.lowering());
    case ProgramKind::kEvaluate:
      return EvaluateStep(objective, layout_, types, strategy.num_replicas(), strategy.lowering());
    case ProgramKind::kPredict:
      return PredictStep(objective, types.inputs, strategy.num_replicas(), strategy.lowering());
    case ProgramKind::kGradients:
      return GradientsStep(objective, layout_, types, strategy.num_replicas(), strategy.lowering());
  }
  return absl::InternalError("unknown kind of program");
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> ProgramCache::Compile(
    const ir::Program& program, const BatchTypes& types, const std::string& why,
    const CompileListeners& listeners) {
  const Strategy& strategy = options_.strategy;
  runtime::CompileOptions compile;
  for (int r = 0; r < strategy.num_replicas(); ++r) {
    compile.devices.push_back(strategy.device(r).index);
  }
  const std::string changed = history_.Add(program, compile);
  const std::string& reason = why.empty() ? changed : why;
  for (const auto& callback : listeners.callbacks) {
    if (!reason.empty()) callback->Recompiling(program.name, reason);
    callback->Compiling(program.name, true);
  }
  base::Trace* const trace = listeners.trace;
  const double began = trace != nullptr ? trace->Now() : 0;
  auto executable = strategy.client().Compile(program, compile);
  if (trace != nullptr) {
    const bool loaded = executable.ok() && (*executable)->from_cache();
    trace->Add(absl::StrCat(loaded ? "load " : "compile ", program.name,
                            loaded ? " from the compile cache" : ""),
               began, trace->Now());
  }
  for (const auto& callback : listeners.callbacks) callback->Compiling(program.name, false);
  if (!executable.ok()) {
    const runtime::BatchMemory batch = MemoryOf(types, /*with_state=*/true);
    return base::WithContext(runtime::AdviseBatch(executable.status(), batch),
                             absl::StrCat("compiling ", program.name));
  }
  if (options_.check_memory) {
    const runtime::FreeMemoryInfo room = strategy.client().FreeMemory(strategy.device(0));
    PENSTOCK_RETURN_IF_ERROR(
        runtime::CheckMemory(**executable, room, MemoryOf(types, /*with_state=*/false)));
  }
  return executable;
}

// The state, which is on the device before the step, and a gradient of each variable.
runtime::BatchMemory ProgramCache::MemoryOf(const BatchTypes& types, bool with_state) const {
  runtime::BatchMemory batch;
  batch.examples = types.inputs[0].shape.dim(0) * options_.strategy.num_replicas();
  for (int i = 0; i < layout_.size(); ++i) {
    const ir::TensorType& type = layout_.entries[i].type;
    const int64_t bytes = type.shape.num_elements() * base::ByteWidth(type.dtype);
    if (i < layout_.num_variables) batch.fixed_bytes += bytes;
    if (with_state) batch.fixed_bytes += bytes;
  }
  return batch;
}

absl::Status BoundProgram::Bind(std::shared_ptr<const BatchTypes> types,
                                const CompileListeners& listeners) {
  PENSTOCK_ASSIGN_OR_RETURN(executable_, programs_.Get(kind_, *types, listeners));
  types_ = std::move(types);
  updates_.clear();
  const std::vector<int>& alias = executable_->program().alias;
  for (size_t parameter = 0; parameter < alias.size(); ++parameter) {
    if (alias[parameter] >= 0) updates_.emplace_back(static_cast<int>(parameter), alias[parameter]);
  }
  return absl::OkStatus();
}

}  // namespace penstock::train
