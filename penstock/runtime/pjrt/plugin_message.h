// Explains a plugin's message about a program, which refers to lines of the printed program: adds
// the layer and the line of the user's source.
#pragma once

#include "absl/status/status.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::runtime {

// The same error, with "program 'name': " before its message and, for each "line:column" of the
// program's text in the message, that line and its origin after it.
absl::Status ExplainCompileError(const absl::Status& status, const ir::Program& program);

}  // namespace penstock::runtime
