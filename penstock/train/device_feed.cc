#include "penstock/train/device_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::train {

using base::Array;

DeviceFeed::DeviceFeed(std::unique_ptr<data::Iterator> iterator, FeedPorts ports,
                       runtime::Client& client, std::vector<runtime::Device> devices,
                       Feed::Options options, std::shared_ptr<const DeviceRows> rows,
                       std::shared_ptr<GatherPrograms> programs)
    : iterator_(std::move(iterator)),
      ports_(std::move(ports)),
      client_(client),
      devices_(std::move(devices)),
      options_(std::move(options)),
      rows_(std::move(rows)),
      programs_(std::move(programs)) {}

absl::StatusOr<bool> DeviceFeed::Read() {
  if (!read_.empty()) return true;
  const base::Trace::Span span(options_.trace, "wait for the pipeline");
  before_read_ = iterator_->State();
  base::NamedArrays batch;
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator_->Next(&batch));
  if (!more) return false;
  if (!resolved_) PENSTOCK_RETURN_IF_ERROR(ResolveColumns());
  PENSTOCK_RETURN_IF_ERROR(TakeNumbers(batch));
  return true;
}

// The dataset may have come from a client of a worker: everything is checked.
absl::Status DeviceFeed::TakeNumbers(const base::NamedArrays& batch) {
  if (batch.size() != 1 || batch.begin()->second.dtype() != base::DType::kI64) {
    return absl::InvalidArgumentError(
        "a pipeline over rows on devices must have one column of row numbers, int64");
  }
  const Array& numbers = batch.begin()->second;
  if (numbers.rank() != 1) {
    return absl::InvalidArgumentError(
        "the elements are single examples and no batches: end the dataset with Batch()");
  }
  const int64_t rows = rows_->rows();
  std::vector<int32_t> taken;
  for (const int64_t number : numbers.values<int64_t>()) {
    if (number < 0 || number >= rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no row ", number, " on the devices, which have ", rows));
    }
    taken.push_back(static_cast<int32_t>(number));
  }
  read_ = std::move(taken);
  const absl::Status status = CheckSize();
  if (!status.ok()) read_.clear();
  return status;
}

absl::Status DeviceFeed::CheckSize() {
  const auto examples = static_cast<int64_t>(read_.size());
  if (examples == 0)
    return absl::InvalidArgumentError("the pipeline returned a batch without rows");
  const int replicas = num_replicas();
  if (options_.batch_rows == 0) options_.batch_rows = examples;
  if (replica_rows_ == 0) replica_rows_ = (options_.batch_rows + replicas - 1) / replicas;
  if (examples <= replica_rows_ * replicas) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a batch has ", examples, " rows, the first one had ", replica_rows_ * replicas,
                   "; only later, smaller batches are padded"));
}

absl::Status DeviceFeed::ResolveColumns() {
  PENSTOCK_ASSIGN_OR_RETURN(
      columns_, ResolveFeedColumns(ports_, options_.columns, rows_->names, options_.with_labels,
                                   !options_.class_weight.empty()));
  column_buffers_.resize(devices_.size());
  for (const std::string& name : columns_.names) {
    if (name == kClassWeight) continue;
    const size_t i = static_cast<size_t>(std::find(rows_->names.begin(), rows_->names.end(), name) -
                                         rows_->names.begin());
    column_types_.push_back(rows_->types[i]);
    for (size_t r = 0; r < devices_.size(); ++r) {
      column_buffers_[r].push_back(rows_->replicas[r][i]);
    }
  }
  if (columns_.has_class_weight()) PENSTOCK_RETURN_IF_ERROR(AddClassWeights());
  resolved_ = true;
  return absl::OkStatus();
}

// A column of its own on the devices, which is computed on the host from that of the labels.
absl::Status DeviceFeed::AddClassWeights() {
  const size_t label = ports_.inputs.size();
  PENSTOCK_ASSIGN_OR_RETURN(const Array labels, column_buffers_[0][label].Get());
  Array given;
  const auto own = std::find(rows_->names.begin(), rows_->names.end(), columns_.given_weights);
  if (own != rows_->names.end()) {
    PENSTOCK_ASSIGN_OR_RETURN(
        given, rows_->replicas[0][static_cast<size_t>(own - rows_->names.begin())].Get());
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      const Array weights,
      ClassWeightsOf(columns_.names[label], labels, options_.class_weight, columns_.given_weights,
                     given.valid() ? &given : nullptr));
  column_types_.push_back({weights.dtype(), weights.shape()});
  for (size_t r = 0; r < devices_.size(); ++r) {
    PENSTOCK_ASSIGN_OR_RETURN(column_buffers_[r].emplace_back(), client_.Put(weights, devices_[r]));
  }
  return absl::OkStatus();
}

const std::shared_ptr<const BatchTypes>& DeviceFeed::TypesOf(int64_t depth) {
  if (types_ != nullptr && types_->depth == depth) return types_;
  types_ = std::make_shared<BatchTypes>(
      TypesOfBatch(ports_, columns_, column_types_, replica_rows_, depth));
  return types_;
}

void DeviceFeed::WriteNumbers(int replica, int32_t* out) const {
  const auto begin = static_cast<size_t>(replica * replica_rows_);
  for (size_t i = 0; i < static_cast<size_t>(replica_rows_); ++i) {
    out[i] = begin + i < read_.size() ? read_[begin + i] : read_[0];
  }
}

int32_t DeviceFeed::ExamplesOf(int replica) const {
  return static_cast<int32_t>(std::clamp<int64_t>(
      static_cast<int64_t>(read_.size()) - replica * replica_rows_, 0, replica_rows_));
}

absl::Status DeviceFeed::CheckDepth(int64_t depth) const {
  if (depth <= 1) return absl::OkStatus();
  for (size_t i = 0; i < column_types_.size(); ++i) {
    if (column_types_[i].shape.rank() < base::kMaxRank) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a stack of column '", columns_.names[i], "' would have more axes than the maximum of ",
        base::kMaxRank, ": leave steps_per_execution at 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceFeed::Stack> DeviceFeed::TakeStack(int64_t depth, int64_t steps) {
  const auto replicas = static_cast<size_t>(num_replicas());
  Stack stack;
  const base::Shape shape =
      depth > 1 ? base::Shape({depth, replica_rows_}) : base::Shape({replica_rows_});
  for (size_t r = 0; r < replicas; ++r) {
    stack.numbers.push_back(Array::Zeros(base::DType::kI32, shape));
    stack.counts.emplace_back(static_cast<size_t>(depth));
  }
  for (; stack.steps < (depth > 1 ? steps : 1); ++stack.steps) {
    if (stack.steps > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
      if (!more) break;
    }
    for (size_t r = 0; r < replicas; ++r) {
      WriteNumbers(static_cast<int>(r),
                   stack.numbers[r].mutable_data<int32_t>() + stack.steps * replica_rows_);
      stack.counts[r][static_cast<size_t>(stack.steps)] = ExamplesOf(static_cast<int>(r));
    }
    stack.examples += static_cast<int64_t>(read_.size());
    read_.clear();
  }
  return stack;
}

int64_t DeviceFeed::BytesOfStep() const {
  int64_t bytes = 0;
  for (const ir::TensorType& type : column_types_) {
    bytes += type.shape.RowShape().num_elements() * base::ByteWidth(type.dtype) * replica_rows_ *
             num_replicas();
  }
  return bytes;
}

absl::StatusOr<runtime::Buffers> DeviceFeed::Put(const Stack& stack, int64_t depth, size_t r) {
  std::vector<Array> arrays = {stack.numbers[r]};
  if (depth > 1) {
    arrays.push_back(Array::Of<int32_t>({depth}, stack.counts[r]));
    arrays.push_back(Array::Scalar(static_cast<int32_t>(stack.steps)));
  } else if (options_.with_labels) {
    arrays.push_back(Array::Scalar(stack.counts[r][0]));
  }
  return client_.PutAll(arrays, devices_[r]);
}

absl::StatusOr<std::optional<DeviceBatch>> DeviceFeed::Next(int64_t depth, int64_t steps) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
  if (!more) return std::nullopt;
  PENSTOCK_RETURN_IF_ERROR(CheckDepth(depth));
  PENSTOCK_ASSIGN_OR_RETURN(const Stack stack, TakeStack(depth, steps));
  DeviceBatch out;
  out.types = TypesOf(depth);
  out.steps = stack.steps;
  out.examples = stack.examples;
  out.bytes = BytesOfStep();
  const base::Trace::Span span(options_.trace, "gather rows on the devices");
  PENSTOCK_ASSIGN_OR_RETURN(const auto gather,
                            programs_->Get(client_, devices_, column_types_, replica_rows_, depth));
  std::vector<runtime::Buffers> arguments = column_buffers_;
  std::vector<runtime::Buffers> others(devices_.size());  // counts, number of steps
  for (size_t r = 0; r < others.size(); ++r) {
    PENSTOCK_ASSIGN_OR_RETURN(others[r], Put(stack, depth, r));
    arguments[r].push_back(others[r][0]);
    others[r].erase(others[r].begin());
  }
  PENSTOCK_ASSIGN_OR_RETURN(out.replicas, gather->Execute(arguments));
  for (size_t r = 0; r < others.size(); ++r) {
    out.replicas[r].insert(out.replicas[r].end(), others[r].begin(), others[r].end());
  }
  return out;
}

}  // namespace penstock::train
