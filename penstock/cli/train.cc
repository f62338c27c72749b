#include <cstdio>
#include <filesystem>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/termination_signal.h"
#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/shared_options.h"
#include "penstock/cli/training_setup.h"
#include "penstock/io/write_check.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace {

class Train : public Command {
 public:
  void Describe(Options& options) override {
    shards_.Describe(options);
    device_.Describe(options);
    options.Add("--model", model_, "Network architecture; `penstock models` lists them")
        .ShowDefault();
    options.Add("--classes", classes_, "Number of classes; default: taken from the shards")
        .Range(1, 1 << 30);
    options
        .Add("--image-size", image_size_,
             "Height and width of the model's input; default: those of the first image")
        .Count(2)
        .Range(1, 65500);
    options.Add("--validation", validation_, "Validation shards, evaluated after each epoch");
    options.Add("--epochs", epochs_, "Number of epochs").Range(1, 1000000).ShowDefault();
    options
        .Add("--learning-rate", learning_rate_,
             "Learning rate of SGD with momentum 0.9; decays to 0 along a cosine")
        .AboveZero(1e6)
        .ShowDefault();
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
    options
        .Add("--shift", shift_,
             "Augmentation: random shifts of up to this fraction of the image size")
        .Between(0, 1)
        .ShowDefault();
    options.Add("--shuffle", shuffle_, "Shuffle buffer size in images; 0: no shuffling")
        .Range(0, uint64_t{1} << 40)
        .ShowDefault();
    options.Add("--seed", seed_, "Random seed of initial weights, shuffling and augmentation")
        .AnySeed()
        .ShowDefault();
    options.Add("--save", save_, "File for the trained model: NAME.safetensors");
    options.Add("--checkpoints", checkpoints_,
                "Folder for checkpoints; a restarted run resumes from the newest one. On SIGTERM a "
                "checkpoint is saved, and the exit code is 75");
    options
        .Add("--checkpoint-every", checkpoint_every_,
             "Save checkpoints also every N steps (500) or after a time (30s, 5m, 1h30m); default: "
             "only at the end of epochs")
        .Needs("--checkpoints");
    options.Add("--csv-log", csv_log_, "CSV file for the loss and metrics of each epoch");
    options.Add("--tensorboard", tensorboard_, "Folder for TensorBoard's event files");
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
    options.AddFlag("--json", json_, "Print the history as JSON");
  }

  absl::Status Run() override {
    PENSTOCK_RETURN_IF_ERROR(CheckDestinations());
    PENSTOCK_ASSIGN_OR_RETURN(train::CheckpointOptions checkpoints, Checkpoints());
    if (!checkpoints_.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(checkpoints.termination, base::TerminationSignal::Install());
    }
    if (!validation_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          base::WithContext(CheckShardsHaveRecords(validation_), "--validation"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(TrainingSetup setup, SetUp());
    if (!save_.empty()) PENSTOCK_RETURN_IF_ERROR(setup.model.CheckSavable());
    const data::Dataset validation = ImageBatches(validation_.empty() ? shards_.data : validation_,
                                                  setup.image, shards_.batch_size);
    keras::FitOptions fit;
    fit.epochs = epochs_;
    if (!validation_.empty()) fit.validation_data = &validation;
    fit.callbacks = Callbacks(checkpoints);
    fit.profile = Profile();
    PENSTOCK_ASSIGN_OR_RETURN(const train::History history, setup.model.Fit(setup.dataset, fit));
    if (history.interrupted) {
      failure_code_ = kInterrupted;
      return absl::CancelledError(history.stop_reason);
    }
    const absl::Status saved = save_.empty() ? absl::OkStatus() : Save(setup.model);
    if (json_) PrintHistory(history);
    PENSTOCK_RETURN_IF_ERROR(saved);
    // A run that stopped early saves the model and still fails.
    if (!history.stop_reason.empty())
      return absl::AbortedError(absl::StrCat("stopped: ", history.stop_reason));
    return absl::OkStatus();
  }

  int failure_code() const override { return failure_code_; }

  // Creates the model, the dataset and the client.
  absl::StatusOr<TrainingSetup> SetUp() const {
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
    PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(shards_.batch_size, facts.image));
    PENSTOCK_ASSIGN_OR_RETURN(const models::ImagePreprocessing preprocessing,
                              models::Preprocessing(model_));
    const bool inside = preprocessing.mode == models::PreprocessMode::kInside;
    PENSTOCK_ASSIGN_OR_RETURN(
        nn::Network network,
        models::ByName(
            model_, {.input_shape = {facts.image.height, facts.image.width, facts.image.channels},
                     .classes = facts.classes,
                     .input_dtype = base::DType::kU8,
                     .rescale = inside ? 1 : 1 / 255.0,
                     .height_shift = shift_,
                     .width_shift = shift_}));
    keras::Model model(std::move(network));
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
    PENSTOCK_ASSIGN_OR_RETURN(auto client, device_.Open());
    PENSTOCK_ASSIGN_OR_RETURN(const nn::Schedule rate, LearningRate());
    PENSTOCK_RETURN_IF_ERROR(
        model.Compile({.optimizer = nn::SGD({.learning_rate = rate, .momentum = 0.9}),
                       .loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                       .metrics = {"accuracy"},
                       .columns = {.inputs = {"image"}, .labels = {"class"}},
                       .client = client,
                       .replicas = device_.replicas,
                       .seed = seed_,
                       .steps_per_execution = StepsPerExecution(),
                       .dtype_policy = policy_,
                       .matmul_precision = matmul_precision_}));
    return TrainingSetup{
        .model = std::move(model),
        .dataset = ImageBatches(shards_.data, facts.image, shards_.batch_size, shuffle_),
        .client = std::move(client),
        .data = shards_.data,
        .image = facts.image,
        .batch_size = shards_.batch_size,
        .shuffle = shuffle_};
  }

 private:
  absl::StatusOr<nn::Schedule> LearningRate() const {
    int64_t steps = steps_;
    if (steps == 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t images, CountImages(shards_.data));
      steps = (images + shards_.batch_size - 1) / shards_.batch_size * epochs_;
    }
    const int64_t warm = std::max<int64_t>(1, steps / 20);
    return nn::WarmUp({.steps = warm},
                      nn::CosineDecay({.initial_learning_rate = learning_rate_,
                                       .decay_steps = std::max<int64_t>(1, steps - warm)}));
  }

  int64_t StepsPerExecution() const {
    int64_t steps = 0;  // the parser has checked the range
    return absl::SimpleAtoi(steps_per_execution_, &steps) ? steps : train::kAutoSteps;
  }

  // Checks all destinations before any slow work. The callbacks check them again.
  absl::Status CheckDestinations() const {
    io::FileSystem& fs = *io::FileSystem::Default();
    if (!save_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(
          save::CheckWeightsDestination(fs, save_, /*with_metadata=*/true), "--save"));
    }
    for (const auto& [option, folder] :
         {std::pair("--checkpoints", &checkpoints_), std::pair("--tensorboard", &tensorboard_),
          std::pair("--profile", &profile_), std::pair("--dump-hlo", &device_.dump_hlo)}) {
      if (folder->empty()) continue;
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(io::CheckWritableFolder(fs, *folder), option));
    }
    return absl::OkStatus();
  }

  // Keeps the trained model even if its destination has become unusable.
  absl::Status Save(const keras::Model& model) const {
    const absl::Status status = model.Save(save_);
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

  std::optional<train::ProfileOptions> Profile() const {
    if (profile_.empty()) return std::nullopt;
    return train::ProfileOptions{
        .folder = profile_, .first_step = profile_steps_.first, .last_step = profile_steps_.last};
  }

  absl::StatusOr<train::CheckpointOptions> Checkpoints() const {
    train::CheckpointOptions options{.folder = checkpoints_};
    if (checkpoint_every_.empty()) return options;
    if (int64_t steps = 0; absl::SimpleAtoi(checkpoint_every_, &steps)) {
      options.every_steps = steps;
      if (steps >= 1) return options;
    } else if (absl::ParseDuration(checkpoint_every_, &options.every) &&
               options.every > absl::ZeroDuration()) {
      return options;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--checkpoint-every is a number of steps (500) or a time (30s, 5m, 1h30m), got '",
        checkpoint_every_, "'"));
  }

  std::vector<std::shared_ptr<train::Callback>> Callbacks(
      const train::CheckpointOptions& checkpoints) const {
    std::vector<std::shared_ptr<train::Callback>> callbacks{train::TerminateOnNan()};
    if (!checkpoints_.empty()) callbacks.push_back(train::Checkpoint(checkpoints));
    if (!csv_log_.empty()) callbacks.push_back(train::CsvLogger({.path = csv_log_}));
    if (!tensorboard_.empty()) callbacks.push_back(train::TensorBoard({.folder = tensorboard_}));
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

  ShardOptions shards_;
  DeviceOptions device_;
  std::string model_ = "resnet20";
  int64_t classes_ = 0;
  std::vector<int> image_size_;
  std::vector<std::string> validation_;
  int epochs_ = 10;
  double learning_rate_ = 0.1;
  int64_t steps_ = 0;
  std::string steps_per_execution_ = "auto";
  std::string policy_ = "float32", matmul_precision_ = "default";
  double shift_ = 0;
  int64_t shuffle_ = 10000;
  uint64_t seed_ = 0;
  std::string save_, checkpoints_, checkpoint_every_, csv_log_, tensorboard_, profile_;
  IntegerRange profile_steps_ = {.first = 1, .last = 200};
  bool json_ = false;
  int failure_code_ = kFailed;
};

}  // namespace

std::unique_ptr<Command> TrainCommand() { return std::make_unique<Train>(); }

absl::StatusOr<TrainingSetup> SetUpTraining(const std::vector<std::string>& arguments) {
  Train command;
  CommandLine line("penstock train", "train");
  command.Describe(line.options());
  PENSTOCK_RETURN_IF_ERROR(line.Parse(arguments));
  return command.SetUp();
}

}  // namespace penstock::cli
