// A read that must not come up short.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

// Fills all of `out`. The size of the file was looked at before: fewer bytes mean that it changed.
inline absl::Status ReadExactly(io::RandomAccessFile& file, int64_t offset, absl::Span<char> out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file.Read(offset, out));
  if (bytes == static_cast<int64_t>(out.size())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.uri(), ":", offset, ": ", bytes,
                                          " bytes are there and ", out.size(),
                                          " were expected: the file became shorter"));
}

}  // namespace penstock::save
