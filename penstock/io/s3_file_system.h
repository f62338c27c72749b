// s3:// with our own reads, listings and Stat over libcurl (object_file_system.h); another file
// system does everything else (arrow_file_system.h).
//
//   Options: region, endpoint_override and scheme are heeded; a URI with an option of TLS
//   (tls_ca_file_path, ...) is read by the other file system.
//   Credentials: aws_credentials.h. Where they are of a kind that only AWS's client can get, the
//   other file system reads.
//   AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL names another server, as endpoint_override does.
//   If nothing names a bucket's region, it is requested once per bucket, with the retries of
//   http_retry.h; without an answer the operation is Unavailable, and the next one asks again.
//   Keys from files are read again every 5 minutes and when the service rejects them.
#pragma once

#include <memory>

#include "penstock/io/object_file_system.h"

namespace penstock::io {

using S3FileSystemOptions = ObjectFileSystemOptions;

// `others` serves what object_file_system.h does not. Nothing is contacted, and no thread is
// started, before the first URI is opened.
std::shared_ptr<FileSystem> MakeS3FileSystem(std::shared_ptr<FileSystem> others,
                                             S3FileSystemOptions options = {});

}  // namespace penstock::io
