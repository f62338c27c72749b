#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

class ShardNode : public Node {
 public:
  ShardNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t count, int64_t index)
      : Node(context, std::move(input)), count_(count), others_(index) {}

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    if (*rows > 0 && !error_.ok()) {
      // The error was met after the last rows that were returned.
      if (!IsRecoverable(error_)) return error_;
      error_ = absl::OkStatus();
      --*rows;
    }
    while (*rows > 0) {
      // As many as can be counted in elements of the input.
      const int64_t part =
          std::min(*rows, (std::numeric_limits<int64_t>::max() - others_ - 1) / count_ + 1);
      const int64_t requested = others_ + (part - 1) * count_ + 1;
      int64_t left = requested;
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(&left));
      *rows -= Pass(requested - left);
      if (poll != Poll::kReady) return poll;
    }
    return Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    const int64_t before = out->size();
    while (out->size() - before < max_rows) {
      absl::StatusOr<Poll> poll = NextOne(out);
      if (poll.ok() && *poll == Poll::kReady) continue;
      if (out->size() == before) return poll;
      if (!poll.ok()) error_ = poll.status();
      break;
    }
    return Poll::kReady;
  }

 private:
  absl::StatusOr<Poll> NextOne(RowRefs* out) {
    if (!error_.ok()) return std::exchange(error_, absl::OkStatus());
    if (others_ > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Skip(&others_));
      if (poll != Poll::kReady) return poll;
    }
    absl::StatusOr<Poll> poll = input_->Next(1, out);
    const bool is_element = poll.ok() ? *poll == Poll::kReady : IsRecoverable(poll.status());
    if (is_element) others_ = count_ - 1;
    return poll;
  }

  // Accounts for skipped input elements; returns how many of them belong to this shard.
  int64_t Pass(int64_t elements) {
    if (elements <= others_) {
      others_ -= elements;
      return 0;
    }
    const int64_t after_first = elements - others_ - 1;
    others_ = count_ - 1 - after_first % count_;
    return after_first / count_ + 1;
  }

  const int64_t count_;
  int64_t others_;  // elements of other shards before the next of this one
  absl::Status error_;
};

struct ShardFields {
  int64_t count = 0;
  int64_t index = 0;
};
void Fields(StageFields& f, ShardFields& p) {
  f.Value("count", &p.count);
  f.Value("index", &p.index);
}

class ShardStage : public Stage {
 public:
  ShardStage(int64_t count, int64_t index) : count_(count), index_(index) {}

  absl::string_view name() const override { return "Shard"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, ShardFields{count_, index_});
  }
  std::string Parameters() const override { return absl::StrCat(count_, ", ", index_); }
  bool is_selection() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    if (inputs[0] < 0) return inputs[0];
    return inputs[0] / count_ + (inputs[0] % count_ > index_ ? 1 : 0);
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (count_ < 1 || index_ < 0 || index_ >= count_) {
      return absl::InvalidArgumentError("the index must be from 0 to count - 1");
    }
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<ShardNode>(context, std::move(input), count_, index_);
  }

 private:
  const int64_t count_;
  const int64_t index_;
};

}  // namespace

Dataset Dataset::Shard(int64_t count, int64_t index) const {
  return Then(std::make_shared<ShardStage>(count, index));
}

absl::StatusOr<Dataset> ReadShard(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<ShardFields>(in));
  return inputs[0].Shard(p.count, p.index);
}

}  // namespace penstock::data
