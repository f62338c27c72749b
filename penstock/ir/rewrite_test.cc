#include "penstock/ir/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace rewrite_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Rewrites tanh to sine.
Values TanhToSin(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  if (OpName(node) != "stablehlo.tanh") return {};
  return {Sin(r.Replacement(node.operands[0]))};
}

TEST(Rewrite, ReachesLoopsAndKeepsParametersResultsAndNames) {
  Graph graph("loops", 2);
  const Value unused = graph.Parameter({DType::kF32, {7}}, "unused");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Values out = For(3, {x}, [](Graph&, Value, const Values& s) { return Values{Tanh(s[0])}; });
  graph.SetResults({out[0], x}, {"y", "same"});
  const auto rewritten = Rewrite(graph, TanhToSin);
  ASSERT_TRUE(rewritten->status().ok()) << rewritten->status();
  const auto program = PrintStableHlo(*rewritten);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, HasSubstr("stablehlo.sine"));
  EXPECT_THAT(program->text, Not(HasSubstr("stablehlo.tanh")));
  EXPECT_THAT(program->parameter_names, ElementsAre("unused", "x"));
  EXPECT_THAT(program->result_names, ElementsAre("y", "same"));
  EXPECT_EQ(program->num_replicas, 2);
  EXPECT_TRUE(unused.valid());
}

TEST(Rewrite, KeepsTextOfUnchangedNodes) {
  Graph graph("same");
  const Value x = graph.Parameter({DType::kF32, {2, 2}}, "x");
  Value y;
  {
    const Scope scope(graph, "layer", base::SourceLocation::Current());
    y = Exp(MatMul(x, x));
    Log(x);  // dead code
  }
  graph.SetResults({Cond(
      Greater(ReduceSum(y), ReduceSum(x)), {y},
      [](Graph&, const Values& s) { return Values{s[0] * 2.0}; },
      [](Graph&, const Values& s) { return Values{-s[0]}; })[0]});
  const auto copy = Rewrite(graph, [](Rewriter&, int) { return Values(); });
  EXPECT_EQ(PrintStableHlo(graph)->text, PrintStableHlo(*copy)->text);
  EXPECT_LT(copy->num_nodes(), graph.num_nodes());
}

TEST(Rewrite, ReportsUsersOfAValue) {
  Graph graph("users");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Value y = Exp(x);
  const Value z = y * y;
  Tanh(y);  // dead code
  graph.SetResults({z, y});
  Graph to("to");
  const Rewriter r(graph, to);
  EXPECT_THAT(r.Users(y.node_id(), 0), ElementsAre(Rewriter::kResult, z.node_id()));
  EXPECT_THAT(r.Users(x.node_id(), 0), ElementsAre(y.node_id()));
}

TEST(Rewrite, SubstituteRecomputesDependents) {
  testing::Checks checks;
  const Value x = checks.Input(testing::Make(DType::kF32, {2}, {1, 2}));
  const Value a = x * 3.0, b = a + 1.0;
  const Value other = x * x;  // independent of y
  const Value y = Cond(
      Greater(ReduceSum(a), ReduceSum(x)), {b, other},
      [](Graph&, const Values& s) { return Values{s[0] - s[1]}; },
      [](Graph&, const Values& s) { return Values{s[0]}; })[0];
  const Value z = Substitute(y * a, {a, other}, {x * 10.0, other});
  checks.Expect("z", z, testing::Make(DType::kF32, {2}, {(11 - 1) * 10, (21 - 4) * 20}));
  checks.Expect("y stays", y, testing::Make(DType::kF32, {2}, {4 - 1, 7 - 4}));
  EXPECT_EQ(Substitute(other, {a}, {b}), other);
  EXPECT_EQ(Substitute(a, {a}, {b}), b);
  checks.Run();
}

TEST(Rewrite, RejectsReplacementOfAnotherType) {
  Graph graph("wrong");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  graph.SetResults({Tanh(x)});
  const auto rewritten = Rewrite(graph, [](Rewriter& r, int id) -> Values {
    const Node& node = r.from().node(id);
    if (OpName(node) != "stablehlo.tanh") return {};
    return {Convert(r.Replacement(node.operands[0]), DType::kF64)};
  });
  EXPECT_THAT(testing::ErrorOf(*rewritten), HasSubstr("was rewritten to f64[2]"));
}

TEST(Composites, AreDecomposedInsideLoops) {
  Graph graph("composites");
  const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
  const Values out = For(2, {x}, [](Graph&, Value, const Values& s) {
    return Values{BatchNormTraining(s[0], Value(), Value(), Value()).y};
  });
  graph.SetResults({Gradients(ReduceSum(Square(out[0])), {x})[0]});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_TRUE(HasComposites(graph));
  EXPECT_FALSE(HasComposites(*Decompose(graph)));
  const auto got = testing::Run(graph, {testing::RandomArray({2, 3}, 1, -2, 2, DType::kF32)});
  EXPECT_TRUE(got.ok()) << got.status();
}

}  // namespace rewrite_test
}  // namespace penstock::ir
