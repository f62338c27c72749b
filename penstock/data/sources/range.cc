#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

constexpr uint64_t kBlockRows = 4096;

// Unsigned, since it may not overflow on the way.
int64_t ValueAt(int64_t begin, int64_t step, uint64_t index) {
  return static_cast<int64_t>(static_cast<uint64_t>(begin) + index * static_cast<uint64_t>(step));
}

class RangeOrigins : public OriginSource {
 public:
  RangeOrigins(int64_t begin, int64_t step) : begin_(begin), step_(step) {}
  std::string At(int64_t index) const override {
    return absl::StrCat("range:", ValueAt(begin_, step_, static_cast<uint64_t>(index)));
  }

 private:
  const int64_t begin_;
  const int64_t step_;
};

// Numbers of elements are unsigned: from the least int64 to the largest there are more than an
// int64 can count.
class RangeNode : public Node {
 public:
  RangeNode(const NodeContext& context, int64_t begin, int64_t step, uint64_t count)
      : Node(context, nullptr),
        begin_(begin),
        step_(step),
        count_(count),
        origins_(std::make_shared<RangeOrigins>(begin, step)) {}

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    const uint64_t part = std::min<uint64_t>(*rows, count_ - next_);
    next_ += part;
    *rows -= static_cast<int64_t>(part);
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (next_ == count_) return Poll::kEnd;
    if (block_ == nullptr || next_ >= block_begin_ + block_->rows) MakeBlock();
    const int64_t first = static_cast<int64_t>(next_ - block_begin_);
    const int64_t rows = std::min(max_rows, block_->rows - first);
    out->Append(block_, first, rows);
    next_ += rows;
    return Poll::kReady;
  }

 private:
  void MakeBlock() {
    block_begin_ = next_;
    auto block = std::make_shared<Block>();
    block->rows = static_cast<int64_t>(std::min(kBlockRows, count_ - next_));
    base::Array values = base::Array::Uninitialized(base::DType::kI64, {block->rows});
    int64_t* p = values.mutable_data<int64_t>();
    for (int64_t i = 0; i < block->rows; ++i) p[i] = ValueAt(begin_, step_, next_ + i);
    block->origins.Append(origins_, static_cast<int64_t>(next_), block->rows);
    block->columns.emplace_back(std::move(values));
    block_ = std::move(block);
  }

  const int64_t begin_;
  const int64_t step_;
  const uint64_t count_;
  const std::shared_ptr<const OriginSource> origins_;
  uint64_t next_ = 0;
  BlockPtr block_;
  uint64_t block_begin_ = 0;
};

struct RangeFields {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
};
void Fields(StageFields& f, RangeFields& p) {
  f.Value("begin", &p.begin);
  f.Value("end", &p.end);
  f.Value("step", &p.step);
}

class RangeStage : public Stage {
 public:
  RangeStage(int64_t begin, int64_t end, int64_t step) : begin_(begin), end_(end), step_(step) {}

  absl::string_view name() const override { return "Range"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, RangeFields{begin_, end_, step_});
  }
  std::string Parameters() const override {
    return absl::StrCat(begin_, ", ", end_, step_ == 1 ? "" : absl::StrCat(", ", step_));
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    if (step_ == 0) return absl::InvalidArgumentError("the step must not be 0");
    return ElementSpec{{"value", base::DType::kI64, {}}};
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    const uint64_t count = Count();
    return count > INT64_MAX ? kInfiniteCardinality : static_cast<int64_t>(count);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<RangeNode>(context, begin_, step_, Count());
  }

 private:
  // Differences of int64 fit into uint64, and the least int64 has its size there too.
  uint64_t Count() const {
    if (step_ > 0 ? begin_ >= end_ : begin_ <= end_) return 0;
    const uint64_t begin = static_cast<uint64_t>(begin_);
    const uint64_t end = static_cast<uint64_t>(end_);
    const uint64_t step = static_cast<uint64_t>(step_);
    return step_ > 0 ? (end - begin - 1) / step + 1 : (begin - end - 1) / (0 - step) + 1;
  }

  const int64_t begin_;
  const int64_t end_;
  const int64_t step_;
};

}  // namespace

Dataset Dataset::Range(int64_t begin, int64_t end, int64_t step) {
  return From(std::make_shared<RangeStage>(begin, end, step));
}

absl::StatusOr<Dataset> ReadRange(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<RangeFields>(in));
  return Dataset::Range(p.begin, p.end, p.step);
}

}  // namespace penstock::data
