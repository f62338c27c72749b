#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine/row_node.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// Selects the elements of each window, as references in order. Each call returns one window, so at
// least `size` rows must be requested.
class WindowNode : public Node {
 public:
  WindowNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t size, int64_t shift,
             int64_t stride, bool drop_remainder)
      : Node(context, std::move(input)),
        size_(size),
        shift_(shift),
        stride_(stride),
        span_((size - 1) * stride + 1),
        drop_remainder_(drop_remainder),
        reservation_(context.memory) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    PENSTOCK_CHECK(max_rows >= size_);
    if (to_pass_ > 0) Pass();
    while (!ended_ && to_pass_ > 0) {  // a gap between windows
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(&to_pass_));
      if (poll == Poll::kPending) return poll;
      ended_ = poll == Poll::kEnd;
    }
    while (!ended_ && slots() < span_) {
      const size_t held = ahead_.blocks().size();
      const absl::StatusOr<Poll> poll = input_->Next(span_ - slots(), &ahead_);
      if (!poll.ok()) {
        if (!IsRecoverable(poll.status())) return poll;
        failed_.emplace_back(slots(), poll.status());
        continue;
      }
      if (*poll == Poll::kPending) return poll;
      ended_ = *poll == Poll::kEnd;
      PENSTOCK_RETURN_IF_ERROR(Hold(held));
    }
    if (slots() == 0 || (drop_remainder_ && slots() < span_)) return Poll::kEnd;
    to_pass_ = shift_;
    // A window with a failed element fails.
    for (const auto& [slot, status] : failed_) {
      if (slot % stride_ == 0) return status;
    }
    Emit(out);
    return Poll::kReady;
  }

 private:
  // A window needs all of its rows at once. Charges the blocks that arrived last.
  absl::Status Hold(size_t first_block) {
    for (const BlockPtr& block : absl::MakeConstSpan(ahead_.blocks()).subspan(first_block)) {
      ChargeTo(*block, memory_);
    }
    const absl::Status status = reservation_.SetToCharged();
    if (status.ok()) return status;
    return base::WithContext(status, absl::StrCat("with ", ahead_.size(), " of the ", span_,
                                                  " elements that a Window spans"));
  }

  int64_t slots() const { return ahead_.size() + static_cast<int64_t>(failed_.size()); }

  // Releases the rows before the next window, and their blocks.
  void Pass() {
    const int64_t part = std::min(to_pass_, slots());
    int64_t rows = part;
    while (!failed_.empty() && failed_.front().first < part) {
      failed_.pop_front();
      --rows;
    }
    for (auto& [slot, status] : failed_) slot -= part;
    RowRefs left;
    left.Append(ahead_, rows, ahead_.size() - rows);
    ahead_ = std::move(left);
    to_pass_ -= part;
  }

  void Emit(RowRefs* out) const {
    if (stride_ == 1) return out->Append(ahead_, 0, std::min(size_, ahead_.size()));
    auto failed = failed_.begin();
    int64_t slot = 0;
    for (const RowRefs::Range& range : ahead_.ranges()) {
      for (uint32_t i = 0; i < range.count; ++i, ++slot) {
        for (; failed != failed_.end() && failed->first == slot; ++failed) ++slot;
        if (slot % stride_ == 0) out->Append(ahead_.blocks()[range.block], range.begin + i, 1);
      }
    }
  }

  const int64_t size_, shift_, stride_;
  const int64_t span_;  // from the first row of a window to its last
  const bool drop_remainder_;
  MemoryReservation reservation_;
  // From the first slot of the next window on, at most its span: elements, and the slots of failed
  // elements.
  RowRefs ahead_;
  std::deque<std::pair<int64_t, absl::Status>> failed_;
  int64_t to_pass_ = 0;  // rows before that one
  bool ended_ = false;
};

struct WindowFields {
  int64_t size = 0;
  WindowOptions options = {};
};
void Fields(StageFields& f, WindowFields& p) {
  f.Value("size", &p.size);
  f.Value("shift", &p.options.shift);
  f.Value("stride", &p.options.stride);
  f.Value("drop_remainder", &p.options.drop_remainder);
}

class WindowStage : public Stage {
 public:
  WindowStage(int64_t size, WindowOptions options)
      : size_(size), shift_(options.shift.value_or(size)), options_(options) {}

  absl::string_view name() const override { return "Window"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, WindowFields{size_, options_});
  }
  std::string Parameters() const override {
    return absl::StrCat(size_, ", shift=", shift_, ", stride=", options_.stride,
                        options_.drop_remainder ? ", drop remainder" : "");
  }
  absl::string_view adds_stage() const override { return "StackWindow"; }
  std::string memory_advice() const override { return "smaller windows"; }
  // If windows overlap, elements are computed before, or they would be computed for each window.
  bool is_selection() const override { return shift_ > (size_ - 1) * options_.stride; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (size_ < 1 || shift_ < 1 || options_.stride < 1) {
      return absl::InvalidArgumentError("size, shift and stride must be at least 1");
    }
    if (size_ > kMaxSpan / options_.stride) {
      return absl::InvalidArgumentError(
          absl::StrCat("a window can span at most ", kMaxSpan, " elements"));
    }
    return inputs[0];
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<WindowNode>(context, std::move(input), size_, shift_, options_.stride,
                                        options_.drop_remainder);
  }

 private:
  static constexpr int64_t kMaxSpan = int64_t{1} << 31;

  const int64_t size_;
  const int64_t shift_;
  const WindowOptions options_;
};

// Stacks the windows of WindowNode; directly downstream of it.
class StackWindowStage : public Stage {
 public:
  StackWindowStage(int64_t size, bool drop_remainder)
      : size_(size), drop_remainder_(drop_remainder) {}

  absl::string_view name() const override { return "StackWindow"; }
  std::string Parameters() const override { return ""; }
  bool is_added() const override { return true; }
  bool runs_fused_kernels() const override { return true; }
  std::string memory_advice() const override { return "smaller windows"; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    ElementSpec spec;
    for (const ColumnSpec& column : inputs[0].columns()) {
      if (column.shape.rank() + 2 > base::kMaxRank) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(), " has too many dimensions to add one"));
      }
      spec.Set({column.name, column.dtype, column.shape.Prepend(drop_remainder_ ? size_ : -1)});
    }
    return spec;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return MakeRowNode(context, std::move(input),
                       {.name = "Window", .batch = size_, .batch_is_call = true});
  }

 private:
  const int64_t size_;
  const bool drop_remainder_;
};

}  // namespace

Dataset Dataset::Window(int64_t size, WindowOptions options) const {
  return Then(std::make_shared<WindowStage>(size, options))
      .Then(std::make_shared<StackWindowStage>(size, options.drop_remainder));
}

absl::StatusOr<Dataset> ReadWindow(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<WindowFields>(in));
  return inputs[0].Window(p.size, p.options);
}

}  // namespace penstock::data
