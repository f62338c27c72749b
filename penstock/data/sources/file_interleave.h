// File interleave of the sources that read files block by block (interleaved_source.h): several
// files are interleaved (tf.data's interleave), each with read-ahead by jobs of the I/O pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/engine/rows.h"
#include "penstock/data/stage.h"
#include "penstock/io/file_system.h"

namespace penstock::data {

// One block of a file.
struct FileBlock {
  BlockPtr block;  // null at the end of the file
  int64_t bytes = 0;
  // Set instead of `block` for an element that failed (a recoverable error), in its position.
  absl::Status error = {};
  // Elements before it that were skipped: a recoverable error for each.
  std::vector<absl::Status> skipped = {};
};

// Reader of one file, sequential. It may block; one thread at a time.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual absl::StatusOr<FileBlock> Read() = 0;
};
using OpenFileReader = std::function<absl::StatusOr<std::unique_ptr<FileReader>>(
    io::FileSystem& file_system, const std::string& uri)>;

// Defaults when automatic: the number of files to interleave, which decides the order and so is
// never tuned, and the initial read-ahead of all of them together.
inline constexpr int kDefaultFileCycleLength = 8;
inline constexpr int64_t kReadAheadBytes = int64_t{32} << 20;

struct FileInterleaveOptions {
  int parallel_files = 0;        // 0: automatic, as in TfRecordOptions
  int64_t block_length = 16;     // consecutive rows of one file
  int64_t read_ahead_bytes = 0;  // 0: automatic
};
// Message of an error of options.
inline constexpr char kCountsAtLeastOne[] =
    "options that are counts must be at least 1 (parallel_files and read_ahead_bytes may be 0: "
    "automatic)";

// Makes the node. `open` is called by I/O jobs, once for each file.
std::unique_ptr<Node> MakeFileInterleave(const NodeContext& context, std::vector<std::string> files,
                                         OpenFileReader open, FileInterleaveOptions options);

// The options as printed among the parameters of a stage; both determine the order.
std::string PrintFileInterleave(int parallel_files, int64_t block_length);
// "8", "auto".
std::string PrintParallelFiles(int parallel_files);

// Value of Stage::io_threads(): a thread for each interleaved file and for the next ones.
int ThreadsForFiles(int parallel_files, size_t files);

}  // namespace penstock::data
