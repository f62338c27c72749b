// The passes of DataLoader. Internal to data_loader.cc.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/lazy/data/data_loader.h"

namespace penstock::lazy::utils::data {

// What a pass of DataLoader over a dataset reads.
struct BatchPassOptions {
  DatasetPtr dataset;
  std::vector<std::vector<int64_t>> batches;  // indices of examples
  CollateFunction collate;                    // null: each batch is one example, not collated
  int num_workers = 0;
  int prefetch_factor = 2;
};
absl::StatusOr<std::unique_ptr<BatchIterator>> MakeBatchPass(BatchPassOptions options);

// A pass over a pipeline of room data.
std::unique_ptr<BatchIterator> MakePipelinePass(
    std::unique_ptr<::penstock::data::Iterator> iterator);

}  // namespace penstock::lazy::utils::data
