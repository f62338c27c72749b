#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/data/cache/uploaded_rows.h"
#include "penstock/data/travel/report_json.h"
#include "penstock/remote/feed/batch_description.h"
#include "penstock/train/feed_host.h"

// Any text: an error, or something that is written and read back the same. All texts that a client and a worker
// send each other about feeds, in turn.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto request = train::FeedRequestFromJson(text); request.ok()) {
    const std::string written = train::FeedRequestToJson(*request);
    const auto again = train::FeedRequestFromJson(written);
    PENSTOCK_CHECK_OK(again);
    PENSTOCK_CHECK(train::FeedRequestToJson(*again) == written);
  }
  if (const auto batch = remote::BatchDescriptionFromJson(text); batch.ok()) {
    const std::string written = remote::ToJson(*batch);
    const auto again = remote::BatchDescriptionFromJson(written);
    PENSTOCK_CHECK_OK(again);
    PENSTOCK_CHECK(remote::ToJson(*again) == written);
  }
  if (const auto rows = remote::RowsDescriptionFromJson(text); rows.ok()) {
    const std::string written = remote::ToJson(*rows);
    const auto again = remote::RowsDescriptionFromJson(written);
    PENSTOCK_CHECK_OK(again);
    PENSTOCK_CHECK(remote::ToJson(*again) == written);
  }
  if (const auto report = data::ReportFromJson(text); report.ok()) {
    const std::string written = data::ReportToJson(*report);
    const auto again = data::ReportFromJson(written);
    PENSTOCK_CHECK_OK(again);
    PENSTOCK_CHECK(data::ReportToJson(*again) == written);
    data::Table(*report);
  }
  if (const auto part = data::PartDescription::FromJson(text); part.ok()) {
    const std::string written = part->ToJson();
    const auto again = data::PartDescription::FromJson(written);
    PENSTOCK_CHECK_OK(again);
    PENSTOCK_CHECK(again->ToJson() == written);
  }
  return 0;
}
