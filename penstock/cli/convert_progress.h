// ConvertProgress: prints the progress of a conversion. On a terminal it overwrites one line;
// otherwise (a log file, a pipe) it prints a line every ten seconds.
//
//   1200/50000 images, 3 shards, 812 images/s, 45.1 MB/s, 2 unreadable, ETA 0:01:00
#pragma once

#include <cstdio>

#include "penstock/base/clock.h"
#include "penstock/pack/pack_options.h"

namespace penstock::cli {

struct ConvertProgressOptions {
  std::FILE* out = stderr;
  // kAuto: kTerminal if `out` is a terminal, else kLines.
  enum class Style { kAuto, kTerminal, kLines } style = Style::kAuto;
  base::Clock* clock = base::Clock::Real();
};

class ConvertProgress {
 public:
  explicit ConvertProgress(const ConvertProgressOptions& options = {});
  ~ConvertProgress();  // clears the line on a terminal

  // Callback for pack::PackOptions::on_progress. Prints the progress if it is time to. The speed
  // does not include the work of an earlier, resumed run.
  void Update(const pack::Progress& progress);

 private:
  void Print(const pack::Progress& progress, double seconds);

  std::FILE* const out_;
  const bool terminal_;
  base::Clock* const clock_;
  bool began_ = false;
  double began_at_ = 0;  // time of the first update, by clock_
  double next_print_ = 0;
  bool printed_ = false;
};

}  // namespace penstock::cli
