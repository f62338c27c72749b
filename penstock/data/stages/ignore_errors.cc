#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

class IgnoreErrorsNode : public Node {
 public:
  IgnoreErrorsNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t max_errors)
      : Node(context, std::move(input)), max_errors_(max_errors) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    for (int errors = 0; errors < kMaxAtOnce; ++errors) {
      absl::StatusOr<Poll> poll = input_->Next(max_rows, out);
      if (poll.ok() || !IsRecoverable(poll.status())) return poll;
      if (max_errors_ >= 0 && ignored_ == max_errors_) return TooMany(poll.status());
      ++ignored_;
      PENSTOCK_RETURN_IF_ERROR(engine_.SkipElement(counters_, poll.status()));
    }
    engine_.WakeLater();
    return Poll::kPending;
  }

 private:
  static constexpr int kMaxAtOnce = 256;

  absl::Status TooMany(const absl::Status& status) const {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), "; including it, there are ", ignored_ + 1,
                     " elements with errors in this pass, and IgnoreErrors leaves out at most ",
                     max_errors_));
  }

  const int64_t max_errors_;
  int64_t ignored_ = 0;  // in this pass
};

struct IgnoreErrorsFields {
  IgnoreErrorsOptions options = {};
};
void Fields(StageFields& f, IgnoreErrorsFields& p) { f.Value("max_errors", &p.options.max_errors); }

class IgnoreErrorsStage : public Stage {
 public:
  explicit IgnoreErrorsStage(IgnoreErrorsOptions options) : options_(options) {}

  absl::string_view name() const override { return "IgnoreErrors"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, IgnoreErrorsFields{options_});
  }
  std::string Parameters() const override {
    return options_.max_errors < 0 ? "" : absl::StrCat("at most ", options_.max_errors);
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (options_.max_errors < -1) {
      return absl::InvalidArgumentError("max_errors must be -1 (no limit) or not negative");
    }
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<IgnoreErrorsNode>(context, std::move(input), options_.max_errors);
  }

 private:
  const IgnoreErrorsOptions options_;
};

}  // namespace

Dataset Dataset::IgnoreErrors(IgnoreErrorsOptions options) const {
  return Then(std::make_shared<IgnoreErrorsStage>(options));
}

absl::StatusOr<Dataset> ReadIgnoreErrors(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<IgnoreErrorsFields>(in));
  return inputs[0].IgnoreErrors(p.options);
}

}  // namespace penstock::data
