#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/interleaved_source.h"
#include "penstock/data/sources/shuffled_tfrecords.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {
namespace {

class RecordOrigins : public OriginSource {
 public:
  explicit RecordOrigins(const record::RecordBlock& block)
      : uri_(block.uri), compressed_(block.compressed), first_index_(block.first_index) {
    offsets_.reserve(block.records.size());
    for (int64_t i = 0; i < block.size(); ++i) offsets_.push_back(block.OffsetOf(i));
  }
  std::string At(int64_t index) const override {
    return record::RecordOrigin(*uri_, offsets_[index], first_index_ + index, compressed_);
  }

 private:
  const std::shared_ptr<const std::string> uri_;
  const bool compressed_;
  const int64_t first_index_;
  std::vector<int64_t> offsets_;
};

// A block whose column `record` views the memory that was read.
BlockPtr ToBlock(record::RecordBlock records) {
  auto block = std::make_shared<Block>();
  block->rows = records.size();
  block->origins.Append(std::make_shared<RecordOrigins>(records), 0, records.size());
  const auto owner = std::make_shared<const record::RecordBlock>(std::move(records));
  block->columns.emplace_back(
      base::Array::View(base::DType::kString, {owner->size()}, owner->records.data(), owner));
  return block;
}

class RecordFileReader : public FileReader {
 public:
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(io::FileSystem& file_system,
                                                          const std::string& uri,
                                                          const std::string& version,
                                                          record::TfRecordReaderOptions options) {
    auto reader = std::unique_ptr<RecordFileReader>(new RecordFileReader);
    options.on_corruption = [damage = &reader->damage_](const std::string& origin,
                                                        const absl::Status& error) {
      // Its message contains the origin already.
      absl::string_view what = error.message();
      absl::ConsumePrefix(&what, absl::StrCat(origin, ": "));
      damage->push_back(
          RecoverableError(absl::Status(error.code(), what), origin, "FromTfRecords"));
    };
    // As a stream: that of an object store keeps several ranges in flight.
    PENSTOCK_ASSIGN_OR_RETURN(auto stream, io::OpenInputOfVersion(file_system, uri, version));
    PENSTOCK_ASSIGN_OR_RETURN(reader->reader_,
                              record::TfRecordReader::FromStream(std::move(stream), options));
    return reader;
  }

  absl::StatusOr<FileBlock> Read() override {
    PENSTOCK_ASSIGN_OR_RETURN(record::RecordBlock records, reader_->ReadBlock());
    FileBlock out = {.block = nullptr, .skipped = std::exchange(damage_, {})};
    if (records.empty()) return out;
    for (absl::string_view record : records.records) out.bytes += record.size();
    out.block = ToBlock(std::move(records));
    return out;
  }

 private:
  RecordFileReader() = default;

  std::vector<absl::Status> damage_;  // skipped by the last call
  std::unique_ptr<record::TfRecordReader> reader_;
};

constexpr int64_t kMaxBlockBytes = int64_t{1} << 30;

struct FromTfRecordsFields {
  std::vector<std::string> patterns = {};
  TfRecordOptions options = {};
};
void Fields(StageFields& f, FromTfRecordsFields& p) {
  TfRecordOptions& o = p.options;
  f.Reads(&p.patterns);
  FileInterleaveFields(f, o, kMaxParallelFiles);
  f.Value("global_shuffle", &o.global_shuffle);
  f.Value("verify", &o.verify);
  f.Value("skip_corrupt", &o.skip_corrupt);
}

absl::Status CheckOptions(const TfRecordOptions& options) {
  if (options.block_bytes < 1) return absl::InvalidArgumentError(kCountsAtLeastOne);
  if (options.block_bytes > kMaxBlockBytes) {
    return absl::InvalidArgumentError(absl::StrCat("block_bytes is at most ", kMaxBlockBytes));
  }
  return absl::OkStatus();
}

// For one iterator: all its passes share the buffers.
OpenFileReader OpenTfRecords(const TfRecordOptions& options, const SourceFiles& files) {
  const int64_t ahead = options.read_ahead_bytes == 0 ? kReadAheadBytes : options.read_ahead_bytes;
  const int64_t kept = std::clamp<int64_t>(ahead / options.block_bytes, 2, 256);
  const record::TfRecordReaderOptions read = {
      .block_bytes = options.block_bytes,
      .verify = options.verify,
      .skip_corrupt = options.skip_corrupt,
      .buffers = std::make_shared<record::TfRecordBufferPool>(options.block_bytes,
                                                              static_cast<int>(kept))};
  return [read, files](io::FileSystem& file_system, const std::string& uri) {
    return RecordFileReader::Open(file_system, uri, files.VersionOf(uri), read);
  };
}

// By the indices beside the shards; unknown without them.
absl::StatusOr<int64_t> CountRecords(io::FileSystem& file_system, const SourceFiles& shards) {
  // Mostly all of them have an index, or none has: the first one tells which.
  absl::Status status = record::TfRecordIndex::Load(file_system, shards.names()[0]).status();
  int64_t records = 0;
  if (status.ok()) {
    const auto indices = LoadIndices(file_system, shards.names(), record::TfRecordIndex::Load);
    status = indices.status();
    if (status.ok()) {
      for (const record::TfRecordIndex& index : *indices) records += index.size();
    }
  }
  if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) return kUnknownCardinality;
  PENSTOCK_RETURN_IF_ERROR(status);
  return records;
}

}  // namespace

absl::Status WriteTfRecordFields(StageFields& out, const std::vector<std::string>& patterns,
                                 const TfRecordOptions& options) {
  return Write(out, FromTfRecordsFields{patterns, options});
}

Dataset Dataset::FromTfRecords(std::vector<std::string> patterns, TfRecordOptions options) {
  if (options.global_shuffle) return From(MakeShuffledTfRecords(std::move(patterns), options));
  return From(MakeInterleavedSource(
      {.name = "FromTfRecords",
       .files = SourceFiles(patterns, SourceFiles::Content::kTfRecords),
       .spec = {{"record", base::DType::kString, {}}},
       .interleave = {.parallel_files = options.parallel_files,
                      .block_length = options.block_length,
                      .read_ahead_bytes = options.read_ahead_bytes},
       .status = CheckOptions(options),
       .shuffle_files = options.shuffle_files,
       // "skip damaged" is the former name of skip_corrupt: this text is part of the fingerprint in
       // saved iterator states.
       .parameters = absl::StrCat(options.shuffle_files ? ", shuffle files" : "",
                                  options.skip_corrupt ? ", skip damaged" : ""),
       .make_open = [options](const SourceFiles& files) { return OpenTfRecords(options, files); },
       .cardinality = options.skip_corrupt ? nullptr : &CountRecords,
       .write_fields =
           [patterns, options](StageFields& out) {
             return WriteTfRecordFields(out, patterns, options);
           }}));
}

absl::StatusOr<Dataset> ReadFromTfRecords(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromTfRecordsFields>(in));
  return Dataset::FromTfRecords(std::move(p.patterns), p.options);
}

}  // namespace penstock::data
