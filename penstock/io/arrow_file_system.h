// gs:// and s3:// by Arrow C++, which brings the services' own client libraries: their credentials,
// retries and connections. Nothing is loaded or contacted before the first URI is used. In
// FileSystem::Default, gcs_file_system.h reads gs:// and hands the rest to this.
//
// Credentials of gs://: Google's default chain (GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the
// metadata server of a Google machine). Where the chain would find nothing, requests are anonymous,
// which is decided in at most half a second; "gs://anonymous@BUCKET/..." asks for that at once.
// An emulator that the environment names (gcs_endpoint.h) is used without credentials.
// Credentials of s3://: the default chain of AWS, or "s3://KEY:SECRET@BUCKET/...".
//
// Options stand behind the URI: "gs://b/x?endpoint_override=127.0.0.1:4443&scheme=http". The table
// in arrow_connections.cc lists them; an unknown one is an error that lists the known ones.
//
// Retries are those of the services' clients, configured to follow http_retry.h: unless
// retry_limit_seconds says otherwise, gs:// gives up after 60 seconds without success, s3:// after
// 10 more attempts within 64 to 80 seconds. What the clients do not retry, such as an answer that
// is not the service's own, is retried here within the same limit: uploads (while at most
// kUploadBuffer bytes were sent) and removals. Every call that waits for more than 5 seconds is
// reported on stderr (network_wait.h).
//
// Create sends nothing until Close or until kUploadBuffer bytes are there, so a small file is one
// upload, and discarding it costs nothing.
//
// Folders of object stores are only prefixes of names. List takes time in proportion to all that is
// below the folder, because Arrow leaves out, one level at a time, folders that nobody made
// explicitly.
#pragma once

#include <memory>

#include "penstock/io/file_system.h"
#include "penstock/io/http_retry.h"

namespace penstock::io {

inline constexpr int64_t kUploadBuffer = 16 << 20;

struct ArrowFileSystemOptions {
  // How long calls for s3:// are retried. URIs of gs:// have the option retry_limit_seconds.
  double s3_retry_limit_seconds = kRetryLimitSeconds;
};

std::shared_ptr<FileSystem> MakeArrowFileSystem(ArrowFileSystemOptions options = {});

}  // namespace penstock::io
