// Keras's description of compile's arguments: compile_config of a .keras file, training_config of
// an .h5 file. Internal to room keras.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/keras/keras.h"
#include "penstock/train/objective.h"

namespace penstock::keras {

// Reads optimizer, losses, their weights and metrics into the options of Compile. Losses and
// metrics of the program are looked up by name in `load`. INVALID_ARGUMENT: unknown names, options
// that Penstock lacks.
absl::Status CompileFromKeras(const nlohmann::ordered_json& config, const nn::Network& network,
                              const Model::LoadOptions& load, CompileOptions& options);

// INVALID_ARGUMENT: Keras cannot describe the optimizer, a loss or a metric.
absl::StatusOr<nlohmann::ordered_json> CompileToKeras(const train::Objective& objective);

}  // namespace penstock::keras
