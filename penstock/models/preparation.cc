#include "penstock/models/preparation.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::models::internal {

absl::Status CheckImageNetInput(const char* model, const std::vector<int64_t>& shape) {
  constexpr int64_t kSmallest = 32;
  if (shape.size() == 3 && shape[0] >= kSmallest && shape[1] >= kSmallest) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(model, " expects images [height, width, channels] of at least ", kSmallest,
                   " pixels in height and width, got [", absl::StrJoin(shape, ", "), "]"));
}

}  // namespace penstock::models::internal
