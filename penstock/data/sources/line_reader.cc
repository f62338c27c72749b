#include "penstock/data/sources/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/compression.h"

namespace penstock::data {
namespace {

using base::Array;

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr int64_t kMarkBytes = 3;

// At most eight bytes per row, because a cache stores them all.
class LineOrigins : public OriginSource {
 public:
  LineOrigins(std::shared_ptr<const std::string> uri, int64_t offset, int64_t line)
      : uri_(std::move(uri)), offset_(offset), line_(line) {}

  std::string At(int64_t index) const override {
    if (!lines_.empty()) return absl::StrCat(*uri_, ":", line_ + lines_[index]);
    return absl::StrCat(*uri_, ":", offset_ + offsets_[index], ":", line_ + index);
  }

  void AddLine(int64_t offset) { offsets_.push_back(static_cast<uint32_t>(offset - offset_)); }
  void AddRow(int64_t line) { lines_.push_back(static_cast<uint32_t>(line - line_)); }

 private:
  const std::shared_ptr<const std::string> uri_;
  const int64_t offset_;
  const int64_t line_;
  // One of both, relative to the block's first.
  std::vector<uint32_t> offsets_;
  std::vector<uint32_t> lines_;
};

}  // namespace

LineReader::LineReader(std::unique_ptr<io::InputStream> stream, const LineReaderOptions& options)
    : uri_(std::make_shared<const std::string>(stream->uri())),
      stream_(std::move(stream)),
      options_(options) {}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(io::FileSystem& file_system,
                                                             const std::string& uri,
                                                             const LineReaderOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto stream, file_system.OpenInput(uri));
  if (absl::EndsWith(io::Basename(uri), ".gz")) {
    stream = record::Inflate(std::move(stream), record::Compression::kGzip);
  }
  return std::unique_ptr<LineReader>(new LineReader(std::move(stream), options));
}

std::string LineReader::Here() const {
  if (options_.csv_rows) return absl::StrCat(*uri_, ":", line_);
  return absl::StrCat(*uri_, ":", offset_, ":", line_);
}

absl::StatusOr<LineBlock> LineReader::Read() {
  for (;;) {
    LineBlock block = CutLines();
    if (!block.lines.empty()) return block;
    if (ended_ && taken_ == filled_) return block;
    PENSTOCK_RETURN_IF_ERROR(Fill());
  }
}

// Appends to the remaining bytes, in new memory: lines that were returned keep the old.
absl::Status LineReader::Fill() {
  const int64_t left = filled_ - taken_;
  // What is left may end in "\r".
  if (ended_ || left > options_.max_line_bytes + 1) {
    return absl::DataLossError(absl::StrCat(
        Here(), ": the line is longer than ", options_.max_line_bytes, " bytes (max_line_bytes)",
        options_.quotes ? "; perhaps a closing double quote is missing" : ""));
  }
  // Twice what is left, so that a long line is not looked at too often.
  Array next = Array::Uninitialized(base::DType::kU8,
                                    {left + std::max({left, options_.block_bytes, kMarkBytes})});
  char* to = static_cast<char*>(next.mutable_raw());
  if (left > 0) std::memcpy(to, static_cast<const char*>(buffer_.raw()) + taken_, left);
  const size_t room = static_cast<size_t>(next.dim(0) - left);
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t read, stream_->Read(absl::MakeSpan(to + left, room)));
  ended_ = read < static_cast<int64_t>(room);
  buffer_ = std::move(next);
  filled_ = left + read;
  taken_ = 0;
  if (offset_ == 0 && absl::StartsWith({to, static_cast<size_t>(filled_)}, kByteOrderMark)) {
    taken_ = offset_ = kMarkBytes;
  }
  return absl::OkStatus();
}

// Finds the end of the line that begins at taken_: the offset after its line feed.
bool LineReader::FindEnd(int64_t* end, int64_t* line_breaks) const {
  const char* bytes = static_cast<const char*>(buffer_.raw());
  const auto left = static_cast<size_t>(filled_ - taken_);
  const void* found = left == 0 ? nullptr : std::memchr(bytes + taken_, '\n', left);
  *end = found == nullptr ? filled_ : static_cast<const char*>(found) - bytes + 1;
  *line_breaks = found == nullptr ? 0 : 1;
  // Most rows have no quotes.
  const auto size = static_cast<size_t>(*end - taken_);
  if (options_.quotes && size > 0 && std::memchr(bytes + taken_, '"', size) != nullptr) {
    return FindEndOfRow(end, line_breaks);
  }
  return found != nullptr || (ended_ && taken_ < filled_);
}

// As above for a row that has quotes: goes from field to field.
bool LineReader::FindEndOfRow(int64_t* end, int64_t* line_breaks) const {
  const char* bytes = static_cast<const char*>(buffer_.raw());
  *line_breaks = 0;
  for (int64_t field = taken_; field < filled_;) {
    int64_t at = field;
    if (bytes[at] == '"') {
      at = EndOfQuotes(at);
      *line_breaks += std::count(bytes + field, bytes + at, '\n');
    }
    while (at < filled_ && bytes[at] != options_.delimiter && bytes[at] != '\n') ++at;
    if (at == filled_) break;
    field = at + 1;
    if (bytes[at] == '\n') {
      *end = field;
      ++*line_breaks;
      return true;
    }
  }
  *end = filled_;
  return ended_ && taken_ < filled_;
}

// Offset after the quote that closes the one at `at`. If the next byte, which may double the last
// quote, has not been read yet, the end of the bytes read.
int64_t LineReader::EndOfQuotes(int64_t at) const {
  const char* bytes = static_cast<const char*>(buffer_.raw());
  for (++at; at < filled_; at += 2) {
    const void* found = std::memchr(bytes + at, '"', static_cast<size_t>(filled_ - at));
    if (found == nullptr) return filled_;
    at = static_cast<const char*>(found) - bytes;
    if (at + 1 == filled_) return filled_;
    if (bytes[at + 1] != '"') return at + 1;
  }
  return filled_;
}

LineBlock LineReader::CutLines() {
  LineBlock block;
  block.owner = buffer_.owner();
  const auto origins = std::make_shared<LineOrigins>(uri_, offset_, line_);
  int64_t end, line_breaks;
  while (FindEnd(&end, &line_breaks)) {
    absl::string_view line(static_cast<const char*>(buffer_.raw()) + taken_,
                           static_cast<size_t>(end - taken_));
    if (absl::EndsWith(line, "\n")) {
      line.remove_suffix(1);
      if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    }
    if (static_cast<int64_t>(line.size()) > options_.max_line_bytes) break;  // Fill says so
    if (!options_.csv_rows) {
      origins->AddLine(offset_);
      block.lines.push_back(line);
    } else if (!line.empty()) {
      origins->AddRow(line_);
      block.lines.push_back(line);
    }
    block.bytes += end - taken_ + static_cast<int64_t>(sizeof(line));
    offset_ += end - taken_;
    line_ += line_breaks;
    taken_ = end;
  }
  block.origins = origins;
  return block;
}

}  // namespace penstock::data
