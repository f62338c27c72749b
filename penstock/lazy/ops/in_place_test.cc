#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/autograd.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/testing/tensors.h"

namespace penstock::lazy::in_place_test {

using test::ErrorOf;
using test::Make;
using test::ValuesOf;
using testing::HasSubstr;
using Floats = std::vector<float>;

Tensor Integers() { return tensor(Array::Of<int64_t>({2}, {1, 2}), test::TestDevice()); }

// ---- Types ----

TEST(InPlaceTest, RejectsAResultOfAHigherKindThanTheTensors) {
  const Tensor halves = Make({2}, {0.5, 0.5});
  Tensor x = Integers(), flags = tensor(Array::Of<bool>({2}, {true, false}), test::TestDevice());
  const std::vector<std::function<void()>> mistakes = {[&] { x.add_(halves); },
                                                       [&] { x.mul_(0.5); },
                                                       [&] { x.add_(1.5); },
                                                       [&] { x.div_(Integers()); },
                                                       [&] { x.exp_(); },
                                                       [&] { x.clamp_(0.5, 1.5); },
                                                       [&] { x.pow_(0.5); },
                                                       [&] { x.lerp_(halves, 0.5); },
                                                       [&] { flags.add_(Integers()); },
                                                       [&] { flags.mul_(2); },
                                                       [&] { x.addcmul_(halves, halves); }};
  for (size_t i = 0; i < mistakes.size(); ++i) {
    mistakes[i]();
    EXPECT_THAT(ErrorOf(x), HasSubstr("can't be cast to the tensor's")) << "mistake " << i;
  }
  EXPECT_EQ(x.to(kFloat32).cpu()->values<float>()[1], 2);
}

TEST(InPlaceTest, RejectsAFractionAsAlphaOfIntegers) {
  Tensor x = Integers();
  x.add_(Integers(), 0.5);
  EXPECT_THAT(ErrorOf(x), HasSubstr("alpha is 0.5"));
  EXPECT_EQ(ValuesOf(x.add_(Integers(), 2).to(kFloat32)), Floats({3, 6}));
}

TEST(InPlaceTest, ComputesInTheCommonType) {
  // 1 + 2^-9 is no bfloat16: rounded before the sum, 2^-9 times 256 would be lost.
  Tensor x = Make({1}, {1}).to(kBFloat16);
  x.mul_(Make({1}, {257.f / 256}));
  EXPECT_EQ(ValuesOf(x.to(kFloat32)), Floats({1}));  // 1.00390625 to the nearest bfloat16, even
  Tensor y = Make({1}, {3}).to(kBFloat16);
  y.mul_(Make({1}, {257.f / 256}));
  EXPECT_EQ(ValuesOf(y.to(kFloat32)), Floats({3.015625}));
}

TEST(InPlaceTest, BoolsAddAsOrAndMultiplyAsAnd) {
  Tensor x = tensor(Array::Of<bool>({2}, {true, false}), test::TestDevice());
  const Tensor y = tensor(Array::Of<bool>({2}, {true, true}), test::TestDevice());
  EXPECT_EQ(ValuesOf(x.clone().add_(y).to(kFloat32)), Floats({1, 1}));
  EXPECT_EQ(ValuesOf(x.clone().mul_(y).to(kFloat32)), Floats({1, 0}));
}

TEST(InPlaceTest, RejectsAResultThatIsLargerThanTheTensor) {
  Tensor x = Make({2}, {1, 2});
  x.clamp_();
  ErrorOf(x);
  x.masked_fill_(tensor(Array::Of<bool>({2, 1}, {true, false}), test::TestDevice()), 7);
  EXPECT_THAT(ErrorOf(x), HasSubstr("in-place operations cannot broadcast the tensor"));
}

// ---- Views ----

TEST(InPlaceTest, DiagonalIsAView) {
  Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6});
  diagonal(x).fill_(0);
  EXPECT_EQ(ValuesOf(x), Floats({0, 2, 3, 4, 0, 6}));
  Tensor tall = Make({3, 2}, {1, 2, 3, 4, 5, 6});
  diagonal(tall).mul_(10);
  EXPECT_EQ(ValuesOf(tall), Floats({10, 2, 3, 40, 5, 6}));
  Tensor none = Make({0, 3}, {});
  diagonal(none).fill_(1);
  EXPECT_EQ(ValuesOf(none), Floats());
}

TEST(InPlaceTest, AnExpandedTensorThatRepeatsNothingCanBeModified) {
  Tensor x = Make({2, 1}, {1, 2});
  expand(x, {1, 2, -1}).mul_(3);
  EXPECT_EQ(ValuesOf(x), Floats({3, 6}));
  Tensor y = Make({1}, {4});
  expand(y, {0}).fill_(9);  // of no elements
  EXPECT_EQ(ValuesOf(y), Floats({4}));
  expand(y, {2}).fill_(9);
  EXPECT_THAT(ErrorOf(y), HasSubstr("use clone() first"));
}

TEST(InPlaceTest, ViewsOfVectorsAndScalarsAreOtherTensors) {
  const Tensor vector = Make({2}, {1, 2}), scalar = Make({}, {1});
  for (Tensor view : {t(vector), t(scalar), transpose(scalar, 0, -1), movedim(scalar, 0, 0)}) {
    view.requires_grad_();
  }
  EXPECT_FALSE(vector.requires_grad());
  EXPECT_FALSE(scalar.requires_grad());
}

TEST(InPlaceTest, SplittingAnEmptyDimGivesEmptyParts) {
  const Tensor x = Make({2, 0}, {});
  EXPECT_EQ(chunk(x, 3, 1).size(), 3u);
  EXPECT_EQ(split(x, 2, 1).size(), 1u);
  EXPECT_EQ(split(x, 2, 1).at(0).sizes(), Shape({2, 0}));
}

TEST(InPlaceTest, HugeSizesAreErrors) {
  const Tensor x = Make({0}, {});
  const int64_t huge = int64_t{1} << 40;
  for (const Tensor& y : {reshape(x, {huge, huge}), unflatten(x, 0, {huge, huge})}) {
    EXPECT_FALSE(y.defined());
  }
  EXPECT_THAT(ErrorOf(x), HasSubstr("2^63"));
  EXPECT_EQ(chunk(Make({2}, {1, 2}), INT64_MAX).size(), 2u);
}

TEST(InPlaceTest, IndexPutDropsLeadingDimsOfOneElement) {
  Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6});
  x.index_put_({1}, Make({1, 1, 3}, {7, 8, 9}));
  EXPECT_EQ(ValuesOf(x), Floats({1, 2, 3, 7, 8, 9}));
}

// ---- Reductions and gradients ----

TEST(InPlaceTest, ExtremaOfBoolsAndOfNothing) {
  const Tensor x = tensor(Array::Of<bool>({2, 2}, {true, false, false, false}), test::TestDevice());
  EXPECT_EQ(ValuesOf(amax(x, 1).to(kFloat32)), Floats({1, 0}));
  EXPECT_EQ(ValuesOf(min(x).to(kFloat32)), Floats({0}));
  max(Make({0}, {}));
  EXPECT_THAT(ErrorOf(x), HasSubstr("no elements to choose from"));
  EXPECT_EQ(ValuesOf(amax(Make({0, 2}, {}), 1)), Floats());
}

TEST(InPlaceTest, AGradientThatDependsOnNothingRequiresNone) {
  const Tensor x = Make({2}, {1, 2}, true);
  const Tensor linear = autograd::grad({sum(x * 3)}, {x}, {.create_graph = true}).at(0);
  EXPECT_FALSE(linear.requires_grad());
  const Tensor square = autograd::grad({sum(x * x)}, {x}, {.create_graph = true}).at(0);
  EXPECT_TRUE(square.requires_grad());
}

}  // namespace penstock::lazy::in_place_test
