// Programs with mistakes, and absurd values: an error that says what to do, never an exception, a
// crash or a hang.
#include <algorithm>
#include <atomic>
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
#include "penstock/session/ops/functional_ops.h"
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

// Calls a function when a program is compiled: in the middle of a Run.
class CallingClient final : public runtime::CountingClient {
 public:
  CallingClient() : CountingClient(runtime::TestClient(1)) {}
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    if (on_compile != nullptr) on_compile();
    return CountingClient::Compile(program, options);
  }
  std::function<void()> on_compile = nullptr;
};

TEST_F(MistakesTest, CloseWaitsForTheRunOfAnotherThread) {
  const auto client = std::make_shared<CallingClient>();
  Session session("", {.client = client});
  const Tensor sum = Constant(1.0f) + Constant(2.0f);
  std::atomic<bool> closing{false}, closed{false};
  std::thread closer;
  client->on_compile = [&] {
    closer = std::thread([&] {
      closing = true;
      session.Close();
      closed = true;
    });
    while (!closing) std::this_thread::yield();
    EXPECT_FALSE(closed);
  };
  const auto callable = session.MakeCallable({sum});
  ASSERT_TRUE(callable.ok());
  const absl::StatusOr<Array> value = session.Run(sum);
  ASSERT_EQ(value.status(), absl::OkStatus());
  EXPECT_EQ(value->item<float>(), 3);
  closer.join();
  EXPECT_TRUE(closed);
  EXPECT_EQ(session.Run(sum).status().message(), "the session is closed");
  EXPECT_EQ(Callable(*callable)({}).status().message(), "the session is closed");
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

// Makes an operation with an absurd size; `n` counts them. Null behind the last one.
std::function<Tensor()> AbsurdSize(size_t n) {
  constexpr int64_t kMax = INT64_MAX, kLarge = int64_t{1} << 40;
  const auto x = [] { return Constant({1.0, 2.0}); };
  const auto ids = [] { return Constant(Array::Of<int64_t>({2}, {0, 1})); };
  const std::vector<std::function<Tensor()>> cases = {
      [=] {
        return Zeros({kMax, 2});
      },
      [=] {
        return Zeros({kLarge, kLarge});
      },
      [=] {
        return Zeros({-1, 2});
      },
      [=] { return Fill({kMax}, 1); },
      [=] {
        return Fill({kMax, kMax, kMax}, Constant(1.0));
      },
      [=] { return Range(0, 1e18); },
      [=] { return Range(0, 1, 1e-30); },
      [=] { return Range(NAN); },
      [=] { return Range(Constant(Array::Scalar(kMax))); },
      [=] { return Range(Constant(Array::Scalar<int64_t>(-5))); },
      [=] { return Linspace(0, 1, kMax); },
      [=] { return Eye(kLarge); },
      [=] { return Eye(kMax); },
      [=] { return Eye(-3); },
      [=] { return OneHot(ids(), kMax); },
      [=] { return OneHot(ids(), -1); },
      [=] { return SequenceMask(ids(), kMax); },
      [=] {
        return Reshape(x(), {kMax, kMax});
      },
      [=] {
        return Reshape(x(), {-1, -1});
      },
      [=] {
        return Reshape(x(), {-1, 0});
      },
      [=] { return Reshape(x(), {-5}); },
      [=] { return ExpandDims(x(), kMax); },
      [=] { return ExpandDims(x(), INT64_MIN); },
      [=] { return Squeeze(x(), {kMax}); },
      [=] { return Transpose(x(), {kMax}); },
      [=] {
        return BroadcastTo(x(), {kMax, 2});
      },
      [=] { return Tile(x(), {kMax}); },
      [=] { return Tile(x(), {-1}); },
      [=] { return Repeat(x(), {kMax}, 0); },
      [=] {
        return Repeat(x(), {kMax, kMax}, 0);
      },
      [=] { return Repeat(x(), {-1}, 0); },
      [=] {
        return Concat({x(), x()}, kMax);
      },
      [=] {
        return Concat({x(), x()}, INT64_MIN);
      },
      [=] { return Stack({x()}, INT64_MIN); },
      [=] { return Unstack(x(), kMax).empty() ? Tensor() : x(); },
      [=] { return Split(x(), kMax).empty() ? Tensor() : x(); },
      [=] { return Split(x(), 0).empty() ? Tensor() : x(); },
      [=] { return Split(x(), INT64_MIN).empty() ? Tensor() : x(); },
      [=] {
        return Split(x(), std::vector<int64_t>{kMax, kMax}).empty() ? Tensor() : x();
      },
      [=] { return Slice(x(), {1}, {kMax}); },
      [=] { return Slice(x(), {kMax}, {kMax}); },
      [=] { return Slice(x(), {-1}, {1}); },
      [=] { return StridedSlice(x(), {0}, {2}, {.strides = {0}}); },
      [=] {
        return StridedSlice(x(), {0}, {2}, {.strides = {1, 2}});
      },
      [=] {
        return Pad(x(), {{kMax, kMax}});
      },
      [=] {
        return Pad(x(), {{-1, 0}});
      },
      [=] { return Roll(x(), {1}, {kMax}); },
      [=] {
        return SpaceToDepth(Zeros({1, 4, 4, 1}), kMax);
      },
      [=] {
        return SpaceToDepth(Zeros({1, 4, 4, 1}), 0);
      },
      [=] {
        return DepthToSpace(Zeros({1, 4, 4, 4}), kLarge);
      },
      [=] {
        return DepthToSpace(Zeros({1, 4, 4, 4}), 0);
      },
      [=] {
        return SpaceToBatchND(Zeros({1, 4, 4, 1}), {kMax, kMax}, {{0, 0}, {0, 0}});
      },
      [=] {
        return SpaceToBatchND(Zeros({1, 4, 4, 1}), {0, 0}, {{0, 0}, {0, 0}});
      },
      [=] {
        return SpaceToBatchND(Zeros({1, 4, 4, 1}), {2, 2}, {{kMax, kMax}, {0, 0}});
      },
      [=] {
        return BatchToSpaceND(Zeros({4, 4, 4, 1}), {2, 2}, {{kMax, kMax}, {0, 0}});
      },
      [=] {
        return BatchToSpaceND(Zeros({4, 4, 4, 1}), {0, 0}, {{0, 0}, {0, 0}});
      },
      [=] { return Gather(x(), ids(), {.axis = kMax}); },
      [=] {
        return ScatterNd(ExpandDims(ids(), 1), x(), {kMax, kMax});
      },
      [=] {
        return RandomUniform({kLarge, kLarge});
      },
      [=] { return RandomUniform({-2}); },
      [=] { return RandomCrop(x(), {kMax}); },
      [=] { return Multinomial(ExpandDims(x(), 0), kMax); },
      [=] { return Multinomial(ExpandDims(x(), 0), -1); },
      [=] {
        return MatMul(Zeros({kLarge, 1}), Zeros({1, kLarge}));
      },
  };
  return n < cases.size() ? cases[n] : nullptr;
}

class AbsurdSizesTest : public testing::TestWithParam<size_t> {};

TEST_P(AbsurdSizesTest, AreErrorsOfTheGraphOrOfTheRun) {
  Graph graph;
  const auto scope = graph.AsDefault();
  const std::function<Tensor()> make = AbsurdSize(GetParam());
  if (make == nullptr) return;
  const Tensor out = make();
  if (!graph.status().ok()) {
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr("mistakes_test.cc"));
    return;
  }
  // Some of Python's conventions make sense of it: of slices and rolls.
  Session session("", {.client = runtime::TestClient(1)});
  const auto value = session.Run(out);
  EXPECT_TRUE(!value.ok() || value->num_elements() <= 2) << value->TypeString();
}
INSTANTIATE_TEST_SUITE_P(Sizes, AbsurdSizesTest, testing::Range<size_t>(0, 64));

// The rows in one tensor have an axis more than each of them.
TEST_F(MistakesTest, RowsOfAsManyAxesAsATensorMayHaveAreAnError) {
  const auto deep = [](const Tensor& row) { return Reshape(row, {1, 1, 1, 1, 1, 1, 1, -1}); };
  const auto flat = [](const Tensor& row) {
    Tensor x = row;
    for (int i = 0; i < 7; ++i) x = ExpandDims(x, 0);
    return x;
  };
  // Of unknown rank: an error of the Run, whether there are rows or not.
  const Tensor any = Placeholder(DType::kF32, PartialShape(), "any");
  const Tensor stacked = MapFn(flat, any);
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  for (const int64_t rows : {0, 2}) {
    EXPECT_THAT(ErrorOf({stacked}, {{any, Array::Zeros(DType::kF32, {rows, 3})}}),
                HasSubstr("more than 8 axes"));
  }
  EXPECT_FALSE(MapFn(deep, Zeros({2, 3})).valid());
  EXPECT_THAT(GraphError(), AllOf(HasSubstr("Scan 'map'"), HasSubstr("[1,1,1,1,1,1,1,3]"),
                                  HasSubstr("more than 8 axes"), HasSubstr("mistakes_test.cc")));
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
