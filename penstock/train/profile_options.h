// ProfileOptions: files that show where the time of a training goes (docs/design/profile.md).
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "penstock/io/file_system.h"

namespace penstock::train {

// Files in `folder`:
//   trace.json                 for ui.perfetto.dev and chrome://tracing
//   plugins/profile/           the same for TensorBoard's profiler
//   operations.txt, .json      the step's operations by cost
//   pipeline.txt               the stages of the data pipeline (data/report.h)
//   summary.txt                one page: where the time went
struct ProfileOptions {
  std::string folder;  // any file system
  // Training steps of this run that the trace shows, from 1, both ends included. If first_step
  // is 1, it also shows what precedes that step. An execution of several steps is shown whole.
  // The trace's files are written when the last step is completed, the others at the end of the
  // training.
  int64_t first_step = 1;
  int64_t last_step = 200;
  int64_t max_spans = 200'000;  // 50 bytes of memory each, 120 in trace.json
  // Whether the step's operations are timed, after the training, and the limit of that in seconds.
  bool operations = true;
  double operations_seconds = 30;
  std::FILE* out = stderr;                                // for the summary; null: none
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
};

}  // namespace penstock::train
