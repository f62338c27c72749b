// What a FeedBatch says in JSON beside its numbers: types of its tensors, iterator state, the pipeline's
// report from time to time. Internal to room remote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/train/step_program.h"

namespace penstock::remote {

struct BatchDescription {
  train::BatchTypes types = {};
  std::string state = {};   // data::IteratorState, after the batch
  std::string report = {};  // data::ReportToJson; empty: not this time
  int64_t batch_rows = 0;
};

std::string ToJson(const BatchDescription& description);
// From the network: types are checked as wire_types.h checks them.
absl::StatusOr<BatchDescription> BatchDescriptionFromJson(absl::string_view text);

// What a FeedOpened says of rows that the worker has read to its devices (FeedRequest::first_row_buffer).
struct RowsDescription {
  std::vector<std::string> names = {};
  std::vector<ir::TensorType> types = {};
  std::string note = {};
};

std::string ToJson(const RowsDescription& description);
absl::StatusOr<RowsDescription> RowsDescriptionFromJson(absl::string_view text);

}  // namespace penstock::remote
