// Room io: access to files by URI on any file system (local disks, gs://, s3://). It uses base.
//
//   uri.h                  parsing and joining of URIs and paths
//   file_system.h          the FileSystem interface, whole-file reads and writes, the default
//   glob.h                 glob patterns (wildcards)
//   write_check.h          checks early that a file can be written
//   scheme_table.h         the table of file systems by scheme
//   scheme_router.h        dispatches each URI to the file system of its scheme
//
// Implementations, a folder each:
//   local/   local paths and file:// (local_file_system.h); mapped_file.h maps one into memory
//   memory/  memory://, for tests
//   gcs/     gs:// reads and listings over HTTP; s3/ likewise
//   object/  shared by gcs/ and s3/: streams, read-ahead (prefetch), listings
//   http/    the HTTP client below them: retry policy, exponential backoff, in-flight requests
//   arrow/   gs:// and s3:// through Arrow C++: writes, and credentials that only it can obtain
//   cache/   read-through disk cache of remote files
// Example:
//   auto fs = FileSystem::Default();
//   PENSTOCK_ASSIGN_OR_RETURN(auto shards, Glob(*fs, "gs://flowers/train/*.tfrec"));
//   PENSTOCK_ASSIGN_OR_RETURN(auto file, fs->OpenRandomAccess(shards[0]));
//   std::vector<char> header(16);
//   PENSTOCK_ASSIGN_OR_RETURN(int64_t n, file->Read(0, absl::MakeSpan(header)));
//   PENSTOCK_RETURN_IF_ERROR(WriteFile(*fs, "gs://flowers/list.txt", absl::StrJoin(shards, "\n")));
//
// Names follow uri.h. FileInfo::uri can be passed to any function as it is; it keeps the options
// ("?...") of the folder that was listed.
//
// Status codes. Messages name the operation, the URI, and the reason given by the file system:
//   NotFound            the disk, or twice in a row the store itself, reports that the file, folder
//                       or bucket does not exist; never for anything else that is missing
//                       (credentials, a DNS name, a library, a proxy's backend)
//   InvalidArgument     the URI is malformed, or its scheme or one of its options is unknown
//   FailedPrecondition  a folder where a file is expected, or the reverse
//   PermissionDenied    permission denied
//   Unauthenticated     the credentials are missing, unreadable, expired or rejected
//   ResourceExhausted   the disk or a quota is full
//   Unavailable         after retries (http_retry.h) the service did not respond, or something else
//                       responded in its place; or a disk or a network mount failed
//   Aborted             gs://, s3://: the file was replaced or removed since it was opened; local:
//                       it was truncated
//
// No message contains the part of a URI before '@' or its options, because both may be secrets.
// Code that prints a URI passes it through DisplayName (uri.h).
//
// Thread safety: a FileSystem and a RandomAccessFile may be used by many threads at once, a stream
// by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/uri.h"

namespace penstock::io {

struct FileInfo {
  std::string uri;  // without a trailing '/' for folders
  bool is_directory = false;
  int64_t size = 0;                  // bytes; 0 for a folder
  double modified_unix_seconds = 0;  // 0 if unknown, as for folders of object stores
  // Same as RandomAccessFile::version; empty if listings do not report it (all but gs://, s3://).
  std::string version = {};
  // Local file systems only. List describes the target of a symbolic link, with is_link set; device
  // and inode identify a folder under any name. 0 elsewhere.
  bool is_link = false;
  uint64_t device = 0;
  uint64_t inode = 0;
};

// Random access to the bytes of one file. Several Reads may be in flight.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Reads bytes at `offset` into `out`. Returns the number of bytes read, which is less than
  // out.size() only at the end of the file and 0 beyond it. A file that ends before size() was
  // truncated since it was opened: Aborted. A negative offset is InvalidArgument.
  virtual absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) = 0;

  const std::string& uri() const { return uri_; }            // for messages: without secrets
  const std::string& full_uri() const { return full_uri_; }  // as it was opened
  int64_t size() const { return size_; }                     // bytes, when the file was opened
  // Identifies the version of the file's contents: a generation (gs://) or an ETag (s3://), sent as
  // a precondition of every read. Empty if the file system has no versions; reads may then return
  // bytes of a newer version.
  virtual std::string version() const { return ""; }

 protected:
  RandomAccessFile(std::string uri, int64_t size)
      : full_uri_(std::move(uri)), uri_(DisplayName(full_uri_)), size_(size) {}

 private:
  std::string full_uri_;
  std::string uri_;
  int64_t size_;
};

// Sequential reads of a file from its beginning to its end. Implementations may read ahead
// (prefetch).
class InputStream {
 public:
  virtual ~InputStream() = default;

  // Reads the next bytes into `out`. Returns the number of bytes read, which is less than
  // out.size() only at the end of the file, then 0. A file that was truncated since it was opened
  // is an Aborted error, not an end of file.
  virtual absl::StatusOr<int64_t> Read(absl::Span<char> out) = 0;

  const std::string& uri() const { return uri_; }            // for messages: without secrets
  const std::string& full_uri() const { return full_uri_; }  // as it was opened
  // Same as RandomAccessFile::version.
  virtual std::string version() const { return ""; }

 protected:
  explicit InputStream(std::string uri) : full_uri_(std::move(uri)), uri_(DisplayName(full_uri_)) {}

 private:
  std::string full_uri_;
  std::string uri_;
};

// Writes a new file atomically: the file appears, and replaces any file of that name, when Close
// succeeds. A stream destroyed without a successful Close leaves the old file, or none. Small
// writes are buffered.
class OutputStream {
 public:
  virtual ~OutputStream() = default;

  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Publishes the file atomically: when it returns OK, the file is durable on the disk, or the
  // object store has acknowledged it. Fails, and publishes nothing, if an Append failed. Only the
  // destructor may be called afterwards.
  virtual absl::Status Close() = 0;

  const std::string& uri() const { return uri_; }            // for messages: without secrets
  const std::string& full_uri() const { return full_uri_; }  // as it was opened

 protected:
  explicit OutputStream(std::string uri)
      : full_uri_(std::move(uri)), uri_(DisplayName(full_uri_)) {}

 private:
  std::string full_uri_;
  std::string uri_;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) = 0;
  virtual absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) = 0;
  // Starts a new file; missing parent folders are created. The bucket must exist.
  virtual absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) = 0;

  virtual absl::StatusOr<FileInfo> Stat(absl::string_view uri) = 0;
  // Files and folders directly inside a folder (one level), sorted by name. A missing folder is
  // NotFound.
  virtual absl::StatusOr<std::vector<FileInfo>> List(absl::string_view folder_uri) = 0;
  // All files below a folder at any depth, sorted by path, without folders. Each folder is visited
  // once, however many symbolic links lead to it (local_file_system.h).
  virtual absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view folder_uri) = 0;

  // Deletes one file.
  virtual absl::Status Remove(absl::string_view uri) = 0;
  // Deletes a folder and everything below it. A root or a bucket is rejected.
  virtual absl::Status RemoveRecursively(absl::string_view folder_uri) = 0;
  // Creates a folder and its parents; OK if it already exists. Only a local file system has empty
  // folders: elsewhere this is a no-op, and the folder exists as soon as a file is below it. The
  // URI of a bucket alone creates the bucket.
  virtual absl::Status CreateFolder(absl::string_view folder_uri) = 0;

  // False if Stat returns NotFound; other errors are returned.
  absl::StatusOr<bool> Exists(absl::string_view uri);

  // The file system of a program: local paths, file://, gs:// and s3://. The last two are created
  // on first use, and read through a disk cache (caching_file_system.h) if PENSTOCK_CACHE_DIR names
  // a folder for it, of at most PENSTOCK_CACHE_GB gigabytes (default 20).
  static std::shared_ptr<FileSystem> Default();
};

// fs.OpenInput and fs.OpenRandomAccess with a version precondition, for files of an earlier
// listing: Aborted if the file's version (generation, ETag) has changed since. An empty `version`
// accepts any.
absl::StatusOr<std::unique_ptr<InputStream>> OpenInputOfVersion(FileSystem& fs,
                                                                absl::string_view uri,
                                                                absl::string_view version);
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccessOfVersion(
    FileSystem& fs, absl::string_view uri, absl::string_view version);

// The Aborted error of a read from a file that had `size` bytes when it was opened and now ends at
// byte `end`.
absl::Status TruncatedFileError(absl::string_view uri, int64_t size, int64_t end);

// Reads the rest of a stream.
absl::StatusOr<std::string> ReadAll(InputStream& in);

// Reads a whole file.
absl::StatusOr<std::string> ReadFile(FileSystem& fs, absl::string_view uri);

// Writes a whole file atomically.
absl::Status WriteFile(FileSystem& fs, absl::string_view uri, absl::string_view bytes);

}  // namespace penstock::io
