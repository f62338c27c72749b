// Tables of losses by name, one for each family. Internal to room nn.
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
