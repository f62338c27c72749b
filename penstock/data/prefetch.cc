#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

class PrefetchNode : public Node {
 public:
  PrefetchNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t count)
      : Node(context, std::move(input)), count_(count), meter_(engine_, counters_) {}

  void Advance() override {
    bool pending = false;
    while (size_ < count_ && !pending && !input_ended_ && input_status_.ok()) {
      Rows rows;
      const absl::StatusOr<Poll> poll = input_->Next(count_ - size_, &rows);
      if (!poll.ok()) {
        input_status_ = poll.status();
      } else if (*poll == Poll::kReady) {
        size_ += rows.size();
        ready_.push_back(std::move(rows));
      } else {
        pending = *poll == Poll::kPending;
        input_ended_ = *poll == Poll::kEnd;
      }
    }
    input_->Advance();
    meter_.Set(size_ >= count_ ? WaitMeter::kRoom
                               : (pending ? WaitMeter::kInput : WaitMeter::kNothing));
  }

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) override {
    Advance();
    if (ready_.empty()) {
      if (!input_status_.ok()) return std::exchange(input_status_, absl::OkStatus());
      return input_ended_ ? Poll::kEnd : Poll::kPending;
    }
    Rows& front = ready_.front();
    const int64_t rows = std::min(max_rows, front.size());
    front.MoveFront(rows, out);
    size_ -= rows;
    if (front.empty()) ready_.pop_front();
    return Poll::kReady;
  }

 private:
  const int64_t count_;
  WaitMeter meter_;
  std::deque<Rows> ready_;
  int64_t size_ = 0;  // rows in ready_
  bool input_ended_ = false;
  absl::Status input_status_;
};

class PrefetchStage : public Stage {
 public:
  explicit PrefetchStage(int64_t count) : count_(count) {}

  absl::string_view name() const override { return "Prefetch"; }
  std::string Parameters() const override { return absl::StrCat(count_); }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (count_ < 1) return absl::InvalidArgumentError("the count must be at least 1");
    return inputs[0];
  }
  bool may_follow_shared() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const LookUpContext&) const override {
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

}  // namespace penstock::data
