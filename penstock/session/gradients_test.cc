#include "penstock/session/gradients.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace gradients_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GradientsTest : public testing::Test {
 protected:
  std::vector<float> Values(const Tensor& fetch, const FeedDict& feeds = {}) {
    const absl::StatusOr<Array> got = session_.Run(fetch, feeds);
    if (!got.ok()) ADD_FAILURE() << got.status();
    if (!got.ok()) return {};
    return {got->values<float>().begin(), got->values<float>().end()};
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

TEST_F(GradientsTest, DifferentiatesTheSumOfAllYs) {
  const Tensor x = Placeholder(DType::kF32, {-1}, "x");
  const Tensor y = Multiply(x, x), z = Multiply(x, Constant(5.0));
  const Tensors d = Gradients({y, z}, {x});
  EXPECT_EQ(d[0].shape().ToString(), "[?]");
  EXPECT_THAT(Values(d[0], {{x, Array::Of<float>({3}, {1, 2, 3})}}), ElementsAre(7, 9, 11));
  // The second derivative.
  EXPECT_THAT(Values(Gradients({d[0]}, {x})[0], {{x, Array::Of<float>({2}, {1, 2})}}),
              ElementsAre(2, 2));
}

// As in TensorFlow, whose SeluGrad looks at the result: where it is not negative.
TEST_F(GradientsTest, SeluHasTheGradientOfThePositiveSideAtZero) {
  const Tensor x = Placeholder(DType::kF32, {3}, "x");
  const Tensor d = Gradients({nn::Selu(x)}, {x})[0];
  EXPECT_THAT(Values(d, {{x, Array::Of<float>({3}, {-1, 0, 1})}}),
              ElementsAre(::testing::FloatNear(1.7580993f * std::exp(-1.0f), 1e-6f),
                          ::testing::FloatEq(1.0507010f), ::testing::FloatEq(1.0507010f)));
}

// As in TensorFlow where x is finite; its NaN where x is not would spoil a training.
TEST_F(GradientsTest, MultiplyNoNanHasTheGradientOfAProductAtZero) {
  const Tensor x = Placeholder(DType::kF32, {4}, "x"), y = Placeholder(DType::kF32, {4}, "y");
  const Tensor z = MultiplyNoNan(x, y);
  const Tensors d = Gradients({z}, {x, y});
  const FeedDict feeds{{x, Array::Of<float>({4}, {3, NAN, INFINITY, 5})},
                       {y, Array::Of<float>({4}, {0, 0, 0, 2})}};
  EXPECT_THAT(Values(z, feeds), ElementsAre(0, 0, 0, 10));
  EXPECT_THAT(Values(d[0], feeds), ElementsAre(0, 0, 0, 2));
  EXPECT_THAT(Values(d[1], feeds), ElementsAre(3, 0, 0, 5));
}

TEST_F(GradientsTest, WeighsWithIncomingGradients) {
  const Tensor x = Placeholder(DType::kF32, {2}, "x");
  const Tensor d = Gradients({Multiply(x, x)}, {x}, {.grad_ys = {Constant({10.0, 100.0})}})[0];
  EXPECT_THAT(Values(d, {{x, Array::Of<float>({2}, {1, 2})}}), ElementsAre(20, 400));
}

TEST_F(GradientsTest, CountsAllReadsOfAVariable) {
  const Variable w(Array::Scalar(3.0f), "w");
  Tensor y = Multiply(w, w);
  {
    const ControlDependencies after(Operations{NoOp()});
    y = Add(y, w.Value());  // another read operation of the same value
  }
  {
    const ControlDependencies after(Operations{AssignAdd(w, Constant(1.0))});
    y = Add(y, Multiply(w, Constant(10.0)));  // and one of the value after an assignment
  }
  const Tensor d = Gradients({y}, {w})[0];
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto got = session_.Run({y, d});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].item<float>(), 9 + 3 + 40);
  EXPECT_EQ((*got)[1].item<float>(), 6 + 1 + 10);
}

TEST_F(GradientsTest, StopsAtTensorsThatCountAsConstants) {
  // TensorFlow's example: d (a + b) / d [a, b] with b = 2 a.
  const Tensor a = Constant(1.0), b = Multiply(a, Constant(2.0));
  const Tensors total = Gradients({Add(a, b)}, {a, b});
  const Tensors partial = Gradients({Add(a, b)}, {a, b}, {.stop_gradients = {a, b}});
  EXPECT_THAT(Values(total[0]), ElementsAre(3));
  EXPECT_THAT(Values(total[1]), ElementsAre(1));
  EXPECT_THAT(Values(partial[0]), ElementsAre(1));
  EXPECT_THAT(Values(partial[1]), ElementsAre(1));
}

// The y and the x behind a stop are computed anew, and must stay the same value.
TEST_F(GradientsTest, AnXDownstreamOfAStopHasItsGradient) {
  const Tensor a = Constant(3.0), x = Multiply(a, Constant(2.0)), y = Multiply(x, x);
  const Tensors d = Gradients({y}, {x, y}, {.stop_gradients = {a}});
  EXPECT_THAT(Values(d[0]), ElementsAre(12));
  EXPECT_THAT(Values(d[1]), ElementsAre(1));
}

// It is the same value in the program, but another tensor.
TEST_F(GradientsTest, AnIdentityDoesNotCountTheUsesOfItsInput) {
  const Tensor a = Constant(3.0), x = Identity(a), y = Multiply(a, x);
  EXPECT_THAT(Values(Gradients({y}, {x})[0]), ElementsAre(3));
  EXPECT_THAT(Values(Gradients({y}, {a})[0]), ElementsAre(6));
  EXPECT_THAT(Values(Gradients({y}, {a}, {.stop_gradients = {x}})[0]), ElementsAre(3));
}

TEST_F(GradientsTest, StopsAtReadsOfAVariable) {
  const Variable w(Array::Scalar(3.0f), "w");
  const Tensor read = w.ReadValue(), y = Multiply(read, read);
  EXPECT_FALSE(Gradients({y}, {w}, {.stop_gradients = {read}})[0].valid());
  const Tensors of_read = Gradients({y}, {read}, {.stop_gradients = {read}});
  const Tensor both = Gradients({Multiply(y, w)}, {w}, {.stop_gradients = {read}})[0];
  // TensorFlow's stop_gradients = [w]: nothing is upstream of a variable.
  const Tensor all = Gradients({Multiply(y, w)}, {w}, {.stop_gradients = {w}})[0];
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_THAT(Values(of_read[0]), ElementsAre(6));
  EXPECT_THAT(Values(both), ElementsAre(9));
  EXPECT_THAT(Values(all), ElementsAre(27));
}

TEST_F(GradientsTest, AReadOfItsOwnMeansItselfAlone) {
  const Variable w(Array::Scalar(3.0f), "w");
  const Tensor a = w.ReadValue(), b = w.ReadValue(), y = Multiply(Multiply(a, a), Multiply(b, w));
  const Tensors d = Gradients({y}, {a, b, w, w.ReadValue()});
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_THAT(Values(d[0]), ElementsAre(54));
  EXPECT_THAT(Values(d[1]), ElementsAre(27));
  EXPECT_THAT(Values(d[2]), ElementsAre(108));
  EXPECT_FALSE(d[3].valid());
}

TEST_F(GradientsTest, CountsReadsInBranchesAfterAssignments) {
  const Variable w(Array::Scalar(3.0f), "w");
  const Operation initialize = GlobalVariablesInitializer();
  const ControlDependencies after(Operations{AssignAdd(w, Constant(1.0))});
  const auto square = [&] { return Tensors{Multiply(w, w)}; };
  const Tensor y = Cond(Constant(true), square, [&] { return Tensors{Tensor(w)}; })[0];
  const Tensor d = Gradients({y}, {w})[0];
  ASSERT_EQ(session_.Run(initialize), absl::OkStatus());
  EXPECT_THAT(Values(d), ElementsAre(8));
}

TEST_F(GradientsTest, StopsAtAllOutputsOfAnOperation) {
  const Tensor x = Constant(3.0);
  const auto twice = [](const ir::Values& in) { return ir::Values{ir::Exp(in[0]), in[0]}; };
  const Tensors parts = AddOps("Both", {x}, "", base::SourceLocation::Current(), twice);
  const Tensor y = Multiply(parts[0], parts[1]);
  EXPECT_FALSE(Gradients({y}, {x}, {.stop_gradients = {parts[0]}})[0].valid());
}

TEST_F(GradientsTest, AStopThatNothingNeedsIsNotFed) {
  const Tensor x = Constant(3.0), other = Placeholder(DType::kF32, Shape(), "other");
  const Tensor d = Gradients({Multiply(x, x)}, {x}, {.stop_gradients = {other}})[0];
  EXPECT_THAT(Values(d), ElementsAre(6));
}

TEST_F(GradientsTest, UnconnectedGradientsAreInvalidOrZero) {
  const Tensor x = Placeholder(DType::kF32, {2}, "x"), z = Placeholder(DType::kF32, {2}, "z");
  const Tensor y = Add(x, StopGradient(z));
  const Tensors none = Gradients({y}, {x, z});
  EXPECT_TRUE(none[0].valid());
  EXPECT_FALSE(none[1].valid());
  const Tensors zero = Gradients({y}, {x, z}, {.unconnected = UnconnectedGradients::kZero});
  const Array fed = Array::Of<float>({2}, {1, 2});
  EXPECT_THAT(Values(zero[1], {{x, fed}, {z, fed}}), ElementsAre(0, 0));
}

TEST_F(GradientsTest, AFedTensorHasNoGradientUpstream) {
  const Tensor x = Placeholder(DType::kF32, Shape(), "x");
  const Tensor middle = Multiply(x, Constant(7.0)), y = Multiply(middle, middle);
  const Tensors d = Gradients({y}, {x, middle});
  const FeedDict feeds{{x, Array::Scalar(1.0f)}, {middle, Array::Scalar(5.0f)}};
  EXPECT_THAT(Values(d[0], feeds), ElementsAre(0));
  EXPECT_THAT(Values(d[1], feeds), ElementsAre(10));
}

TEST_F(GradientsTest, RejectsIntegers) {
  const Tensor n = Placeholder(DType::kI32, {2}, "n");
  Gradients({n}, {n});
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("the y 'n:0' is int32[2]; only floats have gradients"));
}

}  // namespace
}  // namespace gradients_test
}  // namespace penstock::session
