// Room save: the file formats that weights travel in, and training checkpoints. It may use base and
// io (ir and nn stand above it too, and it needs neither: what a name means is its caller's
// business, here a weight is a name, a type, a shape and bytes).
//
//   save.h         Weights, the neutral type; read, write and inspect a file of any known format
//   checkpoint.h   CheckpointManager: what training resumes from, whole or not there
//   safetensors.h  one format: its reader (whole, one tensor, header only) and its writer
//   format.h       the table of formats; how to add one
//
//   Weights weights{.arrays = {{"dense/kernel", kernel}, {"dense/bias", bias}},
//                   .metadata = {{"epoch", "3"}}};
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "gs://bucket/digits.safetensors", weights));
//   PENSTOCK_ASSIGN_OR_RETURN(Weights again, ReadWeights(fs, "gs://bucket/digits.safetensors"));
//   PENSTOCK_ASSIGN_OR_RETURN(Array kernel, again.arrays.Get("dense/kernel"));
//
//   CheckpointManager checkpoints(fs, "gs://bucket/run7", {.keep = 3});
//   PENSTOCK_RETURN_IF_ERROR(checkpoints.Save({.step = 1000, .arrays = state}));
//   PENSTOCK_ASSIGN_OR_RETURN(Restored last, checkpoints.ReadLatest());
//
// Errors. DATA_LOSS: the bytes are not what the format says; the message names the file, the tensor
// and the offset. UNIMPLEMENTED: a sound file that holds what Penstock cannot (a rank above 8).
// INVALID_ARGUMENT: what was given cannot be written. Errors of the file system pass through with
// the file's name.
//
// Threads: functions may be called from any thread; a CheckpointManager or a reader is used by one
// thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

// What a file of weights holds, whatever its format.
struct Weights {
  base::NamedArrays arrays = {};
  std::map<std::string, std::string> metadata = {};
};

// One tensor of a file, without its elements.
struct TensorInfo {
  std::string name = {};
  base::DType dtype = base::DType::kInvalid;
  base::Shape shape = {};
  int64_t offset = 0;  // of its first byte in the file
  int64_t num_bytes = 0;
};

// What can be said of a file without reading its tensors.
struct Contents {
  std::string format = {};               // as format.h names it: "safetensors"
  std::vector<TensorInfo> tensors = {};  // in the order of their bytes
  std::map<std::string, std::string> metadata = {};
};

// Reads everything. The format is found by the first bytes of the file, not by its name.
absl::StatusOr<Weights> ReadWeights(io::FileSystem& fs, absl::string_view uri);

// Writes the format that the extension of `uri` names; the file appears whole or not at all, and
// replaces one that was there.
absl::Status WriteWeights(io::FileSystem& fs, absl::string_view uri, const Weights& weights);

// The error that WriteWeights would give now, checked before there is anything to write: an
// unsupported extension, a folder or a FIFO of that name, no permission to write
// (io/write_check.h). Leaves existing files as they are.
absl::Status CheckWeightsDestination(io::FileSystem& fs, absl::string_view uri);

// Names, types and shapes, from a few ranged reads.
absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri);

}  // namespace penstock::save
