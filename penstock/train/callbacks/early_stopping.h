// The callback that ends a training which no longer improves.
//
//   keras::FitOptions options{.epochs = 100, .validation_split = 0.2};
//   options.callbacks = {keras::EarlyStopping({.patience = 5, .restore_best_weights = true})};
#pragma once

#include <memory>
#include <string>

#include "penstock/train/callback.h"

namespace penstock::train {

// Early stopping: ends the training when `monitor` has not improved by more than |min_delta| for
// `patience` epochs.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int patience = 0;
  Mode mode = Mode::kAuto;
  bool restore_best_weights = false;
  int start_from_epoch = 0;
};
std::shared_ptr<Callback> EarlyStopping(const EarlyStoppingOptions& options = {});

}  // namespace penstock::train
