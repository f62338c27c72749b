#include "penstock/cli/version.h"

#include "absl/strings/str_cat.h"

#include "penstock/runtime/pjrt/plugin.h"

namespace penstock::cli {

std::string Version() {
  return absl::StrCat("penstock ", PENSTOCK_VERSION, "\ncommit ", PENSTOCK_COMMIT, "\n",
                      runtime::FoundPlugins());
}

}  // namespace penstock::cli
