// ProgressLine: a callback that shows the progress of a training, evaluation or prediction: epoch,
// step, images per second, loss, metrics, time left. On a terminal it is one line that is
// overwritten. Elsewhere (a log file, a pipe) it is a line every few seconds and one at the end of
// each epoch, which ends with the devices' idle time and its causes.
//
//   Epoch 3/10  120/391  2104 img/s  loss 0.4312  accuracy 0.8497  ETA 0:02:11
//   compiling train_step... 12 s
//   Epoch 3/10  391/391  2110 img/s  loss 0.4207  0:03:06  idle 4.2 % (data 4.0 %, host 0.2 %)
//   Evaluate  40/40  5210 img/s  loss 0.4401  accuracy 0.8463  0:00:02
//
// The validation of a training is not shown: its results are in the epoch's line.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/clock.h"
#include "penstock/train/callback.h"

namespace penstock::train {

struct ProgressOptions {
  std::FILE* out = stderr;
  // Whether to overwrite the line; kAuto: if `out` is a terminal.
  enum class Style { kAuto, kTerminal, kLines } style = Style::kAuto;
  double seconds_between_lines = 10;  // without a terminal
  base::Clock* clock = base::Clock::Real();
};

std::unique_ptr<Callback> ProgressLine(const ProgressOptions& options = {});

// `callbacks`, and a ProgressLine unless `verbose` is 0 (FitOptions::verbose).
std::vector<std::shared_ptr<Callback>> WithProgressLine(
    std::vector<std::shared_ptr<Callback>> callbacks, int verbose);

// "0:02:11", "1:15:00", "2 d 3:00:00".
std::string FormatDuration(double seconds);

}  // namespace penstock::train
