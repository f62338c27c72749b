// Options shared by `penstock bench data` and `penstock doctor`.
#pragma once

#include <vector>

#include "penstock/cli/options.h"
#include "penstock/diagnose/data_bench.h"
#include "penstock/diagnose/pipeline.h"

namespace penstock::cli {

// Options of a pipeline, except `data` and `channels`.
struct PipelineFlags {
  diagnose::PipelineOptions options = {};
  std::vector<int> image_size = {};  // {height, width}, or empty

  void Describe(Options& described);
  diagnose::PipelineOptions Value() const;
};

// --seconds, --batches, --threads, --any-order, --seed, --target, --no-compare, --scratch. Progress
// goes to stderr.
struct BenchFlags {
  diagnose::DataBenchOptions options = {};

  BenchFlags();
  void Describe(Options& described);
};

}  // namespace penstock::cli
