#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine/input_queue.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// The next dataset is drawn for each element, and waited for: a mix of whatever is ready first
// would have other weights.
class SampleNode : public Node {
 public:
  SampleNode(const NodeContext& context, std::vector<InputQueue> queues,
             const std::vector<double>& weights, uint64_t seed, bool stop_on_empty)
      : Node(context, nullptr), stop_on_empty_(stop_on_empty), random_(seed) {
    for (size_t i = 0; i < queues.size(); ++i) {
      inputs_.push_back({.queue = std::move(queues[i]), .weight = weights[i]});
    }
  }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    while (*rows > 0) {
      if (engine_.cancelled()) return Poll::kPending;
      const absl::StatusOr<Poll> poll = WithDrawn([](InputQueue& queue) {
        int64_t one = 1;
        return queue.Skip(&one);
      });
      if (!poll.ok()) return TakeError();
      if (*poll != Poll::kReady) return poll;
      --*rows;
      drawn_ = -1;
    }
    return Poll::kReady;
  }

  void DoAdvance() override {
    for (Input& input : inputs_) {
      if (input.weight > 0) input.queue.Advance();
    }
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    const int64_t before = out->size();
    while (out->size() - before < max_rows) {
      const absl::StatusOr<Poll> poll =
          WithDrawn([&](InputQueue& queue) { return queue.Fill(max_rows); });
      if (!poll.ok() || *poll != Poll::kReady) {
        if (out->size() > before) break;  // these first; the error comes again
        if (!poll.ok()) return TakeError();
        return poll;
      }
      inputs_[drawn_].queue.rows().MoveFront(1, out);
      drawn_ = -1;
    }
    return Poll::kReady;
  }

 private:
  struct Input {
    InputQueue queue;
    double weight;  // 0 after its end
  };

  // Draws a dataset, unless the last one drawn is still pending, and runs a step of that input. An
  // input that has ended is excluded from then on.
  template <typename Step>
  absl::StatusOr<Poll> WithDrawn(Step step) {
    for (;;) {
      if (drawn_ < 0) drawn_ = Draw();
      if (drawn_ < 0) return Poll::kEnd;
      absl::StatusOr<Poll> poll = step(inputs_[drawn_].queue);
      if (!poll.ok() || *poll != Poll::kEnd) return poll;
      inputs_[drawn_].weight = 0;
      if (stop_on_empty_) inputs_.clear();
      drawn_ = -1;
    }
  }

  int Draw() {
    double sum = 0;
    for (const Input& input : inputs_) sum += input.weight;
    double at = random_.Uniform() * sum;
    int last = -1;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].weight == 0) continue;
      last = static_cast<int>(i);
      at -= inputs_[i].weight;
      if (at < 0) break;
    }
    return last;
  }

  absl::Status TakeError() { return inputs_[std::exchange(drawn_, -1)].queue.TakeError(); }

  const bool stop_on_empty_;
  base::Random random_;
  std::vector<Input> inputs_;
  int drawn_ = -1;  // whose element comes next; -1: not yet drawn
};

struct SampleFields {
  std::vector<double> weights = {};
  SampleOptions options = {};
};
void Fields(StageFields& f, SampleFields& p) {
  f.Value("weights", &p.weights);
  f.Value("seed", &p.options.seed);
  f.Value("stop_on_empty", &p.options.stop_on_empty);
}

class SampleStage : public Stage {
 public:
  SampleStage(std::vector<double> weights, SampleOptions options)
      : weights_(std::move(weights)), options_(options) {}

  absl::string_view name() const override { return "Sample"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, SampleFields{weights_, options_});
  }
  Varies varies() const override { return Varies::kElements; }
  std::string Parameters() const override {
    std::string out = absl::StrCat("weights=[", absl::StrJoin(weights_, ", "), "]");
    if (options_.seed.has_value()) absl::StrAppend(&out, ", seed=", *options_.seed);
    if (options_.stop_on_empty) absl::StrAppend(&out, ", stop on empty");
    return out;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (inputs.empty()) return absl::InvalidArgumentError("there are no datasets");
    if (!weights_.empty() && weights_.size() != inputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are ", weights_.size(), " weights for ", inputs.size(), " datasets"));
    }
    double sum = weights_.empty() ? 1 : 0;
    for (double weight : weights_) {
      if (!(weight >= 0)) return absl::InvalidArgumentError("weights must not be negative");
      sum += weight;
    }
    if (!(sum > 0) || !std::isfinite(sum)) {
      return absl::InvalidArgumentError("the sum of the weights must be positive and finite");
    }
    return CommonSpec(inputs);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    std::vector<InputQueue> queues;
    for (int i = 0; i < context.num_inputs; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(i, context.epoch));
      queues.emplace_back(std::move(input));
    }
    const std::vector<double> equal(queues.size(), 1.0);
    return std::make_unique<SampleNode>(
        context, std::move(queues), weights_.empty() ? equal : weights_,
        base::MixSeeds(options_.seed.value_or(context.seed), context.epoch),
        options_.stop_on_empty);
  }

 private:
  const std::vector<double> weights_;  // empty: equal
  const SampleOptions options_;
};

}  // namespace

Dataset Dataset::Sample(std::vector<Dataset> datasets, std::vector<double> weights,
                        SampleOptions options) {
  return Make(std::make_shared<SampleStage>(std::move(weights), options), std::move(datasets));
}

absl::StatusOr<Dataset> ReadSample(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<SampleFields>(in));
  return Dataset::Sample(std::move(inputs), p.weights, p.options);
}

}  // namespace penstock::data
