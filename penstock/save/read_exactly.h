// A read that must not come up short.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

// Fills all of `out`. The size of the file was looked at before: fewer bytes mean that it became
// shorter since, which is Aborted, as from the file systems that see it themselves. It says nothing
// of what the file holds, so it is not DataLoss.
inline absl::Status ReadExactly(io::RandomAccessFile& file, int64_t offset, absl::Span<char> out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file.Read(offset, out));
  if (bytes == static_cast<int64_t>(out.size())) return absl::OkStatus();
  return io::BecameShorterError(file.uri(), file.size(), offset + bytes);
}

}  // namespace penstock::save
