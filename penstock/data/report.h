// What a running pipeline tells about itself: which stage limits it, as a table and as a picture.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator());
//   ...                              // some elements later
//   std::cout << iterator->Table();  // a line for each stage, the one that limits is marked
//
//   // dot -Tsvg pipeline.dot > pipeline.svg
//   PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*fs, "pipeline.dot", iterator->Dot()));
//
// Both are made of Iterator::Report, which programs read.
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
  double reader_wait_seconds = 0;   // in which Next had nothing to give
  int64_t memory_budget_bytes = 0;  // IteratorOptions::memory_bytes
  int64_t memory_bytes = 0;         // held now
  int64_t peak_memory_bytes = 0;
  std::vector<std::string> decisions = {};  // of the tuner
};

// How hard a stage is pressed, from 0 to about 1:
//   computes   the share of the compute pool that all such stages use together, for the one that
//              uses most of it, and the share of its own parallelism (a Scan is one thread's)
//   reads      the share of the time in which somebody asked for rows that were not read yet
//   passes on  the share of the time in which the driving thread was at it
double Pressure(absl::Span<const StageStats> stages, size_t stage, double seconds);

// A reader that waits for a smaller share of the time is kept busy enough.
inline constexpr double kReaderWaits = 0.05;

// The stage that limits the pipeline: the hardest pressed. None when the reader waits less than
// kReaderWaits: then it is the reader.
std::optional<size_t> Bottleneck(absl::Span<const StageStats> stages, double seconds,
                                 double reader_wait_seconds);

// A line for each stage, indented where several are the inputs of one; the bottleneck is marked
// with `>`. What the numbers mean stands in docs/data.md.
std::string Table(const PipelineReport& report);
// The stages as boxes with the same numbers; the bottleneck is coloured. For `dot -Tsvg`.
std::string Dot(const PipelineReport& report);

// How deep each stage is nested: 0 on the way to the reader, one more for each stage of several
// inputs behind it.
std::vector<int> Depths(absl::Span<const StageStats> stages);
// "5 %" of 0.05.
std::string Percent(double share);
// `text` within the quotes of a label.
std::string DotQuoted(absl::string_view text);

}  // namespace penstock::data
