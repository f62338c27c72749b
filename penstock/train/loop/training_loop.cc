#include "penstock/train/loop/training_loop.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/train/loop/batch_gradients.h"
#include "penstock/train/loop/evaluation_loop.h"
#include "penstock/train/loop/fit_checks.h"
#include "penstock/train/loop/nan_diagnosis.h"
#include "penstock/train/progress.h"

namespace penstock::train {
namespace {

std::unique_ptr<Profiler> MakeProfiler(const FitArguments& fit) {
  const FitOptions& options = fit.options;
  const ProfileOptions* profile = options.profile.has_value() ? &*options.profile : nullptr;
  for (const auto& callback : options.callbacks) {
    if (profile == nullptr) profile = callback->profile();
  }
  if (profile == nullptr) return nullptr;
  return std::make_unique<Profiler>(*profile, fit.model.strategy(), fit.model.options().clock);
}

}  // namespace

TrainingLoop::TrainingLoop(const FitArguments& fit)
    : fit_(fit),
      model_(fit.model),
      profiler_(MakeProfiler(fit)),
      callbacks_(WithProgressLine(fit.options.callbacks, fit.options.verbose.value_or(0)), trace()),
      halt_on_nan_(callbacks_.StopsOnNan()),
      observes_batch_begin_(callbacks_.ObservesBatchBegin()),
      meter_(fit.model.options().clock, trace()),
      progress_(fit.options),
      iterators_(fit, trace()),
      step_(fit.model.programs(),
            halt_on_nan_ ? ProgramKind::kTrainHaltOnNan : ProgramKind::kTrain) {
  activity_host_ = dynamic_cast<ActivityHost*>(&model_.strategy().client());
  feed_host_ = dynamic_cast<const FeedHost*>(&model_.strategy().client());
  if (model_.on_cpu()) in_flight_.SetLimit(0);  // until an execution has been measured
}

// ---- TrainingContext ----

void TrainingLoop::Stop(std::string reason) {
  if (!stopping_) progress_.history.stop_reason = std::move(reason);
  stopping_ = true;
}

bool TrainingLoop::Interrupt(std::string reason) {
  if (stopping_) return false;
  progress_.history.interrupted = true;
  Stop(std::move(reason));
  return true;
}

bool TrainingLoop::InterruptSaved(std::string reason) {
  saved_for_drain_ = Interrupt(std::move(reason));
  return saved_for_drain_;
}

absl::StatusOr<NamedArrays> TrainingLoop::State() {
  return CheckpointArrays(fit_, callbacks_, progress_);
}

absl::StatusOr<StateOnDevices::Parts> TrainingLoop::StateParts() {
  Parts parts = {.names = {},
                 .buffers = model_.state().Entries(),
                 .others = OtherArrays(callbacks_, progress_)};
  for (const StateLayout::Entry& entry : model_.layout().entries) parts.names.push_back(entry.name);
  return parts;
}

absl::Status TrainingLoop::ResumeFrom(const NamedArrays& state, absl::string_view progress,
                                      const Load& load) {
  return RestoreProgress(
      fit_, callbacks_, state, progress,
      [&]() -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(std::vector<runtime::Buffers> replicas, load());
        return model_.SetStateOnDevices(std::move(replicas));
      },
      progress_);
}

std::string TrainingLoop::Progress() {
  // A checkpoint is being saved: a kill during the next compilation loses nothing more.
  model_.steps_tuner().Release();
  return SaveProgress(fit_, callbacks_, progress_, DataState());
}

absl::StatusOr<MonitorInfo> TrainingLoop::FindMonitor(absl::string_view name) const {
  return train::FindMonitor(fit_, name);
}

absl::StatusOr<NamedArrays> TrainingLoop::Gradients() {
  if (!last_batch_.has_value()) return NamedArrays();
  return BatchGradients(model_, *last_batch_, {callbacks_, trace()});
}

FitStats TrainingLoop::stats() const {
  const std::vector<FitStats>& epochs = progress_.history.stats;
  return epochs.empty() ? FitStats() : epochs.back();
}

// ---- LiveTraining ----

FitStats TrainingLoop::StatsSoFar() const {
  FitStats stats = meter_.SoFar();
  for (const FitStats& epoch : progress_.history.stats) stats += epoch;
  stats.steps = progress_.completed.total_steps - first_step_;
  return stats;
}

std::optional<data::PipelineReport> TrainingLoop::Pipeline() const {
  if (feed_ == nullptr) return std::nullopt;
  return feed_->Report();
}

std::optional<double> TrainingLoop::NextLearningRate() const {
  // A callback may have set a constant one since the last report.
  if (learning_rate_is_constant()) return *model_.LearningRate();
  return scheduled_rate_;
}

absl::StatusOr<std::unique_ptr<ir::Graph>> TrainingLoop::StepGraph() const {
  if (first_types_ == nullptr) return nullptr;
  BatchTypes types = *first_types_;
  types.depth = 1;
  PENSTOCK_ASSIGN_OR_RETURN(TrainingGraph made,
                            TrainGraph(model_.objective(), model_.layout(), types,
                                       model_.strategy().num_replicas(), halt_on_nan_));
  return std::move(made.graph);
}

absl::Status TrainingLoop::ForEachCallback(const char* hook,
                                           absl::FunctionRef<absl::Status(Callback&)> call) {
  const IdleMeter::Activity callbacks(meter_, HostWork::kCallback);
  return callbacks_.ForEach(hook, call);
}

data::IteratorState TrainingLoop::DataState() const {
  data::IteratorState state = feed_ != nullptr ? feed_->State() : data::IteratorState();
  if (!fit_.endless() && progress_.dispatched.step == 0) {  // the next pass, not yet opened
    state.epoch = progress_.dispatched.epoch;
    state.elements = 0;
  }
  return state;
}

// ---- The whole training ----

absl::StatusOr<History> TrainingLoop::Run() {
  PENSTOCK_RETURN_IF_ERROR(Check());
  // Methods of callbacks that CallbackList does not guard may throw as well.
  status_ = base::CatchExceptions([&] { return Train(); });
  // After an error, too, the weights are the variables.
  if (!status_.ok()) {
    status_.Update(model_.state().UseAverages(false, model_.layout(), model_.strategy()));
  }
  {
    const IdleMeter::Activity callbacks(meter_, HostWork::kCallback);
    callbacks_.ForAll(
        "TrainEnd", [&](Callback& c) { return c.TrainEnd(*this); }, status_);
  }
  if (profiler_ != nullptr) FinishProfile();
  model_.steps_tuner().Release();
  if (!status_.ok()) return status_;
  progress_.history.incomplete_logs = callbacks_.log_errors();
  return std::move(progress_.history);
}

absl::Status TrainingLoop::Check() {
  for (const auto& callback : callbacks_) PENSTOCK_RETURN_IF_ERROR(callback->Check(*this));
  // After the check of the callback that may have requested the profile, as it names its own
  // option.
  if (profiler_ != nullptr) PENSTOCK_RETURN_IF_ERROR(profiler_->Check());
  PENSTOCK_RETURN_IF_ERROR(iterators_.Place());
  if (fit_.validation.has_value()) {
    const absl::Status has_end = CheckHasEnd(*fit_.validation, "validation_steps");
    if (!has_end.ok()) return base::WithContext(has_end, "validation");
    const absl::StatusOr<FeedPlace> place =
        PlaceFeed(model_.strategy().client(), *fit_.validation, fit_.options.read);
    if (!place.ok()) return base::WithContext(place.status(), "validation");
    // Files that only the worker may read cannot be looked at here.
    if (place->host != nullptr) return absl::OkStatus();
  }
  return base::WithContext(CheckValidationData(fit_), "validation");
}

absl::Status TrainingLoop::Train() {
  PENSTOCK_RETURN_IF_ERROR(
      ForEachCallback("TrainBegin", [&](Callback& c) { return c.TrainBegin(*this); }));
  const Position& at = progress_.dispatched;
  const int epochs = fit_.options.epochs;
  first_step_ = at.total_steps;
  for (const std::string& warning : WarningsFor(model_.objective())) Note(warning);
  if (const std::string note = iterators_.TakeNote(); !note.empty()) callbacks_.NoteOnce(note);
  // Only the end of the last epoch may be left: its validation and EpochEnd.
  if (at.epoch + (progress_.epoch_trained ? 1 : 0) >= epochs) {
    Note(absl::StrCat("all ", epochs, epochs == 1 ? " epoch is" : " epochs are",
                      " done already; there is nothing to train"));
  }
  // An earlier training may have halted the state at a NaN; this one starts from there.
  if (halt_on_nan_) {
    PENSTOCK_RETURN_IF_ERROR(model_.state().Set(
        model_.layout(), model_.strategy(), model_.layout().halted, Array::Scalar<int32_t>(-1)));
  }
  while (at.epoch < epochs && !stopping_) {
    PENSTOCK_RETURN_IF_ERROR(model_.state().UseAverages(false, model_.layout(), model_.strategy()));
    PENSTOCK_RETURN_IF_ERROR(BeginEpoch());
    bool whole = true;
    if (!progress_.epoch_trained) {
      PENSTOCK_ASSIGN_OR_RETURN(whole, RunEpoch());
    }
    if (!whole) {
      Stop(absl::StrCat("the data ended after ", progress_.completed.step, " of ",
                        progress_.steps_per_epoch, " steps of epoch ",
                        progress_.completed.epoch + 1,
                        "; add Repeat() to the dataset, or leave steps_per_epoch out"));
    }
    // The numbers of an interrupted epoch are not an epoch's: no validation, no EpochEnd.
    if (stopping_) break;
    PENSTOCK_RETURN_IF_ERROR(EndEpoch());
  }
  return model_.state().TakeAverages(model_.layout(), model_.strategy());
}

// ---- An epoch ----

absl::Status TrainingLoop::BeginEpoch() {
  if (profiler_ != nullptr) profiler_->EpochBegins(progress_.dispatched.epoch);
  PENSTOCK_RETURN_IF_ERROR(OpenFeed());
  epoch_first_step_ = progress_.dispatched.step;
  keeps_batch_ = callbacks_.WantsGradients(progress_.dispatched.epoch);
  // In a resumed epoch the logs and the metrics' sums are those of the checkpoint.
  if (!std::exchange(progress_.resumed_mid_epoch, false)) {
    progress_.logs = Logs();
    PENSTOCK_ASSIGN_OR_RETURN(const auto zeros, model_.ZeroMetrics());
    for (size_t r = 0; r < zeros.size(); ++r) {
      std::copy(zeros[r].begin(), zeros[r].end(),
                model_.state().replicas()[r].begin() + model_.layout().first_metric);
    }
  }
  return ForEachCallback("EpochBegin",
                         [&](Callback& c) { return c.EpochBegin(*this, progress_.dispatched); });
}

absl::Status TrainingLoop::OpenFeed() {
  if (fit_.endless() && feed_ != nullptr) return absl::OkStatus();
  if (!fit_.endless() && progress_.epoch_trained) return absl::OkStatus();  // all data is read
  const IdleMeter::Activity data(meter_, HostWork::kData, "open the data");
  feed_ = nullptr;  // frees its memory before more is allocated
  const auto resume_at = std::exchange(progress_.resume_at, std::nullopt);
  PENSTOCK_ASSIGN_OR_RETURN(
      feed_, iterators_.Open(fit_.endless() ? 0 : progress_.dispatched.epoch, resume_at,
                             resume_at.has_value() ? progress_.batch_rows : 0));
  if (const std::string note = iterators_.TakeNote(); !note.empty()) callbacks_.NoteOnce(note);
  return absl::OkStatus();
}

absl::StatusOr<bool> TrainingLoop::RunEpoch() {
  const Position& at = progress_.dispatched;
  bool more = true;
  while (!stopping_ && (!fit_.endless() || at.step < fit_.options.steps_per_epoch)) {
    PENSTOCK_RETURN_IF_ERROR(PrepareLoop());
    InterruptDraining();
    if (stopping_) break;
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, BeginBatch());
    if (!batch.has_value()) {
      more = false;
      break;
    }
    PENSTOCK_RETURN_IF_ERROR(Dispatch(*std::move(batch)));
    MaybeOpenNextEpoch();
    const bool wants_state = callbacks_.WantsState(at);
    while (!stopping_ && (in_flight_.full() || (wants_state && !in_flight_.empty()))) {
      PENSTOCK_RETURN_IF_ERROR(CompleteOldest());
    }
  }
  PENSTOCK_RETURN_IF_ERROR(CompleteAll());
  // After a stop the devices complete what was dispatched, and nothing reads the reports.
  in_flight_.Abandon();
  if (profiler_ != nullptr) profiler_->DataRead(feed_->Report());
  if (stopping_ || fit_.endless()) return more || stopping_;
  if (progress_.completed.step == 0)
    return absl::InvalidArgumentError("there is nothing to train on: the dataset is empty");
  return true;
}

absl::Status TrainingLoop::EndEpoch() {
  if (!std::exchange(progress_.epoch_trained, true)) iterators_.PassEnded();
  // Before anything that may fail: validation, a full disk under a log.
  PENSTOCK_RETURN_IF_ERROR(ForEachCallback(
      "EpochTrained", [&](Callback& c) { return c.EpochTrained(*this, progress_.completed); }));
  if (progress_.history.interrupted) return absl::OkStatus();
  FitStats stats = meter_.Take();
  stats.steps = progress_.completed.step - epoch_first_step_;
  progress_.history.stats.push_back(stats);
  if (fit_.validation.has_value() &&
      (progress_.completed.epoch + 1) % fit_.options.validation_freq == 0) {
    const absl::StatusOr<Logs> validation = Validate();
    if (progress_.history.interrupted && validation.ok()) {
      progress_.history.stats.pop_back();
      return absl::OkStatus();
    }
    if (!validation.ok()) return base::WithContext(validation.status(), "validation");
    for (const auto& [name, value] : *validation) {
      progress_.logs.Set(absl::StrCat("val_", name), value);
    }
  }
  if (feed_ != nullptr) ReportHints();
  const Position ended = progress_.completed;
  const Logs logs = progress_.logs;
  progress_.steps_per_epoch = ended.step;
  progress_.history.epochs.push_back(logs);
  // A checkpoint saved from now on resumes at the beginning of the next epoch.
  progress_.dispatched = progress_.completed = {ended.epoch + 1, 0, ended.total_steps};
  progress_.epoch_trained = false;
  const absl::Status status =
      ForEachCallback("EpochEnd", [&](Callback& c) { return c.EpochEnd(*this, ended, logs); });
  last_batch_.reset();
  if (profiler_ != nullptr) profiler_->EpochEnds();
  return status;
}

absl::StatusOr<Logs> TrainingLoop::Validate() {
  const IdleMeter::Activity validating(meter_, HostWork::kExcluded);
  ReadOptions read = fit_.options.read;
  if (read.pool == nullptr) read.pool = iterators_.pool();
  EvaluationLoop evaluation(model_, *fit_.validation, read, callbacks_, profiler_.get(), this);
  return evaluation.Run();
}

// ---- Steps ----

absl::Status TrainingLoop::PrepareLoop() {
  if (loop_prepared_ || !model_.steps_tuner().wants_checkpoint()) return absl::OkStatus();
  {
    const IdleMeter::Activity data(meter_, HostWork::kData);
    ExpectBatches();
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, feed_->HasNext());
    if (!more) return absl::OkStatus();  // the epoch has ended, and its end is saved
  }
  loop_prepared_ = true;
  PENSTOCK_RETURN_IF_ERROR(CompleteAll());
  if (stopping_) return absl::OkStatus();
  return ForEachCallback("BeforeCompiling", [&](Callback& c) {
    return c.BeforeCompiling(*this, progress_.completed);
  });
}

void TrainingLoop::InterruptDraining() {
  const std::optional<std::string> why = draining();
  if (!why.has_value()) return;
  if (!draining_since_.has_value()) draining_since_ = progress_.dispatched.total_steps;
  if (progress_.completed.total_steps > *draining_since_) Interrupt(*why);
}

void TrainingLoop::ExpectBatches() {
  const int count = feed_->expects();
  if (count == 0) return;
  std::vector<HostFeed::Take> calls;
  Position position = progress_.dispatched;
  for (int i = 0; i < count; ++i) {
    const int64_t steps = StepsToDispatchAt(position);
    // The pass after an endless iterator's epoch continues with its next one.
    if (steps < 1) break;
    calls.push_back({model_.steps_tuner().depth(), steps});
    position.step += steps;
    position.total_steps += steps;
  }
  feed_->Expect(calls);
}

int64_t TrainingLoop::StepsToDispatchAt(Position position) const {
  int64_t steps = model_.steps_tuner().steps();
  if (fit_.endless()) steps = std::min(steps, fit_.options.steps_per_epoch - position.step);
  for (int64_t i = 1; i < steps; ++i) {
    ++position.step;
    ++position.total_steps;
    if (callbacks_.WantsState(position)) return i;
  }
  return steps;
}

absl::StatusOr<std::optional<DeviceBatch>> TrainingLoop::BeginBatch() {
  const Position& at = progress_.dispatched;
  const int64_t steps = StepsToDispatch();
  if (profiler_ != nullptr) profiler_->WillDispatch(at.total_steps + steps - first_step_);
  {
    const IdleMeter::Activity data(meter_, HostWork::kData);
    ExpectBatches();
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, feed_->HasNext());
    iterators_.BatchRead();
    if (!more) return std::nullopt;
  }
  // While the feed still has the batch: a checkpoint that a callback saves here continues with it.
  if (observes_batch_begin_) {
    PENSTOCK_RETURN_IF_ERROR(
        ForEachCallback("BatchBegin", [&](Callback& c) { return c.BatchBegin(*this, at); }));
  }
  const IdleMeter::Activity data(meter_, HostWork::kData);
  return feed_->Next(model_.steps_tuner().depth(), steps);
}

absl::Status TrainingLoop::Dispatch(DeviceBatch batch) {
  if (!step_.IsBoundTo(batch.types)) {
    const IdleMeter::Activity compile(meter_, HostWork::kCompile);
    PENSTOCK_RETURN_IF_ERROR(step_.Bind(batch.types, {callbacks_, trace()}));
  }
  Position& at = progress_.dispatched;
  std::vector<runtime::Buffers>& state = model_.state().replicas();
  std::vector<runtime::Buffers> arguments = state;
  for (size_t r = 0; r < state.size(); ++r) {
    arguments[r].insert(arguments[r].end(), batch.replicas[r].begin(), batch.replicas[r].end());
  }
  if (activity_host_ != nullptr) {
    activity_host_->SetTraining(at.total_steps + batch.steps, at.epoch + 1, fit_.options.epochs);
  }
  std::shared_ptr<ExecutionTimer> timer = meter_.Dispatched();
  if (at.step == epoch_first_step_) first_dispatched_ = timer->dispatched();
  base::Trace::Span dispatching(trace(), "dispatch", {"step", at.total_steps + batch.steps});
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<runtime::Buffers> results,
                            step_.executable().Execute(arguments));
  dispatching.End();
  for (size_t r = 0; r < state.size(); ++r) {
    for (const auto& [entry, result] : step_.updates()) {
      state[r][entry] = std::move(results[r][result]);
    }
  }
  const int64_t steps = batch.steps;
  progress_.batch_rows = feed_->batch_rows();
  progress_.examples_per_step =
      std::max(progress_.examples_per_step, (batch.examples + steps - 1) / steps);
  at.step += steps;
  at.total_steps += steps;
  if (first_types_ == nullptr) first_types_ = batch.types;
  PENSTOCK_RETURN_IF_ERROR(
      in_flight_.Add(results[0].back(), std::move(batch), std::move(arguments), std::move(timer)));
  for (size_t r = 1; profiler_ != nullptr && r < results.size(); ++r) {
    PENSTOCK_RETURN_IF_ERROR(in_flight_.TimeReplica(results[r].back()));
  }
  return absl::OkStatus();
}

void TrainingLoop::MaybeOpenNextEpoch() {
  const Position& at = progress_.dispatched;
  if (!iterators_.MayOpenAhead(at.epoch + 1)) return;
  const int64_t completed = progress_.completed.step - epoch_first_step_;
  const double seconds = model_.options().clock->Seconds() - first_dispatched_;
  const std::optional<double> step_seconds =
      completed > 0 ? std::optional(seconds / static_cast<double>(completed)) : std::nullopt;
  if (!iterators_.IsTimeToOpenAhead(progress_.steps_per_epoch - at.step, step_seconds,
                                    model_.steps_tuner().depth())) {
    return;
  }
  const IdleMeter::Activity data(meter_, HostWork::kData, "open the next epoch's data");
  iterators_.OpenAhead(at.epoch + 1);
}

absl::Status TrainingLoop::CompleteAll() {
  while (!stopping_ && !in_flight_.empty()) PENSTOCK_RETURN_IF_ERROR(CompleteOldest());
  return absl::OkStatus();
}

absl::Status TrainingLoop::CompleteOldest() {
  Position& at = progress_.completed;
  const Position before = at;
  absl::StatusOr<InFlight::Execution> execution = [&] {
    const IdleMeter::Activity wait(meter_, HostWork::kWait);
    return in_flight_.Take();
  }();
  if (!execution.ok()) {
    return base::WithContext(
        execution.status(), absl::StrCat("epoch ", before.epoch + 1, ", after step ", before.step));
  }
  Measure(*execution);
  at.step += execution->batch.steps;
  at.total_steps += execution->batch.steps;
  ProfileExecution(*execution);
  progress_.logs = model_.LogsOf(execution->report);
  scheduled_rate_ = model_.NextLearningRate(execution->report);
  if (halt_on_nan_) {
    PENSTOCK_RETURN_IF_ERROR(StopOnNan(*execution, before));
    if (stopping_) return absl::OkStatus();
  }
  if (model_.objective().optimizer.has_loss_scaling()) WarnOfSkippedSteps(*execution);
  // At steps 1, 2, 4, 8, ...: asking for hints costs a little.
  if (std::bit_width(static_cast<uint64_t>(before.step)) !=
      std::bit_width(static_cast<uint64_t>(at.step))) {
    ReportHints();
  }
  if (keeps_batch_) last_batch_ = std::move(execution->batch);
  return ForEachCallback("BatchEnd",
                         [&](Callback& c) { return c.BatchEnd(*this, at, progress_.logs); });
}

void TrainingLoop::Measure(const InFlight::Execution& execution) {
  // The report may arrive a moment before the timer is stopped.
  const double noted = execution.timer->finished();
  const double finished = noted >= 0 ? noted : model_.options().clock->Seconds();
  const double dispatched = execution.timer->dispatched();
  const double host = meter_.Spent(HostWork::kHost) + meter_.Spent(HostWork::kCallback);
  const double host_seconds = host - measured_host_;
  const double device_seconds = finished - std::max(last_finished_, dispatched);
  const double round_trip = feed_host_ == nullptr ? 0 : feed_host_->round_trip_seconds();
  model_.steps_tuner().Measured({.depth = execution.batch.types->depth,
                                 .steps = execution.batch.steps,
                                 .host_seconds = host_seconds,
                                 .device_seconds = device_seconds,
                                 .batch_bytes = execution.batch.bytes,
                                 .steps_per_epoch = progress_.steps_per_epoch,
                                 .round_trip_seconds = round_trip});
  // If the host waits for each execution, the device's idle time is known: most of the host's work
  // may be done while the device is busy. Otherwise it may be all of the host's work.
  const double gap = last_finished_ > 0 ? std::max(0.0, dispatched - last_finished_) : 0;
  if (round_trip > 0 && !max_bytes_in_flight_.has_value()) {
    const Strategy& strategy = model_.strategy();
    max_bytes_in_flight_ = InFlight::MaxBytesOf(strategy.client(), strategy.device(0));
  }
  in_flight_.Measured(model_.on_cpu(), device_seconds,
                      in_flight_.waits_for_each() ? std::min(gap, host_seconds) : host_seconds,
                      round_trip, execution.batch.bytes * execution.batch.types->depth,
                      max_bytes_in_flight_.value_or(InFlight::kMaxBytes));
  last_execution_ = {.steps = execution.batch.steps,
                     .examples = execution.batch.examples,
                     .dispatched = dispatched,
                     .finished = finished,
                     .device_seconds = device_seconds};
  last_finished_ = finished;
  measured_host_ = host;
}

absl::Status TrainingLoop::StopOnNan(const InFlight::Execution& execution, const Position& before) {
  const float halted = execution.report.values<float>().back();
  if (!(halted >= 0)) return absl::OkStatus();
  const auto step = static_cast<int64_t>(halted);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string place, FindNan(model_, execution.batch, step));
  Stop(absl::StrCat("epoch ", before.epoch + 1, ", step ", before.step + step + 1, ": ", place,
                    " is not finite (NaN or infinity); the weights are those from before this step",
                    WrongLabels(model_, execution.batch, step)));
  return absl::OkStatus();
}

void TrainingLoop::WarnOfSkippedSteps(const InFlight::Execution& execution) {
  const auto report = execution.report.values<float>();
  const size_t first = report.size() - 3;  // skipped steps, the scale, the halted step
  const std::optional<std::string> warning =
      skipped_.After(execution.batch.steps, progress_.completed.total_steps,
                     static_cast<int64_t>(report[first]), report[first + 1]);
  if (warning.has_value()) Warn(*warning);
}

void TrainingLoop::ReportHints() {
  for (const std::string& hint : feed_->Hints()) callbacks_.NoteOnce(hint);
}

// ---- The profile ----

void TrainingLoop::ProfileExecution(const InFlight::Execution& execution) {
  if (profiler_ == nullptr) return;
  const int64_t total = progress_.completed.total_steps;
  profiler_->Executed(execution.batch.types->depth == 1 ? "train_step" : "train_steps", execution,
                      total);
  if (!profiler_->Completed(total - first_step_)) return;
  const IdleMeter::Activity writing(meter_, HostWork::kCallback);
  NoteError(profiler_->WriteTrace());
}

void TrainingLoop::FinishProfile() {
  // The operations are timed on idle devices and cores.
  in_flight_.Abandon();
  feed_ = nullptr;
  iterators_.Close();
  NoteError(status_.ok() ? WriteProfile() : profiler_->WriteTrace());
}

absl::Status TrainingLoop::WriteProfile() {
  FitStats stats = meter_.Take();  // of an interrupted epoch
  for (const FitStats& epoch : progress_.history.stats) stats += epoch;
  std::unique_ptr<ir::Graph> step;
  auto made = StepGraph();
  NoteError(made.status());
  if (made.ok()) step = *std::move(made);
  const auto print = [this](const ir::Graph& graph) {
    return model_.strategy().lowering().Print(
        graph, {.matmul_precision = model_.objective().matmul_precision});
  };
  return profiler_->Finish(stats, step.get(), print);
}

void TrainingLoop::NoteError(const absl::Status& status) {
  if (!status.ok()) Note(status.message());
}

}  // namespace penstock::train
