#include "penstock/session/session.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/gradients.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/random_ops.h"

namespace penstock::session {
namespace session_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Vector(const absl::StatusOr<Array>& array) {
  if (!array.ok()) ADD_FAILURE() << array.status();
  if (!array.ok()) return {};
  return {array->values<float>().begin(), array->values<float>().end()};
}

class SessionTest : public testing::Test {
 protected:
  static Session Open() { return Session("", {.client = runtime::TestClient(1)}); }
  // The message of an error of Run.
  template <typename Fetch>
  std::string ErrorOf(const Fetch& fetch, const FeedDict& feeds = {}) {
    return std::string(session_.Run(Fetches{fetch}, feeds).status().message());
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_ = Open();
};

TEST_F(SessionTest, ComputesFetchesFromFeeds) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  const Tensor y = Add(x, Constant({1.0, 2.0}));
  for (int64_t rows : {1, 3, 1}) {
    const absl::StatusOr<Array> got = session_.Run(y, {{x, Array::Zeros(DType::kF32, {rows, 2})}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->shape(), Shape({rows, 2}));
    EXPECT_EQ(got->item<float>({-1, 1}), 2);
  }
}

TEST_F(SessionTest, AssignedFeedMayBeWrittenAgain) {
  const Variable v(Array::Of<float>({16}, std::vector<float>(16, 0)), "v");
  const Tensor x = Placeholder(DType::kF32, {16}, "x");
  const Tensor assign = Assign(v, x);
  Session session;
  Array fed = Array::Of<float>({16}, std::vector<float>(16, 1));
  ASSERT_TRUE(session.Run(Operation(assign), {{x, fed}}).ok());
  fed.mutable_data<float>()[0] = 7;
  const absl::StatusOr<Array> value = session.GetVariableValue("v");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->data<float>()[0], 1);
}

TEST_F(SessionTest, GivesAnArrayForEachFetch) {
  const Tensor x = Constant(2.0, "x"), y = Add(x, x);
  const Operation nothing = NoOp("nothing");
  const auto got = session_.Run({y, nothing, "x:0", "nothing", y, x});
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), 6u);
  EXPECT_EQ((*got)[0].item<float>(), 4);
  EXPECT_FALSE((*got)[1].valid());
  EXPECT_EQ((*got)[2].item<float>(), 2);
  EXPECT_FALSE((*got)[3].valid());
  EXPECT_EQ((*got)[4].item<float>(), 4);
  EXPECT_EQ(session_.Run(Fetches{}).value().size(), 0u);
  EXPECT_EQ(session_.Run(nothing), absl::OkStatus());
}

TEST_F(SessionTest, RunsLists) {
  const Variable w(Array::Scalar(3.0f), "w");
  ASSERT_EQ(session_.Run(Operations{w.initializer()}).status(), absl::OkStatus());
  const Tensors both = {Constant(1.0, "one"), Add(w, w)};
  const absl::StatusOr<std::vector<Array>> values = session_.Run(both);
  ASSERT_EQ(values.status(), absl::OkStatus());
  EXPECT_EQ((*values)[1].item<float>(), 6);
  EXPECT_EQ(session_.Run(GlobalVariables())->at(0).item<float>(), 3);
  EXPECT_EQ(session_.Run(std::vector<std::string>{"one:0"})->at(0).item<float>(), 1);
}

TEST_F(SessionTest, KeepsVariablesBetweenRuns) {
  const Variable w(Array::Of<float>({2}, {1, 2}), "w");
  const Tensor add = AssignAdd(w, Constant({10.0, 20.0}));
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  for (int i = 1; i <= 3; ++i) {
    const absl::StatusOr<Array> after = session_.Run(add);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(after->item<float>({1}), 2 + 20 * i);
  }
  EXPECT_THAT(Vector(session_.Run(w)), ElementsAre(31, 62));
  // Another session has variables of its own, and a fetched array does not change.
  Session other = Open();
  ASSERT_EQ(other.SetVariableValue("w", Array::Of<double>({2}, {5, 6})), absl::OkStatus());
  const Array before = other.Run(w).value();
  ASSERT_TRUE(other.Run(add).ok());
  EXPECT_THAT(before.values<float>(), ElementsAre(5, 6));
  EXPECT_THAT(Vector(other.GetVariableValue("w")), ElementsAre(15, 26));
  EXPECT_THAT(Vector(session_.GetVariableValue("w")), ElementsAre(31, 62));
}

TEST_F(SessionTest, FetchesAVariableBeforeAndAfterItsAssignment) {
  const Variable w(Array::Zeros(DType::kF32, {200, 200}), "w");  // large enough for views
  const Tensor ones = Constant(Array::Of<float>({200, 200}, std::vector<float>(40000, 1)));
  const Tensor up = AssignAdd(w, ones);
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  std::vector<Array> all;
  for (int i = 0; i < 3; ++i) {
    const auto got = session_.Run({w, up});
    ASSERT_TRUE(got.ok()) << got.status();
    all.insert(all.end(), got->begin(), got->end());
    all.push_back(session_.GetVariableValue("w").value());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all[3 * i].item<float>({7, 7}), i);
    EXPECT_EQ(all[3 * i + 1].item<float>({7, 7}), i + 1);
    EXPECT_EQ(all[3 * i + 2].item<float>({7, 7}), i + 1);
  }
}

TEST_F(SessionTest, FeedsTakeThePlaceOfAnyTensor) {
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  const Tensor y = Multiply(x, Constant(2.0)), z = Add(y, Constant(1.0));
  EXPECT_EQ(session_.Run(z, {{y, Array::Scalar(10.0f)}})->item<float>(), 11);  // x is not needed
  EXPECT_EQ(session_.Run(z, {{x, Array::Scalar(10.0f)}})->item<float>(), 21);
  EXPECT_EQ(session_.Run(y, {{y, Array::Scalar(3.0f)}})->item<float>(), 3);  // fed and fetched
  const Tensor d = PlaceholderWithDefault(Constant({1.0, 2.0}), {-1}, "d");
  const Tensor sum = ReduceSum(d);
  EXPECT_EQ(session_.Run(sum)->item<float>(), 3);
  EXPECT_EQ(session_.Run(sum, {{d, Array::Of<float>({3}, {1, 1, 1})}})->item<float>(), 3);
}

TEST_F(SessionTest, ConvertsNumbersOfFeeds) {
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const Tensor n = Placeholder(DType::kI32, {}, "n");
  EXPECT_EQ(session_.Run(Identity(x), {{x, Array::Of<double>({1}, {0.5})}})->item<float>(), 0.5f);
  EXPECT_EQ(session_.Run(Identity(x), {{x, Array::Of<uint8_t>({1}, {200})}})->item<float>(), 200);
  EXPECT_EQ(session_.Run(Identity(n), {{n, Array::Scalar<int64_t>(-3)}})->item<int32_t>(), -3);
  EXPECT_EQ(ErrorOf(x, {{x, Array::Strings({1}, {"a"})}}),
            "the feed of 'x:0' is string[1], the tensor float32[?]; devices have numbers only");
  EXPECT_EQ(ErrorOf(x, {{x, Array()}}),
            "the feed of 'x:0' is an invalid array, the tensor float32[?]; devices have numbers "
            "only");
}

TEST_F(SessionTest, RejectsBadFeeds) {
  const Tensor x = Placeholder(DType::kF32, {-1, 5}, "x", {"iris.cc", 9});
  const Array row = Array::Zeros(DType::kF32, {1, 5});
  EXPECT_EQ(ErrorOf(x), "You must feed a value for placeholder 'x' (float32 [?,5], iris.cc:9)");
  EXPECT_EQ(ErrorOf(Identity(x), {{x, Array::Zeros(DType::kF32, {5})}}),
            "the feed of 'x:0' has the shape [5], the tensor [?,5] (iris.cc:9)");
  EXPECT_EQ(ErrorOf(Identity(x), {{x, row}, {x, row}}),
            "'x:0' is fed twice; feed one value for each tensor");
  EXPECT_EQ(ErrorOf(Identity(x), {{Tensor(), row}}), "feed 0 is for an invalid tensor");
  Graph other;
  Tensor foreign;
  {
    const auto scope = other.AsDefault();
    foreign = Placeholder(DType::kF32, {1, 5}, "foreign");
  }
  EXPECT_EQ(ErrorOf(x, {{foreign, row}}),
            "the fed tensor 'foreign:0' belongs to another graph; feed it in a session of that "
            "graph");
  EXPECT_EQ(ErrorOf(foreign),
            "the fetch 'foreign' belongs to another graph; fetch it in a session of that graph");
  EXPECT_EQ(ErrorOf(Tensor()),
            "fetch 0 is an invalid tensor or operation; make it with an operation of the session's "
            "graph");
  EXPECT_EQ(ErrorOf("step:0"), "the graph has no operation 'step'");
}

TEST_F(SessionTest, ReportsShapesThatDoNotFitInTheRun) {
  const Tensor x = Placeholder(DType::kF32, {-1, -1}, "x");
  const Tensor y = MatMul(x, Constant(Array::Zeros(DType::kF32, {4, 3})), {}, {"train.cc", 31});
  const std::string error = ErrorOf(y, {{x, Array::Zeros(DType::kF32, {2, 5})}});
  EXPECT_THAT(error, HasSubstr("operation \"MatMul\" (train.cc:31): "));
  EXPECT_THAT(error, HasSubstr("f32[2,5]"));
  EXPECT_TRUE(session_.Run(y, {{x, Array::Zeros(DType::kF32, {2, 4})}}).ok());
}

TEST_F(SessionTest, NamesUninitializedVariables) {
  const Variable w(Array::Zeros(DType::kF32, {2}), "w"), b(Array::Zeros(DType::kF32, {2}), "b");
  const Tensor y = Add(w, b);
  EXPECT_EQ(ErrorOf(y),
            "the variables 'w', 'b' have no value; run GlobalVariablesInitializer() first");
  EXPECT_EQ(session_.Run(y).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session_.Run(Assign(w, Constant({1.0, 2.0}))).ok());  // needs no value before
  EXPECT_EQ(ErrorOf(y), "the variable 'b' has no value; run GlobalVariablesInitializer() first");
  EXPECT_EQ(session_.GetVariableValue("b").status().message(),
            "the variable 'b' has no value; run GlobalVariablesInitializer() first");
  EXPECT_EQ(session_.GetVariableValue("c").status().message(), "the graph has no variable 'c'");
  EXPECT_THAT(std::string(session_.SetVariableValue("b", Array::Zeros(DType::kF32, {3})).message()),
              HasSubstr("the feed of 'b:0' has the shape [3], the tensor [2]"));
}

TEST_F(SessionTest, SaysWhichInitializersToRun) {
  const Variable w(Array::Scalar(1.0f), "w"),
      local(Array::Scalar(1.0f), "local",
            {.trainable = false, .collections = {graph_keys::kLocalVariables}}),
      own(Array::Scalar(1.0f), "own", {.trainable = false, .collections = {"mine"}});
  // An update needs the value before it.
  EXPECT_EQ(ErrorOf(AssignAdd(w, Constant(1.0))),
            "the variable 'w' has no value; run GlobalVariablesInitializer() first");
  EXPECT_EQ(ErrorOf(local.Value()),
            "the variable 'local' has no value; run LocalVariablesInitializer() first");
  EXPECT_EQ(ErrorOf(own.Value()),
            "the variable 'own' has no value; run VariablesInitializer() of them first");
  EXPECT_EQ(ErrorOf(Add(w, local)),
            "the variables 'w', 'local' have no value; run GlobalVariablesInitializer() and "
            "LocalVariablesInitializer() first");
}

TEST_F(SessionTest, RunsWhatControlDependenciesNeed) {
  const Variable count(Array::Scalar<int32_t>(0), "count");
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  Tensor y;
  {
    const ControlDependencies after(Operations{AssignAdd(count, Constant(1))});
    y = Identity(x);
  }
  const Tensor z = Identity(x);
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const FeedDict feeds{{x, Array::Scalar(1.0f)}};
  ASSERT_TRUE(session_.Run(y, feeds).ok());
  ASSERT_TRUE(session_.Run(z, feeds).ok());  // does not depend on the assignment
  EXPECT_EQ(session_.Run(count)->item<int32_t>(), 1);
  for (const Tensor& tensor : Tuple({z, x})) ASSERT_TRUE(session_.Run(tensor, feeds).ok());
}

TEST_F(SessionTest, CompilesOnceForFetchesAndShapes) {
  auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  Session session("", {.client = client});
  const int start = client->compiles();  // the test of the kernels
  const Tensor x = Placeholder(DType::kF32, {-1}, "x"), y = Multiply(x, x);
  const Variable w(Array::Scalar(1.0f), "w");
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_TRUE(session.Run(w).ok());  // a value on the device needs no program
  const int initial = client->compiles() - start;
  EXPECT_LE(initial, 1);
  for (int i = 0; i < 3; ++i) {
    for (int64_t size : {2, 5}) {
      ASSERT_TRUE(session.Run(y, {{x, Array::Zeros(DType::kF32, {size})}}).ok());
    }
  }
  EXPECT_EQ(client->compiles() - start - initial, 2);
  const Tensor later = Add(y, w);  // the graph grows
  ASSERT_TRUE(session.Run(later, {{x, Array::Zeros(DType::kF32, {2})}}).ok());
  EXPECT_EQ(client->compiles() - start - initial, 3);
}

TEST_F(SessionTest, CallablesTakeTheFeedsInOrder) {
  const Tensor a = Placeholder(DType::kF32, Shape(), "a"), b = Placeholder(DType::kF32, {-1}, "b");
  absl::StatusOr<Callable> sum = session_.MakeCallable({Add(a, b), b}, {b, a});
  ASSERT_TRUE(sum.ok()) << sum.status();
  const auto got = (*sum)({Array::Of<float>({2}, {1, 2}), Array::Scalar(10.0f)});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), ElementsAre(11, 12));
  EXPECT_THAT((*got)[1].values<float>(), ElementsAre(1, 2));
  EXPECT_EQ((*sum)({Array::Scalar(1.0f)}).status().message(), "the callable takes 2 feeds, got 1");
  EXPECT_EQ(Callable()({}).status().message(), "this Callable is empty; make it with MakeCallable");
}

TEST_F(SessionTest, RandomNumbersDifferInEachRun) {
  const Tensor r = RandomUniform({3}), s = RandomUniform({3}),
               fixed = RandomUniform({3}, 0, 1, {.seed = 5});
  const auto first = session_.Run({r, s, r, fixed}), second = session_.Run({r, s, r, fixed});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_TRUE(base::BitwiseEqual((*first)[0], (*first)[2]));
  EXPECT_FALSE(base::BitwiseEqual((*first)[0], (*first)[1]));
  EXPECT_FALSE(base::BitwiseEqual((*first)[0], (*second)[0]));
  EXPECT_FALSE(base::BitwiseEqual((*first)[3], (*second)[3]));
  // With a seed of the operation, or of the graph, another session repeats them.
  Session other = Open();
  const auto repeated = other.Run({r, fixed});
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_FALSE(base::BitwiseEqual((*first)[0], (*repeated)[0]));
  EXPECT_TRUE(base::BitwiseEqual((*first)[3], (*repeated)[1]));
  graph_.SetRandomSeed(17);
  std::vector<Array> seeded;
  for (int i = 0; i < 2; ++i) {
    Session session = Open();
    seeded.push_back(session.Run(r).value());
  }
  EXPECT_TRUE(base::BitwiseEqual(seeded[0], seeded[1]));
}

TEST_F(SessionTest, ReturnsTheGraphsError) {
  const Tensor bad = Add(Constant(1.0), Constant(1), "", {"train.cc", 4});
  EXPECT_FALSE(bad.valid());
  EXPECT_EQ(session_.Run(Constant(1.0)).status(), graph_.status());
  EXPECT_THAT(ErrorOf(NoOp()),
              HasSubstr("AddV2 'AddV2' (train.cc:4): given float32[] and int32[]: "));
}

TEST_F(SessionTest, AcceptsEmptyBatches) {
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  const Tensor y = MatMul(x, Constant(Array::Zeros(DType::kF32, {4, 3})));
  const auto got = session_.Run({y, ReduceSum(y)}, {{x, Array::Zeros(DType::kF32, {0, 4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].shape(), Shape({0, 3}));
  EXPECT_EQ((*got)[1].item<float>(), 0);
}

TEST_F(SessionTest, FeedsAndFetchesAllTypesOfNumbers) {
  for (DType dtype :
       {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
        DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const Tensor x = Placeholder(dtype, {2}, "x");
    const Tensor y = Reshape(x, {2, 1});
    const absl::StatusOr<Array> got = session_.Run(y, {{x, Array::Of<float>({2}, {1, 0})}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->dtype(), dtype);
    EXPECT_EQ(got->item<float>({0, 0}), 1);
    EXPECT_EQ(got->item<float>({1, 0}), 0);
  }
}

TEST_F(SessionTest, ArraysMayBeWrittenAfterTheyWereGiven) {
  Array weights = Array::Of<float>({32, 32}, std::vector<float>(1024, 1)),
        number = Array::Scalar(2.0f);
  const Variable w(weights, "w"), v(Array::Zeros(DType::kF32, {32, 32}), "v");
  const Tensor c = Constant(number), x = Placeholder(DType::kF32, {32, 32}, "x");
  weights.mutable_data<float>()[0] = 7;
  number.mutable_data<float>()[0] = 7;
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_TRUE(session_.Run(Assign(v, x), {{x, weights}}).ok());
  ASSERT_EQ(session_.SetVariableValue("w", weights), absl::OkStatus());
  weights.mutable_data<float>()[0] = 9;
  EXPECT_EQ(session_.Run(v)->item<float>({0, 0}), 7);
  EXPECT_EQ(session_.Run(w)->item<float>({0, 0}), 7);
  ASSERT_EQ(session_.Run(w.initializer()), absl::OkStatus());
  EXPECT_EQ(session_.Run(w)->item<float>({0, 0}), 1);
  EXPECT_EQ(session_.Run(Identity(c))->item<float>(), 2);
}

TEST_F(SessionTest, FetchedVariablesAreTheCallersOwn) {
  const Variable v(Array::Zeros(DType::kF32, {128, 128}), "v");
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  // The result of an execution, of which a CPU device gives large ones without a copy.
  ASSERT_TRUE(session_.Run(AssignAdd(v, Ones({128, 128}))).ok());
  Array fetched = session_.Run(v).value(), asked = session_.GetVariableValue("v").value();
  fetched.mutable_data<float>()[0] = 7;
  asked.mutable_data<float>()[1] = 7;
  Array assigned = session_.Run(AssignAdd(v, Ones({128, 128}))).value();
  assigned.mutable_data<float>()[2] = 7;
  const Array value = session_.Run(v).value();
  for (const int64_t column : {0, 1, 2}) EXPECT_EQ(value.item<float>({0, column}), 2) << column;
}

TEST_F(SessionTest, ClosedSessionsFail) {
  const Variable w(Array::Scalar(1.0f), "w");
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  Callable read = session_.MakeCallable({w}).value();
  session_.Close();
  session_.Close();
  EXPECT_EQ(ErrorOf(w), "the session is closed");
  EXPECT_EQ(read({}).status().message(), "the session is closed");
  EXPECT_EQ(session_.GetVariableValue("w").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_.SetVariableValue("w", Array::Scalar(1.0f)).message(), "the session is closed");
}

TEST_F(SessionTest, ExplainsTargetsThatItCannotOpen) {
  Session remote("grpc://10.0.0.2:8470");
  EXPECT_THAT(
      std::string(remote.status().message()),
      HasSubstr("device 'grpc://10.0.0.2:8470' is an address, and this program can open none "
                "with that prefix (link penstock::remote for grpc://)"));
  EXPECT_EQ(remote.Run(NoOp()), remote.status());
  EXPECT_FALSE(Session("abacus").status().ok());
}

TEST(SessionWithoutGraphTest, SaysThatAGraphIsNeeded) {
  Session session("", {.client = runtime::TestClient(1)});
  EXPECT_THAT(std::string(session.Run(Fetches{"x"}).status().message()),
              HasSubstr("this thread has no default graph"));
  EXPECT_TRUE(session.UninitializedVariables().empty());
}

TEST_F(SessionTest, ListsDevices) {
  Session session("", {.client = runtime::TestClient(2)});
  EXPECT_EQ(session.ListDevices().size(), 2u);
}

TEST_F(SessionTest, SessionsAndCallablesWorkInThreads) {
  const Variable w(Array::Scalar(0.0f), "w");
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const Operation up = AssignAdd(w, ReduceSum(x));
  const Operation init = GlobalVariablesInitializer();
  Session other = Open();
  ASSERT_EQ(session_.Run(init), absl::OkStatus());
  ASSERT_EQ(other.Run(init), absl::OkStatus());
  std::atomic<int> failures{0};
  const auto work = [&](Session& session, int64_t size) {
    Callable step = session.MakeCallable({up}, {x}).value();
    for (int i = 0; i < 50; ++i) {
      const Array ones = Array::Of<float>({size}, std::vector<float>(size, 1));
      const bool ok = i % 2 == 0 ? step({ones}).ok() : session.Run(up, {{x, ones}}).ok();
      if (!ok) ++failures;
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(work, std::ref(session_), 1);  // two threads use one session
  threads.emplace_back(work, std::ref(session_), 2);
  threads.emplace_back(work, std::ref(other), 3);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(session_.Run(w)->item<float>(), 150);
  EXPECT_EQ(other.Run(w)->item<float>(), 150);
}

}  // namespace
}  // namespace session_test
}  // namespace penstock::session
