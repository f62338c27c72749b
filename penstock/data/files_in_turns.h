// What sources that read files block by block have in common (FromTfRecords, FromText, FromCsv):
// several files are read ahead at once, by jobs of the I/O pool, and their rows taken in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/rows.h"
#include "penstock/data/stage.h"
#include "penstock/io/file_system.h"

namespace penstock::data {

struct FileBlock {
  BlockPtr block;  // null at the end of the file
  int64_t bytes = 0;
  // Set instead of `block` for an element that failed (OfOneElement), in its position.
  absl::Status error = {};
  // Elements before it that were left out: an error OfOneElement for each.
  std::vector<absl::Status> left_out = {};
};

// Reads one file from its beginning to its end. It may wait; one thread at a time.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual absl::StatusOr<FileBlock> Read() = 0;
};
using OpenFileReader = std::function<absl::StatusOr<std::unique_ptr<FileReader>>(
    io::FileSystem& file_system, const std::string& uri)>;

// When automatic: how many files are in turns (which decides the order, so it is never tuned), and
// what is read ahead of all of them, at first.
inline constexpr int kFilesInTurns = 8;
inline constexpr int64_t kReadAheadBytes = int64_t{32} << 20;

struct FilesInTurnsOptions {
  int parallel_files = 0;        // 0: automatic, as in TfRecordOptions
  int64_t block_length = 16;     // rows of one file until it is the next one's turn
  int64_t read_ahead_bytes = 0;  // 0: automatic
};
// For an error of options.
inline constexpr char kCountsAtLeastOne[] =
    "options that count must be at least 1 (parallel_files and read_ahead_bytes may be 0: "
    "automatic)";
// For an error of a source that is too large for its iterator's memory.
inline constexpr char kFilesMemoryAdvice[] = "fewer parallel_files, or smaller block_bytes";

// `open` is called by jobs, for each file once.
std::unique_ptr<Node> MakeFilesInTurns(const NodeContext& context, std::vector<std::string> files,
                                       OpenFileReader open, FilesInTurnsOptions options);

// As parameters are printed; both decide on the order.
std::string PrintTurns(int parallel_files, int64_t block_length);
// "8", "auto".
std::string PrintParallelFiles(int parallel_files);

// What Stage::io_threads() says: more than those of the files in turns, for those that come next.
int ThreadsForFiles(int parallel_files, size_t files);

}  // namespace penstock::data
