#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/cli/find_learning_rate.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/monitor_flags.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/shared_options.h"
#include "penstock/cli/training/augmentation.h"
#include "penstock/cli/training/checkpoints.h"
#include "penstock/cli/training/detached.h"
#include "penstock/cli/training/event_files.h"
#include "penstock/cli/training/follow_training.h"
#include "penstock/cli/training/moving_averages.h"
#include "penstock/cli/training/recipe.h"
#include "penstock/cli/training/run_record.h"
#include "penstock/cli/training/transfer.h"
#include "penstock/cli/training_setup.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/keras/cached_features.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace {

class Train : public Command {
 public:
  void Describe(Options& options) override {
    shards_.Describe(options);
    device_.Describe(options);
    options.AddFlag("--detach", detach_,
                    "The worker of --device runs the training, which goes on without this client: "
                    "`penstock attach` follows and stops it. Its files are below --read and "
                    "--write of the worker; needs --checkpoints");
    DescribeModel(options);
    options.Add("--validation", validation_, "Validation shards, evaluated after each epoch");
    options.Add("--epochs", epochs_, "Number of epochs").Range(1, 1000000).ShowDefault();
    recipe_.Describe(options);
    options
        .Add("--early-stopping", patience_,
             "Stop after this number of epochs without a lower loss (of --validation, if given), "
             "and keep the best weights")
        .Range(1, 1000000);
    augmentation_.Describe(options);
    DescribeExecution(options);
    DescribeOutputs(options);
    options.Add("--config", config_,
                "JSON or YAML file with options: {\"epochs\": 5}; those of the command line take "
                "precedence. --checkpoints saves the options of a run as options.json");
    find_learning_rate_.Describe(options);
    options.AddFlag("--json", json_, "Print the history as JSON");
    options_ = options;
  }

  absl::Status Run() override {
    if (detach_) return Detach();
    PENSTOCK_RETURN_IF_ERROR(CheckDestinations());
    PENSTOCK_RETURN_IF_ERROR(monitor_.Start());
    if (!validation_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          base::WithContext(CheckShardsHaveRecords(validation_), "--validation"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(TrainingSetup setup, SetUp());
    if (!save_.empty()) PENSTOCK_RETURN_IF_ERROR(CheckSavable(setup.model));
    PENSTOCK_RETURN_IF_ERROR(transfer_.LoadWeights(setup.model));
    if (find_learning_rate_.find) return find_learning_rate_.Run(setup, seed_, json_);
    if (!transfer_.pretrained()) {
      const std::string note = MovingAveragesNote(setup.model.network(), setup.steps);
      if (!note.empty()) std::fprintf(stderr, "%s\n", note.c_str());
    }
    checkpoints_.UseClient(setup.client);
    PENSTOCK_RETURN_IF_ERROR(RecordRun());
    PENSTOCK_ASSIGN_OR_RETURN(const bool second_has_begun, ReportResumption());
    absl::StatusOr<train::History> fitted = Fit(setup, second_has_begun);
    if (!fitted.ok()) return WithExitCode(fitted.status());
    const train::History history = *std::move(fitted);
    if (history.interrupted) {
      failure_code_ = kInterrupted;
      return absl::CancelledError(history.stop_reason);
    }
    const absl::Status saved = save_.empty() ? absl::OkStatus() : Save(setup.model);
    if (json_) PrintHistory(history);
    PENSTOCK_RETURN_IF_ERROR(saved);
    // A run that stopped early saves the model and still fails, unless that was the intention.
    if (!history.stop_reason.empty() && !StoppedByPatience(history))
      return absl::AbortedError(absl::StrCat("stopped: ", history.stop_reason));
    if (!history.incomplete_logs.empty()) {
      return absl::DataLossError(
          absl::StrCat("the training is complete", save_.empty() ? "" : " and the model saved",
                       ", but ", absl::StrJoin(history.incomplete_logs, "; "), "; make room there",
                       csv_log_.empty() || checkpoints_.folder().empty()
                           ? ", or choose another place"
                           : " and run the same command again, which writes the missing rows"));
    }
    return absl::OkStatus();
  }

  int failure_code() const override { return failure_code_; }

  std::vector<OptionValues> Values() const { return options_->Values(); }

  // Creates the model, the dataset and the client. The weights of --weights are not loaded.
  absl::StatusOr<TrainingSetup> SetUp() const {
    PENSTOCK_RETURN_IF_ERROR(recipe_.Check());
    PENSTOCK_RETURN_IF_ERROR(augmentation_.Check());
    PENSTOCK_RETURN_IF_ERROR(transfer_.Check(epochs_));
    if (!transfer_.features_folder().empty() && augmentation_.any()) {
      return absl::InvalidArgumentError(
          "--cache-features computes the frozen layers once for each image, which must not change "
          "from epoch to epoch: leave out --augment and --shift, or --cache-features");
    }
    PENSTOCK_ASSIGN_OR_RETURN(ShardFacts facts, ReadShardFacts(shards_.data));
    if (classes_ > 0) facts.classes = classes_;
    if (facts.classes <= 0) {
      return absl::InvalidArgumentError(
          "the shards do not contain the number of classes; set it with --classes N");
    }
    if (!image_size_.empty()) {
      facts.image.height = image_size_[0];
      facts.image.width = image_size_[1];
    }
    PENSTOCK_ASSIGN_OR_RETURN(const models::ImagePreprocessing preprocessing,
                              models::Preprocessing(model_));
    // Pretrained networks take colors.
    if (transfer_.pretrained() && preprocessing.mode != models::PreprocessMode::kNone) {
      facts.image.channels = 3;
    }
    PENSTOCK_RETURN_IF_ERROR(augmentation_.CheckChannels(facts.image.channels));
    PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(shards_.batch_size, facts.image));
    PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, MakeNetwork(facts, preprocessing.mode));
    keras::Model model(std::move(network));
    PENSTOCK_RETURN_IF_ERROR(NameClasses(facts, model));
    PENSTOCK_RETURN_IF_ERROR(transfer_.Freeze(model));
    PENSTOCK_ASSIGN_OR_RETURN(auto client, device_.Open());
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t steps, StepsOf(transfer_.FrozenEpochs(epochs_)));
    PENSTOCK_RETURN_IF_ERROR(Compile(model, client, steps, /*rate_factor=*/1));
    return TrainingSetup{
        .model = std::move(model),
        .dataset = ImageBatches(shards_.data, facts.image, shards_.batch_size, shuffle_),
        .client = std::move(client),
        .data = shards_.data,
        .image = facts.image,
        .batch_size = shards_.batch_size,
        .shuffle = shuffle_,
        .steps = steps};
  }

 private:
  void DescribeModel(Options& options) {
    options.Add("--model", model_, "Network architecture; `penstock models` lists them")
        .ShowDefault();
    options.Add("--classes", classes_, "Number of classes; default: taken from the shards")
        .Range(1, 1 << 30);
    options
        .Add("--image-size", image_size_,
             "Height and width of the model's input; default: those of the first image")
        .Count(2)
        .Range(1, 65500);
    transfer_.Describe(options);
  }

  void DescribeExecution(Options& options) {
    options
        .Add("--steps", steps_,
             "Number of steps over which the learning rate decays; default: computed from the "
             "shards' names (NN-COUNT.tfrec)")
        .Range(1, uint64_t{1} << 40);
    options
        .Add("--steps-per-execution", steps_per_execution_,
             "Training steps per device execution (one host round trip each): a number, or auto "
             "for the minimum that keeps the devices busy. Does not change the results")
        .RangeOr("auto", 1, train::kMaxStepsPerExecution)
        .ShowDefault();
    options
        .Add("--policy", policy_,
             absl::StrCat("Dtype policy of the layers: ", absl::StrJoin(nn::PolicyNames(), ", ")))
        .ShowDefault();
    options
        .Add("--matmul-precision", matmul_precision_,
             "Precision of float32 matrix products and convolutions on TPUs and GPUs: default, "
             "high, highest")
        .ShowDefault();
    options.Add("--shuffle", shuffle_, "Shuffle buffer size in images; 0: no shuffling")
        .Range(0, uint64_t{1} << 40)
        .ShowDefault();
    options.Add("--seed", seed_, "Random seed of initial weights, shuffling and augmentation")
        .AnySeed()
        .ShowDefault();
  }

  void DescribeOutputs(Options& options) {
    options.Add(
        "--save", save_,
        absl::StrCat("File for the trained model; the extension selects the format. .safetensors, "
                     ".keras and .h5 files hold the whole model. Exported for prediction: ",
                     keras::ExportFormatNames(),
                     ". Other formats (docs/guide/files.md) hold the weights"));
    checkpoints_.Describe(options);
    options.Add("--csv-log", csv_log_, "CSV file for the loss and metrics of each epoch");
    monitor_.Describe(options);
    options.Add("--dump-hlo", device_.dump_hlo,
                "Folder for the StableHLO and the compiled HLO of each program; default: "
                "$PENSTOCK_DUMP_HLO");
    options.Add("--profile", profile_,
                "Folder for a profile: a trace of some steps (ui.perfetto.dev, TensorBoard), the "
                "step's operations by cost, the causes of idle time");
    options
        .Add("--profile-steps", profile_steps_, "Range of steps of this run to trace: FIRST-LAST")
        .Range(1, uint64_t{1} << 40)
        .ShowDefault()
        .Needs("--profile");
    event_files_.Describe(options);
  }

  absl::StatusOr<nn::Network> MakeNetwork(const ShardFacts& facts,
                                          models::PreprocessMode mode) const {
    // Preprocessing for color images does not apply to grayscale images.
    if (facts.image.channels != 3 && mode != models::PreprocessMode::kInside) {
      mode = models::PreprocessMode::kNone;
    }
    std::vector<nn::Layer> layers = augmentation_.Layers();
    for (nn::Layer& layer : models::PreprocessingLayers(mode)) layers.push_back(std::move(layer));
    return models::ByName(
        model_, {.input_shape = {facts.image.height, facts.image.width, facts.image.channels},
                 .classes = facts.classes,
                 .input_dtype = base::DType::kU8,
                 .input_layers = std::move(layers),
                 .rescale = mode == models::PreprocessMode::kNone ? 1 / 255.0 : 1,
                 .height_shift = augmentation_.shift(),
                 .width_shift = augmentation_.shift()});
  }

  absl::Status NameClasses(const ShardFacts& facts, keras::Model& model) const {
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> names, ReadClassNames(shards_.data));
    // With --classes, the model's classes may differ from those of the shards.
    PENSTOCK_RETURN_IF_ERROR(CheckClassNumbers(names, shards_.data));
    if (!validation_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          base::WithContext(CheckClassNumbers(names, validation_), "--validation"));
    }
    if (static_cast<int64_t>(names.size()) == facts.classes) {
      model.SetClassNames(std::move(names));
    } else if (!names.empty() && classes_ == 0) {
      std::fprintf(stderr,
                   "warning: classes.txt beside the shards has %zu names, but the records have "
                   "%lld classes; the model is saved without class names\n",
                   names.size(), static_cast<long long>(facts.classes));
    }
    return absl::OkStatus();
  }

  // For a training of `steps` steps. The weights of a model that is compiled already are kept.
  absl::Status Compile(keras::Model& model, std::shared_ptr<runtime::Client> client, int64_t steps,
                       double rate_factor) const {
    PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer, recipe_.Optimizer(steps, rate_factor));
    const int64_t classes = model.network().outputs()[0].type.shape.dim(-1);
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<keras::MetricArg> metrics, recipe_.Metrics(classes));
    return model.Compile({.optimizer = std::move(optimizer),
                          .loss = recipe_.Loss(),
                          .metrics = std::move(metrics),
                          .batch_augmentation = augmentation_.Mixtures(),
                          .columns = {.inputs = {"image"}, .labels = {"class"}},
                          .client = std::move(client),
                          .replicas = device_.replicas,
                          .seed = seed_,
                          .steps_per_execution = StepsPerExecution(),
                          .dtype_policy = policy_,
                          .matmul_precision = matmul_precision_});
  }

  // Trains, in two stages with --unfreeze-after. Each stage has checkpoints of its own, because the
  // optimizer's state differs. If the second stage has begun in an earlier run, the first one only
  // restores its weights.
  absl::StatusOr<train::History> Fit(TrainingSetup& setup, bool second_has_begun) {
    const data::Dataset validation = ImageBatches(validation_.empty() ? shards_.data : validation_,
                                                  setup.image, shards_.batch_size);
    keras::FitOptions fit;
    fit.epochs = transfer_.FrozenEpochs(epochs_);
    if (!validation_.empty()) fit.validation_data = &validation;
    PENSTOCK_ASSIGN_OR_RETURN(fit.class_weight, recipe_.ClassWeights(shards_.data));
    PENSTOCK_RETURN_IF_ERROR(checkpoints_.CatchTermination());
    fit.callbacks = Callbacks(transfer_.first_stage(), /*log=*/!second_has_begun, setup.model,
                              validation, /*initial_step=*/0);
    fit.profile = Profile();
    PENSTOCK_ASSIGN_OR_RETURN(train::History history, FitFrozen(setup, fit));
    if (!transfer_.has_second_stage()) return history;
    if (!history.stop_reason.empty() && !StoppedByPatience(history)) return history;
    if (checkpoints_.termination() != nullptr && checkpoints_.termination()->received()) {
      history.interrupted = true;
      history.stop_reason =
          "SIGTERM was received between the stages; the same command begins the second one";
      return history;
    }
    base::NamedArrays first_weights;
    if (patience_ > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(first_weights, setup.model.GetWeights());
    }

    PENSTOCK_RETURN_IF_ERROR(setup.model.SetTrainable(true));
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t steps, StepsOf(epochs_ - fit.epochs));
    PENSTOCK_RETURN_IF_ERROR(
        Compile(setup.model, setup.client, steps, transfer_.second_stage_factor()));
    fit.initial_epoch = fit.epochs;
    fit.epochs = epochs_;
    // Its own steps begin at 0, its epochs do not.
    int64_t initial_step = 0;
    if (event_files_.on()) {
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t images, CountImages(shards_.data));
      initial_step = (images + shards_.batch_size - 1) / shards_.batch_size * fit.initial_epoch;
    }
    fit.callbacks =
        Callbacks(transfer_.second_stage(), /*log=*/true, setup.model, validation, initial_step);
    fit.profile = std::nullopt;
    PENSTOCK_ASSIGN_OR_RETURN(const train::History second, setup.model.Fit(setup.dataset, fit));
    if (patience_ > 0 && !second.interrupted && Lowest(history) < Lowest(second)) {
      std::fprintf(stderr, "%s was lower before unfreezing: the weights of then are kept\n",
                   Monitor());
      PENSTOCK_RETURN_IF_ERROR(setup.model.SetWeights(first_weights));
    }
    history.epochs.insert(history.epochs.end(), second.epochs.begin(), second.epochs.end());
    history.stats.insert(history.stats.end(), second.stats.begin(), second.stats.end());
    history.stop_reason = second.stop_reason;
    history.incomplete_logs.insert(history.incomplete_logs.end(), second.incomplete_logs.begin(),
                                   second.incomplete_logs.end());
    history.interrupted = second.interrupted;
    return history;
  }

  // The lowest number that --early-stopping has seen.
  double Lowest(const train::History& history) const {
    double lowest = std::numeric_limits<double>::infinity();
    for (const double value : history[Monitor()]) lowest = std::min(lowest, value);
    return lowest;
  }

  // Prints from which checkpoint the training continues, if there is one. Returns whether it is one
  // of the second stage.
  absl::StatusOr<bool> ReportResumption() const {
    std::string stage = transfer_.second_stage();
    std::optional<int64_t> step;
    if (transfer_.has_second_stage()) {
      PENSTOCK_ASSIGN_OR_RETURN(step, checkpoints_.NewestStep(stage));
    }
    const bool second_has_begun = step.has_value();
    if (!second_has_begun) {
      stage = transfer_.first_stage();
      PENSTOCK_ASSIGN_OR_RETURN(step, checkpoints_.NewestStep(stage));
    }
    if (!step.has_value()) return false;
    const bool cached = !transfer_.features_folder().empty();
    std::fprintf(
        stderr, "resuming from the checkpoint of step %lld in %s%s\n",
        static_cast<long long>(*step), io::DisplayName(checkpoints_.FolderOf(stage)).c_str(),
        transfer_.pretrained() && !cached ? ", which replaces the weights of --weights" : "");
    return second_has_begun;
  }

  // The training, or the stage of it with the layers of --freeze frozen.
  absl::StatusOr<train::History> FitFrozen(TrainingSetup& setup,
                                           const keras::FitOptions& fit) const {
    if (transfer_.features_folder().empty()) return setup.model.Fit(setup.dataset, fit);
    return keras::FitOnCachedFeatures(setup.model, setup.dataset,
                                      {.folder = transfer_.features_folder(),
                                       .until = LayerBeforeHead(setup.model.network()),
                                       .inference = true,
                                       .batch_size = shards_.batch_size,
                                       .termination = checkpoints_.termination()},
                                      fit);
  }

  // Number of steps of `epochs` epochs; --steps is that of all of them.
  absl::StatusOr<int64_t> StepsOf(int epochs) const {
    if (steps_ > 0)
      return std::max<int64_t>(1, steps_ / epochs_ * epochs + steps_ % epochs_ * epochs / epochs_);
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t images, CountImages(shards_.data));
    return (images + shards_.batch_size - 1) / shards_.batch_size * epochs;
  }

  int64_t StepsPerExecution() const {
    int64_t steps = 0;  // the parser has checked the range
    return absl::SimpleAtoi(steps_per_execution_, &steps) ? steps : train::kAutoSteps;
  }

  // Checks all destinations before any slow work. The callbacks check them again.
  absl::Status CheckDestinations() const {
    io::FileSystem& fs = *io::FileSystem::Default();
    PENSTOCK_RETURN_IF_ERROR(find_learning_rate_.CheckDestination());
    PENSTOCK_RETURN_IF_ERROR(checkpoints_.Check());
    if (IsExported()) {
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(keras::CheckExportDestination(save_), "--save"));
    } else if (!save_.empty()) {
      absl::StatusOr<bool> whole = save::HoldsMetadata(save_);
      if (!whole.ok()) return base::WithContext(whole.status(), "--save");
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(
          save::CheckWeightsDestination(fs, save_, /*with_metadata=*/*whole), "--save"));
    }
    if (!csv_log_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(train::CheckCsvLog(csv_log_), "--csv-log"));
    }
    PENSTOCK_RETURN_IF_ERROR(
        event_files_.Check(!validation_.empty(), !transfer_.features_folder().empty()));
    for (const auto& [option, folder] :
         {std::pair("--profile", &profile_), std::pair("--dump-hlo", &device_.dump_hlo),
          std::pair("--cache-features", &transfer_.features_folder())}) {
      if (folder->empty()) continue;
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(io::CheckWritableFolder(fs, *folder), option));
    }
    return absl::OkStatus();
  }

  // Whether --save is a program for other systems instead of a file of Penstock's or Keras's.
  bool IsExported() const { return !save_.empty() && keras::IsExport(save_); }

  absl::Status CheckSavable(const keras::Model& model) const {
    if (!IsExported()) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool whole, save::HoldsMetadata(save_));
      if (whole) return model.CheckSavable(save_);
    }
    std::fprintf(stderr,
                 "--save %s holds %s; `penstock evaluate` and `penstock predict` need the whole "
                 "model, as a .safetensors or .keras file\n",
                 io::DisplayName(save_).c_str(),
                 IsExported() ? "a program that predicts" : "the weights alone");
    return absl::OkStatus();
  }

  absl::Status SaveAs(const keras::Model& model, const std::string& uri) const {
    if (IsExported()) return model.Export(uri);
    PENSTOCK_ASSIGN_OR_RETURN(const bool whole, save::HoldsMetadata(uri));
    return whole ? model.Save(uri) : model.SaveWeights(uri);
  }

  // Keeps the trained model even if its destination has become unusable.
  absl::Status Save(const keras::Model& model) const {
    const absl::Status status = SaveAs(model, save_);
    if (status.ok()) return status;
    std::error_code error;
    std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) folder = "/tmp";
    const std::string rescue =
        (folder / absl::StrFormat("penstock-model-%016x.safetensors", base::EntropySeed()))
            .string();
    const absl::Status rescued = model.Save(rescue);
    const std::string fate =
        rescued.ok() ? absl::StrCat("the trained model is in ", rescue)
                     : absl::StrCat("saving it to ", rescue, " failed, too: ", rescued.message());
    return absl::Status(status.code(),
                        absl::StrCat("saving the model failed: ", status.message(), "; ", fate));
  }

  // Gives the training to the worker, and waits until it has its devices.
  absl::Status Detach() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string address, device_.Address());
    if (address.empty()) {
      return absl::InvalidArgumentError(
          "--detach needs a worker, which runs the training: --device grpc://HOST:PORT");
    }
    remote::TrainingRequest request;
    request.mutable_start()->set_take_over(device_.take_over);
    for (std::string& word :
         ArgumentsOf(options_->Values(), {"--device", "--take-over", "--detach", "--config"})) {
      request.mutable_start()->add_arguments(std::move(word));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        const remote::TrainingReply started,
        remote::AskUntilTakenOver(
            [&] { return remote::CallTraining({.address = address}, request); },
            [](absl::string_view line) {
              std::fprintf(stderr, "%s\n", LegibleLine(line).c_str());
            }));
    const std::string id = started.training().training();
    std::fprintf(stderr,
                 "training %s: `penstock attach %s %s` follows it, with --stop it saves "
                 "and ends\n",
                 id.c_str(), address.c_str(), id.c_str());
    PENSTOCK_ASSIGN_OR_RETURN(const remote::TrainingInfo now,
                              FollowTraining(address, id, 0, FollowUntil::kStarted));
    if (now.state() != remote::TrainingInfo::ENDED || now.exit_code() == 0) return absl::OkStatus();
    failure_code_ = now.exit_code();
    return absl::AbortedError(absl::StrCat("training ", id, " ", LegibleLine(now.end())));
  }

  // SIGTERM has ended a wait for devices that were lost: what is saved can be resumed.
  absl::Status WithExitCode(const absl::Status& error) {
    if (checkpoints_.termination() == nullptr || !checkpoints_.termination()->received())
      return error;
    for (const std::string& stage : {transfer_.second_stage(), transfer_.first_stage()}) {
      const absl::StatusOr<std::optional<int64_t>> step = checkpoints_.NewestStep(stage);
      if (!step.ok() || !step->has_value()) continue;
      failure_code_ = kInterrupted;
      return base::WithContext(
          error, absl::StrCat("stopped by SIGTERM; the same command resumes from the checkpoint of "
                              "step ",
                              **step));
    }
    return error;
  }

  // Saves the options beside the checkpoints.
  absl::Status RecordRun() const {
    if (checkpoints_.folder().empty() || checkpoints_.on_worker()) return absl::OkStatus();
    return base::WithContext(SaveRunRecord(*io::FileSystem::Default(), checkpoints_.folder(),
                                           RunRecord(options_->Values()))
                                 .status(),
                             "--checkpoints");
  }

  std::optional<train::ProfileOptions> Profile() const {
    if (profile_.empty()) return std::nullopt;
    return train::ProfileOptions{
        .folder = profile_, .first_step = profile_steps_.first, .last_step = profile_steps_.last};
  }

  const char* Monitor() const { return validation_.empty() ? "loss" : "val_loss"; }

  // Whether --early-stopping has ended the training.
  bool StoppedByPatience(const train::History& history) const {
    return patience_ > 0 &&
           absl::StartsWith(history.stop_reason, absl::StrCat(Monitor(), " has not become better"));
  }

  // `stage`: name of a folder for the checkpoints of a stage; empty: there is one stage.
  // `model`, `validation`: what the confusion matrix is of; they outlive the callbacks.
  // `initial_step`: steps of the stage before.
  std::vector<std::shared_ptr<train::Callback>> Callbacks(const std::string& stage, bool log,
                                                          keras::Model& model,
                                                          const data::Dataset& validation,
                                                          int64_t initial_step) {
    std::vector<std::shared_ptr<train::Callback>> callbacks{train::TerminateOnNan()};
    // Validation, and the weights that --early-stopping keeps, are those of the averages.
    if (recipe_.averages()) callbacks.push_back(train::SwapEMAWeights({.swap_on_epoch = true}));
    if (patience_ > 0) {
      callbacks.push_back(train::EarlyStopping(
          {.monitor = Monitor(), .patience = patience_, .restore_best_weights = true}));
    }
    if (auto checkpoint = checkpoints_.Callback(stage)) callbacks.push_back(std::move(checkpoint));
    if (auto monitor = monitor_.Callback()) callbacks.push_back(std::move(monitor));
    if (!log) return callbacks;
    if (!csv_log_.empty()) {
      const bool append = transfer_.has_second_stage() && stage == transfer_.second_stage();
      callbacks.push_back(train::CsvLogger({.path = csv_log_, .append = append}));
    }
    if (auto events = event_files_.Callback(model, validation, initial_step)) {
      callbacks.push_back(std::move(events));
    }
    return callbacks;
  }

  static void PrintHistory(const train::History& history) {
    nlohmann::ordered_json json;
    json["epochs"] = nlohmann::ordered_json::array();
    for (const train::Logs& logs : history.epochs) {
      nlohmann::ordered_json row = nlohmann::ordered_json::object();
      for (const auto& [name, value] : logs) row[name] = value;
      json["epochs"].push_back(std::move(row));
    }
    json["stop_reason"] = history.stop_reason;
    PrintJson(json);
  }

  std::optional<Options> options_;
  ShardOptions shards_;
  DeviceOptions device_;
  Recipe recipe_;
  Augmentation augmentation_;
  Transfer transfer_;
  Checkpoints checkpoints_;
  std::string model_ = "resnet20";
  int64_t classes_ = 0;
  std::vector<int> image_size_;
  std::vector<std::string> validation_;
  int epochs_ = 10, patience_ = 0;
  int64_t steps_ = 0;
  std::string steps_per_execution_ = "auto";
  std::string policy_ = "float32", matmul_precision_ = "default";
  int64_t shuffle_ = 10000;
  uint64_t seed_ = 0;
  std::string config_, save_, csv_log_, profile_;
  IntegerRange profile_steps_ = {.first = 1, .last = 200};
  FindLearningRateFlags find_learning_rate_;
  MonitorFlags monitor_;
  EventFiles event_files_;
  bool json_ = false, detach_ = false;
  int failure_code_ = kFailed;
};

}  // namespace

std::unique_ptr<Command> TrainCommand() { return std::make_unique<Train>(); }

absl::StatusOr<std::vector<OptionValues>> ParseTraining(const std::vector<std::string>& arguments) {
  Train command;
  CommandLine line("penstock train", "train");
  command.Describe(line.options());
  PENSTOCK_RETURN_IF_ERROR(line.Parse(arguments));
  return command.Values();
}

absl::StatusOr<TrainingSetup> SetUpTraining(const std::vector<std::string>& arguments) {
  Train command;
  CommandLine line("penstock train", "train");
  command.Describe(line.options());
  PENSTOCK_RETURN_IF_ERROR(line.Parse(arguments));
  return command.SetUp();
}

}  // namespace penstock::cli
