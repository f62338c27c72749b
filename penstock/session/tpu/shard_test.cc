#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/ir/gradients.h"
#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/data.h"
#include "penstock/session/gradients.h"
#include "penstock/session/lowering.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/tpu.h"

namespace penstock::session {
namespace shard_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Apply(const Tensors& inputs, PureFunction function) {
  return AddOp("Apply", inputs, "", SourceLocation::Current(), std::move(function));
}
Tensor Double(const Tensor& x) {
  return Apply({x}, [](const ir::Values& in) { return in[0] * 2.0; });
}
Tensor MeanOf(const Tensor& x) {
  return Apply({x}, [](const ir::Values& in) { return ir::ReduceMean(in[0]); });
}
Tensor AsVector(const Tensor& x) {
  return Apply({x}, [](const ir::Values& in) { return ir::Reshape(in[0], {1}); });
}

Array Iota(const Shape& shape) {
  Array out = Array::Zeros(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(i);
  }
  return out;
}

class ShardTest : public ::testing::Test {
 protected:
  Session MakeSession(int devices = 8) {
    return Session("", {.client = runtime::TestClient(devices)});
  }
  std::string Error() const { return std::string(graph_.status().message()); }
  Graph graph_;
  const Graph::DefaultScope scope_ = graph_.AsDefault();
};

TEST_F(ShardTest, GivesEachShardItsRowsAndConcatenatesOutputs) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  const auto computation = [&](const Tensors& in) -> Fetches {
    EXPECT_EQ(tpu::NumberOfShards(), 4);
    return {Double(in[0]), AsVector(MeanOf(in[0]))};
  };
  const Tensors out = tpu::Shard(computation, {x}, 4);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(tpu::NumberOfShards(), std::nullopt);
  EXPECT_EQ(out[0].shape().ToString(), "[?,2]");
  EXPECT_EQ(out[1].shape().ToString(), "[4]");
  Session session = MakeSession();
  for (const int64_t rows : {4, 8}) {
    const auto got = session.Run({out[0], out[1]}, {{x, Iota({rows, 2})}});
    ASSERT_TRUE(got.ok()) << got.status();
    for (int64_t i = 0; i < 2 * rows; ++i) {
      EXPECT_EQ((*got)[0].data<float>()[i], static_cast<float>(2 * i));
    }
    const float width = static_cast<float>(rows) / 2;  // elements of a shard
    for (int s = 0; s < 4; ++s) {
      EXPECT_EQ((*got)[1].data<float>()[s], static_cast<float>(s) * width + (width - 1) / 2);
    }
  }
}

TEST_F(ShardTest, BatchParallelDividesBatches) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2}, "x");
  const Tensors out = tpu::BatchParallel(
      [](const Tensors& in) -> Fetches { return {AsVector(MeanOf(in[0]))}; }, {x}, 2);
  Session session = MakeSession();
  const auto got = session.Run(out[0], {{x, Iota({4, 2})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->values<float>(), ElementsAre(1.5, 5.5));
}

TEST_F(ShardTest, DividesAndConcatenatesAlongOtherAxesAndTakesOutputsOfShardZero) {
  const Tensor x = Placeholder(DType::kF32, {2, 4});
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor positive = Apply(
        {in[0]}, [](const ir::Values& v) { return ir::Greater(v[0], ir::SplatLike(v[0], 4)); });
    return {in[0], MeanOf(in[0]), positive};
  };
  const Tensors out = tpu::Shard(computation, {x}, 2,
                                 {.input_shard_axes = {1},
                                  .outputs_from_all_shards = {true, false, true},
                                  .output_shard_axes = {1, 0, 0}});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session = MakeSession();
  const auto got = session.Run({out[0], out[1], out[2]}, {{x, Iota({2, 4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(base::BitwiseEqual((*got)[0], Iota({2, 4})));
  EXPECT_EQ((*got)[1].item<float>(), 2.5f);  // of 0, 1, 4, 5
  EXPECT_EQ((*got)[2].shape(), Shape({4, 2}));
  EXPECT_TRUE((*got)[2].item<bool>({1, 1}));
  EXPECT_FALSE((*got)[2].item<bool>({1, 0}));
}

TEST_F(ShardTest, FeedUsedByShardOnlyIsSentInSlices) {
  auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(4));
  const Tensor x = Placeholder(DType::kF32, {-1});
  // Two slices of one placeholder are one transfer to each device.
  const auto sum = [](const Tensors& in) -> Fetches {
    return {Apply({in[0], in[1]}, [](const ir::Values& v) { return v[0] + v[1]; })};
  };
  const Tensor out = tpu::Shard(sum, {x, x}, 4)[0];
  const Tensor whole = MeanOf(x);
  Session session("", {.client = client});
  const int puts = client->puts();
  const auto got = session.Run(out, {{x, Iota({8})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(client->puts() - puts, 4);
  EXPECT_THAT(got->values<float>(), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  // Used outside, too, every device gets all of it.
  const auto both = session.Run({out, whole}, {{x, Iota({8})}});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT((*both)[0].values<float>(), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_EQ((*both)[1].item<float>(), 3.5f);
}

// ---- Variables ----

TEST_F(ShardTest, GradientsAreTheShardsOwnUntilTheyAreSummed) {
  const Variable w(Array::Scalar<float>(3), "w");
  const Tensor x = Placeholder(DType::kF32, {4});
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor gradient = Apply({w, in[0]}, [](const ir::Values& v) {
      return ir::Gradients(ir::ReduceSum(v[1] * v[0]), {v[0]})[0];
    });
    return {AsVector(gradient), AsVector(tpu::CrossReplicaSum(gradient))};
  };
  const Tensors out = tpu::Shard(computation, {x}, 4);
  Session session = MakeSession();
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const auto got = session.Run({out[0], out[1]}, {{x, Iota({4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT((*got)[1].values<float>(), ElementsAre(6, 6, 6, 6));
}

TEST_F(ShardTest, VariablesThatShardsAssignDifferentlyGetMeanOrTheFirstShardsValue) {
  const Variable mean(Array::Scalar<float>(0), "mean"), first(Array::Scalar<int32_t>(0), "first"),
      same(Array::Scalar<float>(1), "same");
  const Tensor x = Placeholder(DType::kF32, {-1});
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor local = MeanOf(in[0]);
    const Tensor number =
        Apply({local}, [](const ir::Values& v) { return ir::Convert(v[0], DType::kI32); });
    return {Operation(Assign(mean, local)), Operation(Assign(first, number)),
            Operation(Assign(same, tpu::CrossReplicaSum(local)))};
  };
  const Tensors out = tpu::Shard(computation, {x}, 4);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  ASSERT_EQ(out.size(), 1);  // operations only: the number of shards
  Session session = MakeSession();
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const auto got = session.Run(out[0], {{x, Array::Of<float>({4}, {5, 2, 3, 10})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->item<int32_t>(), 4);
  EXPECT_EQ(session.GetVariableValue("mean")->item<float>(), 5);
  EXPECT_EQ(session.GetVariableValue("first")->item<int32_t>(), 5);
  EXPECT_EQ(session.GetVariableValue("same")->item<float>(), 20);
  // All replicas hold the value: a Run on fewer devices and one on all see it.
  const Tensor again =
      tpu::Shard([&](const Tensors&) -> Fetches { return {AsVector(mean.Value())}; }, {}, 4)[0];
  EXPECT_THAT(session.Run(again)->values<float>(), ElementsAre(5, 5, 5, 5));
  EXPECT_EQ(session.Run(mean.Value())->item<float>(), 5);
}

Tensor Noise() {
  Node* const node = Graph::Default()->AddNode(
      {.type = "RandomUniform",
       .outputs = std::vector<Node::Output>{{DType::kF32, Shape{1}}},
       .stateful = true,
       .extra = std::make_shared<RandomSeed>(std::nullopt)},
      {},
      [](Lowering& l, const ir::Values&) {
        return ir::Values{ir::RandomUniform(l.RandomKey(l.node()), {DType::kF32, {1}})};
      },
      SourceLocation::Current());
  return Tensor(node, 0);
}

TEST_F(ShardTest, RandomNumbersDifferWithinAndAgreeOutside) {
  const Tensor outside = Noise();
  const auto computation = [&](const Tensors&) -> Fetches { return {Noise(), outside}; };
  const Tensors out = tpu::Shard(computation, {}, 4);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session = MakeSession();
  const auto got = session.Run({out[0], out[1], outside});
  ASSERT_TRUE(got.ok()) << got.status();
  const auto within = (*got)[0].values<float>();
  EXPECT_EQ(std::set<float>(within.begin(), within.end()).size(), 4);
  for (const float x : (*got)[1].values<float>()) EXPECT_EQ(x, (*got)[2].item<float>());
}

TEST_F(ShardTest, VariablesMadeWithinHaveOneInitialValue) {
  Variable w, v;
  const auto computation = [&](const Tensors& in) -> Fetches {
    w = Variable(Double(Noise()), "w");
    v = GetVariable("v", {2});
    return {Apply({w, in[0]}, [](const ir::Values& at) { return at[0] + at[1]; })};
  };
  const Tensor out = tpu::Shard(computation, {Constant(Array::Zeros(DType::kF32, {4}))}, 4)[0];
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session = MakeSession();
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const auto got = session.Run(out);
  ASSERT_TRUE(got.ok()) << got.status();
  const float value = session.GetVariableValue("w")->item<float>();
  EXPECT_THAT(got->values<float>(), ElementsAre(value, value, value, value));
  // The initializers run on one device.
  Session one = MakeSession(1);
  EXPECT_TRUE(one.Run(GlobalVariablesInitializer()).ok());
}

// ---- Iterators and loops ----

TEST_F(ShardTest, IteratorFeedsSlicesAndRunLoopSumsOverShards) {
  const auto dataset = data::Dataset::FromArrays({{"x", Iota({32})}}).Batch(8).Repeat();
  const Variable total(Array::Scalar<float>(0), "total");
  const Tensor x = MakeOneShotIterator(dataset).GetNext()["x"];
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor sum = Apply({in[0]}, [](const ir::Values& v) { return ir::ReduceSum(v[0]); });
    return {Operation(AssignAdd(total, tpu::CrossReplicaSum(sum)))};
  };
  const Tensor out = tpu::Shard(computation, {x}, 8)[0];
  Session session = MakeSession();
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  const auto first = session.Run(out);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(session.GetVariableValue("total")->item<float>(), 28);
  const auto looped = session.RunLoop(3, {out});
  ASSERT_TRUE(looped.ok()) << looped.status();
  EXPECT_EQ(session.GetVariableValue("total")->item<float>(), 31 * 16);
}

// Bodies use the shard's own values, also of a placeholder that is sent in slices.
TEST_F(ShardTest, LoopsAndBranchesWithinUseTheShardsValues) {
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor sum = Apply({in[0]}, [](const ir::Values& v) { return ir::ReduceSum(v[0]); });
    const Tensor small =
        Apply({sum}, [](const ir::Values& v) { return ir::Less(v[0], ir::SplatLike(v[0], 6)); });
    const Tensor branch = Cond(
        small, [&] { return Double(in[0]); }, [&] { return in[0]; });
    const Tensors loop = WhileLoop(
        [](const Tensors& at) {
          return Apply({at[0]}, [](const ir::Values& v) {
            return ir::Less(v[0], ir::SplatLike(v[0], 100));
          });
        },
        [&](const Tensors& at) -> Tensors {
          return {Apply({at[0], sum}, [](const ir::Values& v) { return v[0] * 2.0 + v[1]; })};
        },
        {Constant(1.0)});
    return {branch, AsVector(loop[0])};
  };
  const Tensors out = tpu::Shard(computation, {x}, 2);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Session session = MakeSession();
  const auto got = session.Run({out[0], out[1]}, {{x, Iota({4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), ElementsAre(0, 2, 4, 6));  // sums 1 and 5
  std::vector<float> expected;
  for (const float sum : {1.0f, 5.0f}) {
    float value = 1;
    while (value < 100) value = 2 * value + sum;
    expected.push_back(value);
  }
  EXPECT_THAT((*got)[1].values<float>(), ::testing::ElementsAreArray(expected));
}

// ---- Mistakes ----

TEST_F(ShardTest, RejectsBatchesThatShardsDoNotDivide) {
  const auto computation = [](const Tensors& in) -> Fetches { return {in[0]}; };
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const Tensor out = tpu::Shard(computation, {x}, 8)[0];
  const Tensor both = Apply({out, MeanOf(x)}, [](const ir::Values& v) { return v[0] + v[1]; });
  Session session = MakeSession();
  for (const Tensor& fetch : {out, both}) {
    const absl::Status error = session.Run(fetch, {{x, Iota({12})}}).status();
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("'x:0'"), HasSubstr("12 rows"), HasSubstr("8 shards"),
                      HasSubstr("shard_test.cc")));
    // XLA gathers no results of 0 rows.
    EXPECT_THAT(std::string(session.Run(fetch, {{x, Iota({0})}}).status().message()),
                AllOf(HasSubstr("0 rows"), HasSubstr("feed 8 rows or a multiple of them")));
  }
  tpu::Shard(computation, {Constant(Iota({9}))}, 2);
  EXPECT_THAT(Error(), AllOf(HasSubstr("9 rows"), HasSubstr("2 shards")));
}

TEST_F(ShardTest, RunsOnTheCpuDevicesOfTheConfigAndFeedsPlaceholdersWithin) {
  Tensor inner;
  const auto computation = [&](const Tensors& in) -> Fetches {
    inner = Placeholder(DType::kF32, {1}, "inner");
    return {Apply({in[0], inner}, [](const ir::Values& v) { return v[0] * v[1]; })};
  };
  const Tensor out = tpu::Shard(computation, {Constant({1.0, 2.0})}, 2)[0];
  Session session("cpu", {.cpu_devices = 2});
  const auto got = session.Run(out, {{inner, Array::Of<float>({1}, {3})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->values<float>(), ElementsAre(3, 6));
  EXPECT_EQ(tpu::TPUClusterResolver("cpu").NumAccelerators({.cpu_devices = 2}).value().at("CPU"),
            2);
}

TEST_F(ShardTest, RejectsMoreShardsThanDevices) {
  const Tensor out =
      tpu::Shard([](const Tensors&) -> Fetches { return {Constant({1.0})}; }, {}, 8)[0];
  Session session = MakeSession(1);
  EXPECT_THAT(std::string(session.Run(out).status().message()),
              AllOf(HasSubstr("8 shards"), HasSubstr("1 cpu device"), HasSubstr("cpu_devices = 8"),
                    HasSubstr("shard_test.cc")));
}

TEST_F(ShardTest, RejectsShardsOfTwoNumbersInOneRun) {
  const auto one = [](const Tensors&) -> Fetches { return {Constant({1.0})}; };
  const Tensor a = tpu::Shard(one, {}, 2)[0], b = tpu::Shard(one, {}, 4)[0];
  Session session = MakeSession();
  EXPECT_THAT(std::string(session.Run({a, b}).status().message()),
              AllOf(HasSubstr("2 shards"), HasSubstr("4 shards"), HasSubstr("separate")));
  EXPECT_THAT(session.Run(a)->values<float>(), ElementsAre(1, 1));
  EXPECT_THAT(session.Run(b)->values<float>(), ElementsAre(1, 1, 1, 1));
}

TEST_F(ShardTest, RejectsScalarOutputsOfAllShards) {
  const auto scalar = [](const Tensors&) -> Fetches { return {Constant(1.0)}; };
  EXPECT_FALSE(tpu::Shard(scalar, {}, 2)[0].valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("scalar"), HasSubstr("outputs_from_all_shards"),
                             HasSubstr("shard_test.cc")));
}

TEST_F(ShardTest, RejectsValuesOfShardsOutside) {
  const Tensor x = Placeholder(DType::kF32, {8}, "x");
  Tensor inner;
  const auto computation = [&](const Tensors& in) -> Fetches {
    inner = Double(in[0]);
    return {inner};
  };
  tpu::Shard(computation, {x}, 8);
  Session session = MakeSession();
  EXPECT_THAT(std::string(session.Run(inner, {{x, Iota({8})}}).status().message()),
              AllOf(HasSubstr("within tpu::Shard"), HasSubstr("fetched")));
  EXPECT_FALSE(Double(inner).valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("within tpu::Shard"), HasSubstr("return it")));
}

TEST_F(ShardTest, CrossReplicaSumOutsideOfAShardContextNamesTheLine) {
  EXPECT_FALSE(tpu::CrossReplicaSum(Constant(1.0)).valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("outside of a shard context"), HasSubstr("tpu::Shard"),
                             HasSubstr("shard_test.cc")));
}

TEST_F(ShardTest, SetNumberOfShardsMakesAContextOfOneShard) {
  tpu::SetNumberOfShards(8);
  EXPECT_EQ(tpu::NumberOfShards(), 8);
  const Tensor sum = tpu::CrossReplicaSum(Constant(2.0));
  Session session = MakeSession(1);
  EXPECT_EQ(session.Run(sum)->item<float>(), 2);
  tpu::SetNumberOfShards(std::nullopt);
  {
    const tpu::TpuShardContext context(4);
    EXPECT_EQ(tpu::NumberOfShards(), 4);
  }
  EXPECT_EQ(tpu::NumberOfShards(), std::nullopt);
  const tpu::TpuShardContext outer(4), nested(2);
  EXPECT_THAT(Error(), HasSubstr("cannot be nested"));
}

TEST_F(ShardTest, GradientsDoNotFlowInFromOutside) {
  const Variable w(Array::Scalar<float>(3), "w");
  const Tensor x = Placeholder(DType::kF32, {4}, "x");
  Tensor within;
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor y = Apply({w, in[0]}, [](const ir::Values& v) { return v[1] * v[0]; });
    within = Gradients({y}, {w})[0];
    return {y, AsVector(within)};
  };
  const Tensors out = tpu::Shard(computation, {x}, 4);
  EXPECT_TRUE(within.valid());
  // What is computed outside of the outputs has gradients there.
  EXPECT_TRUE(Gradients({Double(out[0])}, {out[0]})[0].valid());
  ASSERT_EQ(Error(), "");
  EXPECT_FALSE(Gradients({Double(out[0])}, {w})[0].valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("the output 'TPUReplicatedOutput' of tpu::Shard"),
                             HasSubstr("compute gradients and minimize in the computation")));
}

TEST_F(ShardTest, AllShardsAreDoneWhenRunReturns) {
  const Variable v(Array::Scalar<float>(0), "v");
  const Tensor x = Placeholder(DType::kF32, {512, 512}, "x");
  const Tensor mean = Apply({x}, [](const ir::Values& in) {
    ir::Value y = in[0];
    for (int i = 0; i < 20; ++i) y = ir::Tanh(y + in[0]);
    return ir::ReduceMean(y);
  });
  // No collective operation: every shard has the value of the feed.
  const Tensor step =
      tpu::Shard([&](const Tensors&) -> Fetches { return {Operation(Assign(v, mean))}; }, {}, 8)[0];
  const Tensor all = tpu::Shard([&](const Tensors&) -> Fetches { return {AsVector(v)}; }, {}, 8)[0];
  Session session = MakeSession();
  Array fed = Array::Zeros(DType::kF32, {512, 512});
  for (int i = 0; i < 10; ++i) {
    std::fill_n(fed.mutable_data<float>(), fed.num_elements(), 0.0f);
    ASSERT_TRUE(session.Run(step, {{x, fed}}).ok());
    std::fill_n(fed.mutable_data<float>(), fed.num_elements(), 1.0f);
    EXPECT_THAT(session.Run(all)->values<float>(), ::testing::Each(0.0f));
  }
}

TEST_F(ShardTest, RejectsWrongArguments) {
  const auto same = [](const Tensors& in) -> Fetches { return {in.begin(), in.end()}; };
  const auto error = [&](const std::function<void()>& build) {
    Graph graph;
    const Graph::DefaultScope scope = graph.AsDefault();
    build();
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error([&] { tpu::Shard(nullptr, {}, 2); }), HasSubstr("empty"));
  EXPECT_THAT(error([&] { tpu::Shard(same, {}, 0); }), HasSubstr("num_shards is 0"));
  EXPECT_THAT(error([&] { tpu::Shard(same, {Tensor()}, 2); }), HasSubstr("input 0 is invalid"));
  EXPECT_THAT(error([&] {
                const Tensor x = Constant({1.0, 2.0});
                tpu::Shard(same, {x, x, x}, 2, {.input_shard_axes = {0, 0}});
              }),
              HasSubstr("2 entries for 3 inputs"));
  EXPECT_THAT(error([&] { tpu::Shard(same, {Constant(1.0)}, 2); }), HasSubstr("no axis 0"));
  EXPECT_THAT(error([&] {
                tpu::Shard(
                    [&](const Tensors& in) -> Fetches {
                      tpu::Rewrite(same, in);
                      return {};
                    },
                    {Constant({1.0, 2.0})}, 2);
              }),
              HasSubstr("nested"));
  EXPECT_THAT(error([&] {
                tpu::SetNumberOfShards(4);
                tpu::Shard(same, {Constant({1.0, 2.0})}, 2);
              }),
              HasSubstr("SetNumberOfShards said 4"));
  EXPECT_THAT(error([&] { tpu::CrossReplicaSum(Constant(true)); }), HasSubstr("outside"));
  EXPECT_THAT(error([&] {
                tpu::Shard([](const Tensors& in) -> Fetches { return {Variable(in[0], "w")}; },
                           {Constant({1.0, 2.0})}, 2);
              }),
              AllOf(HasSubstr("'w'"), HasSubstr("initial value")));
}

// ---- The rest ----

TEST_F(ShardTest, RewriteRunsWholeInputsOnOneDevice) {
  const Tensor x = Placeholder(DType::kF32, {3});
  Variable n(Array::Scalar<int32_t>(0), "n");
  const auto computation = [&](const Tensors& in) -> Fetches {
    return {tpu::CrossReplicaSum(MeanOf(in[0])), Operation(AssignAdd(n, Constant(1)))};
  };
  const Tensors out = tpu::Rewrite(computation, {x});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  ASSERT_EQ(out.size(), 1);
  Session session = MakeSession(1);
  ASSERT_TRUE(session.Run(GlobalVariablesInitializer()).ok());
  EXPECT_EQ(session.Run(out[0], {{x, Iota({3})}})->item<float>(), 1);
  EXPECT_EQ(session.GetVariableValue("n")->item<int32_t>(), 1);
}

TEST_F(ShardTest, SaysHowManyShardsReallyRun) {
  const Tensor x = Placeholder(DType::kF32, {-1});
  const Tensor out = tpu::Shard([](const Tensors& in) -> Fetches { return {in[0]}; }, {x}, 8)[0];
  Session session = MakeSession();
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(session.Run(out, {{x, Iota({16})}}).ok());
  ASSERT_TRUE(session.Run(out, {{x, Iota({16})}}).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            absl::StrCat("session: 8 shards on 8 devices (", session.ListDevices()[0].kind,
                         "), 2 examples each\n"));
}

TEST_F(ShardTest, SystemListsDevices) {
  const Tensor start = tpu::InitializeSystem();
  const Operation stop = tpu::ShutdownSystem();
  Session session = MakeSession(4);
  const auto devices = session.Run(start);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->shape(), Shape({4}));
  EXPECT_THAT(std::string(devices->data<absl::string_view>()[3]), HasSubstr(":3"));
  EXPECT_TRUE(session.Run(stop).ok());
}

TEST(TPUClusterResolver, GivesTheTargetOfASession) {
  EXPECT_EQ(tpu::TPUClusterResolver().Master(), "");
  EXPECT_EQ(tpu::TPUClusterResolver("local").GetMaster(), "");
  EXPECT_EQ(tpu::TPUClusterResolver("10.0.0.2:8470").Master(), "grpc://10.0.0.2:8470");
  const tpu::TPUClusterResolver remote("grpc://10.0.0.2:8470");
  EXPECT_EQ(remote.Master(), "grpc://10.0.0.2:8470");
  EXPECT_THAT(remote.ClusterSpec().at("worker"), ElementsAre("10.0.0.2:8470"));
  EXPECT_TRUE(tpu::TPUClusterResolver().ClusterSpec().empty());
  EXPECT_FALSE(remote.NumAccelerators().ok());
}

}  // namespace shard_test
}  // namespace penstock::session
