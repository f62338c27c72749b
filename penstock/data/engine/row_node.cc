#include "penstock/data/engine/row_node.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace penstock::data {
namespace {

// Length of a job: long enough to make scheduling negligible, short enough to balance the load.
constexpr double kJobSeconds = 1e-3;
// Shorter work is done by the driving thread: waking another thread would cost more than the work.
constexpr double kInlineSeconds = 20e-6;
// Limits of an unbatched group.
constexpr int64_t kMaxRows = 1024;
constexpr int64_t kMaxBytes = 1 << 20;
// Number of groups without kept rows (Filter) before the driving thread yields.
constexpr int kMaxEmptyGroups = 16;

class RowNode : public Node {
 public:
  RowNode(const NodeContext& context, std::unique_ptr<Node> input, RowNodeOptions options,
          std::shared_ptr<const FusedKernels> kernels)
      : Node(context, std::move(input)),
        shared_options_(std::make_shared<const RowNodeOptions>(std::move(options))),
        options_(*shared_options_),
        kernels_(std::move(kernels)),
        epoch_(context.epoch),
        meter_(engine_, counters_),
        reservation_(context.memory) {
    if (options_.host.count > 1) input_->SetHostShard(options_.batch, options_.host);
    counters_.work = StageWork::kCompute;
    counters_.parallelism = options_.in_order ? 1 : engine_.compute_threads();
    counters_.prefetch_unit = stack() ? "batches" : "groups";
    // Size of a batch as far as it is known before the first is made; the caller that made the
    // nodes checks the budget.
    if (stack()) {
      const int64_t rows = OwnRows(options_.batch);
      group_bytes_ = rows * std::min(KnownRowBytes(), INT64_MAX / 4 / std::max<int64_t>(rows, 1));
    }
    reservation_.Set(group_bytes_).IgnoreError();
  }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override;
  void DoAdvance() override;
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override;

 private:
  struct InFlight {
    std::shared_ptr<RowGroup> group;
    MemoryCharge charge;  // for its output
  };
  bool stack() const { return options_.batch > 0; }
  // Number of rows of a group that this host computes.
  int64_t OwnRows(int64_t rows) const {
    const auto [begin, end] = options_.host.RowsOf(rows);
    return end - begin;
  }
  int64_t KnownRowBytes() const;
  void Charge(const RowRefs& rows);
  absl::StatusOr<Poll> SkipCalls(int64_t* rows);
  int64_t GroupRows() const;
  int64_t Chunks(int64_t rows) const;
  size_t MaxGroupsInFlight() const;
  bool MayStartGroup();
  bool FormGroup();
  void HandleInputError(const absl::Status& status);
  bool FormBatch();
  void StartGroup();
  size_t NumRunning() const;
  bool PopDone(InFlight* group);

  const std::shared_ptr<const RowNodeOptions> shared_options_;  // shared with the jobs in flight
  const RowNodeOptions& options_;
  const std::shared_ptr<const FusedKernels> kernels_;
  const int64_t epoch_;
  WaitMeter meter_;
  MemoryReservation reservation_;
  int64_t group_bytes_ = 0;  // size of a group's output: known, or as measured last

  RowRefs forming_;           // rows of the next group
  int64_t dropped_rows_ = 0;  // rows of the next batch, which contains a failed one
  absl::Status batch_error_;  // the error of that row
  std::deque<InFlight> groups_;
  int overtaken_ = 0;          // number of times that the first of them was overtaken
  std::deque<RowPart> ready_;  // rows of a group, not yet passed on
  int64_t first_ = 0;          // number of the next group's first row
  int64_t skipped_in_batch_ = 0;
  bool input_waits_ = false;
  bool input_ended_ = false;
  absl::Status input_status_;
  absl::Status memory_status_;
  double seconds_per_row_ = -1;  // measured; negative before the first group is done
  int64_t bytes_per_row_ = 0;    // size of the output
};

int64_t RowNode::GroupRows() const {
  if (stack()) return options_.batch;
  if (seconds_per_row_ < 0) return 1;
  const int64_t max_rows =
      std::clamp<int64_t>(kMaxBytes / std::max<int64_t>(bytes_per_row_, 1), 1, kMaxRows);
  return std::clamp<int64_t>(kJobSeconds / (seconds_per_row_ + 1e-9), 1, max_rows);
}

// Number of jobs that a group of this size is split into; 0: the driving thread computes it.
int64_t RowNode::Chunks(int64_t rows) const {
  if (seconds_per_row_ < 0) {
    return stack() ? std::min<int64_t>(rows, 4 * engine_.compute_threads()) : 1;
  }
  const double seconds = seconds_per_row_ * rows;
  if (seconds < kInlineSeconds) return 0;
  return stack() ? std::clamp<int64_t>(seconds / kJobSeconds, 1, rows) : 1;
}

// Maximum number of groups in flight (computed or waiting): enough to keep the pool busy while one
// is passed on.
size_t RowNode::MaxGroupsInFlight() const {
  if (options_.in_order && NumRunning() > 0) return 0;
  const int64_t chunks = Chunks(OwnRows(GroupRows()));
  if (chunks == 0) return 1 + NumRunning();
  const int64_t min_jobs = 2 * engine_.compute_threads();
  return static_cast<size_t>(1 + (min_jobs + chunks - 1) / chunks);
}

// Known size of a row, over stacked columns of known shape.
int64_t RowNode::KnownRowBytes() const {
  int64_t bytes = 0;
  for (int i = 0; i < kernels_->output().size(); ++i) {
    const ColumnSpec& column = kernels_->output()[i];
    const bool joined = !options_.joins.empty() && options_.joins[i] != nullptr;
    if (joined) {
      bytes += options_.joins[i]->RowBytes();
    } else if (!options_.share && IsKnown(column.shape)) {
      bytes += column.shape.num_elements() * base::BitWidth(column.dtype) / 8;
    }
    bytes = std::min(bytes, INT64_MAX / 4);  // one column has at most an eighth (CheckColumns)
  }
  return bytes;
}

// Whether the limits permit another group. One group is always permitted.
bool RowNode::MayStartGroup() {
  if (groups_.size() >= MaxGroupsInFlight()) return false;
  return groups_.empty() || memory_->CanReadAhead(group_bytes_);
}

// A group's output is charged while it is in use. Rows that are forwarded unchanged are charged
// where they were made.
void RowNode::Charge(const RowRefs& rows) {
  for (const BlockPtr& block : rows.blocks()) {
    if (block->own_bytes > 0 && block->charge.bytes() == 0) {
      block->charge = MemoryCharge(memory_, block->own_bytes);
    }
  }
}

bool RowNode::FormGroup() {
  const int64_t group_rows = GroupRows();
  const auto missing = [&] { return group_rows - forming_.size() - dropped_rows_; };
  input_waits_ = false;
  while (missing() > 0 && !input_ended_ && !input_waits_ && input_status_.ok()) {
    const absl::StatusOr<Poll> poll = input_->Next(missing(), &forming_);
    if (!poll.ok()) {
      HandleInputError(poll.status());
    } else {
      input_ended_ = *poll == Poll::kEnd;
      input_waits_ = *poll == Poll::kPending;
    }
    if (options_.batch_is_call && !forming_.empty()) break;
  }
  // Unbatched rows are passed on as they arrive.
  return !stack() || options_.batch_is_call ? !forming_.empty() : FormBatch();
}

// If one row of a batch has failed, the other rows of the batch are dropped, including later ones:
// the next batch begins where it would otherwise.
void RowNode::HandleInputError(const absl::Status& status) {
  if (!stack() || options_.batch_is_call || !IsRecoverable(status)) {
    input_status_ = status;
    return;
  }
  if (batch_error_.ok()) batch_error_ = status;
  dropped_rows_ += forming_.size() + 1;
  forming_.clear();
}

// Whether the rows that have arrived make a batch to compute.
bool RowNode::FormBatch() {
  const int64_t rows = forming_.size() + dropped_rows_;
  const bool is_full = rows == options_.batch;
  if (!is_full && input_waits_) return false;
  // The last batch may be smaller, but with fewer rows than machines it is dropped. Rows before an
  // error that ends the input make no batch.
  const bool is_batch =
      is_full || (input_status_.ok() && !options_.drop_remainder && rows >= options_.host.count);
  if (is_batch && dropped_rows_ == 0) return true;
  // A batch with a failed row is the error of that row.
  if (is_batch) input_status_ = batch_error_;
  first_ += rows;
  forming_.clear();
  dropped_rows_ = 0;
  batch_error_ = absl::OkStatus();
  return false;
}

void RowNode::StartGroup() {
  const auto [begin, end] = options_.host.RowsOf(forming_.size());
  const RowGroup::Position position = {.first = first_ + begin, .epoch = epoch_};
  const int64_t rows = end - begin;
  first_ += forming_.size();
  if (rows < forming_.size()) {
    RowRefs own;
    own.Append(forming_, begin, rows);
    forming_ = std::move(own);
  }
  auto group = std::make_shared<RowGroup>(kernels_, std::move(forming_), shared_options_, position,
                                          engine_.buffers(), engine_.clock(), counters_);
  forming_.clear();
  groups_.push_back({group, MemoryCharge(memory_, group_bytes_)});
  const int64_t chunks = Chunks(rows);
  if (chunks == 0) {
    group->Run(0, 1);
    AlreadyCounted(group->busy_seconds());
    return;
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    engine_.Compute([group, chunk, chunks, engine = &engine_] {
      if (group->Run(chunk, chunks)) engine->Wake();
    });
  }
}

size_t RowNode::NumRunning() const {
  return std::count_if(groups_.begin(), groups_.end(),
                       [](const InFlight& in_flight) { return !in_flight.group->done(); });
}

void RowNode::DoAdvance() {
  while (MayStartGroup() && FormGroup()) StartGroup();
  input_->Advance();
  counters_.prefetch_limit = static_cast<int64_t>(MaxGroupsInFlight());
  if (NumRunning() > 0) {
    meter_.Set(WaitMeter::kNothing);
  } else if (!MayStartGroup()) {
    meter_.Set(WaitMeter::kDownstream);
  } else {
    meter_.Set(input_waits_ ? WaitMeter::kInput : WaitMeter::kNothing);
  }
}

bool RowNode::PopDone(InFlight* group) {
  const auto end =
      engine_.MayReorder(overtaken_) || groups_.empty() ? groups_.end() : groups_.begin() + 1;
  const auto it = std::find_if(groups_.begin(), end,
                               [](const auto& candidate) { return candidate.group->done(); });
  if (it == end) return false;
  overtaken_ = it == groups_.begin() ? 0 : overtaken_ + 1;
  *group = std::move(*it);
  groups_.erase(it);
  return true;
}

absl::StatusOr<Poll> RowNode::DoNext(int64_t max_rows, RowRefs* out) {
  for (int groups = 0;; ++groups) {
    if (groups == kMaxEmptyGroups) {
      engine_.WakeLater();
      return Poll::kPending;
    }
    DoAdvance();
    PENSTOCK_RETURN_IF_ERROR(memory_status_);
    if (!ready_.empty()) {
      RowPart& part = ready_.front();
      if (!part.rows.empty()) {
        part.rows.MoveFront(std::min(max_rows, part.rows.size()), out);
        if (part.rows.empty() && part.status.ok()) ready_.pop_front();
        return Poll::kReady;
      }
      const absl::Status status = std::move(part.status);
      ready_.pop_front();
      return status;
    }
    InFlight in_flight;
    if (!PopDone(&in_flight)) {
      if (!groups_.empty()) return Poll::kPending;
      if (!input_status_.ok()) {
        // The error takes its position among the rows.
        if (!stack() && IsRecoverable(input_status_)) ++first_;
        return std::exchange(input_status_, absl::OkStatus());
      }
      return input_ended_ ? Poll::kEnd : Poll::kPending;
    }
    const std::shared_ptr<RowGroup> group = std::move(in_flight.group);
    in_flight.charge = {};
    const int64_t rows = group->rows().size();
    const double seconds_per_row = group->busy_seconds() / rows;
    seconds_per_row_ =
        seconds_per_row_ < 0 ? seconds_per_row : 0.8 * seconds_per_row_ + 0.2 * seconds_per_row;
    int64_t bytes = 0;
    for (RowPart& part : group->Take()) {
      const int64_t part_bytes = part.rows.Bytes();
      Charge(part.rows);
      bytes += part_bytes;
      ready_.push_back(std::move(part));
    }
    bytes_per_row_ = bytes / rows;
    if (stack() || !kernels_->empty()) {
      group_bytes_ = bytes;
      memory_status_ = reservation_.Set(std::max(reservation_.bytes(), bytes));
    }
    counters_.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
}

absl::StatusOr<Poll> RowNode::DoSkip(int64_t* rows) {
  // Which rows there are, or what they are, is known only when they have been computed.
  const bool computes = options_.keep != nullptr || options_.in_order;
  const bool has_begun = !groups_.empty() || !ready_.empty() || !forming_.empty() ||
                         dropped_rows_ > 0 || !input_status_.ok();
  if (computes || has_begun) return Node::DoSkip(rows);
  if (options_.batch_is_call) return SkipCalls(rows);
  const int64_t size = stack() ? options_.batch : 1;
  while (*rows > 0) {
    // The maximum number of batches whose rows can be counted.
    const int64_t part = std::min(*rows, INT64_MAX / size);
    const int64_t requested = part * size - skipped_in_batch_;
    int64_t left = requested;
    PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(&left));
    first_ += requested - left;
    skipped_in_batch_ += requested - left;
    *rows -= skipped_in_batch_ / size;
    skipped_in_batch_ %= size;
    if (poll == Poll::kPending) return poll;
    if (poll == Poll::kEnd) {
      input_ended_ = true;
      if (skipped_in_batch_ >= options_.host.count && !options_.drop_remainder) --*rows;
      skipped_in_batch_ = 0;
      return *rows > 0 ? Poll::kEnd : Poll::kReady;
    }
  }
  return Poll::kReady;
}

absl::StatusOr<Poll> RowNode::SkipCalls(int64_t* rows) {
  while (*rows > 0) {
    if (engine_.cancelled()) return Poll::kPending;
    RowRefs skipped;
    const absl::StatusOr<Poll> poll = input_->Next(options_.batch, &skipped);
    const bool is_failed_element = !poll.ok() && IsRecoverable(poll.status());
    if (!is_failed_element && (!poll.ok() || *poll != Poll::kReady)) return poll;
    first_ += skipped.size();
    --*rows;
  }
  return Poll::kReady;
}

}  // namespace

std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options) {
  return MakeRowNode(context, std::move(input), std::move(options), context.kernels);
}

std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options,
                                  std::shared_ptr<const FusedKernels> kernels) {
  return std::make_unique<RowNode>(context, std::move(input), std::move(options),
                                   std::move(kernels));
}

}  // namespace penstock::data
