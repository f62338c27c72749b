// gs:// (Google Cloud Storage): reads, listings and Stat over libcurl (object_file_system.h); all
// other operations are delegated to another file system (arrow_file_system.h). Arrow does not read,
// because it keeps only one request in flight per stream and has no timeout for a stalled
// connection. Credentials, options and the emulator: as in arrow_file_system.h and gcs_endpoint.h.
#pragma once

#include <memory>

#include "penstock/io/object/object_file_system.h"

namespace penstock::io {

using GcsFileSystemOptions = ObjectFileSystemOptions;

// `others` serves the operations that object_file_system.h does not. Nothing is contacted, and no
// thread is started, before the first URI is opened.
std::shared_ptr<FileSystem> MakeGcsFileSystem(std::shared_ptr<FileSystem> others,
                                              GcsFileSystemOptions options = {});

}  // namespace penstock::io
