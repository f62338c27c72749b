#include "penstock/session/data.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/lowering.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace data_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `rows` rows: x = 0, 1, 2..., y = 10 x.
data::Dataset Numbers(int64_t rows) {
  Array x = Array::Zeros(DType::kF32, {rows});
  Array y = Array::Zeros(DType::kI64, {rows});
  for (int64_t i = 0; i < rows; ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(i);
    y.mutable_data<int64_t>()[i] = 10 * i;
  }
  return data::Dataset::FromArrays({{"x", x}, {"y", y}});
}

Tensor Sum(const Tensor& x) {
  return AddOp("Sum", {x}, "", {}, [](const ir::Values& in) { return ir::ReduceSum(in[0]); });
}

class IteratorTest : public ::testing::Test {
 protected:
  Session MakeSession() { return Session("", {.client = runtime::TestClient(1)}); }
  Graph graph_;
  const Graph::DefaultScope scope_ = graph_.AsDefault();
};

TEST_F(IteratorTest, DeliversBatchesByColumnUntilTheEnd) {
  const Iterator iterator = MakeOneShotIterator(Numbers(5).Batch(2));
  const Element next = iterator.GetNext();
  EXPECT_THAT(next.names(), ElementsAre("x", "y"));
  EXPECT_EQ(next["y"].dtype(), DType::kI64);
  EXPECT_EQ(next[0], next["x"]);
  EXPECT_EQ(next["x"].shape().rank(), 1);
  const Tensor sum = Sum(next["x"]);
  Session session = MakeSession();
  std::vector<float> sums;
  std::vector<int64_t> first;
  absl::Status end;
  while (true) {
    const auto values = session.Run({sum, next["y"]});
    end = values.status();
    if (!end.ok()) break;
    sums.push_back((*values)[0].item<float>());
    first.push_back((*values)[1].data<int64_t>()[0]);
  }
  EXPECT_TRUE(absl::IsOutOfRange(end)) << end;
  EXPECT_TRUE(absl::IsOutOfRange(session.Run(sum).status()));
  EXPECT_THAT(sums, ElementsAre(1, 5, 4));
  EXPECT_THAT(first, ElementsAre(0, 20, 40));
}

TEST_F(IteratorTest, EachSessionReadsByItself) {
  const Tensor sum = Sum(MakeOneShotIterator(Numbers(4).Batch(2)).GetNext()[0]);
  Session a = MakeSession(), b = MakeSession();
  EXPECT_EQ(a.Run(sum)->item<float>(), 1);
  EXPECT_EQ(a.Run(sum)->item<float>(), 5);
  EXPECT_EQ(b.Run(sum)->item<float>(), 1);
}

TEST_F(IteratorTest, TwoNodesTakeTwoElementsAndOneNodeOne) {
  const Iterator iterator = MakeOneShotIterator(Numbers(4).Batch(1));
  const Tensor a = Sum(iterator.GetNext()["x"]), b = Sum(iterator.GetNext()["x"]);
  Session session = MakeSession();
  const auto both = session.Run({a, b});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ((*both)[0].item<float>(), 0);
  EXPECT_EQ((*both)[1].item<float>(), 1);
  EXPECT_EQ(session.Run(b)->item<float>(), 2);
  EXPECT_EQ(session.Run(a)->item<float>(), 3);
}

TEST_F(IteratorTest, InitializerOpensAndStartsAgain) {
  const Iterator iterator = MakeInitializableIterator(Numbers(4).Batch(2));
  const Tensor sum = Sum(iterator.GetNext()["x"]);
  Session session = MakeSession();
  const absl::Status before = session.Run(sum).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(before)) << before;
  EXPECT_THAT(std::string(before.message()),
              AllOf(HasSubstr("'Iterator'"), HasSubstr("data_test.cc"), HasSubstr("initializer")));
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(session.Run(iterator.initializer()).ok());
    EXPECT_EQ(session.Run(sum)->item<float>(), 1);
  }
  EXPECT_EQ(session.Run(sum)->item<float>(), 5);
  EXPECT_TRUE(absl::IsOutOfRange(session.Run(sum).status()));
  ASSERT_TRUE(session.Run(iterator.initializer()).ok());
  EXPECT_EQ(session.Run(sum)->item<float>(), 1);
}

TEST_F(IteratorTest, StructureReadsTheDatasetOfTheLastInitializer) {
  const data::Dataset small = Numbers(2).Batch(2), large = Numbers(6).Batch(3);
  const auto common = data::CommonSpec(std::vector<data::ElementSpec>{small.spec(), large.spec()});
  ASSERT_TRUE(common.ok());
  const Iterator iterator = Iterator::FromStructure(*common);
  const Operation train = iterator.MakeInitializer(large), test = iterator.MakeInitializer(small);
  const Tensor sum = Sum(iterator.GetNext()["x"]);
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  Session session = MakeSession();
  ASSERT_TRUE(session.Run(train).ok());
  EXPECT_EQ(session.Run(sum)->item<float>(), 3);
  ASSERT_TRUE(session.Run(test).ok());
  EXPECT_EQ(session.Run(sum)->item<float>(), 1);
  EXPECT_TRUE(absl::IsOutOfRange(session.Run(sum).status()));
}

TEST_F(IteratorTest, ShufflesInAnotherOrderAfterEachInitialization) {
  const Iterator iterator =
      MakeInitializableIterator(Numbers(16).Shuffle(16).Batch(16), {.seed = 3});
  const Tensor x = iterator.GetNext()["x"];
  std::vector<std::vector<float>> orders;
  for (int s = 0; s < 2; ++s) {
    Session session = MakeSession();
    for (int pass = 0; pass < 2; ++pass) {
      ASSERT_TRUE(session.Run(iterator.initializer()).ok());
      const auto values = session.Run(x);
      ASSERT_TRUE(values.ok()) << values.status();
      orders.push_back({values->values<float>().begin(), values->values<float>().end()});
    }
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
  EXPECT_EQ(orders[1], orders[3]);
}

TEST_F(IteratorTest, RejectsStringColumnsAndUnknownColumns) {
  const auto names = data::Dataset::FromArrays({{"name", Array::Strings({1}, {"a"})}});
  EXPECT_FALSE(MakeOneShotIterator(names).valid());
  EXPECT_THAT(std::string(graph_.status().message()), AllOf(HasSubstr("'name'"), HasSubstr("Map")));
  Graph other;
  const Graph::DefaultScope scope = other.AsDefault();
  EXPECT_FALSE(MakeOneShotIterator(Numbers(1)).GetNext()["z"].valid());
  EXPECT_THAT(std::string(other.status().message()), AllOf(HasSubstr("'z'"), HasSubstr("x, y")));
}

TEST_F(IteratorTest, FetchedColumnsNeedNoDevice) {
  auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  const Tensor x = MakeOneShotIterator(Numbers(2).Batch(2)).GetNext()["x"];
  Session session("", {.client = client});
  const int puts = client->puts();
  EXPECT_THAT(session.Run(x)->values<float>(), ElementsAre(0, 1));
  EXPECT_EQ(client->puts(), puts);
}

TEST_F(IteratorTest, SendsOnlyTheColumnsInUseAndAheadOfTheNextRun) {
  auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  const Tensor sum = Sum(MakeOneShotIterator(Numbers(8).Batch(2)).GetNext()["x"]);
  Session session("", {.client = client});
  ASSERT_TRUE(session.Run(sum).ok());
  const int after_first = client->puts();
  ASSERT_TRUE(session.Run(sum).ok());
  EXPECT_EQ(client->puts() - after_first, 1);  // column x of the third batch
}

TEST_F(IteratorTest, ResumedIteratorContinuesWithTheNextEpoch) {
  const Iterator iterator =
      MakeInitializableIterator(Numbers(16).Shuffle(16).Batch(4), {.seed = 3});
  const Tensor x = iterator.GetNext()["x"];
  const auto first_batches = [&](Session& session, int passes) {
    std::vector<std::vector<float>> all;
    for (int i = 0; i < passes; ++i) {
      EXPECT_EQ(session.Run(iterator.initializer()), absl::OkStatus());
      const Array batch = session.Run(x).value();
      all.push_back({batch.values<float>().begin(), batch.values<float>().end()});
    }
    return all;
  };
  Session session = MakeSession(), undisturbed = MakeSession();
  first_batches(session, 2);
  const std::string position = session.IteratorPosition(iterator).value();
  Session resumed = MakeSession();
  ASSERT_EQ(resumed.SetIteratorPosition(iterator, position), absl::OkStatus());
  EXPECT_EQ(first_batches(resumed, 1)[0], first_batches(undisturbed, 3)[2]);
}

TEST_F(IteratorTest, ResumesAtASavedPositionWhateverWasReadAhead) {
  const Iterator iterator =
      MakeOneShotIterator(Numbers(24).Shuffle(24).Batch(2).Repeat(2), {.seed = 3});
  const Tensor sum = Sum(iterator.GetNext()["x"]);
  Session session = MakeSession();
  std::vector<std::string> positions;
  std::vector<float> sums;
  for (int i = 0; i < 24; ++i) {
    const auto position = session.IteratorPosition(iterator);
    ASSERT_TRUE(position.ok()) << position.status();
    positions.push_back(*position);
    const auto value = session.Run(sum);
    ASSERT_TRUE(value.ok()) << value.status();
    sums.push_back(value->item<float>());
  }
  for (const int start : {0, 1, 11, 17, 23}) {
    Session resumed = MakeSession();
    ASSERT_EQ(resumed.SetIteratorPosition(iterator, positions[start]), absl::OkStatus());
    for (int i = start; i < 24; ++i) EXPECT_EQ(resumed.Run(sum)->item<float>(), sums[i]) << start;
    EXPECT_TRUE(absl::IsOutOfRange(resumed.Run(sum).status()));
  }
  EXPECT_FALSE(session.SetIteratorPosition(iterator, "nonsense").ok());
  EXPECT_FALSE(session.SetIteratorPosition(Iterator(), positions[0]).ok());
}

// ---- RunLoop ----

// w <- w + sum(x); counts Runs in `n`.
struct Counter {
  explicit Counter(const Tensor& x)
      : w(Array::Scalar<float>(0), "w"),
        n(Array::Scalar<int64_t>(0), "n"),
        step(Group({AssignAdd(w, Sum(x)), AssignAdd(n, Constant(1.0, DType::kI64))})) {}
  Variable w, n;
  Operation step;
};

// A function's OUT_OF_RANGE would end a training as if the data had ended.
TEST_F(IteratorTest, AnErrorOutOfRangeOfAFunctionIsNotTheEnd) {
  const auto dataset = data::Dataset::FromArrays({{"x", Array::Of<float>({3}, {1, 2, 3})}})
                           .Map([](const base::NamedArrays& in, base::NamedArrays* out) {
                             *out = in;
                             return in.Find("x")->item<float>() == 2
                                        ? absl::OutOfRangeError("index 7 of 4")
                                        : absl::OkStatus();
                           });
  const Tensor x = MakeOneShotIterator(dataset).GetNext()["x"];
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_TRUE(session.Run(x).ok());
  const absl::Status error = session.Run(x).status();
  EXPECT_FALSE(absl::IsOutOfRange(error)) << error;
  EXPECT_THAT(std::string(error.message()), testing::HasSubstr("index 7 of 4"));
}

// A program that decides about the next element when it has seen the result of the one before.
TEST_F(IteratorTest, AGeneratorMayWaitForTheRunBefore) {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<float> given;
  const auto generate = [&](const data::GeneratorContext& context) -> data::ElementGenerator {
    return [&, cancelled = context.cancelled](base::NamedArrays* element) -> absl::StatusOr<bool> {
      std::unique_lock<std::mutex> lock(mutex);
      while (
          !changed.wait_for(lock, std::chrono::milliseconds(1), [&] { return !given.empty(); })) {
        if (cancelled()) return false;
      }
      *element = {{"x", Array::Scalar(given.front())}};
      given.pop_front();
      return true;
    };
  };
  const Iterator iterator = MakeOneShotIterator(
      data::Dataset::FromGenerator(generate, {{"x", DType::kF32, {}}}).Batch(1));
  const Tensor twice = Sum(iterator.GetNext()["x"]) * 2.0f;
  Session session = MakeSession();
  float next = 3;
  for (int i = 0; i < 4; ++i) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      given.push_back(next);
    }
    changed.notify_all();
    const auto result = session.Run(twice);
    ASSERT_TRUE(result.ok()) << result.status();
    next = result->item<float>();
  }
  EXPECT_EQ(next, 48);
}

TEST_F(IteratorTest, RunLoopEqualsSingleRunsAndEndsInTheMiddle) {
  const Iterator iterator = MakeOneShotIterator(Numbers(23).Batch(2));  // 11 of two rows, 1 of one
  const Element next = iterator.GetNext();
  const Counter counter(next["x"]);
  const Tensor sum = Sum(next["x"]);
  Session single = MakeSession(), loops = MakeSession();
  for (Session* session : {&single, &loops}) {
    ASSERT_TRUE(session->Run(GlobalVariablesInitializer()).ok());
  }
  const auto compare = [&](int runs) {
    absl::StatusOr<std::vector<Array>> last;
    for (int i = 0; i < runs; ++i) {
      last = single.Run({counter.step, sum, next["y"]});
      ASSERT_TRUE(last.ok()) << last.status();
    }
    int64_t done = 0;
    const auto looped = loops.RunLoop(5, {counter.step, sum, next["y"]}, {}, &done);
    ASSERT_TRUE(looped.ok()) << looped.status();
    EXPECT_EQ(done, runs);
    EXPECT_TRUE(base::BitwiseEqual((*last)[1], (*looped)[1]));
    EXPECT_TRUE(base::BitwiseEqual((*last)[2], (*looped)[2]));
    for (const char* name : {"w", "n"}) {
      EXPECT_TRUE(
          base::BitwiseEqual(*single.GetVariableValue(name), *loops.GetVariableValue(name)));
    }
  };
  compare(5);
  compare(5);
  compare(2);  // what is left: one of two rows, and one of one
  EXPECT_TRUE(absl::IsOutOfRange(loops.RunLoop(5, {counter.step}).status()));
  EXPECT_EQ(loops.GetVariableValue("n")->item<int64_t>(), 12);
  EXPECT_EQ(loops.GetVariableValue("w")->item<float>(), 253);
}

TEST_F(IteratorTest, RunLoopWithFeedsRepeatsThemWithOneProgram) {
  auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  const Tensor x = Placeholder(DType::kF32, {2});
  const Counter counter(x);
  Session session("", {.client = client});
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const Array ones = Array::Of<float>({2}, {1, 1});
  ASSERT_TRUE(session.RunLoop(3, {counter.step}, {{x, ones}}).ok());
  const int compiles = client->compiles();
  ASSERT_TRUE(session.RunLoop(7, {counter.step}, {{x, ones}}).ok());
  EXPECT_EQ(client->compiles(), compiles);
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 20);
  EXPECT_EQ(session.GetVariableValue("n")->item<int64_t>(), 10);
  for (const int64_t n : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_TRUE(absl::IsInvalidArgument(session.RunLoop(n, {counter.step}, {{x, ones}}).status()));
  }
}

TEST_F(IteratorTest, RunLoopDrawsTheRandomNumbersOfSingleRuns) {
  graph_.SetRandomSeed(5);
  const auto noise = [] {
    Node* const node = Graph::Default()->AddNode(
        {.type = "RandomUniform",
         .outputs = std::vector<Node::Output>{{DType::kF32, Shape{3}}},
         .stateful = true,
         .extra = std::make_shared<RandomSeed>(std::nullopt)},
        {},
        [](Lowering& l, const ir::Values&) {
          return ir::Values{ir::RandomUniform(l.RandomKey(l.node()), {DType::kF32, {3}})};
        },
        {});
    return Tensor(node, 0);
  }();
  const Counter counter(noise);
  Session single = MakeSession(), loops = MakeSession();
  for (Session* session : {&single, &loops}) {
    ASSERT_TRUE(session->Run(GlobalVariablesInitializer()).ok());
  }
  std::vector<Array> last;
  for (int i = 0; i < 8; ++i) last = single.Run({counter.step, noise}).value();
  ASSERT_TRUE(loops.RunLoop(3, {counter.step, noise}).ok());
  const auto looped = loops.RunLoop(5, {counter.step, noise});
  ASSERT_TRUE(looped.ok()) << looped.status();
  EXPECT_TRUE(base::BitwiseEqual(last[1], (*looped)[1]));
  EXPECT_TRUE(base::BitwiseEqual(*single.GetVariableValue("w"), *loops.GetVariableValue("w")));
}

}  // namespace data_test
}  // namespace penstock::session
