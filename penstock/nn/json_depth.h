// JSON of a file that anyone may have written. Layers, optimizers and schedules hold others of
// their kind and are read, called and written by recursion: a limit on the depth keeps the stack.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace penstock::nn {

// Objects and lists within one another; a nested model adds five, a wrapped layer two.
inline constexpr int kMaxJsonDepth = 200;

absl::Status CheckJsonDepth(const nlohmann::ordered_json& json);

// INVALID_ARGUMENT when the text is not JSON, or deeper than kMaxJsonDepth.
absl::StatusOr<nlohmann::ordered_json> ParseModelJson(absl::string_view text);

}  // namespace penstock::nn
