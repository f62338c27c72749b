// How fast a pipeline gives batches, and how fast storage alone gives bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/base/clock.h"
#include "penstock/base/thread_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/report.h"
#include "penstock/io/file_system.h"

namespace penstock::diagnose {

struct MeasureOptions {
  // A measurement ends with the first of these, or with the data.
  double seconds = 3;
  int64_t batches = 0;  // 0: any number
  // Of the consumer, which uses each batch for so long before it asks for the next, as an
  // accelerator does. 0: it asks at once.
  double seconds_per_batch = 0;
  base::ThreadPool* pool = nullptr;  // none: one of the machine's size
  std::shared_ptr<io::FileSystem> file_system = nullptr;
  uint64_t seed = 0;
  bool deterministic = true;
  base::Clock* clock = base::Clock::Real();
};

struct Measured {
  int64_t batches = 0;
  int64_t elements = 0;        // rows of the batches
  int64_t first_elements = 0;  // of these, in the first batch
  double seconds = 0;          // all of it, from making the iterator on
  double first_batch_seconds = 0;
  double wait_p50_seconds = 0, wait_p99_seconds = 0;  // for one batch, after the first
  double waited_seconds = 0;                          // for all batches after the first
  double bytes_per_element = 0;                       // as storage holds them; 0: not known
  double batch_bytes_per_element = 0;                 // as the batches hold them
  int64_t peak_bytes = 0;   // resident, of the process, while this was measured
  int64_t allocations = 0;  // of memory for columns of batches
  bool ended = false;       // by the data
  std::string plan = {};    // Iterator::Explain
  data::PipelineReport report = {};

  // Elements a second once batches flow: without the first one, where there are others.
  double rate() const;
};

// Reads batches of one iterator. An error of the data is the error.
absl::StatusOr<Measured> Measure(const data::Dataset& dataset, const MeasureOptions& options);

struct StorageMeasured {
  int64_t bytes = 0;
  int64_t files = 0;  // opened
  double seconds = 0;
  double first_byte_seconds = 0;  // the median file's, from opening it to its first bytes

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Reads files from their beginning to their end, `parallel` of them at once, and does nothing with
// the bytes: what storage gives. Once all of them, or `again` and again, for options.seconds.
absl::StatusOr<StorageMeasured> MeasureStorage(io::FileSystem& fs,
                                               absl::Span<const std::string> files, int parallel,
                                               bool again, const MeasureOptions& options);

// Asks the kernel to forget what it holds of local files, so that they are read from the disk
// again. Files elsewhere are passed over, and so are all beyond `most`. How many were forgotten.
int64_t DropFromPageCache(absl::Span<const std::string> files, int64_t most = 20000);

// The largest resident size of this process since ResetPeakMemory, which does nothing where the
// kernel does not let it: then it is the largest ever. 0 where it is not known.
int64_t PeakMemory();
void ResetPeakMemory();

// Value at `quantile` (0 to 1) of `values`, which it sorts; 0 of none.
double Quantile(std::vector<double>& values, double quantile);

// "12,345", or "8.53" where it is small.
std::string PrintRate(double rate);
// "35 us", "1.2 ms", "3.5 s", "21 min".
std::string PrintSeconds(double seconds);

}  // namespace penstock::diagnose
