// Streams that inflate what they read and deflate what is written: TFRecord files are compressed as
// a whole, by zlib (RFC 1950) or gzip (RFC 1952).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::record {

enum class Compression : uint8_t {
  kAuto,  // reading: told by the first bytes of the file
  kNone,
  kGzip,
  kZlib,
};

absl::string_view CompressionName(Compression compression);  // "auto", "none", "gzip", "zlib"

// What `compressed` holds, inflated; kGzip or kZlib (contract). Several gzip members one after the
// other are read as one, as gzip does. An empty stream is one of no bytes. Damage is DataLoss and
// comes after all that could be read before it.
std::unique_ptr<io::InputStream> Inflate(std::unique_ptr<io::InputStream> compressed,
                                         Compression compression);

// Deflates what is appended; Close ends the compressed stream and closes `out`. `level` is zlib's,
// 0 to 9, or -1 for its default. The same bytes give the same file (the gzip header has no time).
absl::StatusOr<std::unique_ptr<io::OutputStream>> Deflate(std::unique_ptr<io::OutputStream> out,
                                                          Compression compression, int level);

}  // namespace penstock::record
