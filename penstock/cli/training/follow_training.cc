#include "penstock/cli/training/follow_training.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/cli/legible.h"
#include "penstock/remote/link/link_client.h"

namespace penstock::cli {
namespace {

constexpr double kPatienceSeconds = 60;  // with a worker that cannot be reached
constexpr auto kPause = std::chrono::milliseconds(200);

// Whole lines, so that what is unprintable can be replaced; the rest is kept for the next call.
void PrintLines(std::string& pending, bool all) {
  for (size_t end; (end = pending.find('\n')) != std::string::npos || (all && !pending.empty());) {
    const std::string line = pending.substr(0, end);
    pending.erase(0, end == std::string::npos ? end : end + 1);
    std::printf("%s\n", LegibleLine(line).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

absl::StatusOr<remote::TrainingInfo> FollowTraining(const std::string& address,
                                                    const std::string& training, int64_t offset,
                                                    FollowUntil until) {
  std::string pending;
  double reached = base::Clock::Real()->Seconds();
  bool trying = false, known = false;
  for (;; std::this_thread::sleep_for(kPause)) {
    remote::TrainingRequest request;
    request.mutable_follow()->set_training(training);
    request.mutable_follow()->set_offset(offset);
    const absl::StatusOr<remote::TrainingReply> reply =
        remote::CallTraining({.address = address}, std::move(request));
    const double now = base::Clock::Real()->Seconds();
    if (!reply.ok()) {
      // A worker that has answered before may be stopped for a while.
      const bool may_come = absl::IsUnavailable(reply.status()) ||
                            (known && absl::IsDeadlineExceeded(reply.status()));
      if (!may_come || now - reached >= kPatienceSeconds) {
        return reply.status();
      }
      if (!trying) {
        // Why: it may be a wrong address.
        std::fprintf(stderr, "(%s; trying again for %.0f s)\n",
                     LegibleLine(reply.status().message()).c_str(), kPatienceSeconds);
      }
      trying = true;
      continue;
    }
    trying = false;
    known = true;
    reached = now;
    offset = reply->offset();
    if (reply->dropped() > 0) {
      PrintLines(pending, /*all=*/true);
      std::fprintf(stderr, "(%.1f MB of what it printed were dropped: the worker keeps the end)\n",
                   static_cast<double>(reply->dropped()) / 1e6);
    }
    pending += reply->output();
    const remote::TrainingInfo& info = reply->training();
    const bool done =
        info.state() == remote::TrainingInfo::ENDED ||
        (until == FollowUntil::kStarted && info.state() != remote::TrainingInfo::STARTING);
    const bool complete = offset >= info.output_bytes();
    PrintLines(pending, done && complete);
    if (done && complete) return info;
  }
}

std::string TrainingLine(const remote::TrainingInfo& training) {
  const auto since = static_cast<std::time_t>(training.since_unix_seconds());
  std::tm parts = {};
  localtime_r(&since, &parts);
  std::string state = "starting";
  if (training.state() == remote::TrainingInfo::RUNNING) state = "running";
  if (training.state() == remote::TrainingInfo::STOPPING) state = "saving and ending";
  if (training.state() == remote::TrainingInfo::ENDED) {
    state = absl::StrCat("exit code ", training.exit_code(), ", ", LegibleLine(training.end()));
  }
  return absl::StrFormat("training %s of %s at %s since %04d-%02d-%02d %02d:%02d, %s\n  %s",
                         LegibleLine(training.training()), LegibleLine(training.user()),
                         LegibleLine(training.host()), parts.tm_year + 1900, parts.tm_mon + 1,
                         parts.tm_mday, parts.tm_hour, parts.tm_min, state,
                         LegibleLine(training.command()));
}

}  // namespace penstock::cli
