#include "penstock/data/row_node.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace penstock::data {
namespace {

// A job long enough that handing it out costs nothing beside it, short enough to spread evenly.
constexpr double kJobSeconds = 1e-3;
// Below this, waking another thread costs more than the work itself: the driving thread does it.
constexpr double kInlineSeconds = 20e-6;
// Of a group whose rows stay rows.
constexpr int64_t kMostRows = 1024;
constexpr int64_t kMostBytes = 1 << 20;
// Looked at in one go, when a Filter keeps none of their rows.
constexpr int kMostEmptyGroups = 16;

class RowNode : public Node {
 public:
  RowNode(const NodeContext& context, std::unique_ptr<Node> input, RowNodeOptions options,
          std::shared_ptr<const RowChain> chain)
      : Node(context, std::move(input)),
        shared_options_(std::make_shared<const RowNodeOptions>(std::move(options))),
        options_(*shared_options_),
        chain_(std::move(chain)),
        epoch_(context.epoch),
        meter_(engine_, counters_),
        need_(context.memory) {
    if (options_.host.count > 1) input_->ShareBatches(options_.batch, options_.host);
    counters_.work = StageWork::kComputes;
    counters_.parallelism = options_.in_order ? 1 : engine_.compute_threads();
    counters_.room_unit = stack() ? "batches" : "groups";
    // What is known of a batch before the first is made; whoever made the nodes asks whether it
    // fits.
    if (stack()) {
      const int64_t rows = OwnRows(options_.batch);
      group_bytes_ = rows * std::min(KnownRowBytes(), INT64_MAX / 4 / std::max<int64_t>(rows, 1));
    }
    need_.Set(group_bytes_).IgnoreError();
  }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override;
  void DoAdvance() override;
  absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) override;

 private:
  struct UnderWay {
    std::shared_ptr<RowGroup> group;
    MemoryCharge charge;  // for what it makes
  };
  bool stack() const { return options_.batch > 0; }
  // Of a group of so many rows, those that are computed here.
  int64_t OwnRows(int64_t rows) const {
    const auto [begin, end] = options_.host.RowsOf(rows);
    return end - begin;
  }
  int64_t KnownRowBytes() const;
  void Charge(const Rows& rows);
  absl::StatusOr<Poll> SkipCalls(int64_t* rows);
  int64_t GroupRows() const;
  int64_t Chunks(int64_t rows) const;
  size_t Room() const;
  bool HasRoom();
  bool FormGroup();
  void MeetError(const absl::Status& status);
  bool FormBatch();
  void StartGroup();
  size_t NumRunning() const;
  bool PopDone(UnderWay* group);

  const std::shared_ptr<const RowNodeOptions> shared_options_;  // with the jobs under way
  const RowNodeOptions& options_;
  const std::shared_ptr<const RowChain> chain_;
  const int64_t epoch_;
  WaitMeter meter_;
  MemoryNeed need_;
  int64_t group_bytes_ = 0;  // of what a group makes: known, or as measured last

  Rows forming_;              // rows of the next group
  int64_t left_out_ = 0;      // rows of the next batch, which contains a failed one
  absl::Status batch_error_;  // the error of that row
  std::deque<UnderWay> groups_;
  int overtaken_ = 0;          // how often the first of them was
  std::deque<RowPart> ready_;  // of a group, not yet passed on
  int64_t first_ = 0;          // number of the next group's first row
  int64_t skipped_in_batch_ = 0;
  bool input_waits_ = false;
  bool input_ended_ = false;
  absl::Status input_status_;
  absl::Status memory_status_;
  double seconds_per_row_ = -1;  // measured; negative before the first group is done
  int64_t bytes_per_row_ = 0;    // of what comes out
};

int64_t RowNode::GroupRows() const {
  if (stack()) return options_.batch;
  if (seconds_per_row_ < 0) return 1;
  const int64_t most =
      std::clamp<int64_t>(kMostBytes / std::max<int64_t>(bytes_per_row_, 1), 1, kMostRows);
  return std::clamp<int64_t>(kJobSeconds / (seconds_per_row_ + 1e-9), 1, most);
}

// How many jobs a group of so many rows is split into; 0: none, it is done at once.
int64_t RowNode::Chunks(int64_t rows) const {
  if (seconds_per_row_ < 0) {
    return stack() ? std::min<int64_t>(rows, 4 * engine_.compute_threads()) : 1;
  }
  const double seconds = seconds_per_row_ * rows;
  if (seconds < kInlineSeconds) return 0;
  return stack() ? std::clamp<int64_t>(seconds / kJobSeconds, 1, rows) : 1;
}

// Groups being computed or waiting to be taken: enough that the pool finds work while one is passed
// on.
size_t RowNode::Room() const {
  if (options_.in_order && NumRunning() > 0) return 0;
  const int64_t chunks = Chunks(OwnRows(GroupRows()));
  if (chunks == 0) return 1 + NumRunning();
  const int64_t wanted = 2 * engine_.compute_threads();
  return static_cast<size_t>(1 + (wanted + chunks - 1) / chunks);
}

// Of columns that are stacked, as far as their shapes are known.
int64_t RowNode::KnownRowBytes() const {
  int64_t bytes = 0;
  for (int i = 0; i < chain_->output().size(); ++i) {
    const ColumnSpec& column = chain_->output()[i];
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

// For another group. One is computed in any case.
bool RowNode::HasRoom() {
  if (groups_.size() >= Room()) return false;
  return groups_.empty() || memory_->HasRoom(group_bytes_);
}

// What a group made is charged as long as it is in use. Rows that are passed through unchanged are
// charged where they were made.
void RowNode::Charge(const Rows& rows) {
  for (const BlockPtr& block : rows.blocks()) {
    if (block->own_bytes > 0 && block->charge.bytes() == 0) {
      block->charge = MemoryCharge(memory_, block->own_bytes);
    }
  }
}

bool RowNode::FormGroup() {
  const int64_t wanted = GroupRows();
  const auto missing = [&] { return wanted - forming_.size() - left_out_; };
  input_waits_ = false;
  while (missing() > 0 && !input_ended_ && !input_waits_ && input_status_.ok()) {
    const absl::StatusOr<Poll> poll = input_->Next(missing(), &forming_);
    if (!poll.ok()) {
      MeetError(poll.status());
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
void RowNode::MeetError(const absl::Status& status) {
  if (!stack() || options_.batch_is_call || !IsOfOneElement(status)) {
    input_status_ = status;
    return;
  }
  if (batch_error_.ok()) batch_error_ = status;
  left_out_ += forming_.size() + 1;
  forming_.clear();
}

// Whether the rows that have arrived make a batch to compute.
bool RowNode::FormBatch() {
  const int64_t rows = forming_.size() + left_out_;
  const bool is_full = rows == options_.batch;
  if (!is_full && input_waits_) return false;
  // The last batch may be smaller, but with fewer rows than machines it is dropped. Rows before an
  // error that ends the input make no batch.
  const bool is_batch =
      is_full || (input_status_.ok() && !options_.drop_remainder && rows >= options_.host.count);
  if (is_batch && left_out_ == 0) return true;
  // A batch with a failed row is the error of that row.
  if (is_batch) input_status_ = batch_error_;
  first_ += rows;
  forming_.clear();
  left_out_ = 0;
  batch_error_ = absl::OkStatus();
  return false;
}

void RowNode::StartGroup() {
  const auto [begin, end] = options_.host.RowsOf(forming_.size());
  const RowGroup::Place place = {.first = first_ + begin, .epoch = epoch_};
  const int64_t rows = end - begin;
  first_ += forming_.size();
  if (rows < forming_.size()) {
    Rows own;
    own.Append(forming_, begin, rows);
    forming_ = std::move(own);
  }
  auto group = std::make_shared<RowGroup>(chain_, std::move(forming_), shared_options_, place,
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
                       [](const UnderWay& under_way) { return !under_way.group->done(); });
}

void RowNode::DoAdvance() {
  while (HasRoom() && FormGroup()) StartGroup();
  input_->Advance();
  counters_.room = static_cast<int64_t>(Room());
  if (NumRunning() > 0) {
    meter_.Set(WaitMeter::kNothing);
  } else if (!HasRoom()) {
    meter_.Set(WaitMeter::kRoom);
  } else {
    meter_.Set(input_waits_ ? WaitMeter::kInput : WaitMeter::kNothing);
  }
}

bool RowNode::PopDone(UnderWay* group) {
  const auto end =
      engine_.MayOvertake(overtaken_) || groups_.empty() ? groups_.end() : groups_.begin() + 1;
  const auto it = std::find_if(groups_.begin(), end,
                               [](const auto& candidate) { return candidate.group->done(); });
  if (it == end) return false;
  overtaken_ = it == groups_.begin() ? 0 : overtaken_ + 1;
  *group = std::move(*it);
  groups_.erase(it);
  return true;
}

absl::StatusOr<Poll> RowNode::DoNext(int64_t max_rows, Rows* out) {
  for (int groups = 0;; ++groups) {
    if (groups == kMostEmptyGroups) {
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
    UnderWay under_way;
    if (!PopDone(&under_way)) {
      if (!groups_.empty()) return Poll::kPending;
      if (!input_status_.ok()) {
        // The error takes its position among the rows.
        if (!stack() && IsOfOneElement(input_status_)) ++first_;
        return std::exchange(input_status_, absl::OkStatus());
      }
      return input_ended_ ? Poll::kEnd : Poll::kPending;
    }
    const std::shared_ptr<RowGroup> group = std::move(under_way.group);
    under_way.charge = {};
    const double seconds_per_row = group->busy_seconds() / group->rows().size();
    seconds_per_row_ =
        seconds_per_row_ < 0 ? seconds_per_row : 0.8 * seconds_per_row_ + 0.2 * seconds_per_row;
    int64_t bytes = 0;
    for (RowPart& part : group->Take()) {
      const int64_t part_bytes = part.rows.Bytes();
      Charge(part.rows);
      bytes += part_bytes;
      ready_.push_back(std::move(part));
    }
    bytes_per_row_ = bytes / group->rows().size();
    if (stack() || !chain_->empty()) {
      group_bytes_ = bytes;
      memory_status_ = need_.Set(std::max(need_.bytes(), bytes));
    }
    counters_.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
}

absl::StatusOr<Poll> RowNode::DoSkip(int64_t* rows) {
  // Which rows there are, or what they are, is known only when they have been computed.
  const bool computes = options_.keep != nullptr || options_.in_order;
  const bool has_begun = !groups_.empty() || !ready_.empty() || !forming_.empty() ||
                         left_out_ > 0 || !input_status_.ok();
  if (computes || has_begun) return Node::DoSkip(rows);
  if (options_.batch_is_call) return SkipCalls(rows);
  const int64_t size = stack() ? options_.batch : 1;
  while (*rows > 0) {
    // The maximum number of batches whose rows can be counted.
    const int64_t part = std::min(*rows, INT64_MAX / size);
    const int64_t wanted = part * size - skipped_in_batch_;
    int64_t left = wanted;
    PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(&left));
    first_ += wanted - left;
    skipped_in_batch_ += wanted - left;
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
    Rows skipped;
    const absl::StatusOr<Poll> poll = input_->Next(options_.batch, &skipped);
    const bool is_failed_element = !poll.ok() && IsOfOneElement(poll.status());
    if (!is_failed_element && (!poll.ok() || *poll != Poll::kReady)) return poll;
    first_ += skipped.size();
    --*rows;
  }
  return Poll::kReady;
}

}  // namespace

std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options) {
  return MakeRowNode(context, std::move(input), std::move(options), context.chain);
}

std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options, std::shared_ptr<const RowChain> chain) {
  return std::make_unique<RowNode>(context, std::move(input), std::move(options), std::move(chain));
}

}  // namespace penstock::data
