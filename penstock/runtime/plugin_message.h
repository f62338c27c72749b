// A plugin's message about a program speaks of lines of text that the user never saw. This leads
// back to the layer and the line of the user's program.
#pragma once

#include "absl/status/status.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::runtime {

// The same error, with "program 'name': " before its message and, for each "line:column" of the
// program's text that the message names, that line and whose it is after it.
absl::Status ExplainCompileError(const absl::Status& status, const ir::Program& program);

}  // namespace penstock::runtime
