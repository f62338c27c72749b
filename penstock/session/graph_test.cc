#include "penstock/session/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::session {
namespace graph_test {
namespace {

using ::testing::HasSubstr;

class GraphTest : public testing::Test {
 protected:
  std::string Error() const { return std::string(graph_.status().message()); }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

TEST_F(GraphTest, InfersExtentsThatAreKnown) {
  const Tensor x = Placeholder(DType::kF32, {-1, 6}, "x");
  const Tensor w = Constant(Array::Zeros(DType::kF32, {6, 4}));
  EXPECT_EQ(MatMul(x, w).shape().ToString(), "[?,4]");
  EXPECT_EQ(Reshape(x, {-1, 2, 3}).shape().ToString(), "[?,2,3]");
  EXPECT_EQ(ReduceSum(x).shape().ToString(), "[]");
  EXPECT_EQ(Add(w, w).shape().ToString(), "[6,4]");
  // Broadcasting with a known extent decides.
  const Tensor any = Placeholder(DType::kF32, {-1, -1}, "any");
  EXPECT_EQ(Add(any, w).shape().ToString(), "[6,4]");
  EXPECT_EQ(MatMul(any, w).shape().ToString(), "[?,4]");
  EXPECT_EQ(Add(any, x).shape().ToString(), "[?,6]");
  // Only 20 elements are possible, or as many as x has.
  EXPECT_EQ(Reshape(any, {4, 5}).shape().rank(), 2);
  EXPECT_EQ(graph_.status(), absl::OkStatus());
}

TEST_F(GraphTest, AnUnknownRankStaysUnknown) {
  const Tensor x = Placeholder(DType::kF32);
  const Tensor y = Add(x, Constant(1.0));
  EXPECT_EQ(y.dtype(), DType::kF32);
  EXPECT_FALSE(y.shape().has_rank());
  const Tensor squeezed =
      AddOp("Squeeze", {Placeholder(DType::kF32, {-1, 1, 4})}, "", {}, [](const ir::Values& in) {
        ir::Axes axes;
        for (int i = 0; i < in[0].rank(); ++i) {
          if (in[0].shape().dim(i) == 1) axes.push_back(i);
        }
        return ir::Squeeze(in[0], axes);
      });
  EXPECT_FALSE(squeezed.shape().has_rank());
}

TEST_F(GraphTest, NamesTheLineOfAMistake) {
  const Tensor x = Placeholder(DType::kF32, {-1, 5}, "x");
  const NameScope layer("layer");
  const Tensor bad = MatMul(x, Constant(Array::Zeros(DType::kF32, {4, 3})), {}, {"train.cc", 12});
  EXPECT_FALSE(bad.valid());
  EXPECT_THAT(Error(), HasSubstr("MatMul 'layer/MatMul' (train.cc:12): given float32[?,5] and "
                                 "float32[4,3]: "));
  EXPECT_THAT(Error(), HasSubstr("f32[?,5]"));
  // The first error stays.
  MatMul(bad, x);
  EXPECT_THAT(Error(), HasSubstr("(train.cc:12)"));
}

TEST_F(GraphTest, ConvertsExceptionsOfUserFunctions) {
  AddOp("Odd", {Constant(1.0)}, "", {"odd.cc", 3}, [](const ir::Values& in) {
    return ir::Value(in[0].shape().dim(7) > 0 ? in[0] : ir::Value());
  });
  EXPECT_THAT(Error(), HasSubstr("Odd 'Odd' (odd.cc:3): given float32[]: threw "));
}

TEST_F(GraphTest, RejectsInputsOfAnotherGraph) {
  Graph other;
  Tensor foreign;
  {
    const auto scope = other.AsDefault();
    foreign = Constant(1.0, "foreign");
  }
  const Tensor sum = Add(Constant(2.0), foreign);
  EXPECT_FALSE(sum.valid());
  EXPECT_THAT(Error(), HasSubstr("input 1, 'foreign:0', belongs to another graph; build all "
                                 "operations of a program in one graph"));
}

TEST_F(GraphTest, RejectsInvalidTensors) {
  Add(Constant(2.0), Tensor());
  EXPECT_THAT(Error(), HasSubstr("input 1 is an invalid tensor"));
}

TEST_F(GraphTest, RejectsNamesThatTensorFlowRejects) {
  Constant(1.0, "two words");
  EXPECT_THAT(Error(), HasSubstr("Const 'two words'"));
}

// The names are those of TensorFlow 1.15.
TEST_F(GraphTest, MakesNamesUniqueAsTensorFlowDoes) {
  EXPECT_EQ(Constant(1.0, "c").name(), "c:0");
  EXPECT_EQ(Constant(1.0, "c").name(), "c_1:0");
  EXPECT_EQ(Constant(1.0, "C").name(), "C_2:0");
  EXPECT_EQ(Constant(1.0).name(), "Const:0");
  {
    const NameScope scope("layer");
    EXPECT_EQ(scope.name(), "layer");
    EXPECT_EQ(Constant(1.0, "c").name(), "layer/c:0");
    const NameScope inner("inner");
    EXPECT_EQ(Constant(1.0, "c").name(), "layer/inner/c:0");
    const NameScope top("");
    EXPECT_EQ(Constant(1.0, "c").name(), "c_3:0");
  }
  {
    const NameScope scope("layer");
    EXPECT_EQ(Constant(1.0, "c").name(), "layer_1/c:0");
  }
  const NameScope again("layer/");
  EXPECT_EQ(Constant(1.0, "c").name(), "layer/c_1:0");
}

TEST_F(GraphTest, FindsOperationsByName) {
  const Tensor loss = Constant(1.0, "train/loss");
  EXPECT_EQ(graph_.GetTensorByName("train/loss:0").value(), loss);
  EXPECT_EQ(graph_.GetOperationByName("train/loss").value(), Operation(loss));
  EXPECT_EQ(graph_.GetOperationByName("loss").status().message(),
            "the graph has no operation 'loss'; similar names: train/loss");
  EXPECT_EQ(graph_.GetTensorByName("train/loss:1").status().message(),
            "'train/loss:1': the operation has 1 outputs");
  EXPECT_THAT(std::string(graph_.GetTensorByName("train/loss").status().message()),
              HasSubstr("is not the name of a tensor"));
}

TEST_F(GraphTest, AddsControlDependenciesOfAllScopes) {
  const Operation a = Constant(1.0, "a"), b = Constant(2.0, "b");
  const ControlDependencies outer(Operations{b});
  const Tensor c = Constant(3.0);
  {
    const ControlDependencies inner(Operations{a, b});
    EXPECT_EQ(Constant(4.0).node()->control_inputs.size(), 2u);
    const ControlDependencies none(std::nullopt);
    EXPECT_TRUE(Constant(5.0).node()->control_inputs.empty());
  }
  EXPECT_EQ(c.node()->control_inputs, std::vector<Node*>{b.node()});
}

TEST_F(GraphTest, SetShapeMergesWhatIsKnown) {
  Tensor x = Placeholder(DType::kF32, {-1, 5}, "x");
  x.SetShape({32, -1});
  EXPECT_EQ(x.shape().ToString(), "[32,5]");
  x.SetShape({31, 5}, {"train.cc", 7});
  EXPECT_EQ(Error(),
            "Placeholder 'x' (train.cc:7): SetShape: its shape is [32,5], which is not compatible "
            "with [31,5]");
}

TEST_F(GraphTest, KeepsCollections) {
  const Tensor a = Constant(1.0), b = Constant(2.0);
  graph_.AddToCollection(graph_keys::kLosses, a);
  graph_.AddToCollection(graph_keys::kLosses, b);
  EXPECT_EQ(graph_.GetCollection(graph_keys::kLosses), (Tensors{a, b}));
  EXPECT_TRUE(graph_.GetCollection("other").empty());
  {
    const NameScope scope("tower");
    const Tensor c = Constant(3.0, "c");
    graph_.AddToCollection(graph_keys::kLosses, c);
    graph_.AddToCollection(graph_keys::kUpdateOps, Operation(c));
    graph_.AddToCollection(graph_keys::kUpdateOps, Operation(a));
    EXPECT_EQ(graph_.GetCollection(graph_keys::kLosses, "tower"), Tensors{c});
    EXPECT_EQ(graph_.GetCollectionOperations(graph_keys::kUpdateOps, "tower"),
              Operations{Operation(c)});
  }
  EXPECT_EQ(graph_.GetCollection(graph_keys::kLosses).size(), 3u);
}

TEST(AsNameTest, ReplacesWhatNamesDoNotHave) {
  EXPECT_EQ(AsName("sepal length (cm)"), "sepal_length__cm_");
  EXPECT_EQ(AsName("w:0"), "w_0");
  EXPECT_EQ(AsName("a/b-c.d_e"), "a/b-c.d_e");
  EXPECT_EQ(AsName("gr\u00f6\u00dfe>\\"), "gr__e__");
}

TEST(DefaultGraphTest, BelongsToItsThread) {
  EXPECT_EQ(Graph::Default(), nullptr);
  EXPECT_FALSE(Constant(1.0).valid());
  Graph graph, inner;
  const auto scope = graph.AsDefault();
  {
    const auto nested = inner.AsDefault();
    EXPECT_EQ(Graph::Default(), &inner);
  }
  EXPECT_EQ(Graph::Default(), &graph);
}

}  // namespace
}  // namespace graph_test
}  // namespace penstock::session
