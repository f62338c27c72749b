// The progress of a conversion: a line that is written over on a terminal, and elsewhere (a log
// file, a pipe) a plain line every ten seconds.
//
//   1200/50000 images, 3 shards, 812 images/s, 45.1 MB/s, 2 unreadable, ETA 0:01:00
#pragma once

#include <cstdio>

#include "penstock/base/clock.h"
#include "penstock/pack/pack_options.h"

namespace penstock::cli {

struct ConvertProgressOptions {
  std::FILE* out = stderr;
  enum class Style { kAuto, kTerminal, kLines } style = Style::kAuto;  // kAuto: what `out` is
  base::Clock* clock = base::Clock::Real();
};

class ConvertProgress {
 public:
  explicit ConvertProgress(const ConvertProgressOptions& options = {});
  ~ConvertProgress();  // leaves no half line on the terminal

  // pack::PackOptions::on_progress; it may print. What an earlier run did does not count for the
  // speed.
  void Update(const pack::Progress& progress);

 private:
  void Print(const pack::Progress& progress, double seconds);

  std::FILE* const out_;
  const bool terminal_;
  base::Clock* const clock_;
  bool began_ = false;
  double began_at_ = 0;  // seconds of clock_ at the first update
  double next_print_ = 0;
  bool printed_ = false;
};

}  // namespace penstock::cli
