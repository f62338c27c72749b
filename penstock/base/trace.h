// Trace: a timeline of a run for profilers (Perfetto, TensorBoard): spans on tracks, with
// timestamps from one clock.
//
//   Trace trace({.clock = clock});
//   trace.NameThread("host", "training loop");
//   {
//     const Trace::Span span(&trace, "compile");      // no-op if the trace is null
//     ...
//   }
//   trace.Add(trace.Track("devices", "cpu 0"), "train_step", begin, end, {"step", 17});
//   TraceRecording recording = trace.TakeRecording();
//
// A track is one row of the timeline (a thread, a device), and a group is a heading over tracks.
// Each thread has its own track, on which spans nest as the calls do.
//
// Instrumented code takes a Trace pointer that may be null: tracing is then off and costs nothing.
// A span costs two clock reads and a lock of some ten nanoseconds, so work of 10 microseconds and
// more can be traced, but not single records.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"

namespace penstock::base {

struct TraceOptions {
  Clock* clock = Clock::Real();
  // Maximum number of spans, about 50 bytes each. Spans beyond it are counted as dropped.
  int64_t max_spans = 200'000;
};
// A numeric argument of a span. `name` is a string literal.
struct TraceArgument {
  const char* name = nullptr;
  int64_t value = 0;
};

// A recorded timeline.
struct TraceRecording {
  struct Track {
    std::string group, name;
  };
  struct Span {
    int track = 0;
    int name = 0;
    double begin = 0, end = 0;  // seconds of Trace::Now
    TraceArgument argument;
  };
  std::vector<Track> tracks;
  std::vector<std::string> names;
  // Sorted by track, then by begin; of two spans that begin together the longer one is first.
  std::vector<Span> spans;
  int64_t dropped = 0;            // spans beyond max_spans
  double began = 0;               // clock time at which the trace was created
  double began_unix_seconds = 0;  // the same moment as Unix time
};

// A trace being recorded. Thread-safe.
class Trace {
 public:
  explicit Trace(const TraceOptions& options) : options_(options) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Recording is on from the beginning.
  void Pause() { recording_.store(false, std::memory_order_relaxed); }
  void Resume() { recording_.store(true, std::memory_order_relaxed); }
  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  double Now() const { return options_.clock->Seconds(); }
  // The track of that group and name; created on first use.
  int Track(absl::string_view group, absl::string_view name);
  // Names the calling thread's track. Default: the thread's name and a number, in the group
  // "threads".
  void NameThread(absl::string_view group, absl::string_view name);

  // Adds a finished span to the calling thread's track, or to another one.
  void Add(absl::string_view name, double begin, double end, TraceArgument argument = {});
  void Add(int track, absl::string_view name, double begin, double end,
           TraceArgument argument = {});

  // A scoped span: records the time from its construction to its destruction. `name` must outlive
  // it.
  class Span {
   public:
    Span(Trace* trace, absl::string_view name, TraceArgument argument = {})
        : trace_(trace != nullptr && trace->recording() ? trace : nullptr),
          name_(name),
          argument_(argument),
          begin_(trace_ != nullptr ? trace_->Now() : 0) {}
    ~Span() { End(); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

    // Ends the span before its destructor does.
    void End() {
      if (trace_ != nullptr) trace_->Add(name_, begin_, trace_->Now(), argument_);
      trace_ = nullptr;
    }

   private:
    Trace* trace_;
    const absl::string_view name_;
    const TraceArgument argument_;
    const double begin_;
  };

  // Returns everything recorded so far and leaves the trace empty.
  TraceRecording TakeRecording();

 private:
  int TrackOfThread();                                             // with the lock
  int FindTrack(absl::string_view group, absl::string_view name);  // with the lock
  void AddLocked(int track, absl::string_view name, double begin, double end,
                 TraceArgument argument);

  const TraceOptions options_;
  const double began_ = options_.clock->Seconds();
  const double began_unix_seconds_ = options_.clock->UnixSeconds();
  std::atomic<bool> recording_ = true;

  // std::mutex and not absl::Mutex: ThreadSanitizer cannot see into Debian's abseil.
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<TraceRecording::Track> tracks_;
  absl::flat_hash_map<std::thread::id, int> track_of_thread_;
  absl::flat_hash_map<std::string, int> names_;
  std::vector<std::string> names_in_order_;
  std::deque<TraceRecording::Span> spans_;  // grows without moving
  int64_t dropped_ = 0;
};

}  // namespace penstock::base
