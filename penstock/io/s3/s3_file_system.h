// s3:// (Amazon S3 and compatible stores): reads, listings and Stat over libcurl
// (object_file_system.h); all other operations are delegated to another file system
// (arrow_file_system.h).
//
//   Options: region, endpoint_override and scheme are supported; a URI with a TLS option
//   (tls_ca_file_path, ...) is read by the other file system.
//   Credentials: aws_credentials.h. If they are of a kind that only AWS's client can obtain, the
//   other file system reads.
//   AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL selects another server, as endpoint_override does.
//   If nothing names a bucket's region, it is requested once per bucket, with the retries of
//   http_retry.h; without a response the operation is Unavailable, and the next one retries.
//   Keys from files are reloaded every 5 minutes and when the service rejects them.
#pragma once

#include <memory>

#include "penstock/io/object/object_file_system.h"

namespace penstock::io {

using S3FileSystemOptions = ObjectFileSystemOptions;

// `others` serves the operations that object_file_system.h does not. Nothing is contacted, and no
// thread is started, before the first URI is opened.
std::shared_ptr<FileSystem> MakeS3FileSystem(std::shared_ptr<FileSystem> others,
                                             S3FileSystemOptions options = {});

}  // namespace penstock::io
