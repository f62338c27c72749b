#include "penstock/remote/worker/take_over.h"

#include "absl/strings/str_cat.h"

#include "penstock/remote/worker/session_table.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxProgram = 100;  // characters of a program's name

}  // namespace

bool TakeOvers::Begin(const std::string& id, const std::string& by) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const double now = clock_->Seconds();
  return take_overs_.emplace(id, TakeOver{.by = by, .since = now, .save_since = now}).second;
}

void TakeOvers::Forget(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  take_overs_.erase(id);
}

std::string TakeOvers::GivesUpIn(double seconds) const {
  const double now = clock_->UnixSeconds();
  return absl::StrCat("gives up at ", LegibleTime(now + seconds, now));
}

TakeOvers::Verdict TakeOvers::Look(const std::string& id, const Activity& activity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = take_overs_.find(id);
  if (found == take_overs_.end()) return {};
  TakeOver& it = found->second;
  const double now = clock_->Seconds(), seconds = now - it.since;
  const bool compiles = !activity.compiling.empty();
  const std::string program = Printable(activity.compiling, kMaxProgram);
  if (compiles) {
    it.has_compiled = true;
    it.save_since = now;
  }
  const std::string killed =
      absl::StrCat("was killed (SIGKILL) ",
                   compiles ? absl::StrCat("while it compiled ", program)
                            : absl::StrCat("since it did not end within ", LegibleSeconds(seconds)),
                   ", because ", it.by, " took over");
  if (activity.step == 0) {
    if (compiles || seconds >= limits_.nothing_seconds) {
      return {.kill = true,
              .words = absl::StrCat(killed,
                                    "; it had trained no step since its start, so nothing is lost; "
                                    "the same command starts it again")};
    }
    return {.words = absl::StrCat("training ", ShortId(id), " is asked to end; ",
                                  GivesUpIn(limits_.nothing_seconds - seconds))};
  }
  const double left =
      compiles ? limits_.compile_seconds - seconds : limits_.save_seconds - (now - it.save_since);
  if (left <= 0) {
    return {.kill = true,
            .words = absl::StrCat(killed,
                                  compiles ? absl::StrCat(", after ", LegibleSeconds(seconds)) : "",
                                  "; it had begun step ", activity.step,
                                  ", and the steps after its last checkpoint are lost; the same "
                                  "command resumes from that checkpoint")};
  }
  return {.words = absl::StrCat("training ", ShortId(id),
                                compiles ? absl::StrCat(" compiles ", program,
                                                        ", and saves a checkpoint and ends then; ")
                                         : " saves a checkpoint and ends; ",
                                GivesUpIn(left))};
}

}  // namespace penstock::remote
