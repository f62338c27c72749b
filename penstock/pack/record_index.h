// Every record of a list of TFRecord files, to be read one by one in any order.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const RecordIndex index, RecordIndex::Build(fs, files));
//   for (int64_t i : shuffled) {
//     PENSTOCK_ASSIGN_OR_RETURN(const std::string record, index.Read(i));
//   }
//
// Of local files only the lengths are read first. Files that are compressed or lie in object
// storage are copied, inflated, to a scratch file (scratch_file.h), because a record after the
// other could not be read from them: so each byte is fetched once, and the disk needs room for
// them.
//
// Only damage (DATA_LOSS: a checksum, bad compressed data) counts as a record that cannot be read.
// A file that cannot be read, or that changed since Build, is an error of Build or Read with
// another code (ABORTED for a change), so that a conversion stops instead of leaving out good
// records.
//
// Threads: Read from any number of them.
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

  // A place from which on a file cannot be read counts as a record, which gives the error.
  int64_t size() const { return files_.empty() ? 0 : files_.back().first + files_.back().count(); }
  // "uri:offset:record".
  std::string Where(int64_t i) const;
  // Checks the record's CRC.
  absl::StatusOr<std::string> Read(int64_t i) const;
  // Of names, sizes and places of the records.
  std::string Fingerprint() const;

 private:
  struct File {
    std::string uri;
    bool compressed = false;
    int64_t first = 0;                           // number of its first record in the index
    int64_t bytes = 0;                           // of the file, or of its copy
    std::vector<int64_t> offsets;                // of its records, and where the last one ends
    absl::Status damage;                         // what hides the rest of it
    std::shared_ptr<io::RandomAccessFile> copy;  // in the scratch file; nullptr: read the file

    int64_t count() const {
      return static_cast<int64_t>(offsets.size()) - 1 + (damage.ok() ? 0 : 1);
    }
  };

  explicit RecordIndex(io::FileSystem& fs) : fs_(&fs) {}
  const File& FileOf(int64_t i) const;

  io::FileSystem* fs_;
  std::vector<File> files_;
};

}  // namespace penstock::pack
