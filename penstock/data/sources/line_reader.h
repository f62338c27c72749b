// LineReader: reads a text file block by block and splits it into lines (FromText) or rows of CSV
// (FromCsv).
//
// A line ends with "\n" or "\r\n", which is not part of it; the last line may have no end. A UTF-8
// byte-order mark at the beginning of a file is skipped. Files whose name ends in ".gz" are
// decompressed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/data/engine/rows.h"
#include "penstock/io/file_system.h"

namespace penstock::data {

// Maximum size in options: offsets within a block are 32-bit.
inline constexpr int64_t kMaxTextBytes = int64_t{1} << 30;

struct LineReaderOptions {
  int64_t block_bytes = int64_t{1} << 20;  // size of one read
  int64_t max_line_bytes = int64_t{16} << 20;
  bool csv_rows = false;  // skips empty lines; offsets are not needed
  // Whether double quotes quote fields; a line does not end within a quoted field. A double quote
  // opens a field only as its first character and is an ordinary character elsewhere, so a stray
  // quote affects its own row only.
  bool quotes = false;
  char delimiter = ',';  // separates fields
};

// Consecutive lines of a file, in shared memory.
struct LineBlock {
  std::shared_ptr<const void> owner;  // keeps their bytes alive
  std::vector<absl::string_view> lines;
  // "uri:offset:line", the offset of the line's first byte in the (unpacked) file and its number,
  // from 1 as editors count; "uri:line" for rows of CSV.
  std::shared_ptr<const OriginSource> origins;
  int64_t bytes = 0;  // size of the memory that they keep alive
};

// Reader of one file. One thread at a time.
class LineReader {
 public:
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(io::FileSystem& file_system,
                                                          const std::string& uri,
                                                          const LineReaderOptions& options);

  // The next lines; none at the end.
  absl::StatusOr<LineBlock> Read();

  const std::string& uri() const { return *uri_; }

 private:
  LineReader(std::unique_ptr<io::InputStream> stream, const LineReaderOptions& options);
  absl::Status Fill();
  LineBlock CutLines();
  bool FindEnd(int64_t* end, int64_t* line_breaks) const;
  bool FindEndOfRow(int64_t* end, int64_t* line_breaks) const;
  int64_t EndOfQuotes(int64_t at) const;
  std::string Here() const;

  const std::shared_ptr<const std::string> uri_;
  const std::unique_ptr<io::InputStream> stream_;
  const LineReaderOptions options_;

  base::Array buffer_;  // bytes; shared with the blocks made of it
  int64_t filled_ = 0;
  int64_t taken_ = 0;   // number of these bytes that were returned as lines
  int64_t offset_ = 0;  // offset in the file of the first byte not yet returned
  int64_t line_ = 1;    // number of its line
  bool ended_ = false;
};

}  // namespace penstock::data
