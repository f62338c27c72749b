// Writers of Keras's files. Internal to keras_hdf5.cc; keras_hdf5.h describes the names.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/save/save.h"

namespace penstock::save {

absl::Status WriteKerasLegacy(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                              const WriteOptions& options);
absl::Status WriteKerasWeights(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                               const WriteOptions& options);
absl::Status WriteKerasArchive(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                               const WriteOptions& options);

// Members of an archive.
inline constexpr absl::string_view kKerasConfigMember = "config.json";
inline constexpr absl::string_view kKerasMetadataMember = "metadata.json";
inline constexpr absl::string_view kKerasWeightsMember = "model.weights.h5";

// Groups of a legacy file that are not layers.
inline constexpr absl::string_view kKerasTopLevelWeights = "top_level_model_weights";
inline constexpr absl::string_view kKerasOptimizerWeights = "optimizer_weights";

// Whether a weight's name ends with ":" and digits, as TensorFlow's; `colon` is its place.
bool HasOutputNumber(absl::string_view weight, size_t* colon = nullptr);

}  // namespace penstock::save
