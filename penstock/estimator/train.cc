// Estimator::Train.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/with_commas.h"
#include "penstock/estimator/estimator.h"
#include "penstock/estimator/hooks/progress.h"
#include "penstock/estimator/input_position.h"
#include "penstock/estimator/model_builder.h"
#include "penstock/estimator/monitored_loop.h"
#include "penstock/estimator/restore.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/io/write_check.h"
#include "penstock/session/train/saver.h"
#include "penstock/train/training_lock.h"

namespace penstock::estimator {

// One call of Train.
class TrainingRun {
 public:
  TrainingRun(const Estimator& estimator, const TrainOptions& options,
              std::optional<WarmStartSettings> warm_start, int64_t steps_per_execution)
      : estimator_(estimator),
        config_(estimator.config()),
        options_(options),
        warm_start_(std::move(warm_start)),
        steps_per_execution_(steps_per_execution) {}

  absl::Status Run(const InputFn& input_fn) {
    PENSTOCK_ASSIGN_OR_RETURN(fs_, estimator_.Files());
    PENSTOCK_RETURN_IF_ERROR(CheckModelDir());
    PENSTOCK_ASSIGN_OR_RETURN(lock_, train::LockForTraining(*fs_, estimator_.model_dir()));
    PENSTOCK_ASSIGN_OR_RETURN(checkpoint_, estimator_.LatestCheckpoint());
    PENSTOCK_ASSIGN_OR_RETURN(const bool done, HasReachedMaxSteps());
    if (done) {
      config_.Log(absl::StrCat("skipping training: the checkpoint ", io::DisplayName(checkpoint_),
                               " has reached max_steps = ", *options_.max_steps));
      return absl::OkStatus();
    }
    PENSTOCK_RETURN_IF_ERROR(BuildModel(input_fn));
    const auto scope = built_.graph->AsDefault();
    MonitoredLoop loop(AllHooks(), config_.log);
    PENSTOCK_RETURN_IF_ERROR(loop.Begin());
    PENSTOCK_RETURN_IF_ERROR(built_.graph->status());
    PENSTOCK_ASSIGN_OR_RETURN(
        session::Session session,
        ModelBuilder(estimator_, ModeKeys::kTrain).MakeSession(*built_.graph));
    PENSTOCK_RETURN_IF_ERROR(SetVariables(session));
    PENSTOCK_RETURN_IF_ERROR(loop.Start(session, StartOptions(loop)));
    return Loop(loop);
  }

  // Whether the input ended where the last training had stopped, so that Run did no step. The next
  // run begins with the first element.
  bool found_no_more() const { return found_no_more_; }

 private:
  absl::Status CheckModelDir() const {
    const absl::Status writable = io::CheckWritableFolder(*fs_, estimator_.model_dir());
    if (!io::IsElsewhere(*fs_)) return writable;
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(
        writable,
        "the estimator's model_dir, which the worker writes, below its --write prefixes "
        "(RunConfig.checkpoint_place = kClient: this process writes)"));
    if (!SavesByItself()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "RunConfig.checkpoint_place is kWorker, but Train was given a hook that saves checkpoints "
        "on this machine (CheckpointSaverHook); leave it out, and set "
        "RunConfig.save_checkpoints_steps or save_checkpoints_secs");
  }

  // Whether a hook of the program saves the checkpoints; it then calls the listeners.
  bool SavesByItself() const {
    const auto saves = [&](const Hook& h) {
      return h != nullptr && h->SavesCheckpoints(options_.saving_listeners);
    };
    const Hooks& own = built_.model.spec.training_hooks;  // none before the model is built
    return std::any_of(options_.hooks.begin(), options_.hooks.end(), saves) ||
           std::any_of(own.begin(), own.end(), saves);
  }

  // Whether the checkpoint's step is max_steps or beyond.
  absl::StatusOr<bool> HasReachedMaxSteps() const {
    if (!options_.max_steps.has_value() || checkpoint_.empty()) return false;
    PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays arrays,
                              session::train::LoadCheckpoint(checkpoint_, fs_.get()));
    const base::Array* const step = arrays.Find("global_step");
    // Another model's: restoring it says what differs.
    if (step == nullptr || step->dtype() != base::DType::kI64 || step->rank() != 0) return false;
    return step->item<int64_t>() >= *options_.max_steps;
  }

  // Where the input continues, and the seed of everything random.
  absl::Status FindPosition(const data::Dataset& dataset) {
    position_ = {.seed = config_.tf_random_seed.value_or(base::EntropySeed()),
                 .pipeline = PipelineFingerprint(dataset)};
    if (checkpoint_.empty()) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(const std::optional<InputPosition> saved,
                              ReadInputPosition(*fs_, checkpoint_));
    if (!saved.has_value()) return absl::OkStatus();
    position_.draws = saved->draws;
    if (!config_.tf_random_seed.has_value()) position_.seed = saved->seed;
    if (!config_.resume_input) return absl::OkStatus();
    if (saved->ended) {
      position_.epoch = saved->epoch + 1;
    } else if (saved->pipeline != position_.pipeline) {
      config_.Log("the input has changed since the checkpoint was saved, starting it again");
    } else if (saved->seed == position_.seed) {
      // A training that stopped after the last element has used the input up, too. Of unknown length
      // that shows when it is read.
      const absl::StatusOr<int64_t> size = dataset.Cardinality();
      const bool used_up = size.ok() && *size > 0 && saved->elements >= *size;
      position_.epoch = saved->epoch + (used_up ? 1 : 0);
      position_.elements = used_up ? 0 : saved->elements;
    }
    return absl::OkStatus();
  }

  absl::Status BuildModel(const InputFn& input_fn) {
    // The graph's seed depends on the position, which depends on the dataset.
    PENSTOCK_ASSIGN_OR_RETURN(input_,
                              ModelBuilder(estimator_, ModeKeys::kTrain).MakeInput(input_fn));
    PENSTOCK_RETURN_IF_ERROR(FindPosition(input_->dataset));
    first_element_ = position_.elements;
    first_draw_ = position_.draws;
    PENSTOCK_ASSIGN_OR_RETURN(built_, ModelBuilder(estimator_, ModeKeys::kTrain, position_.seed)
                                          .Build(*input_, {.seed = position_.seed,
                                                           .epoch = position_.epoch,
                                                           .skip = position_.elements}));
    const auto scope = built_.graph->AsDefault();
    const HostCall& host_call = built_.model.host_call;
    if (host_call.host_fn != nullptr) {
      const absl::Status status = base::CatchExceptions([&] {
        host_operations_ = host_call.host_fn(host_call.tensors);
        return absl::OkStatus();
      });
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(status, "host_call"));
    }
    return built_.graph->status();
  }

  // In TensorFlow's order: hooks of the chief, those of MonitoredTrainingSession, the program's,
  // StopAtStep, NanTensor, the model's.
  Hooks AllHooks() {
    const EstimatorSpec& spec = built_.model.spec;
    Hooks hooks = StandardHooks();
    hooks.insert(hooks.end(), options_.hooks.begin(), options_.hooks.end());
    if (options_.steps.has_value() || options_.max_steps.has_value()) {
      hooks.push_back(
          StopAtStepHook({.num_steps = options_.steps, .last_step = options_.max_steps}));
    }
    const int64_t every = config_.log_step_count_steps;
    hooks.push_back(
        NanTensorHook({.loss_tensor = spec.loss, .every_n_steps = every > 0 ? every : 100}));
    if (every > 0) {
      hooks.push_back(ProgressHook({.loss = spec.loss,
                                    .every_n_steps = every,
                                    .output_dir = estimator_.model_dir(),
                                    .file_system = fs_,
                                    .clock = config_.clock}));
    }
    hooks.insert(hooks.end(), spec.training_hooks.begin(), spec.training_hooks.end());
    return hooks;
  }

  Hooks StandardHooks() {
    Hooks hooks;
    CheckpointSaverOptions saver{
        .checkpoint_dir = estimator_.model_dir(),
        .max_to_keep = config_.keep_checkpoint_max,
        .keep_checkpoint_every_n_hours = config_.keep_checkpoint_every_n_hours,
        .listeners = options_.saving_listeners,
        .file_system = fs_,
        .clock = config_.clock};
    if (config_.save_checkpoints_steps.value_or(0) > 0) {
      saver.save_steps = config_.save_checkpoints_steps;
    } else if (const double seconds = config_.CheckpointSeconds(); seconds > 0) {
      saver.save_secs = seconds;
    }
    if (!SavesByItself()) hooks.push_back(CheckpointSaverHook(std::move(saver)));
    if (config_.save_summary_steps > 0) {
      hooks.push_back(SummarySaverHook({.save_steps = config_.save_summary_steps,
                                        .output_dir = estimator_.model_dir(),
                                        .loss = built_.model.spec.loss,
                                        .file_system = fs_,
                                        .clock = config_.clock}));
    }
    return hooks;
  }

  absl::Status SetVariables(session::Session& session) {
    if (checkpoint_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(estimator_.InitializeVariables(session));
      if (warm_start_.has_value()) PENSTOCK_RETURN_IF_ERROR(WarmStart(*fs_, session, *warm_start_));
    } else {
      PENSTOCK_RETURN_IF_ERROR(
          RestoreVariables(*fs_, session, checkpoint_, /*training=*/true, config_));
      config_.Log(absl::StrCat("restored ", io::DisplayName(checkpoint_)));
    }
    session.SetRandomDraws(static_cast<uint32_t>(first_draw_));
    return InitializeLocalVariables(session);
  }

  MonitoredLoop::StartOptions StartOptions(MonitoredLoop& loop) {
    return {.global_step = built_.global_step,
            .restored = !checkpoint_.empty(),
            .write_beside =
                [this, &loop](absl::string_view path) {
                  position_.elements = first_element_ + loop.steps_done();
                  position_.draws = first_draw_ + loop.steps_done();
                  return WriteInputPosition(*fs_, path, position_);
                },
            .remove_beside = [this](absl::string_view path) { RemoveInputPosition(*fs_, path); }};
  }

  absl::Status Loop(MonitoredLoop& loop) {
    session::Fetches fetches = {built_.model.spec.train_op};
    for (const session::Operation& operation : host_operations_) fetches.push_back(operation);
    while (!loop.should_stop()) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, loop.Run(fetches, steps_per_execution_));
      if (more) continue;
      position_.ended = true;
      if (loop.steps_done() > 0) break;
      if (first_element_ == 0) return EmptyInputError(*input_);
      found_no_more_ = true;
      break;
    }
    PENSTOCK_RETURN_IF_ERROR(loop.End());
    // A checkpoint of this step that was saved before the end of the input was known.
    if (position_.ended) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string latest, estimator_.LatestCheckpoint());
      if (!latest.empty()) PENSTOCK_RETURN_IF_ERROR(WriteInputPosition(*fs_, latest, position_));
    }
    if (found_no_more_) {
      config_.Log("the last training stopped at the end of the input, starting it again");
      return absl::OkStatus();
    }
    config_.Log(absl::StrCat("training ended at step ", loop.global_step(),
                             position_.ended ? ", the end of the input" : ""));
    return absl::OkStatus();
  }

  const Estimator& estimator_;
  const RunConfig& config_;
  const TrainOptions& options_;
  const std::optional<WarmStartSettings> warm_start_;
  const int64_t steps_per_execution_;
  std::shared_ptr<io::FileSystem> fs_;
  std::shared_ptr<void> lock_;  // of model_dir
  std::string checkpoint_;      // restored; empty: none
  std::optional<ModelInput> input_;
  BuiltModel built_;
  session::Operations host_operations_;
  InputPosition position_;
  int64_t first_element_ = 0, first_draw_ = 0;
  bool found_no_more_ = false;
};

absl::Status Estimator::CheckTrainOptions(const TrainOptions& options) const {
  if (options.steps.has_value() && options.max_steps.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("Train was called with steps = ", *options.steps,
                                                   " and max_steps = ", *options.max_steps,
                                                   "; give one of them"));
  }
  if (options.steps.value_or(1) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Train: steps is ", *options.steps, ", but must be at least 1"));
  }
  if (options.max_steps.value_or(1) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Train: max_steps is ", *options.max_steps, ", but must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status Estimator::Train(const InputFn& input_fn, const TrainOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  PENSTOCK_RETURN_IF_ERROR(CheckTrainOptions(options));
  const int64_t steps_per_execution = batches_.sharded ? config_.tpu_config.iterations_per_loop : 1;
  // Functions of the program that have no error of their own: the log, a hook's SavesCheckpoints.
  return base::CatchExceptions([&]() -> absl::Status {
    for (bool again = true; again;) {
      TrainingRun run(*this, options, warm_start_, steps_per_execution);
      PENSTOCK_RETURN_IF_ERROR(run.Run(input_fn));
      again = run.found_no_more();
    }
    return absl::OkStatus();
  });
}

}  // namespace penstock::estimator
