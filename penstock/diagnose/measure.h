// Measurements of the throughput of a pipeline and of storage alone.
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
  // A measurement ends after this time or number of batches, or at the end of the data.
  double seconds = 3;
  int64_t batches = 0;  // 0: no limit
  // Time between two requests, to simulate an accelerator. 0: request the next batch immediately.
  double seconds_per_batch = 0;
  base::ThreadPool* pool = nullptr;  // default: a private pool with one thread per core
  std::shared_ptr<io::FileSystem> file_system = nullptr;
  uint64_t seed = 0;
  bool deterministic = true;
  base::Clock* clock = base::Clock::Real();
};

struct Measured {
  int64_t batches = 0;
  int64_t elements = 0;        // rows of all batches
  int64_t first_elements = 0;  // rows of the first batch
  double seconds = 0;          // total time, from creating the iterator
  double first_batch_seconds = 0;
  double wait_p50_seconds = 0, wait_p99_seconds = 0;  // wait per batch, except the first
  double waited_seconds = 0;                          // total wait for batches, except the first
  double bytes_per_element = 0;                       // size in storage; 0: unknown
  double batch_bytes_per_element = 0;                 // size in a batch
  int64_t peak_bytes = 0;   // peak resident memory of the process during the measurement
  int64_t allocations = 0;  // memory allocations for columns of batches
  bool ended = false;       // whether the data ended
  std::string plan = {};    // Iterator::Explain
  data::PipelineReport report = {};

  // Elements per second. Does not include the first batch if there are several.
  double rate() const;
};

// Reads batches from a new iterator. Returns errors of the data.
absl::StatusOr<Measured> Measure(const data::Dataset& dataset, const MeasureOptions& options);

struct StorageMeasured {
  int64_t bytes = 0;
  int64_t files = 0;  // number of files opened
  double seconds = 0;
  double first_byte_seconds = 0;  // median time from opening a file to its first bytes

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Reads files sequentially, `parallel` files at a time, and discards the bytes, to measure storage
// alone. Reads all files once, or repeatedly if `repeat`, for at most options.seconds.
absl::StatusOr<StorageMeasured> MeasureStorage(io::FileSystem& fs,
                                               absl::Span<const std::string> files, int parallel,
                                               bool repeat, const MeasureOptions& options);

// Evicts local files from the page cache, so that they are read from the disk again. Ignores remote
// files, and stops after `max` files. Returns the number of evicted files.
int64_t DropFromPageCache(absl::Span<const std::string> files, int64_t max = 20000);

// Returns the peak resident memory of this process since ResetPeakMemory, or since its start if the
// kernel does not permit a reset; 0 if unknown.
int64_t PeakMemory();
void ResetPeakMemory();

// Returns the value at `quantile` (0 to 1) of `values`, which it reorders; 0 if empty.
double Quantile(std::vector<double>& values, double quantile);

// Formats a rate: "12,345", or "8.53" if it is small.
std::string PrintRate(double rate);
// Formats a duration: "35 us", "1.2 ms", "3.5 s", "21 min".
std::string PrintSeconds(double seconds);

}  // namespace penstock::diagnose
