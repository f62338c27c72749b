// WorkerLog: what a worker says, in a file that tells afterwards how it ended.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto log, WorkerLog::Open({.path = "/var/log/penstock-worker.log"}));
//   if (!log->previous_end().empty()) ...                  // the previous run crashed
//   log->Line("session 4f3a91c2 from laptop (ada): opened");
//   log->End("SIGTERM");
//
// A run begins with a line "started" and ends with a line "ended". A run without the second one was
// killed or crashed; the next one reports that to clients, with the reason if a supervisor
// (supervisor.h) has noted it, and with the last lines. One worker writes a file at a time.
//
// A disk that is full costs lines, never the worker: stderr says so, and when the file can be written again, how many lines
// were lost stands there and in the file. A file that cannot be written at the start is an error.
//
// The file is readable by its owner only. One larger than kMaxBytes is renamed to PATH.1 at the next line.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::remote {

struct WorkerLogOptions {
  std::string path = {};  // empty: lines go to stderr only
  bool to_stderr = true;  // lines go there as well, with "worker: " instead of the time
  base::Clock* clock = base::Clock::Real();
  // For another worker that writes the file: one that was killed needs a moment to free its memory, and its locks and
  // ports after that.
  double patience_seconds = 3;
};

class WorkerLog {
 public:
  static constexpr int64_t kMaxBytes = int64_t{16} << 20;
  static constexpr int kEndLines = 12;  // lines of previous_end

  // FAILED_PRECONDITION: the file cannot be written, and why, or another worker writes it.
  static absl::StatusOr<std::unique_ptr<WorkerLog>> Open(const WorkerLogOptions& options);
  // Says on stderr how many lines were lost, if the file cannot be written now.
  ~WorkerLog();

  // How the previous run ended, with its last lines; empty if it ended by request, or there was none.
  const std::string& previous_end() const { return previous_end_; }
  // Adds a line; line breaks and unprintable characters are escaped. Never fails: a full disk costs the line (lost()).
  void Line(absl::string_view text);
  // Adds a line about something that a client causes. A client that causes many in a short time does not push out what
  // the log tells: after kBurst of them there are kPerSecond in a second, and the next one says how many were left out.
  void ClientLine(absl::string_view text);
  static constexpr double kBurst = 200, kPerSecond = 2;
  // The last line of a run that ends by request.
  void End(absl::string_view reason);
  // The last lines of the file, with their times; at most `count`.
  std::vector<std::string> Tail(size_t count) const;
  int64_t bytes() const;
  int64_t lost() const;  // lines since the file cannot be written
  const std::string& path() const { return options_.path; }

 private:
  explicit WorkerLog(WorkerLogOptions options) : options_(std::move(options)) {}
  void Write(absl::string_view text);
  void AppendLocked(absl::string_view text);
  absl::Status Begin();

  const WorkerLogOptions options_;
  std::string previous_end_;
  mutable std::mutex mutex_;  // guards the following
  io::FileDescriptor file_;
  double lines_left_ = kBurst, counted_ = 0;  // of clients; when lines_left_ was computed
  int64_t left_out_ = 0;
  int64_t lost_ = 0;       // lines, since the file cannot be written
  int lost_error_ = 0;     // errno
  bool told_ = false;      // stderr was told so
  double tell_after_ = 0;  // when it may be told the next time
};

// How the run whose log ends with `tail` ended; empty if by request. Exposed for tests.
std::string PreviousEnd(absl::string_view tail);

// Adds what a supervisor has observed to the log of a worker that has ended: "killed by signal 9
// (SIGKILL)". If it cannot be written, it goes to stderr.
void NoteCrash(const std::string& path, absl::string_view what,
               base::Clock* clock = base::Clock::Real());

// The log of a worker without the option: penstock/worker-HOST_PORT.log in the user's cache folder; none
// (empty) for port 0, whose runs have nothing in common.
std::string DefaultLogPath(const std::string& listen);

}  // namespace penstock::remote
