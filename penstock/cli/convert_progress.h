// The progress of a conversion: a line that is written over on a terminal, and elsewhere (a log
// file, a pipe) a plain line every ten seconds.
//
//   1200/50000 images, 3 shards, 812 images/s, 45.1 MB/s, 2 unreadable, ETA 0:01:00
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "penstock/base/clock.h"

namespace penstock::cli {

struct ConvertProgressOptions {
  std::FILE* out = stderr;
  enum class Style { kAuto, kTerminal, kLines } style = Style::kAuto;  // kAuto: what `out` is
  base::Clock* clock = base::Clock::Real();
};

class ConvertProgress {
 public:
  // `done` of `total` were there before: they count for nothing in the speed.
  ConvertProgress(std::string what, int64_t done, int64_t total,
                  const ConvertProgressOptions& options = {});
  ~ConvertProgress();  // leaves no half line on the terminal

  // One more was done, which gave so many bytes; it may print.
  void Add(int64_t bytes, bool unreadable);
  void AddShard() { ++shards_; }

 private:
  void Print(double seconds);

  const std::string what_;  // "images"
  std::FILE* const out_;
  const bool terminal_;
  base::Clock* const clock_;
  const double began_;
  const int64_t before_, total_;
  int64_t done_, bytes_ = 0, shards_ = 0, unreadable_ = 0;
  double next_print_;
  bool printed_ = false;
};

}  // namespace penstock::cli
