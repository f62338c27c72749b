// Guarantee of Node for every stage: nothing is prefetched or read in the middle of a skip.
#include "penstock/data/stage.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"

namespace penstock::data {
namespace stage_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadAll;

constexpr int64_t kRows = 40;

// Returns numbers. A skip advances one element at a time and is pending in between; prefetching
// must not start in the middle of it.
class HesitatingNode : public Node {
 public:
  HesitatingNode(const NodeContext& context, std::shared_ptr<std::atomic<int>> disturbed)
      : Node(context, nullptr), disturbed_(std::move(disturbed)) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t, RowRefs* out) override {
    if (next_ == kRows) return Poll::kEnd;
    auto block = std::make_shared<Block>();
    block->rows = 1;
    block->columns.emplace_back(Array::Of<int64_t>({1}, {next_++}));
    out->Append(block, 0, 1);
    return Poll::kReady;
  }
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    in_skip_ = false;
    if (*rows == 0) return Poll::kReady;
    if (next_ == kRows) return Poll::kEnd;
    ++next_;
    if (--*rows == 0) return Poll::kReady;
    in_skip_ = true;
    engine_.WakeLater();
    return Poll::kPending;
  }
  void DoAdvance() override {
    if (in_skip_) ++*disturbed_;
  }

 private:
  const std::shared_ptr<std::atomic<int>> disturbed_;
  int64_t next_ = 0;
  bool in_skip_ = false;
};

// Skips two elements before each one that it returns; if `hasty`, does not wait for the skip.
class SkippingNode : public Node {
 public:
  SkippingNode(const NodeContext& context, std::unique_ptr<Node> input, bool hasty)
      : Node(context, std::move(input)), hasty_(hasty) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t, RowRefs* out) override {
    PENSTOCK_ASSIGN_OR_RETURN(Poll poll, input_->Skip(&left_));
    if (poll != Poll::kReady && !hasty_) return poll;
    PENSTOCK_ASSIGN_OR_RETURN(poll, input_->Next(1, out));
    if (poll == Poll::kReady) left_ = 2;
    return poll;
  }

 private:
  const bool hasty_;
  int64_t left_ = 2;
};

class NodeStage : public Stage {
 public:
  using Make = std::function<absl::StatusOr<std::unique_ptr<Node>>(const NodeContext&)>;
  NodeStage(std::string name, Make make) : name_(std::move(name)), make_(std::move(make)) {}

  absl::string_view name() const override { return name_; }
  std::string Parameters() const override { return ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    return ElementSpec{{"x", DType::kI64, {}}};
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return make_(context);
  }

 private:
  const std::string name_;
  const Make make_;
};

Dataset Hesitating(const std::shared_ptr<std::atomic<int>>& disturbed) {
  return Dataset::From(
      std::make_shared<NodeStage>("Hesitating", [disturbed](const NodeContext& context) {
        return std::make_unique<HesitatingNode>(context, disturbed);
      }));
}

Dataset Skipping(const Dataset& input, bool hasty) {
  return input.Then(std::make_shared<NodeStage>(
      "Skipping", [hasty](const NodeContext& context) -> absl::StatusOr<std::unique_ptr<Node>> {
        PENSTOCK_ASSIGN_OR_RETURN(auto in, context.make_input(0, context.epoch));
        return std::make_unique<SkippingNode>(context, std::move(in), hasty);
      }));
}

TEST(Node, IsNotAdvancedDuringSkip) {
  const auto disturbed = std::make_shared<std::atomic<int>>(0);
  const Dataset source = Hesitating(disturbed);
  EXPECT_THAT(*ReadAll(source.Shard(15, 14)), ElementsAre("x=int64[] {14}", "x=int64[] {29}"));
  EXPECT_THAT(*ReadAll(source.Skip(38)), ElementsAre("x=int64[] {38}", "x=int64[] {39}"));
  EXPECT_THAT(*ReadAll(source.Window(1, {.shift = 30})),
              ElementsAre("x=int64[1] {0}", "x=int64[1] {30}"));
  EXPECT_THAT(*ReadAll(source.Batch(2).Skip(19)), ElementsAre("x=int64[2] {38, 39}"));
  EXPECT_THAT(*ReadAll(source.Batch(2), {.skip = 19}), ElementsAre("x=int64[2] {38, 39}"));
  // A stage without its own guard, downstream of stages that prefetch.
  EXPECT_EQ(ReadAll(Skipping(source.Batch(1).Unbatch(), false).Prefetch(3))->size(), 13);
  EXPECT_EQ(ReadAll(Skipping(source, false).Prefetch(3))->size(), 13);
  EXPECT_EQ(*disturbed, 0);
}

TEST(Node, RejectsNextDuringSkip) {
  const absl::Status status =
      ReadAll(Skipping(Hesitating(std::make_shared<std::atomic<int>>(0)), true)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in the middle of a skip"));
}

}  // namespace stage_test
}  // namespace penstock::data
