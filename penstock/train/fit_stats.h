// FitStats: where the time of an epoch went.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::train {

// What the host does during a training.
enum class HostWork {
  kHost,  // the training loop itself
  kData,  // taking batches from the pipeline and starting their transfers
  kCompile,
  kCallback,
  kWait,      // waiting for the devices
  kExcluded,  // validation; not counted at all
};

// Times of one epoch, from the end of the previous one (the beginning of the training for the
// first) to the report of its last step. Validation is excluded: the devices are busy with it.
struct FitStats {
  double seconds = 0;  // 0: not measured
  // Idle time of the devices, by what the host was doing meanwhile: waiting for the input pipeline,
  // compiling, running callbacks, or the rest (dispatching, reading reports).
  double idle_data = 0;
  double idle_compile = 0;
  double idle_callbacks = 0;
  double idle_host = 0;
  int64_t steps = 0;
  int64_t executions = 0;

  double idle_seconds() const { return idle_data + idle_compile + idle_callbacks + idle_host; }

  FitStats& operator+=(const FitStats& other);

  // "idle 7.2 % (data 5.0 %, compile 2.2 %)", without causes below 0.1 %. Empty if nothing was
  // measured.
  std::string IdleToString() const;
};

}  // namespace penstock::train
