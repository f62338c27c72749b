// Padding of the last batch of a dataset, for programs that need batches of one size. Internal to
// room estimator.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/data/dataset.h"

namespace penstock::estimator {

// Repeats the last example of batches that have fewer than `size`, and adds the int64 column
// `count_column`: [1], the number of examples before padding.
data::Dataset PadBatches(const data::Dataset& dataset, int64_t size,
                         absl::string_view count_column);

}  // namespace penstock::estimator
