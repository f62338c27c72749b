// Room io: files by URI on any file system. It may use base.
//
//   uri.h                  names: taken apart, joined
//   file_system.h          the interface, whole files, what a program uses by default
//   glob.h                 patterns
//   write_check.h          checks that a file can be written before the work for it starts
//   scheme_router.h        which file system serves which scheme
//   local_file_system.h    local paths and file://; mapped_file.h maps one into memory
//   memory_file_system.h   memory://, for tests
//   arrow_file_system.h    gs:// and s3://, by Arrow C++
//   gcs_file_system.h      gs://, read and listed by our own requests; s3_file_system.h likewise
//   caching_file_system.h  what was read from one of these, kept on a local disk
//
//   auto fs = FileSystem::Default();
//   PENSTOCK_ASSIGN_OR_RETURN(auto shards, Glob(*fs, "gs://flowers/train/*.tfrec"));
//   PENSTOCK_ASSIGN_OR_RETURN(auto file, fs->OpenRandomAccess(shards[0]));
//   std::vector<char> header(16);
//   PENSTOCK_ASSIGN_OR_RETURN(int64_t n, file->Read(0, absl::MakeSpan(header)));
//   PENSTOCK_RETURN_IF_ERROR(WriteFile(*fs, "gs://flowers/shards.txt", StrJoin(shards, "\n")));
//
// Names follow uri.h. A FileInfo's uri can be given back as it is; it keeps the options ("?...") of
// the folder that was listed.
//
// Errors say what, which URI, and what the file system said:
//   NotFound            the disk, or twice in a row the store itself, reports that the file, folder
//                       or bucket does not exist; never for anything else that is missing
//                       (credentials, a DNS name, a library, a proxy's backend)
//   InvalidArgument     the name cannot be a name, or its scheme or an option of it is unknown
//   FailedPrecondition  a folder where a file was wanted, or a file where a folder was
//   PermissionDenied    permission denied
//   Unauthenticated     the credentials are missing, unreadable, expired or rejected
//   ResourceExhausted   the disk or a quota is full
//   Unavailable         the service did not answer, or something else answered in its place, after
//                       retries (http_retry.h); or a disk or a network mount failed
//   Aborted             gs://, s3://: the file was replaced or removed since it was opened; local:
//                       it became shorter
//
// No message contains the part of a URI before '@' or its options: both may be secrets. Code that
// prints a URI passes it through DisplayName (uri.h).
//
// Threads: many may use a FileSystem and a RandomAccessFile at once, a stream one at a time.
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
  std::string uri;  // a folder's has no '/' at its end
  bool is_directory = false;
  int64_t size = 0;                  // bytes; 0 for a folder
  double modified_unix_seconds = 0;  // 0 where it is not known, as for folders of object stores
  // As RandomAccessFile::version; empty if the listing does not report it (all but gs://, s3://).
  std::string version = {};
  // Local file systems only. List describes the target of a symbolic link, with is_link set; device
  // and inode identify a folder under any name. 0 elsewhere.
  bool is_link = false;
  uint64_t device = 0;
  uint64_t inode = 0;
};

// The bytes of one file at any place. Several Reads may be in flight.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Fills `out` from `offset` on; returns how many bytes, fewer than asked only at the end of the
  // file and 0 beyond it. A file that ends before size() has become shorter: an Aborted error. A
  // negative offset is an InvalidArgument error.
  virtual absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) = 0;

  const std::string& uri() const { return uri_; }            // for messages: without secrets
  const std::string& full_uri() const { return full_uri_; }  // as it was opened
  int64_t size() const { return size_; }                     // at the time of opening
  // Tells this version from others of the same name: a generation, an ETag. Empty where the file
  // system knows none, and then another version's bytes may be read.
  virtual std::string version() const { return ""; }

 protected:
  RandomAccessFile(std::string uri, int64_t size)
      : full_uri_(std::move(uri)), uri_(DisplayName(full_uri_)), size_(size) {}

 private:
  std::string full_uri_;
  std::string uri_;
  int64_t size_;
};

// A file from its beginning to its end, once. It may read ahead.
class InputStream {
 public:
  virtual ~InputStream() = default;

  // Fills `out`; returns how many bytes, fewer than asked only at the end of the file, then 0. A
  // file that became shorter since it was opened is an Aborted error, not an end.
  virtual absl::StatusOr<int64_t> Read(absl::Span<char> out) = 0;

  const std::string& uri() const { return uri_; }            // for messages: without secrets
  const std::string& full_uri() const { return full_uri_; }  // as it was opened
  // As of a RandomAccessFile.
  virtual std::string version() const { return ""; }

 protected:
  explicit InputStream(std::string uri) : full_uri_(std::move(uri)), uri_(DisplayName(full_uri_)) {}

 private:
  std::string full_uri_;
  std::string uri_;
};

// A new file, published whole: it appears, and replaces the file of that name, when Close succeeds.
// Destroyed before that it leaves the old file, or none. Small writes are buffered.
class OutputStream {
 public:
  virtual ~OutputStream() = default;

  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Publishes the file: on return it is on the disk, or the object store has acknowledged it.
  // Fails, and publishes nothing, when an Append failed. Nothing may be called after it but the
  // destructor.
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
  // Makes missing folders above it. A bucket must exist.
  virtual absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) = 0;

  virtual absl::StatusOr<FileInfo> Stat(absl::string_view uri) = 0;
  // The files and folders right inside a folder, sorted by name. A missing folder is NotFound.
  virtual absl::StatusOr<std::vector<FileInfo>> List(absl::string_view folder_uri) = 0;
  // All files below a folder at any depth, sorted by path, without folders. Each folder is entered
  // once, however many links lead to it (local_file_system.h).
  virtual absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view folder_uri) = 0;

  // Removes one file.
  virtual absl::Status Remove(absl::string_view uri) = 0;
  // Removes a folder and all that is below it. A root or a bucket is refused.
  virtual absl::Status RemoveRecursively(absl::string_view folder_uri) = 0;
  // Makes a folder and those above it; one that is there already is fine. Only a local file system
  // has empty folders: elsewhere this does nothing, and the folder is there once a file is below
  // it. The URI of a bucket alone makes the bucket.
  virtual absl::Status CreateFolder(absl::string_view folder_uri) = 0;

  // False for NotFound; other errors are errors.
  absl::StatusOr<bool> Exists(absl::string_view uri);

  // What a program uses: local paths, file://, gs:// and s3://. The last two are made on first use,
  // and read through a cache on a local disk (caching_file_system.h) when the environment names a
  // folder for it: PENSTOCK_CACHE_DIR, of at most PENSTOCK_CACHE_GB (20) gigabytes.
  static std::shared_ptr<FileSystem> Default();
};

// As fs.OpenInput and fs.OpenRandomAccess, for files of a list that was made earlier: Aborted when
// the file is another version by now. An empty version takes any.
absl::StatusOr<std::unique_ptr<InputStream>> OpenInputOfVersion(FileSystem& fs,
                                                                absl::string_view uri,
                                                                absl::string_view version);
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccessOfVersion(
    FileSystem& fs, absl::string_view uri, absl::string_view version);

// The error of a file's Read if the file had `size` bytes when it was opened, and now ends at byte
// `end`: Aborted.
absl::Status BecameShorterError(absl::string_view uri, int64_t size, int64_t end);

// All that a stream still has.
absl::StatusOr<std::string> ReadAll(InputStream& in);

// The whole file.
absl::StatusOr<std::string> ReadFile(FileSystem& fs, absl::string_view uri);

// Publishes a file of these bytes: whole or not at all.
absl::Status WriteFile(FileSystem& fs, absl::string_view uri, absl::string_view bytes);

}  // namespace penstock::io
