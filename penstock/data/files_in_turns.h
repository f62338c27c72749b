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

struct FilesInTurnsOptions {
  int parallel_files = 8;
  int64_t block_length = 16;  // rows of one file until it is the next one's turn
  int64_t read_ahead_bytes = int64_t{32} << 20;
};

// `open` is called by jobs, for each file once.
std::unique_ptr<Node> MakeFilesInTurns(const NodeContext& context, std::vector<std::string> files,
                                       OpenFileReader open, FilesInTurnsOptions options);

// As parameters are printed; both decide on the order.
std::string PrintTurns(int parallel_files, int64_t block_length);

// What Stage::io_threads() says: one more reads the file that comes next.
int ThreadsForFiles(int parallel_files, size_t files);

}  // namespace penstock::data
