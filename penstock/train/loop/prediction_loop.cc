#include "penstock/train/loop/prediction_loop.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/types/span.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/train/loop/in_flight.h"

namespace penstock::train {
namespace {

// Predictions are in the order of the rows, so the dataset is always read in its fixed order.
data::IteratorOptions InOrder(data::IteratorOptions options) {
  options.deterministic = true;
  return options;
}

Array JoinRows(absl::Span<const Array> parts) {
  int64_t rows = 0;
  for (const Array& part : parts) rows += part.dim(0);
  Array out = Array::Uninitialized(parts[0].dtype(), parts[0].shape().RowShape().Prepend(rows));
  char* to = static_cast<char*>(out.mutable_raw());
  for (const Array& part : parts) {
    std::memcpy(to, part.raw(), part.num_bytes());
    to += part.num_bytes();
  }
  return out;
}

}  // namespace

PredictionLoop::PredictionLoop(DeviceModel& model, const data::Dataset& dataset,
                               const ReadOptions& read, CallbackList& callbacks,
                               const TakePredictions* take)
    : InferencePass(dataset, InOrder(model.IteratorOptionsFor(read, nullptr)),
                    /*training=*/nullptr),
      model_(model),
      callbacks_(callbacks),
      take_(take),
      program_(model.programs(), ProgramKind::kPredict),
      limit_(model.strategy().client(), model.strategy().device(0), model.options().clock),
      parts_(model.objective().network.outputs().size()) {}

absl::StatusOr<std::vector<Array>> PredictionLoop::Run() {
  status_ = base::CatchExceptions([&] { return PredictBatches(); });
  AwaitCopies();
  callbacks_.ForAll(
      "PredictEnd", [&](Callback& c) { return c.PredictEnd(*this); }, status_);
  if (!status_.ok()) return status_;
  std::vector<Array> outputs;
  if (take_ != nullptr) return outputs;
  for (const std::vector<Array>& parts : parts_) outputs.push_back(JoinRows(parts));
  return outputs;
}

absl::Status PredictionLoop::PredictBatches() {
  PENSTOCK_RETURN_IF_ERROR(
      callbacks_.ForEach("PredictBegin", [&](Callback& c) { return c.PredictBegin(*this); }));
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, OpenIterator());
  Feed feed(std::move(iterator), model_.objective().network, model_.strategy(),
            {.columns = model_.options().columns, .with_labels = false});
  while (!stopped()) {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed.Next());
    if (!batch.has_value()) break;
    if (take_ == nullptr) batch->others = NamedArrays();
    PENSTOCK_RETURN_IF_ERROR(Dispatch(*batch));
    while (!stopped() && pending_.size() > limit_.limit()) {
      PENSTOCK_RETURN_IF_ERROR(CompleteOldest());
    }
  }
  while (!stopped() && !pending_.empty()) PENSTOCK_RETURN_IF_ERROR(CompleteOldest());
  if (any_) return absl::OkStatus();
  if (stopped()) {
    return absl::CancelledError("a callback stopped the prediction before its first batch");
  }
  return absl::InvalidArgumentError("there is nothing to predict: the dataset is empty");
}

absl::Status PredictionLoop::Dispatch(const DeviceBatch& batch) {
  const int64_t index = dispatched_++;
  PENSTOCK_RETURN_IF_ERROR(callbacks_.ForEach(
      "PredictBatchBegin", [&](Callback& c) { return c.PredictBatchBegin(*this, index); }));
  if (!program_.IsBoundTo(batch.types)) {
    PENSTOCK_RETURN_IF_ERROR(program_.Bind(batch.types, {callbacks_}));
  }
  const int num_variables = model_.layout().num_variables;
  std::vector<runtime::Buffers> arguments(batch.replicas.size());
  for (size_t r = 0; r < arguments.size(); ++r) {
    const runtime::Buffers& state = model_.state().replicas()[r];
    arguments[r].assign(state.begin(), state.begin() + num_variables);
    arguments[r].insert(arguments[r].end(), batch.replicas[r].begin(), batch.replicas[r].end());
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto results, program_.executable().Execute(arguments));
  pending_.push_back({.results = std::move(results),
                      .copies = {},
                      .arrived = {},
                      .bytes = batch.bytes,
                      .examples = batch.examples,
                      .others = batch.others});
  return limit_.far() ? StartCopies(pending_.back()) : absl::OkStatus();
}

// Not on this host's devices, whose memory is read in place.
absl::Status PredictionLoop::StartCopies(Pending& execution) const {
  execution.copies.resize(execution.results.size());
  for (size_t r = 0; r < execution.results.size(); ++r) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const runtime::Buffer& result = execution.results[r][i];
      Array& copy = execution.copies[r].emplace_back(
          Array::Uninitialized(result.type().dtype, result.type().shape));
      PENSTOCK_ASSIGN_OR_RETURN(execution.arrived.emplace_back(), result.GetAsync(copy));
      execution.bytes += copy.num_bytes();
    }
  }
  return absl::OkStatus();
}

void PredictionLoop::AwaitCopies() {
  for (const Pending& execution : pending_) {
    for (const auto& arrived : execution.arrived) arrived->Await().IgnoreError();
  }
  pending_.clear();
}

absl::StatusOr<std::vector<Array>> PredictionLoop::OutputsOf(const Pending& execution) const {
  std::vector<std::vector<Array>> parts(parts_.size());  // [output][replica]
  absl::Status status;  // every copy has ended before its memory is freed
  for (const auto& arrived : execution.arrived) status.Update(arrived->Await());
  PENSTOCK_RETURN_IF_ERROR(status);
  int64_t left = execution.examples;
  for (size_t r = 0; r < execution.results.size(); ++r) {
    int64_t rows = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      absl::StatusOr<Array> got =
          execution.copies.empty() ? execution.results[r][i].Get() : execution.copies[r][i];
      PENSTOCK_ASSIGN_OR_RETURN(const Array whole, std::move(got));
      rows = std::min(left, whole.dim(0));
      parts[i].push_back(whole.Slice(0, rows));
    }
    left -= rows;
  }
  std::vector<Array> outputs;
  for (const std::vector<Array>& replicas : parts) {
    outputs.push_back(replicas.size() == 1 ? replicas[0] : JoinRows(replicas));
  }
  return outputs;
}

absl::Status PredictionLoop::CompleteOldest() {
  const Pending execution = std::move(pending_.front());
  pending_.pop_front();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Array> outputs, OutputsOf(execution));
  any_ = true;
  limit_.Completed(execution.bytes);
  if (take_ != nullptr) {
    PENSTOCK_RETURN_IF_ERROR((*take_)(execution.others, outputs));
  } else {
    for (size_t i = 0; i < outputs.size(); ++i) parts_[i].push_back(outputs[i]);
  }
  const int64_t index = CountBatch(execution.examples);
  if (callbacks_.empty()) return absl::OkStatus();
  return callbacks_.ForEach("PredictBatchEnd",
                            [&](Callback& c) { return c.PredictBatchEnd(*this, index, outputs); });
}

}  // namespace penstock::train
