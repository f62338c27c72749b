#include "penstock/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace graph_test {

using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Graph, KeepsFirstErrorWithLayerAndLine) {
  Graph graph("errors");
  const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
  Value y;
  int line = 0;
  {
    const Scope net(graph, "resnet");
    const Scope layer(graph, "block2/conv1", base::SourceLocation::Current());
    line = __LINE__ - 1;
    y = MatMul(x, x);
    y = Tanh(y);
  }
  {
    const Scope later(graph, "later");
    EXPECT_FALSE((x + Reshape(x, {5})).valid());
  }
  EXPECT_FALSE(y.valid());
  EXPECT_FALSE(ReduceSum(y).valid());
  EXPECT_THAT(ErrorOf(graph), HasSubstr(absl::StrCat("layer \"resnet/block2/conv1\" (", __FILE__,
                                                     ":", line, "): dot_general")));
  EXPECT_THAT(ErrorOf(graph), HasSubstr("lhs f32[2,3] axis 1 is 3, rhs f32[2,3] axis 0 is 2"));
  EXPECT_THAT(ErrorOf(graph), Not(HasSubstr("later")));
}

TEST(Graph, ScopesNestAndEnd) {
  Graph graph("scopes");
  const Value x = graph.Parameter({DType::kF32, {}}, "x");
  const auto scope_of = [&](Value v) { return graph.origins()[v.node().origin].scope; };
  EXPECT_EQ(scope_of(x), "");
  {
    const Scope a(graph, "a");
    EXPECT_EQ(scope_of(-x), "a");
    {
      const Scope b(graph, "b");
      EXPECT_EQ(scope_of(-x), "a/b");
      const Scope unnamed(graph, "");
      EXPECT_EQ(scope_of(-x), "a/b");
    }
    EXPECT_EQ(scope_of(-x), "a");
  }
  EXPECT_EQ(scope_of(-x), "");
}

TEST(Graph, InvalidValuesPropagateThroughEveryOperation) {
  // The first error invalidates everything built from it, without a crash.
  Graph graph("invalid");
  const Value x = graph.Parameter({DType::kF32, {2, 2}}, "x"), bad;
  const Value i = graph.Parameter({DType::kI32, {}}, "i"),
              p = graph.Parameter({DType::kBool, {}}, "p");
  const auto same = [](Graph&, const Values& s) { return s; };
  const Value values[] = {Tanh(bad),
                          Square(bad),
                          bad + x,
                          x + bad,
                          bad * 2.0,
                          2.0 - bad,
                          -bad,
                          Select(bad, x, x),
                          Select(p, x, bad),
                          Clamp(bad, x, x),
                          Convert(bad, DType::kF64),
                          BitcastConvert(bad, DType::kU32),
                          StopGradient(bad),
                          Equal(bad, x),
                          SplatLike(bad, 1),
                          BroadcastInDim(bad, {2}, {}),
                          BroadcastTo(bad, {2}),
                          Reshape(bad, {2}),
                          Transpose(bad, {}),
                          ExpandDims(bad, 0),
                          Squeeze(bad, {0}),
                          Reverse(bad, {0}),
                          Concatenate({x, bad}, 0),
                          Slice(bad, {}, {}),
                          SliceAxis(bad, 0, 0, 1),
                          Pad(bad, 0, {}),
                          DynamicSlice(bad, {i, i}, {1, 1}),
                          DynamicSlice(x, {i, bad}, {1, 1}),
                          DynamicUpdateSlice(x, bad, {i, i}),
                          DotGeneral(bad, x, {}),
                          MatMul(x, bad),
                          Convolution(bad, x),
                          Convolution(x, bad),
                          ReduceSum(bad),
                          ReduceMean(bad),
                          ReduceMax(bad, {1}, true),
                          ArgMax(bad, 0),
                          ReduceWindow(bad, WindowReducer::kMax, {}),
                          Relu(bad),
                          Softmax(bad),
                          LogSoftmax(bad),
                          LogSumExp(bad, {}),
                          Softplus(bad),
                          Take(bad, i, 0),
                          Take(x, bad, 0),
                          OneHot(bad, 2, DType::kF32),
                          FoldIn(bad, 1),
                          FoldIn(bad, i),
                          RandomBits(bad, {DType::kU32, {}}),
                          RandomUniform(bad, {DType::kF32, {}}),
                          RandomNormal(bad, {DType::kF32, {}}),
                          RandomTruncatedNormal(bad, {DType::kF32, {}}),
                          RandomBernoulli(bad, {}, 0.5),
                          RandomInt(bad, {DType::kI32, {}}, 0, 2),
                          AllReduce(bad),
                          AllReduce({x, bad})[1],
                          SplitKey(bad, 2)[1],
                          Threefry2x32(bad, i, i).first,
                          While(
                              {x, bad}, [](Graph&, const Values&) { return Value(); }, same)[0],
                          For(3, {bad}, [](Graph&, Value, const Values& s) { return s; })[0],
                          CustomCall(graph, "t", {bad}, {{DType::kF32, {}}})[0]};
  for (size_t k = 0; k < std::size(values); ++k) EXPECT_FALSE(values[k].valid()) << "number " << k;
  for (const Value& v : Cond(bad, {x}, same, same)) EXPECT_FALSE(v.valid());
  EXPECT_TRUE(graph.status().ok()) << "the operation that made the first invalid value reported it";
}

TEST(Graph, RejectsValuesOfAnotherGraph) {
  Graph a("a"), b("b");
  const Value x = a.Parameter({DType::kF32, {}}, "x"), y = b.Parameter({DType::kF32, {}}, "y");
  EXPECT_FALSE((x + y).valid());
  EXPECT_THAT(ErrorOf(a),
              HasSubstr("an operand of stablehlo.add belongs to another graph than 'a'"));
  b.SetResults({x});
  EXPECT_THAT(ErrorOf(b), HasSubstr("result 0 belongs to another graph than 'b'"));
}

TEST(Graph, InlineCopiesDependenciesOfResults) {
  Graph body("body");
  const Value p = body.Parameter({DType::kF32, {2}}, "p"),
              q = body.Parameter({DType::kF32, {2}}, "q");
  {
    const Scope scope(body, "inner");
    body.SetResults({p * 2.0, ReduceSum(Exp(p))});
  }
  Exp(q);  // dead code
  Graph graph("outer");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const std::vector<Value> out = graph.Inline(body, {x, Value()});
  ASSERT_EQ(out.size(), 2u) << graph.status();
  EXPECT_EQ(out[1].type().ToString(), "f32[]");
  EXPECT_EQ(graph.origins()[out[0].node().origin].scope, "inner");
  EXPECT_EQ(graph.num_nodes(), 5);  // x, splat, multiply, exp, sum
}

TEST(Graph, EveryOpDefIsComplete) {
  absl::flat_hash_set<const OpDef*> seen;
  for (const OpDef* op : AllOps()) {
    EXPECT_TRUE(seen.insert(op).second) << op->name << " is listed twice";
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->print != nullptr, op->decompose != nullptr)
        << op->name << " is printed, or taken apart before printing";
    EXPECT_FALSE(op->gradient != nullptr && op->zero_gradient)
        << op->name << " defines its gradient twice";
  }
  EXPECT_GT(seen.size(), 60u);
}

TEST(Graph, TypesPrintAsStableHloNamesThem) {
  EXPECT_EQ((TensorType{DType::kF32, {128, 10}}).ToString(), "f32[128,10]");
  EXPECT_EQ((TensorType{DType::kBool, {}}).ToString(), "i1[]");
  EXPECT_EQ((TensorType{DType::kU8, {3}}).ToString(), "ui8[3]");
}

TEST(Graph, AttributesAreSortedAndReplaced) {
  Attributes a{{"b", int64_t{1}}, {"a", true}};
  a.Set("b", int64_t{2});
  a.Set("c", std::string("x"));
  std::string names;
  for (const auto& [name, value] : a) names += name;
  EXPECT_EQ(names, "abc");
  EXPECT_EQ(a.Get<int64_t>("b"), 2);
  EXPECT_FALSE(a.Has("d"));
}

// An operation without operands has no graph to report its error to; the graph of its result gets
// it.
TEST(Graph, EmptyOperandsGiveEmptyResults) {
  Graph graph("nothing");
  EXPECT_FALSE(Concatenate({}, 0).valid());
  EXPECT_FALSE(AllFinite({}).valid());
  EXPECT_TRUE(Sort(Values{}).empty());
  graph.SetResults({Concatenate({}, 0)});
  EXPECT_FALSE(graph.status().ok());
}

TEST(Graph, GradientsRequireOneCotangentPerValue) {
  Graph graph("gradients");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Values ys{x, x}, xs{x}, cotangents{x};
  EXPECT_FALSE(Gradients(ys, xs, cotangents)[0].valid());
  EXPECT_FALSE(graph.status().ok());
}

// A program that is built again takes its nodes from the one before, as far as they are the same.
TEST(Graph, RestartBuildsTheSameProgramFromItsTemplate) {
  Graph graph("again");
  const auto build = [&](double factor, const char* scope, int line) {
    const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
    const Scope layer(graph, scope, base::SourceLocation{"a.cc", line});
    const Value y = ReduceSum(Tanh(x) * factor);
    graph.SetResults({y, Gradients(y, {x})[0]});
    EXPECT_TRUE(graph.status().ok()) << graph.status();
  };
  const auto restart = [&](double factor, const char* scope, int line) {
    graph.Restart();
    EXPECT_EQ(graph.num_nodes(), 0);
    EXPECT_EQ(graph.origins().size(), 1u);
    EXPECT_TRUE(graph.parameters().empty() && graph.results().empty());
    build(factor, scope, line);
    return graph.num_divergences();
  };
  build(2, "a", 1);
  const int nodes = graph.num_nodes();
  const Node* const last = &graph.node(nodes - 1);
  EXPECT_EQ(restart(2, "a", 1), 0);
  EXPECT_EQ(graph.num_nodes(), nodes);
  EXPECT_EQ(&graph.node(nodes - 1), last);
  // Lines and scopes are those of the program that was built last.
  EXPECT_GT(restart(2, "b", 7), 0);
  EXPECT_EQ(graph.origins()[graph.node(nodes - 1).origin].ToString(), "layer \"b\" (a.cc:7)");
  const int64_t before = graph.num_divergences();
  EXPECT_EQ(restart(2, "b", 7), before);
  EXPECT_GT(restart(-0.0, "b", 7), before);
  EXPECT_EQ(graph.num_nodes(), nodes);
  // An error is the same error again.
  for (int i = 0; i < 2; ++i) {
    graph.Restart();
    const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
    EXPECT_FALSE(MatMul(x, x).valid());
    EXPECT_THAT(ErrorOf(graph), HasSubstr("dot_general"));
  }
}

TEST(Graph, RepeatAddsTheNodesOfTheTemplate) {
  Graph graph("repeat");
  const auto begin = [&] {
    const Value x = graph.Parameter({DType::kF32, {2}}, "x");
    return Tanh(x);
  };
  const Value y = begin(), z = Exp(y) * 3;
  const Graph::Position end = graph.position();
  Tanh(z);
  graph.Restart();
  begin();
  graph.Repeat(end);
  EXPECT_EQ(graph.position(), end);
  EXPECT_EQ(OpName(z.node()), "stablehlo.multiply");
  EXPECT_EQ(Tanh(z).node_id(), z.node_id() + 1);
  EXPECT_EQ(graph.num_divergences(), 0);
  graph.Restart();
  Exp(begin());  // the template's
  graph.Parameter({DType::kF32, {2}}, "not the template's");
  EXPECT_EQ(graph.num_divergences(), 1);
}

}  // namespace graph_test
}  // namespace penstock::ir
