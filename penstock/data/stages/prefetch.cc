#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// When automatic.
constexpr int64_t kCount = 2;
constexpr int64_t kMaxCount = 64;

class PrefetchNode : public Node {
 public:
  PrefetchNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t count)
      : Node(context, std::move(input)),
        count_(count == Dataset::kAuto
                   ? context.MakeKnob({.what = "elements ready",
                                       .evidence = KnobOptions::kQueueFull,
                                       .initial = kCount,
                                       .max = kMaxCount})
                   : std::make_shared<const Knob>(KnobOptions{.what = "", .initial = count})),
        meter_(engine_, counters_) {
    counters_.prefetch_unit = "elements";
  }

 protected:
  void DoAdvance() override {
    const int64_t count = count_->value();
    counters_.prefetch_limit = count;
    bool pending = false;
    while (size_ < count && !pending && !input_ended_ && input_status_.ok() && CanReadAhead()) {
      RowRefs rows;
      const absl::StatusOr<Poll> poll = input_->Next(count - size_, &rows);
      if (!poll.ok()) {
        input_status_ = poll.status();
      } else if (*poll == Poll::kReady) {
        size_ += rows.size();
        for (const BlockPtr& block : rows.blocks()) ChargeTo(*block, memory_);
        ready_.push_back(std::move(rows));
      } else {
        pending = *poll == Poll::kPending;
        input_ended_ = *poll == Poll::kEnd;
      }
    }
    input_->Advance();
    const bool full = size_ > 0 && !pending && !input_ended_;
    if (full) counters_.full.fetch_add(1, std::memory_order_relaxed);
    meter_.Set(full ? WaitMeter::kDownstream : (pending ? WaitMeter::kInput : WaitMeter::kNothing));
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    DoAdvance();
    if (ready_.empty()) {
      if (!input_status_.ok()) return std::exchange(input_status_, absl::OkStatus());
      return input_ended_ ? Poll::kEnd : Poll::kPending;
    }
    RowRefs& front = ready_.front();
    const int64_t rows = std::min(max_rows, front.size());
    front.MoveFront(rows, out);
    size_ -= rows;
    if (front.empty()) ready_.pop_front();
    return Poll::kReady;
  }

 private:
  // For an element of which there is one already.
  bool CanReadAhead() const {
    return size_ == 0 || memory_->CanReadAhead(memory_->charged() / size_);
  }

  const std::shared_ptr<const Knob> count_;
  WaitMeter meter_;
  std::deque<RowRefs> ready_;
  int64_t size_ = 0;  // rows in ready_
  bool input_ended_ = false;
  absl::Status input_status_;
};

struct PrefetchFields {
  int64_t count = Dataset::kAuto;
};
void Fields(StageFields& f, PrefetchFields& p) { f.Value("count", &p.count); }

class PrefetchStage : public Stage {
 public:
  explicit PrefetchStage(int64_t count) : count_(count) {}

  absl::string_view name() const override { return "Prefetch"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, PrefetchFields{count_});
  }
  std::string Parameters() const override {
    return count_ == Dataset::kAuto ? "auto" : absl::StrCat(count_);
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (count_ < 1 && count_ != Dataset::kAuto) {
      return absl::InvalidArgumentError("the count must be at least 1, or kAuto");
    }
    return inputs[0];
  }
  bool may_follow_host_shard() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<PrefetchNode>(context, std::move(input), count_);
  }

 private:
  const int64_t count_;
};

}  // namespace

Dataset Dataset::Prefetch(int64_t count) const {
  return Then(std::make_shared<PrefetchStage>(count));
}

absl::StatusOr<Dataset> ReadPrefetch(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<PrefetchFields>(in));
  return inputs[0].Prefetch(p.count);
}

}  // namespace penstock::data
