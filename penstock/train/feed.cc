#include "penstock/train/feed.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::train {
namespace {

using base::Array;
using base::NamedArrays;

// Fills `part` with the rows of `array` from `begin` on, and where there are none with its first
// row. A real row is safer padding than zeros, which some networks turn into NaN.
void CopyRows(const Array& array, int64_t begin, Array part) {
  const int64_t row_bytes = array.num_bytes() / array.dim(0), rows = part.dim(0);
  const int64_t real = std::clamp<int64_t>(array.dim(0) - begin, 0, rows);
  const char* from = static_cast<const char*>(array.raw());
  char* to = static_cast<char*>(part.mutable_raw());
  if (real > 0) std::memcpy(to, from + begin * row_bytes, real * row_bytes);
  for (int64_t i = real; i < rows; ++i) std::memcpy(to + i * row_bytes, from, row_bytes);
}

Array PadRows(const Array& array, int64_t rows) {
  if (array.dim(0) == rows) return array;
  const Array out = Array::Uninitialized(array.dtype(), array.shape().RowShape().Prepend(rows));
  CopyRows(array, 0, out);
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

absl::StatusOr<std::optional<DeviceBatch>> Feed::Next(int64_t depth, int64_t steps) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
  if (!more) return std::nullopt;
  PENSTOCK_ASSIGN_OR_RETURN(DeviceBatch batch, depth == 1 ? Place() : PlaceStack(depth, steps));
  return batch;
}

absl::StatusOr<bool> Feed::Read() {
  if (!read_.empty()) return true;
  const base::Trace::Span span(options_.trace, "wait for the pipeline");
  before_read_ = iterator_->State();
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator_->Next(&read_));
  if (!more) return false;
  if (!resolved_) PENSTOCK_RETURN_IF_ERROR(ResolveColumns(read_));
  PENSTOCK_RETURN_IF_ERROR(CheckRows());
  return true;
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

absl::Status Feed::CheckRows() {
  const int replicas = strategy_.num_replicas();
  const int64_t examples = Examples();
  if (examples == 0) return absl::InvalidArgumentError("the pipeline gave a batch of no rows");
  if (replica_rows_ == 0) replica_rows_ = (examples + replicas - 1) / replicas;
  if (examples > replica_rows_ * replicas) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch has ", examples, " rows, the first one had ",
                     replica_rows_ * replicas, "; only later, smaller batches are padded"));
  }
  for (size_t i = 1; i < names_.size(); ++i) {
    if (Column(i).dim(0) == examples) continue;
    return absl::InvalidArgumentError(absl::StrCat("column '", names_[i], "' has ",
                                                   Column(i).dim(0), " rows, '", names_[0],
                                                   "' has ", examples));
  }
  return absl::OkStatus();
}

int32_t Feed::ExamplesOf(int replica) const {
  return static_cast<int32_t>(
      std::clamp<int64_t>(Examples() - replica * replica_rows_, 0, replica_rows_));
}

BatchTypes Feed::TypesOfRead() const {
  BatchTypes types;
  for (size_t i = 0; i < names_.size(); ++i) {
    ir::TensorType type{Column(i).dtype(), Column(i).shape().RowShape().Prepend(replica_rows_)};
    if (i < network_.inputs().size()) {
      types.inputs.push_back(std::move(type));
    } else {
      types.label = std::move(type);
    }
  }
  return types;
}

absl::StatusOr<runtime::Buffer> Feed::PutNumbers(int replica, std::vector<int32_t> numbers,
                                                 Sent& sent) {
  if (sent.numbers == numbers) return sent.buffer;
  const Array array = numbers.size() == 1
                          ? Array::Scalar(numbers[0])
                          : Array::Of<int32_t>({static_cast<int64_t>(numbers.size())}, numbers);
  PENSTOCK_ASSIGN_OR_RETURN(sent.buffer, strategy_.client().Put(array, strategy_.device(replica)));
  sent.numbers = std::move(numbers);
  return sent.buffer;
}

absl::StatusOr<DeviceBatch> Feed::Place() {
  const int replicas = strategy_.num_replicas();
  sent_.resize(replicas);
  DeviceBatch out;
  out.replicas.resize(replicas);
  out.examples = Examples();
  out.types = TypesOfRead();
  const base::Trace::Span span(options_.trace, "copy to the devices");
  for (size_t i = 0; i < names_.size(); ++i) {
    const Array padded = PadRows(Column(i), replica_rows_ * replicas);
    out.bytes += padded.num_bytes();
    for (int r = 0; r < replicas; ++r) {
      const Array part = padded.Slice(r * replica_rows_, (r + 1) * replica_rows_);
      PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                                strategy_.client().Put(part, strategy_.device(r)));
    }
  }
  for (int r = 0; r < replicas && options_.with_label; ++r) {
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                              PutNumbers(r, {ExamplesOf(r)}, sent_[r].counts));
  }
  read_ = NamedArrays();
  return out;
}

absl::StatusOr<DeviceBatch> Feed::PlaceStack(int64_t depth, int64_t steps) {
  const int replicas = strategy_.num_replicas();
  sent_.resize(replicas);
  DeviceBatch out;
  out.replicas.resize(replicas);
  out.types = TypesOfRead();
  const BatchTypes types = out.types;
  out.types.depth = depth;
  std::vector<std::vector<Array>> stacks(replicas);
  for (size_t i = 0; i < names_.size(); ++i) {
    const base::Shape part = Column(i).shape().RowShape().Prepend(replica_rows_);
    if (part.rank() == base::kMaxRank) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", names_[i], "' is ", Column(i).TypeString(),
                       "; a stack of them would have more axes than the ", base::kMaxRank,
                       " there may be: leave steps_per_execution at 1"));
    }
    for (auto& replica : stacks)
      replica.push_back(memory_->Allocate(Column(i).dtype(), part.Prepend(depth)));
  }
  std::vector<std::vector<int32_t>> counts(replicas, std::vector<int32_t>(depth));
  base::Trace::Span stacking(options_.trace, "stack batches");
  for (out.steps = 0; out.steps < steps; ++out.steps) {
    if (out.steps > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
      if (!more || !(TypesOfRead() == types)) break;
    }
    for (int r = 0; r < replicas; ++r) {
      for (size_t i = 0; i < names_.size(); ++i) {
        CopyRows(Column(i), r * replica_rows_, stacks[r][i].Row(out.steps));
      }
      counts[r][out.steps] = ExamplesOf(r);
    }
    out.examples += Examples();
    read_ = NamedArrays();
  }
  stacking.End();
  const base::Trace::Span copying(options_.trace, "copy to the devices");
  for (int r = 0; r < replicas; ++r) {
    for (const Array& stack : stacks[r]) out.bytes += stack.num_bytes() / depth;
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r],
                              strategy_.client().PutAll(stacks[r], strategy_.device(r)));
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                              PutNumbers(r, std::move(counts[r]), sent_[r].counts));
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                              PutNumbers(r, {static_cast<int32_t>(out.steps)}, sent_[r].steps));
  }
  return out;
}

}  // namespace penstock::train
