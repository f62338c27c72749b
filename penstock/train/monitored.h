// Which of two numbers is better. Internal to room train.
#pragma once

#include <cmath>
#include <limits>

#include "absl/strings/match.h"

#include "penstock/train/callbacks.h"

namespace penstock::train {

class Monitored {
 public:
  Monitored(absl::string_view name, Mode mode)
      : sign_(mode == Mode::kMax || (mode == Mode::kAuto && absl::StrContains(name, "acc")) ? 1
                                                                                            : -1) {}

  // Greater is better.
  double Score(double value) const { return sign_ * value; }
  // NaN is never better.
  bool Better(double value, double than, double min_delta = 0) const {
    return Score(value) - min_delta > Score(than);
  }
  double Worst() const { return -sign_ * std::numeric_limits<double>::infinity(); }

 private:
  double sign_;
};

}  // namespace penstock::train
