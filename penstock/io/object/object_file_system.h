// ObjectFileSystem: shared implementation of gs:// and s3://. It opens, reads, lists and stats
// objects over HTTP; another file system does everything else (writing, removing).
//
//   Opening pins the object's version: all ranges are of it, and when it was replaced or removed a
//   read fails as Aborted.
//   A stream reads ahead with several ranges in flight; read_window.h sizes the read-ahead window.
//   A Read of a RandomAccessFile is one request per 8 MiB, all concurrent; many threads may read.
//   Failed ranges are retried from the byte where they broke off; retry policy: http_retry.h.
//   object_reader.h says which responses are trusted, NotFound above all.
//   A listing that repeats a page token, or continues without names, is Unavailable. Objects whose
//   names no URI can express (uri.h: IsAddressable) are omitted from listings, with a message on
//   stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "penstock/base/random.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/http/http_client.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/object/object_input_stream.h"
#include "penstock/io/object/object_reader.h"
#include "penstock/io/uri.h"

namespace penstock::io {

struct ObjectFileSystemOptions {
  HttpClientOptions http = {};
  int64_t read_ahead_bytes = 256 << 20;             // read-ahead budget of all streams together
  int64_t stream_read_ahead_bytes = 64 << 20;       // maximum read-ahead of one stream
  double retry_limit_seconds = kRetryLimitSeconds;  // for s3://; gs:// URIs have an option for it
  uint64_t seed = base::EntropySeed();              // seed of the retry jitter
  std::string s3_region_url = "https://s3.amazonaws.com";  // reports the region of a bucket
};

class ObjectFileSystem : public ForwardingFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override;
  // Lists exactly one level, with versions.
  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view folder_uri) override;
  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view folder_uri) override;

 protected:
  ObjectFileSystem(std::string scheme, std::shared_ptr<FileSystem> others,
                   const ObjectFileSystemOptions& options);

  // The reader for this URI; null if only the other file system can read it. Called on any thread.
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
