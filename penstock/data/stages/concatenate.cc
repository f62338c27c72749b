#include <utility>

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

class ConcatenateNode : public Node {
 public:
  explicit ConcatenateNode(const NodeContext& context)
      : Node(context, nullptr),
        make_input_(context.make_input),
        num_inputs_(context.num_inputs),
        epoch_(context.epoch) {}

  // The next input; it reads ahead from now on.
  absl::Status Begin() {
    input_.reset();
    if (next_input_ == num_inputs_) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(input_, make_input_(next_input_, epoch_));
    ++next_input_;
    return absl::OkStatus();
  }

  bool IsNearEnd() const override { return next_input_ == num_inputs_ && Node::IsNearEnd(); }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    while (*rows > 0 && input_ != nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(rows));
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kEnd) PENSTOCK_RETURN_IF_ERROR(Begin());
    }
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    while (input_ != nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Next(max_rows, out));
      if (poll != Poll::kEnd) return poll;
      PENSTOCK_RETURN_IF_ERROR(Begin());
    }
    return Poll::kEnd;
  }

 private:
  const decltype(NodeContext::make_input) make_input_;
  const int num_inputs_;
  const int64_t epoch_;
  int next_input_ = 0;
};

class ConcatenateStage : public Stage {
 public:
  absl::string_view name() const override { return "Concatenate"; }
  absl::Status WriteFields(StageFields&) const override { return absl::OkStatus(); }
  std::string Parameters() const override { return ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return CommonSpec(inputs);
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    int64_t all = 0;
    for (int64_t input : inputs) {
      if (input == kInfiniteCardinality) return input;
      if (input < 0 || all < 0) {
        all = kUnknownCardinality;
      } else if (__builtin_add_overflow(all, input, &all)) {
        return kInfiniteCardinality;  // too large to count
      }
    }
    return all;
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    auto node = std::make_unique<ConcatenateNode>(context);
    PENSTOCK_RETURN_IF_ERROR(node->Begin());
    return node;
  }
};

}  // namespace

Dataset Dataset::Concatenate(const Dataset& other) const {
  return Make(std::make_shared<ConcatenateStage>(), {*this, other});
}

absl::StatusOr<Dataset> ReadConcatenate(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_RETURN_IF_ERROR(in.Finish());
  return inputs[0].Concatenate(inputs[1]);
}

}  // namespace penstock::data
