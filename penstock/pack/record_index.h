// RecordIndex: random access to all records of a list of TFRecord files.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const RecordIndex index, RecordIndex::Build(fs, files));
//   for (int64_t i : shuffled) {
//     PENSTOCK_ASSIGN_OR_RETURN(const std::string record, index.Read(i));
//   }
//
// Build reads only the record lengths of local files. It decompresses and copies files that are
// compressed or in object storage to a scratch file (scratch_file.h), since these do not allow
// efficient random access: each byte is fetched once, and the scratch folder needs space for them.
//
// Only corrupt data (DATA_LOSS: a wrong checksum, invalid compressed data) counts as an unreadable
// record. A file that cannot be read or has changed since Build fails Build or Read with another
// code (ABORTED for a change), so that a conversion stops instead of skipping valid records.
//
// Thread safety: Read may be called concurrently.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"
#include "penstock/pack/scratch_file.h"

namespace penstock::pack {

class RecordIndex {
 public:
  // `fs` must outlive the index.
  static absl::StatusOr<RecordIndex> Build(io::FileSystem& fs,
                                           const std::vector<std::string>& files,
                                           ScratchOptions scratch = {});

  // Number of records. The unreadable rest of a file counts as one record, whose Read returns the
  // error.
  int64_t size() const { return files_.empty() ? 0 : files_.back().first + files_.back().count(); }
  // Returns "uri:offset:record".
  std::string Location(int64_t i) const;
  // Reads a record and verifies its CRC.
  absl::StatusOr<std::string> Read(int64_t i) const;
  // Returns a hash of the file names and the record offsets.
  std::string Fingerprint() const;

 private:
  struct File {
    std::string uri;
    bool compressed = false;
    int64_t first = 0;                           // index of its first record
    int64_t bytes = 0;                           // size of the file or of its copy
    std::vector<int64_t> offsets;                // offsets of its records, and the end of the last
    absl::Status corruption;                     // error that makes the rest unreadable, or OK
    std::shared_ptr<io::RandomAccessFile> copy;  // copy in the scratch file; null: none

    int64_t count() const {
      return static_cast<int64_t>(offsets.size()) - 1 + (corruption.ok() ? 0 : 1);
    }
  };

  explicit RecordIndex(io::FileSystem& fs) : fs_(&fs) {}
  const File& FileOf(int64_t i) const;

  io::FileSystem* fs_;
  std::vector<File> files_;
};

}  // namespace penstock::pack
