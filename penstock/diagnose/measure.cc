#include "penstock/diagnose/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <fcntl.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/uri.h"

namespace penstock::diagnose {
namespace {

int64_t RowsOf(const base::NamedArrays& batch) {
  return batch.empty() || batch[0].second.rank() == 0 ? 1 : batch[0].second.dim(0);
}

int64_t BytesOf(const base::NamedArrays& batch) {
  int64_t bytes = 0;
  for (const auto& [name, array] : batch) {
    bytes += array.num_bytes();
    if (array.dtype() != base::DType::kString) continue;
    for (absl::string_view s : array.values<absl::string_view>())
      bytes += static_cast<int64_t>(s.size());
  }
  return bytes;
}

// Returns the bytes per element that the source, the first stage, counted.
double SourceBytesPerElement(const std::vector<data::StageStats>& stages) {
  if (stages.empty() || stages[0].elements == 0) return 0;
  return static_cast<double>(stages[0].bytes) / static_cast<double>(stages[0].elements);
}

class StorageReader {
 public:
  StorageReader(io::FileSystem& fs, absl::Span<const std::string> files, bool repeat,
                const MeasureOptions& options)
      : fs_(fs),
        files_(files),
        repeat_(repeat),
        clock_(*options.clock),
        begin_(clock_.Seconds()),
        end_(begin_ + options.seconds) {}

  // Reads files until there are none left or the time is over. Called by any number of threads.
  void Work() {
    std::vector<char> buffer(1 << 20);
    for (;;) {
      const size_t i = next_.fetch_add(1);
      if ((!repeat_ && i >= files_.size()) || clock_.Seconds() >= end_ || failed_) return;
      if (const absl::Status status = ReadOne(files_[i % files_.size()], buffer); !status.ok()) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (status_.ok()) status_ = status;
        failed_ = true;
      }
    }
  }

  absl::StatusOr<StorageMeasured> Result() {
    if (!status_.ok()) return status_;
    return StorageMeasured{.bytes = bytes_,
                           .files = files_read_,
                           .seconds = clock_.Seconds() - begin_,
                           .first_byte_seconds = Quantile(first_bytes_, 0.5)};
  }

 private:
  absl::Status ReadOne(const std::string& file, std::vector<char>& buffer) {
    const double begin = clock_.Seconds();
    PENSTOCK_ASSIGN_OR_RETURN(auto stream, fs_.OpenInput(file));
    bool first = true;
    while (first || clock_.Seconds() < end_) {
      // The first read is small, to measure latency.
      const size_t requested = first ? std::min<size_t>(buffer.size(), 16 << 10) : buffer.size();
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t read,
                                stream->Read(absl::MakeSpan(buffer.data(), requested)));
      bytes_ += read;
      if (std::exchange(first, false)) {
        const std::lock_guard<std::mutex> lock(mutex_);
        first_bytes_.push_back(clock_.Seconds() - begin);
      }
      if (read < static_cast<int64_t>(requested)) break;
    }
    ++files_read_;
    return absl::OkStatus();
  }

  io::FileSystem& fs_;
  const absl::Span<const std::string> files_;
  const bool repeat_;
  base::Clock& clock_;
  const double begin_, end_;
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> bytes_ = 0, files_read_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  absl::Status status_;              // guarded by mutex_
  std::vector<double> first_bytes_;  // guarded by mutex_
};

}  // namespace

double Measured::rate() const {
  if (batches > 1 && seconds > first_batch_seconds)
    return static_cast<double>(elements - first_elements) / (seconds - first_batch_seconds);
  return seconds > 0 ? static_cast<double>(elements) / seconds : 0;
}

absl::StatusOr<Measured> Measure(const data::Dataset& dataset, const MeasureOptions& options) {
  base::Clock& clock = *options.clock;
  Measured out;
  ResetPeakMemory();
  const double begin = clock.Seconds();
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator,
                            dataset.MakeIterator({.pool = options.pool,
                                                  .file_system = options.file_system,
                                                  .seed = options.seed,
                                                  .deterministic = options.deterministic,
                                                  .clock = options.clock}));
  std::vector<double> waits;
  double batch_bytes = 0;
  base::NamedArrays batch;
  while (options.batches == 0 || out.batches < options.batches) {
    const double requested_at = clock.Seconds();
    // Reads at least two batches, since a rate requires two.
    if (out.batches > 1 && requested_at - begin >= options.seconds) break;
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) {
      out.ended = true;
      break;
    }
    const double got = clock.Seconds();
    const int64_t rows = RowsOf(batch);
    if (out.batches++ == 0) {
      out.first_batch_seconds = got - begin;
      out.first_elements = rows;
    } else {
      waits.push_back(got - requested_at);
      out.waited_seconds += got - requested_at;
    }
    out.elements += rows;
    batch_bytes += static_cast<double>(BytesOf(batch));
    out.seconds = got - begin;
    if (options.seconds_per_batch > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds_per_batch));
  }
  out.peak_bytes = PeakMemory();
  out.wait_p50_seconds = Quantile(waits, 0.5);
  out.wait_p99_seconds = Quantile(waits, 0.99);
  out.allocations = iterator->batch_allocations();
  out.plan = iterator->Explain();
  out.report = iterator->Report();
  out.bytes_per_element = SourceBytesPerElement(out.report.stages);
  if (out.elements > 0)
    out.batch_bytes_per_element = batch_bytes / static_cast<double>(out.elements);
  return out;
}

absl::StatusOr<StorageMeasured> MeasureStorage(io::FileSystem& fs,
                                               absl::Span<const std::string> files, int parallel,
                                               bool repeat, const MeasureOptions& options) {
  StorageReader reader(fs, files, repeat, options);
  const int threads = static_cast<int>(std::min<size_t>(std::max(parallel, 1), files.size()));
  {
    PENSTOCK_ASSIGN_OR_RETURN(const auto pool, base::ThreadPool::Make(threads, "storage"));
    for (int i = 0; i < threads; ++i) pool->Schedule([&] { reader.Work(); });
  }
  return reader.Result();
}

int64_t DropFromPageCache(absl::Span<const std::string> files, int64_t max) {
  int64_t dropped = 0;
  for (const std::string& file : files) {
    if (dropped >= max) break;
    const absl::StatusOr<io::Uri> uri = io::ParseUri(file);
    if (!uri.ok() || !uri->is_local()) continue;
    const io::FileDescriptor fd(::open(uri->path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) continue;
    ::fdatasync(fd.get());  // dirty pages cannot be evicted
    dropped += ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0;
  }
  return dropped;
}

// See proc(5): VmHWM is in kB; writing 5 to clear_refs resets it to the current resident memory.
int64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    int64_t kilobytes = 0;
    if (!absl::ConsumePrefix(&text, "VmHWM:")) continue;
    if (absl::ConsumeSuffix(&text, "kB") && absl::SimpleAtoi(text, &kilobytes))
      return kilobytes * 1024;
  }
  return 0;
}

void ResetPeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

double Quantile(std::vector<double>& values, double quantile) {
  if (values.empty()) return 0;
  const size_t at = std::min(values.size() - 1,
                             static_cast<size_t>(quantile * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

std::string PrintRate(double rate) {
  if (rate < 100) return absl::StrFormat("%.3g", rate);
  const std::string digits = absl::StrCat(static_cast<int64_t>(std::llround(rate)));
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string PrintSeconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  if (seconds < 120) return absl::StrFormat("%.3g s", seconds);
  return absl::StrFormat("%.3g min", seconds / 60);
}

}  // namespace penstock::diagnose
