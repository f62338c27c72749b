// SkippedSteps: detects a training in which loss scaling skips every step, so that nothing is
// trained. Internal to room train.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"

namespace penstock::train {

class SkippedSteps {
 public:
  // A working scale is found by halving from 32768: after more halvings in a row than this it is
  // 0.03, where the scaling itself makes no finite gradient infinite.
  static constexpr int64_t kMany = 20;

  // Call after `steps` more steps, the last of them step number `last` (from 1), with the total
  // number of steps skipped so far and the current scale. Returns a warning, once for each series
  // of at least kMany skipped steps.
  std::optional<std::string> After(int64_t steps, int64_t last, int64_t skipped, double scale) {
    const int64_t before = skipped_.value_or(skipped == last ? last - steps : skipped);
    const bool all = skipped - before == steps;
    skipped_ = skipped;
    row_ = all ? row_ + steps : 0;
    if (!all) warned_ = false;
    if (row_ < kMany || warned_) return std::nullopt;
    warned_ = true;
    return absl::StrFormat(
        "loss scaling has skipped each of the last %d steps (up to step %d): their gradients are "
        "infinite or NaN, also with the loss scale down to %.3g, so nothing is being trained. "
        "Train some steps with TerminateOnNan, which names the layer, or under the policy "
        "mixed_bfloat16 or float32; a smaller learning rate or clipping helps where the loss "
        "itself has become infinite",
        row_, last, scale);
  }

 private:
  std::optional<int64_t> skipped_;
  int64_t row_ = 0;
  bool warned_ = false;
};

}  // namespace penstock::train
