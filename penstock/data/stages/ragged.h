// Ragged columns of batches, as TensorFlow's RaggedTensor: the values of all rows concatenated in
// column `name`, and in `name/row_splits` where each row begins: row i is values[row_splits[i],
// row_splits[i+1]).
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/data/spec.h"

namespace penstock::data {

inline constexpr absl::string_view kRowSplits = "/row_splits";

std::string RowSplitsOf(absl::string_view column);
// Whether the column holds the row splits of another column of the element.
bool IsRowSplits(const ElementSpec& spec, const ColumnSpec& column);

}  // namespace penstock::data
