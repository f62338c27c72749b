#include "penstock/remote/wire/features.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxShown = 64;  // characters of the worker's words

std::string Shown(const std::string& text) { return absl::CEscape(text.substr(0, kMaxShown)); }

}  // namespace

std::vector<std::string> OurFeatures() {
  std::vector<std::string> features;
  for (const RequestKind& kind : kRequestKinds) features.emplace_back(kind.feature);
  features.emplace_back(kLockForTraining);
  return features;
}

WorkerFeatures::WorkerFeatures(const std::vector<std::string>& announced, const WorkerInfo& worker)
    : features_(announced.begin(), announced.end()) {
  for (const RequestKind& kind : kRequestKinds) {
    if (announced.empty() && kind.first) features_.emplace(kind.feature);
  }
  worker_ = absl::StrCat("the worker",
                         worker.host().empty() ? "" : absl::StrCat(" on ", Shown(worker.host())),
                         worker.penstock_version().empty()
                             ? " (of a version that does not say its number)"
                             : absl::StrCat(" (Penstock ", Shown(worker.penstock_version()), ")"));
}

absl::Status WorkerFeatures::Check(const Request& request) const {
  if (request.body_case() == Request::BODY_NOT_SET) return absl::OkStatus();
  const auto* const kind =
      std::find_if(std::begin(kRequestKinds), std::end(kRequestKinds),
                   [&](const RequestKind& row) { return row.body == request.body_case(); });
  if (kind == std::end(kRequestKinds)) {
    return absl::InternalError(absl::StrCat("requests of kind ",
                                            static_cast<int>(request.body_case()),
                                            " have no row in kRequestKinds"));
  }
  return Check(kind->feature);
}

absl::Status WorkerFeatures::Check(absl::string_view feature) const {
  if (features_.contains(feature)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(worker_, " does not know '", feature,
                                               "', which this program needs; update Penstock "
                                               "there"));
}

}  // namespace penstock::remote
