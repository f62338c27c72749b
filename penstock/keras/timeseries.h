// Windows of time series as a dataset: keras.utils.timeseries_dataset_from_array.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"

namespace penstock::keras {

// Keras's arguments, with its defaults.
struct TimeseriesOptions {
  int64_t sequence_length = 0;  // number of steps of a window; must be given
  int64_t sequence_stride = 1;  // distance between the first steps of two windows
  int64_t sampling_rate = 1;    // distance between two steps within a window
  // Windows per batch; the last batch may be smaller. nullopt: one window is one element.
  std::optional<int64_t> batch_size = 128;
  bool shuffle = false;  // every order of the windows is equally likely, another one in each epoch
  std::optional<uint64_t> seed = {};  // of the order; default: that of the training
  // Only the steps [start_index, end_index) are used.
  int64_t start_index = 0;
  std::optional<int64_t> end_index = {};
};

// Window i begins at step s = start_index + i * sequence_stride of `data` [steps, ...] and has the
// steps s, s + sampling_rate, ...: column `x`, [sequence_length, ...]. Column `y` is targets[s],
// the row that belongs to the first step; there is none if `targets` is not valid(). Only whole
// windows are made, and only those that have a target. The arrays are not copied; their memory must
// not change while the dataset is read.
//
//   // Ten steps predict the next one.
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const data::Dataset train,
//       TimeseriesDatasetFromArray(series, series.Slice(10, series.dim(0)),
//                                  {.sequence_length = 10, .shuffle = true}));
absl::StatusOr<data::Dataset> TimeseriesDatasetFromArray(const base::Array& data,
                                                         const base::Array& targets,
                                                         const TimeseriesOptions& options);

}  // namespace penstock::keras
