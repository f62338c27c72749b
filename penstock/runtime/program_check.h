// Checks that every client makes before it calls a device. Plugins check little: the CPU plugin
// compares sizes in bytes only, so an int32 would be read as a float; a TPU's accepts a donated
// buffer of another shape.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/runtime/client.h"

namespace penstock::runtime {

// Aliasing check of a program: replicas, and donated parameters, each of which aliases one result
// of the same type.
absl::Status CheckProgram(const ir::Program& program);

// The devices that a program runs on: those of the options, or the first ones. The error lists `devices`.
absl::StatusOr<std::vector<int>> ChooseDevices(const ir::Program& program,
                                               const CompileOptions& options,
                                               absl::Span<const Device> devices);

// Whether `device` is one of a client's devices; INVALID_ARGUMENT, which lists them, if not.
absl::Status CheckDevice(const Device& device, absl::Span<const Device> devices);

// Checks arguments[replica][parameter] against the program; devices[replica] is where they must be.
// The error names the replica and the parameter, the expected and the actual value.
absl::Status CheckArguments(const ir::Program& program, absl::Span<const Device* const> devices,
                            absl::Span<const Buffers> arguments);

// "program 'step'"
std::string ProgramName(const ir::Program& program);

// "program 'step', replica 3, parameter 2 ('x')"; the replica is omitted if there is only one.
std::string ParameterName(const ir::Program& program, size_t replica, size_t parameter);

}  // namespace penstock::runtime
