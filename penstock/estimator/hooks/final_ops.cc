#include "penstock/base/status.h"
#include "penstock/estimator/hooks/hooks.h"

namespace penstock::estimator {

absl::Status FinalOpsHook::End(RunContext& context) {
  if (final_ops_.empty()) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(values_, context.session().Run(final_ops_, feeds_));
  return absl::OkStatus();
}

}  // namespace penstock::estimator
