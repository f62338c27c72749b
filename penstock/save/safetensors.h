// Safetensors: https://github.com/huggingface/safetensors#format
//
//   8 bytes   N, little-endian, at most 100,000,000
//   N bytes   JSON: {"__metadata__": {"key": "text", ...},
//                    "name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...}
//             followed by spaces; data_offsets count from the end of the header
//   the rest  the tensors, row-major, little-endian, one after the other without holes
//
// Read here is what the format's own library reads, less what two readers could understand
// differently: a name that stands twice, an unknown or repeated field, a BOOL byte that is neither
// 0 nor 1 are refused. Written is what the library writes (tensors ordered by type, widest first,
// then by name), with the header padded so that the first tensor stands at a multiple of 64.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.OpenRandomAccess(uri));
//   PENSTOCK_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(std::move(file)));
//   for (const TensorInfo& tensor : reader.contents().tensors) Print(tensor);
//   PENSTOCK_ASSIGN_OR_RETURN(Array kernel, reader.Read("dense/kernel"));   // its bytes only
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"
#include "penstock/save/format.h"
#include "penstock/save/save.h"

namespace penstock::save {

// The longest header the format allows.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

class SafetensorsReader {
 public:
  // Reads and checks the header: afterwards every tensor is known to lie inside the file, and its
  // bytes to be as many as its type and shape need.
  static absl::StatusOr<SafetensorsReader> Open(std::unique_ptr<io::RandomAccessFile> file);

  const Contents& contents() const { return contents_; }
  // One tensor, by one ranged read.
  absl::StatusOr<base::Array> Read(absl::string_view name) const;
  // Every tensor, in the order of the file, each in memory of its own aligned to 64 bytes. The file
  // is read once, front to back.
  absl::StatusOr<Weights> ReadAll() const;

 private:
  SafetensorsReader(std::unique_ptr<io::RandomAccessFile> file, Contents contents)
      : file_(std::move(file)), contents_(std::move(contents)) {}

  std::unique_ptr<io::RandomAccessFile> file_;
  Contents contents_;
};

// Appends a safetensors file to `out`, which stays open. Every type but string can be written.
absl::Status WriteSafetensors(io::OutputStream& out, const Weights& weights);

// Parses `json`, the header of a file of `file_size` bytes; `json` is all of the header, padding
// included.
absl::StatusOr<Contents> ParseSafetensorsHeader(absl::string_view json, int64_t file_size);

Format SafetensorsFormat();

}  // namespace penstock::save
