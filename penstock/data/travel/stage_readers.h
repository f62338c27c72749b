// The stages that can be read from JSON, by name, each by a function of its own .cc.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/dataset.h"

namespace penstock::data {

class StageFields;

struct StageReader {
  absl::string_view stage;  // Stage::name()
  int inputs;               // kSeveral: at least one
  // Makes the dataset whose last stage it is. Errors of the description are those of the dataset.
  absl::StatusOr<Dataset> (*read)(StageFields& in, std::vector<Dataset> inputs);

  static constexpr int kSeveral = -1;
};

// Null: no stage of this name can be read.
const StageReader* FindStageReader(absl::string_view stage);

}  // namespace penstock::data
