// Callbacks that set the learning rate. It is an error before the first step when the optimizer has a
// schedule (nn/schedules.h), which needs no callback.
//
//   keras::LearningRateScheduler([](int epoch, double rate) {
//     return epoch < 10 ? rate : rate * 0.9;
//   });
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/train/callback.h"

namespace penstock::train {

// Sets the learning rate at the beginning of each epoch (from 0) to schedule(epoch, current rate).
using EpochSchedule = std::function<double(int epoch, double rate)>;
std::shared_ptr<Callback> LearningRateScheduler(EpochSchedule schedule);

// Multiplies the learning rate by `factor`, above 0 and below 1, when `monitor` has not improved by
// more than |min_delta| for `patience` epochs; then waits `cooldown` epochs before it counts again.
// An optimizer with a learning rate schedule is rejected before the first step.
struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int patience = 10;
  Mode mode = Mode::kAuto;
  double min_delta = 1e-4;
  int cooldown = 0;
  double min_lr = 0;
};
std::shared_ptr<Callback> ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});

}  // namespace penstock::train
