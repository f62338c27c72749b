// Whole models in Keras's files: .keras, and .h5 with model_config. save/keras_hdf5.h reads and
// writes the files; here their contents become a model. Internal to room keras.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/keras/keras.h"
#include "penstock/keras/saved_model.h"
#include "penstock/save/save.h"
#include "penstock/train/trainer.h"

namespace penstock::keras {

// Whether the file describes a model in Keras's form.
bool IsKerasModel(const save::Weights& file);

// The model of a file: network, arguments of Compile, weights. A file of a model that was not
// compiled, or LoadOptions::compile = false, gives arguments with which the model predicts; Fit and
// Evaluate fail. The state of the optimizer is read by OptimizerStateOfKeras.
absl::StatusOr<SavedModel> ReadKerasModel(const save::Weights& file,
                                          const Model::LoadOptions& options);
// The network alone, with its weights.
absl::StatusOr<SavedNetwork> ReadKerasNetwork(const save::Weights& file,
                                              const nn::CustomLayers& custom_layers);
// The same for a file in Keras's form or in ours (saved_model.h).
absl::StatusOr<SavedNetwork> ReadNetwork(const save::Weights& file,
                                         const nn::CustomLayers& custom_layers);
// Whether the file has a description of compile's arguments.
bool IsCompiled(const save::Weights& file);

// Layouts of files that Keras reads, by extension; kNone: another format.
enum class KerasLayout { kNone, kArchive, kLegacy, kWeights };
KerasLayout KerasLayoutOf(absl::string_view uri);

// Contents of a file for the model, with its optimizer's state. INVALID_ARGUMENT: Keras lacks a
// layer, an option, the optimizer, a loss or a metric.
absl::StatusOr<save::Weights> KerasModelFile(const train::Trainer& trainer,
                                             const std::vector<std::string>& class_names,
                                             KerasLayout layout);
// The same for the weights alone.
absl::StatusOr<save::Weights> KerasWeightsFile(const train::Trainer& trainer, KerasLayout layout);
// The error that KerasModelFile would return.
absl::Status CheckKerasModel(const train::Objective& objective);

}  // namespace penstock::keras
