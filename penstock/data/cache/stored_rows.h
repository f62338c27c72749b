// Elements stored in a folder for later runs: the files of Cache(folder) and Snapshot. A folder
// holds (KIND is "cache" or "snapshot")
//
//   KIND.manifest             one record (TFRecord, so with a checksum): what is stored, of which
//                             pipeline, in which files
//   KIND-<random>-<n>.tfrec   the elements in order, several per record (rows_format.h), with the
//                             errors of failed elements in their positions
//   KIND.lock                 locked (flock) by the writing process; the kernel unlocks it when the
//                             process dies. Only on a local disk.
//
// The manifest is published last, atomically. Without it, or if it cannot be read or names a file
// of another size, nothing is stored.
//
// Why not Arrow IPC files, which pandas and DuckDB could read (libarrow, which is bundled, has it):
// they have no checksums, and a corrupt element must be an error here and not wrong data; rows of
// one column may differ in shape and rank, and a row may be an error with its origin, which a
// schema of Arrow can only carry as columns that no other program understands. TFRecord files have
// the checksums, and are read by the same code as shards: interleaved, ahead, with retries.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/engine/rows.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/spec.h"
#include "penstock/io/file_system.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {

// Identity of a store: its location, and the pipeline that it holds.
struct StoredRowsKey {
  std::string kind;
  std::string folder;
  std::string pipeline;  // as Dataset::ToString prints it
  ElementSpec spec;
  std::string sources;  // fingerprint of what it reads (Stage::SourceFingerprint)
};

// Files to read, in order; nullopt if they have to be made. FailedPrecondition if the folder
// belongs to another pipeline.
absl::StatusOr<std::optional<std::vector<std::string>>> FindStoredRows(io::FileSystem& fs,
                                                                       const StoredRowsKey& key);

// Contents of a folder, whichever pipeline stored it.
struct StoredRows {
  ElementSpec spec;
  std::vector<std::string> files;  // in order
  int64_t elements = 0;            // including errors
};
// NotFound: nothing is stored, or it is incomplete.
absl::StatusOr<StoredRows> ReadStoredRows(io::FileSystem& fs, const std::string& kind,
                                          const std::string& folder);

absl::StatusOr<std::unique_ptr<FileReader>> OpenStoredRows(io::FileSystem& fs,
                                                           const std::string& file,
                                                           const ElementSpec& spec);

// Writer of a store. One thread at a time.
class StoredRowsWriter {
 public:
  // Begins a new store, with files of about `shard_bytes`. Null if another process is writing.
  static absl::StatusOr<std::unique_ptr<StoredRowsWriter>> Create(
      std::shared_ptr<io::FileSystem> fs, const StoredRowsKey& key, int64_t shard_bytes);

  absl::Status Append(const RowRefs& rows);
  absl::Status AppendError(const absl::Status& error);  // a recoverable error
  // Publishes the manifest, after all rows. A writer that is destroyed without it leaves files that
  // no reader uses.
  absl::Status Publish();

 private:
  StoredRowsWriter(std::shared_ptr<io::FileSystem> fs, const StoredRowsKey& key,
                   int64_t shard_bytes, io::FileDescriptor lock);
  absl::Status AppendRecord(absl::string_view record);
  absl::Status OpenFile();
  absl::Status CloseFile();

  const std::shared_ptr<io::FileSystem> fs_;
  const StoredRowsKey key_;
  const int64_t shard_bytes_;
  const io::FileDescriptor lock_;  // invalid if the file system has no locks
  const std::string id_;
  std::vector<std::string> files_;  // names
  std::vector<int64_t> sizes_;      // of those that are closed
  std::unique_ptr<record::TfRecordWriter> writer_;
  int64_t elements_ = 0;
  bool has_errors_ = false;
};

}  // namespace penstock::data
