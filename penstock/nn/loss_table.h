// The losses by name, one list for each family. Part of room nn's inside.
#pragma once

#include <memory>

#include "absl/types/span.h"

#include "penstock/nn/losses.h"

namespace penstock::nn {

struct LossRow {
  const char* name;
  const char* class_name;
  const char* aliases;  // "mse MSE"
  std::shared_ptr<LossBody> (*make)();
};

template <typename Body>
std::shared_ptr<LossBody> MakeLoss() {
  return std::make_shared<Body>();
}

absl::Span<const LossRow> ClassificationLosses();
absl::Span<const LossRow> RegressionLosses();
absl::Span<const LossRow> StructuredLosses();

}  // namespace penstock::nn
