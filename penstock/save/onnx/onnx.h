// ONNX models: export of a program that predicts, for ONNX Runtime and others (opset 17, IR version
// 8), with any batch size. https://onnx.ai/onnx/ describes the format.
//
//   absl::Status status = WriteOnnx(
//       fs, "gs://bucket/digits.onnx",
//       [&](int64_t batch) { return nn::InferenceGraph(network, batch); }, weights,
//       {.metadata = {{"class_names", "[\"cat\", \"dog\"]"}}});
//
// Parameters of the graph that have weights become initializers, under their names; the others are
// inputs, whose first axis is "batch". 16-bit floats are exported as float32, and computed in it.
// docs/design/save.md lists the other differences.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"
#include "penstock/ir/symbolic_batch.h"

namespace penstock::save {

struct OnnxOptions {
  // metadata_props of the model.
  std::map<std::string, std::string> metadata = {};
  // If the tensors have more bytes, they go into a second file beside the model, NAME.onnx.data. A
  // model of its own holds at most 2 GiB.
  int64_t max_embedded_bytes = 2'000'000'000;
};

// Writes the program as an ONNX model. Both files are written before the model is published, so an
// existing model stays until then; the data file of a replaced model is removed after that.
//   UNIMPLEMENTED     an operation cannot be exported; the error names it and its layer
//   INVALID_ARGUMENT  the program depends on the batch size in another way than by an axis
absl::Status WriteOnnx(io::FileSystem& fs, absl::string_view uri,
                       const ir::SymbolicBatch::Trace& trace, const base::NamedArrays& weights,
                       const OnnxOptions& options = {});

// Whether the name has the extension .onnx.
bool IsOnnxName(absl::string_view uri);

// Checks in advance that the model can be written (io/write_check.h).
absl::Status CheckOnnxDestination(io::FileSystem& fs, absl::string_view uri);

}  // namespace penstock::save
