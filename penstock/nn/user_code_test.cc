// Errors in user-defined functions and layer classes name the layer.
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
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

TEST(UserCode, RejectsLambdaWithoutOutput) {
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) -> Outputs { return Value(); }),
              AllOf(HasSubstr("mine"), HasSubstr("Lambda returned an invalid value"),
                    HasSubstr("output 0")));
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) { return Outputs(); }),
              AllOf(HasSubstr("mine"), HasSubstr("returned no output")));
  EXPECT_THAT(ErrorOf([](CallContext&, const Values& x) {
                return Values{x[0], Value()};
              }),
              AllOf(HasSubstr("mine"), HasSubstr("output 1")));
  EXPECT_THAT(ErrorOf(nullptr), AllOf(HasSubstr("mine"), HasSubstr("threw an exception")));
}

TEST(UserCode, ConvertsExceptionOfLambdaToError) {
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) -> Outputs {
                throw std::runtime_error("no such table");
              }),
              AllOf(HasSubstr("mine"), HasSubstr("threw an exception: no such table")));
  EXPECT_THAT(ErrorOf([](CallContext&, const Values&) -> Outputs { throw 7; }),
              AllOf(HasSubstr("mine"), HasSubstr("threw an exception")));
}

// The function continues with the invalid result of a failed operation; the operation is reported.
TEST(UserCode, ShapeOfFailedOperationReportsTheOperation) {
  EXPECT_THAT(ErrorOf([](CallContext&, const Values& x) -> Outputs {
                const Value wrong = ir::Reshape(x[0], {3, 5});
                return ir::ReduceSum(wrong, {wrong.shape().rank() - 1});
              }),
              AllOf(HasSubstr("mine"), HasSubstr("reshape")));
}

TEST(UserCode, RejectsValueOfAnotherGraph) {
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

TEST(UserCode, RejectsNonScalarLoss) {
  EXPECT_THAT(ErrorOf([](CallContext& ctx, const Values& x) -> Outputs {
                ctx.AddLoss(x[0]);
                return x[0];
              }),
              AllOf(HasSubstr("mine"), HasSubstr("f32[2,4]")));
}

TEST(UserCode, RejectsAssignmentOfAnotherType) {
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

TEST(UserCode, RejectsAggregationUnsuitableForType) {
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

TEST(UserCode, RejectsVaryingNumberOfOutputs) {
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

TEST(UserCode, RejectsDefaultConstructedHandles) {
  EXPECT_THAT(std::string(Layer()(X()).type().status().message()), HasSubstr("never made"));
  EXPECT_THAT(std::string(Symbol().type().status().message()), HasSubstr("an empty tensor"));
  EXPECT_FALSE(Dense({.units = 1})(Symbol()).type().ok());
  EXPECT_FALSE(Network({X()}, {Layer()(X())}).status().ok());
  EXPECT_FALSE(TimeDistributed(Layer())(Input({.shape = {3, 4}})).type().ok());
  EXPECT_FALSE(Bidirectional(Layer())(Input({.shape = {3, 4}})).type().ok());
  EXPECT_THAT(
      ErrorOf([](CallContext& ctx, const Values& x) { return ctx.Call(Layer(), "part", {x[0]}); }),
      AllOf(HasSubstr("mine"), HasSubstr("'part'")));
}

TEST(UserCode, RejectsLayerWithoutBody) {
  const Symbol y = CustomLayer(nullptr, {.name = "mine"})(X());
  EXPECT_THAT(std::string(y.type().status().message()),
              AllOf(HasSubstr("mine"), HasSubstr("null")));
}

TEST(UserCode, RejectsTrainableIntegerVariable) {
  for (const DType dtype : {DType::kI32, DType::kBool}) {
    EXPECT_THAT(ErrorOf([=](CallContext& ctx, const Values& x) -> Outputs {
                  ctx.Variable("v", {4}, "zeros", {.dtype = dtype});
                  return x[0];
                }),
                AllOf(HasSubstr("mine/v"), HasSubstr("trainable = false")));
  }
}

// Such a name cannot be saved to a file.
TEST(UserCode, RejectsNameThatIsNotUtf8) {
  for (const char* name : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    const Network network({X()}, {Dense({.units = 1, .name = name})(X())});
    EXPECT_THAT(std::string(network.status().message()), HasSubstr("UTF-8")) << network.status();
    EXPECT_THAT(ErrorOf([&](CallContext& ctx, const Values& x) -> Outputs {
                  ctx.Variable(name, {4}, "zeros");
                  return x[0];
                }),
                HasSubstr("UTF-8"));
  }
  for (const char* name : {"dichte_\xc3\xa4", "\xe5\xb1\x82", "\xf0\x9f\x90\x9f"}) {
    EXPECT_TRUE(Network({X()}, {Dense({.units = 1, .name = name})(X())}).status().ok()) << name;
  }
}

// Error of a loss for three rows.
std::string LossError(const std::function<Value(Value, Value)>& function) {
  ir::Graph graph("loss");
  const Value y = graph.Parameter({DType::kF32, {3, 2}}, "y");
  EXPECT_FALSE(CustomLoss("mine", function).PerExample(y, y).valid());
  EXPECT_EQ(CustomMean("mine", function).Update(y, y).size(), 2u);
  return std::string(graph.status().message());
}

TEST(UserCode, RejectsLossWithoutValue) {
  EXPECT_THAT(LossError([](Value, Value) { return Value(); }),
              AllOf(HasSubstr("'mine'"), HasSubstr("invalid value")));
  ir::Graph other("other");
  const Value foreign = other.Parameter({DType::kF32, {3, 2}}, "x");
  EXPECT_THAT(LossError([&](Value, Value) { return foreign; }),
              AllOf(HasSubstr("'mine'"), HasSubstr("another graph")));
  // The failed operation is reported as the cause.
  EXPECT_THAT(LossError([](Value, Value y) { return ir::Reshape(y, {7}); }), HasSubstr("reshape"));
}

// Without a batch axis, the padding of a smaller last batch would count.
TEST(UserCode, RejectsLossWithoutBatchAxis) {
  EXPECT_THAT(LossError([](Value y, Value p) { return ir::ReduceMean(ir::Square(y - p)); }),
              AllOf(HasSubstr("'mine'"), HasSubstr("f32[]"), HasSubstr("each of the 3 rows")));
  EXPECT_THAT(LossError([](Value y, Value) { return ir::ReduceMean(y, {0}); }),
              AllOf(HasSubstr("'mine'"), HasSubstr("f32[2]")));
}

// A metric with one state; the test determines its update.
struct OddMetric : MetricBody {
  explicit OddMetric(std::function<Values(Value)> u) : update(std::move(u)) {}
  absl::string_view name() const override { return "odd"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  std::vector<TensorType> States(const TensorType&) const override { return {{DType::kF32, {}}}; }
  Values Update(Value, Value y_pred, Value) const override { return update(y_pred); }
  Value Result(const Values& states) const override { return states[0]; }
  std::function<Values(Value)> update;
};

std::string MetricError(std::function<Values(Value)> update) {
  ir::Graph graph("metric");
  const Value y = graph.Parameter({DType::kF32, {3, 2}}, "y");
  EXPECT_EQ(Metric(std::make_shared<OddMetric>(std::move(update))).Update(y, y).size(), 1u);
  return std::string(graph.status().message());
}

TEST(UserCode, RejectsMetricUpdateOfWrongTypes) {
  EXPECT_EQ(MetricError([](Value y) { return Values{ir::ReduceSum(y)}; }), "");
  EXPECT_THAT(MetricError([](Value) { return Values{}; }),
              AllOf(HasSubstr("'odd' has 1 states"), HasSubstr("values for 0")));
  EXPECT_THAT(MetricError([](Value) { return Values{Value()}; }),
              AllOf(HasSubstr("'odd': state 0"), HasSubstr("invalid value")));
  EXPECT_THAT(MetricError([](Value y) { return Values{y}; }),
              AllOf(HasSubstr("'odd': state 0"), HasSubstr("f32[3,2]")));
}

TEST(UserCode, RejectsUnknownPolicyOfWrappedLayer) {
  const Symbol x = Input({.shape = {3, 4}});
  const Symbol y = Bidirectional(LSTM({.units = 2, .dtype = "float31"}))(x);
  EXPECT_THAT(std::string(y.type().status().message()), HasSubstr("float31"));
}

TEST(UserCode, RejectsTooFewVariableValues) {
  const Network network({X()}, {Dense({.units = 2})(X())});
  ir::Graph graph("apply");
  const auto result =
      network.Apply({.graph = &graph}, {}, {graph.Parameter({DType::kF32, {2, 4}}, "x")});
  EXPECT_EQ(result.outputs.size(), 1u);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("2 variables, got 0"));
}

}  // namespace user_code_test
}  // namespace penstock::nn
