// RunLoop against single Runs, with random programs, and what can go wrong in the middle.
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/data.h"
#include "penstock/session/lowering.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/tpu.h"

namespace penstock::session {
namespace run_loop_test {

using ::testing::HasSubstr;

Tensor Apply(const Tensors& inputs, PureFunction function) {
  return AddOp("Apply", inputs, "", SourceLocation::Current(), std::move(function));
}
Tensor Sum(const Tensor& x) {
  return Apply({x},
               [](const ir::Values& in) { return ir::ReduceSum(ir::Convert(in[0], DType::kF32)); });
}
Tensor Noise() {
  Node* const node = Graph::Default()->AddNode(
      {.type = "RandomUniform",
       .outputs = std::vector<Node::Output>{{DType::kF32, Shape{2}}},
       .stateful = true,
       .extra = std::make_shared<RandomSeed>(std::nullopt)},
      {},
      [](Lowering& l, const ir::Values&) {
        return ir::Values{ir::RandomUniform(l.RandomKey(l.node()), {DType::kF32, {2}})};
      },
      SourceLocation::Current());
  return Tensor(node, 0);
}

// Columns of several types; the last batch may be smaller.
data::Dataset Columns(int64_t rows, int64_t batch, uint64_t seed) {
  base::Random random(seed);
  Array floats = Array::Zeros(DType::kF32, {rows, 3}),
        bytes = Array::Zeros(DType::kU8, {rows, 2, 2});
  Array flags = Array::Zeros(DType::kBool, {rows}), numbers = Array::Zeros(DType::kI64, {rows});
  for (int64_t i = 0; i < floats.num_elements(); ++i) {
    floats.mutable_data<float>()[i] = static_cast<float>(random.Uniform() - 0.5);
  }
  for (int64_t i = 0; i < bytes.num_elements(); ++i) {
    bytes.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(256 * random.Uniform());
  }
  for (int64_t i = 0; i < rows; ++i) {
    flags.mutable_data<bool>()[i] = random.Uniform() < 0.5;
    numbers.mutable_data<int64_t>()[i] = i;
  }
  return data::Dataset::FromArrays(
             {{"floats", floats}, {"bytes", bytes}, {"flags", flags}, {"numbers", numbers}})
      .Batch(batch);
}

// A training-like program over all columns, with variables of several types.
struct Model {
  Model(const data::Dataset& dataset, int shards) {
    graph.SetRandomSeed(3);
    iterator = MakeOneShotIterator(dataset);
    const Element next = iterator.GetNext();
    const Variable w(Array::Of<float>({2}, {1, 2}), "w"), narrow(Array::Scalar<float>(0), "narrow");
    const Variable n(Array::Scalar<int64_t>(0), "n"), any(Array::Scalar<bool>(false), "any");
    const auto computation = [&](const Tensors& in) -> Fetches {
      Tensor sum = Apply({Sum(in[0]), Sum(in[1]), Sum(in[2])},
                         [](const ir::Values& v) { return v[0] + v[1] * 1e-4 + v[2] * 0.01; });
      if (shards > 1) sum = tpu::CrossReplicaSum(sum);
      const Tensor step = Apply({w, sum, Noise()},
                                [](const ir::Values& v) { return v[0] * 0.9 + v[1] * 0.1 * v[2]; });
      return {Operation(Assign(w, step)), Operation(Assign(narrow, sum)),
              Operation(AssignAdd(n, Constant(1.0, DType::kI64))),
              Operation(Assign(any, Apply({any, sum}, [](const ir::Values& v) {
                                 return ir::Or(v[0], ir::Greater(v[1], ir::SplatLike(v[1], 0.3)));
                               })))};
    };
    const Tensors inputs = {next["floats"], next["bytes"], next["flags"]};
    if (shards > 1) {
      fetches.push_back(tpu::Shard(computation, inputs, shards)[0]);
    } else {
      fetches = computation(inputs);
    }
    fetches.push_back(Sum(next["numbers"]));
    fetches.push_back(next["numbers"]);
  }
  Graph graph;
  Graph::DefaultScope scope = graph.AsDefault();
  Iterator iterator;
  Fetches fetches;
};

void ExpectSame(const std::vector<Array>& a, const std::vector<Array>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].valid(), b[i].valid());
    if (!a[i].valid()) continue;
    EXPECT_TRUE(base::BitwiseEqual(a[i], b[i])) << i << ": " << a[i] << b[i];
  }
}

// The same steps, divided among calls in another way.
void CompareWithSingleRuns(int shards, int64_t rows, int64_t batch, const std::vector<int>& loops) {
  Model model(Columns(rows, batch, static_cast<uint64_t>(rows)), shards);
  ASSERT_TRUE(model.graph.status().ok()) << model.graph.status();
  const ConfigProto config{.client = runtime::TestClient(4)};
  Session single("", config), looped("", config);
  ASSERT_EQ(single.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(looped.Run(GlobalVariablesInitializer()), absl::OkStatus());
  int64_t left = (rows + batch - 1) / batch;
  for (const int steps : loops) {
    if (left == 0) break;
    absl::StatusOr<std::vector<Array>> last;
    for (int i = 0; i < steps && left > 0; ++i, --left) {
      last = single.Run(model.fetches);
      ASSERT_TRUE(last.ok()) << last.status();
    }
    // Single Runs in between share what was read ahead.
    const auto got = steps == 1 ? looped.Run(model.fetches) : looped.RunLoop(steps, model.fetches);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectSame(*last, *got);
    for (const char* name : {"w", "narrow", "n", "any"}) {
      ExpectSame({single.GetVariableValue(name).value()}, {looped.GetVariableValue(name).value()});
    }
    EXPECT_EQ(single.IteratorPosition(model.iterator).value(),
              looped.IteratorPosition(model.iterator).value());
  }
}

// The loop ends in the middle, with a smaller batch.
TEST(RunLoop, EqualsSingleRunsOnOneDevice) { CompareWithSingleRuns(1, 19, 4, {1, 2, 4}); }

TEST(RunLoop, EqualsSingleRunsOnShards) { CompareWithSingleRuns(4, 32, 8, {1, 3}); }

class RunLoopTest : public ::testing::Test {
 protected:
  Session MakeSession() { return Session("", {.client = runtime::TestClient(1)}); }
  Graph graph_;
  const Graph::DefaultScope scope_ = graph_.AsDefault();
};

TEST_F(RunLoopTest, UninitializedVariableTakesNoElement) {
  const Variable w(Array::Scalar<float>(0), "w");
  const Tensor x = MakeOneShotIterator(Columns(8, 2, 1)).GetNext()["numbers"];
  const Tensor step = AssignAdd(w, Sum(x));
  Session session = MakeSession();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string(session.RunLoop(2, {step}).status().message()), HasSubstr("'w'"));
    EXPECT_FALSE(session.Run(step).ok());
  }
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_EQ(session.RunLoop(2, {step}).value()[0].item<float>(), 6);
}

TEST_F(RunLoopTest, AssignsFetchesAndStacksScalarsOfTheLastStep) {
  const auto dataset = data::Dataset::FromArrays(
      {{"x", Array::Of<float>({5}, {1, 2, 3, 4, 5})}, {"none", Array::Zeros(DType::kF32, {5, 0})}});
  const Element next = MakeOneShotIterator(dataset).GetNext();
  EXPECT_EQ(next["x"].shape().ToString(), "[]");
  const Variable w(Array::Scalar<float>(0), "w");
  const Tensor copy = Assign(w, next["x"]);  // the element itself, without a program
  const Tensor sum = Sum(next["none"]);
  Session session = MakeSession();
  EXPECT_EQ(session.RunLoop(2, {copy}).value()[0].item<float>(), 2);
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 2);
  const auto both = session.RunLoop(2, {sum, copy});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ((*both)[0].item<float>(), 0);
  EXPECT_EQ((*both)[1].item<float>(), 4);
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 4);
}

TEST_F(RunLoopTest, AProgramServesFewerSteps) {
  auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  const Variable w(Array::Scalar<float>(0), "w");
  const Tensor x = MakeOneShotIterator(Columns(40, 2, 1)).GetNext()["numbers"];
  const Tensor step = AssignAdd(w, Sum(x));
  Session session("", {.client = client});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_TRUE(session.RunLoop(8, {step}).ok());
  const int compiles = client->compiles();
  // What was read ahead for eight steps serves three, and then four.
  for (const int steps : {3, 4}) ASSERT_TRUE(session.RunLoop(steps, {step}).ok());
  EXPECT_EQ(client->compiles(), compiles);
  ASSERT_TRUE(session.RunLoop(1, {step}).ok());
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 31 * 16);
}

TEST_F(RunLoopTest, CarriesNanAndInfinity) {
  const Variable w(Array::Scalar<float>(1), "w");
  const Tensor step = Assign(w, Apply({w}, [](const ir::Values& v) { return v[0] * 1e30; }));
  Session session = MakeSession();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_TRUE(std::isinf(session.RunLoop(3, {step}).value()[0].item<float>()));
}

TEST_F(RunLoopTest, ErrorOfTheDataComesAfterTheStepsBeforeIt) {
  const auto dataset = data::Dataset::FromArrays({{"x", Array::Of<float>({5}, {1, 2, 3, 4, 5})}})
                           .Map([](const base::NamedArrays& in, base::NamedArrays* out) {
                             *out = in;
                             return in.Find("x")->item<float>() == 4
                                        ? absl::DataLossError("four is broken")
                                        : absl::OkStatus();
                           });
  const Variable w(Array::Scalar<float>(0), "w");
  const Tensor step = AssignAdd(w, MakeOneShotIterator(dataset).GetNext()["x"]);
  Session session = MakeSession();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    const absl::Status error = session.RunLoop(5, {step}).status();
    EXPECT_THAT(std::string(error.message()), HasSubstr("four is broken"));
    EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 6);
  }
}

TEST_F(RunLoopTest, ThreadsShareTheElementsOfASession) {
  const auto dataset = Columns(400, 2, 1);
  const Variable total(Array::Scalar<float>(0), "total");
  const Tensor step = AssignAdd(total, Sum(MakeOneShotIterator(dataset).GetNext()["numbers"]));
  Session session = MakeSession();
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (true) {
        const absl::Status status =
            t % 2 == 0 ? session.Run(step).status() : session.RunLoop(3, {step}).status();
        if (status.ok()) continue;
        ended += absl::IsOutOfRange(status) ? 1 : 100;
        return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(session.GetVariableValue("total")->item<float>(), 399 * 200);
}

TEST_F(RunLoopTest, ClosedSessionReturnsAnError) {
  const Tensor sum = Sum(MakeOneShotIterator(Columns(8, 2, 1)).GetNext()["numbers"]);
  Session session = MakeSession();
  ASSERT_TRUE(session.Run(sum).ok());
  session.Close();
  EXPECT_TRUE(absl::IsFailedPrecondition(session.RunLoop(2, {sum}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(session.Run(sum).status()));
}

}  // namespace run_loop_test
}  // namespace penstock::session
