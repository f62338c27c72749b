#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/shuffled_tfrecords.h"
#include "penstock/data/stage.h"
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

class FromTfRecordsStage : public Stage {
 public:
  FromTfRecordsStage(std::vector<std::string> patterns, TfRecordOptions options,
                     std::shared_ptr<const Shards> found = std::make_shared<Shards>())
      : patterns_(std::move(patterns)), options_(options), resolved_sources_(std::move(found)) {
    if (options.block_bytes < 1) return;  // OutputSpec reports it
    const int64_t ahead =
        options.read_ahead_bytes == 0 ? kReadAheadBytes : options.read_ahead_bytes;
    const int64_t kept = std::clamp<int64_t>(ahead / options.block_bytes, 2, 256);
    buffers_ =
        std::make_shared<record::TfRecordBufferPool>(options.block_bytes, static_cast<int>(kept));
  }

  absl::string_view name() const override { return "FromTfRecords"; }
  std::string Parameters() const override {
    std::string out =
        absl::StrCat(PrintPatterns(patterns_),
                     PrintFileInterleave(options_.parallel_files, options_.block_length));
    if (options_.shuffle_files) absl::StrAppend(&out, ", shuffle files");
    if (options_.skip_damaged) absl::StrAppend(&out, ", skip damaged");
    return out;
  }
  std::string memory_advice() const override { return kFilesMemoryAdvice; }
  int io_threads() const override {
    return ThreadsForFiles(options_.parallel_files, patterns_.size());
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    if (patterns_.empty()) return absl::InvalidArgumentError("the list of files is empty");
    if (options_.parallel_files < 0 || options_.block_length < 1 || options_.read_ahead_bytes < 0 ||
        options_.block_bytes < 1) {
      return absl::InvalidArgumentError(kCountsAtLeastOne);
    }
    if (options_.block_bytes > kMostBlockBytes) {
      return absl::InvalidArgumentError(absl::StrCat("block_bytes is at most ", kMostBlockBytes));
    }
    return ElementSpec{{"record", base::DType::kString, {}}};
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(Shards shards, FindShards(*context.file_system, patterns_));
    const auto found = std::make_shared<const Shards>(std::move(shards));
    return std::make_shared<FromTfRecordsStage>(found->files, options_, found);
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext& context) const override {
    if (options_.skip_damaged) return kUnknownCardinality;
    PENSTOCK_ASSIGN_OR_RETURN(const Shards shards, FindShards(*context.file_system, patterns_));
    // Mostly all of them have an index, or none has: the first one tells which.
    absl::Status status =
        record::TfRecordIndex::Load(*context.file_system, shards.files[0]).status();
    int64_t records = 0;
    if (status.ok()) {
      const auto indices =
          LoadIndices(*context.file_system, shards.files, record::TfRecordIndex::Load);
      status = indices.status();
      if (status.ok()) {
        for (const record::TfRecordIndex& index : *indices) records += index.size();
      }
    }
    if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) return kUnknownCardinality;
    PENSTOCK_RETURN_IF_ERROR(status);
    return records;
  }

  std::string ResolvedSources() const override { return absl::StrJoin(patterns_, "\n"); }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const Shards shards, FindShards(*context.file_system, patterns_));
    return FilesFingerprint(*context.file_system, shards.files);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    context.counters.SetHint(resolved_sources_->empty_shards_warning);
    std::vector<std::string> files = patterns_;
    if (options_.shuffle_files) ShuffleFiles(base::MixSeeds(context.seed, context.epoch), files);
    const record::TfRecordReaderOptions options = {.block_bytes = options_.block_bytes,
                                                   .verify = options_.verify,
                                                   .skip_corrupt = options_.skip_damaged,
                                                   .buffers = buffers_};
    const auto open = [options, found = resolved_sources_](io::FileSystem& file_system,
                                                           const std::string& uri) {
      return RecordFileReader::Open(file_system, uri, found->VersionOf(uri), options);
    };
    return MakeFileInterleave(context, std::move(files), open,
                              {.parallel_files = options_.parallel_files,
                               .block_length = options_.block_length,
                               .read_ahead_bytes = options_.read_ahead_bytes});
  }

 private:
  static constexpr int64_t kMostBlockBytes = int64_t{1} << 30;

  const std::vector<std::string> patterns_;  // files, once looked up
  const TfRecordOptions options_;
  const std::shared_ptr<const Shards> resolved_sources_;  // empty before
  std::shared_ptr<record::TfRecordBufferPool> buffers_;   // of all passes
};

}  // namespace

Dataset Dataset::FromTfRecords(std::vector<std::string> patterns, TfRecordOptions options) {
  if (options.global_shuffle) return From(MakeShuffledTfRecords(std::move(patterns), options));
  return From(std::make_shared<FromTfRecordsStage>(std::move(patterns), options));
}

}  // namespace penstock::data
