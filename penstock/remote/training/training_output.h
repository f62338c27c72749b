// TrainingOutput: what a training prints, in files of its folder, of which the newest bytes are kept.
//
//   TrainingOutput output("/var/log/worker.trainings/4f3a91c2...");
//   output.Append("Epoch 1/5\n");
//   const TrainingOutput::Part part = output.Read(/*offset=*/0, /*limit=*/1 << 18);
//
// A byte's offset counts from the first one that was ever printed. The files are segments: output-0, and so on by
// the offset of their first byte. When the newest one has half of the limit, another one begins and older ones than the
// last two are removed. A full disk costs what is printed then.
//
// Thread-safe; one object at a time uses a folder.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/io/local/file_descriptor.h"

namespace penstock::remote {

class TrainingOutput {
 public:
  static constexpr int64_t kMaxBytes = int64_t{16} << 20;

  // Goes on with what the folder has. It need not exist before Append.
  explicit TrainingOutput(std::string folder, int64_t max_bytes = kMaxBytes);

  void Append(absl::string_view bytes);
  // Closes the file that Append writes, until the next Append.
  void Close();

  struct Part {
    std::string bytes = {};
    int64_t begin = 0;  // offset of the first one
    int64_t dropped =
        0;            // bytes between the requested offset and `begin`, which are not kept any more
    int64_t end = 0;  // of all that was printed
  };
  // From `offset` on (negative: from the end), at most `limit` bytes.
  Part Read(int64_t offset, int64_t limit) const;
  int64_t end() const;
  // The last line, without its end; empty if nothing was printed.
  std::string LastLine() const;
  // Removes the files.
  void Remove();

 private:
  struct Segment {
    std::string path;
    int64_t begin = 0, size = 0;
  };
  int64_t EndLocked() const;
  Part ReadLocked(int64_t offset, int64_t limit) const;

  const std::string folder_;
  const int64_t max_bytes_;
  mutable std::mutex mutex_;       // guards the following
  std::vector<Segment> segments_;  // one after another
  io::FileDescriptor file_;        // the last segment, once something was appended
};

}  // namespace penstock::remote
