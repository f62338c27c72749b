// What a training is asked to tell about where its time goes (docs/profile.md).
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "penstock/io/file_system.h"

namespace penstock::train {

// Written into `folder`:
//   trace.json                 for ui.perfetto.dev and chrome://tracing
//   plugins/profile/           the same for TensorBoard's profiler
//   operations.txt, .json      the step's operations by what they cost
//   pipeline.txt               the stages of the data pipeline (data/report.h)
//   summary.txt                one page: where the time went
struct ProfileOptions {
  std::string folder;  // any file system
  // What the trace shows: so many training steps of this run, from 1, both ends included; from the
  // first one on also what comes before it. An execution of several steps is shown whole. The files
  // of the trace are written when the last step is done, the others at the end of the training.
  int64_t first_step = 1;
  int64_t last_step = 200;
  int64_t max_spans = 200'000;  // of about 50 bytes of memory, 120 in trace.json
  // Whether the operations of the step are timed, after the training, and how long that may take.
  bool operations = true;
  double operations_seconds = 30;
  std::FILE* out = stderr;                                // the summary; nullptr: nowhere
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // none: io::FileSystem::Default()
};

}  // namespace penstock::train
