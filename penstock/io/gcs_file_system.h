// gs:// with our own reads, listings and Stat over libcurl (object_file_system.h); another file
// system does everything else (arrow_file_system.h): Arrow keeps one request in flight for each
// stream, and has no limit for a connection that stalls. Credentials, options and the emulator: as
// in arrow_file_system.h and gcs_endpoint.h.
#pragma once

#include <memory>

#include "penstock/io/object_file_system.h"

namespace penstock::io {

using GcsFileSystemOptions = ObjectFileSystemOptions;

// `others` serves what object_file_system.h does not. Nothing is contacted, and no thread is
// started, before the first URI is opened.
std::shared_ptr<FileSystem> MakeGcsFileSystem(std::shared_ptr<FileSystem> others,
                                              GcsFileSystemOptions options = {});

}  // namespace penstock::io
