// Reports network waits: a wait longer than 5 seconds prints on stderr what it waits for, the
// attempt, and the deadline; then again every 30 seconds, and once when it is over or bytes arrive
// again.
//
//   NetworkWait wait(NetworkWaits::Default(), "open 'gs://b/x'");  // begins
//   wait.SetAttempt(2, "HTTP status 503", /*gives_up_in_seconds=*/47);
//   wait.Received(bytes);                                          // 64 KiB count as progress
//   // ends when it is destroyed
//
// No caller can forget it: HttpClient registers every request that does not name a wait, HttpRetry
// one for each operation, and arrow_file_system.cc one for each call of Arrow.
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

// All waits in progress. Any thread may use it; it outlives its waits.
class NetworkWaits {
 public:
  static constexpr double kFirstReportSeconds = 5;
  static constexpr double kNextReportSeconds = 30;
  // Receives one line, without a line break. Called on any thread, one at a time.
  using Sink = std::function<void(absl::string_view line)>;

  // Reports when Poll is called; a test advances its FakeClock and calls it.
  NetworkWaits(base::Clock* clock, Sink sink);
  // Prints to stderr, polled once a second by its own thread while there are waits.
  static NetworkWaits* Default();

  // Reports waits that are due. If several are, it reports the longest, with the number of the
  // others, so that 64 ranges in flight are one line.
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
  void Say(absl::string_view line);
  // The line that ends a reported wait; "" if it was not reported.
  static std::string EndOf(Entry& entry, double now);
  std::string Describe(const Entry& entry, double now, int others) const;
  void StartThread();

  base::Clock* const clock_;
  const Sink sink_;
  std::mutex sink_mutex_;

  std::mutex mutex_;
  std::function<void()> wake_;  // the thread of Default, which is idle without waits
  std::map<uint64_t, Entry> waits_;
  uint64_t next_id_ = 0;
};

// One wait, from its construction to its destruction. Any thread may use it.
class NetworkWait {
 public:
  // `what` completes "cannot ...": "open 'gs://b/x'". Names no secrets.
  NetworkWait(NetworkWaits* waits, std::string what,
              double gives_up_in_seconds = std::numeric_limits<double>::infinity());
  // For something that retries by itself: `retries` describes its policy, in place of attempts.
  NetworkWait(NetworkWaits* waits, std::string what, std::string retries);
  ~NetworkWait();
  NetworkWait(const NetworkWait&) = delete;
  NetworkWait& operator=(const NetworkWait&) = delete;

  // Attempt `number` (from 1) starts, because the previous one ended with `last_error`.
  void SetAttempt(int number, std::string last_error, double gives_up_in_seconds);
  // Bytes arrived; 64 KiB since the last progress restart the wait.
  void Received(int64_t bytes);
  // Restarts the wait.
  void MadeProgress();

 private:
  NetworkWaits* const waits_;
  const uint64_t id_;
};

}  // namespace penstock::io
