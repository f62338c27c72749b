// A PipelineReport as JSON, for a process that reads the data elsewhere.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/report.h"

namespace penstock::data {

std::string ReportToJson(const PipelineReport& report);
// Text from anywhere.
absl::StatusOr<PipelineReport> ReportFromJson(absl::string_view text);

}  // namespace penstock::data
