#include "penstock/estimator/estimator.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/estimator/restore.h"
#include "penstock/io/uri.h"
#include "penstock/session/train/saver.h"
#include "penstock/train/file_host.h"

namespace penstock::estimator {
namespace {

// A new name in the system's temporary folder, as TensorFlow makes it.
absl::StatusOr<std::string> TemporaryModelDir() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the estimator has no model_dir, and there is no temporary folder: ", error.message()));
  }
  return (folder / absl::StrCat("penstock-estimator-", absl::Hex(base::EntropySeed()))).string();
}

}  // namespace

int64_t Estimator::Batches::Global(ModeKeys mode) const {
  switch (mode) {
    case ModeKeys::kTrain:
      return train;
    case ModeKeys::kEval:
      return eval;
    case ModeKeys::kPredict:
      break;
  }
  return predict;
}

Estimator::Estimator(EstimatorOptions options) : Estimator(std::move(options), Batches()) {}

Estimator::Estimator(EstimatorOptions options, const Batches& batches)
    : model_fn_(std::move(options.model_fn)),
      config_(std::move(options.config)),
      params_(std::move(options.params)),
      warm_start_(std::move(options.warm_start_from)),
      input_transform_(std::move(options.input_transform)),
      initial_values_(std::move(options.initial_values)),
      batches_(batches) {
  if (config_.model_dir.empty()) {
    config_.model_dir = options.model_dir;
  } else if (!options.model_dir.empty() && options.model_dir != config_.model_dir) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("the estimator's model_dir is '", io::DisplayName(options.model_dir),
                     "' and RunConfig.model_dir is '", io::DisplayName(config_.model_dir),
                     "'; give one of them"));
  }
  if (status_.ok()) status_ = Initialize();
}

absl::Status Estimator::Initialize() {
  if (!model_fn_.valid()) return absl::InvalidArgumentError("the estimator has no model_fn");
  PENSTOCK_RETURN_IF_ERROR(config_.Check());
  if (batches_.tpu) PENSTOCK_RETURN_IF_ERROR(CheckBatches());
  if (config_.model_dir.empty() && config_.checkpoint_place == CheckpointPlace::kWorker) {
    return absl::InvalidArgumentError(
        "RunConfig.checkpoint_place is kWorker, but the estimator has no model_dir; give a folder "
        "of the worker's, below its --write prefixes");
  }
  if (config_.model_dir.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(config_.model_dir, TemporaryModelDir());
    config_.Log(absl::StrCat("the estimator has no model_dir, using ", config_.model_dir));
  }
  return absl::OkStatus();
}

absl::Status Estimator::InitializeVariables(session::Session& session) const {
  PENSTOCK_RETURN_IF_ERROR(session.Run(session::GlobalVariablesInitializer()));
  for (const auto& [name, value] : initial_values_) {
    PENSTOCK_RETURN_IF_ERROR(session.SetVariableValue(name, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<runtime::Client>> Estimator::Devices(
    const std::string& target) const {
  if (config_.session_config.client != nullptr) return config_.session_config.client;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::weak_ptr<runtime::Client>& opened = clients_[target];
  std::shared_ptr<runtime::Client> client = opened.lock();
  if (client == nullptr) {
    const int shards = batches_.sharded ? batches_.num_shards : 1;
    int cpu_devices = config_.session_config.cpu_devices;
    if (cpu_devices > 0) cpu_devices = std::max(cpu_devices, shards);  // else OpenClient's error
    PENSTOCK_ASSIGN_OR_RETURN(client,
                              runtime::OpenClient({.device = target, .cpu_devices = cpu_devices}));
    opened = client;
  }
  return client;
}

absl::StatusOr<std::shared_ptr<io::FileSystem>> Estimator::Files() const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (config_.checkpoint_place == CheckpointPlace::kClient) return io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Client> client, Devices(config_.master));
  auto* const host = dynamic_cast<::penstock::train::FileHost*>(client.get());
  if (host == nullptr) return io::FileSystem::Default();  // the devices are this machine's
  const std::shared_ptr<io::FileSystem> files = host->Files();
  // Other calls find the client as long as its files are in use.
  return std::shared_ptr<io::FileSystem>(files.get(), [files, client](io::FileSystem*) {});
}

absl::StatusOr<std::string> Estimator::LatestCheckpoint() const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, Files());
  return NewestCheckpoint(*fs, model_dir(), [this](absl::string_view line) { config_.Log(line); });
}

std::string Estimator::EvalDir(absl::string_view name) const {
  return io::JoinPath(model_dir(), name.empty() ? "eval" : absl::StrCat("eval_", name));
}

absl::StatusOr<std::vector<std::string>> Estimator::GetVariableNames() const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, Files());
  PENSTOCK_ASSIGN_OR_RETURN(const std::string path, LatestCheckpoint());
  if (path.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no checkpoint in ", io::DisplayName(model_dir())));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays arrays,
                            session::train::LoadCheckpoint(path, fs.get()));
  std::vector<std::string> names;
  for (const auto& entry : arrays) names.push_back(entry.first);
  return names;
}

absl::StatusOr<base::Array> Estimator::GetVariableValue(absl::string_view name) const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, Files());
  PENSTOCK_ASSIGN_OR_RETURN(const std::string path, LatestCheckpoint());
  if (path.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no checkpoint in ", io::DisplayName(model_dir())));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays arrays,
                            session::train::LoadCheckpoint(path, fs.get()));
  return arrays.Get(name);
}

// Leaves `config` in place, which the constructor reads afterwards.
EstimatorOptions TPUEstimator::Base(TPUEstimatorOptions& options) {
  return {.model_fn = std::move(options.model_fn),
          .model_dir = std::move(options.model_dir),
          .config = options.config,
          .params = std::move(options.params),
          .warm_start_from = std::move(options.warm_start_from),
          .input_transform = std::move(options.input_transform)};
}

absl::Status Estimator::CheckBatches() const {
  if (params_.Contains("batch_size")) {
    return absl::InvalidArgumentError(
        "params of a TPUEstimator must not contain 'batch_size', which the estimator sets from "
        "train_batch_size, eval_batch_size and predict_batch_size");
  }
  struct {
    absl::string_view name;
    int64_t size;
  } const sizes[] = {{"train_batch_size", batches_.train},
                     {"eval_batch_size", batches_.eval},
                     {"predict_batch_size", batches_.predict}};
  for (const auto& [name, size] : sizes) {
    if (size < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("TPUEstimator: ", name, " is ", size, ", but must be above 0"));
    }
    if (size % batches_.num_shards != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("TPUEstimator: ", name, " = ", size,
                       " is not divisible by num_shards = ", batches_.num_shards));
    }
  }
  return absl::OkStatus();
}

namespace {

// RunConfig::Check reports an invalid number.
int NumShards(const RunConfig& config) {
  return std::max(1, config.tpu_config.num_shards.value_or(1));
}

}  // namespace

TPUEstimator::TPUEstimator(TPUEstimatorOptions options)
    : Estimator(Base(options), {.tpu = true,
                                .sharded = options.use_tpu,
                                .num_shards = options.use_tpu ? NumShards(options.config) : 1,
                                .train = options.train_batch_size,
                                .eval = options.eval_batch_size,
                                .predict = options.predict_batch_size}) {}

}  // namespace penstock::estimator
