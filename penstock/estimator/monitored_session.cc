#include "penstock/estimator/monitored_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/estimator/monitored_loop.h"
#include "penstock/estimator/restore.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/session/train/saver.h"
#include "penstock/session/variable.h"
#include "penstock/train/training_lock.h"

namespace penstock::estimator {

struct MonitoredTrainingSession::State {
  explicit State(const MonitoredTrainingSessionOptions& given) : options(given) {}

  absl::Status Open();
  absl::Status CheckIntervals() const;
  Hooks AllHooks() const;
  // Initializes or restores the variables; whether from a checkpoint.
  absl::StatusOr<bool> SetVariables();
  absl::Status SetInitialValues();
  absl::Status CheckReady() const;
  bool Saves() const {
    return !options.checkpoint_dir.empty() && (options.save_checkpoint_steps.value_or(0) > 0 ||
                                               (!options.save_checkpoint_steps.has_value() &&
                                                options.save_checkpoint_secs.value_or(600) > 0));
  }

  const MonitoredTrainingSessionOptions options;
  std::shared_ptr<io::FileSystem> fs;
  std::shared_ptr<void> lock;  // of checkpoint_dir
  session::Graph* graph = nullptr;
  std::optional<session::Session> session;
  std::optional<MonitoredLoop> loop;
  absl::Status status;
  bool ended = false;   // the input
  bool closed = false;  // also after an error
};

absl::Status MonitoredTrainingSession::State::CheckIntervals() const {
  const auto both = [](const char* what, bool steps, bool seconds) {
    if (!steps || !seconds) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("MonitoredTrainingSession: ", what,
                                                   "_steps and ", what,
                                                   "_secs are both given; give one of them"));
  };
  PENSTOCK_RETURN_IF_ERROR(both("save_checkpoint", options.save_checkpoint_steps.has_value(),
                                options.save_checkpoint_secs.has_value()));
  return both("save_summaries", options.save_summaries_steps.has_value(),
              options.save_summaries_secs.has_value());
}

Hooks MonitoredTrainingSession::State::AllHooks() const {
  Hooks hooks;
  const std::string& folder =
      options.summary_dir.empty() ? options.checkpoint_dir : options.summary_dir;
  if (!options.checkpoint_dir.empty() && options.log_step_count_steps > 0) {
    hooks.push_back(StepCounterHook({.every_n_steps = options.log_step_count_steps,
                                     .output_dir = folder,
                                     .file_system = fs,
                                     .clock = options.clock}));
  }
  std::optional<int64_t> every = options.save_summaries_steps;
  if (!every.has_value() && !options.save_summaries_secs.has_value()) every = 100;
  if (!options.checkpoint_dir.empty() &&
      (every.value_or(0) > 0 || options.save_summaries_secs.value_or(0) > 0)) {
    hooks.push_back(SummarySaverHook({.save_steps = every,
                                      .save_secs = options.save_summaries_secs,
                                      .output_dir = folder,
                                      .file_system = fs,
                                      .clock = options.clock}));
  }
  const bool saves_itself =
      std::any_of(options.hooks.begin(), options.hooks.end(),
                  [](const Hook& h) { return h != nullptr && h->SavesCheckpoints({}); });
  if (Saves() && !saves_itself) {
    CheckpointSaverOptions saver{.checkpoint_dir = options.checkpoint_dir,
                                 .save_steps = options.save_checkpoint_steps,
                                 .max_to_keep = options.max_to_keep,
                                 .file_system = fs,
                                 .clock = options.clock};
    if (!saver.save_steps.has_value()) saver.save_secs = options.save_checkpoint_secs.value_or(600);
    hooks.push_back(CheckpointSaverHook(std::move(saver)));
  }
  hooks.insert(hooks.end(), options.hooks.begin(), options.hooks.end());
  return hooks;
}

absl::Status MonitoredTrainingSession::State::SetInitialValues() {
  const Scaffold& scaffold = options.scaffold;
  const session::Operation init =
      scaffold.init_op.valid() ? scaffold.init_op : session::GlobalVariablesInitializer();
  PENSTOCK_RETURN_IF_ERROR(session->Run(init, scaffold.init_feed_dict));
  if (scaffold.init_fn == nullptr) return absl::OkStatus();
  return base::WithContext(base::CatchExceptions([&] { return scaffold.init_fn(*session); }),
                           "init_fn");
}

absl::StatusOr<bool> MonitoredTrainingSession::State::SetVariables() {
  std::string checkpoint;
  if (!options.checkpoint_dir.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(checkpoint,
                              NewestCheckpoint(*fs, options.checkpoint_dir, options.log));
  }
  if (checkpoint.empty()) {
    PENSTOCK_RETURN_IF_ERROR(SetInitialValues());
  } else {
    const session::train::Saver saver(session::train::SaverOptions{.file_system = fs});
    PENSTOCK_RETURN_IF_ERROR(saver.Restore(*session, checkpoint));
    if (options.log != nullptr) {
      options.log(absl::StrCat("restored ", io::DisplayName(checkpoint)));
    }
  }
  if (options.scaffold.local_init_op.valid()) {
    PENSTOCK_RETURN_IF_ERROR(session->Run(options.scaffold.local_init_op));
  } else if (!session::LocalVariables().empty()) {
    PENSTOCK_RETURN_IF_ERROR(session->Run(session::LocalVariablesInitializer()));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckReady());
  return !checkpoint.empty();
}

absl::Status MonitoredTrainingSession::State::CheckReady() const {
  const std::vector<std::string> missing = session->UninitializedVariables();
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "MonitoredTrainingSession: after the initialization these variables have no "
      "value: ",
      absl::StrJoin(missing, ", "), "; check Scaffold::init_op, init_fn and local_init_op"));
}

absl::Status MonitoredTrainingSession::State::Open() {
  PENSTOCK_RETURN_IF_ERROR(CheckIntervals());
  graph = session::Graph::Default();
  if (graph == nullptr) {
    return absl::FailedPreconditionError(
        "MonitoredTrainingSession: there is no default graph; keep the result of "
        "Graph::AsDefault() alive");
  }
  fs = options.file_system;
  if (fs == nullptr) fs = io::FileSystem::Default();
  if (!options.checkpoint_dir.empty()) {
    PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(*fs, options.checkpoint_dir));
    PENSTOCK_ASSIGN_OR_RETURN(lock, train::LockForTraining(*fs, options.checkpoint_dir));
  }
  loop.emplace(AllHooks(), options.log);
  PENSTOCK_RETURN_IF_ERROR(loop->Begin());
  PENSTOCK_RETURN_IF_ERROR(graph->status());
  const session::Variable step = session::GetGlobalStep();
  if (!step.valid() && Saves()) {
    return absl::FailedPreconditionError(
        "MonitoredTrainingSession: checkpoints need a global step; call GetOrCreateGlobalStep() "
        "and pass it to Minimize");
  }
  session.emplace(options.master, options.config, graph);
  PENSTOCK_RETURN_IF_ERROR(session->status());
  PENSTOCK_ASSIGN_OR_RETURN(const bool restored, SetVariables());
  return loop->Start(*session, {.global_step = step.valid() ? step.def()->name : "",
                                .restored = restored,
                                .runs_anything = true});
}

MonitoredTrainingSession::MonitoredTrainingSession(const MonitoredTrainingSessionOptions& options)
    : state_(std::make_unique<State>(options)) {
  state_->status = state_->Open();
}

MonitoredTrainingSession::~MonitoredTrainingSession() = default;
MonitoredTrainingSession::MonitoredTrainingSession(MonitoredTrainingSession&&) noexcept = default;
MonitoredTrainingSession& MonitoredTrainingSession::operator=(MonitoredTrainingSession&&) noexcept =
    default;

const absl::Status& MonitoredTrainingSession::status() const { return state_->status; }

absl::StatusOr<std::vector<base::Array>> MonitoredTrainingSession::Run(
    const session::Fetches& fetches, const session::FeedDict& feeds) {
  PENSTOCK_RETURN_IF_ERROR(state_->status);
  if (state_->closed) {
    return absl::FailedPreconditionError(
        "MonitoredTrainingSession: Run was called after Close or after an error; make another "
        "session");
  }
  if (state_->ended) return absl::OutOfRangeError("the input has ended");
  const session::Graph::DefaultScope scope = state_->graph->AsDefault();
  std::vector<base::Array> values;
  const absl::StatusOr<bool> more = state_->loop->Run(fetches, 1, &values, feeds);
  if (!more.ok()) {
    state_->closed = true;
    return more.status();
  }
  if (*more) return values;
  state_->ended = true;
  return absl::OutOfRangeError("the input has ended");
}

absl::Status MonitoredTrainingSession::Run(const session::Operation& fetch,
                                           const session::FeedDict& feeds) {
  return Run(session::Fetches{fetch}, feeds).status();
}

bool MonitoredTrainingSession::should_stop() const {
  return !state_->status.ok() || state_->closed || state_->ended || state_->loop->should_stop();
}

absl::Status MonitoredTrainingSession::Close() {
  PENSTOCK_RETURN_IF_ERROR(state_->status);
  if (std::exchange(state_->closed, true)) return absl::OkStatus();
  const session::Graph::DefaultScope scope = state_->graph->AsDefault();
  return state_->loop->End();
}

int64_t MonitoredTrainingSession::global_step() const {
  return state_->status.ok() ? state_->loop->global_step() : 0;
}

session::Session* MonitoredTrainingSession::raw_session() {
  return state_->session.has_value() ? &*state_->session : nullptr;
}

}  // namespace penstock::estimator
