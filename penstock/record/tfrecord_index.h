// TfRecordIndex: offsets of the records of a TFRecord file, for random access to any record. A
// global shuffle by index reads through it.
//
//   PENSTOCK_ASSIGN_OR_RETURN(TfRecordIndex index, TfRecordIndex::LoadOrBuild(*fs, shard));
//   RecordBlock block = *index.ReadRecord(file, 17);
//
// An index is stored next to its shard as SHARD.index: a TFRecord file with one tf.train.Example,
// so that it is protected by checksums and readable by any TensorFlow program:
//
//   bytes   int64        size of the shard
//   lengths int64 list   data lengths of the records; each record takes 16 bytes more
//
// An index whose lengths do not add up to the shard's size belongs to another file or is corrupt,
// and is not used. Compressed shards cannot be indexed, because they have no random access.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::record {

class TfRecordIndex {
 public:
  // Builds an index by scanning the records' lengths, whose checksums are verified. Reads only the
  // headers of a local file, but all bytes of one in object storage, because a request per record
  // would take longer. InvalidArgument for a compressed file, DataLoss for a corrupt one.
  static absl::StatusOr<TfRecordIndex> Build(io::FileSystem& fs, absl::string_view shard);
  // Loads the index next to the shard. NotFound if there is none, FailedPrecondition if it belongs
  // to another file.
  static absl::StatusOr<TfRecordIndex> Load(io::FileSystem& fs, absl::string_view shard);
  // Load; if there is no usable index, Build and Save. If it cannot be saved (a read-only folder),
  // it is used nevertheless.
  static absl::StatusOr<TfRecordIndex> LoadOrBuild(io::FileSystem& fs, absl::string_view shard);
  absl::Status Save(io::FileSystem& fs) const;

  // An index from the data lengths of all records, as known to their writer.
  TfRecordIndex(std::string shard, const std::vector<int64_t>& lengths);

  const std::string& shard() const { return shard_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Offset of record i (of its length field); OffsetOf(size()) is the size of the shard.
  int64_t OffsetOf(int64_t i) const { return offsets_[static_cast<size_t>(i)]; }
  int64_t FrameBytes(int64_t i) const { return OffsetOf(i + 1) - OffsetOf(i); }

  // Reads record i as a block of one record. `file` is the shard. `verify`: also checks the CRC of
  // its data.
  absl::StatusOr<RecordBlock> ReadRecord(const std::shared_ptr<io::RandomAccessFile>& file,
                                         int64_t i, bool verify = true) const;

 private:
  std::string shard_;
  std::vector<int64_t> offsets_;  // size() + 1 entries
};

// URI of the index of a shard: "SHARD.index".
std::string TfRecordIndexUri(absl::string_view shard);

}  // namespace penstock::record
