#include "penstock/train/trainer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/train/device_model.h"
#include "penstock/train/device_recovery.h"
#include "penstock/train/loop/evaluation_loop.h"
#include "penstock/train/loop/fit_checks.h"
#include "penstock/train/loop/prediction_loop.h"
#include "penstock/train/loop/training_loop.h"
#include "penstock/train/progress.h"

namespace penstock::train {
namespace {

constexpr int64_t kDefaultBatchSize = 32;

// `option`: the name of an option for arrays that was given with a dataset; null if there is none.
absl::Status CheckNotForArrays(const char* option) {
  if (option == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option,
                   " is for arrays; a dataset has its own batches, a part of it to validate on is "
                   "another dataset, and weights are a column 'sample_weight'"));
}

data::Dataset FirstBatches(const data::Dataset& dataset, int64_t steps) {
  return steps > 0 ? dataset.Take(steps) : dataset;
}

// Number of the `rows` rows that are trained on, by Keras's rounding: the rows before the split are
// floor(rows * (1 - split)).
absl::StatusOr<int64_t> RowsBeforeSplit(int64_t rows, double split) {
  const auto kept = static_cast<int64_t>(std::floor(static_cast<double>(rows) * (1 - split)));
  if (split > 0 && split < 1 && kept > 0 && kept < rows) return kept;
  return absl::InvalidArgumentError(absl::StrCat(
      "validation_split is the share of the rows to validate on, above 0 and below 1, and "
      "leaves rows on both sides; got ",
      split, " of ", rows, " rows"));
}

}  // namespace

Trainer::Trainer(std::unique_ptr<DeviceModel> model) : model_(std::move(model)) {}
Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options) {
  // User-defined layers, losses and metrics may throw.
  PENSTOCK_ASSIGN_OR_RETURN(
      auto model, base::CatchExceptions([&] { return DeviceModel::Create(std::move(options)); }));
  return std::unique_ptr<Trainer>(new Trainer(std::move(model)));
}

absl::StatusOr<std::optional<data::Dataset>> Trainer::ValidationBatches(
    const ValidationData& validation, int64_t batch_size) const {
  if (validation.dataset().has_value() || validation.empty()) return validation.dataset();
  PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset rows,
                            RowsOf(objective().network, columns(), validation.x(), &validation.y(),
                                   validation.sample_weight()));
  return rows.Batch(batch_size);
}

absl::StatusOr<History> Trainer::Fit(const data::Dataset& dataset, const FitOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckNotForArrays(options.batch_size.has_value()   ? "batch_size"
                                             : options.validation_split != 0  ? "validation_split"
                                             : !options.sample_weight.empty() ? "sample_weight"
                                                                              : nullptr));
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  PENSTOCK_ASSIGN_OR_RETURN(
      std::optional<data::Dataset> validation,
      ValidationBatches(options.validation_data,
                        options.validation_batch_size.value_or(kDefaultBatchSize)));
  return FitWith(dataset, std::move(validation), options);
}

absl::StatusOr<History> Trainer::Fit(const ArraysArg& x, const ArraysArg& y,
                                     const FitOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  const nn::Network& network = objective().network;
  PENSTOCK_ASSIGN_OR_RETURN(data::Dataset rows,
                            RowsOf(network, columns(), x, &y, options.sample_weight));
  PENSTOCK_ASSIGN_OR_RETURN(int64_t count, rows.Cardinality());
  const int64_t batch_size = options.batch_size.value_or(kDefaultBatchSize),
                validation_size = options.validation_batch_size.value_or(batch_size);
  PENSTOCK_ASSIGN_OR_RETURN(std::optional<data::Dataset> validation,
                            ValidationBatches(options.validation_data, validation_size));
  if (options.validation_split != 0 && !validation.has_value()) {
    PENSTOCK_ASSIGN_OR_RETURN(count, RowsBeforeSplit(count, options.validation_split));
    validation = rows.Skip(count).Batch(validation_size);
    rows = rows.Take(count);
  }
  if (options.shuffle) rows = rows.Shuffle(count);
  return FitWith(rows.Batch(batch_size).Prefetch(2), std::move(validation), options);
}

absl::StatusOr<History> Trainer::FitWith(const data::Dataset& dataset,
                                         std::optional<data::Dataset> validation,
                                         const FitOptions& options) {
  if (fitting_.exchange(true)) {
    return absl::FailedPreconditionError(
        "Fit was called while another Fit of the same model is running, in another thread or in a "
        "callback of it; wait until it has returned");
  }
  struct Ended {
    std::atomic<bool>& fitting;
    ~Ended() { fitting = false; }
  } const ended{fitting_};
  if (validation.has_value()) validation = FirstBatches(*validation, options.validation_steps);
  return base::CatchExceptions([&]() -> absl::StatusOr<History> {
    FitArguments fit{
        .model = *model_, .dataset = dataset, .validation = validation, .options = options};
    PENSTOCK_ASSIGN_OR_RETURN(DeviceRecovery recovery, DeviceRecovery::Begin(*model_, options));
    while (true) {
      TrainingLoop loop(fit);
      absl::StatusOr<History> history = loop.Run();
      if (history.ok() && !(loop.saved_for_drain() && recovery.may_wait())) return history;
      PENSTOCK_RETURN_IF_ERROR(recovery.Recover(
          history.ok() ? DeviceRecovery::Preempted(history->stop_reason) : history.status()));
      fit.recovers = true;
    }
  });
}

absl::StatusOr<Logs> Trainer::Evaluate(const data::Dataset& dataset,
                                       const EvaluateOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckNotForArrays(options.batch_size.has_value()   ? "batch_size"
                                             : !options.sample_weight.empty() ? "sample_weight"
                                                                              : nullptr));
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  return EvaluateBatches(dataset, options);
}

absl::StatusOr<Logs> Trainer::Evaluate(const ArraysArg& x, const ArraysArg& y,
                                       const EvaluateOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset rows,
                            RowsOf(objective().network, columns(), x, &y, options.sample_weight));
  return EvaluateBatches(rows.Batch(options.batch_size.value_or(kDefaultBatchSize)), options);
}

absl::StatusOr<Logs> Trainer::EvaluateBatches(const data::Dataset& dataset,
                                              const EvaluateOptions& options) {
  const data::Dataset batches = FirstBatches(dataset, options.steps);
  PENSTOCK_RETURN_IF_ERROR(batches.status());
  PENSTOCK_RETURN_IF_ERROR(CheckHasEnd(batches, "steps"));
  return base::CatchExceptions([&] {
    CallbackList callbacks(WithProgressLine(options.callbacks, options.verbose.value_or(0)));
    return EvaluationLoop(*model_, batches, options.read, callbacks,
                          /*profiler=*/nullptr, /*training=*/nullptr)
        .Run();
  });
}

absl::StatusOr<std::vector<Array>> Trainer::Predict(const data::Dataset& dataset,
                                                    const PredictOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(
      CheckNotForArrays(options.batch_size.has_value() ? "batch_size" : nullptr));
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  return PredictBatches(dataset, options);
}

absl::StatusOr<std::vector<Array>> Trainer::Predict(const ArraysArg& x,
                                                    const PredictOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset rows,
                            RowsOf(objective().network, columns(), x, nullptr, {}));
  return PredictBatches(rows.Batch(options.batch_size.value_or(kDefaultBatchSize)), options);
}

absl::Status Trainer::PredictEach(const data::Dataset& dataset, const TakePredictions& take,
                                  const PredictOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(
      CheckNotForArrays(options.batch_size.has_value() ? "batch_size" : nullptr));
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  return PredictBatches(dataset, options, &take).status();
}

absl::StatusOr<std::vector<Array>> Trainer::PredictBatches(const data::Dataset& dataset,
                                                           const PredictOptions& options,
                                                           const TakePredictions* take) {
  return base::CatchExceptions([&] {
    CallbackList callbacks(WithProgressLine(options.callbacks, options.verbose));
    return PredictionLoop(*model_, FirstBatches(dataset, options.steps), options.read, callbacks,
                          take)
        .Run();
  });
}

absl::StatusOr<NamedArrays> Trainer::Weights() const { return model_->Weights(); }
absl::Status Trainer::SetWeights(const NamedArrays& weights) { return model_->SetWeights(weights); }
absl::StatusOr<double> Trainer::LearningRate() const { return model_->LearningRate(); }
absl::Status Trainer::SetLearningRate(double rate) { return model_->SetLearningRate(rate); }
absl::StatusOr<NamedArrays> Trainer::State() const { return model_->State(); }
absl::Status Trainer::SetState(const NamedArrays& state) { return model_->SetState(state); }

const TrainerOptions& Trainer::options() const { return model_->options(); }
const Objective& Trainer::objective() const { return model_->objective(); }
const Strategy& Trainer::strategy() const { return model_->strategy(); }
const Columns& Trainer::columns() const { return model_->options().columns; }
const StateLayout& Trainer::layout() const { return model_->layout(); }

}  // namespace penstock::train
