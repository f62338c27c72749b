// FitArguments: the arguments of one call of Trainer::Fit. Internal to room train.
#pragma once

#include <optional>

#include "penstock/data/dataset.h"
#include "penstock/train/device_model.h"
#include "penstock/train/options.h"

namespace penstock::train {

struct FitArguments {
  DeviceModel& model;
  const data::Dataset& dataset;                    // batches
  const std::optional<data::Dataset>& validation;  // batches, at most validation_steps
  const FitOptions& options;
  bool recovers = false;  // this run resumes its Fit after the devices were lost

  // Whether one iterator is read over all epochs, instead of one pass per epoch.
  bool endless() const { return options.steps_per_epoch > 0; }
};

}  // namespace penstock::train
