// Where the records of a TFRecord file begin, for reading any of them without the ones before it.
//
//   PENSTOCK_ASSIGN_OR_RETURN(TfRecordIndex index, TfRecordIndex::LoadOrBuild(*fs, shard));
//   RecordBlock block = *index.ReadRecord(file, 17);
//
// An index is kept beside its shard, as SHARD.index: a TFRecord file with one tf.train.Example, so
// that its bytes stand under a checksum and any TensorFlow program can read it:
//
//   bytes   int64        of the shard that it belongs to
//   lengths int64 list   of the records' data; a record takes 16 bytes more
//
// An index whose lengths do not add up to the shard's size is another file's, or damaged, and is
// not used. Compressed shards have none: nothing can be found in them without reading all before.
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
  // Finds the records by their lengths, whose checksums are verified. Of a local file only these
  // are read; of one in object storage everything, as a request for each would take longer.
  // Compressed: InvalidArgument. Damaged: DataLoss.
  static absl::StatusOr<TfRecordIndex> Build(io::FileSystem& fs, absl::string_view shard);
  // The index beside the shard. NotFound: there is none. FailedPrecondition: it is of another file.
  static absl::StatusOr<TfRecordIndex> Load(io::FileSystem& fs, absl::string_view shard);
  // Load, or Build and Save where there is no usable one. Where it cannot be saved (a folder that
  // may only be read) it is used all the same.
  static absl::StatusOr<TfRecordIndex> LoadOrBuild(io::FileSystem& fs, absl::string_view shard);
  absl::Status Save(io::FileSystem& fs) const;

  // From the data lengths of all records, as their writer knows them.
  TfRecordIndex(std::string shard, const std::vector<int64_t>& lengths);

  const std::string& shard() const { return shard_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Of the record's length field; OffsetOf(size()) is the size of the shard.
  int64_t OffsetOf(int64_t i) const { return offsets_[static_cast<size_t>(i)]; }
  int64_t FrameBytes(int64_t i) const { return OffsetOf(i + 1) - OffsetOf(i); }

  // Record i alone, a block of one. `file` is the shard. `verify`: its data's checksum, too.
  absl::StatusOr<RecordBlock> ReadRecord(const std::shared_ptr<io::RandomAccessFile>& file,
                                         int64_t i, bool verify = true) const;

 private:
  std::string shard_;
  std::vector<int64_t> offsets_;  // one more than records
};

// "SHARD.index".
std::string TfRecordIndexUri(absl::string_view shard);

}  // namespace penstock::record
