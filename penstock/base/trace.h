// Trace: what happened when, on one clock, for a picture of a run.
//
//   Trace trace({.clock = clock});
//   trace.NameThread("host", "training loop");
//   {
//     const Trace::Span span(&trace, "compile");      // of a null trace: nothing
//     ...
//   }
//   trace.Add(trace.Track("devices", "cpu 0"), "train_step", given, finished, {"step", 17});
//   TraceRecording recording = trace.Take();
//
// A track is a row of the picture, and a group is what its rows stand under. Each thread has a
// track of its own, on which spans lie within each other as the calls do.
//
// It is handed to what shall tell something as a pointer that may be null: then nothing is traced
// and no time is spent. A span costs two looks at the clock and a lock of some ten nanoseconds, so
// that pieces of work of 10 microseconds and more may be traced; not single records.
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
  // Of about 50 bytes each. Those that end later are counted and not kept.
  int64_t max_spans = 200'000;
};
// A number that a span carries. `name` is a literal.
struct TraceArgument {
  const char* name = nullptr;
  int64_t value = 0;
};

// What was recorded.
struct TraceRecording {
  struct Track {
    std::string group, name;
  };
  struct Span {
    int track = 0;
    int name = 0;
    double begin = 0, end = 0;  // seconds of the clock
    TraceArgument argument;
  };
  std::vector<Track> tracks;
  std::vector<std::string> names;
  // By track, then by their beginnings; of two that begin together the longer first.
  std::vector<Span> spans;
  int64_t dropped = 0;            // for want of room
  double began = 0;               // the clock, when the trace was made
  double began_unix_seconds = 0;  // the same moment
};

// Any thread may use it.
class Trace {
 public:
  explicit Trace(const TraceOptions& options) : options_(options) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // From the beginning on it records.
  void Pause() { recording_.store(false, std::memory_order_relaxed); }
  void Resume() { recording_.store(true, std::memory_order_relaxed); }
  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  double Now() const { return options_.clock->Seconds(); }
  // The track of this name, which is made if there is none.
  int Track(absl::string_view group, absl::string_view name);
  // What this thread's track is called. Without it: by the thread's name and a number, in
  // "threads".
  void NameThread(absl::string_view group, absl::string_view name);

  // Something that is over, on this thread's track, or on another.
  void Add(absl::string_view name, double begin, double end, TraceArgument argument = {});
  void Add(int track, absl::string_view name, double begin, double end,
           TraceArgument argument = {});

  // Traces its own life. `name` must live as long.
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

    // Before its life does.
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

  // All of it; the trace is empty then.
  TraceRecording Take();

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
