// Initial values compared with the moments given by the papers (and Keras).
#include "penstock/nn/initializers.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::nn {
namespace initializers_test {

using base::DType;
using ::testing::HasSubstr;

base::Array Draw(absl::string_view initializer, const base::Shape& shape, uint64_t seed = 3) {
  auto array = InitialValue(initializer, {DType::kF32, shape}, seed);
  PENSTOCK_CHECK_OK(array);
  return *std::move(array);
}

TEST(Initializers, MatchMeanVarianceAndBounds) {
  // A kernel [3, 3, 20, 40]: fan-in 180, fan-out 360.
  const double in = 180, mean_fan = (180 + 360) / 2.0;
  struct Case {
    const char* name;
    double variance;
    double bound;  // 0: unbounded
  };
  // A normal distribution truncated at two standard deviations has 0.8796 of the original's.
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
      truncated("variance_scaling", 1 / in),
      truncated("variance_scaling(2, fan_out)", 2 / 360.0),
      truncated("variance_scaling(distribution=normal)", 1 / in),
      uniform("variance_scaling(0.5, fan_avg, uniform)", 0.5 / mean_fan),
      {"variance_scaling(3, fan_in, untruncated_normal)", 3 / in, 0},
      uniform("LecunUniform(input_axes=[0, -2], output_axes=[3])", 1 / 60.0),
      uniform("random_uniform(-2, 2)", 4 / 3.0),
      {"normal(stddev=3)", 9, 0},
  };
  for (const Case& c : kCases) {
    const base::Array array = Draw(c.name, {3, 3, 20, 40});
    double sum = 0, squares = 0, largest = 0;
    const auto n = static_cast<double>(array.num_elements());
    for (float v : array.values<float>()) {
      sum += v;
      squares += double{v} * v;
      largest = std::max(largest, std::abs(double{v}));
    }
    // 7,200 values: the mean is within five standard errors, the variance within 8 %.
    EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(c.variance / n)) << c.name;
    EXPECT_NEAR(squares / n / c.variance, 1, 0.08) << c.name;
    if (c.bound == 0) continue;
    EXPECT_LE(largest, c.bound * (1 + 1e-6)) << c.name;
    EXPECT_GE(largest, c.bound * 0.97) << c.name;
  }
}

TEST(Initializers, MeanShiftsDistribution) {
  for (const char* name : {"random_normal(mean=5, stddev=0.1)", "truncated_normal(5, 0.1)",
                           "random_uniform(4.9, 5.1)"}) {
    const base::Array array = Draw(name, {1000});
    double sum = 0;
    for (float v : array.values<float>()) sum += v;
    EXPECT_NEAR(sum / 1000, 5, 5 * 0.1 / std::sqrt(1000)) << name;
  }
  const base::Array array = Draw("random_uniform(0, 10)", {1000});
  const auto values = array.values<float>();
  EXPECT_NEAR(*std::min_element(values.begin(), values.end()), 0, 0.1);
  EXPECT_NEAR(*std::max_element(values.begin(), values.end()), 10, 0.1);
}

TEST(Initializers, OrthogonalVectorsAreOrthonormal) {
  // As a matrix, the kernel has more rows than columns, fewer, equally many, and one.
  for (const base::Shape& shape :
       {base::Shape{3, 3, 4, 10}, base::Shape{12, 50}, base::Shape{64, 64}, base::Shape{1, 7}}) {
    const base::Array array = Draw("orthogonal(1.5)", shape);
    const int64_t columns = shape.dim(-1), rows = shape.num_elements() / columns;
    const bool wide = rows < columns;
    const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](int64_t vector, int64_t i) {
      return double{array.data<float>()[wide ? vector * columns + i : i * columns + vector]};
    };
    for (int64_t a = 0; a < count; ++a) {
      for (int64_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (int64_t i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
        EXPECT_NEAR(dot, a == b ? 2.25 : 0, 1e-6) << shape.ToString();
      }
    }
  }
}

TEST(Initializers, OrthogonalMatricesAreUniform) {
  // 400 random orthogonal 2x2 matrices: with and without reflection equally often, at uniform
  // angles.
  double sum = 0, squares = 0, determinants = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const base::Array q = Draw("orthogonal", {2, 2}, seed);
    const float* p = q.data<float>();
    sum += p[0];
    squares += p[0] * p[0];
    determinants += p[0] * p[3] - p[1] * p[2];
  }
  EXPECT_NEAR(sum / 400, 0, 5 * std::sqrt(0.5 / 400));
  EXPECT_NEAR(squares / 400, 0.5, 5 * std::sqrt(0.125 / 400));
  EXPECT_NEAR(determinants / 400, 0, 5 / std::sqrt(400));
}

TEST(Initializers, ConstantsAreExact) {
  EXPECT_EQ(InitialValue("zeros", {DType::kF32, {2}}, 1)->data<float>()[1], 0);
  EXPECT_EQ(InitialValue("ones", {DType::kI32, {2}}, 1)->data<int32_t>()[1], 1);
  EXPECT_EQ(Draw("constant(-0.25)", {}).item<float>(), -0.25f);
  EXPECT_EQ(Draw("Constant(value=2)", {}).item<float>(), 2);
  EXPECT_EQ(Draw("constant", {}).item<float>(), 0);
  EXPECT_THAT(Draw("identity(gain=3)", {2, 3}).values<float>(),
              ::testing::ElementsAre(3, 0, 0, 0, 3, 0));
}

TEST(Initializers, SeedsAreReproducibleAndDistinct) {
  const auto draw = [](uint64_t seed) {
    return *InitialValue("he_normal", {DType::kF32, {4, 4}}, seed);
  };
  EXPECT_TRUE(base::BitwiseEqual(draw(1), draw(1)));
  EXPECT_FALSE(base::BitwiseEqual(draw(1), draw(2)));
}

TEST(Initializers, RejectsUnknownNamesAndNonNumericTypes) {
  for (const char* name : {"", "glorot", "constant(x)", "zeros(1)", "variance_scaling(0)",
                           "variance_scaling(1, fan)", "variance_scaling(1, fan_in, cauchy)",
                           "orthogonal", "identity", "he_normal(input_axes=4, output_axes=0)"})
    EXPECT_FALSE(InitialValue(name, {DType::kF32, {2}}, 1).ok()) << name;
  EXPECT_FALSE(InitialValue("zeros", {DType::kString, {2}}, 1).ok());
  EXPECT_THAT(InitialValue("orthogonal", {DType::kF32, {2}}, 1).status().message(),
              HasSubstr("initializer orthogonal: it takes a variable of two axes"));
}

}  // namespace initializers_test
}  // namespace penstock::nn
