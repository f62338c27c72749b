#include "penstock/train/loop/evaluation_loop.h"

#include <optional>
#include <utility>

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/train/activity_host.h"
#include "penstock/train/feed_place.h"

namespace penstock::train {

EvaluationLoop::EvaluationLoop(DeviceModel& model, const data::Dataset& dataset,
                               const ReadOptions& read, CallbackList& callbacks, Profiler* profiler,
                               TrainingContext* training)
    : InferencePass(
          dataset,
          model.IteratorOptionsFor(read, profiler != nullptr ? profiler->trace() : nullptr),
          training),
      model_(model),
      read_(read),
      callbacks_(callbacks),
      profiler_(profiler),
      trace_(profiler != nullptr ? profiler->trace() : nullptr),
      program_(model.programs(), ProgramKind::kEvaluate),
      limit_(model.strategy().client(), model.strategy().device(0), model.options().clock) {}

absl::StatusOr<Logs> EvaluationLoop::Run() {
  status_ = base::CatchExceptions([&] { return EvaluateBatches(); });
  in_flight_.Abandon();
  callbacks_.ForAll(
      "TestEnd", [&](Callback& c) { return c.TestEnd(*this, logs_); }, status_);
  if (!status_.ok()) return status_;
  return std::move(logs_);
}

absl::StatusOr<std::unique_ptr<HostFeed>> EvaluationLoop::OpenFeed() {
  const Feed::Options options = {
      .columns = model_.options().columns, .targets = model_.TargetsToCheck(), .trace = trace_};
  const nn::Network& network = model_.objective().network;
  PENSTOCK_ASSIGN_OR_RETURN(FeedPlace place,
                            PlaceFeed(model_.strategy().client(), dataset(), read_));
  if (!place.note.empty()) callbacks_.NoteOnce(std::exchange(place.note, ""));
  PENSTOCK_RETURN_IF_ERROR(SendParts(place, read_, iterator_options(), model_.strategy()));
  if (!place.note.empty()) callbacks_.NoteOnce(place.note);
  if (place.host != nullptr) {
    return OpenFeedAt(place, iterator_options(), network, model_.strategy(), options);
  }
  return OpenFeedHere(place, dataset(), iterator_options(), network, model_.strategy(), options);
}

absl::Status EvaluationLoop::EvaluateBatches() {
  PENSTOCK_RETURN_IF_ERROR(
      callbacks_.ForEach("TestBegin", [&](Callback& c) { return c.TestBegin(*this); }));
  if (auto* const host = dynamic_cast<ActivityHost*>(&model_.strategy().client())) {
    host->SetActivity("evaluating");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<HostFeed> feed, OpenFeed());
  PENSTOCK_ASSIGN_OR_RETURN(metrics_, model_.ZeroMetrics());
  while (!stopped()) {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed->Next());
    if (!batch.has_value()) break;
    PENSTOCK_RETURN_IF_ERROR(Dispatch(*std::move(batch)));
    while (!stopped() && in_flight_.full()) PENSTOCK_RETURN_IF_ERROR(CompleteOldest());
  }
  while (!stopped() && !in_flight_.empty()) PENSTOCK_RETURN_IF_ERROR(CompleteOldest());
  if (report_.valid()) logs_ = model_.LogsOf(report_);
  if (logs_.empty() && !stopped()) {
    return absl::InvalidArgumentError("there is nothing to evaluate: the dataset is empty");
  }
  return absl::OkStatus();
}

absl::Status EvaluationLoop::Dispatch(DeviceBatch batch) {
  const int64_t index = dispatched_++;
  PENSTOCK_RETURN_IF_ERROR(callbacks_.ForEach(
      "TestBatchBegin", [&](Callback& c) { return c.TestBatchBegin(*this, index); }));
  if (!program_.IsBoundTo(batch.types)) {
    PENSTOCK_RETURN_IF_ERROR(program_.Bind(batch.types, {callbacks_, trace_}));
  }
  const int num_variables = model_.layout().num_variables;
  std::vector<runtime::Buffers> arguments = metrics_;
  for (size_t r = 0; r < arguments.size(); ++r) {
    const runtime::Buffers& state = model_.state().replicas()[r];
    arguments[r].insert(arguments[r].end(), state.begin(), state.begin() + num_variables);
    arguments[r].insert(arguments[r].end(), batch.replicas[r].begin(), batch.replicas[r].end());
  }
  std::shared_ptr<ExecutionTimer> timer;
  if (trace_ != nullptr) {
    timer = std::make_shared<ExecutionTimer>(model_.options().clock, trace_->Now());
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<runtime::Buffers> results,
                            program_.executable().Execute(arguments));
  for (size_t r = 0; r < results.size(); ++r) {
    metrics_[r].assign(results[r].begin(), results[r].end() - 1);
  }
  PENSTOCK_RETURN_IF_ERROR(
      in_flight_.Add(results[0].back(), std::move(batch), std::move(arguments), std::move(timer)));
  for (size_t r = 1; trace_ != nullptr && r < results.size(); ++r) {
    PENSTOCK_RETURN_IF_ERROR(in_flight_.TimeReplica(results[r].back()));
  }
  return absl::OkStatus();
}

absl::Status EvaluationLoop::CompleteOldest() {
  base::Trace::Span waiting(trace_, "wait for the devices");
  PENSTOCK_ASSIGN_OR_RETURN(const InFlight::Execution execution, in_flight_.Take());
  waiting.End();
  limit_.Completed(execution.batch.bytes);
  in_flight_.SetLimit(limit_.limit());
  if (profiler_ != nullptr) profiler_->Executed("evaluate_step", execution, -1);
  report_ = execution.report;
  const int64_t index = CountBatch(execution.batch.examples);
  if (callbacks_.empty()) return absl::OkStatus();
  logs_ = model_.LogsOf(report_);
  return callbacks_.ForEach("TestBatchEnd",
                            [&](Callback& c) { return c.TestBatchEnd(*this, index, logs_); });
}

}  // namespace penstock::train
