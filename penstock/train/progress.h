// The progress line: epoch, step, images a second, loss, metrics, time left. On a terminal one line
// that is written over; elsewhere (a log file, a pipe) a plain line now and then and one at the end
// of each epoch. That one ends with how long the devices had nothing to do, and why.
//
//   Epoch 3/10  120/391  2104 img/s  loss 0.4312  accuracy 0.8497  ETA 0:02:11
//   compiling train_step... 12 s
//   Epoch 3/10  391/391  2110 img/s  loss 0.4207  0:03:06  idle 4.2 % (data 4.0 %, host 0.2 %)
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "penstock/base/clock.h"
#include "penstock/train/callback.h"

namespace penstock::train {

struct ProgressOptions {
  std::FILE* out = stderr;
  // Whether to write over the line; unset: when `out` is a terminal.
  enum class Style { kAuto, kTerminal, kLines } style = Style::kAuto;
  double seconds_between_lines = 10;  // without a terminal
  base::Clock* clock = base::Clock::Real();
};

std::unique_ptr<Callback> ProgressLine(const ProgressOptions& options = {});

// "0:02:11", "1:15:00", "2 d 3:00:00".
std::string FormatDuration(double seconds);

}  // namespace penstock::train
