// The messages of a SavedModel that WriteSavedModel writes. Internal to saved_model/.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/save/saved_model/saved_model.h"

namespace penstock::save::savedmodel {

struct Messages {
  std::string saved_model;   // saved_model.pb
  std::string object_graph;  // of the checkpoint
};

absl::StatusOr<Messages> MakeMessages(const SavedModelContents& contents);

}  // namespace penstock::save::savedmodel
