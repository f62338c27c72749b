// The Arrow file systems behind gs:// and s3:// URIs: options checked, credentials chosen, made
// once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/io/google_credentials.h"
#include "penstock/io/uri.h"

namespace arrow::fs {
class FileSystem;
}

namespace penstock::io {

// How long the AWS client retries a request that fails immediately.
inline constexpr double kLongestS3RetrySeconds = 80;

// An InvalidArgument error that lists the known options, if one of the URI's is not.
absl::Status CheckOptions(const Uri& uri);

// Any thread may use it.
class ArrowConnections {
 public:
  // What serves this URI; it depends on scheme, user, bucket and options.
  absl::StatusOr<std::shared_ptr<arrow::fs::FileSystem>> For(const Uri& uri);

 private:
  std::string ArrowUri(Uri uri);
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<arrow::fs::FileSystem>> open_;
  GoogleCredentialsSearch google_credentials_;
  bool s3_loaded_ = false;
};

}  // namespace penstock::io
