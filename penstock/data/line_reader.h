// LineReader: a text file, block by block, cut into lines (FromText) or rows of CSV (FromCsv).
//
// A line ends with "\n" or "\r\n", which is not part of it; the last one may do without. A
// byte-order mark of UTF-8 at the beginning of a file is passed over. Files whose name ends in
// ".gz" are unpacked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/data/rows.h"
#include "penstock/io/file_system.h"

namespace penstock::data {

// What options may ask for: places within a block are counted in 32 bits.
inline constexpr int64_t kMostTextBytes = int64_t{1} << 30;

struct LineReaderOptions {
  int64_t block_bytes = int64_t{1} << 20;  // read at once
  int64_t max_line_bytes = int64_t{16} << 20;
  bool csv_rows = false;  // empty lines are passed over, and no line needs its offset
  // A line does not end within a quoted field. A double quote opens a field only as its first
  // character and is an ordinary character elsewhere, so a stray quote affects its own row only.
  bool quotes = false;
  char delimiter = ',';  // separates fields
};

// Lines that stand one after the other in a file and share memory.
struct LineBlock {
  std::shared_ptr<const void> owner;  // keeps their bytes alive
  std::vector<absl::string_view> lines;
  // "uri:offset:line", the offset of the line's first byte in the (unpacked) file and its number,
  // from 1 as editors count; "uri:line" for rows of CSV.
  std::shared_ptr<const OriginSource> origins;
  int64_t bytes = 0;  // that it takes to keep them
};

// One thread at a time.
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
  int64_t taken_ = 0;   // of these, given as lines
  int64_t offset_ = 0;  // in the file, of the first byte not yet given
  int64_t line_ = 1;    // its number
  bool ended_ = false;
};

}  // namespace penstock::data
