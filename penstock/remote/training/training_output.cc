#include "penstock/remote/training/training_output.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::remote {
namespace {

constexpr absl::string_view kSegmentName = "output-";

// Bytes of a file from an offset on; fewer at its end. Empty if it cannot be read.
std::string ReadPart(const std::string& path, int64_t offset, int64_t limit) {
  const io::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(static_cast<size_t>(limit), '\0');
  size_t done = 0;
  while (file.valid() && done < bytes.size()) {
    const ssize_t got = ::pread(file.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

TrainingOutput::TrainingOutput(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder_, error), last; file != last;
       file.increment(error)) {
    const std::string path = file->path().string(), name = file->path().filename().string();
    absl::string_view digits = name;
    int64_t begin = 0;
    struct stat info = {};
    if (!absl::ConsumePrefix(&digits, kSegmentName) || !absl::SimpleAtoi(digits, &begin) ||
        begin < 0 || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    segments_.push_back({path, begin, static_cast<int64_t>(info.st_size)});
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
}

int64_t TrainingOutput::EndLocked() const {
  return segments_.empty() ? 0 : segments_.back().begin + segments_.back().size;
}

int64_t TrainingOutput::end() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return EndLocked();
}

void TrainingOutput::Append(absl::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!bytes.empty()) {
    if (segments_.empty() || segments_.back().size >= max_bytes_ / 2) {
      const int64_t begin = EndLocked();
      segments_.push_back({absl::StrCat(folder_, "/", kSegmentName, begin), begin, 0});
      file_ = io::FileDescriptor();
      for (; segments_.size() > 2; segments_.erase(segments_.begin())) {
        ::unlink(segments_.front().path.c_str());
      }
    }
    Segment& last = segments_.back();
    if (!file_.valid()) {
      file_ = io::FileDescriptor(::open(last.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    const auto room = static_cast<size_t>(std::max<int64_t>(1, max_bytes_ / 2 - last.size));
    const absl::string_view part = bytes.substr(0, room);
    const ssize_t wrote = ::pwrite(file_.get(), part.data(), part.size(), last.size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // a full disk, or no folder
    last.size += wrote;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
}

void TrainingOutput::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  file_ = io::FileDescriptor();
}

TrainingOutput::Part TrainingOutput::ReadLocked(int64_t offset, int64_t limit) const {
  Part part{.end = EndLocked()};
  const int64_t first = segments_.empty() ? 0 : segments_.front().begin;
  const int64_t wanted = offset < 0 ? std::max(first, part.end + std::max(offset, -part.end))
                                    : std::min(offset, part.end);
  part.begin = std::max(first, wanted);
  part.dropped = part.begin - wanted;
  for (const Segment& segment : segments_) {
    const int64_t at = part.begin + static_cast<int64_t>(part.bytes.size());
    const int64_t left = limit - static_cast<int64_t>(part.bytes.size());
    const int64_t size = std::min(left, segment.begin + segment.size - at);
    if (at < segment.begin || size <= 0) continue;
    part.bytes += ReadPart(segment.path, at - segment.begin, size);
  }
  return part;
}

TrainingOutput::Part TrainingOutput::Read(int64_t offset, int64_t limit) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ReadLocked(offset, limit);
}

std::string TrainingOutput::LastLine() const {
  constexpr int64_t kTail = 4096;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string tail = ReadLocked(-kTail, kTail).bytes;
  tail.resize(tail.find_last_not_of("\r\n ") + 1);
  return tail.substr(tail.find_last_of("\r\n") + 1);
}

void TrainingOutput::Remove() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Segment& segment : segments_) ::unlink(segment.path.c_str());
  segments_.clear();
  file_ = io::FileDescriptor();
}

}  // namespace penstock::remote
