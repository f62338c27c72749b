// The callback that validates, and saves, the moving averages of the weights.
//
//   const nn::Optimizer optimizer = nn::AdamW({.use_ema = true});
//   const FitOptions fit{.epochs = 10, .callbacks = {SwapEMAWeights()}, .validation_data = &test};
#pragma once

#include <memory>

#include "penstock/train/callback.h"

namespace penstock::train {

struct SwapEMAWeightsOptions {
  // Whether the averages stay in place from the end of an epoch until the next one begins, so that
  // later callbacks of the list (ModelCheckpoint, EarlyStopping with restore_best_weights) get them
  // as the weights.
  bool swap_on_epoch = false;
};

// Lets validation use the exponential moving averages of the variables, which the optimizer keeps
// with use_ema (keras.callbacks.SwapEMAWeights). Training continues with the variables. A
// checkpoint (Checkpoint, BackupAndRestore) contains both. When Fit ends, the averages replace the
// variables with or without this callback.
std::shared_ptr<Callback> SwapEMAWeights(const SwapEMAWeightsOptions& options = {});

}  // namespace penstock::train
