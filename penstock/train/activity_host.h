// ActivityHost: a client whose devices are elsewhere and where others want to know what they are used for (room
// remote; SessionInfo.activity). Loops find it by dynamic_cast, once, and tell it before each execution.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace penstock::train {

// Capability of a runtime::Client. Thread-safe; costs less than a microsecond.
class ActivityHost {
 public:
  virtual ~ActivityHost() = default;
  // A training dispatches the step of that number (from 1, of all epochs) in this epoch (from 1).
  virtual void SetTraining(int64_t step, int64_t epoch, int64_t epochs) = 0;
  // Anything else: "evaluating".
  virtual void SetActivity(absl::string_view what) = 0;
};

}  // namespace penstock::train
