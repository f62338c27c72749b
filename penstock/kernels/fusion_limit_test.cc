#include "penstock/kernels/fusion_limit.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace fusion_limit_test {

using base::DType;
using ir::Value;
using ir::Values;

const ir::TensorType kMatrix{DType::kF32, {24, 24}};

// A residual stream: each layer adds a product and a bias, computed from the stream itself.
Value Stream(Value h, const Values& weights, const Values& biases) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const Value mean = ir::ReduceMean(h, {1}, /*keep_dims=*/true);
    h = h + ir::MatMul(h - mean, weights[i]) + biases[i];
  }
  return h;
}

void FillWithStream(ir::Graph& graph, int layers, DType dtype = DType::kF32) {
  Values weights, biases;
  const Value h = graph.Parameter({dtype, {24, 24}}, "h");
  for (int i = 0; i < layers; ++i) {
    weights.push_back(graph.Parameter({dtype, {24, 24}}, "w"));
    biases.push_back(graph.Parameter({dtype, {24}}, "b"));
  }
  graph.SetResults({Stream(h, weights, biases)});
}

int Calls(const ir::Graph& graph) {
  int calls = 0;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const ir::Node& node = graph.node(id);
    calls += ir::OpName(node) == "stablehlo.custom_call" &&
             node.attributes.Get<std::string>("target") == kInMemoryTarget;
    for (const auto& region : node.regions) calls += Calls(*region);
  }
  return calls;
}

// Maximum number of parameters and results of calls, products, and reductions that a value depends
// on through elementwise operations alone, which XLA may fuse into one kernel.
size_t MostReads(const ir::Graph& graph) {
  std::vector<std::set<int>> reads(graph.num_nodes());
  size_t max_reads = 0;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const ir::Node& node = graph.node(id);
    if (ir::IsElementwise(node) || ir::OpName(node) == "stablehlo.broadcast_in_dim") {
      for (const Value& operand : node.operands) {
        reads[id].insert(reads[operand.node_id()].begin(), reads[operand.node_id()].end());
      }
      max_reads = std::max(max_reads, reads[id].size());
    } else if (node.results[0].shape.rank() > 0) {
      reads[id] = {id};
    }
  }
  return max_reads;
}

TEST(FusionLimit, BoundsReadsAlongAResidualStream) {
  for (const int layers : {8, 32}) {
    ir::Graph graph("stream");
    FillWithStream(graph, layers);
    EXPECT_GE(MostReads(graph), 2 * layers);
    const auto limited = LimitFusion(graph);
    ASSERT_TRUE(limited->status().ok()) << limited->status();
    EXPECT_LE(MostReads(*limited), 2 * kMaxFusedReads);
    EXPECT_GT(Calls(*limited), layers / 3);
    EXPECT_LE(Calls(*limited), layers);
  }
}

TEST(FusionLimit, PreservesResults) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    ir::Graph graph("stream");
    FillWithStream(graph, 6, dtype);
    ASSERT_GT(Calls(*TestLowering().Lower(graph)), 0);
    const bool wide = base::ByteWidth(dtype) > 2;
    ExpectSameWithAndWithout(
        graph, {.calls = -2, .tolerance = wide ? 1e-5 : 0.05, .low = -0.2, .high = 0.2});
  }
}

// The sum is also a result, whose buffer the next step uses.
TEST(FusionLimit, StoresAValueThatIsAlsoAResult) {
  ir::Graph graph("result");
  Values p;
  for (int i = 0; i < 6; ++i) p.push_back(graph.Parameter(kMatrix, "p"));
  const Value sum = p[0] + p[1] + p[2] + p[3] + p[4] + p[5];
  graph.SetResults({sum, sum * 2.0, ir::MatMul(sum, sum), sum});
  EXPECT_EQ(Calls(*LimitFusion(graph)), 1);
  ExpectSameWithAndWithout(graph, {.calls = -2});
}

TEST(FusionLimit, AppliesInsideLoops) {
  ir::Graph graph("loop");
  const Value h = graph.Parameter(kMatrix, "h"), b = graph.Parameter({DType::kF32, {24}}, "b");
  const Value start = ir::Splat(graph, {DType::kI32, {}}, 0);
  const Values done = ir::While(
      {start, h, b},
      [](ir::Graph&, const Values& at) { return ir::Less(at[0], ir::SplatLike(at[0], 3)); },
      [](ir::Graph&, const Values& at) -> Values {
        const Values weights(12, at[1] * 0.01), biases(12, at[2]);
        return {at[0] + 1.0, Stream(at[1], weights, biases), at[2]};
      });
  graph.SetResults({done[1]});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_GT(Calls(*LimitFusion(graph)), 1);
  ExpectSameWithAndWithout(graph, {.calls = -2, .tolerance = 1e-4});
}

TEST(FusionLimit, IgnoresValuesWithOneConsumerOrFewReads) {
  ir::Graph graph("small");
  Values p, s;
  for (int i = 0; i < 8; ++i) {
    p.push_back(graph.Parameter(kMatrix, "p"));
    s.push_back(graph.Parameter({DType::kF32, {}}, "s"));
  }
  Value once = p[0], few = p[0] * p[1];
  for (int i = 1; i < 8; ++i) once = once + p[i];
  for (int i = 0; i < 8; ++i) few = few * s[i];
  graph.SetResults({once, few, ir::MatMul(few, few)});
  EXPECT_EQ(Calls(*LimitFusion(graph)), 0);
}

}  // namespace fusion_limit_test
}  // namespace penstock::kernels
