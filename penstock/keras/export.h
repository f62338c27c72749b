// Exporting a network's prediction as a program for other systems (Model::Export). The name selects
// the format:
//   NAME.savedmodel, NAME/, or a name without an extension   a TensorFlow SavedModel, a folder
//   NAME.onnx                                                an ONNX model
//
// Penstock does not load these files as models again; Model::Save writes files that it does, with
// the layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/nn/network.h"

namespace penstock::keras {

struct ExportOptions {
  // Names of the classes along the last axis of a classifier's output; default: the model's. An
  // ONNX model stores them as its metadata "class_names", a JSON array; a SavedModel has no place
  // for them.
  std::vector<std::string> class_names = {};
  // Maximum number of bytes of weights in one file. 0: the format's default. SavedModel: the
  // variables are split into files of this size (default: one). ONNX: if the weights have more
  // bytes (default: 2 GB), they go into a second file beside the model, NAME.onnx.data.
  int64_t max_shard_bytes = 0;
};

// Writes the prediction of a network with these weights, by their names, for every batch size. The
// inputs and outputs have the network's names; outputs of 16-bit floats are float32. Errors name
// the layer whose program depends on the batch size in another way than as its number of examples.
absl::Status ExportNetwork(const nn::Network& network, const base::NamedArrays& weights,
                           absl::string_view uri, const ExportOptions& options = {});

// The same for the network of a file that Model::Save has written, with the file's class names.
absl::Status ExportFile(absl::string_view file, absl::string_view uri,
                        const ExportOptions& options = {});

// Whether a file or folder of this name is written by ExportNetwork.
bool IsExport(absl::string_view uri);
// Whether ExportNetwork would replace something.
absl::StatusOr<bool> ExportExists(absl::string_view uri);
// Checks in advance that ExportNetwork can write there. Nothing changes.
absl::Status CheckExportDestination(absl::string_view uri);
// The formats, as a text: "SavedModel (.savedmodel, or no extension), ONNX (.onnx)".
std::string ExportFormatNames();

}  // namespace penstock::keras
