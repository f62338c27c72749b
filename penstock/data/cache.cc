#include <algorithm>
#include <mutex>
#include <utility>

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// What all iterators of a dataset share. Elements are kept as references to the blocks in which
// they came.
class CachedRows {
 public:
  using Portions = std::vector<Rows>;

  std::shared_ptr<const Portions> Find() const {
    std::lock_guard lock(mutex_);
    return portions_;
  }
  // Of several iterators that read the input at once, the first to end is kept.
  void Publish(Portions portions) {
    std::lock_guard lock(mutex_);
    if (portions_ == nullptr) portions_ = std::make_shared<const Portions>(std::move(portions));
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Portions> portions_;
};

class FillCacheNode : public Node {
 public:
  FillCacheNode(const NodeContext& context, std::unique_ptr<Node> input,
                std::shared_ptr<CachedRows> cache)
      : Node(context, std::move(input)), cache_(std::move(cache)) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) override {
    Rows rows;
    PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Next(max_rows, &rows));
    if (poll == Poll::kEnd) cache_->Publish(std::move(portions_));
    if (poll != Poll::kReady) return poll;
    out->Append(rows, 0, rows.size());
    portions_.push_back(std::move(rows));
    return Poll::kReady;
  }

 private:
  const std::shared_ptr<CachedRows> cache_;
  CachedRows::Portions portions_;
};

class ReadCacheNode : public Node {
 public:
  ReadCacheNode(const NodeContext& context, std::shared_ptr<const CachedRows::Portions> portions)
      : Node(context, nullptr), portions_(std::move(portions)) {}

  absl::StatusOr<Poll> Skip(int64_t* rows) override {
    while (*rows > 0 && portion_ < portions_->size()) *rows -= Pass(*rows);
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) override {
    if (portion_ == portions_->size()) return Poll::kEnd;
    const Rows& portion = (*portions_)[portion_];
    const int64_t begin = row_;
    out->Append(portion, begin, Pass(max_rows));
    return Poll::kReady;
  }

 private:
  // Passes at most that many rows of the portion; how many.
  int64_t Pass(int64_t rows) {
    const int64_t part = std::min(rows, (*portions_)[portion_].size() - row_);
    row_ += part;
    if (row_ == (*portions_)[portion_].size()) {
      ++portion_;
      row_ = 0;
    }
    return part;
  }

  const std::shared_ptr<const CachedRows::Portions> portions_;
  size_t portion_ = 0;
  int64_t row_ = 0;
};

class CacheStage : public Stage {
 public:
  absl::string_view name() const override { return "Cache"; }
  std::string Parameters() const override { return ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return inputs[0];
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const LookUpContext&) const override {
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    if (auto portions = cache_->Find()) {
      return std::make_unique<ReadCacheNode>(context, std::move(portions));
    }
    // What is kept is the first epoch, also when a later one is the first to be read: a run that is
    // resumed there goes on with the same order.
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, /*epoch=*/0));
    return std::make_unique<FillCacheNode>(context, std::move(input), cache_);
  }

 private:
  const std::shared_ptr<CachedRows> cache_ = std::make_shared<CachedRows>();
};

}  // namespace

Dataset Dataset::Cache() const { return Then(std::make_shared<CacheStage>()); }

}  // namespace penstock::data
