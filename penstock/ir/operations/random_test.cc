#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace random_test {

#include "penstock/ir/testdata/jax_random.inc"

using testing::Checks;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Make;

// Known answers from the authors' Random123 library (kat_vectors): Threefry-2x32, 20 rounds.
TEST(Random, MatchesKnownAnswersOfThreefry) {
  struct Known {
    uint32_t counter[2], key[2], want[2];
  };
  const Known knowns[] = {
      {{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
      {{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
      {{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}},
  };
  Checks checks;
  for (const Known& k : knowns) {
    const auto number = [&](uint32_t v) { return checks.Input(Array::Scalar(v)); };
    const Value key = checks.Input(Array::Of<uint32_t>({2}, {k.key[0], k.key[1]}));
    const auto [a, b] = Threefry2x32(key, number(k.counter[0]), number(k.counter[1]));
    checks.Expect("first", a, Array::Scalar(k.want[0]));
    checks.Expect("second", b, Array::Scalar(k.want[1]));
  }
  checks.Run();
}

TEST(Random, KeysMatchJax) {
  Checks checks;
  struct Seed {
    uint64_t seed;
    const std::vector<double>&key, &split, &fold_in, &bits;
  };
  const Seed seeds[] = {
      {0, kZeroKey, kZeroSplit, kZeroFoldIn, kZeroBits32},
      {42, kFortyTwoKey, kFortyTwoSplit, kFortyTwoFoldIn, kFortyTwoBits32},
      {(uint64_t{1} << 40) + 7, kWideKey, kWideSplit, kWideFoldIn, kWideBits32},
  };
  for (const Seed& s : seeds) {
    const Value key = RandomKey(checks.graph(), s.seed);
    checks.Expect("key", key, Make(DType::kU32, {2}, s.key));
    checks.Expect("split", Concatenate(SplitKey(key, 3), 0), Make(DType::kU32, {6}, s.split));
    checks.Expect("fold_in", FoldIn(key, 5), Make(DType::kU32, {2}, s.fold_in));
    const Value five = checks.Input(Array::Scalar<int64_t>(5));
    checks.Expect("fold_in of a value", FoldIn(key, five), Make(DType::kU32, {2}, s.fold_in));
    checks.Expect("bits", RandomBits(key, {DType::kU32, {2, 3}}),
                  Make(DType::kU32, {2, 3}, s.bits));
  }
  checks.Run();
}

TEST(Random, NumbersMatchJax) {
  Checks checks;
  const Value key = RandomKey(checks.graph(), 42);
  const auto expect = [&](const char* name, Value got, const std::vector<double>& want,
                          double tolerance = 0) {
    ASSERT_TRUE(got.valid()) << name << ": " << checks.graph().status();
    checks.Expect(name, got, Make(got.dtype(), got.shape(), want), tolerance);
  };
  expect("bits 8", RandomBits(key, {DType::kU8, {5}}), kBits8);
  expect("bits 16", RandomBits(key, {DType::kU16, {5}}), kBits16);
  // Compared as integers, because a double cannot represent all 64-bit values.
  expect("bits 64",
         Convert(Equal(RandomBits(key, {DType::kU64, {3}}),
                       Constant(checks.graph(), Array::Of<uint64_t>({3}, kBits64))),
                 DType::kF32),
         {1, 1, 1});
  expect("uniform f32", RandomUniform(key, {DType::kF32, {7}}), kUniformF32);
  expect("uniform in a range", RandomUniform(key, {DType::kF32, {7}}, -2, 5), kUniformRange, 1e-6);
  expect("uniform bf16", RandomUniform(key, {DType::kBF16, {9}}), kUniformBF16);
  expect("uniform f16", RandomUniform(key, {DType::kF16, {5}}), kUniformF16);
  expect("uniform f64", RandomUniform(key, {DType::kF64, {3}}), kUniformF64);
  expect("normal", SliceAxis(RandomNormal(key, {DType::kF32, {4000}}), 0, 0, 4000, 250), kNormal,
         2e-6);
  expect("truncated normal",
         SliceAxis(RandomTruncatedNormal(key, {DType::kF32, {4000}}), 0, 0, 4000, 250),
         kTruncatedNormal, 2e-6);
  expect("bernoulli", RandomBernoulli(key, {24}, 0.3), kBernoulli);
  expect("int i32", RandomInt(key, {DType::kI32, {6}}, -10, 17), kIntI32);
  expect("int i32, nearly all",
         RandomInt(key, {DType::kI32, {6}}, -(int64_t{1} << 31), (int64_t{1} << 31) - 1),
         kIntWide32);
  expect("int i64", RandomInt(key, {DType::kI64, {6}}, -5, 1000000000000), kIntI64);
  expect("int u8", RandomInt(key, {DType::kU8, {6}}, 0, 256), kIntU8);
  expect("int i8", RandomInt(key, {DType::kI8, {6}}, -100, 100), kIntI8);
  checks.Run();
}

// The random value of an element does not depend on the shape: a batch split over replicas or
// truncated keeps its values.
TEST(Random, ShapesDoNotChangeTheNumbers) {
  Checks checks;
  const Value key = RandomKey(checks.graph(), 7);
  const Value flat = RandomBits(key, {DType::kU32, {24}}),
              table = RandomBits(key, {DType::kU32, {2, 3, 4}});
  const Value few = RandomBits(key, {DType::kU32, {5}});
  checks.Expect("reshaped", Convert(Equal(Reshape(table, {24}), flat), DType::kI32),
                Make(DType::kI32, {24}, std::vector<double>(24, 1)));
  checks.Expect("shorter", Convert(Equal(few, SliceAxis(flat, 0, 0, 5)), DType::kI32),
                Make(DType::kI32, {5}, std::vector<double>(5, 1)));
  checks.Expect("none", RandomUniform(key, {DType::kF32, {0, 3}}), Make(DType::kF32, {0, 3}, {}));
  checks.Run();
}

// Means of 100,000 samples are within five standard errors of the distribution's mean.
TEST(Random, DistributionsHaveTheirMoments) {
  constexpr int64_t kCount = 100000;
  Graph graph("moments");
  const Values keys = SplitKey(RandomKey(graph, 1), 5);
  const Value samples[] = {
      RandomUniform(keys[0], {DType::kF32, {kCount}}, -1, 3),
      RandomNormal(keys[1], {DType::kF32, {kCount}}, 2, 0.5),
      RandomTruncatedNormal(keys[2], {DType::kF32, {kCount}}),
      Convert(RandomBernoulli(keys[3], {kCount}, 0.2), DType::kF32),
      Convert(RandomInt(keys[4], {DType::kI32, {kCount}}, 0, 6), DType::kF32),
  };
  Values results;
  for (const Value& s : samples) {
    const Value mean = ReduceMean(s);
    results.insert(results.end(), {mean, ReduceMean(Square(s - mean)), ReduceMin(s), ReduceMax(s)});
  }
  graph.SetResults(results);
  const auto got = testing::Run(graph);
  ASSERT_TRUE(got.ok()) << got.status();
  // Standard normal distribution truncated at 2: variance 1 - 4 phi(2) / erf(sqrt 2) (Johnson,
  // Kotz: Continuous Univariate Distributions, 13.10).
  const double phi2 = std::exp(-2.0) / std::sqrt(2 * M_PI);
  struct Moments {
    double mean, variance, min, max;
  };
  const Moments wants[] = {{1, 16.0 / 12, -1, 3},
                           {2, 0.25, -1, 5},
                           {0, 1 - 4 * phi2 / std::erf(std::sqrt(2.0)), -2, 2},
                           {0.2, 0.16, 0, 1},
                           {2.5, 35.0 / 12, 0, 5}};
  for (int i = 0; i < 5; ++i) {
    const auto value = [&](int k) { return (*got)[4 * i + k].item<double>(); };
    EXPECT_NEAR(value(0), wants[i].mean, 5 * std::sqrt(wants[i].variance / kCount)) << i;
    EXPECT_NEAR(value(1), wants[i].variance, 5 * wants[i].variance * std::sqrt(2.0 / kCount)) << i;
    EXPECT_GE(value(2), wants[i].min) << i;
    EXPECT_LE(value(3), wants[i].max) << i;
  }
}

TEST(Random, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<Value(Graph&, Value)> build;
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Graph& g, Value) {
         return RandomUniform(g.Parameter({DType::kU32, {3}}, "k"), {DType::kF32, {}});
       },
       "a random key is ui32[2], got ui32[3]"},
      {[](Graph&, Value key) {
         return RandomUniform(key, {DType::kI32, {}});
       },
       "random_uniform: expects a float type, got i32[]"},
      {[](Graph&, Value key) {
         return RandomBits(key, {DType::kI32, {}});
       },
       "random_bits: expects an unsigned type"},
      {[](Graph&, Value key) {
         return RandomInt(key, {DType::kU8, {}}, 0, 257);
       },
       "random_int: expects a range of numbers that the type holds, got ui8[] in [0, 257)"},
      {[](Graph&, Value key) {
         return RandomInt(key, {DType::kI32, {}}, 3, 3);
       },
       "in [3, 3)"},
      {[](Graph&, Value key) { return FoldIn(key, key); },
       "fold_in: data is an integer scalar, got ui32[2]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph, RandomKey(graph, 1)).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace random_test
}  // namespace penstock::ir
