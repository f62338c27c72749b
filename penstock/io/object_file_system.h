// Shared implementation of gs:// and s3://: files are opened, read, listed and described by our own
// requests; another file system does everything else (writing, removing).
//
//   Opening pins the object's version: all ranges are of it, and when it was replaced or removed a
//   read fails as Aborted.
//   A stream keeps several ranges in flight; read_window.h says how many and how large.
//   A Read of a RandomAccessFile is one request for each 8 MiB, all at once; many threads may read.
//   Failures are met with retries, from the byte where it broke; http_retry.h says which and when.
//   object_reader.h says which answers are believed, NotFound above all.
//   A listing that repeats a page token, or continues without names, is Unavailable. Objects whose
//   names no URI can express (uri.h: IsAddressable) are left out of listings, with a line on
//   stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "penstock/base/random.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/http_client.h"
#include "penstock/io/http_retry.h"
#include "penstock/io/object_input_stream.h"
#include "penstock/io/object_reader.h"
#include "penstock/io/uri.h"

namespace penstock::io {

struct ObjectFileSystemOptions {
  HttpClientOptions http = {};
  int64_t read_ahead_bytes = 256 << 20;             // of all streams together
  int64_t stream_read_ahead_bytes = 64 << 20;       // of one stream
  double retry_limit_seconds = kRetryLimitSeconds;  // s3://; a URI of gs:// has an option for it
  uint64_t seed = base::EntropySeed();              // of the jitter of retries
  std::string s3_region_url = "https://s3.amazonaws.com";  // tells the regions of buckets
};

class ObjectFileSystem : public ForwardingFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override;
  // Lists exactly one level, and reports versions.
  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view folder_uri) override;
  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view folder_uri) override;

 protected:
  ObjectFileSystem(std::string scheme, std::shared_ptr<FileSystem> others,
                   const ObjectFileSystemOptions& options);

  // Null when only the others can read it. Any thread.
  virtual absl::StatusOr<std::shared_ptr<ObjectReader>> ReaderFor(const Uri& uri) = 0;

 private:
  absl::StatusOr<Uri> UriOfScheme(absl::string_view text) const;
  absl::StatusOr<Uri> FileUri(absl::string_view text) const;
  absl::StatusOr<std::vector<FileInfo>> ListWith(ObjectReader& reader, const Uri& folder,
                                                 bool all_levels);
  absl::StatusOr<bool> IsFolder(ObjectReader& reader, const Uri& uri);
  absl::Status Explain(const absl::Status& status, ObjectReader& reader, const Uri& uri);

  const std::string scheme_;
  const std::shared_ptr<ReadAhead> ahead_ = std::make_shared<ReadAhead>();
};

}  // namespace penstock::io
