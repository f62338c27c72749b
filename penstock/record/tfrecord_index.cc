#include "penstock/record/tfrecord_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"

namespace penstock::record {
namespace {

constexpr int64_t kFraming = kTfRecordHeaderBytes + kTfRecordFooterBytes;
// A page or two: the next header, and several headers if records are small.
constexpr int64_t kLocalRead = 8 << 10;
constexpr int64_t kRemoteRead = 8 << 20;

// Reads headers in order through a window of the file.
class HeaderScan {
 public:
  HeaderScan(io::RandomAccessFile& file, int64_t window_bytes)
      : file_(file), window_(static_cast<size_t>(window_bytes), '\0') {}

  // Data length of the record at `offset`.
  absl::StatusOr<int64_t> LengthAt(int64_t offset, int64_t index) {
    if (offset < begin_ || offset + kTfRecordHeaderBytes > begin_ + filled_) {
      PENSTOCK_ASSIGN_OR_RETURN(filled_, file_.Read(offset, absl::MakeSpan(window_)));
      begin_ = offset;
      if (filled_ < static_cast<int64_t>(window_.size()) && offset + filled_ < file_.size()) {
        return io::TruncatedFileError(file_.uri(), file_.size(), offset + filled_);
      }
    }
    const absl::string_view header(window_.data() + (offset - begin_),
                                   static_cast<size_t>(begin_ + filled_ - offset));
    const std::optional<uint64_t> length = ReadTfRecordLength(header);
    if (!length.has_value() ||
        *length > static_cast<uint64_t>(std::max<int64_t>(0, file_.size() - offset - kFraming))) {
      return absl::DataLossError(absl::StrCat(RecordOrigin(file_.uri(), offset, index, false),
                                              ": no record begins here, or the file is truncated "
                                              "within it: it is corrupt, or not a TFRecord "
                                              "file"));
    }
    return static_cast<int64_t>(*length);
  }

 private:
  io::RandomAccessFile& file_;
  std::string window_;
  int64_t begin_ = 0, filled_ = 0;
};

absl::Status RejectCompressed(const std::shared_ptr<io::RandomAccessFile>& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto reader,
                            TfRecordReader::FromFile(file, {.block_bytes = kTfRecordHeaderBytes}));
  if (reader->compression() == Compression::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file->uri(), " is compressed (", CompressionName(reader->compression()),
                   "), and a compressed file has no random access to its records; write the shards "
                   "without compression, or use a shuffle buffer"));
}

// Parses an index file.
absl::StatusOr<std::vector<int64_t>> ParseIndex(absl::string_view record, int64_t shard_bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const FeatureMap features, ReadExample(record));
  const auto numbers = [&](const char* name) -> absl::Span<const int64_t> {
    const auto found = features.find(name);
    if (found == features.end() || !found->second.valid() ||
        found->second.dtype() != base::DType::kI64) {
      return {};
    }
    return found->second.values<int64_t>();
  };
  const absl::Span<const int64_t> bytes = numbers("bytes"), lengths = numbers("lengths");
  int64_t left = shard_bytes;
  for (int64_t length : lengths) {
    if (length < 0 || left < kFraming || length > left - kFraming) {
      left = -1;
      break;
    }
    left -= length + kFraming;
  }
  if (bytes.size() != 1 || bytes[0] != shard_bytes || left != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the index does not belong to this file of ", shard_bytes, " bytes"));
  }
  return std::vector<int64_t>(lengths.begin(), lengths.end());
}

}  // namespace

std::string TfRecordIndexUri(absl::string_view shard) { return io::AppendToName(shard, ".index"); }

TfRecordIndex::TfRecordIndex(std::string shard, const std::vector<int64_t>& lengths)
    : shard_(std::move(shard)) {
  offsets_.reserve(lengths.size() + 1);
  offsets_.push_back(0);
  for (int64_t length : lengths) offsets_.push_back(offsets_.back() + length + kFraming);
}

absl::StatusOr<TfRecordIndex> TfRecordIndex::Build(io::FileSystem& fs, absl::string_view shard) {
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(shard));
  PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(shard));
  PENSTOCK_RETURN_IF_ERROR(RejectCompressed(file));
  HeaderScan scan(*file, uri.is_local() ? kLocalRead : kRemoteRead);
  std::vector<int64_t> lengths;
  for (int64_t offset = 0; offset < file->size(); offset += lengths.back() + kFraming) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t length,
                              scan.LengthAt(offset, static_cast<int64_t>(lengths.size())));
    lengths.push_back(length);
  }
  return TfRecordIndex(std::string(shard), lengths);
}

absl::StatusOr<TfRecordIndex> TfRecordIndex::Load(io::FileSystem& fs, absl::string_view shard) {
  const std::string uri = TfRecordIndexUri(shard);
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, fs.Stat(shard));
  PENSTOCK_ASSIGN_OR_RETURN(const auto reader, TfRecordReader::Open(fs, uri));
  PENSTOCK_ASSIGN_OR_RETURN(const RecordBlock block, reader->ReadBlock());
  const absl::string_view record = block.empty() ? absl::string_view() : block.records[0];
  absl::StatusOr<std::vector<int64_t>> lengths = ParseIndex(record, info.size);
  if (!lengths.ok()) return base::WithContext(lengths.status(), io::DisplayName(uri));
  return TfRecordIndex(std::string(shard), *lengths);
}

absl::StatusOr<TfRecordIndex> TfRecordIndex::LoadOrBuild(io::FileSystem& fs,
                                                         absl::string_view shard) {
  absl::StatusOr<TfRecordIndex> index = Load(fs, shard);
  if (index.ok()) return index;
  // If the shard is missing or its storage unavailable, Build reports it again.
  index = Build(fs, shard);
  if (index.ok()) index->Save(fs).IgnoreError();  // a read-only folder
  return index;
}

absl::Status TfRecordIndex::Save(io::FileSystem& fs) const {
  std::vector<int64_t> lengths;
  lengths.reserve(offsets_.size());
  for (int64_t i = 0; i < size(); ++i) lengths.push_back(FrameBytes(i) - kFraming);
  ExampleBuilder example;
  example.SetInt64("bytes", offsets_.back());
  example.SetInt64List("lengths", lengths);
  PENSTOCK_ASSIGN_OR_RETURN(const auto writer,
                            TfRecordWriter::Create(fs, TfRecordIndexUri(shard_)));
  PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
  return writer->Close();
}

absl::StatusOr<RecordBlock> TfRecordIndex::ReadRecord(
    const std::shared_ptr<io::RandomAccessFile>& file, int64_t i, bool verify) const {
  PENSTOCK_CHECK(i >= 0 && i < size());
  PENSTOCK_ASSIGN_OR_RETURN(const auto reader,
                            TfRecordReader::FromFile(file, {.compression = Compression::kNone,
                                                            .begin = OffsetOf(i),
                                                            .end = OffsetOf(i + 1),
                                                            .first_index = i,
                                                            .block_bytes = FrameBytes(i),
                                                            .verify = verify}));
  PENSTOCK_ASSIGN_OR_RETURN(RecordBlock block, reader->ReadBlock());
  if (block.size() != 1 || block.next_offset != OffsetOf(i + 1)) {
    return absl::DataLossError(
        absl::StrCat(RecordOrigin(file->uri(), OffsetOf(i), i, false),
                     ": the record does not match the index; was the shard replaced? Delete ",
                     TfRecordIndexUri(shard_), " to rebuild it"));
  }
  return block;
}

}  // namespace penstock::record
