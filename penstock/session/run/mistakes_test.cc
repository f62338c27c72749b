// Programs with mistakes, and absurd values: an error that says what to do, never an exception, a
// crash or a hang.
#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/available_memory.h"
#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/data.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/saver.h"

namespace penstock::session {
namespace mistakes_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Remembers the programs that it compiled.
class RememberingClient final : public runtime::CountingClient {
 public:
  using CountingClient::CountingClient;
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    auto made = CountingClient::Compile(program, options);
    if (made.ok()) programs.push_back(*made);
    for (const ir::TensorType& type : program.parameters) {
      for (const int64_t extent : type.shape) largest_extent = std::max(largest_extent, extent);
    }
    return made;
  }
  std::vector<std::weak_ptr<runtime::Executable>> programs;
  int64_t largest_extent = 0;  // of their parameters
};

class MistakesTest : public testing::Test {
 protected:
  std::string ErrorOf(const Fetches& fetches, const FeedDict& feeds = {}) {
    return std::string(session_.Run(fetches, feeds).status().message());
  }
  std::string GraphError() { return std::string(graph_.status().message()); }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

TEST_F(MistakesTest, AScopeThatIsNoNameIsAnError) {
  {
    const NameScope scope("two words");
    NoOp("x");
  }
  EXPECT_THAT(GraphError(), AllOf(HasSubstr("two words"), HasSubstr("letters, digits")));
}

TEST_F(MistakesTest, AScopeInUnicodeIsAnError) {
  const VariableScope scope("größe");
  EXPECT_THAT(GraphError(), HasSubstr("größe"));
}

TEST_F(MistakesTest, NamesWithinAScopeMayBeginWithAnUnderscore) {
  const NameScope scope("outer");
  {
    const NameScope inner("_inner");
    EXPECT_EQ(NoOp("-x").name(), "outer/_inner/-x");
  }
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

TEST_F(MistakesTest, AVariableOfANegativeShapeIsAnError) {
  GetVariable("w", {-1, 3});
  EXPECT_THAT(GraphError(), AllOf(HasSubstr("'w'"), HasSubstr("[?,3]")));
}

TEST_F(MistakesTest, AVariableThatDoesNotFitIntoMemoryIsAnError) {
  const Variable small(Array::Scalar(1.0f), "small");
  const Variable w = GetVariable("w", {int64_t{1} << 40, int64_t{1} << 20});
  EXPECT_FALSE(session_.Run(w.initializer()).ok());
  const Variable zeros =
      GetVariable("zeros", {int64_t{1} << 40, int64_t{1} << 21}, DType::kF32, ZerosInitializer());
  EXPECT_FALSE(session_.Run(zeros.initializer()).ok());
  EXPECT_EQ(session_.Run(small.initializer()), absl::OkStatus());
}

TEST_F(MistakesTest, AnInvalidArrayIsAnError) {
  const Tensor x = Placeholder(DType::kF32, {}, "x");
  EXPECT_THAT(ErrorOf({x}, {{x, Array()}}), HasSubstr("an invalid array"));
  EXPECT_FALSE(session_.SetVariableValue("w", Array()).ok());
  const Variable w{Array(), "w"};
  EXPECT_THAT(GraphError(), HasSubstr("'w'"));
}

TEST_F(MistakesTest, AVariableOfStringsIsAnError) {
  const Variable w{Array::Strings({1}, {"a"}), "w"};
  EXPECT_THAT(GraphError(), AllOf(HasSubstr("'w'"), HasSubstr("string")));
}

TEST_F(MistakesTest, FeedsOfZeroExtentsAndHugeOnesAreComputedOrErrors) {
  const Tensor x = Placeholder(DType::kF32, {-1, -1}, "x");
  const Tensor product = MatMul(x, x, {.transpose_b = true});
  EXPECT_EQ(session_.Run(product, {{x, Array::Zeros(DType::kF32, {3, 0})}})->item<float>({2, 2}),
            0);
  EXPECT_FALSE(session_.Run(product, {{x, Array::Zeros(DType::kF32, {int64_t{1} << 40, 0})}}).ok());
  EXPECT_TRUE(session_.Run(product, {{x, Array::Zeros(DType::kF32, {2, 2})}}).ok());
}

TEST_F(MistakesTest, APlaceholderOfAnExtentBelowMinusOneIsAnError) {
  Placeholder(DType::kF32, {-7, 2}, "x");
  EXPECT_THAT(GraphError(), AllOf(HasSubstr("'x'"), HasSubstr("-7")));
}

TEST_F(MistakesTest, ConstantsOfNumbersThatTheTypeLacksAreNoCrash) {
  for (const double value : {double{NAN}, double{INFINITY}, -1e300, 1e300, 300.0}) {
    for (const DType dtype : {DType::kI32, DType::kU8, DType::kBool, DType::kI64}) {
      EXPECT_TRUE(session_.Run(Identity(Constant(value, dtype))).ok());
    }
    const Tensor x = Placeholder(DType::kI32, {}, "x");
    EXPECT_TRUE(session_.Run(Identity(x), {{x, Array::Scalar(value)}}).ok());
  }
}

TEST_F(MistakesTest, LoopsOfAbsurdLengthAreErrors) {
  const Variable w(Array::Scalar(1.0f), "w");
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const Operation step = AssignAdd(w, Constant(1.0f));
  for (const int64_t n : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(std::string(session_.RunLoop(n, {step}).status().message()),
                HasSubstr("number of steps"));
  }
}

TEST_F(MistakesTest, LoopOfManyStepsOverSmallBatchesLimitsItsStacks) {
  const auto client = std::make_shared<RememberingClient>(runtime::TestClient(1));
  Session session("", {.client = client});
  const auto dataset = data::Dataset::FromArrays({{"x", Array::Of<float>({3}, {1, 2, 3})}});
  const Tensor x = MakeOneShotIterator(dataset).GetNext()["x"];
  const Variable w(Array::Scalar(0.0f), "w");
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_TRUE(session.RunLoop(INT32_MAX, {AssignAdd(w, x)}).ok());
  EXPECT_EQ(session.Run(w)->item<float>(), 6);
  // An element costs memory of its own, besides its four bytes in the stack.
  EXPECT_LT(client->largest_extent, base::AvailableMemory().bytes / 1024);
}

TEST_F(MistakesTest, AGlobalStepThatIsNoNumberIsAnError) {
  const Variable step(Array::Of<int64_t>({2}, {1, 2}), "step");
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  train::Saver saver(train::SaverOptions{.file_system = nullptr});
  EXPECT_THAT(
      std::string(saver.Save(session_, testing::TempDir() + "/none", step).status().message()),
      AllOf(HasSubstr("'step'"), HasSubstr("scalar")));
}

TEST_F(MistakesTest, CloseReleasesAllPrograms) {
  const auto client = std::make_shared<RememberingClient>(runtime::TestClient(1));
  Session session("", {.client = client});
  const Variable w(Array::Scalar(1.0f), "w");
  const Operation step = AssignAdd(w, Constant(1.0f));
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(step), absl::OkStatus());
  ASSERT_TRUE(session.RunLoop(3, {step}).ok());
  const Callable callable = session.MakeCallable({step}).value();
  ASSERT_GE(client->programs.size(), 2u);
  session.Close();
  for (const auto& program : client->programs) EXPECT_TRUE(program.expired());
  EXPECT_EQ(client.use_count(), 1);
}

TEST_F(MistakesTest, ThreadsMayAskAndCloseWhileOthersRun) {
  const Tensor sum = Constant(1.0f) + Constant(2.0f);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        (void)session_.Run(Fetches{sum});
        (void)session_.status().ok();
        (void)session_.UninitializedVariables();
        if (t == 2 && i == 10) session_.Close();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ErrorOf({sum}), "the session is closed");
}

TEST_F(MistakesTest, SessionsOfAGraphMayBeAskedForVariablesAtOnce) {
  Session other{"", {.client = runtime::TestClient(1)}};
  std::thread thread([&] { EXPECT_TRUE(other.UninitializedVariables().empty()); });
  EXPECT_TRUE(session_.UninitializedVariables().empty());
  thread.join();
}

TEST_F(MistakesTest, AskingForThePositionDoesNotChangeTheOrder) {
  graph_.SetRandomSeed(5);
  std::vector<int64_t> numbers(32);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const auto dataset =
      data::Dataset::FromArrays({{"x", Array::Of<int64_t>({32}, numbers)}}).Shuffle(32).Batch(32);
  const Iterator iterator = MakeOneShotIterator(dataset);
  const Tensor x = iterator.GetNext()["x"];
  Session asked{"", {.client = runtime::TestClient(1)}};
  ASSERT_TRUE(asked.IteratorPosition(iterator).ok());
  EXPECT_EQ(session_.Run(x)->ToString(), asked.Run(x)->ToString());
}

TEST_F(MistakesTest, AFetchedFeedIsTheCallersOwn) {
  const Tensor x = Placeholder(DType::kF32, {}, "x");
  Array fed = Array::Scalar(1.0f);
  const Array fetched = session_.Run(x, {{x, fed}}).value();
  fed.mutable_data<float>()[0] = 2;
  EXPECT_EQ(fetched.item<float>(), 1);
}

TEST_F(MistakesTest, LongChainsOfOperationsRun) {
  Tensor x = Placeholder(DType::kF32, {}, "x");
  const Tensor first = x;
  for (int i = 0; i < 3000; ++i) x = x + 1;
  EXPECT_EQ(session_.Run(x, {{first, Array::Scalar(0.0f)}})->item<float>(), 3000);
}

TEST_F(MistakesTest, LoopsThatNeverRunReturnTheirStart) {
  const Tensor x = Placeholder(DType::kF32, {}, "x");
  for (const int64_t limit : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    const Tensors out = WhileLoop([](const Tensors& v) { return Less(v[0], 10); },
                                  [](const Tensors& v) { return Tensors{v[0] + 1}; }, {x},
                                  {.maximum_iterations = limit});
    ASSERT_EQ(graph_.status(), absl::OkStatus());
    EXPECT_EQ(session_.Run(out[0], {{x, Array::Scalar(8.0f)}})->item<float>(), limit == 0 ? 8 : 10);
  }
}

}  // namespace
}  // namespace mistakes_test
}  // namespace penstock::session
