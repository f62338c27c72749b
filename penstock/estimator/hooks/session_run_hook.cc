#include "penstock/estimator/hooks/session_run_hook.h"

#include <limits>

#include "penstock/base/status.h"

namespace penstock::estimator {

absl::Status RunContext::CheckBeforeSave() {
  for (const auto& check : checks_) PENSTOCK_RETURN_IF_ERROR(check(*this));
  return absl::OkStatus();
}

absl::Status RunContext::WriteBeside(absl::string_view checkpoint_path) {
  return write_beside_ == nullptr ? absl::OkStatus() : write_beside_(checkpoint_path);
}

void RunContext::RemoveBeside(absl::string_view checkpoint_path) {
  if (remove_beside_ != nullptr) remove_beside_(checkpoint_path);
}

absl::Status SessionRunHook::AfterCreateSession(RunContext&) { return absl::OkStatus(); }
SessionRunArgs SessionRunHook::BeforeRun(RunContext&) { return {}; }
absl::Status SessionRunHook::AfterRun(RunContext&, const RunValues&) { return absl::OkStatus(); }
absl::Status SessionRunHook::End(RunContext&) { return absl::OkStatus(); }
bool SessionRunHook::SavesCheckpoints(const SavingListeners&) { return false; }
int64_t SessionRunHook::StepsUntilNext(int64_t) const {
  return std::numeric_limits<int64_t>::max();
}

}  // namespace penstock::estimator
