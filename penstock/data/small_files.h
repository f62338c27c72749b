// What reading many small files from an object store costs, and what to do instead: said once, as
// the stage's hint (StageCounters).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/data/stage.h"

namespace penstock::data {

// Any thread may use it.
class SmallFiles {
 public:
  // So many files are looked at before anything is said.
  static constexpr int64_t kFiles = 32;

  // `patterns` as the user wrote them.
  explicit SmallFiles(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  // A file was read: it took `open_seconds` until its first bytes came, then `read_seconds`.
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
