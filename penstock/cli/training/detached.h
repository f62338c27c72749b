// Which trainings a worker runs for a client that need not stay (`penstock train --detach`): what each option of
// `penstock train` means on another machine. The worker checks; the client shows its answer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/options.h"

namespace penstock::cli {

// Arguments of `penstock train` with all values in a fixed form, as the parser has read them; without the options in
// `leave_out`.
std::vector<std::string> ArgumentsOf(const std::vector<OptionValues>& options,
                                     const std::vector<std::string>& leave_out);

// Checks arguments from anywhere. Returns the arguments that the worker's own parser has read, and the number of
// replicas (0: all devices). `readable`, `writable`: prefixes of the files that clients may name (--read, --write).
// INVALID_ARGUMENT: an option that cannot be used there, with the reason; PERMISSION_DENIED: a file.
absl::StatusOr<std::pair<std::vector<std::string>, int>> CheckDetachedArguments(
    const std::vector<std::string>& arguments, const std::vector<std::string>& readable,
    const std::vector<std::string>& writable);

// How an option stands on the worker; for a test that knows all options. Empty: the table lacks it.
std::string DetachedRole(const std::string& option);

}  // namespace penstock::cli
