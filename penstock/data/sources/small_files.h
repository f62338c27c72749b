// SmallFilesHint: advice when a stage reads many small files from an object store. It estimates the
// cost and names the alternative, once, as the stage's hint (StageCounters::SetHint).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/data/stage.h"

namespace penstock::data {

// Thread-safe.
class SmallFilesHint {
 public:
  // Number of files to measure before the hint is set.
  static constexpr int64_t kFiles = 32;

  // `patterns`: as the user wrote them.
  explicit SmallFilesHint(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  // Records that a file was read: `open_seconds` until its first bytes arrived, then
  // `read_seconds`.
  void Count(double open_seconds, double read_seconds, int64_t bytes, StageCounters& counters);

 private:
  std::string Hint() const;

  const std::vector<std::string> patterns_;

  std::mutex mutex_;
  // Guarded by mutex_.
  int64_t files_ = 0;
  int64_t bytes_ = 0;
  double open_seconds_ = 0;
  double read_seconds_ = 0;
};

}  // namespace penstock::data
