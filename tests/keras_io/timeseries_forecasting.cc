#include <cmath>

#include "programs.h"

namespace penstock::keras_io {

absl::StatusOr<double> TimeseriesForecasting() {
  // Inputs: every 2nd of 24 past steps. Label: the value 4 steps after the last of them.
  constexpr int64_t kPast = 24, kStep = 2, kFuture = 4, kFeatures = 3, kSteps = 400;
  Array series = Array::Zeros(DType::kF32, {kSteps, kFeatures});
  for (int64_t t = 0; t < kSteps; ++t) {
    const double angle = 0.2 * static_cast<double>(t);
    const double values[] = {std::sin(angle), std::cos(0.5 * angle), std::sin(angle) * 0.1};
    for (int64_t f = 0; f < kFeatures; ++f) {
      series.mutable_data<float>()[t * kFeatures + f] = static_cast<float>(values[f]);
    }
  }
  const Array targets = series.Slice({{kPast + kFuture - kStep}, {0, 1}});
  const auto windows = [&](keras::TimeseriesOptions options) {
    options.sequence_length = kPast / kStep;
    options.sampling_rate = kStep;
    options.batch_size = 32;
    return keras::TimeseriesDatasetFromArray(series, targets, options);
  };
  PENSTOCK_ASSIGN_OR_RETURN(const Dataset train, windows({.shuffle = true, .end_index = 322}));
  PENSTOCK_ASSIGN_OR_RETURN(const Dataset validation, windows({.start_index = 300}));

  const keras::Symbol inputs = keras::Input({.shape = {kPast / kStep, kFeatures}});
  const keras::Symbol lstm = keras::LSTM({.units = 16})(inputs);
  keras::Model model(inputs, keras::Dense({.units = 1})(lstm));
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::Adam({.learning_rate = 0.01}), .loss = "mse"}));
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::History history,
      model.Fit(train, {.epochs = 8,
                        .verbose = 0,
                        .callbacks = {keras::EarlyStopping({.monitor = "val_loss", .patience = 5})},
                        .validation_data = validation}));
  return history["val_loss"].back() / history["val_loss"].front();
}

}  // namespace penstock::keras_io
