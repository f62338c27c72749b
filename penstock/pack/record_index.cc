#include "penstock/pack/record_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/shard_plan.h"
#include "penstock/record/compression.h"
#include "penstock/record/tfrecord.h"

namespace penstock::pack {
namespace {

constexpr int64_t kFrameBytes = record::kTfRecordHeaderBytes + record::kTfRecordFooterBytes;

absl::Status ChangedError(const std::string& uri) {
  return absl::AbortedError(absl::StrCat(
      io::DisplayName(uri), " changed while it was read; start over once it is complete"));
}

// Appends the decompressed bytes of the file to `scratch`. DATA_LOSS ends the copy and is stored in
// `corruption`; other errors are returned.
absl::Status CopyDecompressed(io::FileSystem& fs, const std::string& uri,
                              record::Compression compression, ScratchFile& scratch,
                              absl::Status& corruption) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::InputStream> in, fs.OpenInput(uri));
  if (compression != record::Compression::kNone) in = record::Inflate(std::move(in), compression);
  std::string chunk(1 << 20, '\0');
  for (;;) {
    const absl::StatusOr<int64_t> n = in->Read(absl::MakeSpan(chunk));
    if (absl::IsDataLoss(n.status())) {
      corruption = n.status();
      return absl::OkStatus();
    }
    PENSTOCK_RETURN_IF_ERROR(n.status());
    if (*n == 0) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(scratch.Append(absl::string_view(chunk).substr(0, *n)));
  }
}

// Returns the offset of each record, and the end of the last one, by following the length fields
// (record/tfrecord.h describes the format).
absl::StatusOr<std::vector<int64_t>> FindRecords(io::RandomAccessFile& file) {
  std::vector<int64_t> offsets{0};
  char header[record::kTfRecordHeaderBytes];
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t n, file.Read(offsets.back(), absl::MakeSpan(header)));
    if (n < record::kTfRecordHeaderBytes) return offsets;
    const std::optional<uint64_t> length = record::ReadTfRecordLength({header, sizeof(header)});
    const int64_t left = file.size() - offsets.back() - kFrameBytes;
    if (!length.has_value() || left < 0 || *length > static_cast<uint64_t>(left)) return offsets;
    offsets.push_back(offsets.back() + kFrameBytes + static_cast<int64_t>(*length));
  }
}

// Reads the record at `offset`.
absl::StatusOr<std::string> ReadRecord(std::shared_ptr<io::RandomAccessFile> file, int64_t offset,
                                       int64_t number, int64_t bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(
      auto reader,
      record::TfRecordReader::FromFile(std::move(file), {.compression = record::Compression::kNone,
                                                         .begin = offset,
                                                         .end = offset + 1,
                                                         .first_index = number,
                                                         .block_bytes = bytes}));
  PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
  if (block.empty()) return absl::AbortedError("the file was truncated while it was read");
  return std::string(block.records[0]);
}

}  // namespace

absl::StatusOr<RecordIndex> RecordIndex::Build(io::FileSystem& fs,
                                               const std::vector<std::string>& files,
                                               ScratchOptions scratch_options) {
  RecordIndex index(fs);
  const auto scratch = std::make_shared<ScratchFile>(std::move(scratch_options));
  for (const std::string& uri : files) {
    File file{.uri = uri,
              .first = index.size(),
              .bytes = 0,
              .offsets = {},
              .corruption = {},
              .copy = nullptr};
    PENSTOCK_ASSIGN_OR_RETURN(const auto reader, record::TfRecordReader::Open(fs, uri));
    const record::Compression compression = reader->compression();
    file.compressed = compression != record::Compression::kNone;
    std::shared_ptr<io::RandomAccessFile> bytes;
    if (file.compressed || IsRemote(uri)) {
      const int64_t begin = scratch->size();
      PENSTOCK_RETURN_IF_ERROR(CopyDecompressed(fs, uri, compression, *scratch, file.corruption));
      file.copy = bytes = ReadFrom(scratch, uri, begin, scratch->size() - begin);
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(bytes, fs.OpenRandomAccess(uri));
    }
    file.bytes = bytes->size();
    PENSTOCK_ASSIGN_OR_RETURN(file.offsets, FindRecords(*bytes));
    if (file.corruption.ok() && file.offsets.back() != bytes->size()) {
      const auto rest = ReadRecord(bytes, file.offsets.back(),
                                   static_cast<int64_t>(file.offsets.size()) - 1, kFrameBytes);
      if (rest.ok()) return ChangedError(uri);
      if (!absl::IsDataLoss(rest.status())) return base::WithContext(rest.status(), uri);
      file.corruption = rest.status();
    }
    if (!file.corruption.ok()) {
      file.corruption =
          absl::DataLossError(absl::StrCat(file.corruption.message(), record::kRestOfFileIsLost));
    }
    index.files_.push_back(std::move(file));
  }
  return index;
}

const RecordIndex::File& RecordIndex::FileOf(int64_t i) const {
  PENSTOCK_CHECK(i >= 0 && i < size());
  const auto next = std::upper_bound(files_.begin(), files_.end(), i,
                                     [](int64_t n, const File& f) { return n < f.first; });
  return *std::prev(next);
}

std::string RecordIndex::Location(int64_t i) const {
  const File& file = FileOf(i);
  return record::RecordOrigin(file.uri, file.offsets[i - file.first], i - file.first,
                              file.compressed);
}

absl::StatusOr<std::string> RecordIndex::Read(int64_t i) const {
  const File& file = FileOf(i);
  const auto number = static_cast<size_t>(i - file.first);
  if (number + 1 == file.offsets.size()) return file.corruption;
  std::shared_ptr<io::RandomAccessFile> bytes = file.copy;
  if (bytes == nullptr) {
    absl::StatusOr<std::shared_ptr<io::RandomAccessFile>> opened = fs_->OpenRandomAccess(file.uri);
    if (!opened.ok()) return StorageError(opened.status());
    bytes = *std::move(opened);
  }
  if (bytes->size() != file.bytes) return ChangedError(file.uri);
  absl::StatusOr<std::string> record =
      ReadRecord(std::move(bytes), file.offsets[number], i - file.first,
                 file.offsets[number + 1] - file.offsets[number]);
  return record.ok() ? std::move(record) : StorageError(record.status());
}

std::string RecordIndex::Fingerprint() const {
  pack::Fingerprint all;
  for (const File& file : files_) {
    all.Add(absl::string_view(file.uri));
    for (int64_t offset : file.offsets) all.Add(offset);
  }
  return all.ToString();
}

}  // namespace penstock::pack
