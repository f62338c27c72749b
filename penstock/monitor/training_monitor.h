// TrainingMonitor: the callback that feeds a registry from a training.
//
//   monitor::Registry registry;
//   model.Fit(dataset, {.callbacks = {monitor::TrainingMonitor(registry)}});
//
// Each step costs a few atomic additions; everything else (idle times, the pipeline's report, free
// memory, the sentence in words) is read every publish_seconds. It changes nothing in the training:
// it asks for no state, so executions of several steps stay whole. docs/monitor.md says how each
// number is computed.
#pragma once

#include <memory>

#include "penstock/monitor/registry.h"
#include "penstock/train/callback.h"

namespace penstock::monitor {

struct TrainingMonitorOptions {
  // Peak floating-point operations per second of one device, for MXU %; 0: by device_kinds.h.
  double peak_flops = 0;
  double publish_seconds = 0.25;
  // Window of the numbers "of the last seconds".
  double window_seconds = 10;
};

// `registry` must outlive the callback. Its clock must be the training's.
std::shared_ptr<train::Callback> TrainingMonitor(Registry& registry,
                                                 const TrainingMonitorOptions& options = {});

}  // namespace penstock::monitor
