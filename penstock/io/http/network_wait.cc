#include "penstock/io/http/network_wait.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock::io {
namespace {

// Fewer bytes are not progress, as in http_retry.h: a trickling connection counts as waiting.
constexpr int64_t kProgressBytes = 64 << 10;

void PrintToStderr(absl::string_view line) {
  absl::FPrintF(stderr, "penstock: %s\n", line);
  std::fflush(stderr);
}

std::string Seconds(double seconds) {
  return absl::StrCat(static_cast<int64_t>(std::llround(std::max(seconds, 0.0))), " s");
}

}  // namespace

NetworkWaits::NetworkWaits(base::Clock* clock, Sink sink) : clock_(clock), sink_(std::move(sink)) {}

NetworkWaits* NetworkWaits::Default() {
  // Created once and never destroyed: a thread may still wait when the process exits.
  static auto* const waits = [] {
    auto* const made = new NetworkWaits(base::Clock::Real(), &PrintToStderr);
    made->StartThread();
    return made;
  }();
  return waits;
}

void NetworkWaits::StartThread() {
  const auto woken = std::make_shared<std::condition_variable>();
  try {
    std::thread([this, woken] {
      for (;;) {
        {
          std::unique_lock lock(mutex_);
          woken->wait(lock, [this] { return !waits_.empty(); });
        }
        // Sleeps, because thousands of short waits should not have to notify a condition variable.
        std::this_thread::sleep_for(std::chrono::seconds(1));
        Poll();
      }
    }).detach();
    wake_ = [woken] { woken->notify_one(); };
  } catch (const std::system_error&) {
    PrintToStderr("cannot start a thread to report network waits; they will not be reported");
  }
}

uint64_t NetworkWaits::Begin(std::string what, double gives_up_in_seconds, std::string retries) {
  const double now = clock_->Seconds();
  std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  waits_.emplace(id, Entry{.what = std::move(what),
                           .since = now,
                           .report_at = now + kFirstReportSeconds,
                           .gives_up_at = now + gives_up_in_seconds,
                           .retries = std::move(retries)});
  if (waits_.size() == 1 && wake_ != nullptr) wake_();
  return id;
}

void NetworkWaits::End(uint64_t id) {
  std::string line;
  {
    std::lock_guard lock(mutex_);
    const auto it = waits_.find(id);
    line = EndOf(it->second, clock_->Seconds());
    waits_.erase(it);
  }
  if (!line.empty()) Print(line);
}

void NetworkWaits::Received(uint64_t id, int64_t bytes) {
  std::string line;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = waits_.at(id);
    entry.bytes += bytes;
    if (entry.bytes < kProgressBytes) return;
    const double now = clock_->Seconds();
    line = EndOf(entry, now);
    entry.bytes = 0;
    entry.since = now;
    entry.report_at = now + kFirstReportSeconds;
  }
  if (!line.empty()) Print(line);
}

std::string NetworkWaits::EndOf(Entry& entry, double now) {
  if (!entry.reported) return "";
  entry.reported = false;
  return absl::StrCat("no longer waiting for the network to ", entry.what, " (after ",
                      Seconds(now - entry.since), ")");
}

void NetworkWaits::Poll() {
  std::string line;
  {
    std::lock_guard lock(mutex_);
    const double now = clock_->Seconds();
    Entry* longest = nullptr;
    int due = 0;
    for (auto& [id, entry] : waits_) {
      if (now < entry.report_at) continue;
      ++due;
      entry.report_at = now + kNextReportSeconds;
      if (longest == nullptr || entry.since < longest->since) longest = &entry;
    }
    if (longest == nullptr) return;
    longest->reported = true;
    line = Describe(*longest, now, due - 1);
  }
  Print(line);
}

std::string NetworkWaits::Describe(const Entry& entry, double now, int others) const {
  std::string line = absl::StrCat("waiting for the network to ", entry.what, ": ",
                                  Seconds(now - entry.since), " so far, ");
  if (entry.retries.empty()) {
    absl::StrAppend(&line, "attempt ", entry.attempt);
  } else {
    absl::StrAppend(&line, entry.retries);
  }
  if (!entry.last_error.empty()) absl::StrAppend(&line, " (last: ", entry.last_error, ")");
  if (entry.gives_up_at < now) {
    absl::StrAppend(&line, ", the last attempt");
  } else if (std::isfinite(entry.gives_up_at)) {
    absl::StrAppend(&line, ", giving up in ", Seconds(entry.gives_up_at - now));
  }
  if (others > 0) {
    absl::StrAppend(&line, "; ", others, others == 1 ? " other request is" : " other requests are",
                    " waiting as well");
  }
  return line;
}

void NetworkWaits::Print(absl::string_view line) {
  std::lock_guard lock(sink_mutex_);
  sink_(line);
}

NetworkWait::NetworkWait(NetworkWaits* waits, std::string what, double gives_up_in_seconds)
    : waits_(waits), id_(waits->Begin(std::move(what), gives_up_in_seconds, "")) {}

NetworkWait::NetworkWait(NetworkWaits* waits, std::string what, std::string retries)
    : waits_(waits),
      id_(waits->Begin(std::move(what), std::numeric_limits<double>::infinity(),
                       std::move(retries))) {}

NetworkWait::~NetworkWait() { waits_->End(id_); }

void NetworkWait::SetAttempt(int number, std::string last_error, double gives_up_in_seconds) {
  const double now = waits_->clock_->Seconds();
  std::lock_guard lock(waits_->mutex_);
  NetworkWaits::Entry& entry = waits_->waits_.at(id_);
  entry.attempt = number;
  entry.last_error = std::move(last_error);
  entry.gives_up_at = now + gives_up_in_seconds;
}

void NetworkWait::Received(int64_t bytes) { waits_->Received(id_, bytes); }

void NetworkWait::MadeProgress() { Received(kProgressBytes); }

}  // namespace penstock::io
