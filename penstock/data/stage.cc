#include "penstock/data/stage.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::data {

namespace {

constexpr char kRecoverable[] = "penstock/data/recoverable";

absl::Status UnfinishedSkip(int64_t rows) {
  return absl::InternalError(absl::StrCat(
      "elements were requested from a stage in the middle of a skip with ", rows,
      " rows left; this is a bug of the stage downstream (Node::Skip in penstock/data/stage.h)"));
}

}  // namespace

void StageCounters::TraceSpan(double begin, double end) {
  if (trace_ != nullptr && end - begin >= kShortestTraced) trace_->Add(name_, begin, end);
}

void StageCounters::AddSkipped(const absl::Status& status) {
  skipped.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (messages_.size() < kMaxMessages) messages_.emplace_back(status.message());
}

std::vector<std::string> StageCounters::skipped_messages() const {
  std::lock_guard lock(mutex_);
  return messages_;
}

void StageCounters::SetHint(std::string hint) {
  std::lock_guard lock(mutex_);
  if (hint_.empty()) hint_ = std::move(hint);
}

std::string StageCounters::hint() const {
  std::lock_guard lock(mutex_);
  return hint_;
}

// The mark contains the two names, preceded by the length of the first.
absl::Status RecoverableError(const absl::Status& status, absl::string_view origin,
                              absl::string_view stage) {
  absl::Status marked = base::WithContext(status, absl::StrCat(origin, ": ", stage));
  if (base::IsOutOfMemory(status)) return marked;
  marked.SetPayload(kRecoverable, absl::Cord(absl::StrCat(origin.size(), " ", origin, stage)));
  return marked;
}

SkippedElement DescribeSkipped(const absl::Status& status) {
  SkippedElement out = {
      .origin = "", .stage = "", .what = "", .error = WithoutRecoverableMark(status)};
  const std::string mark = std::string(status.GetPayload(kRecoverable).value_or(absl::Cord()));
  const size_t space = mark.find(' ');
  size_t size = 0;
  if (space != std::string::npos && absl::SimpleAtoi(mark.substr(0, space), &size)) {
    out.origin = mark.substr(space + 1, size);
    out.stage = mark.substr(space + 1 + size);
  }
  absl::string_view what = status.message();
  absl::ConsumePrefix(&what, absl::StrCat(out.origin, ": ", out.stage, ": "));
  out.what = std::string(what);
  return out;
}

bool IsRecoverable(const absl::Status& status) {
  return status.GetPayload(kRecoverable).has_value();
}

absl::Status WithoutRecoverableMark(absl::Status status) {
  status.ErasePayload(kRecoverable);
  return status;
}

absl::Status Stage::WriteFields(StageFields&) const {
  return absl::UnimplementedError(
      "is a custom stage without a JSON form and cannot travel to another process; run the "
      "pipeline here, or write "
      "its result to shards (penstock pack) and read those");
}

absl::Status Stage::HoldsFunction(absl::string_view instead) {
  return absl::UnimplementedError(absl::StrCat(
      "holds a C++ function and cannot travel to another process; ", instead,
      ", or run the pipeline here, or write its result to shards (penstock pack) and read those"));
}

std::string Stage::ToString() const { return absl::StrCat(name(), "(", Parameters(), ")"); }

absl::StatusOr<Poll> Node::Next(int64_t max_rows, RowRefs* out) {
  if (unfinished_skip_ > 0) return UnfinishedSkip(unfinished_skip_);
  return NextCounted(max_rows, out);
}

absl::StatusOr<Poll> Node::NextCounted(int64_t max_rows, RowRefs* out) {
  // The time of this node excludes that of its input, which counts its own.
  const double outer = engine_.input_seconds_;
  engine_.input_seconds_ = 0;
  const int64_t before = out->size();
  const double begin = engine_.Now();
  absl::StatusOr<Poll> poll = Poll::kPending;
  try {
    poll = DoNext(max_rows, out);
  } catch (...) {
    poll = base::WithContext(base::StatusOfException(), counters_.name());
  }
  const double seconds = engine_.Now() - begin;
  const double own = seconds - engine_.input_seconds_;
  StageCounters::AddSeconds(counters_.busy_ns, own);
  if (own >= StageCounters::kShortestTraced) counters_.TraceSpan(begin, begin + seconds);
  engine_.input_seconds_ = outer + seconds;
  counters_.elements.fetch_add(out->size() - before, std::memory_order_relaxed);
  return poll;
}

absl::StatusOr<Poll> Node::Skip(int64_t* rows) {
  if (*rows < unfinished_skip_) return UnfinishedSkip(unfinished_skip_);
  absl::StatusOr<Poll> poll = DoSkip(rows);
  const bool ended = poll.ok() && *poll == Poll::kEnd;
  unfinished_skip_ = ended ? 0 : *rows;
  return poll;
}

absl::StatusOr<Poll> Node::DoSkip(int64_t* rows) {
  while (*rows > 0) {
    RowRefs skipped;
    const absl::StatusOr<Poll> poll = NextCounted(*rows, &skipped);
    if (!poll.ok() && IsRecoverable(poll.status())) {
      --*rows;
      continue;
    }
    if (!poll.ok() || *poll != Poll::kReady) return poll;
    *rows -= skipped.size();
  }
  return Poll::kReady;
}

}  // namespace penstock::data
