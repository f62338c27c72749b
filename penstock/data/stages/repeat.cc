#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

class RepeatNode : public Node {
 public:
  RepeatNode(const NodeContext& context, int64_t count)
      : Node(context, nullptr),
        make_input_(context.make_input),
        count_(count),
        first_epoch_(static_cast<uint64_t>(context.epoch) *
                     static_cast<uint64_t>(count < 0 ? 1 : count)) {}

  // The next round.
  absl::Status Begin() {
    gave_some_ = false;
    if (next_.ok() && *next_ == nullptr) next_ = MakeInput();
    PENSTOCK_RETURN_IF_ERROR(next_.status());
    input_ = std::exchange(*next_, nullptr);
    return absl::OkStatus();
  }

  // Only in the last round.
  bool IsNearEnd() const override {
    return round_ == count_ && next_.ok() && *next_ == nullptr && Node::IsNearEnd();
  }

 protected:
  // Opening files takes a while, especially remote ones: those of the next round are opened while
  // the last ones of this round are processed. If memory is short, one round at a time.
  void DoAdvance() override {
    if (input_ == nullptr) return;
    input_->Advance();
    const MemoryBudget& memory = memory_->budget();
    if (!gave_some_ || !next_.ok() || *next_ != nullptr || !input_->IsNearEnd() ||
        memory.reserved() > memory.bytes() / 2) {
      return;
    }
    next_ = MakeInput();
    if (next_.ok() && *next_ != nullptr) (*next_)->BeginReading();
  }

  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    for (int rounds = 0; *rows > 0 && input_ != nullptr; ++rounds) {
      if (rounds == kMaxRoundsAtOnce) return ContinueLater();
      const int64_t before = *rows;
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(rows));
      gave_some_ |= *rows < before;
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kEnd) PENSTOCK_RETURN_IF_ERROR(NextRound());
    }
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    for (int rounds = 0; input_ != nullptr; ++rounds) {
      if (rounds == kMaxRoundsAtOnce) return ContinueLater();
      absl::StatusOr<Poll> poll = input_->Next(max_rows, out);
      gave_some_ |= !poll.ok() || *poll == Poll::kReady;
      if (!poll.ok() || *poll != Poll::kEnd) return poll;
      PENSTOCK_RETURN_IF_ERROR(NextRound());
    }
    return Poll::kEnd;
  }

 private:
  // Null behind the last round.
  absl::StatusOr<std::unique_ptr<Node>> MakeInput() {
    if (round_ == count_) return nullptr;
    return make_input_(0, static_cast<int64_t>(first_epoch_ + static_cast<uint64_t>(round_++)));
  }

  // After many rounds without an element: returns from the driving thread.
  Poll ContinueLater() {
    engine_.WakeLater();
    return Poll::kPending;
  }

  absl::Status NextRound() {
    input_.reset();
    empty_rounds_ = gave_some_ ? 0 : empty_rounds_ + 1;
    // An empty dataset repeated indefinitely is empty.
    return empty_rounds_ < (count_ < 0 ? 1 : kMaxEmptyRounds) ? Begin() : absl::OkStatus();
  }

  static constexpr int kMaxRoundsAtOnce = 1024;
  // In a row, for a Repeat with a count.
  static constexpr int64_t kMaxEmptyRounds = 100'000;

  const decltype(NodeContext::make_input) make_input_;
  const int64_t count_;
  const uint64_t first_epoch_;  // wraps around
  int64_t round_ = 0;
  int64_t empty_rounds_ = 0;  // in a row
  bool gave_some_ = false;
  absl::StatusOr<std::unique_ptr<Node>> next_ = nullptr;  // next round, which reads ahead already
};

struct RepeatFields {
  int64_t count = -1;
};
void Fields(StageFields& f, RepeatFields& p) { f.Value("count", &p.count); }

class RepeatStage : public Stage {
 public:
  explicit RepeatStage(int64_t count) : count_(count) {}

  absl::string_view name() const override { return "Repeat"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, RepeatFields{count_});
  }
  std::string Parameters() const override { return count_ < 0 ? "" : absl::StrCat(count_); }
  bool is_selection() const override { return true; }
  bool depends_on_length() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    if (inputs[0] == 0 || count_ == 0) return 0;
    if (inputs[0] < 0) return inputs[0];
    int64_t all = 0;
    const bool too_many = count_ < 0 || __builtin_mul_overflow(inputs[0], count_, &all);
    return too_many ? kInfiniteCardinality : all;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (count_ < -1)
      return absl::InvalidArgumentError("the count must be -1 (indefinitely) or not negative");
    return inputs[0];
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    auto node = std::make_unique<RepeatNode>(context, count_);
    PENSTOCK_RETURN_IF_ERROR(node->Begin());
    return node;
  }

 private:
  const int64_t count_;
};

}  // namespace

Dataset Dataset::Repeat(int64_t count) const { return Then(std::make_shared<RepeatStage>(count)); }

absl::StatusOr<Dataset> ReadRepeat(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<RepeatFields>(in));
  return inputs[0].Repeat(p.count);
}

}  // namespace penstock::data
