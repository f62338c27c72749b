// FromTfRecords with global_shuffle: all records of all files in one random order, read by their
// places (record/tfrecord_index.h) instead of through a buffer. Internal to room data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {

std::shared_ptr<const Stage> MakeShuffledTfRecords(std::vector<std::string> patterns,
                                                   TfRecordOptions options);

}  // namespace penstock::data
