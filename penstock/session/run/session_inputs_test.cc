#include "penstock/session/run/session_inputs.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::session {
namespace session_inputs_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts: element i is {float[rows_i] of i, int32 i}.
class Counting : public HostInput {
 public:
  explicit Counting(std::vector<int64_t> rows) : rows_(std::move(rows)) {}
  absl::StatusOr<std::vector<Array>> Next() override {
    if (next_ == rows_.size()) return absl::OutOfRangeError("end");
    const int64_t rows = rows_[next_];
    Array column = Array::Zeros(DType::kF32, {rows});
    for (int64_t r = 0; r < rows; ++r) {
      column.mutable_data<float>()[r] = static_cast<float>(10 * next_ + r);
    }
    return std::vector<Array>{column, Array::Scalar<int32_t>(static_cast<int32_t>(next_++))};
  }
  bool reads_ahead() const override { return true; }
  std::string Position() const override { return absl::StrCat(next_); }

 private:
  std::vector<int64_t> rows_;
  size_t next_ = 0;
};

struct Source : HostInputSource {
  explicit Source(std::vector<int64_t> of) : rows(std::move(of)) {}
  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t) override {
    ++opened;
    return std::unique_ptr<HostInput>(new Counting(rows));
  }
  std::vector<int64_t> rows;
  int opened = 0;
};

std::vector<float> Floats(const runtime::Buffer& buffer) {
  const auto array = buffer.Get();
  if (!array.ok()) return {};
  return {array->values<float>().begin(), array->values<float>().end()};
}

class SessionInputsTest : public ::testing::Test {
 protected:
  runtime::CountingClient client_{runtime::TestClient(4)};
  SessionInputs inputs_;
  absl::Span<const runtime::Device> Devices(int count) const {
    return client_.devices().subspan(0, count);
  }
};

TEST_F(SessionInputsTest, TransfersAheadOfTheRunThatNeedsIt) {
  Source source({2, 2, 2});
  const InputPlan slots = {{{&source, 1}}, {{.source = &source}}};
  for (int i = 0; i < 3; ++i) {
    const int before = client_.puts();
    const auto staged = inputs_.Stage(slots, 1, 1, client_, Devices(1));
    ASSERT_TRUE(staged.ok()) << staged.status();
    EXPECT_EQ(client_.puts() - before, i == 0 ? 1 : 0);
    const StagedInputs taken = inputs_.Take(1);
    EXPECT_EQ(inputs_.Position(source).value(), absl::StrCat(i + 1));
    inputs_.StageAhead(slots, 1, client_, Devices(1));
    // What is read ahead is not taken yet.
    EXPECT_EQ(inputs_.Position(source).value(), absl::StrCat(i + 1));
    EXPECT_THAT(Floats(taken.buffers[0][0]), ElementsAre(10 * i, 10 * i + 1));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsOutOfRange(inputs_.Stage(slots, 1, 1, client_, Devices(1)).status()));
  }
  EXPECT_EQ(source.opened, 1);
}

TEST_F(SessionInputsTest, SlicesRowsOverDevices) {
  Source source({4});
  const InputPlan slots = {{{&source, 1}},
                           {{.source = &source, .sliced = true}, {.source = &source, .output = 1}}};
  ASSERT_TRUE(inputs_.Stage(slots, 1, 1, client_, Devices(2)).ok());
  const StagedInputs taken = inputs_.Take(1);
  EXPECT_EQ(taken.types[0].shape, base::Shape({4}));
  EXPECT_THAT(Floats(taken.buffers[0][0]), ElementsAre(0, 1));
  EXPECT_THAT(Floats(taken.buffers[1][0]), ElementsAre(2, 3));
  EXPECT_EQ(taken.buffers[1][1].Get()->item<int32_t>(), 0);
}

TEST_F(SessionInputsTest, RejectsRowsThatShardsDoNotDivide) {
  Source source({5});
  const InputPlan slots = {{{&source, 1}}, {{.source = &source, .sliced = true, .name = "x"}}};
  EXPECT_THAT(std::string(inputs_.Stage(slots, 1, 1, client_, Devices(2)).status().message()),
              AllOf(HasSubstr("'x'"), HasSubstr("float32[5]"), HasSubstr("2 shards")));
}

TEST_F(SessionInputsTest, StacksElementsOfOneTypeAndStopsBeforeOthersAndAtTheEnd) {
  Source source({2, 2, 2, 1, 1});
  const InputPlan slots = {{{&source, 1}}, {{.source = &source}}};
  std::vector<int64_t> steps;
  std::vector<std::vector<float>> first_rows;
  while (true) {
    const auto staged = inputs_.Stage(slots, 2, 2, client_, Devices(1));
    if (!staged.ok()) {
      EXPECT_TRUE(absl::IsOutOfRange(staged.status()));
      break;
    }
    steps.push_back((*staged)->steps);
    const StagedInputs taken = inputs_.Take(steps.back());
    inputs_.StageAhead(slots, 2, client_, Devices(1));
    EXPECT_EQ(taken.buffers[0][0].type().shape.dim(0), 2);
    first_rows.push_back({Floats(taken.buffers[0][0])[0]});
  }
  EXPECT_THAT(steps, ElementsAre(2, 1, 2));
  EXPECT_THAT(first_rows, ElementsAre(ElementsAre(0), ElementsAre(20), ElementsAre(30)));
}

TEST_F(SessionInputsTest, ElementsOfStepsThatWereNotTakenStay) {
  Source source({1, 1, 1});
  const InputPlan slots = {{{&source, 1}}, {{.source = &source}}};
  ASSERT_EQ((*inputs_.Stage(slots, 3, 3, client_, Devices(1)))->steps, 3);
  inputs_.Take(2);
  const auto staged = inputs_.Stage(slots, 3, 3, client_, Devices(1));
  ASSERT_TRUE(staged.ok()) << staged.status();
  EXPECT_EQ((*staged)->steps, 1);
  EXPECT_EQ(Floats((*staged)->buffers[0][0])[0], 20);
}

TEST_F(SessionInputsTest, GivesEachNodeOfASourceItsOwnElement) {
  Source source({1, 1, 1, 1});
  const InputPlan slots = {{{&source, 2}},
                           {{.source = &source, .element = 0}, {.source = &source, .element = 1}}};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(inputs_.Stage(slots, 1, 1, client_, Devices(1)).ok());
    const StagedInputs taken = inputs_.Take(1);
    EXPECT_THAT(Floats(taken.buffers[0][0]), ElementsAre(20 * i));
    EXPECT_THAT(Floats(taken.buffers[0][1]), ElementsAre(20 * i + 10));
    inputs_.StageAhead(slots, 1, client_, Devices(1));
  }
}

TEST_F(SessionInputsTest, ProgramsThatShareASourceTakeItsElementsInOrder) {
  Source source({1, 1, 1, 1});
  const InputPlan floats = {{{&source, 1}}, {{.source = &source}}};
  const InputPlan numbers = {{{&source, 1}}, {{.source = &source, .output = 1}}};
  ASSERT_TRUE(inputs_.Stage(floats, 1, 1, client_, Devices(1)).ok());
  inputs_.Take(1);
  inputs_.StageAhead(floats, 1, client_, Devices(1));
  ASSERT_TRUE(inputs_.Stage(numbers, 1, 1, client_, Devices(1)).ok());
  EXPECT_EQ(inputs_.Take(1).buffers[0][0].Get()->item<int32_t>(), 1);
  ASSERT_TRUE(inputs_.Stage(floats, 1, 1, client_, Devices(1)).ok());
  EXPECT_THAT(Floats(inputs_.Take(1).buffers[0][0]), ElementsAre(20));
}

TEST_F(SessionInputsTest, SetDropsWhatWasReadAhead) {
  Source source({1, 1, 1});
  const InputPlan slots = {{{&source, 1}}, {{.source = &source}}};
  ASSERT_TRUE(inputs_.Stage(slots, 1, 1, client_, Devices(1)).ok());
  inputs_.Take(1);
  inputs_.StageAhead(slots, 1, client_, Devices(1));
  inputs_.Set(source, std::make_unique<Counting>(std::vector<int64_t>{1}));
  EXPECT_NE(inputs_.Find(source), nullptr);
  ASSERT_TRUE(inputs_.Stage(slots, 1, 1, client_, Devices(1)).ok());
  EXPECT_THAT(Floats(inputs_.Take(1).buffers[0][0]), ElementsAre(0));
  EXPECT_TRUE(absl::IsOutOfRange(inputs_.Stage(slots, 1, 1, client_, Devices(1)).status()));
}

}  // namespace session_inputs_test
}  // namespace penstock::session
