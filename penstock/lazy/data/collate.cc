#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/data/data_loader.h"

namespace penstock::lazy::utils::data {
namespace {

using base::Array;
using base::DType;

// Stacks array `column` of all examples, of which there is at least one.
absl::StatusOr<Array> Stack(const std::vector<Sample>& examples, size_t column) {
  const auto& [name, first] = examples[0][column];
  std::vector<int64_t> extents = {static_cast<int64_t>(examples.size())};
  extents.insert(extents.end(), first.shape().begin(), first.shape().end());
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto& [other_name, other] = examples[i][column];
    if (other_name != name || other.dtype() != first.dtype() || other.shape() != first.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot stack '", other_name, "' of example ", i, " of the batch, ",
                       other.TypeString(), ", with '", name, "' of example 0, ", first.TypeString(),
                       "; give .collate_fn, or make them equal in Dataset::get"));
    }
  }
  Array stacked = Array::Uninitialized(first.dtype(), base::Shape(extents));
  char* out = static_cast<char*>(stacked.mutable_raw());
  const size_t bytes = static_cast<size_t>(first.num_bytes());
  for (const Sample& example : examples) {
    const Array& row = example[column].second;
    if (bytes > 0) std::memcpy(out, row.raw(), bytes);
    out += bytes;
    if (first.dtype() == DType::kString) stacked.KeepAlive(row.owner());
  }
  return stacked;
}

}  // namespace

absl::StatusOr<Sample> default_collate(std::vector<Sample> examples) {
  Sample batch;
  if (examples.empty()) return batch;
  for (size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].size() != examples[0].size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("example ", i, " of the batch has ", examples[i].size(), " arrays, ",
                       examples[i].ToString(), ", but example 0 has ", examples[0].size(), ", ",
                       examples[0].ToString()));
    }
  }
  for (size_t column = 0; column < examples[0].size(); ++column) {
    PENSTOCK_ASSIGN_OR_RETURN(Array stacked, Stack(examples, column));
    batch.Append(examples[0][column].first, std::move(stacked));
  }
  return batch;
}

}  // namespace penstock::lazy::utils::data
