// Report of a running pipeline: statistics of each stage and the bottleneck, as a table and as a
// graph.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator());
//   base::NamedArrays batch;
//   for (int i = 0; i < 100; ++i) PENSTOCK_RETURN_IF_ERROR(iterator->Next(&batch).status());
//   std::cout << iterator->Table();  // one line per stage; `>` marks the bottleneck
//
//   // dot -Tsvg pipeline.dot > pipeline.svg
//   PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*fs, "pipeline.dot", iterator->Dot()));
//
// Both print Iterator::Report, which programs read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/data/iterator.h"

namespace penstock::data {

struct PipelineReport {
  std::vector<StageStats> stages;   // in the order of Iterator::Stats
  double seconds = 0;               // since the iterator was made
  double reader_wait_seconds = 0;   // time that Next has waited for elements
  int64_t memory_budget_bytes = 0;  // IteratorOptions::memory_bytes
  int64_t memory_bytes = 0;         // charged now
  int64_t peak_memory_bytes = 0;
  std::vector<std::string> decisions = {};  // of the tuner (autotune)
  int cores = 0;                            // of the machine where it runs; 0: unknown
};

// What a pipeline has done between two reports of one iterator: times and counts are differences,
// the rest is as in `now`. `now` itself if `before` is no earlier report of the same iterator.
PipelineReport ReportSince(PipelineReport now, const PipelineReport& before);

// Utilization of a stage, from 0 to about 1:
//   kCompute   the greater of two shares: that of the compute pool that all such stages use
//              together (for the stage that uses most of it), and that of the stage's own
//              parallelism (1 for a Scan)
//   kIo        the share of the time in which downstream waited for rows that were not read yet
//   kDriver    the share of the time in which the driving thread worked on it
double Utilization(absl::Span<const StageStats> stages, size_t stage, double seconds);

// Share of the time that the reader waits for input beyond which the program is input-bound.
inline constexpr double kInputBoundShare = 0.05;

// The bottleneck: the stage with the greatest Utilization. None if the reader waits less than
// kInputBoundShare of the time: then the reader is the bottleneck (compute-bound).
std::optional<size_t> Bottleneck(absl::Span<const StageStats> stages, double seconds,
                                 double reader_wait_seconds);

// One line per stage, indented where several are the inputs of one; `>` marks the bottleneck.
// docs/design/data.md explains the columns.
std::string Table(const PipelineReport& report);
// Graph of the stages with the same numbers; the bottleneck is colored. For `dot -Tsvg`.
std::string Dot(const PipelineReport& report);

// Nesting depth of each stage: 0 on the path to the reader, one more for each downstream stage with
// several inputs.
std::vector<int> Depths(absl::Span<const StageStats> stages);
// "5 %" of 0.05.
std::string Percent(double share);
// `text` within the quotes of a label.
std::string DotQuoted(absl::string_view text);

}  // namespace penstock::data
