// A read that must not come up short.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

// Fills all of `out`. The size of the file is known from before: fewer bytes mean that the file
// became shorter since, which is Aborted, as in file systems that detect it themselves. It says
// nothing about the content of the file, so it is not DataLoss.
inline absl::Status ReadExactly(io::RandomAccessFile& file, int64_t offset, absl::Span<char> out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file.Read(offset, out));
  if (bytes == static_cast<int64_t>(out.size())) return absl::OkStatus();
  return io::BecameShorterError(file.uri(), file.size(), offset + bytes);
}

}  // namespace penstock::save
