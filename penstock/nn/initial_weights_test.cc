// Layer::SetInitialWeights: pretrained layers inside networks.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace initial_weights_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Array Filled(Shape shape, float value, DType dtype = DType::kF32) {
  Array out = Array::Zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.num_elements(); ++i) out.mutable_data<float>()[i] = value;
  return *out.Cast(dtype);
}

Layer Square(const std::string& name) {
  return Dense({.units = 2, .use_bias = false, .name = name});
}

// "base": first(x), then second.
Layer Base() {
  const Symbol i = Input({.shape = {2}});
  return Nested(Network({i}, {Square("second")(Square("first")(i))}, "base"));
}

base::NamedArrays Initial(const Network& network) {
  const auto initial = network.Initialize(1);
  EXPECT_TRUE(initial.ok()) << initial.status();
  return initial.ok() ? *initial : base::NamedArrays();
}

TEST(InitialWeights, ReplaceInitializersOfTheirVariablesOnly) {
  const Symbol x = Input({.shape = {2}});
  const Layer base = Base();
  const Network network({x}, {Square("head")(base(x))});
  const base::NamedArrays drawn = Initial(network);
  base.SetInitialWeights({{"first/kernel", Filled({2, 2}, 7, DType::kBF16)}});
  const base::NamedArrays given = Initial(network);
  EXPECT_THAT(given.Find("base/first/kernel")->values<float>(), Each(7));
  for (const char* other : {"base/second/kernel", "head/kernel"}) {
    EXPECT_TRUE(base::BitwiseEqual(*given.Find(other), *drawn.Find(other))) << other;
  }
}

TEST(InitialWeights, ReachLayersAtAnyDepthAndOuterOnesWin) {
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Layer base = Base();
  const Layer outer = Nested(Network({i}, {base(i)}, "outer"));
  const Network network({x}, {outer(x)});
  base.SetInitialWeights(
      {{"first/kernel", Filled({2, 2}, 1)}, {"second/kernel", Filled({2, 2}, 2)}});
  outer.SetInitialWeights({{"base/first/kernel", Filled({2, 2}, 3)}});
  const base::NamedArrays given = Initial(network);
  EXPECT_THAT(given.Find("outer/base/first/kernel")->values<float>(), Each(3));
  EXPECT_THAT(given.Find("outer/base/second/kernel")->values<float>(), Each(2));
}

// The variables of a shared layer are named by another path.
TEST(InitialWeights, ReachVariablesNamedByAnotherPath) {
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Layer shared = Square("shared");
  const Layer inner = Nested(Network({i}, {shared(i)}, "inner"));
  const Network network({x}, {inner(Square("between")(shared(x)))});
  ASSERT_EQ(network.variables()[0].name, "shared/kernel");
  inner.SetInitialWeights({{"shared/kernel", Filled({2, 2}, 4)}});
  EXPECT_THAT(Initial(network).Find("shared/kernel")->values<float>(), Each(4));
}

TEST(InitialWeights, MustFitTheVariables) {
  const Symbol x = Input({.shape = {2}});
  const Layer base = Base();
  const Network network({x}, {base(x)});
  const auto error = [&](const std::string& name, Array array) {
    base.SetInitialWeights({{name, std::move(array)}});
    return std::string(network.Initialize(1).status().message());
  };
  EXPECT_THAT(error("third/kernel", Filled({2, 2}, 1)),
              AllOf(HasSubstr("layer 'base'"), HasSubstr("'third/kernel'")));
  EXPECT_THAT(error("first/kernel", Filled({2, 3}, 1)),
              AllOf(HasSubstr("base/first/kernel is f32[2,2]"), HasSubstr("float32[2,3]")));
  EXPECT_THAT(error("first/kernel", Filled({2, 2}, 1, DType::kI32)), HasSubstr("int32[2,2]"));
}

}  // namespace initial_weights_test
}  // namespace penstock::nn
