// The progress line of training: "step 200: loss = 0.31 (1,234 steps/s)". Internal to room
// estimator. It stands for TensorFlow's StepCounterHook and LoggingTensorHook, which Train adds
// there, and writes the summary "global_step/sec".
#pragma once

#include <memory>
#include <string>

#include "penstock/base/clock.h"
#include "penstock/estimator/hooks/session_run_hook.h"
#include "penstock/io/file_system.h"

namespace penstock::estimator {

struct ProgressOptions {
  session::Tensor loss;
  int64_t every_n_steps = 100;
  std::string output_dir = "";                            // of the summary; empty: none
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};
// Prints the first step, then every N steps, when the global step passes a multiple of N.
Hook ProgressHook(const ProgressOptions& options);

}  // namespace penstock::estimator
