// What every client checks before a device sees anything. Plugins check little: the CPU's compares
// sizes in bytes only, so an int32 would be read as a float; a TPU's takes a donation of another
// shape.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/runtime/client.h"

namespace penstock::runtime {

// Replicas, and donations: each parameter's memory goes to one result of the same type.
absl::Status CheckProgram(const ir::Program& program);

// arguments[replica][parameter] against the program; devices[replica] is where they must be. Says
// which replica and parameter, what was expected and what came.
absl::Status CheckArguments(const ir::Program& program, absl::Span<const Device* const> devices,
                            absl::Span<const Buffers> arguments);

// "program 'step'"
std::string ProgramName(const ir::Program& program);

// "program 'step', replica 3, parameter 2 ('x')"; the replica is left out when there is one.
std::string ParameterName(const ir::Program& program, size_t replica, size_t parameter);

}  // namespace penstock::runtime
