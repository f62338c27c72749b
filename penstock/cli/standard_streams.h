// The program's standard input, output and error. Internal to room cli.
#pragma once

#include "absl/status/status.h"

namespace penstock::cli {

// Opens those that the program was started without (`penstock ... >&-`), so that no file of a
// command gets their number and is written to by what is printed. Writing to such an output still
// fails. Call first.
void OpenClosedStreams();

// Writes what is left in the buffer of standard output. An error if anything that was printed was
// lost, on a full disk for example; none if it is a pipe whose reader has gone.
absl::Status FlushOutput();

}  // namespace penstock::cli
