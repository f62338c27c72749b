// Arrow file systems for gs:// and s3:// URIs: checks options (scheme_table.h), chooses
// credentials, and creates one connection for each distinct configuration.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/gcs/google_credentials.h"
#include "penstock/io/uri.h"

namespace arrow::fs {
class FileSystem;
}

namespace penstock::io {

// Upper bound of the time for which the AWS client retries a request that fails immediately, in
// seconds.
inline constexpr double kLongestS3RetrySeconds = 80;

// Cache of Arrow file systems. Thread-safe.
class ArrowConnections {
 public:
  // The file system for this URI; it depends on scheme, user, bucket and options.
  absl::StatusOr<std::shared_ptr<arrow::fs::FileSystem>> For(const Uri& uri);

 private:
  std::string ArrowUri(Uri uri);
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<arrow::fs::FileSystem>> open_;
  GoogleCredentialsSearch google_credentials_;
  bool s3_loaded_ = false;
};

}  // namespace penstock::io
