#include "penstock/io/gcs/gcs_endpoint.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/io/environment.h"

namespace penstock::io {

GcsEndpoint FindGcsEndpoint(const Uri& uri) {
  GcsEndpoint endpoint;
  std::string host;
  for (absl::string_view option : absl::StrSplit(uri.options, '&', absl::SkipEmpty())) {
    const size_t equals = option.find('=');
    const absl::string_view key = option.substr(0, equals);
    const absl::string_view value =
        equals == absl::string_view::npos ? "" : option.substr(equals + 1);
    if (key == "endpoint_override") host = std::string(value);
    if (key == "scheme") endpoint.scheme = std::string(value);
    if (key == "retry_limit_seconds") {
      (void)absl::SimpleAtod(value, &endpoint.retry_limit_seconds);  // Arrow rejects an invalid one
    }
  }
  if (absl::string_view emulator =
          FirstEnvironmentValue({"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"});
      host.empty() && !emulator.empty()) {
    endpoint.from_environment = true;
    endpoint.scheme = "http";
    if (absl::ConsumePrefix(&emulator, "https://")) endpoint.scheme = "https";
    absl::ConsumePrefix(&emulator, "http://");
    host = std::string(emulator.substr(0, emulator.find('/')));
  }
  if (!host.empty()) endpoint.host = std::move(host);
  endpoint.anonymous =
      uri.user == "anonymous" || endpoint.scheme != "https" || endpoint.from_environment;
  return endpoint;
}

}  // namespace penstock::io
