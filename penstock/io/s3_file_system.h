// s3:// with reads of our own over libcurl (object_file_system.h), and everything else as another
// file system does it (arrow_file_system.h).
//
//   Options: region, endpoint_override and scheme are heeded; a URI with an option of TLS
//   (tls_ca_file_path, ...) is read by the other file system.
//   Credentials: aws_credentials.h. Where they are of a kind that only AWS's client can get, the
//   other file system reads.
//   AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL names another server, as endpoint_override does.
//   A region that nothing names is asked for, once for each bucket.
#pragma once

#include <memory>

#include "penstock/io/object_file_system.h"

namespace penstock::io {

using S3FileSystemOptions = ObjectFileSystemOptions;

// `others` serves all but the opening of files for reading. Nothing is contacted, and no thread is
// started, before the first URI is opened.
std::shared_ptr<FileSystem> MakeS3FileSystem(std::shared_ptr<FileSystem> others,
                                             S3FileSystemOptions options = {});

}  // namespace penstock::io
