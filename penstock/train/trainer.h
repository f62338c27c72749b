// Trainer: trains, evaluates and predicts with a network on the devices. Front ends are thin layers
// over it. strategy.h has an example and the map of the room.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/train/arrays.h"
#include "penstock/train/callback.h"
#include "penstock/train/history.h"
#include "penstock/train/options.h"
#include "penstock/train/state.h"

namespace penstock::train {

class DeviceModel;

class Trainer {
 public:
  // Initializes the state on the devices. Errors: an inconsistent objective, a model that does not
  // fit into memory.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerOptions options);
  ~Trainer();

  // Trains on a dataset of batches. Another Fit continues with the weights and the optimizer's
  // state as they are. FAILED_PRECONDITION while a Fit of this trainer is running, in another
  // thread or in the calling callback: both would step the same state.
  absl::StatusOr<History> Fit(const data::Dataset& dataset, const FitOptions& options = {});
  // Trains on arrays: rows are shuffled and batched as the options say.
  absl::StatusOr<History> Fit(const ArraysArg& x, const ArraysArg& y,
                              const FitOptions& options = {});
  bool fitting() const { return fitting_.load(); }

  // Losses and metrics (ReportNames) over one pass.
  absl::StatusOr<Logs> Evaluate(const data::Dataset& dataset, const EvaluateOptions& options = {});
  absl::StatusOr<Logs> Evaluate(const ArraysArg& x, const ArraysArg& y,
                                const EvaluateOptions& options = {});
  // The network's outputs for every row of one pass, one array each, in the order of the rows;
  // float32 if the network computes in fewer bits.
  absl::StatusOr<std::vector<Array>> Predict(const data::Dataset& dataset,
                                             const PredictOptions& options = {});
  absl::StatusOr<std::vector<Array>> Predict(const ArraysArg& x,
                                             const PredictOptions& options = {});
  // The same batch by batch, for outputs that need not fit into memory: `take` is called for each
  // batch in order, on this thread, while the devices compute the next ones. Its error ends the
  // pass.
  absl::Status PredictEach(const data::Dataset& dataset, const TakePredictions& take,
                           const PredictOptions& options = {});

  // Variables of the network, by name.
  absl::StatusOr<NamedArrays> Weights() const;
  // Replaces all of them. The error names weights that are missing, superfluous or of another
  // shape; then nothing is changed. Floats of another width are rounded, so that weights fit under
  // another policy.
  absl::Status SetWeights(const NamedArrays& weights);
  // The learning rate of the next step. FAILED_PRECONDITION with a schedule.
  absl::StatusOr<double> LearningRate() const;
  absl::Status SetLearningRate(double rate);
  // The whole state: variables, slots, iteration, RNG key, sums of metrics.
  absl::StatusOr<NamedArrays> State() const;
  absl::Status SetState(const NamedArrays& state);

  // As given to Create, without the initial weights.
  const TrainerOptions& options() const;
  const Objective& objective() const;
  const Strategy& strategy() const;
  const Columns& columns() const;
  const StateLayout& layout() const;

 private:
  explicit Trainer(std::unique_ptr<DeviceModel> model);

  // `validation`: batches.
  absl::StatusOr<History> FitWith(const data::Dataset& dataset,
                                  std::optional<data::Dataset> validation,
                                  const FitOptions& options);
  // The validation data in batches; no value if there is none.
  absl::StatusOr<std::optional<data::Dataset>> ValidationBatches(const ValidationData& validation,
                                                                 int64_t batch_size) const;
  absl::StatusOr<Logs> EvaluateBatches(const data::Dataset& dataset,
                                       const EvaluateOptions& options);
  absl::StatusOr<std::vector<Array>> PredictBatches(const data::Dataset& dataset,
                                                    const PredictOptions& options,
                                                    const TakePredictions* take = nullptr);

  const std::unique_ptr<DeviceModel> model_;
  std::atomic<bool> fitting_{false};
};

}  // namespace penstock::train
