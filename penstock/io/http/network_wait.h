// Progress reports for slow network operations: a wait longer than 5 seconds prints on stderr what
// it waits for, the attempt and the deadline; then again every 30 seconds, and once when it ends or
// bytes arrive again.
//
//   NetworkWait wait(NetworkWaits::Default(), "open 'gs://b/x'");  // begins
//   wait.SetAttempt(2, "HTTP status 503", /*gives_up_in_seconds=*/47);
//   wait.Received(bytes);                                          // 64 KiB count as progress
//   // ends when it is destroyed
//
// Registration is automatic: HttpClient registers every request without a wait of its own,
// HttpRetry every operation, and arrow_file_system.cc every Arrow call.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"

namespace penstock::io {

// Registry of all waits in progress. Thread-safe; must outlive its waits.
class NetworkWaits {
 public:
  static constexpr double kFirstReportSeconds = 5;
  static constexpr double kNextReportSeconds = 30;
  // Receives one line, without a line break. Called on any thread, but not concurrently.
  using Sink = std::function<void(absl::string_view line)>;

  // A registry that reports only when Poll is called; a test advances its FakeClock and calls it.
  NetworkWaits(base::Clock* clock, Sink sink);
  // The registry of the process: prints to stderr, polled once a second by its own thread while
  // there are waits.
  static NetworkWaits* Default();

  // Reports waits that are due. Several waits are one line, with the longest one and the number of
  // the others, so that 64 ranges in flight do not print 64 lines.
  void Poll();

 private:
  friend class NetworkWait;

  struct Entry {
    std::string what;
    double since = 0;
    double report_at = 0;
    int64_t bytes = 0;  // since the last progress
    int attempt = 1;
    std::string last_error = {};
    double gives_up_at = std::numeric_limits<double>::infinity();
    std::string retries = {};
    bool reported = false;
  };

  uint64_t Begin(std::string what, double gives_up_in_seconds, std::string retries);
  void End(uint64_t id);
  void Received(uint64_t id, int64_t bytes);
  void Print(absl::string_view line);
  // The line that ends a reported wait; "" if it was not reported.
  static std::string EndOf(Entry& entry, double now);
  std::string Describe(const Entry& entry, double now, int others) const;
  void StartThread();

  base::Clock* const clock_;
  const Sink sink_;
  std::mutex sink_mutex_;

  std::mutex mutex_;
  std::function<void()> wake_;  // wakes the thread of Default, which is idle without waits
  std::map<uint64_t, Entry> waits_;
  uint64_t next_id_ = 0;
};

// One wait, from its construction to its destruction. Thread-safe.
class NetworkWait {
 public:
  // `what` completes "waiting for the network to ...": "open 'gs://b/x'". It must not contain
  // secrets.
  NetworkWait(NetworkWaits* waits, std::string what,
              double gives_up_in_seconds = std::numeric_limits<double>::infinity());
  // For a client with its own retries: `retries` describes its retry policy in place of attempts.
  NetworkWait(NetworkWaits* waits, std::string what, std::string retries);
  ~NetworkWait();
  NetworkWait(const NetworkWait&) = delete;
  NetworkWait& operator=(const NetworkWait&) = delete;

  // Reports that attempt `number` (from 1) starts, because the previous one failed with
  // `last_error`.
  void SetAttempt(int number, std::string last_error, double gives_up_in_seconds);
  // Reports received bytes; 64 KiB since the last progress restart the wait.
  void Received(int64_t bytes);
  // Restarts the wait.
  void MadeProgress();

 private:
  NetworkWaits* const waits_;
  const uint64_t id_;
};

}  // namespace penstock::io
