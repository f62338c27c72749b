// gs:// and s3:// through Arrow C++, which uses the services' own client libraries with their
// credentials, retries and connections. Nothing is loaded or contacted before the first URI is
// used. In FileSystem::Default, gcs_file_system.h and s3_file_system.h read and list, and delegate
// the other operations to this one.
//
// Credentials of gs://: Google's default chain (GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the
// metadata server of a Google machine). If the chain finds nothing, which takes at most half a
// second to decide, requests are anonymous; "gs://anonymous@BUCKET/..." requests that explicitly.
// An emulator named by the environment (gcs_endpoint.h) is used without credentials. Credentials of
// s3://: the default chain of AWS, or "s3://KEY:SECRET@BUCKET/...".
//
// Options follow the URI: "gs://b/x?endpoint_override=127.0.0.1:4443&scheme=http". The table in
// scheme_table.cc lists them; an unknown one is an error that lists the known ones.
//
// Retry policy: that of the services' clients, configured to match http_retry.h. Unless
// retry_limit_seconds is set, gs:// gives up after 60 seconds without success, s3:// after 10
// retries within 64 to 80 seconds. Failures that the clients do not retry, such as a response that
// is not from the service, are retried here within the same limit: uploads (as long as at most
// kUploadBuffer bytes were sent) and deletions. Every call that waits for more than 5 seconds is
// reported on stderr (network_wait.h).
//
// Create sends nothing until Close is called or kUploadBuffer bytes are buffered, so a small file
// is one upload, and discarding it costs nothing.
//
// Folders of object stores are only name prefixes. List takes time proportional to the number of
// objects at any depth below the folder, because Arrow's listing of one level omits folders that
// were not created explicitly.
#pragma once

#include <memory>

#include "penstock/io/file_system.h"
#include "penstock/io/http/http_retry.h"

namespace penstock::io {

inline constexpr int64_t kUploadBuffer = 16 << 20;

struct ArrowFileSystemOptions {
  // Time limit for retrying s3:// calls, in seconds. gs:// URIs have the option
  // retry_limit_seconds.
  double s3_retry_limit_seconds = kRetryLimitSeconds;
};

std::shared_ptr<FileSystem> MakeArrowFileSystem(ArrowFileSystemOptions options = {});

}  // namespace penstock::io
