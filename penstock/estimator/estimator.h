// Room estimator: tf.estimator. A model_fn builds the graph, an input_fn the dataset, and an
// Estimator trains, evaluates and predicts with sessions (room session), checkpoints included.
//
//   Estimator classifier({.model_fn = Classify, .model_dir = "run7", .params = {{"units", 32}}});
//   PENSTOCK_RETURN_IF_ERROR(classifier.Train(TrainInput, {.max_steps = 1000}));
//   PENSTOCK_ASSIGN_OR_RETURN(EvalResult result, classifier.Evaluate(TestInput));
//   std::printf("accuracy %.3f after %.0f steps\n", result["accuracy"], result["global_step"]);
//
//   estimator.h             Estimator, TPUEstimator
//   model_fn.h              model_fn, EstimatorSpec, TPUEstimatorSpec; named_tensors.h: features
//   input_fn.h              input_fn, labels; params.h: hyperparameters
//   run_config.h            RunConfig, TPUConfig
//   hooks/                  SessionRunHook and the built-in hooks (hooks.h)
//   train_and_evaluate.h    TrainSpec, EvalSpec, TrainAndEvaluate
//   warm_start.h            weights of another model; export.h: SavedModels
//   feature_column/         feature columns; canned/: DNNClassifier, LinearRegressor, ...
//   keras_interop.h         ModelToEstimator, KerasToTpuModel
//
// Names, defaults and the order of arguments are those of tf.estimator and tf.contrib.tpu in
// TensorFlow 1.15; Python's keyword arguments are fields of options structs.
//
// Continuing. Train restores the newest complete checkpoint of model_dir: variables, slots and the
// global step, and the position in the input (RunConfig::resume_input), so that a training that was
// killed continues with the same numbers. Only a checkpoint whose index is published counts.
// Another Estimator, also of another process, may evaluate and predict with the checkpoints in the
// same model_dir while this one trains. One Train at a time writes into a model_dir; a second one is an
// error at its start, except in object stores.
//
// Speed. The graph is built once, a step is a prepared call of the session, the next batch is read
// and transferred while a step runs. All steps have one program: the loss is one of its results,
// and histograms and images have a second program, which runs every save_summary_steps.
//
// Differences from TensorFlow 1.15:
// - A dataset's columns are named; which are labels is said by input_fn.h.
// - A NaN loss is recorded on the device and found some steps later (NanTensorHook).
// - A train_op that does not increase the global step is an error, not an endless training.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/estimator/export.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/estimator/input_fn.h"
#include "penstock/estimator/model_fn.h"
#include "penstock/estimator/params.h"
#include "penstock/estimator/run_config.h"
#include "penstock/estimator/warm_start.h"

namespace penstock::estimator {

// Stages that an estimator appends to the dataset of each input_fn: strings to ids. `labels`: the
// names of the columns that are labels.
using InputTransform = std::function<data::Dataset(const data::Dataset& dataset,
                                                   const std::vector<std::string>& labels)>;

struct EstimatorOptions {
  ModelFn model_fn = {};
  std::string model_dir = "";
  RunConfig config = {};
  Params params = {};
  std::optional<WarmStartSettings> warm_start_from = {};
  InputTransform input_transform = nullptr;
  // Initial values of variables, by name, in place of their initializers'.
  base::NamedArrays initial_values = {};
};

struct TrainOptions {
  Hooks hooks = {};
  // Number of steps of this call, or the global step at which training ends: at most one is given.
  // Without either, training ends with the input.
  std::optional<int64_t> steps = {};
  std::optional<int64_t> max_steps = {};
  SavingListeners saving_listeners = {};
};

struct EvaluateOptions {
  std::optional<int64_t> steps = {};  // batches; default: the whole input
  Hooks hooks = {};
  std::string checkpoint_path = "";  // default: the newest checkpoint
  std::string name = "";             // summaries are in model_dir/eval, or eval_<name>
};
// The metrics by name, among them "loss", the mean over batches, and "global_step".
using EvalResult = std::map<std::string, double>;

struct PredictOptions {
  std::vector<std::string> predict_keys = {};  // predictions to return; default: all
  Hooks hooks = {};
  std::string checkpoint_path = "";
  // False: elements are whole batches, and predictions may have any shape. A TPUEstimator's have a
  // row for each example in either case.
  bool yield_single_examples = true;
};

// Stream of predictions, in the order of the input. Used by one thread at a time.
class Predictions {
 public:
  virtual ~Predictions() = default;
  // Sets `*example` to the predictions of the next example (without the axis of the batch), or of
  // the next batch, and returns true; returns false at the end.
  virtual absl::StatusOr<bool> Next(base::NamedArrays* example) = 0;
};

class Estimator {
 public:
  // An error of the options is returned by all methods.
  explicit Estimator(EstimatorOptions options);
  virtual ~Estimator() = default;
  Estimator(const Estimator&) = delete;
  Estimator& operator=(const Estimator&) = delete;

  const absl::Status& status() const { return status_; }
  const std::string& model_dir() const { return config_.model_dir; }
  const RunConfig& config() const { return config_; }
  const Params& params() const { return params_; }

  // Trains until the steps are done, the input ends, or a hook requests a stop. If the global step
  // has reached max_steps already, it returns at once.
  //
  // Errors before the first step: contradictory or invalid options, a model_dir that cannot be
  // written, an error of the model_fn or the input_fn, an empty dataset, a checkpoint that does not
  // fit the graph (with the names of the variables).
  absl::Status Train(const InputFn& input_fn, const TrainOptions& options = {});

  // Evaluates with the newest checkpoint; if there is none, with initial values, as in TensorFlow.
  absl::StatusOr<EvalResult> Evaluate(const InputFn& input_fn, const EvaluateOptions& options = {});

  // Predicts with the newest checkpoint; if there is none, with initial values. The estimator need
  // not outlive the stream.
  absl::StatusOr<std::unique_ptr<Predictions>> Predict(const InputFn& input_fn,
                                                       const PredictOptions& options = {});

  // Writes the predictions of the newest checkpoint as a SavedModel (export.h) into a new folder
  // "<export_dir_base>/<seconds since 1970>", whose path it returns.
  absl::StatusOr<std::string> ExportSavedModel(
      absl::string_view export_dir_base, const ServingInputReceiverFn& serving_input_receiver_fn,
      const ExportSavedModelOptions& options = {});

  // Variables of the newest checkpoint. NOT_FOUND if there is none.
  absl::StatusOr<std::vector<std::string>> GetVariableNames() const;
  absl::StatusOr<base::Array> GetVariableValue(absl::string_view name) const;
  // Path of the newest checkpoint, "run7/model.ckpt-1000"; empty if there is none.
  absl::StatusOr<std::string> LatestCheckpoint() const;
  // The file system of model_dir: the worker's, with RunConfig::checkpoint_place = kWorker. It keeps
  // the session with the worker open.
  absl::StatusOr<std::shared_ptr<io::FileSystem>> Files() const;
  // model_dir/eval, or eval_<name>.
  std::string EvalDir(absl::string_view name = "") const;

 protected:
  // Batches of a TPUEstimator; plain estimators have none.
  struct Batches {
    bool tpu = false;      // whether it is a TPUEstimator's
    bool sharded = false;  // whether tpu::Shard runs the model_fn
    int num_shards = 1;
    // Of all shards; 0: not given.
    int64_t train = 0, eval = 0, predict = 0;
    int64_t Global(ModeKeys mode) const;
  };
  Estimator(EstimatorOptions options, const Batches& batches);
  // For subclasses: an error of their options.
  void Fail(const absl::Status& error) {
    if (status_.ok()) status_ = error;
  }

 private:
  friend class ModelBuilder;
  friend class TrainingRun;

  absl::Status Initialize();
  absl::Status CheckBatches() const;
  absl::Status CheckTrainOptions(const TrainOptions& options) const;
  // The devices of an address, opened once for all calls that run at the same time.
  absl::StatusOr<std::shared_ptr<runtime::Client>> Devices(const std::string& target) const;
  // The methods of these names, which catch exceptions of the program's functions.
  absl::StatusOr<EvalResult> EvaluateOrThrow(const InputFn& input_fn,
                                             const EvaluateOptions& options);
  absl::StatusOr<std::unique_ptr<Predictions>> PredictOrThrow(const InputFn& input_fn,
                                                              const PredictOptions& options);
  // Runs the initializers, then sets initial_values_.
  absl::Status InitializeVariables(session::Session& session) const;
  // Restores `checkpoint_path`, or the newest checkpoint if that is empty; initializes if there is
  // none. Initializes the local variables.
  absl::Status RestoreForInference(io::FileSystem& fs, session::Session& session,
                                   const std::string& checkpoint_path) const;

  ModelFn model_fn_;
  RunConfig config_;
  Params params_;
  std::optional<WarmStartSettings> warm_start_;
  InputTransform input_transform_;
  base::NamedArrays initial_values_;
  Batches batches_;
  absl::Status status_;
  mutable std::mutex mutex_;                                               // protects clients_
  mutable std::map<std::string, std::weak_ptr<runtime::Client>> clients_;  // by address
};

// The options' order is that of tf.contrib.tpu.TPUEstimator.
struct TPUEstimatorOptions {
  ModelFn model_fn = {};
  std::string model_dir = "";
  RunConfig config = {};
  Params params = {};  // without "batch_size", which the estimator sets
  // False: as an Estimator, without shards, and one step in each execution.
  bool use_tpu = true;
  // Batch sizes of all shards together; divisible by num_shards.
  int64_t train_batch_size = 0;
  int64_t eval_batch_size = 0;
  int64_t predict_batch_size = 0;
  std::optional<WarmStartSettings> warm_start_from = {};
  InputTransform input_transform = nullptr;
};

// An Estimator that runs the model_fn on TPUConfig::num_shards devices, and iterations_per_loop
// steps in each execution (tf.contrib.tpu.TPUEstimator). It works on any devices.
//
//   RunConfig config;
//   config.tpu_config = {.iterations_per_loop = 100, .num_shards = 8};
//   TPUEstimator estimator({.model_fn = Classify,
//                           .model_dir = "gs://bucket/run7",
//                           .config = config,
//                           .train_batch_size = 1024});
//   PENSTOCK_RETURN_IF_ERROR(estimator.Train(TrainInput, {.max_steps = 10000}));
//
// model_fn and input_fn get params["batch_size"], the batch size of one shard
// (TPUConfig::per_host_input_for_training). The model_fn sees the rows of its shard, and its
// train_op is that of a tpu::CrossShardOptimizer. The loss that is printed is the mean over shards.
//
// Batches that do not fill all shards are left out of training and evaluation, as with TensorFlow's
// drop_remainder, which TPUs require; Predict pads the last batch and returns all examples.
// Hooks and checkpoints come between executions: every iterations_per_loop steps.
class TPUEstimator : public Estimator {
 public:
  explicit TPUEstimator(TPUEstimatorOptions options);

 private:
  static EstimatorOptions Base(TPUEstimatorOptions& options);
};

}  // namespace penstock::estimator
