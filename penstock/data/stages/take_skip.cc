#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

absl::Status CheckCount(int64_t count) {
  if (count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the count must not be negative");
}

class TakeNode : public Node {
 public:
  TakeNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t count)
      : Node(context, std::move(input)), left_(count) {
    if (left_ == 0) input_.reset();
  }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    if (input_ == nullptr) return *rows > 0 ? Poll::kEnd : Poll::kReady;
    const int64_t part = std::min(*rows, left_);
    int64_t part_left = part;
    PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(&part_left));
    *rows -= part - part_left;
    Pass(part - part_left);
    if (poll != Poll::kReady) return poll;
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (input_ == nullptr) return Poll::kEnd;
    const int64_t before = out->size();
    absl::StatusOr<Poll> poll = input_->Next(std::min(max_rows, left_), out);
    const bool is_failed_element = !poll.ok() && IsRecoverable(poll.status());
    Pass(is_failed_element ? 1 : out->size() - before);
    return poll;
  }

 private:
  void Pass(int64_t rows) {
    left_ -= rows;
    if (left_ == 0) input_.reset();  // no more reading ahead
  }

  int64_t left_;
};

struct TakeFields {
  int64_t count = 0;
};
void Fields(StageFields& f, TakeFields& p) { f.Value("count", &p.count); }

class TakeStage : public Stage {
 public:
  explicit TakeStage(int64_t count) : count_(count) {}

  absl::string_view name() const override { return "Take"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, TakeFields{count_});
  }
  std::string Parameters() const override { return absl::StrCat(count_); }
  bool is_selection() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    if (inputs[0] == kInfiniteCardinality) return count_;
    return inputs[0] < 0 ? inputs[0] : std::min(inputs[0], count_);
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckCount(count_));
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<TakeNode>(context, std::move(input), count_);
  }

 private:
  const int64_t count_;
};

class SkipNode : public Node {
 public:
  SkipNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t count)
      : Node(context, std::move(input)), left_(count) {}

  void BeginReading() override {}

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, SkipOwn());
    if (poll != Poll::kReady) return poll;
    return input_->Skip(rows);
  }

  // The input must not prefetch elements that will be skipped.
  void DoAdvance() override {
    if (left_ == 0) input_->Advance();
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, SkipOwn());
    if (poll != Poll::kReady) return poll;
    return input_->Next(max_rows, out);
  }

 private:
  absl::StatusOr<Poll> SkipOwn() {
    if (left_ == 0) return Poll::kReady;
    return input_->Skip(&left_);
  }

  int64_t left_;
};

struct SkipFields {
  int64_t count = 0;
};
void Fields(StageFields& f, SkipFields& p) { f.Value("count", &p.count); }

class SkipStage : public Stage {
 public:
  explicit SkipStage(int64_t count) : count_(count) {}

  absl::string_view name() const override { return "Skip"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, SkipFields{count_});
  }
  std::string Parameters() const override { return absl::StrCat(count_); }
  bool is_selection() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0] < 0 ? inputs[0] : std::max<int64_t>(inputs[0] - count_, 0);
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckCount(count_));
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<SkipNode>(context, std::move(input), count_);
  }

 private:
  const int64_t count_;
};

}  // namespace

Dataset Dataset::Take(int64_t count) const { return Then(std::make_shared<TakeStage>(count)); }

Dataset Dataset::Skip(int64_t count) const { return Then(std::make_shared<SkipStage>(count)); }

absl::StatusOr<Dataset> ReadTake(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<TakeFields>(in));
  return inputs[0].Take(p.count);
}

absl::StatusOr<Dataset> ReadSkip(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<SkipFields>(in));
  return inputs[0].Skip(p.count);
}

}  // namespace penstock::data
