// Streaming decompression and compression: TFRecord files are compressed as a whole, by zlib (RFC
// 1950) or gzip (RFC 1952).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::record {

enum class Compression : uint8_t {
  kAuto,  // reading only: detected from the first bytes of the file
  kNone,
  kGzip,
  kZlib,
};

absl::string_view CompressionName(Compression compression);  // "auto", "none", "gzip", "zlib"

// Decompresses a stream; `compression` must be kGzip or kZlib. Concatenated gzip members are read
// as one stream, as gzip does. An empty stream decompresses to no bytes. Corrupt data is DataLoss,
// returned after all bytes that could be decompressed before it.
std::unique_ptr<io::InputStream> Inflate(std::unique_ptr<io::InputStream> compressed,
                                         Compression compression);

// Compresses the appended bytes; Close finishes the compressed stream and closes `out`. `level` is
// zlib's, 0 to 9, or -1 for its default. The output is deterministic (the gzip header has no
// timestamp).
absl::StatusOr<std::unique_ptr<io::OutputStream>> Deflate(std::unique_ptr<io::OutputStream> out,
                                                          Compression compression, int level);

}  // namespace penstock::record
