#include "penstock/data/sources/small_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock::data {
namespace {

// Minimum size of one request of a shard's stream (io/object/read_window.h).
constexpr double kRangeBytes = 1 << 20;
// A smaller speedup does not justify packing.
constexpr double kWorthTelling = 2;

}  // namespace

void SmallFilesHint::Count(double open_seconds, double read_seconds, int64_t bytes,
                           StageCounters& counters) {
  std::lock_guard lock(mutex_);
  if (files_ >= kFiles) return;
  ++files_;
  bytes_ += bytes;
  open_seconds_ += open_seconds;
  read_seconds_ += read_seconds;
  if (files_ == kFiles) counters.SetHint(Hint());
}

// A request has a fixed latency and a time per byte. With as many requests in flight, a shard reads
// kRangeBytes with each of them.
std::string SmallFilesHint::Hint() const {
  const double file_bytes = std::max<double>(bytes_, files_) / files_;
  const double open_seconds = open_seconds_ / files_;
  const double byte_seconds = read_seconds_ / files_ / file_bytes;
  const double file_seconds = open_seconds + byte_seconds * file_bytes;
  const double range_seconds = open_seconds + byte_seconds * kRangeBytes;
  if (range_seconds <= 0) return "";
  const double faster = (kRangeBytes / range_seconds) / (file_bytes / file_seconds);
  if (faster < kWorthTelling) return "";
  std::string command = "penstock pack";
  for (const std::string& pattern : patterns_) {
    // A list of files by name is longer than anybody wants to read.
    if (&pattern != &patterns_.front() && patterns_.size() > 4) {
      absl::StrAppend(&command, " ...");
      break;
    }
    absl::StrAppend(&command, " '", pattern, "'");
  }
  return absl::StrFormat(
      "each of these files of about %.0f kB is a request of %.0f ms; packed in shards they could "
      "be "
      "read up to %.0f times as fast, with as many requests in flight. To pack them: %s --out "
      "FOLDER",
      std::max(file_bytes / 1e3, 1.0), file_seconds * 1e3, faster, command);
}

}  // namespace penstock::data
