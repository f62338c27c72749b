// Mistakes in user-defined functions and layer classes become errors that name the layer.
#include <stdexcept>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace user_code_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Symbol& X() {
  static const auto* const kX = new Symbol(Input({.shape = {4}}));
  return *kX;
}

std::string ErrorOf(LambdaFunction function) {
  return std::string(Lambda(std::move(function), {.name = "mine"})(X()).type().status().message());
}

TEST(UserCode, ALambdaThatReturnsNothingIsAnError) {
  EXPECT_THAT(
      ErrorOf([](CallContext&, const Values&) -> Outputs { return Value(); }),
      AllOf(HasSubstr("mine"), HasSubstr("Lambda returned an empty value"), HasSubstr("output 0")));
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) { return Outputs(); }),
              AllOf(HasSubstr("mine"), HasSubstr("returned no output")));
  EXPECT_THAT(ErrorOf([](CallContext&, const Values& x) {
                return Values{x[0], Value()};
              }),
              AllOf(HasSubstr("mine"), HasSubstr("output 1")));
  EXPECT_THAT(ErrorOf(nullptr), AllOf(HasSubstr("mine"), HasSubstr("threw an exception")));
}

TEST(UserCode, ALambdaThatThrowsIsAnError) {
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) -> Outputs {
                throw std::runtime_error("no such table");
              }),
              AllOf(HasSubstr("mine"), HasSubstr("threw an exception: no such table")));
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) -> Outputs { throw 7; }),
              AllOf(HasSubstr("mine"), HasSubstr("threw an exception")));
}

// The function continues with the invalid value of a failed operation: the operation is reported.
TEST(UserCode, AskingAFailedOperationForItsShapeReportsTheOperation) {
  EXPECT_THAT(ErrorOf([](CallContext&, const Values& x) -> Outputs {
                const Value wrong = ir::Reshape(x[0], {3, 5});
                return ir::ReduceSum(wrong, {wrong.shape().rank() - 1});
              }),
              AllOf(HasSubstr("mine"), HasSubstr("reshape")));
}

TEST(UserCode, AValueOfAnotherGraphIsAnError) {
  ir::Graph other("other");
  const Value foreign = other.Parameter({DType::kF32, {2, 4}}, "x");
  EXPECT_THAT(ErrorOf([&](CallContext&, const Values&) -> Outputs { return foreign; }),
              AllOf(HasSubstr("mine"), HasSubstr("another graph")));
  EXPECT_THAT(ErrorOf([&](CallContext&, const Values& x) -> Outputs { return x[0] + foreign; }),
              HasSubstr("mine"));
  EXPECT_THAT(ErrorOf([&](CallContext& ctx, const Values& x) -> Outputs {
                ctx.SetOutputMask(foreign);
                return x[0];
              }),
              AllOf(HasSubstr("mine"), HasSubstr("mask")));
  EXPECT_THAT(ErrorOf([&](CallContext& ctx, const Values& x) -> Outputs {
                ctx.AddLoss(foreign);
                return x[0];
              }),
              AllOf(HasSubstr("mine"), HasSubstr("not a scalar")));
  EXPECT_THAT(ErrorOf([&](CallContext& ctx, const Values& x) -> Outputs {
                ctx.Variable("v", {}, "zeros");
                ctx.Assign("v", foreign);
                return x[0];
              }),
              AllOf(HasSubstr("mine"), HasSubstr("another graph")));
}

TEST(UserCode, ALossThatIsNotAScalarIsAnError) {
  EXPECT_THAT(ErrorOf([](CallContext& ctx, const Values& x) -> Outputs {
                ctx.AddLoss(x[0]);
                return x[0];
              }),
              AllOf(HasSubstr("mine"), HasSubstr("f32[2,4]")));
}

TEST(UserCode, AssigningAnotherTypeIsAnError) {
  EXPECT_THAT(ErrorOf([](CallContext& ctx, const Values& x) -> Outputs {
                ctx.Variable("v", {4}, "zeros", {.trainable = false});
                ctx.Assign("v", x[0]);
                return x[0];
              }),
              AllOf(HasSubstr("mine/v"), HasSubstr("f32[4]"), HasSubstr("f32[2,4]")));
  EXPECT_THAT(ErrorOf([](CallContext& ctx, const Values& x) -> Outputs {
                ctx.Assign("w", x[0]);
                return x[0];
              }),
              AllOf(HasSubstr("mine/w"), HasSubstr("not declared")));
}

TEST(UserCode, AnAggregationThatDoesNotFitTheTypeIsAnError) {
  const auto with = [](DType dtype, Aggregation aggregation) {
    return ErrorOf([=](CallContext& ctx, const Values& x) -> Outputs {
      ctx.Variable("v", {}, "zeros",
                   {.trainable = false, .dtype = dtype, .aggregation = aggregation});
      return x[0];
    });
  };
  EXPECT_THAT(with(DType::kI32, Aggregation::kMean), HasSubstr("kOnlyFirstReplica"));
  EXPECT_THAT(with(DType::kBool, Aggregation::kSum), HasSubstr("cannot be added up"));
  EXPECT_EQ(with(DType::kU8, Aggregation::kSum), "");
  EXPECT_EQ(with(DType::kBF16, Aggregation::kMean), "");
}

TEST(UserCode, ALayerWithAnotherNumberOfOutputsInTrainingIsAnError) {
  const Layer layer = Lambda(
      [](CallContext& ctx, const Values& x) {
        return ctx.training() ? Values{x[0]} : Values{x[0], x[0]};
      },
      {.name = "mine"});
  const Network network({X()}, {layer(X())});
  ASSERT_TRUE(network.status().ok()) << network.status();
  ir::Graph graph("apply");
  network.Apply({.graph = &graph}, {}, {graph.Parameter({DType::kF32, {2, 4}}, "x")});
  EXPECT_THAT(std::string(graph.status().message()),
              AllOf(HasSubstr("mine"), HasSubstr("1 outputs"), HasSubstr("now 2")));
}

TEST(UserCode, DefaultConstructedHandlesAreErrors) {
  EXPECT_THAT(std::string(Layer()(X()).type().status().message()), HasSubstr("never made"));
  EXPECT_THAT(std::string(Symbol().type().status().message()), HasSubstr("without a layer"));
  EXPECT_FALSE(Dense({.units = 1})(Symbol()).type().ok());
  EXPECT_FALSE(Network({X()}, {Layer()(X())}).status().ok());
  EXPECT_FALSE(TimeDistributed(Layer())(Input({.shape = {3, 4}})).type().ok());
  EXPECT_FALSE(Bidirectional(Layer())(Input({.shape = {3, 4}})).type().ok());
  EXPECT_THAT(
      ErrorOf([](CallContext& ctx, const Values& x) { return ctx.Call(Layer(), "part", {x[0]}); }),
      AllOf(HasSubstr("mine"), HasSubstr("'part'")));
}

TEST(UserCode, AnUnknownPolicyOfAWrappedLayerIsAnError) {
  const Symbol x = Input({.shape = {3, 4}});
  const Symbol y = Bidirectional(LSTM({.units = 2, .dtype = "float31"}))(x);
  EXPECT_THAT(std::string(y.type().status().message()), HasSubstr("float31"));
}

TEST(UserCode, ANetworkAppliedToTooFewValuesIsAnError) {
  const Network network({X()}, {Dense({.units = 2})(X())});
  ir::Graph graph("apply");
  const auto result =
      network.Apply({.graph = &graph}, {}, {graph.Parameter({DType::kF32, {2, 4}}, "x")});
  EXPECT_EQ(result.outputs.size(), 1u);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("2 variables, got 0"));
}

}  // namespace user_code_test
}  // namespace penstock::nn
