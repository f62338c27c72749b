// CallbackList: the callbacks of one Fit, Evaluate or Predict. Internal to room train.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/trace.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// INVALID_ARGUMENT if one of them is null.
absl::Status CheckCallbacks(const std::vector<std::shared_ptr<Callback>>& callbacks);

// Calls hooks in the order of the list, those with RunsLast last. A hook that throws is an error.
class CallbackList {
 public:
  // Hooks that take some time are recorded in `trace`, if it is not null: "Checkpoint.BatchEnd".
  explicit CallbackList(std::vector<std::shared_ptr<Callback>> callbacks,
                        base::Trace* trace = nullptr);

  // Calls `call` for each callback until one fails. `hook`: the name of the hook that it calls.
  // Errors of logs (Callback::IsLog) are warnings.
  absl::Status ForEach(const char* hook, absl::FunctionRef<absl::Status(Callback&)> call);
  // Same, but calls `call` for every callback, also after one has failed. `status` gets the first
  // error, if it is OK before.
  void ForAll(const char* hook, absl::FunctionRef<absl::Status(Callback&)> call,
              absl::Status& status);

  // The first error of each log: "TensorBoard: runs/a cannot be written: No space left on device".
  const std::vector<std::string>& log_errors() const { return log_errors_; }

  bool empty() const { return callbacks_.empty(); }
  bool WantsState(const Position& position) const;
  bool ObservesBatchBegin() const;
  bool WantsGradients(int epoch) const;
  bool StopsOnNan() const;
  // For each callback, the key of its state in a checkpoint: state_name, with "#2" for the second
  // one of that name.
  std::vector<std::string> StateKeys() const;

  void Note(absl::string_view text) const;
  // A note that is shown once.
  void NoteOnce(absl::string_view text);
  // A note that is shown once, on stderr if no callback shows notes.
  void Warn(absl::string_view text);

  auto begin() const { return callbacks_.begin(); }
  auto end() const { return callbacks_.end(); }
  size_t size() const { return callbacks_.size(); }
  Callback& operator[](size_t i) const { return *callbacks_[i]; }

 private:
  absl::Status CallTraced(size_t i, const char* hook,
                          absl::FunctionRef<absl::Status(Callback&)> call);
  absl::Status CallGuarded(Callback& callback, const char* hook,
                           absl::FunctionRef<absl::Status(Callback&)> call);

  std::vector<std::shared_ptr<Callback>> callbacks_;
  base::Trace* const trace_;
  std::vector<std::string> names_;  // for the trace
  std::set<std::string> told_;      // notes and warnings that were shown
  std::vector<std::string> log_errors_;
};

}  // namespace penstock::train
