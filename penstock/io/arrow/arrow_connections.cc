#include "penstock/io/arrow/arrow_connections.h"

#include <atomic>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/s3fs.h>
#include <dlfcn.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/arrow/arrow_status.h"
#include "penstock/io/gcs/gcs_endpoint.h"
#include "penstock/io/gcs/google_credentials.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/scheme_table.h"

namespace penstock::io {
namespace {

// Arrow's s3:// support is a separate module next to Arrow's library. Loading it takes time and
// memory, so it is loaded on first use.
arrow::Status LoadS3() {
  Dl_info library;
  const auto anything_in_arrow = reinterpret_cast<const void*>(&arrow::fs::LoadFileSystemFactories);
  if (::dladdr(anything_in_arrow, &library) == 0) {
    return arrow::Status::IOError("Arrow's library is not loaded in this process");
  }
  const std::string module = JoinPath(Dirname(library.dli_fname), "libarrow_s3.so.2600");
  return arrow::fs::LoadFileSystemFactories(module.c_str());
}

// Retry policy of http_retry.h instead of Arrow's own, which gives up after 6 seconds. The client
// accepts only a number of attempts, not a time limit: 10 retries take 64 to 80 s.
class PatientRetries : public arrow::fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail& error, int64_t attempted_retries) override {
    return error.should_retry && attempted_retries < 10;
  }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t attempted_retries) override {
    base::Random random(base::MixSeeds(seed_, draws_++));
    return static_cast<int64_t>(1000 * RetryDelayCeiling(static_cast<int>(attempted_retries)) *
                                (0.8 + 0.2 * random.Uniform()));
  }

 private:
  const uint64_t seed_ = base::EntropySeed();
  std::atomic<uint64_t> draws_ = 0;
};

// Options that a URI cannot express.
arrow::fs::FileSystemFactoryOptions OptionsOf(const Uri& uri) {
  if (uri.scheme != "s3") return {};
  return {{"retry_strategy",
           std::shared_ptr<arrow::fs::S3RetryStrategy>(std::make_shared<PatientRetries>())}};
}

// Without this check Google's client library reports "No such file" for the first request, as if an
// object were missing.
absl::Status CheckGoogleCredentials(const Uri& uri) {
  const std::string file = FindGcsEndpoint(uri).anonymous ? "" : GoogleCredentialsFile();
  if (file.empty()) return absl::OkStatus();
  return CheckGoogleCredentialsFile(file);
}

}  // namespace

absl::StatusOr<std::shared_ptr<arrow::fs::FileSystem>> ArrowConnections::For(const Uri& uri) {
  if (uri.scheme != "gs" && uri.scheme != "s3") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", DisplayUri(uri), "' is neither gs:// nor s3://"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(uri));
  std::lock_guard lock(mutex_);
  // The key includes the credentials in use, which change when credentials are found later.
  const std::string key = ArrowUri(uri);
  if (const auto it = open_.find(key); it != open_.end()) return it->second;
  const bool first_s3 = uri.scheme == "s3" && !s3_loaded_;
  if (first_s3) {
    PENSTOCK_RETURN_IF_ERROR(FromArrowConnecting(LoadS3(), "load the library of s3:// for", uri));
    s3_loaded_ = true;
  }
  if (uri.scheme == "gs") PENSTOCK_RETURN_IF_ERROR(CheckGoogleCredentials(uri));
  auto made = arrow::fs::FileSystemFromUriAndOptions(key, OptionsOf(uri));
  // The AWS client may crash at process exit unless it is shut down first, so the exit handler must
  // be registered after the client has created its own static objects.
  if (first_s3) std::atexit([] { arrow::fs::EnsureFinalized(); });
  PENSTOCK_RETURN_IF_ERROR(FromArrowConnecting(made.status(), "reach", uri));
  return open_[key] = *std::move(made);
}

// The URI passed to Arrow: with our defaults, without the object name.
std::string ArrowConnections::ArrowUri(Uri uri) {
  uri.path.clear();
  const auto set_default = [&](absl::string_view key, absl::string_view value) {
    if (OptionValue(uri, key)) return;
    absl::StrAppend(&uri.options, uri.options.empty() ? "" : "&", key, "=", value);
  };
  if (uri.scheme == "gs") {
    // Same limit as in http_retry.h; Arrow's default is 15 minutes without a message.
    set_default("retry_limit_seconds", absl::StrCat(kRetryLimitSeconds));
    const GcsEndpoint endpoint = FindGcsEndpoint(uri);
    if (endpoint.from_environment) set_default("endpoint_override", endpoint.host);
    if (endpoint.anonymous || (uri.user.empty() && !google_credentials_.Found()))
      uri.user = "anonymous";
    // Arrow uses http for anonymous users.
    set_default("scheme", endpoint.scheme);
  } else {
    // A small object then takes one request instead of three.
    set_default("allow_delayed_open", "true");
  }
  return FormatUri(uri);
}

}  // namespace penstock::io
