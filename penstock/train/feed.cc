#include "penstock/train/feed.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/available_memory.h"

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

FeedPorts FeedPortsOf(const nn::Network& network) {
  FeedPorts ports;
  for (const nn::Network::Port& port : network.inputs()) ports.inputs.push_back(port.name);
  for (const nn::Network::Port& port : network.outputs()) ports.outputs.push_back(port.name);
  return ports;
}

std::vector<runtime::Device> DevicesOf(const Strategy& strategy) {
  std::vector<runtime::Device> devices;
  for (int r = 0; r < strategy.num_replicas(); ++r) devices.push_back(strategy.device(r));
  return devices;
}

Feed::Feed(std::unique_ptr<data::Iterator> iterator, const nn::Network& network,
           const Strategy& strategy, Options options)
    : Feed(std::move(iterator), FeedPortsOf(network), strategy.client(), DevicesOf(strategy),
           std::move(options)) {
  network_ = &network;
}

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
  const bool first = !resolved_;
  if (first) PENSTOCK_RETURN_IF_ERROR(ResolveColumns(read_));
  PENSTOCK_RETURN_IF_ERROR(ApplyClassWeights());
  PENSTOCK_RETURN_IF_ERROR(CheckRows());
  if (first) PENSTOCK_RETURN_IF_ERROR(CheckLabels());
  return true;
}

absl::Status Feed::ResolveColumns(const NamedArrays& batch) {
  std::vector<std::string> present;
  for (const auto& [name, array] : batch) present.push_back(name);
  PENSTOCK_ASSIGN_OR_RETURN(
      columns_, ResolveFeedColumns(ports_, options_.columns, present, options_.with_labels,
                                   !options_.class_weight.empty()));
  for (const std::string& name : columns_.names) {
    if (name == kClassWeight) continue;
    const Array& array = *batch.Find(name);
    if (base::IsNumeric(array.dtype()) && array.rank() == 0) {
      return UnclearColumns(
          absl::StrCat("column '", name, "' is ", array.TypeString(),
                       ", one example's and not a batch's: end the dataset with Batch()"),
          present);
    }
    if (!base::IsNumeric(array.dtype())) {
      return UnclearColumns(absl::StrCat("column '", name, "' is ", array.TypeString(),
                                         ", which devices do not support"),
                            present);
    }
  }
  resolved_ = true;
  return absl::OkStatus();
}

// Gives read_ the column of class weights.
absl::Status Feed::ApplyClassWeights() {
  if (!columns_.has_class_weight()) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(
      const Array weights,
      ClassWeightsOf(columns_.names[ports_.inputs.size()], Column(ports_.inputs.size()),
                     options_.class_weight, columns_.given_weights,
                     read_.Find(columns_.given_weights)));
  read_.Set(kClassWeight, weights);
  return absl::OkStatus();
}

absl::Status Feed::CheckRows() {
  const int replicas = num_replicas();
  const int64_t examples = Examples();
  if (examples == 0)
    return absl::InvalidArgumentError("the pipeline returned a batch without rows");
  if (options_.batch_rows == 0) options_.batch_rows = examples;
  if (replica_rows_ == 0) replica_rows_ = (options_.batch_rows + replicas - 1) / replicas;
  if (examples > replica_rows_ * replicas) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch has ", examples, " rows, the first one had ",
                     replica_rows_ * replicas, "; only later, smaller batches are padded"));
  }
  for (size_t i = 1; i < columns_.names.size(); ++i) {
    if (Column(i).dim(0) == examples) continue;
    return absl::InvalidArgumentError(absl::StrCat("column '", columns_.names[i], "' has ",
                                                   Column(i).dim(0), " rows, '", columns_.names[0],
                                                   "' has ", examples));
  }
  return absl::OkStatus();
}

absl::Status Feed::CheckLabels() const {
  if (options_.targets == nullptr || network_ == nullptr || columns_.num_labels == 0)
    return absl::OkStatus();
  const size_t first = ports_.inputs.size();
  for (size_t t = 0; t < options_.targets->size(); ++t) {
    const absl::Status status =
        (*options_.targets)[t].loss.CheckLabels(Column(first + t), network_->outputs()[t].type);
    if (!status.ok()) {
      return base::WithContext(
          status, absl::StrCat("the labels in column '", columns_.names[first + t], "'"));
    }
  }
  return absl::OkStatus();
}

int32_t Feed::ExamplesOf(int replica) const {
  return static_cast<int32_t>(
      std::clamp<int64_t>(Examples() - replica * replica_rows_, 0, replica_rows_));
}

bool Feed::ReadHasTypes(const BatchTypes& types) const {
  size_t i = 0;
  for (const auto* list : {&types.inputs, &types.labels, &types.weights}) {
    for (const ir::TensorType& type : *list) {
      const Array& column = Column(i++);
      if (column.dtype() != type.dtype || !(column.shape().RowShape() == type.shape.RowShape())) {
        return false;
      }
    }
  }
  return true;
}

const std::shared_ptr<const BatchTypes>& Feed::TypesOfRead(int64_t depth) {
  if (types_ != nullptr && types_->depth == depth && ReadHasTypes(*types_)) return types_;
  std::vector<ir::TensorType> types;
  for (size_t i = 0; i < columns_.names.size(); ++i) {
    types.push_back({Column(i).dtype(), Column(i).shape()});
  }
  types_ =
      std::make_shared<BatchTypes>(TypesOfBatch(ports_, columns_, types, replica_rows_, depth));
  return types_;
}

absl::StatusOr<runtime::Buffer> Feed::PutNumbers(int replica, std::vector<int32_t> numbers,
                                                 Sent& sent) {
  if (sent.numbers == numbers) return sent.buffer;
  const Array array = numbers.size() == 1
                          ? Array::Scalar(numbers[0])
                          : Array::Of<int32_t>({static_cast<int64_t>(numbers.size())}, numbers);
  PENSTOCK_ASSIGN_OR_RETURN(sent.buffer, client_.Put(array, devices_[replica]));
  sent.numbers = std::move(numbers);
  return sent.buffer;
}

absl::StatusOr<DeviceBatch> Feed::Place() {
  const int replicas = num_replicas();
  sent_.resize(replicas);
  DeviceBatch out;
  out.replicas.resize(replicas);
  out.examples = Examples();
  out.types = TypesOfRead(/*depth=*/1);
  const base::Trace::Span span(options_.trace, "copy to the devices");
  for (size_t i = 0; i < columns_.names.size(); ++i) {
    const Array padded = PadRows(Column(i), replica_rows_ * replicas);
    out.bytes += padded.num_bytes();
    for (int r = 0; r < replicas; ++r) {
      const Array part = padded.Slice(r * replica_rows_, (r + 1) * replica_rows_);
      PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(), client_.Put(part, devices_[r]));
    }
  }
  for (int r = 0; r < replicas && options_.with_labels; ++r) {
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                              PutNumbers(r, {ExamplesOf(r)}, sent_[r].counts));
  }
  for (const auto& [name, array] : read_) {
    if (!options_.with_labels && !columns_.Has(name)) out.others.Set(name, array);
  }
  read_ = NamedArrays();
  return out;
}

absl::Status Feed::CheckStackFits(int64_t depth) const {
  double bytes = 0;
  for (size_t i = 0; i < columns_.names.size(); ++i) {
    const Array& column = Column(i);
    bytes += static_cast<double>(column.num_bytes()) / static_cast<double>(column.dim(0)) *
             static_cast<double>(replica_rows_ * num_replicas());
  }
  const base::MemoryHeadroom room = base::AvailableMemory();
  if (bytes * static_cast<double>(depth) <= static_cast<double>(room.bytes)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "steps_per_execution = %d stacks as many batches of %.3g MB, but %s has only %s free; take "
      "fewer steps, or kAutoSteps",
      depth, bytes / 1e6, room.limited_by, base::PrintBytes(room.bytes)));
}

absl::StatusOr<std::vector<std::vector<Array>>> Feed::AllocateStacks(int64_t depth) const {
  std::vector<std::vector<Array>> stacks(num_replicas());
  for (size_t i = 0; i < columns_.names.size(); ++i) {
    const base::Shape part = Column(i).shape().RowShape().Prepend(replica_rows_);
    if (part.rank() == base::kMaxRank) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", columns_.names[i], "' is ", Column(i).TypeString(),
                       "; a stack of them would have more axes than the maximum of ",
                       base::kMaxRank, ": leave steps_per_execution at 1"));
    }
    for (auto& replica : stacks) {
      replica.push_back(memory_->Allocate(Column(i).dtype(), part.Prepend(depth)));
    }
  }
  return stacks;
}

absl::StatusOr<DeviceBatch> Feed::PlaceStack(int64_t depth, int64_t steps) {
  if (depth > checked_depth_) {
    PENSTOCK_RETURN_IF_ERROR(CheckStackFits(depth));
    checked_depth_ = depth;
  }
  const int replicas = num_replicas();
  sent_.resize(replicas);
  DeviceBatch out;
  out.replicas.resize(replicas);
  out.types = TypesOfRead(depth);
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::vector<Array>> stacks, AllocateStacks(depth));
  std::vector<std::vector<int32_t>> counts(replicas, std::vector<int32_t>(depth));
  base::Trace::Span stacking(options_.trace, "stack batches");
  for (out.steps = 0; out.steps < steps; ++out.steps) {
    if (out.steps > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
      if (!more || !ReadHasTypes(*out.types)) break;
    }
    for (int r = 0; r < replicas; ++r) {
      for (size_t i = 0; i < columns_.names.size(); ++i) {
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
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r], client_.PutAll(stacks[r], devices_[r]));
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                              PutNumbers(r, std::move(counts[r]), sent_[r].counts));
    PENSTOCK_ASSIGN_OR_RETURN(out.replicas[r].emplace_back(),
                              PutNumbers(r, {static_cast<int32_t>(out.steps)}, sent_[r].steps));
  }
  return out;
}

}  // namespace penstock::train
