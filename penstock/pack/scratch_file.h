// ScratchFile: temporary bytes that are written once and then read. They are kept in memory up to a
// limit, beyond it in an unlinked file, which vanishes when the process exits or is killed.
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
  int64_t memory_bytes = 256 << 20;  // if there are more bytes, all of them are moved to disk
  std::string folder = {};           // local folder for the file; default: $TMPDIR, else /tmp
};

// Thread safety: one thread appends; then any number of threads may read.
class ScratchFile {
 public:
  explicit ScratchFile(ScratchOptions options = {}) : options_(std::move(options)) {}

  absl::Status Append(absl::string_view bytes);
  int64_t size() const { return size_; }
  bool on_disk() const { return file_.valid(); }

  // Returns the number of bytes read, which is less than out.size() only at the end.
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) const;
  absl::Status CopyTo(io::OutputStream& out) const;

  // Removes all bytes. Keeps the allocated memory and deletes the file.
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

// Returns a stream that appends to `scratch`; its Close does nothing.
std::unique_ptr<io::OutputStream> WriteTo(ScratchFile& scratch);

// Returns bytes [begin, begin + size) of `scratch` as a file named `uri`. `scratch` must not be
// written to any more.
std::shared_ptr<io::RandomAccessFile> ReadFrom(std::shared_ptr<const ScratchFile> scratch,
                                               std::string uri, int64_t begin, int64_t size);

}  // namespace penstock::pack
