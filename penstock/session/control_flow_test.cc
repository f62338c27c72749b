#include "penstock/session/control_flow.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/gradients.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace control_flow_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ControlFlowTest : public testing::Test {
 protected:
  float Value(const Tensor& fetch, const FeedDict& feeds = {}) {
    const absl::StatusOr<Array> got = session_.Run(fetch, feeds);
    if (!got.ok()) ADD_FAILURE() << got.status();
    return got.ok() ? got->item<float>() : -1;
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

TEST_F(ControlFlowTest, RunsOneBranch) {
  const Tensor pred = Placeholder(DType::kBool, Shape(), "pred");
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  const Variable runs(Array::Scalar(0.0f), "runs");
  const Tensor y = Cond(
      pred,
      [&] {
        const ControlDependencies after(Operations{AssignAdd(runs, Constant(1.0))});
        return Multiply(x, x);
      },
      [&] { return Add(x, Constant(100.0)); });
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const Array three = Array::Scalar(3.0f);
  EXPECT_EQ(Value(y, {{pred, Array::Scalar(true)}, {x, three}}), 9);
  EXPECT_EQ(Value(runs), 1);
  EXPECT_EQ(Value(y, {{pred, Array::Scalar(false)}, {x, three}}), 103);
  EXPECT_EQ(Value(runs), 1);
  // The gradient is that of the branch that runs.
  const Tensor d = Gradients({y}, {x})[0];
  EXPECT_EQ(Value(d, {{pred, Array::Scalar(true)}, {x, three}}), 6);
  EXPECT_EQ(Value(d, {{pred, Array::Scalar(false)}, {x, three}}), 1);
}

TEST_F(ControlFlowTest, RunsOperationsOfABranch) {
  const Tensor pred = Placeholder(DType::kBool, Shape(), "pred");
  const Variable w(Array::Scalar(1.0f), "w"), v(Array::Scalar(1.0f), "v");
  const Operation update = Cond(
      pred, [&] { return Group({Assign(w, Constant(5.0))}); },
      [&] {
        return Group({AssignAdd(v, Constant(7.0)), AssignAdd(w, Constant(1.0))});
      });
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session_.Run(update, {{pred, Array::Scalar(false)}}), absl::OkStatus());
  EXPECT_EQ(Value(w), 2);
  EXPECT_EQ(Value(v), 8);
  ASSERT_EQ(session_.Run(update, {{pred, Array::Scalar(true)}}), absl::OkStatus());
  EXPECT_EQ(Value(w), 5);
  EXPECT_EQ(Value(v), 8);
}

TEST_F(ControlFlowTest, LoopsUntilTheConditionIsFalse) {
  const Tensor n = Placeholder(DType::kF32, Shape(), "n");
  const Tensors out =
      WhileLoop([&](const Tensors& v) { return Less(v[0], n); },
                [&](const Tensors& v) {
                  return Tensors{Add(v[0], Constant(1.0)), Multiply(v[1], Constant(2.0))};
                },
                {Constant(0.0), Constant(1.0)});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  for (float count : {0.0f, 1.0f, 10.0f}) {
    EXPECT_EQ(Value(out[1], {{n, Array::Scalar(count)}}), std::exp2(count));
  }
}

TEST_F(ControlFlowTest, LimitsIterationsAndDifferentiates) {
  const Tensor n = Placeholder(DType::kF32, Shape(), "n");
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  const Tensors out = WhileLoop([&](const Tensors& v) { return Less(v[0], n); },
                                [&](const Tensors& v) {
                                  return Tensors{Add(v[0], Constant(1.0)), Multiply(v[1], x)};
                                },
                                {Constant(0.0), Constant(1.0)}, {.maximum_iterations = 4});
  const Tensor d = Gradients({out[1]}, {x})[0];
  for (float count : {0.0f, 1.0f, 3.0f, 9.0f}) {
    const FeedDict feeds{{n, Array::Scalar(count)}, {x, Array::Scalar(2.0f)}};
    const float power = std::min(count, 4.0f);
    EXPECT_EQ(Value(out[1], feeds), std::pow(2, power));
    EXPECT_EQ(Value(d, feeds), power * std::pow(2, power - 1));
  }
}

TEST_F(ControlFlowTest, LoopWithoutLimitHasNoGradient) {
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  const Tensors out =
      WhileLoop([&](const Tensors& v) { return Less(v[0], Constant(9.0)); },
                [&](const Tensors& v) { return Tensors{Multiply(v[0], x)}; }, {Constant(1.0)});
  Gradients({out[0]}, {x});
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("has no gradient, because the number of its iterations has no limit; set "
                        "WhileLoopOptions::maximum_iterations"));
}

TEST_F(ControlFlowTest, AssignsVariablesInALoop) {
  const Variable total(Array::Scalar(0.0f), "total"), scale(Array::Scalar(3.0f), "scale");
  const Tensors out =
      WhileLoop([&](const Tensors&) { return Less(total.Value(), Constant(20.0)); },
                [&](const Tensors& v) {
                  const Tensor sum = AssignAdd(total, Multiply(v[0], scale));
                  const ControlDependencies after(Operations{sum});
                  // The read depends on the assignment in this iteration.
                  return Tensors{Add(v[0], Constant(1.0)), Add(v[1], total.Value())};
                },
                {Constant(1.0), Constant(0.0)});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  // Totals after each iteration: 3, 9, 18, 30.
  EXPECT_EQ(Value(out[1]), 60);
  EXPECT_EQ(Value(total), 30);
}

TEST_F(ControlFlowTest, NestsBodies) {
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  const Tensor two = Constant(2.0);
  // Three times: five times add x if the sum is below 10, else 2.
  const Tensors out = WhileLoop([&](const Tensors& v) { return Less(v[0], Constant(3.0)); },
                                [&](const Tensors& v) {
                                  const Tensors inner = WhileLoop(
                                      [&](const Tensors& u) { return Less(u[0], Constant(5.0)); },
                                      [&](const Tensors& u) {
                                        const Tensor more = Cond(
                                            Less(u[1], Constant(10.0)), [&] { return x; },
                                            [&] { return Identity(two); });
                                        return Tensors{Add(u[0], Constant(1.0)), Add(u[1], more)};
                                      },
                                      {Constant(0.0), v[1]}, {.maximum_iterations = 5});
                                  return Tensors{Add(v[0], Constant(1.0)), inner[1]};
                                },
                                {Constant(0.0), Constant(0.0)}, {.maximum_iterations = 3});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  const FeedDict feeds{{x, Array::Scalar(4.0f)}};
  EXPECT_EQ(Value(out[1], feeds), 4 * 3 + 2 * 12);
  EXPECT_EQ(Value(Gradients({out[1]}, {x})[0], feeds), 3);
}

TEST_F(ControlFlowTest, DifferentiatesWithRespectToVariablesReadInBodies) {
  const Variable w(Array::Scalar(2.0f), "w");
  const Tensor pred = Placeholder(DType::kBool, Shape(), "pred");
  const Tensor power = WhileLoop([&](const Tensors& v) { return Less(v[0], Constant(3.0)); },
                                 [&](const Tensors& v) {
                                   return Tensors{Add(v[0], Constant(1.0)), Multiply(v[1], w)};
                                 },
                                 {Constant(0.0), Constant(1.0)}, {.maximum_iterations = 5})[1];
  const Tensor y = Cond(
      pred, [&] { return Multiply(power, w); }, [&] { return Multiply(Constant(5.0), w); });
  const Tensor d = Gradients({y}, {w})[0];
  ASSERT_TRUE(d.valid());
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_EQ(Value(d, {{pred, Array::Scalar(true)}}), 4 * 8);  // w^4
  EXPECT_EQ(Value(d, {{pred, Array::Scalar(false)}}), 5);
}

TEST_F(ControlFlowTest, TakesGradientsWithinABody) {
  // Newton's method for x^2 = 2, with the derivative of Gradients.
  const Tensor root = WhileLoop(
      [&](const Tensors& v) { return Less(v[0], Constant(6.0)); },
      [&](const Tensors& v) {
        const Tensor error = Add(Multiply(v[1], v[1]), Constant(-2.0));
        const Tensor slope = Gradients({error}, {v[1]})[0];
        const Tensor change = Divide(error, slope);
        return Tensors{Add(v[0], Constant(1.0)), Add(v[1], Multiply(change, Constant(-1.0)))};
      },
      {Constant(0.0), Constant(1.0)})[1];
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_FLOAT_EQ(Value(root), std::sqrt(2.0f));
}

TEST_F(ControlFlowTest, DrawsOtherNumbersInEachIteration) {
  const auto walk = [&](float steps) {
    return WhileLoop([=](const Tensors& v) { return Less(v[0], Constant(steps)); },
                     [&](const Tensors& v) {
                       const Tensor random = RandomUniform({}, 0, 1, {.seed = 3});
                       return Tensors{Add(v[0], Constant(1.0)), random, v[1]};
                     },
                     {Constant(0.0), Constant(0.0), Constant(0.0)});
  };
  const Tensors two = walk(2);
  const auto first = session_.Run({two[1], two[2]}), second = session_.Run({two[1], two[2]});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status();
  std::set<float> numbers;
  for (const auto* run : {&*first, &*second}) {
    for (const Array& number : *run) numbers.insert(number.item<float>());
  }
  EXPECT_EQ(numbers.size(), 4u);
}

TEST_F(ControlFlowTest, AssignsInNestedBodies) {
  const Variable w(Array::Scalar(1.0f), "w");
  const Tensor pred = Placeholder(DType::kBool, Shape(), "pred");
  // Doubles w in each of three iterations if pred, else adds 1 in the first.
  const Operation all = Cond(
      pred,
      [&] {
        return Operation(WhileLoop([&](const Tensors& v) { return Less(v[0], Constant(3.0)); },
                                   [&](const Tensors& v) {
                                     const ControlDependencies after(
                                         Operations{Assign(w, Add(w, w))});
                                     return Tensors{Add(v[0], Constant(1.0))};
                                   },
                                   {Constant(0.0)})[0]);
      },
      [&] { return Operation(AssignAdd(w, Constant(1.0))); });
  Tensor read;
  {
    const ControlDependencies after(Operations{all});
    read = w.Value();
  }
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_EQ(Value(read, {{pred, Array::Scalar(false)}}), 2);
  EXPECT_EQ(Value(read, {{pred, Array::Scalar(true)}}), 16);
  EXPECT_EQ(Value(w), 16);
}

TEST_F(ControlFlowTest, SwitchesAmongBranches) {
  const Tensor index = Placeholder(DType::kI32, Shape(), "index");
  std::vector<std::function<Tensors()>> branches;
  for (double value : {10.0, 20.0, 30.0}) {
    branches.push_back([value] { return Tensors{Constant(value)}; });
  }
  const Tensor y = SwitchCase(index, branches)[0];
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(Value(y, {{index, Array::Scalar<int32_t>(0)}}), 10);
  EXPECT_EQ(Value(y, {{index, Array::Scalar<int32_t>(1)}}), 20);
  EXPECT_EQ(Value(y, {{index, Array::Scalar<int32_t>(7)}}), 30);
}

TEST_F(ControlFlowTest, RejectsMissingFunctionsAndAnIndexThatIsNone) {
  const auto error = [](const std::function<void()>& build) {
    Graph graph;
    const auto scope = graph.AsDefault();
    build();
    return std::string(graph.status().message());
  };
  const auto body = [](const Tensors& v) { return v; };
  EXPECT_THAT(error([&] { WhileLoop(nullptr, body, {Constant(1)}); }),
              HasSubstr("it needs a function as its cond"));
  EXPECT_THAT(error([] {
                WhileLoop([](const Tensors&) { return Constant(true); }, nullptr, {Constant(1)});
              }),
              HasSubstr("it needs a function as its body"));
  const auto one = [] { return Tensors{Constant(1)}; };
  const std::function<Tensors()> none;
  EXPECT_THAT(error([&] { Cond(Constant(true), none, one, "either"); }),
              HasSubstr("Cond 'either'"));
  EXPECT_THAT(error([&] { Cond(Constant(true), one, none); }),
              HasSubstr("it needs a function as its false_fn"));
  Tensors (*const pointer)() = nullptr;
  EXPECT_THAT(error([&] { Cond(Constant(true), pointer, one); }),
              HasSubstr("it needs a function as its true_fn"));
  EXPECT_THAT(error([&] {
                Case({{Constant(true), one}}, nullptr);
              }),
              HasSubstr("each branch, and what is done otherwise, needs a function"));
  EXPECT_THAT(error([&] {
                SwitchCase(Constant(0), {nullptr, one});
              }),
              HasSubstr("needs a function"));
  EXPECT_THAT(error([&] {
                SwitchCase(Constant(0.5), {one, one});
              }),
              HasSubstr("the index must be an integer scalar, got float32[]"));
}

TEST_F(ControlFlowTest, RejectsTensorsOfABodyOutside) {
  const Tensor pred = Placeholder(DType::kBool, Shape(), "pred");
  Tensor inside;
  const Tensor y = Cond(
      pred, [&] { return inside = Add(Constant(1.0), Constant(2.0)); },
      [&] { return Constant(4.0); });
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_EQ(
      session_.Run(inside).status().message(),
      "'cond/AddV2' is in the body of 'cond' and cannot be fetched; return it from that body");
  Add(inside, y);
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("input 0, 'cond/AddV2:0', was made in the body of 'cond' and has no value "
                        "outside; return it from that body"));
}

// What such a function made still refers to its body.
TEST_F(ControlFlowTest, ExceptionsOfFunctionsAreErrorsOfTheGraph) {
  Tensor inside;
  const Tensor y = Cond(
      Constant(true),
      [&]() -> Tensor {
        inside = Constant(1.0);
        throw std::runtime_error("no branch");
      },
      [] { return Constant(2.0); });
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(
      std::string(graph_.status().message()),
      AllOf(HasSubstr("control_flow_test.cc:"), HasSubstr("threw std::runtime_error: no branch")));
  EXPECT_FALSE(Add(inside, Constant(1.0)).valid());
  EXPECT_EQ(session_.Run(inside).status(), graph_.status());
}

TEST_F(ControlFlowTest, RejectsBranchesOfOtherTypes) {
  const Tensor pred = Placeholder(DType::kBool, Shape(), "pred");
  Cond(
      pred, [&] { return Constant(1.0); }, [&] { return Constant(1); });
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("result 0 of true_fn is float32[], of false_fn int32[]; both return the "
                        "same types"));
}

TEST_F(ControlFlowTest, RejectsALoopThatChangesShapes) {
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const Tensors out = WhileLoop(
      [&](const Tensors&) { return Constant(true); },
      [&](const Tensors& v) {
        return Tensors{AddOp("Concat", {v[0], v[0]}, "", SourceLocation::Current(),
                             [](const ir::Values& in) { return ir::Concatenate(in, 0); })};
      },
      {x}, {.maximum_iterations = 2});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  EXPECT_THAT(
      std::string(session_.Run(out[0], {{x, Array::Zeros(DType::kF32, {3})}}).status().message()),
      HasSubstr("loop variable 0 is f32[3], and the body returns f32[6]; shapes stay the same"));
}

}  // namespace
}  // namespace control_flow_test
}  // namespace penstock::session
