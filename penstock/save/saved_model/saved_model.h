// TensorFlow's SavedModel: a folder with saved_model.pb (a graph, functions, signatures) and the
// variables in a checkpoint, variables/variables.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Weights net, ReadWeights(fs, "gs://bucket/classifier"));   // save.h
//   PENSTOCK_ASSIGN_OR_RETURN(ServingFunction serve,
//                             ReadServingFunction(fs, "gs://bucket/classifier"));
//
// Reading the weights needs no knowledge of the program. ReadServingFunction finds the program of
// SavedModels whose signature is one StableHLO module (TensorFlow's operation XlaCallModule), as
// Penstock and JAX's jax2tf write them; other operations of TensorFlow are not run.
//
// WriteSavedModel makes a folder that tf.saved_model.load, keras.layers.TFSMLayer, TensorFlow
// Serving and saved_model_cli open.
//   - saved_model.pb is published last, and without it the folder is not a SavedModel. If the
//     folder holds the same program already, which is the case when the same network is exported
//     again, its checkpoint is replaced as a whole: a reader gets the old weights or the new ones.
//     Otherwise the old saved_model.pb is removed after the new data files are published: a reader
//     gets the old model, none, or the new one, never parts of both. A writer that is killed leaves
//     data files that nothing refers to.
//   - One process at a time writes into a folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"
#include "penstock/ir/graph.h"
#include "penstock/save/format.h"

namespace penstock::save {

// An input or an output of a signature.
struct ServingTensor {
  std::string name;
  base::DType dtype = base::DType::kInvalid;
  base::Shape shape = {};  // -1: an unknown extent, such as the batch size
};
// Parameters or results of a printed program (ir/stablehlo.h), where an extent of -k, a multiple of
// the batch size, becomes -1.
std::vector<ServingTensor> ServingTensors(absl::Span<const std::string> names,
                                          absl::Span<const ir::TensorType> types);

// A signature that is one StableHLO module.
struct ServingFunction {
  std::vector<ServingTensor> inputs = {}, outputs = {};
  // StableHLO text, or a portable artifact (bytes that begin with "ML\xefR").
  std::string module = {};
  // Version of the calling convention (jax docs/export/export.md), and the platforms that the
  // module is for. If there are several, the module's first argument is an i32 scalar, the
  // platform's index.
  int version = 0;
  std::vector<std::string> platforms = {};
  // An argument of the module after that: an input, or a variable, by its name in the program.
  struct Argument {
    int input = -1;
    std::string variable = {};
  };
  std::vector<Argument> arguments = {};
  std::vector<int> results = {};  // for each output, the index of the module's result
};

// Reads a signature. NOT_FOUND: there is no SavedModel, or none of this signature. UNIMPLEMENTED:
// the signature needs operations of TensorFlow; the error names the first one.
absl::StatusOr<ServingFunction> ReadServingFunction(
    io::FileSystem& fs, absl::string_view uri, absl::string_view signature = "serving_default");

// The array of a variable that ServingFunction names. NOT_FOUND if there is none.
absl::StatusOr<base::Array> FindVariable(const Weights& weights, absl::string_view variable);

// Argument of WriteSavedModel.
struct SavedModelContents {
  // The function. Its inputs and outputs have names of their own. `arguments` and `results` are not
  // read: the module takes the platform's index if there are several platforms, then the variables,
  // then the inputs, and returns the outputs.
  ServingFunction function = {};
  struct Variable {
    std::string name;
    base::Array value;
    bool trainable = true;
  };
  std::vector<Variable> variables = {};
};

absl::Status WriteSavedModel(io::FileSystem& fs, absl::string_view uri,
                             const SavedModelContents& contents, const WriteOptions& options = {});

// Checks in advance that a SavedModel can be written to this folder. Nothing in it changes.
absl::Status CheckSavedModelDestination(io::FileSystem& fs, absl::string_view uri);
// Whether the folder holds a SavedModel, which WriteSavedModel would replace.
absl::StatusOr<bool> SavedModelExists(io::FileSystem& fs, absl::string_view uri);

Format SavedModelFormat();

}  // namespace penstock::save
