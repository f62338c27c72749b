// Bytes that are written once and read afterwards: in memory while they are few, then in a file
// without a name, which is gone when the process ends, however it ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::pack {

struct ScratchOptions {
  int64_t memory_bytes = 256 << 20;  // more than this goes to disk, all of it
  std::string folder = {};           // a local one for the file; "": $TMPDIR, else /tmp
};

// Threads: one appends; when it is done, many may read.
class ScratchFile {
 public:
  explicit ScratchFile(ScratchOptions options = {}) : options_(std::move(options)) {}

  absl::Status Append(absl::string_view bytes);
  int64_t size() const { return size_; }
  bool on_disk() const { return file_.valid(); }

  // Fewer bytes than asked only at the end.
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) const;
  absl::Status CopyTo(io::OutputStream& out) const;

  // Forgets all bytes; memory is kept, a file is not.
  void Clear();

 private:
  std::string Folder() const;
  absl::Status MoveToDisk();
  absl::Status WriteToDisk(absl::string_view bytes);

  const ScratchOptions options_;
  std::string memory_;
  io::FileDescriptor file_;
  int64_t size_ = 0;
};

// Appends to `scratch`; Close does nothing more.
std::unique_ptr<io::OutputStream> WriteTo(ScratchFile& scratch);

// Reads bytes [begin, begin + size) of `scratch`, which must be written to no longer, as a file of
// that name.
std::shared_ptr<io::RandomAccessFile> ReadFrom(std::shared_ptr<const ScratchFile> scratch,
                                               std::string uri, int64_t begin, int64_t size);

}  // namespace penstock::pack
