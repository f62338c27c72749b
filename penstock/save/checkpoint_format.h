// Training checkpoints (checkpoint.h) as a format of weights: save.h reads and inspects them, so
// that a model starts from the weights of a run, and `penstock convert` exports them.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Weights newest, ReadWeights(fs, "gs://bucket/run7"));
//   PENSTOCK_ASSIGN_OR_RETURN(Weights best, ReadWeights(fs, "gs://bucket/run7/step-00002000"));
//
// A folder of checkpoints stands for its newest complete one; corrupt ones that are newer are named
// in Weights::skipped. The folder of one checkpoint may be copied and renamed. The arrays are all
// of the state, the optimizer's slots included. Sizes and checksums are verified.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/save/format.h"

namespace penstock::save {

// Whether `uri` is the folder of one checkpoint: whether it has a manifest.
absl::StatusOr<bool> IsCheckpointFolder(io::FileSystem& fs, absl::string_view uri);

Format CheckpointFormat();

}  // namespace penstock::save
