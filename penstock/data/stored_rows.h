// Elements kept in a folder for later runs: what Cache(folder) and Snapshot stand on. A folder
// holds (KIND is "cache" or "snapshot")
//
//   KIND.manifest             one record (TFRecord, so with a checksum): what is stored, of which
//                             pipeline, in which files
//   KIND-<random>-<n>.tfrec   the elements in order, several per record (rows_format.h), with the
//                             errors of failed elements in their positions
//   KIND.lock                 locked (flock) by the writing process; the kernel unlocks it when the
//                             process dies. Only on a local disk.
//
// The manifest is published last, whole or not at all. Without it, or with one that cannot be read
// or names a file of another size, nothing is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/files_in_turns.h"
#include "penstock/data/rows.h"
#include "penstock/data/spec.h"
#include "penstock/io/file_descriptor.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {

// Where, and of what.
struct StoredRowsKey {
  std::string kind;
  std::string folder;
  std::string pipeline;  // as Dataset::ToString prints it
  ElementSpec spec;
  std::string sources;  // the state of what it reads (Stage::SourceState)
};

// The files to read, in order; none when they have to be made. FailedPrecondition when the folder
// is another pipeline's.
absl::StatusOr<std::optional<std::vector<std::string>>> FindStoredRows(io::FileSystem& fs,
                                                                       const StoredRowsKey& key);

// What stands in a folder, whoever stored it.
struct StoredRows {
  ElementSpec spec;
  std::vector<std::string> files;  // in order
  int64_t elements = 0;            // including errors
};
// NotFound: nothing, or nothing whole.
absl::StatusOr<StoredRows> ReadStoredRows(io::FileSystem& fs, const std::string& kind,
                                          const std::string& folder);

absl::StatusOr<std::unique_ptr<FileReader>> OpenStoredRows(io::FileSystem& fs,
                                                           const std::string& file,
                                                           const ElementSpec& spec);

// One thread at a time.
class StoredRowsWriter {
 public:
  // A file ends when it has `shard_bytes`. Null when somebody else is writing.
  static absl::StatusOr<std::unique_ptr<StoredRowsWriter>> Create(
      std::shared_ptr<io::FileSystem> fs, const StoredRowsKey& key, int64_t shard_bytes);

  absl::Status Append(const Rows& rows);
  absl::Status AppendError(const absl::Status& error);  // OfOneElement
  // After all rows. Destroyed without it, a writer leaves nothing that is read.
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
  const io::FileDescriptor lock_;  // none where there are no locks
  const std::string id_;
  std::vector<std::string> files_;  // names
  std::vector<int64_t> sizes_;      // of those that are closed
  std::unique_ptr<record::TfRecordWriter> writer_;
  int64_t elements_ = 0;
  bool has_errors_ = false;
};

}  // namespace penstock::data
