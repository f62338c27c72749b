// Reads weights from bytes, as from a file of a given name.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/save.h"

namespace penstock::save {

// `uri` is a name in memory: messages contain it.
inline absl::StatusOr<Weights> ReadBytes(absl::string_view uri, absl::string_view bytes) {
  const auto fs = io::MakeMemoryFileSystem();
  PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*fs, uri, bytes));
  return ReadWeights(*fs, uri);
}

}  // namespace penstock::save
