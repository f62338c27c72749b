// FromTfRecords with global_shuffle: all records of all files in one random order, read by random
// access through an index (record/tfrecord_index.h) instead of a shuffle buffer. Internal to room
// data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {

// Stage::WriteFields of FromTfRecords, with a global shuffle or without.
absl::Status WriteTfRecordFields(StageFields& out, const std::vector<std::string>& patterns,
                                 const TfRecordOptions& options);

std::shared_ptr<const Stage> MakeShuffledTfRecords(std::vector<std::string> patterns,
                                                   TfRecordOptions options);

}  // namespace penstock::data
