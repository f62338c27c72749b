#include "penstock/keras/cached_features.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/keras/feature_sets.h"
#include "penstock/keras/split_network.h"
#include "penstock/train/arrays.h"

namespace penstock::keras {
namespace {

using base::NamedArrays;

absl::Status CheckArguments(const train::Trainer& trainer, const CachedFeatures& cache,
                            const FitOptions& options) {
  if (cache.folder.empty() || cache.until.empty() || cache.batch_size < 1) {
    return absl::InvalidArgumentError(
        "CachedFeatures needs the folder of the features, the name of the last frozen layer "
        "(until), and a batch_size of at least 1");
  }
  if (trainer.fitting()) {
    return absl::FailedPreconditionError(
        "FitOnCachedFeatures was called while Fit of the same model is running");
  }
  if (trainer.objective().custom.has_value()) {
    return absl::InvalidArgumentError(
        "the model has a train_step, which sees the inputs of the whole network; the head has "
        "features instead. Use Fit, or compile with a loss");
  }
  if (!trainer.objective().batch_augmentation.empty()) {
    return absl::InvalidArgumentError(
        "the model has a batch_augmentation, which mixes other inputs in each epoch, so features "
        "cannot be computed once; compile without it, or use Fit");
  }
  if (options.batch_size.has_value() || options.validation_split != 0 ||
      !options.sample_weight.empty()) {
    return absl::InvalidArgumentError(
        "batch_size, validation_split and sample_weight are for arrays; a dataset has its own "
        "batches, and weights are a column 'sample_weight'");
  }
  return train::CheckOptions(options);
}

// The validation data as a dataset of batches.
absl::StatusOr<std::optional<data::Dataset>> ValidationOf(const train::Trainer& trainer,
                                                          const FitOptions& options) {
  constexpr int64_t kDefaultBatchSize = 32;
  const train::ValidationData& validation = options.validation_data;
  if (validation.dataset().has_value() || validation.empty()) return validation.dataset();
  PENSTOCK_ASSIGN_OR_RETURN(
      const data::Dataset rows,
      train::RowsOf(trainer.objective().network, trainer.columns(), validation.x(), &validation.y(),
                    validation.sample_weight()));
  return rows.Batch(options.validation_batch_size.value_or(kDefaultBatchSize));
}

// The trainings of the head and of the model: the head's state is a part of the model's, whose
// other variables are frozen.
class Head {
 public:
  static absl::StatusOr<Head> Create(train::Trainer& whole, const nn::Network& network) {
    train::TrainerOptions options = whole.options();
    options.objective.network = network;
    options.columns.inputs = {kFeaturesColumn};
    Head head(whole);
    PENSTOCK_ASSIGN_OR_RETURN(head.state_, whole.State());
    NamedArrays weights;
    for (const nn::VariableSpec& variable : network.variables()) {
      PENSTOCK_ASSIGN_OR_RETURN(base::Array array,
                                head.state_.Get(head.NameInWhole(variable.name)));
      weights.Set(variable.name, std::move(array));
    }
    options.initial_weights = std::move(weights);
    PENSTOCK_ASSIGN_OR_RETURN(head.trainer_, train::Trainer::Create(std::move(options)));
    NamedArrays state;
    for (const train::StateLayout::Entry& entry : head.trainer_->layout().entries) {
      PENSTOCK_ASSIGN_OR_RETURN(base::Array array, head.state_.Get(head.NameInWhole(entry.name)));
      state.Set(entry.name, std::move(array));
    }
    PENSTOCK_RETURN_IF_ERROR(head.trainer_->SetState(state));
    return head;
  }

  train::Trainer& trainer() const { return *trainer_; }

  // Copies the head's state into the model's.
  absl::Status CopyToWhole() {
    PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays trained, trainer_->State());
    for (const auto& [name, array] : trained) state_.Set(NameInWhole(name), array);
    return whole_->SetState(state_);
  }

 private:
  explicit Head(train::Trainer& whole) : whole_(&whole) {}
  // A shared layer's variable may have another name in the whole network. Other entries of the
  // state have no such paths.
  std::string NameInWhole(const std::string& name) const {
    return whole_->objective().network.VariableName(name);
  }

  train::Trainer* whole_;
  std::unique_ptr<train::Trainer> trainer_;
  NamedArrays state_;  // of the model
};

// Copies the head's weights into the model at the end of each epoch, for the callbacks that follow.
class CopyHead final : public Callback {
 public:
  CopyHead(const Model& model, const train::Trainer* whole, Head& head)
      : model_(model), whole_(whole), head_(head) {}
  absl::Status EpochEnd(train::TrainingContext&, const train::Position&, const Logs&) override {
    PENSTOCK_RETURN_IF_ERROR(CheckNotCompiled());
    return head_.CopyToWhole();
  }
  absl::Status CheckNotCompiled() const {
    PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* now, model_.trainer());
    if (now == whole_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the model was compiled while its head was trained on cached features");
  }

 private:
  const Model& model_;
  const train::Trainer* const whole_;
  Head& head_;
};

absl::StatusOr<NamedArrays> WeightsOf(const train::Trainer& whole, const nn::Network& part) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays all, whole.State());
  NamedArrays weights;
  for (const nn::VariableSpec& variable : part.variables()) {
    PENSTOCK_ASSIGN_OR_RETURN(base::Array array,
                              all.Get(whole.objective().network.VariableName(variable.name)));
    weights.Set(variable.name, std::move(array));
  }
  return weights;
}

absl::StatusOr<History> Train(Model& model, train::Trainer& whole, const data::Dataset& dataset,
                              const CachedFeatures& cache, const FitOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckArguments(whole, cache, options));
  const nn::Network& network = whole.objective().network;
  PENSTOCK_ASSIGN_OR_RETURN(const SplitNetwork split,
                            SplitNetworkAt(network, cache.until, cache.inference));
  if (const absl::Status status = split.features.CheckSerializable(); !status.ok()) {
    return base::WithContext(status, "a change of the network could not be detected");
  }
  PENSTOCK_ASSIGN_OR_RETURN(Head head, Head::Create(whole, split.head));
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays weights, WeightsOf(whole, split.features));
  const FeatureSets features(whole, split.features, std::move(weights), cache, options);

  std::vector<FeatureSet> sets;
  PENSTOCK_ASSIGN_OR_RETURN(FeatureSet training, features.Find(dataset));
  sets.push_back(std::move(training));
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<data::Dataset> validation,
                            ValidationOf(whole, options));
  if (validation.has_value()) {
    absl::StatusOr<FeatureSet> set = features.Find(*validation);
    if (!set.ok()) return base::WithContext(set.status(), "validation_data");
    sets.push_back(*std::move(set));
  }
  PENSTOCK_RETURN_IF_ERROR(features.CheckSpace(sets));

  FitOptions fit = options;
  fit.verbose = options.verbose.value_or(1);
  std::vector<data::Dataset> batches;
  for (const FeatureSet& set : sets) {
    absl::StatusOr<data::Dataset> of_set = features.Batches(set);
    if (absl::IsCancelled(of_set.status())) {
      History interrupted;
      interrupted.stop_reason = std::string(of_set.status().message());
      interrupted.interrupted = true;
      return interrupted;
    }
    PENSTOCK_RETURN_IF_ERROR(of_set.status());
    batches.push_back(*std::move(of_set));
  }
  if (validation.has_value()) fit.validation_data = batches[1];
  const auto copy = std::make_shared<CopyHead>(model, &whole, head);
  if (!fit.callbacks.empty()) fit.callbacks.insert(fit.callbacks.begin(), copy);
  absl::StatusOr<History> history = head.trainer().Fit(batches[0], fit);
  PENSTOCK_RETURN_IF_ERROR(copy->CheckNotCompiled());
  const absl::Status copied = head.CopyToWhole();  // also what a failed training has learned
  if (history.ok()) PENSTOCK_RETURN_IF_ERROR(copied);
  return history;
}

}  // namespace

absl::StatusOr<History> FitOnCachedFeatures(Model& model, const data::Dataset& dataset,
                                            const CachedFeatures& cache,
                                            const FitOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * whole, model.trainer());
  // User-defined layers may throw.
  absl::StatusOr<History> history =
      base::CatchExceptions([&] { return Train(model, *whole, dataset, cache, options); });
  if (history.ok()) return history;
  return base::WithContext(history.status(), "FitOnCachedFeatures");
}

}  // namespace penstock::keras
