#include "penstock/train/fit_run.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/data/stage.h"

namespace penstock::train {
namespace {

// Whether one pass over the data leaves something behind for the next.
bool KeepsElements(const data::Dataset::Description& dataset) {
  const absl::string_view name = dataset.stage->name();
  return name == "Cache" || name == "Snapshot" ||
         std::any_of(dataset.inputs.begin(), dataset.inputs.end(),
                     [](const auto& input) { return KeepsElements(*input); });
}

std::unique_ptr<Profiler> MakeProfiler(const FitOptions& options, const Strategy& strategy,
                                       base::Clock* clock) {
  const ProfileOptions* profile = options.profile.has_value() ? &*options.profile : nullptr;
  for (const auto& callback : options.callbacks) {
    if (profile == nullptr) profile = callback->profile();
  }
  return profile == nullptr ? nullptr : std::make_unique<Profiler>(*profile, strategy, clock);
}

}  // namespace

FitRun::FitRun(Trainer& trainer, const data::Dataset& dataset, const FitOptions& options)
    : trainer_(trainer),
      dataset_(dataset),
      options_(options),
      callbacks_(options.callbacks),
      profiler_(MakeProfiler(options, trainer.strategy(), trainer.options_.clock)),
      meter_(trainer.options_.clock, trace()) {
  if (OnCpu()) in_flight_.SetLimit(0);  // until one has been measured
  std::stable_partition(callbacks_.begin(), callbacks_.end(),
                        [](const auto& c) { return !c->GoesLast(); });
  for (const auto& callback : callbacks_) halt_on_nan_ = halt_on_nan_ || callback->StopsOnNan();
  if (options.steps_per_epoch > 0) steps_per_epoch_ = options.steps_per_epoch;
  for (const auto& callback : callbacks_) {
    if (profiler_ != nullptr) callback_names_.push_back(callback->name());
  }
}

template <typename Call>
absl::Status FitRun::ForEachCallback(const char* what, Call call) {
  const IdleMeter::Doing callbacks(meter_, HostWork::kCallback);
  // A callback is user-defined: an exception ends the training like an error.
  const auto guarded = [&](Callback& callback) -> absl::Status {
    absl::Status status;
    try {
      status = call(callback);
    } catch (...) {
      status = base::WithContext(base::StatusOfException(),
                                 absl::StrCat("callback ", callback.name(), ".", what));
    }
    if (status.ok() || !callback.IsLog() || absl::EndsWith(what, "Begin")) return status;
    if (told_.insert(callback.name()).second) {
      std::fprintf(stderr, "warning: %s: %s; training continues\n", callback.name().c_str(),
                   std::string(status.message()).c_str());
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    if (profiler_ == nullptr || !profiler_->trace()->recording()) {
      PENSTOCK_RETURN_IF_ERROR(guarded(*callbacks_[i]));
      continue;
    }
    // "Checkpoint.BatchEnd", if it does anything.
    constexpr double kShortestTraced = 2e-6;
    const double began = trace()->Now();
    const absl::Status status = guarded(*callbacks_[i]);
    if (const double now = trace()->Now(); now - began >= kShortestTraced) {
      trace()->Add(absl::StrCat(callback_names_[i], ".", what), began, now);
    }
    PENSTOCK_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

void FitRun::Stop(std::string reason) {
  if (!stopping_) history_.stop_reason = std::move(reason);
  stopping_ = true;
}

absl::StatusOr<History> FitRun::Go() {
  PENSTOCK_RETURN_IF_ERROR(Check());
  dispatched_.epoch = settled_.epoch = options_.initial_epoch;
  // The methods of callbacks that ForEachCallback does not call may throw as well.
  absl::Status status = base::CatchExceptions([&] { return Train(); });
  failed_ = !status.ok();
  // Callbacks close their files whatever happened; the first error is the one to return.
  const absl::Status ended =
      ForEachCallback("TrainEnd", [&](Callback& c) { return c.TrainEnd(*this); });
  if (status.ok()) status = ended;
  if (profiler_ != nullptr) FinishProfile(status);
  trainer_.steps_tuner_.Release();
  if (!status.ok()) return status;
  return std::move(history_);
}

absl::Status FitRun::Train() {
  PENSTOCK_RETURN_IF_ERROR(
      ForEachCallback("TrainBegin", [&](Callback& c) { return c.TrainBegin(*this); }));
  first_step_ = dispatched_.total_steps;
  for (const std::string& advice : trainer_.Advice()) Note(advice);
  // Only the end of the last epoch may be left: its validation and EpochEnd.
  if (dispatched_.epoch + (epoch_trained_ ? 1 : 0) >= options_.epochs) {
    Note(absl::StrCat("all ", options_.epochs, options_.epochs == 1 ? " epoch is" : " epochs are",
                      " done already; there is nothing to train"));
  }
  // An earlier training that met a NaN halted the state for good; this one may go on.
  if (halt_on_nan_) {
    PENSTOCK_RETURN_IF_ERROR(trainer_.state_.Set(trainer_.layout_, trainer_.strategy(),
                                                 trainer_.layout_.halted,
                                                 Array::Scalar<int32_t>(-1)));
  }
  while (dispatched_.epoch < options_.epochs && !stopping_) {
    PENSTOCK_RETURN_IF_ERROR(BeginEpoch());
    bool whole = true;
    if (!epoch_trained_) {
      PENSTOCK_ASSIGN_OR_RETURN(whole, RunEpoch());
    }
    if (!whole) {
      Stop(absl::StrCat("the data ended after ", settled_.step, " of ", steps_per_epoch_,
                        " steps of epoch ", settled_.epoch + 1,
                        "; add Repeat() to the dataset, or leave steps_per_epoch out"));
    }
    // An epoch that was broken off has no end: its numbers are not an epoch's.
    if (stopping_) break;
    PENSTOCK_RETURN_IF_ERROR(EndEpoch());
  }
  return trainer_.state_.TakeAverages(trainer_.layout_, trainer_.strategy());
}

absl::StatusOr<std::unique_ptr<data::Iterator>> FitRun::MakeIterator(int epoch) {
  data::IteratorOptions options = {.pool = options_.read.pool,
                                   .file_system = options_.read.file_system,
                                   .deterministic = options_.read.deterministic,
                                   .trace = trace()};
  if (profiler_ != nullptr) options.clock = trainer_.options_.clock;
  if (options.pool == nullptr) {
    // One for all epochs: two of them are read at once for a moment.
    if (pool_ == nullptr) {
      // Where the cores are the device, a step waits for each of its threads, so decoding a later
      // batch is not to take the place of one.
      const auto priority =
          OnCpu() ? base::ThreadPool::Priority::kBackground : base::ThreadPool::Priority::kNormal;
      PENSTOCK_ASSIGN_OR_RETURN(pool_, base::ThreadPool::Make(base::NumCores(), "data", priority));
    }
    options.pool = pool_.get();
  }
  if (resume_at_.has_value()) {
    options.state = *std::exchange(resume_at_, std::nullopt);
  } else {
    options.seed = trainer_.options_.seed;
    options.epoch = epoch;
  }
  return dataset_.MakeIterator(options);
}

// With steps_per_epoch the data goes on from epoch to epoch; without, each epoch is a pass of its
// own.
absl::Status FitRun::OpenFeed() {
  if (endless() && feed_ != nullptr) return absl::OkStatus();
  if (!endless() && epoch_trained_) return absl::OkStatus();  // this epoch reads no more data
  const IdleMeter::Doing data(meter_, HostWork::kData, "open the data");
  feed_ = nullptr;  // what it holds is free before more is needed
  const bool within_a_pass = resume_at_.has_value();
  if (!next_data_.has_value()) {
    opened_ = trainer_.options_.clock->Seconds();
    next_data_ = MakeIterator(endless() ? 0 : dispatched_.epoch);
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, *std::exchange(next_data_, std::nullopt));
  feed_ =
      std::make_unique<Feed>(std::move(iterator), trainer_.objective().network, trainer_.strategy(),
                             Feed::Options{.columns = trainer_.options_.columns,
                                           .class_weight = options_.class_weight,
                                           .targets = trainer_.TargetsToCheck(),
                                           .trace = trace(),
                                           .batch_rows = within_a_pass ? batch_rows_ : 0});
  return absl::OkStatus();
}

void FitRun::MaybeReadAhead() {
  if (endless() || next_data_.has_value() || dispatched_.epoch + 1 == options_.epochs) return;
  // Only a pass that has ended shows how long one is. And a cache is filled by one pass at a time,
  // which may be the second (what does not fit into memory) or the third (of a resumed run).
  if (whole_passes_ < (KeepsElements(dataset_.description()) ? 3 : 1)) return;
  const int64_t left = steps_per_epoch_ - dispatched_.step;
  const double step_seconds = (trainer_.options_.clock->Seconds() - epoch_began_) /
                              static_cast<double>(dispatched_.step - epoch_first_step_);
  if (left <= 2 * trainer_.steps_tuner_.depth() ||
      static_cast<double>(left) * step_seconds <= 2 * fill_seconds_) {
    const IdleMeter::Doing data(meter_, HostWork::kData, "open the next epoch's data");
    next_data_ = MakeIterator(dispatched_.epoch + 1);
  }
}

absl::Status FitRun::BeginEpoch() {
  if (profiler_ != nullptr) profiler_->EpochBegins(dispatched_.epoch);
  PENSTOCK_RETURN_IF_ERROR(OpenFeed());
  logs_ = std::exchange(resumed_logs_, Logs());
  epoch_first_step_ = dispatched_.step;
  epoch_began_ = trainer_.options_.clock->Seconds();
  if (!resumed_mid_epoch_) {
    // Metrics are of this epoch only. In a resumed epoch their sums came with the state.
    PENSTOCK_ASSIGN_OR_RETURN(const auto zeros, trainer_.ZeroMetrics());
    for (size_t r = 0; r < zeros.size(); ++r) {
      std::copy(zeros[r].begin(), zeros[r].end(),
                trainer_.state_.replicas()[r].begin() + trainer_.layout_.first_metric);
    }
  }
  resumed_mid_epoch_ = false;
  return ForEachCallback("EpochBegin",
                         [&](Callback& c) { return c.EpochBegin(*this, dispatched_); });
}

int64_t FitRun::StepsToGive() const {
  int64_t steps = trainer_.steps_tuner_.steps();
  if (endless()) steps = std::min(steps, options_.steps_per_epoch - dispatched_.step);
  Position position = dispatched_;
  for (int64_t i = 1; i < steps; ++i) {
    ++position.step;
    ++position.total_steps;
    for (const auto& callback : callbacks_) {
      if (callback->WantsState(position)) return i;
    }
  }
  return steps;
}

absl::Status FitRun::PrepareLoop() {
  if (loop_prepared_ || !trainer_.steps_tuner_.wants_checkpoint()) return absl::OkStatus();
  {
    const IdleMeter::Doing data(meter_, HostWork::kData);
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, feed_->HasNext());
    if (!more) return absl::OkStatus();  // the epoch is over, and its end is saved
  }
  loop_prepared_ = true;
  while (!stopping_ && !in_flight_.empty()) PENSTOCK_RETURN_IF_ERROR(Settle());
  if (stopping_) return absl::OkStatus();
  return ForEachCallback("BeforeCompiling",
                         [&](Callback& c) { return c.BeforeCompiling(*this, settled_); });
}

absl::StatusOr<bool> FitRun::RunEpoch() {
  bool more = true;
  while (!stopping_ && (!endless() || dispatched_.step < options_.steps_per_epoch)) {
    PENSTOCK_RETURN_IF_ERROR(PrepareLoop());
    if (stopping_) break;
    std::optional<DeviceBatch> batch;
    {
      const int64_t steps = StepsToGive();
      if (profiler_ != nullptr) {
        profiler_->WillGive(dispatched_.total_steps + steps - first_step_);
      }
      const IdleMeter::Doing data(meter_, HostWork::kData);
      PENSTOCK_ASSIGN_OR_RETURN(batch, feed_->Next(trainer_.steps_tuner_.depth(), steps));
    }
    if (!batch.has_value()) {
      more = false;
      break;
    }
    PENSTOCK_RETURN_IF_ERROR(Dispatch(*std::move(batch)));
    MaybeReadAhead();
    bool wanted = false;
    for (const auto& callback : callbacks_) wanted = wanted || callback->WantsState(dispatched_);
    while (!stopping_ && (in_flight_.full() || (wanted && !in_flight_.empty()))) {
      PENSTOCK_RETURN_IF_ERROR(Settle());
    }
  }
  while (!stopping_ && !in_flight_.empty()) PENSTOCK_RETURN_IF_ERROR(Settle());
  // After a stop the devices finish what they were given; nobody looks at the numbers.
  in_flight_.Abandon();
  if (profiler_ != nullptr) profiler_->DataRead(feed_->Report());
  if (stopping_ || options_.steps_per_epoch > 0) return more || stopping_;
  if (settled_.step == 0)
    return absl::InvalidArgumentError("there is nothing to train on: the dataset is empty");
  return true;
}

absl::Status FitRun::Dispatch(DeviceBatch batch) {
  auto& kept = halt_on_nan_ ? trainer_.halting_train_steps_ : trainer_.train_steps_;
  std::shared_ptr<runtime::Executable> executable;
  {
    const IdleMeter::Doing compile(meter_, HostWork::kCompile);
    PENSTOCK_ASSIGN_OR_RETURN(executable,
                              trainer_.Compile(kept, batch.types, callbacks_, trace(), [&] {
                                return TrainStep(trainer_.objective(), trainer_.layout_,
                                                 batch.types, trainer_.strategy().num_replicas(),
                                                 halt_on_nan_, trainer_.strategy().lowering());
                              }));
  }
  std::vector<runtime::Buffers>& state = trainer_.state_.replicas();
  std::vector<runtime::Buffers> arguments = state;
  for (size_t r = 0; r < state.size(); ++r) {
    arguments[r].insert(arguments[r].end(), batch.replicas[r].begin(), batch.replicas[r].end());
  }
  std::shared_ptr<IdleMeter::Execution> execution = meter_.Give();
  base::Trace::Span executing(trace(), "give an execution",
                              {"step", dispatched_.total_steps + batch.steps});
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<runtime::Buffers> results, executable->Execute(arguments));
  executing.End();
  runtime::Buffers reports;
  const std::vector<int>& changed = executable->program().alias;
  for (size_t r = 0; r < state.size(); ++r) {
    for (size_t i = 0; i < changed.size(); ++i) {
      if (changed[i] >= 0) state[r][i] = std::move(results[r][changed[i]]);
    }
    reports.push_back(std::move(results[r].back()));
  }
  const int64_t steps = batch.steps;
  batch_rows_ = feed_->batch_rows();
  examples_per_step_ = std::max(examples_per_step_, (batch.examples + steps - 1) / steps);
  dispatched_.step += steps;
  dispatched_.total_steps += steps;
  if (profiler_ != nullptr && !batch_types_.has_value()) batch_types_ = batch.types;
  PENSTOCK_RETURN_IF_ERROR(
      in_flight_.Add(reports[0], std::move(batch), std::move(arguments), std::move(execution)));
  for (size_t r = 1; profiler_ != nullptr && r < reports.size(); ++r) {
    PENSTOCK_RETURN_IF_ERROR(in_flight_.Watch(reports[r]));
  }
  return absl::OkStatus();
}

absl::Status FitRun::Settle() {
  const Position before = settled_;
  absl::StatusOr<InFlight::Step> step = [&] {
    const IdleMeter::Doing wait(meter_, HostWork::kWait);
    return in_flight_.Take();
  }();
  if (!step.ok()) {
    return base::WithContext(
        step.status(), absl::StrCat("epoch ", before.epoch + 1, ", after step ", before.step));
  }
  Measure(*step);
  settled_.step += step->batch.steps;
  settled_.total_steps += step->batch.steps;
  if (profiler_ != nullptr) {
    profiler_->Executed(step->batch.types.depth == 1 ? "train_step" : "train_steps", *step,
                        settled_.total_steps);
    if (profiler_->Done(settled_.total_steps - first_step_)) {
      const IdleMeter::Doing writing(meter_, HostWork::kCallback);
      TellProfileError(profiler_->WriteTrace());
    }
  }
  logs_ = trainer_.LogsOf(step->report);
  if (const float halted = step->report.values<float>().back(); halt_on_nan_ && halted >= 0) {
    const auto index = static_cast<int64_t>(halted);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string place, FindNan(step->batch, index));
    Stop(absl::StrCat(
        "epoch ", before.epoch + 1, ", step ", before.step + index + 1, ": ", place,
        " is not finite (NaN or infinity); the weights are those from before this step",
        LabelsOf(step->batch, index)));
    return absl::OkStatus();
  }
  if (trainer_.objective().optimizer.has_loss_scaling()) WarnOfSkippedSteps(*step);
  // Early, and then ever less often: asking costs a little.
  if (std::bit_width(static_cast<uint64_t>(before.step)) !=
      std::bit_width(static_cast<uint64_t>(settled_.step))) {
    TellHints();
  }
  return ForEachCallback("BatchEnd",
                         [&](Callback& c) { return c.BatchEnd(*this, settled_, logs_); });
}

void FitRun::WarnOfSkippedSteps(const InFlight::Step& step) {
  const auto report = step.report.values<float>();
  const size_t first = report.size() - 3;  // skipped steps, the scale, the halted step
  const std::optional<std::string> warning =
      skipped_.After(step.batch.steps, settled_.total_steps, static_cast<int64_t>(report[first]),
                     report[first + 1]);
  if (warning.has_value()) Warn(*warning);
}

void FitRun::TellHints() {
  for (const std::string& hint : feed_->Hints()) {
    if (told_.insert(hint).second) Note(hint);
  }
}

void FitRun::Measure(const InFlight::Step& step) {
  // The report may be here a moment before the moment is noted.
  const double noted = step.execution->finished();
  const double finished = noted >= 0 ? noted : trainer_.options_.clock->Seconds();
  const double host = meter_.Spent(HostWork::kHost) + meter_.Spent(HostWork::kCallback);
  const double host_seconds = host - measured_host_;
  const double device_seconds = finished - std::max(last_finished_, step.execution->given());
  trainer_.steps_tuner_.Measured({.depth = step.batch.types.depth,
                                  .steps = step.batch.steps,
                                  .host_seconds = host_seconds,
                                  .device_seconds = device_seconds,
                                  .batch_bytes = step.batch.bytes,
                                  .steps_per_epoch = steps_per_epoch_});
  // Where the host waits for each execution, it is known what the device lost: most of the host's
  // work may be done while the device has some. Otherwise it could be all.
  const double gap =
      last_finished_ > 0 ? std::max(0.0, step.execution->given() - last_finished_) : 0;
  in_flight_.Measured(OnCpu(), device_seconds,
                      in_flight_.waits_for_each() ? std::min(gap, host_seconds) : host_seconds);
  last_finished_ = finished;
  measured_host_ = host;
}

absl::Status FitRun::EndEpoch() {
  if (!std::exchange(epoch_trained_, true)) ++whole_passes_;
  // Runs before anything that may fail: validation, a full disk under a log.
  PENSTOCK_RETURN_IF_ERROR(ForEachCallback(
      "EpochTrained", [&](Callback& c) { return c.EpochTrained(*this, settled_); }));
  FitStats stats = meter_.Take();
  stats.steps = settled_.step - epoch_first_step_;
  history_.stats.push_back(stats);
  if (options_.validation != nullptr && (settled_.epoch + 1) % options_.validation_freq == 0) {
    const IdleMeter::Doing validating(meter_, HostWork::kLeftOut);
    ReadOptions read = options_.read;
    if (read.pool == nullptr) read.pool = pool_.get();
    absl::StatusOr<Logs> validation =
        trainer_.EvaluateWith(*options_.validation, read, callbacks_, profiler_.get());
    if (!validation.ok()) return base::WithContext(validation.status(), "validation");
    for (const auto& [name, value] : *validation) logs_.Set(absl::StrCat("val_", name), value);
  }
  if (feed_ != nullptr) TellHints();
  steps_per_epoch_ = settled_.step;
  history_.epochs.push_back(logs_);
  const Position ended = settled_;
  // The position of a checkpoint made now is the start of the next epoch.
  dispatched_ = {ended.epoch + 1, 0, ended.total_steps};
  settled_ = dispatched_;
  epoch_trained_ = false;
  const absl::Status status =
      ForEachCallback("EpochEnd", [&](Callback& c) { return c.EpochEnd(*this, ended, logs_); });
  if (profiler_ != nullptr) profiler_->EpochEnds();
  return status;
}

void FitRun::FinishProfile(const absl::Status& trained) {
  // The devices and the cores are the profile's now.
  in_flight_.Abandon();
  feed_ = nullptr;
  next_data_.reset();
  if (!trained.ok()) return TellProfileError(profiler_->WriteTrace());
  FitStats stats = meter_.Take();  // of an epoch that was broken off
  for (const FitStats& epoch : history_.stats) stats += epoch;
  std::unique_ptr<ir::Graph> step;
  if (batch_types_.has_value()) {
    batch_types_->depth = 1;
    auto made = TrainGraph(trainer_.objective(), trainer_.layout_, *batch_types_,
                           trainer_.strategy().num_replicas(), halt_on_nan_);
    TellProfileError(made.status());
    if (made.ok()) step = std::move(made->graph);
  }
  const auto print = [this](const ir::Graph& graph) {
    return trainer_.strategy().lowering().Print(
        graph, {.matmul_precision = trainer_.objective().matmul_precision});
  };
  TellProfileError(profiler_->Finish(stats, step.get(), print));
}

void FitRun::TellProfileError(const absl::Status& status) {
  if (!status.ok()) Note(status.message());
}

}  // namespace penstock::train
