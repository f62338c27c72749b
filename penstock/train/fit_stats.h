// Where the time of an epoch went.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::train {

// One epoch, from the end of the one before it (the beginning of the training for the first) to the
// report of its last step. Validation is left out: the devices are busy with it.
struct FitStats {
  double seconds = 0;  // 0: not measured
  // How long the devices had nothing to do, by what the host was doing meanwhile: waiting for the
  // pipeline, compiling, in callbacks, or the rest (giving work, looking at reports).
  double idle_data = 0;
  double idle_compile = 0;
  double idle_callbacks = 0;
  double idle_host = 0;
  int64_t steps = 0;
  int64_t executions = 0;

  double idle_seconds() const { return idle_data + idle_compile + idle_callbacks + idle_host; }

  FitStats& operator+=(const FitStats& other);

  // "idle 7.2 % (data 5.0 %, compile 2.2 %)": causes of less than a tenth of a percent are left
  // out. Empty when nothing was measured.
  std::string IdleToString() const;
};

}  // namespace penstock::train
