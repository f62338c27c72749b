// ProgramCache: compiles the programs of a trainer and keeps them by the types of their batches.
// BoundProgram: the program that a loop dispatches, bound once to the types of its feed's batches.
// Internal to room train.
//
//   BoundProgram step(model.programs(), ProgramKind::kTrain);
//   while (training) {
//     if (!step.IsBoundTo(batch.types)) {
//       PENSTOCK_RETURN_IF_ERROR(step.Bind(batch.types, listeners));
//     }
//     PENSTOCK_ASSIGN_OR_RETURN(auto results, step.executable().Execute(arguments));
//   }
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/trace.h"
#include "penstock/runtime/cache/compile_history.h"
#include "penstock/runtime/client.h"
#include "penstock/runtime/out_of_memory.h"
#include "penstock/train/callbacks/callback_list.h"
#include "penstock/train/options.h"
#include "penstock/train/state.h"
#include "penstock/train/step_program.h"

namespace penstock::train {

enum class ProgramKind { kTrain, kTrainHaltOnNan, kEvaluate, kPredict, kGradients };

// Callbacks and trace that are notified of a compilation.
struct CompileListeners {
  const CallbackList& callbacks;  // Recompiling, Compiling
  base::Trace* trace = nullptr;
};

class ProgramCache {
 public:
  // `options` and `layout` must outlive the cache.
  ProgramCache(const TrainerOptions& options, const StateLayout& layout)
      : options_(options), layout_(layout) {}

  // The program for batches of these types, compiled on first use. RESOURCE_EXHAUSTED if it needs
  // more memory than the device has free (TrainerOptions::check_memory).
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Get(ProgramKind kind,
                                                           const BatchTypes& types,
                                                           const CompileListeners& listeners);

 private:
  struct Entry {
    BatchTypes types;
    std::shared_ptr<runtime::Executable> executable;
  };

  absl::StatusOr<ir::Program> Print(ProgramKind kind, const BatchTypes& types) const;
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(const ir::Program& program,
                                                               const BatchTypes& types,
                                                               const std::string& why,
                                                               const CompileListeners& listeners);
  // Memory that does not grow with the batch.
  runtime::BatchMemory MemoryOf(const BatchTypes& types, bool with_state) const;

  const TrainerOptions& options_;
  const StateLayout& layout_;
  runtime::CompileHistory history_;
  std::array<std::vector<Entry>, 5> programs_;  // [ProgramKind]
};

class BoundProgram {
 public:
  // `programs` must outlive this.
  BoundProgram(ProgramCache& programs, ProgramKind kind) : programs_(programs), kind_(kind) {}

  // Whether the program fits batches of these types; compares pointers (DeviceBatch::types).
  bool IsBoundTo(const std::shared_ptr<const BatchTypes>& types) const { return types == types_; }
  // Binds the program for these types, which is looked up or compiled. An error leaves the binding
  // unchanged.
  absl::Status Bind(std::shared_ptr<const BatchTypes> types, const CompileListeners& listeners);

  bool bound() const { return executable_ != nullptr; }
  // After Bind.
  runtime::Executable& executable() const { return *executable_; }
  // (parameter, result): the result replaces the parameter, whose donated buffer it reuses.
  const std::vector<std::pair<int, int>>& updates() const { return updates_; }

 private:
  ProgramCache& programs_;
  const ProgramKind kind_;
  std::shared_ptr<const BatchTypes> types_;
  std::shared_ptr<runtime::Executable> executable_;
  std::vector<std::pair<int, int>> updates_;
};

}  // namespace penstock::train
