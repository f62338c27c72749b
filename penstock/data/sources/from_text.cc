#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/interleaved_source.h"
#include "penstock/data/sources/line_reader.h"
#include "penstock/data/travel/stage_fields.h"

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

struct FromTextFields {
  std::vector<std::string> patterns = {};
  TextOptions options = {};
};
void Fields(StageFields& f, FromTextFields& p) {
  TextOptions& o = p.options;
  f.Reads(&p.patterns);
  FileInterleaveFields(f, o, kMaxParallelFiles);
  f.Value("max_line_bytes", &o.max_line_bytes);
}

absl::Status CheckOptions(const TextOptions& options) {
  if (options.block_bytes < 1 || options.max_line_bytes < 1) {
    return absl::InvalidArgumentError(kCountsAtLeastOne);
  }
  if (options.block_bytes > kMaxTextBytes || options.max_line_bytes > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_bytes and max_line_bytes are at most ", kMaxTextBytes));
  }
  return absl::OkStatus();
}

OpenFileReader OpenText(const LineReaderOptions& options) {
  return [options](io::FileSystem& file_system,
                   const std::string& uri) -> absl::StatusOr<std::unique_ptr<FileReader>> {
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, LineReader::Open(file_system, uri, options));
    return std::make_unique<TextFileReader>(std::move(reader));
  };
}

}  // namespace

Dataset Dataset::FromText(std::vector<std::string> patterns, TextOptions options) {
  const LineReaderOptions lines = {.block_bytes = options.block_bytes,
                                   .max_line_bytes = options.max_line_bytes};
  return From(
      MakeInterleavedSource({.name = "FromText",
                             .files = SourceFiles(patterns),
                             .spec = {{"line", base::DType::kString, {}}},
                             .interleave = {.parallel_files = options.parallel_files,
                                            .block_length = options.block_length,
                                            .read_ahead_bytes = options.read_ahead_bytes},
                             .status = CheckOptions(options),
                             .shuffle_files = options.shuffle_files,
                             .parameters = options.shuffle_files ? ", shuffle files" : "",
                             .make_open = [lines](const SourceFiles&) { return OpenText(lines); },
                             .write_fields =
                                 [patterns, options](StageFields& out) {
                                   return Write(out, FromTextFields{patterns, options});
                                 }}));
}

absl::StatusOr<Dataset> ReadFromText(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromTextFields>(in));
  return Dataset::FromText(std::move(p.patterns), p.options);
}

}  // namespace penstock::data
