// Parser of untrusted JSON with a depth limit. Layers, optimizers and schedules contain others of
// their kind and are read, called and written recursively: the limit prevents a stack overflow.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace penstock::nn {

// Maximum nesting depth of objects and lists; a nested model adds five levels, a wrapped layer two.
inline constexpr int kMaxJsonDepth = 200;

absl::Status CheckJsonDepth(const nlohmann::ordered_json& json);

// INVALID_ARGUMENT if the text is not JSON, or deeper than kMaxJsonDepth.
absl::StatusOr<nlohmann::ordered_json> ParseModelJson(absl::string_view text);

}  // namespace penstock::nn
