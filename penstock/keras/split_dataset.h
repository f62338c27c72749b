// Split of a dataset for features that are computed once: the elements in a fixed order, and the
// stages that order and batch them again in every epoch. Internal to room keras
// (cached_features.h).
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::keras {

struct SplitDataset {
  // Every element of an epoch once, not batched.
  data::Dataset rows;
  // Shuffle, Repeat and the Take, Skip and Shard after them; the Batch; the stages after it.
  std::vector<std::shared_ptr<const data::Stage>> per_epoch;
  // Whether the source reads its files or records in another order in each epoch.
  bool source_shuffles = false;

  // The stored rows as the training reads them. `row_bytes`: of one row, for the shuffle that
  // replaces the source's.
  data::Dataset Batches(const data::Dataset& stored, int64_t row_bytes) const;
};

// INVALID_ARGUMENT, naming the stage, if the elements differ from epoch to epoch (random crops), if
// that cannot be known (a function without a name), or if stages are in an order that cannot be
// split.
absl::StatusOr<SplitDataset> SplitAtBatch(const data::Dataset& dataset);

}  // namespace penstock::keras
