#include "penstock/train/feed.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::train {
namespace {

using base::Array;
using base::NamedArrays;

// `rows` rows: those of `array`, then its first row again and again. A real row is safer padding
// than zeros, which some networks turn into NaN.
Array PadRows(const Array& array, int64_t rows) {
  if (array.dim(0) == rows) return array;
  Array out = Array::Uninitialized(array.dtype(), array.shape().RowShape().Prepend(rows));
  const int64_t row_bytes = array.Slice(0, 1).num_bytes();
  char* to = static_cast<char*>(out.mutable_raw());
  std::memcpy(to, array.raw(), array.num_bytes());
  for (int64_t i = array.dim(0); i < rows; ++i)
    std::memcpy(to + i * row_bytes, array.raw(), row_bytes);
  return out;
}

}  // namespace

std::vector<std::string> Feed::Hints() const {
  std::vector<std::string> hints;
  for (const data::StageStats& stage : iterator_->Stats()) {
    if (!stage.hint.empty()) hints.push_back(absl::StrCat(stage.stage, ": ", stage.hint));
  }
  return hints;
}

absl::StatusOr<std::optional<DeviceBatch>> Feed::Next() {
  NamedArrays batch;
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator_->Next(&batch));
  if (!more) return std::nullopt;
  if (!resolved_) PENSTOCK_RETURN_IF_ERROR(ResolveColumns(batch));
  PENSTOCK_ASSIGN_OR_RETURN(DeviceBatch placed, Place(batch));
  return placed;
}

absl::Status Feed::ResolveColumns(const NamedArrays& batch) {
  std::vector<std::string> present;
  for (const auto& [name, array] : batch) present.push_back(name);
  const auto has = [&](const std::string& name) {
    return std::find(present.begin(), present.end(), name) != present.end();
  };
  const auto unclear = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; the batch's columns are ", absl::StrJoin(present, ", ")));
  };
  const auto& ports = network_.inputs();
  names_ = options_.columns.inputs;
  if (names_.empty()) {
    if (std::all_of(ports.begin(), ports.end(), [&](const auto& port) { return has(port.name); })) {
      for (const auto& port : ports) names_.push_back(port.name);
    } else if (ports.size() == 1 &&
               (present.size() == 2 || (present.size() == 1 && !options_.with_label))) {
      names_.push_back(present[0]);
    } else {
      return unclear(
          "it is not clear which columns are the network's inputs; say so with Columns.inputs");
    }
  }
  if (names_.size() != ports.size()) {
    return unclear(absl::StrCat("the network has ", ports.size(), " inputs, Columns.inputs names ",
                                names_.size()));
  }
  if (options_.with_label) {
    std::string label = options_.columns.label;
    if (label.empty()) {
      for (const std::string& name : present) {
        if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
        if (!label.empty()) {
          return unclear("it is not clear which column is the label; say so with Columns.label");
        }
        label = name;
      }
      if (label.empty()) return unclear("there is no column left to be the label");
    }
    names_.push_back(label);
  }
  for (const std::string& name : names_) {
    if (!has(name)) return unclear(absl::StrCat("there is no column '", name, "'"));
    const Array& array = *batch.Find(name);
    if (!base::IsNumeric(array.dtype()) || array.rank() == 0) {
      return unclear(
          absl::StrCat("column '", name, "' is ", array.TypeString(), ", which no device takes"));
    }
  }
  resolved_ = true;
  return absl::OkStatus();
}

absl::StatusOr<DeviceBatch> Feed::Place(const NamedArrays& batch) {
  const int replicas = strategy_.num_replicas();
  DeviceBatch out;
  out.replicas.resize(replicas);
  out.examples = batch.Find(names_[0])->dim(0);
  if (out.examples == 0) return absl::InvalidArgumentError("the pipeline gave a batch of no rows");
  if (replica_rows_ == 0) replica_rows_ = (out.examples + replicas - 1) / replicas;
  if (out.examples > replica_rows_ * replicas) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch has ", out.examples, " rows, the first one had ",
                     replica_rows_ * replicas, "; only later, smaller batches are padded"));
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    const Array& column = *batch.Find(names_[i]);
    if (column.dim(0) != out.examples) {
      return absl::InvalidArgumentError(absl::StrCat("column '", names_[i], "' has ", column.dim(0),
                                                     " rows, '", names_[0], "' has ",
                                                     out.examples));
    }
    const Array padded = PadRows(column, replica_rows_ * replicas);
    const ir::TensorType type{padded.dtype(), padded.shape().RowShape().Prepend(replica_rows_)};
    if (i < network_.inputs().size()) {
      out.types.inputs.push_back(type);
    } else {
      out.types.label = type;
    }
    for (int r = 0; r < replicas; ++r) {
      const Array part = padded.Slice(r * replica_rows_, (r + 1) * replica_rows_);
      PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer buffer,
                                strategy_.client().Put(part, strategy_.device(r)));
      out.replicas[r].push_back(std::move(buffer));
    }
  }
  if (!options_.with_label) return out;
  for (int r = 0; r < replicas; ++r) {
    const int64_t count = std::clamp<int64_t>(out.examples - r * replica_rows_, 0, replica_rows_);
    PENSTOCK_ASSIGN_OR_RETURN(
        runtime::Buffer buffer,
        strategy_.client().Put(Array::Scalar(static_cast<int32_t>(count)), strategy_.device(r)));
    out.replicas[r].push_back(std::move(buffer));
  }
  return out;
}

}  // namespace penstock::train
