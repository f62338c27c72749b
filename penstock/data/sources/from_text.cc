#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/line_reader.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

class TextFileReader : public FileReader {
 public:
  explicit TextFileReader(std::unique_ptr<LineReader> reader) : reader_(std::move(reader)) {}

  absl::StatusOr<FileBlock> Read() override {
    PENSTOCK_ASSIGN_OR_RETURN(LineBlock read, reader_->Read());
    FileBlock out = {.block = nullptr, .bytes = read.bytes};
    if (read.lines.empty()) return out;
    auto block = std::make_shared<Block>();
    block->rows = static_cast<int64_t>(read.lines.size());
    block->origins.Append(read.origins, 0, block->rows);
    const auto lines = std::make_shared<const LineBlock>(std::move(read));
    block->columns.emplace_back(
        base::Array::View(base::DType::kString, {block->rows}, lines->lines.data(), lines));
    out.block = std::move(block);
    return out;
  }

 private:
  const std::unique_ptr<LineReader> reader_;
};

class FromTextStage : public Stage {
 public:
  FromTextStage(std::vector<std::string> patterns, TextOptions options)
      : patterns_(std::move(patterns)), options_(options) {}

  absl::string_view name() const override { return "FromText"; }
  std::string Parameters() const override {
    return absl::StrCat(PrintPatterns(patterns_),
                        PrintFileInterleave(options_.parallel_files, options_.block_length),
                        options_.shuffle_files ? ", shuffle files" : "");
  }
  std::string memory_advice() const override { return kFilesMemoryAdvice; }
  int io_threads() const override {
    return ThreadsForFiles(options_.parallel_files, patterns_.size());
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    if (patterns_.empty()) return absl::InvalidArgumentError("the list of files is empty");
    if (options_.parallel_files < 0 || options_.block_length < 1 || options_.read_ahead_bytes < 0 ||
        options_.block_bytes < 1 || options_.max_line_bytes < 1) {
      return absl::InvalidArgumentError(kCountsAtLeastOne);
    }
    if (options_.block_bytes > kMaxTextBytes || options_.max_line_bytes > kMaxTextBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("block_bytes and max_line_bytes are at most ", kMaxTextBytes));
    }
    return ElementSpec{{"line", base::DType::kString, {}}};
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> files,
                              FindFiles(*context.file_system, patterns_));
    return std::make_shared<FromTextStage>(std::move(files), options_);
  }

  std::string ResolvedSources() const override { return absl::StrJoin(patterns_, "\n"); }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                              FindFiles(*context.file_system, patterns_));
    return FilesFingerprint(*context.file_system, files);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    std::vector<std::string> files = patterns_;
    if (options_.shuffle_files) ShuffleFiles(base::MixSeeds(context.seed, context.epoch), files);
    const auto open = [options = LineReaderOptions{.block_bytes = options_.block_bytes,
                                                   .max_line_bytes = options_.max_line_bytes}](
                          io::FileSystem& file_system,
                          const std::string& uri) -> absl::StatusOr<std::unique_ptr<FileReader>> {
      PENSTOCK_ASSIGN_OR_RETURN(auto reader, LineReader::Open(file_system, uri, options));
      return std::make_unique<TextFileReader>(std::move(reader));
    };
    return MakeFileInterleave(context, std::move(files), open,
                              {.parallel_files = options_.parallel_files,
                               .block_length = options_.block_length,
                               .read_ahead_bytes = options_.read_ahead_bytes});
  }

 private:
  const std::vector<std::string> patterns_;  // files, once looked up
  const TextOptions options_;
};

}  // namespace

Dataset Dataset::FromText(std::vector<std::string> patterns, TextOptions options) {
  return From(std::make_shared<FromTextStage>(std::move(patterns), options));
}

}  // namespace penstock::data
