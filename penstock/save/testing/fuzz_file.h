// Fuzzing of formats: arbitrary bytes as a file, which is inspected and read.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/format.h"

namespace penstock::save::testing {

// Calls `inspect` and `read` of the format for a file of these bytes: errors, or weights of which
// `write`, if it accepts them, makes a file that reads back bit for bit.
inline void CheckFile(const Format& format, absl::string_view bytes) {
  const auto fs = io::MakeMemoryFileSystem();
  const std::string uri = "memory://bucket/fuzz", copy = "memory://bucket/copy";
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, uri, bytes));
  const absl::StatusOr<Contents> contents = format.inspect(*fs, uri);
  const absl::StatusOr<Weights> weights = format.read(*fs, uri);
  if (!weights.ok()) return;
  PENSTOCK_CHECK_OK(contents);
  PENSTOCK_CHECK(contents->tensors.size() == weights->arrays.size());
  if (!format.write(*fs, copy, *weights, {}).ok()) return;
  const absl::StatusOr<Weights> again = format.read(*fs, copy);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->arrays.size() == weights->arrays.size());
  for (const auto& [name, array] : weights->arrays) {
    const base::Array* other = again->arrays.Find(name);
    PENSTOCK_CHECK(other != nullptr && BitwiseEqual(array, *other));
  }
}

}  // namespace penstock::save::testing
