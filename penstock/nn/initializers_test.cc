// First values against the moments that the papers (and Keras) give.
#include "penstock/nn/initializers.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

namespace penstock::nn {
namespace {

using base::DType;

TEST(Initializers, MeanVarianceAndBoundsAreThoseOfTheFormulas) {
  // A kernel [3, 3, 20, 40]: fan-in 180, fan-out 360.
  const double in = 180, mean_fan = (180 + 360) / 2.0;
  struct Case {
    const char* name;
    double variance;
    double bound;  // 0: none
  };
  // A normal distribution cut at two standard deviations has 0.8796 of the standard deviation.
  const double cut = 0.87962566103423978;
  const auto uniform = [](const char* name, double variance) {
    return Case{name, variance, std::sqrt(3 * variance)};
  };
  const auto truncated = [cut](const char* name, double variance) {
    return Case{name, variance, 2 * std::sqrt(variance) / cut};
  };
  const Case kCases[] = {
      uniform("random_uniform", 0.05 * 0.05 / 3),
      {"random_normal", 0.05 * 0.05, 0},
      {"truncated_normal", std::pow(0.05 * cut, 2), 0.1},
      uniform("glorot_uniform", 1 / mean_fan),
      truncated("glorot_normal", 1 / mean_fan),
      uniform("he_uniform", 2 / in),
      truncated("he_normal", 2 / in),
      uniform("lecun_uniform", 1 / in),
      truncated("lecun_normal", 1 / in),
  };
  for (const Case& c : kCases) {
    const auto array = InitialValue(c.name, {DType::kF32, {3, 3, 20, 40}}, 3);
    ASSERT_TRUE(array.ok()) << array.status();
    double sum = 0, squares = 0, largest = 0;
    const auto n = static_cast<double>(array->num_elements());
    for (float v : array->values<float>()) {
      sum += v;
      squares += double{v} * v;
      largest = std::max(largest, std::abs(double{v}));
    }
    // 7,200 numbers: the mean is within five of its standard deviations, the variance within 8 %.
    EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(c.variance / n)) << c.name;
    EXPECT_NEAR(squares / n / c.variance, 1, 0.08) << c.name;
    if (c.bound == 0) continue;
    EXPECT_LE(largest, c.bound * (1 + 1e-6)) << c.name;
    EXPECT_GE(largest, c.bound * 0.97) << c.name;
  }
}

TEST(Initializers, ConstantsAreExact) {
  EXPECT_EQ(InitialValue("zeros", {DType::kF32, {2}}, 1)->data<float>()[1], 0);
  EXPECT_EQ(InitialValue("ones", {DType::kI32, {2}}, 1)->data<int32_t>()[1], 1);
  EXPECT_EQ(InitialValue("constant(-0.25)", {DType::kF32, {}}, 1)->item<float>(), -0.25f);
}

TEST(Initializers, ASeedGivesItsOwnNumbersAndAlwaysThose) {
  const auto draw = [](uint64_t seed) {
    return *InitialValue("he_normal", {DType::kF32, {4, 4}}, seed);
  };
  EXPECT_TRUE(base::BitwiseEqual(draw(1), draw(1)));
  EXPECT_FALSE(base::BitwiseEqual(draw(1), draw(2)));
}

TEST(Initializers, UnknownOnesAndTypesWithoutNumbersAreRefused) {
  for (const char* name : {"", "glorot", "constant", "constant()", "constant(x)"})
    EXPECT_FALSE(InitialValue(name, {DType::kF32, {2}}, 1).ok()) << name;
  EXPECT_FALSE(InitialValue("zeros", {DType::kString, {2}}, 1).ok());
}

}  // namespace
}  // namespace penstock::nn
