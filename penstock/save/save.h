// Room save: file formats of weights, exported programs, and training checkpoints. Here a weight is
// a name, a type, a shape and bytes; callers interpret names. Exporters take graphs of room ir.
//
//   save.h         Weights, independent of the format; read, write and inspect files of weights
//   checkpoint.h   CheckpointManager: atomic checkpoints, from which training resumes
//   async_checkpoint.h  AsyncCheckpointManager: checkpoints that are written in the background
//   checkpoint_format.h  checkpoints as files of weights
//   format.h       the table of formats; how to add one
//   safetensors.h  the safetensors format: reader (all, one tensor, header only) and writer
//   safetensors_index.h  safetensors in several files with an index
//   npz.h          NumPy's .npz
//   pytorch.h      PyTorch's .pt, .pth and .bin, torch_xla's xser; pickle.h parses their pickles
//   keras_hdf5.h   Keras's .h5, .weights.h5 and .keras; hdf5/ reads and writes HDF5
//   onnx/onnx.h    ONNX models, for prediction elsewhere; onnx/onnx_format.h shows what they hold
//   tensor_bundle.h  TensorFlow's checkpoints; leveldb_table.h reads and writes their index
//   saved_model/     TensorFlow's SavedModel: programs and their weights
//
//   Weights weights{.arrays = {{"dense/kernel", kernel}, {"dense/bias", bias}},
//                   .metadata = {{"epoch", "3"}}};
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "gs://bucket/digits.safetensors", weights));
//   PENSTOCK_ASSIGN_OR_RETURN(Weights again, ReadWeights(fs, "gs://bucket/digits.safetensors"));
//   PENSTOCK_ASSIGN_OR_RETURN(Array kernel, again.arrays.Get("dense/kernel"));
//
//   CheckpointManager checkpoints(fs, "gs://bucket/run7", {.keep = 3});
//   PENSTOCK_RETURN_IF_ERROR(checkpoints.Save({.step = 1000, .arrays = state}).status());
//   PENSTOCK_ASSIGN_OR_RETURN(Restored last, checkpoints.ReadLatest());
//
// Errors. DATA_LOSS: the file is malformed or corrupt; the message names the file, the tensor and
// the offset. UNIMPLEMENTED: a valid file that contains what Penstock does not support (a rank
// above 8). INVALID_ARGUMENT: the arguments cannot be written. Errors of the file system are
// forwarded with the file's name.
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

// Contents of a file of weights, independent of its format.
struct Weights {
  base::NamedArrays arrays = {};
  std::map<std::string, std::string> metadata = {};
  // Names of variables in the program that wrote the file, by the name of the array, where the
  // format has both (TensorFlow checkpoints, Keras 3); UseVariableNames takes them.
  std::map<std::string, std::string> variables = {};
  // What the file holds beside arrays and metadata, with the reason for which it is left out:
  // "tensor 'words': strings". WriteWeights ignores it.
  std::vector<std::string> skipped = {};
};

// Renames each array that has a name in `variables` to it, unless another array has that name then.
// Returns the number of arrays that were renamed.
int64_t UseVariableNames(Weights& weights);

// One tensor of a file, without its elements.
struct TensorInfo {
  std::string name = {};
  base::DType dtype = base::DType::kInvalid;
  base::Shape shape = {};
  int64_t offset = 0;  // offset of its first byte in the file
  int64_t num_bytes = 0;
  // Name of the file, where the format spreads tensors over several files; otherwise empty.
  std::string file = {};
  std::string variable = {};  // Weights::variables; otherwise empty
};

// Description of a file, without its tensors' elements.
struct Contents {
  std::string format = {};               // name of the format: "safetensors"
  std::vector<TensorInfo> tensors = {};  // in the order of their files and offsets
  std::map<std::string, std::string> metadata = {};
  std::vector<std::string> skipped = {};  // Weights::skipped
};

// Reads a file of weights. The format is detected by the first bytes of the file, not by its name;
// a TensorFlow checkpoint is addressed by its prefix, its index or one of its data files, a
// training checkpoint by its folder or by the folder of the run, of which the newest one is read.
absl::StatusOr<Weights> ReadWeights(io::FileSystem& fs, absl::string_view uri);

struct WriteOptions {
  // Maximum number of bytes of tensors in one file, for formats that spread them over several files
  // (a larger tensor has a file of its own). 0: the format's default.
  int64_t max_shard_bytes = 0;
};

// Writes a file of weights in the format of the extension of `uri`. The file is published
// atomically and replaces an existing one. Metadata that the format cannot store (HoldsMetadata)
// are rejected, because they would be lost: INVALID_ARGUMENT.
absl::Status WriteWeights(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                          const WriteOptions& options = {});

// Whether the format of the extension of `uri` stores Weights::metadata at all, or that of a key
// (Keras's files have keys of their own, the others all or none); an error if no format that can be
// written has that extension.
absl::StatusOr<bool> HoldsMetadata(absl::string_view uri);
absl::StatusOr<bool> HoldsMetadata(absl::string_view uri, absl::string_view key);

// Whether WriteWeights would replace a file. Formats of several files are identified by the one
// that is published last.
absl::StatusOr<bool> WeightsExist(io::FileSystem& fs, absl::string_view uri);

// Checks in advance for the errors that WriteWeights would return: an unsupported extension, a
// folder or a FIFO of that name, no permission to write (io/write_check.h). Existing files are
// unchanged. `with_metadata`: the weights will have metadata, of keys that the format stores.
absl::Status CheckWeightsDestination(io::FileSystem& fs, absl::string_view uri,
                                     bool with_metadata = false);

// Reads names, types and shapes, by a few ranged reads.
absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri);

}  // namespace penstock::save
