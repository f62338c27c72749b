// Safetensors: https://github.com/huggingface/safetensors#format
//
//   8 bytes   N, little-endian, at most 100,000,000
//   N bytes   JSON: {"__metadata__": {"key": "text", ...},
//                    "name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...}
//             followed by spaces; data_offsets are relative to the end of the header
//   the rest  the tensors, row-major, little-endian, contiguous
//
// The reader accepts what the format's own library accepts, except what two readers could interpret
// differently: a duplicate name, an unknown or repeated field, a BOOL byte that is neither 0 nor 1.
// The writer's order is the library's (tensors by type, widest first, then by name), with the
// header padded so that the first tensor is aligned to 64 bytes.
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

// Reader of one file. One thread at a time.
class SafetensorsReader {
 public:
  // Reads and checks the header: every tensor is then known to lie inside the file, and to have the
  // size that its type and shape require.
  static absl::StatusOr<SafetensorsReader> Open(std::unique_ptr<io::RandomAccessFile> file);

  const Contents& contents() const { return contents_; }
  // Reads one tensor, by one ranged read.
  absl::StatusOr<base::Array> Read(absl::string_view name) const;
  // Reads every tensor, in the order of the file, each into its own memory aligned to 64 bytes. The
  // file is read once, sequentially.
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
