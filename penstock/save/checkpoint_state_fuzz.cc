// Fuzz target: any text is a state or an error, and a state survives being printed.
#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/save/checkpoint_state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<save::CheckpointState> state = save::ParseCheckpointState(text, "run");
  if (!state.ok()) return 0;
  const absl::StatusOr<save::CheckpointState> again =
      save::ParseCheckpointState(save::PrintCheckpointState(*state, "run"), "run");
  PENSTOCK_CHECK_OK(again.status());
  PENSTOCK_CHECK(again->all_model_checkpoint_paths.size() ==
                 state->all_model_checkpoint_paths.size());
  return 0;
}
