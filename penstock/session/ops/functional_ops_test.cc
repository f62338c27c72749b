// What the comparison with TensorFlow (tests/session/functional.py) does not reach: unknown lengths,
// variables and random numbers in the function, errors.
#include "penstock/session/ops/functional_ops.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/control_flow.h"
#include "penstock/session/gradients.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace functional_ops_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FunctionalTest : public testing::Test {
 protected:
  std::vector<float> Values(const Tensor& fetch, const FeedDict& feeds = {}) {
    const absl::StatusOr<Array> got = session_.Run(fetch, feeds);
    if (!got.ok()) ADD_FAILURE() << got.status();
    if (!got.ok()) return {};
    return std::vector<float>(got->values<float>().begin(), got->values<float>().end());
  }
  std::string GraphError() const { return std::string(graph_.status().message()); }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

Tensor Sum(const Tensor& a, const Tensor& x) { return a + x; }

TEST_F(FunctionalTest, RunsOverUnknownNumbersOfRows) {
  const Tensor x = Placeholder(DType::kF32, {-1});
  const Tensor squares = MapFn([](const Tensor& r) { return r * r; }, x);
  const Tensor sums = Scan(Sum, x, Constant(10.0));
  const Tensor last = Foldr(Sum, x, Constant(10.0));
  EXPECT_EQ(squares.shape(), PartialShape({-1}));
  EXPECT_EQ(last.shape(), PartialShape(Shape()));
  const Tensor d = Gradients({ReduceSum(sums * squares) + last}, {x})[0];
  const FeedDict two{{x, Array::Of<float>({2}, {2, 3})}}, none{{x, Array::Zeros(DType::kF32, {0})}};
  EXPECT_THAT(Values(squares, two), ElementsAre(4, 9));
  EXPECT_THAT(Values(sums, two), ElementsAre(12, 15));
  EXPECT_THAT(Values(last, two), ElementsAre(15));
  // sums = (10 + x0, 10 + x0 + x1): y = sums0 x0^2 + sums1 x1^2 + last.
  EXPECT_THAT(Values(d, two), ElementsAre(4 + 9 + 48 + 1, 9 + 90 + 1));
  EXPECT_THAT(Values(squares, none), ElementsAre());
  EXPECT_THAT(Values(sums, none), ElementsAre());
  EXPECT_THAT(Values(last, none), ElementsAre(10));
  EXPECT_THAT(Values(d, none), ElementsAre());
}

TEST_F(FunctionalTest, NeedsARowToBeginWith) {
  const Tensor x = Placeholder(DType::kF32, {-1});
  const Tensor sums = Scan(Sum, x);
  EXPECT_THAT(Values(sums, {{x, Array::Of<float>({1}, {2})}}), ElementsAre(2));
  const absl::Status status = session_.Run(sums, {{x, Array::Zeros(DType::kF32, {0})}}).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("without an initializer it needs elems with at least one row, got"));
}

TEST_F(FunctionalTest, AssignsVariablesFromRowToRow) {
  const Variable total(Array::Scalar(1.0f), "total"), scale(Array::Scalar(2.0f), "scale");
  const Tensor x = Constant(Array::Of<float>({3}, {1, 2, 3}));
  const Tensor y = MapFn(
      [&](const Tensor& r) {
        const Tensor before = Identity(total.Value());
        const ControlDependencies after(Operations{AssignAdd(total, r * scale)});
        return before * 100 + total.Value();
      },
      x);
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_THAT(Values(y), ElementsAre(103, 307, 713));
  EXPECT_THAT(Values(total), ElementsAre(13));
}

TEST_F(FunctionalTest, MakesVariablesThatAreTrained) {
  const Tensor x = Constant(Array::Of<float>({3}, {1, 2, 3}));
  const Tensor y = MapFn(
      [](const Tensor& r) {
        return r * r * GetVariable("w", {}, DType::kF32, ConstantInitializer(5));
      },
      x);
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  ASSERT_EQ(TrainableVariables().size(), 1u);
  EXPECT_EQ(TrainableVariables()[0].name(), "w:0");
  const Tensor d = Gradients({y}, {TrainableVariables()[0]})[0];
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  EXPECT_THAT(Values(y), ElementsAre(5, 20, 45));
  EXPECT_THAT(Values(d), ElementsAre(14));
}

TEST_F(FunctionalTest, DrawsOtherNumbersForEachRow) {
  const Tensor x = Constant(Array::Zeros(DType::kF32, {3}));
  const Tensor y =
      MapFn([](const Tensor& r) { return r + RandomUniform({}, 0, 1, {.seed = 3}); }, x);
  std::set<float> numbers;
  for (int run = 0; run < 2; ++run) {
    for (const float number : Values(y)) numbers.insert(number);
  }
  EXPECT_EQ(numbers.size(), 6u);
}

TEST_F(FunctionalTest, RunsWithinLoopsAndBranches) {
  const Tensor x = Constant(Array::Of<float>({2}, {1, 2}));
  const Tensor pred = Placeholder(DType::kBool, Shape());
  const Tensor y = WhileLoop([](const Tensors& v) { return Less(v[0], Constant(3.0)); },
                             [&](const Tensors& v) {
                               const Tensor sum = Foldl(Sum, x * v[1]);
                               return Tensors{v[0] + 1, v[1] + sum};
                             },
                             {Constant(0.0), Constant(1.0)}, {.maximum_iterations = 3})[1];
  const Tensor z = Cond(
      pred, [&] { return Foldl(Sum, x * y); }, [&] { return y; });
  const Tensor d = Gradients({z}, {x})[0];
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  // y = (1 + sum)^3, sum = 3; z = sum y.
  EXPECT_THAT(Values(z, {{pred, Array::Scalar(true)}}), ElementsAre(192));
  EXPECT_THAT(Values(d, {{pred, Array::Scalar(true)}}), ElementsAre(64 + 3 * 48, 64 + 3 * 48));
  EXPECT_THAT(Values(d, {{pred, Array::Scalar(false)}}), ElementsAre(48, 48));
}

TEST_F(FunctionalTest, RejectsFunctionsAndElementsThatAreNone) {
  const auto message = [](const std::function<void(const Tensor& x)>& build) {
    Graph graph;
    const auto scope = graph.AsDefault();
    build(Constant({1.0, 2.0}));
    return std::string(graph.status().message());
  };
  EXPECT_THAT(message([](const Tensor& x) { MapFn(std::function<Tensor(const Tensor&)>(), x); }),
              HasSubstr("it needs a function"));
  EXPECT_THAT(message([](const Tensor& x) {
                Scan(std::function<Tensor(const Tensor&, const Tensor&)>(), x);
              }),
              HasSubstr("it needs a function"));
  EXPECT_THAT(message([](const Tensor&) { MapFn([](const Tensors& r) { return r; }, Tensors{}); }),
              HasSubstr("no tensor whose rows"));
  EXPECT_THAT(message([](const Tensor&) { Foldl(Sum, Constant(1.0), Constant(2.0)); }),
              HasSubstr("elems 0 is float32[], which has no rows"));
  EXPECT_THAT(message([](const Tensor&) { MapFn([](const Tensor& r) { return r; }, Tensor()); }),
              HasSubstr("one of its tensors is invalid"));
  EXPECT_THAT(message([](const Tensor& x) { MapFn([](const Tensor&) { return Tensor(); }, x); }),
              HasSubstr("result 0 of a function is an invalid tensor"));
  EXPECT_THAT(message([](const Tensor& x) {
                Tensor inner;
                MapFn(
                    [&](const Tensor& r) {
                      inner = r * 2;
                      return r;
                    },
                    x);
                Identity(inner);
              }),
              HasSubstr("has no value outside"));
}

TEST_F(FunctionalTest, RejectsStatesThatChange) {
  const Tensor x = Placeholder(DType::kF32, {-1, 2});
  Scan([](const Tensor&, const Tensor& r) { return ReduceSum(r); }, x, Constant({1.0, 2.0}));
  EXPECT_THAT(GraphError(), HasSubstr("state 0 is float32[2], and its function returns float32[]; "
                                      "types and shapes stay the same from row to row"));
}

TEST_F(FunctionalTest, RejectsStatesThatChangeInThisRun) {
  const Tensor x = Placeholder(DType::kF32, {-1, -1}), h = Placeholder(DType::kF32, {-1});
  const Tensor y = Scan([](const Tensor&, const Tensor& r) { return r; }, x, h);
  const absl::Status status =
      session_.Run(y, {{x, Array::Zeros(DType::kF32, {4, 3})}, {h, Array::Zeros(DType::kF32, {2})}})
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("state 0 is"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stay the same from row to row"));
}

TEST_F(FunctionalTest, RejectsElementsOfDifferentLengths) {
  const Tensor x = Placeholder(DType::kF32, {-1}), y = Placeholder(DType::kF32, {-1});
  const Tensors z = MapFn([](const Tensors& r) { return Tensors{r[0] * r[1]}; }, Tensors{x, y});
  const absl::Status status =
      session_.Run(z[0], {{x, Array::Zeros(DType::kF32, {4})}, {y, Array::Zeros(DType::kF32, {2})}})
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("their first extents must agree"));
  MapFn([](const Tensors& r) { return r; }, Tensors{Constant({1.0}), Constant({1.0, 2.0})});
  EXPECT_THAT(GraphError(), HasSubstr("their first extents must agree"));
}

}  // namespace
}  // namespace functional_ops_test
}  // namespace penstock::session
