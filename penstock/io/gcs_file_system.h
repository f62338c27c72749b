// gs:// with reads of our own over libcurl, and everything else as another file system does it
// (arrow_file_system.h): Arrow keeps one request in flight for each stream, and has no limit for a
// connection that stalls.
//
//   Opening pins the object's generation: all ranges are of that version, and when it was replaced
//   or removed a read fails as Aborted.
//   A stream keeps several ranges in flight; read_window.h says how many and how large.
//   A Read of a RandomAccessFile is one request for each 8 MiB, all at once; many threads may read.
//   Failures are met with retries, from the byte where it broke; http_retry.h says which and when.
//   Credentials, options and the emulator: as in arrow_file_system.h and gcs_endpoint.h.
#pragma once

#include <cstdint>
#include <memory>

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/io/http_client.h"

namespace penstock::io {

struct GcsFileSystemOptions {
  HttpClientOptions http = {};
  int64_t read_ahead_bytes = 256 << 20;        // of all streams together
  int64_t stream_read_ahead_bytes = 64 << 20;  // of one stream
  uint64_t seed = base::EntropySeed();         // of the jitter of retries
};

// `others` serves all but the opening of files for reading. Nothing is contacted, and no thread is
// started, before the first URI is opened.
std::shared_ptr<FileSystem> MakeGcsFileSystem(std::shared_ptr<FileSystem> others,
                                              GcsFileSystemOptions options = {});

}  // namespace penstock::io
