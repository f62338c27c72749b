// ReadExactly: a read for which a short read is an error.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

// Reads `out.size()` bytes. The caller knows the size of the file: a short read means that the file
// was truncated since, which is Aborted, as in file systems that detect it themselves. It says
// nothing about the content of the file, so it is not DataLoss.
inline absl::Status ReadExactly(io::RandomAccessFile& file, int64_t offset, absl::Span<char> out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file.Read(offset, out));
  if (bytes == static_cast<int64_t>(out.size())) return absl::OkStatus();
  return io::TruncatedFileError(file.uri(), file.size(), offset + bytes);
}

}  // namespace penstock::save
