// Wrong uses of functions, and what tests/lazy does not compare with PyTorch: random numbers.
#include "penstock/lazy/ops.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/metrics.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/testing/tensors.h"

namespace penstock::lazy::ops_test {

using test::ErrorOf;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Ops, MessagesNameOperationLineAndShapes) {
  const Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6}), y = Make({4}, {1, 2, 3, 4});
  EXPECT_THAT(ErrorOf(x + y), AllOf(HasSubstr("add"), HasSubstr("ops_test.cc:"),
                                    HasSubstr("f32[2,3]"), HasSubstr("f32[4]")));
  const Tensor elsewhere = tensor(Array::Scalar(1.0f), Device(runtime::TestClient(8), 0));
  EXPECT_THAT(ErrorOf(x + elsewhere), HasSubstr("found xla:0 and xla:0 of another client"));
  EXPECT_THAT(ErrorOf(sum(x, 2)),
              AllOf(HasSubstr("sum"), HasSubstr("ops_test.cc:"),
                    HasSubstr("dim 2 is out of range; valid dims are -2 to 1")));
  EXPECT_THAT(ErrorOf(x.reshape({4, -1})), HasSubstr("shape (4, -1) does not fit 6 elements"));
  EXPECT_THAT(ErrorOf(reshape(x, {-1, -1})), HasSubstr("only one size may be -1"));
  EXPECT_THAT(ErrorOf(matmul(x, x)),
              HasSubstr("the last size of the first operand (3) must equal the rows of the second "
                        "(2)"));
  EXPECT_THAT(ErrorOf(matmul(x, x.to(kDouble))), HasSubstr("must have one dtype"));
  EXPECT_THAT(ErrorOf(bmm(x, x)), HasSubstr("matmul() takes other ranks"));
  EXPECT_THAT(ErrorOf(mean(x > 2)), HasSubstr("expects floats"));
  EXPECT_THAT(ErrorOf((x > 1) - (x > 2)), HasSubstr("bools cannot be subtracted"));
  EXPECT_THAT(ErrorOf(lazy::where(x, x, x)), HasSubstr("the condition must be bool"));
  EXPECT_THAT(ErrorOf(masked_fill(x, x, 0)), HasSubstr("the mask must be bool"));
  EXPECT_THAT(ErrorOf(add(1, 2)), HasSubstr("at least one argument must be a tensor"));
  EXPECT_THAT(ErrorOf(div(x, x, "up")), HasSubstr("\"trunc\" or \"floor\", got \"up\""));
  EXPECT_THAT(ErrorOf(clamp(x)), HasSubstr("min or max is required"));
  EXPECT_THAT(ErrorOf(topk(x, 5).values), HasSubstr("k (5) must be from 0"));
  EXPECT_THAT(ErrorOf(x + Tensor()), HasSubstr("undefined"));
}

TEST(Ops, AScalarIsRepeatedAsAVector) {
  const Tensor x = Make({}, {5});
  EXPECT_THAT(ValuesOf(repeat_interleave(x, 3, 0)), ElementsAre(5, 5, 5));
  EXPECT_THAT(ValuesOf(x.repeat_interleave(2, -1)), ElementsAre(5, 5));
  EXPECT_THAT(ValuesOf(repeat_interleave(x, 0, 0)), ElementsAre());
}

TEST(Ops, WritesOfShapesThatDoNotFitAreErrors) {
  const Tensor x = zeros({2, 4}, {.device = TestDevice()});
  const Tensor at = arange(2, {.device = TestDevice()});
  const Tensor rows = zeros({4, 1}, {.dtype = kLong, .device = TestDevice()});
  EXPECT_THAT(ErrorOf(index_add(x, 0, at, Make({2, 3}, std::vector<float>(6)))),
              HasSubstr("the tensor's sizes"));
  EXPECT_THAT(ErrorOf(index_add(x, 0, at, Make({2, 1}, {1, 1}))), HasSubstr("the tensor's sizes"));
  EXPECT_THAT(ErrorOf(scatter(x, 1, rows, 7)), HasSubstr("no larger than the tensor"));
}

TEST(Ops, MessagesOfShapesAndIndices) {
  const Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ErrorOf(permute(x, {0, 0})), HasSubstr("must contain each dim once"));
  EXPECT_THAT(ErrorOf(expand(x, {3, 3})), HasSubstr("except where those are 1"));
  EXPECT_THAT(ErrorOf(narrow(x, 1, 2, 2)), HasSubstr("exceed the size 3 of dim 1"));
  EXPECT_THAT(ErrorOf(select(x, 0, 2)), HasSubstr("index 2 is out of range for dim 0 of size 2"));
  EXPECT_THAT(ErrorOf(slice(x, 0, 0, 2, -1)), HasSubstr("use flip()"));
  EXPECT_THAT(ErrorOf(t(unsqueeze(x, 0))), HasSubstr("transpose(dim0, dim1)"));
  EXPECT_THAT(ErrorOf(cat({})), HasSubstr("the list of tensors is empty"));
  EXPECT_THAT(ErrorOf(stack({x, t(x)})), HasSubstr("equal shapes"));
  EXPECT_THAT(ErrorOf(repeat(x, {2, -1})), HasSubstr("must not be negative, got (2, -1)"));
  EXPECT_THAT(ErrorOf(tile(x, -1)), HasSubstr("must not be negative"));
  split(x, std::vector<int64_t>{1, 2}, 0);
  EXPECT_THAT(ErrorOf(x), HasSubstr("sizes (1, 2) must add up to the size of dim 0, 2"));
  EXPECT_THAT(ErrorOf(index(x, {0, 1, 2})), HasSubstr("there are 3 indices for 2 dims"));
  const Tensor bytes = tensor(Array::Of<uint8_t>({2}, {0, 1}), TestDevice());
  EXPECT_THAT(ErrorOf(index(x, {bytes})), HasSubstr("uint8 index is a mask in PyTorch"));
  EXPECT_EQ(index(x, {bytes.to(kLong)}).sizes(), Shape({2, 3}));
  EXPECT_THAT(ErrorOf(index(x, {x > 2})), HasSubstr("use where() or masked_fill()"));
  EXPECT_THAT(ErrorOf(index(x, {x})), HasSubstr("indices must be integers"));
  EXPECT_THAT(ErrorOf(gather(x, 0, arange(2, {.device = TestDevice()}))),
              HasSubstr("as many dims as the tensor"));
  EXPECT_THAT(ErrorOf(einsum("ij,jk->ik", {x})), HasSubstr("has 2 operands, 1 were passed"));
  EXPECT_THAT(ErrorOf(einsum("ijk->i", {x})), HasSubstr("operand 0, which has 2 dims"));
  EXPECT_THAT(ErrorOf(einsum("ii->i", {x})), HasSubstr("repeats an index"));
  EXPECT_THAT(ErrorOf(nonzero(x)), HasSubstr("depends on values"));
  EXPECT_THAT(ErrorOf(masked_select(x, x > 2)), HasSubstr("where() or masked_fill()"));
  EXPECT_THAT(ErrorOf(unique(x)), HasSubstr("cpu()"));
  Tensor wide = expand(Make({1}, {1}), {3});
  wide.add_(1.0);
  EXPECT_THAT(ErrorOf(wide), HasSubstr("use clone() first"));
}

// An error does not affect what is recorded after it was read.
// Integers that no double is, and those that the tensor's type does not hold: PyTorch's values.
TEST(Ops, IntegersAreExact) {
  const auto numbers = [](const Tensor& x) {
    const Array values = *x.cpu().value().Cast(DType::kI64);
    return std::vector<int64_t>(values.values<int64_t>().begin(), values.values<int64_t>().end());
  };
  const int64_t odd = (int64_t{1} << 53) + 1, factor = 6364136223846793005;
  Tensor x = tensor(Array::Of<int64_t>({2}, {1, -2}), TestDevice());
  EXPECT_THAT(numbers(x * factor), ElementsAre(factor, 5718471626015965606));
  EXPECT_THAT(numbers(x + odd), ElementsAre(odd + 1, odd - 2));
  EXPECT_THAT(numbers(sub(x, x, odd)), ElementsAre(1 - odd, -2 + 2 * odd));
  EXPECT_THAT(numbers(eq(x + odd, odd + 1)), ElementsAre(1, 0));
  EXPECT_THAT(numbers(masked_fill(x, x > 0, odd)), ElementsAre(odd, -2));
  EXPECT_THAT(numbers(full({1}, odd, {.device = TestDevice()})), ElementsAre(odd));
  EXPECT_THAT(numbers(addcmul(x, x, x, odd)), ElementsAre(1 + odd, -2 + 4 * odd));
  const Tensor both = arange(2, {.device = TestDevice()});
  EXPECT_THAT(numbers(index_add(x, 0, both, x, odd)), ElementsAre(1 + odd, -2 - 2 * odd));
  EXPECT_THAT(numbers(arange(odd, odd + 3, {.device = TestDevice()})),
              ElementsAre(odd, odd + 1, odd + 2));
  EXPECT_THAT(numbers(arange(odd, odd - 3, -2, {.device = TestDevice()})),
              ElementsAre(odd, odd - 2));
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(numbers(arange(least, -(least + 1), -(least + 1), {.device = TestDevice()})),
              ElementsAre(least, -1, -(least + 2)));
  x.add_(x, odd);
  EXPECT_THAT(numbers(x), ElementsAre(odd + 1, -2 * odd - 2));
  x.fill_(odd).mul_(factor);
  EXPECT_THAT(numbers(x), testing::Each(4463617181096443693));
  const Tensor bytes = tensor(Array::Of<uint8_t>({2}, {1, 255}), TestDevice());
  EXPECT_THAT(numbers(bytes + 300), ElementsAre(45, 43));
  EXPECT_THAT(numbers(eq(bytes, -1)), ElementsAre(0, 1));
  EXPECT_THAT(numbers(abs(bytes)), ElementsAre(1, 255));
  EXPECT_THAT(numbers(sign(bytes)), ElementsAre(1, 1));
}

TEST(Ops, IntegersStayIntegers) {
  const auto numbers = [](const Tensor& x) {
    EXPECT_EQ(x.dtype(), kLong);
    return ValuesOf(x.to(kFloat));
  };
  const auto spaced = [&](double start, double end) {
    return numbers(linspace(start, end, 5, {.dtype = kLong, .device = TestDevice()}));
  };
  EXPECT_THAT(spaced(0, 10), ElementsAre(0, 2, 5, 7, 10));
  EXPECT_THAT(spaced(0, 1), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(spaced(0.9, -10.9), ElementsAre(0, -2, -5, -7, -10));
  const Tensor x = tensor(Array::Of<int64_t>({2}, {1, 1}), TestDevice());
  const Tensor matrix = tensor(Array::Of<int64_t>({2, 2}, {1, 2, 3, 4}), TestDevice());
  EXPECT_THAT(numbers(addmv(x, matrix, x)), ElementsAre(4, 8));
  EXPECT_THAT(numbers(addmv(x, matrix, x, 2, 3)), ElementsAre(11, 23));
  EXPECT_THAT(ErrorOf(addmv(x, matrix, x, 0.5)), HasSubstr("beta is 0.5"));
  EXPECT_THAT(ErrorOf(addmv(x, matrix, x, 1, 0.5)), HasSubstr("alpha is 0.5"));
  EXPECT_THAT(ErrorOf(add(x, x, 0.5)), HasSubstr("alpha is 0.5"));
  EXPECT_THAT(ErrorOf(sub(x, 1, 0.5)), HasSubstr("alpha is 0.5"));
  EXPECT_THAT(ErrorOf(addcmul(x, x, x, 0.5)), HasSubstr("value is 0.5"));
  EXPECT_THAT(ErrorOf(addcdiv(x, x, x, 0.5)), HasSubstr("value is 0.5"));
  const Tensor index = arange(2, {.device = TestDevice()});
  EXPECT_THAT(ErrorOf(index_add(x, 0, index, x, 0.5)), HasSubstr("alpha is 0.5"));
  // Beside a float the sum is one.
  EXPECT_THAT(ValuesOf(add(x, Make({2}, {2, 4}), 0.5)), ElementsAre(2, 3));
}

// As in both of PyTorch's directions.
TEST(Ops, ANanIsLargerThanAllNumbers) {
  const Tensor x = Make({3}, {3, NAN, 1});
  EXPECT_THAT(ValuesOf(topk(x, 1, 0, false).values), ElementsAre(1));
  EXPECT_THAT(ValuesOf(topk(x, 2, 0, false).indices.to(kFloat)), ElementsAre(2, 0));
  EXPECT_THAT(ValuesOf(topk(x, 1).indices.to(kFloat)), ElementsAre(1));
}

TEST(Ops, LerpGivesTheEndExactly) {
  const Tensor start = Make({1}, {1e8f}), end = Make({1}, {1});
  EXPECT_THAT(ValuesOf(lerp(start, end, 1.0)), ElementsAre(1));
  EXPECT_THAT(ValuesOf(lerp(start, end, 0.0)), ElementsAre(1e8f));
  EXPECT_THAT(ValuesOf(lerp(start, end, Make({3}, {1, 0, 2}))), ElementsAre(1, 1e8f, -1e8f));
}

// PyTorch's values.
TEST(Ops, FloorDivisionOfFloatsIsExact) {
  const auto divided = [](float a, float b) {
    return ValuesOf(floor_divide(Make({1}, {a}), Make({1}, {b})))[0];
  };
  EXPECT_EQ(divided(8388609, 1), 8388609);
  EXPECT_EQ(divided(-7, 2), -4);
  EXPECT_EQ(divided(7, -2), -4);
  EXPECT_EQ(divided(0.3f, 0.1f), 3);  // 0.3f is a little above 3 x 0.1f
  EXPECT_EQ(divided(1, 0), INFINITY);
  EXPECT_EQ(divided(-1, 0), -INFINITY);
  EXPECT_TRUE(std::isnan(divided(0, 0)));
  EXPECT_EQ(divided(-1, INFINITY), -1);
  EXPECT_EQ(divided(1, -INFINITY), -1);
  EXPECT_EQ(divided(1, INFINITY), 0);
  EXPECT_EQ(divided(-1, -INFINITY), 0);
  EXPECT_TRUE(std::isnan(divided(INFINITY, 2)));
}

TEST(Ops, AllcloseIsAllOfIsclose) {
  EXPECT_EQ(ValuesOf(allclose(Make({1}, {1}), Make({1}, {INFINITY})).to(kFloat))[0], 0);
  EXPECT_EQ(ValuesOf(allclose(Make({1}, {INFINITY}), Make({1}, {INFINITY})).to(kFloat))[0], 1);
  const auto number = [](int64_t x) { return tensor(Array::Of<int64_t>({1}, {x}), TestDevice()); };
  EXPECT_EQ(ValuesOf(allclose(number(100001), number(100000), 0.1).to(kFloat))[0], 1);
}

TEST(Ops, RecordingGoesOnAfterAnError) {
  const Tensor x = Make({2}, {1, 2});
  EXPECT_NE(ErrorOf(sum(x, 7)), "");
  EXPECT_THAT(ValuesOf(x * 2), ElementsAre(2, 4));
}

TEST(Ops, EmptyTensors) {
  const Tensor x = Make({0, 3}, {});
  EXPECT_THAT(ValuesOf(sum(x, 0)), ElementsAre(0, 0, 0));
  EXPECT_EQ(cat({x, Make({1, 3}, {1, 2, 3})}).size(0), 1);
  EXPECT_TRUE(std::isnan(ValuesOf(mean(x))[0]));
  EXPECT_EQ(matmul(x, Make({3, 2}, std::vector<float>(6))).size(0), 0);
  EXPECT_THAT(ErrorOf(argmax(x)), HasSubstr("at least one element"));
  EXPECT_THAT(ErrorOf(argmin(x, 0)), HasSubstr("at least one element along dim"));
  EXPECT_EQ(argmin(x, -1).sizes(), Shape{0});
  EXPECT_THAT(ValuesOf(argmax(x, 1, true).to(kFloat)), ElementsAre());
  const Tensor batch = Make({0, 3, 4}, {});
  EXPECT_EQ(bmm(batch, Make({0, 4, 5}, {})).sizes(), Shape({0, 3, 5}));
  const Tensor product =
      matmul(Make({0, 1, 3, 4}, {}), Make({2, 4, 5}, std::vector<float>(2 * 4 * 5)));
  EXPECT_EQ(product.sizes(), Shape({0, 2, 3, 5}));
  EXPECT_THAT(ValuesOf(product), ElementsAre());
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, -1.0, infinity, -infinity}) {
    EXPECT_THAT(ValuesOf(norm(x, p)), ElementsAre(0)) << p;
    EXPECT_THAT(ValuesOf(norm(x, p, {0})), ElementsAre(0, 0, 0)) << p;
  }
  EXPECT_TRUE(std::isnan(ValuesOf(var(x))[0]));
  EXPECT_TRUE(std::isnan(ValuesOf(std(x))[0]));
  EXPECT_TRUE(std::isnan(ValuesOf(var(x, {}, false))[0]));
  const Tensor none = tensor(Array::Of<int64_t>({0, 2}, {}), TestDevice());
  EXPECT_EQ(gather(x, 0, none).sizes(), Shape({0, 2}));
  EXPECT_EQ(index_select(x, 0, none.view({0})).sizes(), Shape({0, 3}));
  EXPECT_TRUE(xm::mark_step().ok());
  const Tensor one = tensor(Array::Of<int64_t>({1, 3}, {0, 0, 0}), TestDevice());
  EXPECT_THAT(ErrorOf(gather(x, 0, one)), HasSubstr("elements along axis 0"));
}

// ---- Random numbers ----

struct Moments {
  double mean, variance;
};
Moments MomentsOf(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (float v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (float v : values) squares += (v - mean) * (v - mean);
  return {mean, squares / static_cast<double>(values.size())};
}

// Bounds of five standard errors of 40000 draws.
TEST(Random, HasTheDistributions) {
  manual_seed(3);
  const TensorOptions on{.device = TestDevice()};
  const Tensor u = rand(40000, on), z = randn(40000, on);
  Tensor normal = zeros(40000, on), uniform = zeros(40000, on), half = zeros(40000, on);
  normal.normal_(3, 2);
  uniform.uniform_(-1, 3);
  half.bernoulli_(0.25);
  const Tensor b = bernoulli(full(40000, 0.7, on)), i = randint(2, 6, 40000, on).to(kFloat);
  const Tensor m = multinomial(Make({3}, {1, 0, 3}), 40000, true).to(kFloat);
  ASSERT_TRUE(xm::mark_step().ok());
  const auto expect = [](const Tensor& x, double mean, double variance) {
    const Moments got = MomentsOf(ValuesOf(x));
    EXPECT_NEAR(got.mean, mean, 5 * std::sqrt(variance / 40000));
    EXPECT_NEAR(got.variance, variance, 0.06 * variance);
  };
  expect(u, 0.5, 1 / 12.0);
  expect(z, 0, 1);
  expect(normal, 3, 4);
  expect(uniform, 1, 16 / 12.0);
  expect(half, 0.25, 0.1875);
  expect(b, 0.7, 0.21);
  expect(i, 3.5, 15 / 12.0);
  expect(m, 1.5, 0.75);  // 0 with probability 1/4, 2 with 3/4
}

TEST(Random, PermutationsAndDrawsWithoutReplacement) {
  manual_seed(1);
  const Tensor order = randperm(50, {.device = TestDevice()}).to(kFloat);
  const Tensor drawn = multinomial(Make({2, 4}, {1, 2, 3, 4, 4, 3, 2, 1}), 4).to(kFloat);
  const std::vector<float> values = ValuesOf(order), choices = ValuesOf(drawn);
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), 50u);
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(std::set<float>(choices.begin(), choices.begin() + 4).size(), 4u);
  EXPECT_THAT(ErrorOf(multinomial(Make({2}, {1, 1}), 3)), HasSubstr("without replacement"));
  EXPECT_THAT(ErrorOf(randint(4, 4, 3, {.device = TestDevice()})),
              HasSubstr("low (4) must be below high (4)"));
}

// The generator's key is data of the device: steps share a program and draw other numbers.
TEST(Random, SeedsRepeatAndStepsShareAProgram) {
  const TensorOptions on{.device = TestDevice()};
  const auto step = [&] {
    const Tensor drawn = rand(4, on) + randn(4, on);
    EXPECT_TRUE(xm::mark_step().ok());
    return ValuesOf(drawn);
  };
  manual_seed(17);
  const std::vector<float> first = step();
  const int64_t compiled = met::counter_value("UncachedCompile").value_or(0);
  const std::vector<float> second = step();
  EXPECT_EQ(met::counter_value("UncachedCompile").value_or(0), compiled);
  EXPECT_NE(first, second);
  const Tensor state = get_rng_state(TestDevice());
  const std::vector<float> third = step();
  set_rng_state(state);
  EXPECT_EQ(step(), third);
  manual_seed(17);
  EXPECT_EQ(step(), first);
  manual_seed(18);
  EXPECT_NE(step(), first);
}

TEST(Ops, ClampTakesLimitsOfTheTypeOnly) {
  const Tensor small = tensor(base::Array::Of<int8_t>({2}, {5, 100}), TestDevice());
  EXPECT_THAT(ErrorOf(clamp(small, 0, 255)), HasSubstr("the limit 255"));
  EXPECT_THAT(ValuesOf(clamp(small, -128, 50).to(kFloat)), ElementsAre(5, 50));
}

}  // namespace penstock::lazy::ops_test
