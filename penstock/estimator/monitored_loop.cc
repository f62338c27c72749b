#include "penstock/estimator/monitored_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::estimator {
namespace {

// A train_op that accumulates gradients may leave the global step unchanged in some runs; in so
// many it is a mistake.
constexpr int64_t kMaxRunsWithoutProgress = 1000;
// Number of runs at the start after each of which the count on the host is compared with the variable;
// also the interval, in runs, between later comparisons.
constexpr int64_t kComparedRuns = 100;
// Prepared calls that are kept: with and without the values that are printed, and the like.
constexpr size_t kMaxPrepared = 8;

bool SameFetch(const session::Fetch& a, const session::Fetch& b) {
  return a.tensor() == b.tensor() && a.operation() == b.operation() && a.name() == b.name();
}

}  // namespace

absl::Status MonitoredLoop::Begin() {
  for (const Hook& hook : hooks_) {
    if (hook == nullptr) return absl::InvalidArgumentError("a hook must not be null");
    PENSTOCK_RETURN_IF_ERROR(base::CatchExceptions([&] { return hook->Begin(); }));
  }
  return absl::OkStatus();
}

absl::Status MonitoredLoop::Start(session::Session& session, const StartOptions& options) {
  context_.emplace(session, log_);
  context_->restored_ = options.restored;
  context_->write_beside_ = options.write_beside;
  context_->remove_beside_ = options.remove_beside;
  global_step_ = options.global_step;
  runs_anything_ = options.runs_anything;
  if (!global_step_.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(context_->global_step_, ReadGlobalStep());
  }
  for (const Hook& hook : hooks_) {
    PENSTOCK_RETURN_IF_ERROR(
        base::CatchExceptions([&] { return hook->AfterCreateSession(*context_); }));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MonitoredLoop::Run(const session::Fetches& fetches, int64_t steps,
                                        std::vector<base::Array>* values,
                                        const session::FeedDict& feeds) {
  fetches_ = fetches;
  feeds_ = feeds;
  first_.clear();
  const absl::Status before = base::CatchExceptions([&] {
    for (const Hook& hook : hooks_) {
      steps = std::min(steps, std::max<int64_t>(1, hook->StepsUntilNext(context_->global_step())));
    }
    context_->steps_ = steps;
    for (const Hook& hook : hooks_) {
      SessionRunArgs args = hook->BeforeRun(*context_);
      first_.push_back(fetches_.size());
      std::move(args.fetches.begin(), args.fetches.end(), std::back_inserter(fetches_));
      std::move(args.feeds.begin(), args.feeds.end(), std::back_inserter(feeds_));
    }
    return absl::OkStatus();
  });
  if (!before.ok()) return before;
  first_.push_back(fetches_.size());

  int64_t done = 1;
  absl::StatusOr<std::vector<base::Array>> results = Execute(steps, &done);
  if (absl::IsOutOfRange(results.status())) {
    // The execution before may have ended early.
    if (!global_step_.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(context_->global_step_, ReadGlobalStep());
    }
    return false;
  }
  if (!results.ok()) return results.status();
  PENSTOCK_RETURN_IF_ERROR(CountSteps(done));
  if (values != nullptr) values->assign(results->begin(), results->begin() + fetches.size());
  for (size_t i = 0; i < hooks_.size(); ++i) {
    RunValues run;
    run.results.assign(results->begin() + first_[i], results->begin() + first_[i + 1]);
    PENSTOCK_RETURN_IF_ERROR(
        base::CatchExceptions([&] { return hooks_[i]->AfterRun(*context_, run); }));
  }
  return true;
}

absl::Status MonitoredLoop::End() {
  for (const Hook& hook : hooks_) {
    PENSTOCK_RETURN_IF_ERROR(base::CatchExceptions([&] { return hook->End(*context_); }));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<base::Array>> MonitoredLoop::Execute(int64_t steps, int64_t* done) {
  session::Session& session = context_->session();
  if (steps > 1) return session.RunLoop(steps, fetches_, feeds_, done);
  if (!feeds_.empty()) return session.Run(fetches_, feeds_);
  PENSTOCK_ASSIGN_OR_RETURN(session::Callable * callable, Prepare());
  return (*callable)(absl::Span<const base::Array>());
}

absl::StatusOr<session::Callable*> MonitoredLoop::Prepare() {
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const session::Fetches& known = prepared_[i]->fetches;
    if (!std::equal(known.begin(), known.end(), fetches_.begin(), fetches_.end(), SameFetch)) {
      continue;
    }
    std::rotate(prepared_.begin(), prepared_.begin() + i, prepared_.begin() + i + 1);
    return &prepared_.front()->callable;
  }
  PENSTOCK_ASSIGN_OR_RETURN(session::Callable callable, context_->session().MakeCallable(fetches_));
  if (prepared_.size() == kMaxPrepared) prepared_.pop_back();
  prepared_.insert(prepared_.begin(),
                   std::make_unique<Prepared>(Prepared{fetches_, std::move(callable)}));
  return &prepared_.front()->callable;
}

absl::StatusOr<int64_t> MonitoredLoop::ReadGlobalStep() {
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array value,
                            context_->session().GetVariableValue(global_step_));
  return value.item<int64_t>();
}

absl::Status MonitoredLoop::CountSteps(int64_t steps) {
  context_->steps_run_ += steps;
  const bool trusted = compared_ >= kComparedRuns && !exact_ && !runs_anything_;
  if (global_step_.empty() || (trusted && steps == 1 && ++since_compared_ < kComparedRuns)) {
    context_->global_step_ += steps;
    return absl::OkStatus();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t now, ReadGlobalStep());
  const int64_t added = now - std::exchange(context_->global_step_, now);
  if (runs_anything_) return absl::OkStatus();
  ++compared_;
  since_compared_ = 0;
  exact_ = exact_ || added != steps;
  runs_without_progress_ = added == 0 ? runs_without_progress_ + 1 : 0;
  if (runs_without_progress_ < kMaxRunsWithoutProgress) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the train_op has not increased the global step in ", kMaxRunsWithoutProgress,
                   " runs (it is ", now, "): pass GetGlobalStep() to Minimize"));
}

}  // namespace penstock::estimator
