// Options that `penstock bench data` and `penstock doctor` have in common.
#pragma once

#include <vector>

#include "penstock/cli/options.h"
#include "penstock/diagnose/data_bench.h"
#include "penstock/diagnose/pipeline.h"

namespace penstock::cli {

// All options of a pipeline but `data` and `channels`.
struct PipelineFlags {
  diagnose::PipelineOptions options = {};
  std::vector<int> image_size = {};  // height and width, or empty

  void Describe(Options& described);
  diagnose::PipelineOptions Value() const;
};

// --seconds, --batches, --threads, --any-order, --seed, --target, --no-compare, --scratch. What is
// being measured is said on stderr.
struct BenchFlags {
  diagnose::DataBenchOptions options = {};

  BenchFlags();
  void Describe(Options& described);
};

}  // namespace penstock::cli
