// What comes from the host, replicas, constants, and executions that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/run/host_input.h"
#include "penstock/session/session.h"
#include "penstock/session/tpu.h"

namespace penstock::session {
namespace execution_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExecutionTest : public testing::Test {
 protected:
  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

std::vector<float> Vector(const absl::StatusOr<Array>& array) {
  if (!array.ok()) ADD_FAILURE() << array.status();
  if (!array.ok()) return {};
  return {array->values<float>().begin(), array->values<float>().end()};
}

// ---- Host inputs ----

// Batches [0], [1, 1], [2, 2, 2], then the end.
class GrowingBatches final : public HostInput {
 public:
  absl::StatusOr<std::vector<Array>> Next() override {
    if (next_ == 3) return absl::OutOfRangeError("end of sequence");
    const std::vector<float> values(next_ + 1, static_cast<float>(next_));
    ++next_;
    return std::vector<Array>{Array::Of<float>({next_}, values)};
  }

 private:
  int64_t next_ = 0;
};
struct GrowingSource final : HostInputSource {
  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t) override {
    return std::make_unique<GrowingBatches>();
  }
};

Tensor MakeBatches() {
  Node* const node =
      Graph::Default()->AddNode({.type = "IteratorGetNext",
                                 .outputs = std::vector<Node::Output>{{DType::kF32, Shape({-1})}},
                                 .stateful = true,
                                 .extra = std::make_shared<GrowingSource>()},
                                {}, nullptr, SourceLocation::Current());
  return Tensor(node, 0);
}

TEST_F(ExecutionTest, DrawsOneBatchForEachRunThatNeedsIt) {
  const Tensor batch = MakeBatches();
  const Tensor sum = ReduceSum(batch), twice = Add(sum, ReduceSum(batch));
  Session session("", {.client = runtime::TestClient(1)});
  const auto first = session.Run({sum, twice, batch});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)[1].item<float>(), 0);
  EXPECT_THAT(Vector((*first)[2]), ElementsAre(0));
  ASSERT_EQ(session.Run(NoOp()), absl::OkStatus());  // draws none
  EXPECT_EQ(session.Run(twice)->item<float>(), 4);
  // A feed takes the batch's place, and its shape is free.
  EXPECT_EQ(session.Run(sum, {{batch, Array::Of<float>({1}, {9})}})->item<float>(), 9);
  EXPECT_EQ(session.Run(sum)->item<float>(), 6);
  const absl::Status end = session.Run(sum).status();
  EXPECT_EQ(end.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(end.message(), "IteratorGetNext: end of sequence");
  Session other("", {.client = runtime::TestClient(1)});
  EXPECT_EQ(other.Run(sum)->item<float>(), 0);
}

// ---- Replicas ----

TEST_F(ExecutionTest, RunsReplicasWithTheSameVariables) {
  const Variable w(Array::Scalar(1.0f), "w");
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  // Sum over replicas of (replica + 1) * w * x.
  const Tensor total = tpu::Shard(
      [&](const Tensors&) -> Fetches {
        return {AddOp("Total", {x, w}, "", SourceLocation::Current(), [](const ir::Values& in) {
          const ir::Value replica = ir::Convert(ir::ReplicaId(*in[0].graph()), DType::kF32);
          return ir::AllReduce((replica + 1.0) * in[1] * in[0]);
        })};
      },
      {}, 2, {.outputs_from_all_shards = {false}})[0];
  const Tensor replicated = AssignAdd(w, ReduceSum(total));
  const Tensor single = Multiply(w, Constant(10.0)), twice = Assign(w, Multiply(w, Constant(2.0)));
  Session session("", {.client = runtime::TestClient(2)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const FeedDict feeds{{x, Array::Of<float>({2}, {1, 2})}};
  EXPECT_THAT(Vector(session.Run(total, feeds)), ElementsAre(3, 6));
  EXPECT_EQ(session.Run(replicated, feeds)->item<float>(), 10);  // 1 + 9 * 1
  EXPECT_EQ(session.Run(single)->item<float>(), 100);            // on one replica
  EXPECT_EQ(session.Run(twice)->item<float>(), 20);
  EXPECT_EQ(session.Run(replicated, feeds)->item<float>(), 200);  // 20 + 9 * 20: all replicas
}

// ---- Constants ----

// Broadcasts x to the shape in `dims`, which must be known when the program is compiled.
Tensor BroadcastTo(const Tensor& x, const Tensor& dims) {
  Node* const node = Graph::Default()->AddNode(
      {.type = "BroadcastTo", .outputs = std::vector<Node::Output>{{x.dtype(), PartialShape()}}},
      {x, dims},
      [](Lowering& l, const ir::Values& in) -> ir::Values {
        const absl::StatusOr<Array> dims = l.ConstantOf(l.node(), 1, in[1]);
        if (!dims.ok()) {
          l.Fail(dims.status());
          return {};
        }
        return {ir::BroadcastTo(in[0], Shape({dims->Cast(DType::kI64)->item<int64_t>()}))};
      },
      {"shape.cc", 6});
  return Tensor(node, 0);
}

TEST_F(ExecutionTest, ComputesShapesWhenCompiling) {
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const Tensor shape = AddOp("Shape", {x}, "", SourceLocation::Current(), [](const ir::Values& in) {
    return ir::Constant(*in[0].graph(),
                        Array::Of<int32_t>({1}, {static_cast<int32_t>(in[0].shape().dim(0))}));
  });
  const Tensor twice = Multiply(shape, Constant(2));
  const Tensor y = BroadcastTo(Constant(7.0), twice);
  Session session("", {.client = runtime::TestClient(1)});
  for (int64_t size : {1, 3}) {
    const auto got = session.Run(y, {{x, Array::Zeros(DType::kF32, {size})}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->shape(), Shape({2 * size}));
  }
  const Tensor n = Placeholder(DType::kI32, {1}, "n");
  EXPECT_THAT(
      std::string(session.Run(BroadcastTo(Constant(7.0), n), {{n, Array::Of<int32_t>({1}, {2})}})
                      .status()
                      .message()),
      HasSubstr("BroadcastTo 'BroadcastTo_1' (shape.cc:6): input 1, 'n:0', must be known "
                "when the program is compiled, but it depends on fed values, variables or "
                "random numbers; compute it from constants and shapes"));
}

// ---- Failures ----

// A client whose programs fail on demand, before the execution begins or after.
class FailingClient final : public runtime::CountingClient {
 public:
  using CountingClient::CountingClient;
  enum class When { kNever, kBefore, kAfter } when = When::kNever;

  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    PENSTOCK_ASSIGN_OR_RETURN(auto inner, CountingClient::Compile(program, options));
    return std::make_shared<Failing>(this, inner);
  }

 private:
  class Failing final : public runtime::Executable {
   public:
    Failing(FailingClient* client, std::shared_ptr<runtime::Executable> inner)
        : client_(client), inner_(std::move(inner)) {}
    const ir::Program& program() const override { return inner_->program(); }
    absl::StatusOr<std::vector<runtime::Buffers>> Execute(
        absl::Span<const runtime::Buffers> arguments) override {
      if (client_->when == When::kBefore) return absl::InternalError("before");
      auto results = inner_->Execute(arguments);
      if (client_->when == When::kAfter) return absl::InternalError("out of power");
      return results;
    }
    absl::StatusOr<runtime::MemoryStats> Memory() const override { return inner_->Memory(); }
    absl::StatusOr<runtime::CostEstimate> Cost() const override { return inner_->Cost(); }

   private:
    FailingClient* const client_;
    const std::shared_ptr<runtime::Executable> inner_;
  };
};

TEST_F(ExecutionTest, AFailureLosesOnlyDonatedVariables) {
  auto client = std::make_shared<FailingClient>(runtime::TestClient(1));
  const Variable w(Array::Scalar(1.0f), "w"), b(Array::Scalar(2.0f), "b");
  const Operation step = Group({AssignAdd(w, b), Assign(b, Constant(9.0))});
  Session session("", {.client = client});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  client->when = FailingClient::When::kBefore;
  EXPECT_EQ(session.Run(step).message(), "before");
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 1);
  client->when = FailingClient::When::kAfter;
  EXPECT_EQ(session.Run(step).message(),
            "out of power; the values of 'w', 'b' are lost with it: restore or initialize them");
  EXPECT_THAT(session.UninitializedVariables(), ElementsAre("w", "b"));
  client->when = FailingClient::When::kNever;
  EXPECT_THAT(std::string(session.Run(step).message()), HasSubstr("have no value"));
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(step), absl::OkStatus());
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 3);
}

}  // namespace
}  // namespace execution_test
}  // namespace penstock::session
