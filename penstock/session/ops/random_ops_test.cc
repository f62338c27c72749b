// Random operations, tested statistically; limits are at least 5 standard errors, with fixed seeds.
#include "penstock/session/ops/random_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/gradients.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/image_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/session.h"

namespace penstock::session {
namespace random_ops_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class RandomOps : public testing::Test {
 protected:
  RandomOps() { graph_.SetRandomSeed(7); }

  Session Open() { return Session("", {.client = runtime::TestClient(1)}, &graph_); }
  std::vector<Array> Run(const Fetches& fetches, const FeedDict& feeds = {}) {
    Session session = Open();
    const auto results = session.Run(fetches, feeds);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *results : std::vector<Array>(fetches.size());
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};
Moments MomentsOf(const Array& array) {
  const Array wide = *array.Cast(DType::kF64);
  const absl::Span<const double> x = wide.values<double>();
  const double n = static_cast<double>(x.size());
  Moments m;
  m.mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  for (const double v : x) m.deviation += (v - m.mean) * (v - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  m.low = *std::min_element(x.begin(), x.end());
  m.high = *std::max_element(x.begin(), x.end());
  return m;
}

constexpr int64_t kCount = 10000;

TEST_F(RandomOps, NumbersHaveTheMomentsOfTheirDistributions) {
  const auto seed = Constant(Array::Of<int32_t>({2}, {3, 4}));
  const std::vector<Array> got =
      Run({RandomUniform({kCount}, -2, 6), RandomNormal({kCount}, 3, 0.5, {.dtype = DType::kF64}),
           TruncatedNormal({kCount}, 1, 2), RandomUniform({kCount}, -3, 4, {.dtype = DType::kI32}),
           StatelessRandomUniform({kCount}, seed), StatelessTruncatedNormal({kCount}, seed)});
  // Mean, standard deviation, lowest and highest possible number.
  const std::vector<Moments> want = {
      {2, 8 * std::sqrt(1 / 12.0), -2, 6}, {3, 0.5, -9, 9},   {1, 2 * 0.8796, -3, 5}, {0, 2, -3, 3},
      {0.5, std::sqrt(1 / 12.0), 0, 1},    {0, 0.8796, -2, 2}};
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Moments m = MomentsOf(got[i]);
    EXPECT_NEAR(m.mean, want[i].mean, 0.05 * want[i].deviation) << i;
    EXPECT_NEAR(m.deviation, want[i].deviation, 0.05 * want[i].deviation) << i;
    EXPECT_GE(m.low, want[i].low) << i;
    EXPECT_LE(m.high, want[i].high) << i;
  }
}

TEST_F(RandomOps, DrawsOtherNumbersInEachRunAndRepeatsThemInANewSession) {
  const Tensor x = RandomNormal({8}), y = RandomNormal({8});
  Session first = Open(), second = Open();
  std::vector<std::vector<Array>> runs;
  for (Session* session : {&first, &first, &second, &second}) {
    const auto got = session->Run({x, y});
    ASSERT_TRUE(got.ok()) << got.status();
    runs.push_back(*got);
  }
  EXPECT_FALSE(BitwiseEqual(runs[0][0], runs[0][1])) << "operations draw alike";
  EXPECT_FALSE(BitwiseEqual(runs[0][0], runs[1][0])) << "runs draw alike";
  EXPECT_TRUE(BitwiseEqual(runs[0][0], runs[2][0]));
  EXPECT_TRUE(BitwiseEqual(runs[1][1], runs[3][1]));
}

TEST_F(RandomOps, OperationsOfOneSeedDrawAlike) {
  const Tensor x = RandomUniform({8}, 0, 1, {.seed = 5}), y = RandomUniform({8}, 0, 1, {.seed = 5}),
               z = RandomUniform({8}, 0, 1, {.seed = 6});
  const std::vector<Array> got = Run({x, y, z});
  EXPECT_TRUE(BitwiseEqual(got[0], got[1]));
  EXPECT_FALSE(BitwiseEqual(got[0], got[2]));
}

TEST_F(RandomOps, StatelessNumbersAreFunctionsOfTheSeed) {
  const Tensor seed = Placeholder(DType::kI64, {2});
  const Tensor x = StatelessRandomNormal({8}, seed);
  Session session = Open();
  const auto draw = [&](int64_t a, int64_t b) {
    return *session.Run(x, {{seed, Array::Of<int64_t>({2}, {a, b})}});
  };
  EXPECT_TRUE(BitwiseEqual(draw(1, 2), draw(1, 2)));
  EXPECT_FALSE(BitwiseEqual(draw(1, 2), draw(2, 1)));
}

TEST_F(RandomOps, ShapesMayBeTensors) {
  const Tensor x = Placeholder(DType::kF32, {-1, 3});
  const Tensor noise = RandomNormal(ShapeOf(x));
  EXPECT_EQ(noise.shape().ToString(), "[?,3]");
  EXPECT_EQ(Run({noise}, {{x, Array::Zeros(DType::kF32, {5, 3})}})[0].shape(), Shape({5, 3}));
}

TEST_F(RandomOps, ShufflesAndCropsKeepTheElements) {
  const Tensor rows = Reshape(Range(0, 40, 1), {10, 4});
  const std::vector<Array> got = Run({RandomShuffle(rows), RandomCrop(rows, {2, 3})});
  std::vector<int32_t> first, all(got[0].values<int32_t>().begin(), got[0].values<int32_t>().end());
  for (int64_t i = 0; i < 10; ++i) {
    first.push_back(all[4 * i]);
    EXPECT_EQ(all[4 * i + 3], all[4 * i] + 3) << "a row is torn apart";
  }
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  std::sort(all.begin(), all.end());
  std::vector<int32_t> want(40);
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(all, want);
  const absl::Span<const int32_t> crop = got[1].values<int32_t>();
  EXPECT_EQ(got[1].shape(), Shape({2, 3}));
  EXPECT_THAT(
      crop, ElementsAre(crop[0], crop[0] + 1, crop[0] + 2, crop[0] + 4, crop[0] + 5, crop[0] + 6));
}

TEST_F(RandomOps, MultinomialDrawsClassesByTheirProbability) {
  const float never = -std::numeric_limits<float>::infinity();
  const Tensor logits = Constant(
      Array::Of<float>({2, 3}, {std::log(0.2f), std::log(0.3f), std::log(0.5f), never, 0, never}));
  const std::vector<Array> got = Run(
      {Multinomial(logits, kCount), random::Categorical(logits, 4, {.output_dtype = DType::kI32})});
  EXPECT_EQ(got[0].TypeString(), "int64[2,10000]");
  EXPECT_EQ(got[1].TypeString(), "int32[2,4]");
  std::vector<double> share(3);
  for (int64_t i = 0; i < kCount; ++i) share[got[0].item<int64_t>({0, i})] += 1.0 / kCount;
  EXPECT_NEAR(share[0], 0.2, 0.025);
  EXPECT_NEAR(share[1], 0.3, 0.025);
  EXPECT_THAT(got[0].Row(1).values<int64_t>(), Each(1));
}

TEST_F(RandomOps, DropoutKeepsAShareAndScalesIt) {
  const Tensor x = Ones({100, 100}), keep_prob = Placeholder(DType::kF32, {});
  const Tensor kept = nn::Dropout(x, keep_prob);
  const Tensor rate = nn::Dropout(x, {}, {.rate = 0.2});
  const Tensor rows = nn::Dropout(x, 0.5, {.noise_shape = {100, 1}});
  const Tensor slope = Gradients({ReduceSum(kept)}, {x})[0];
  Session session = Open();
  const auto got = session.Run({kept, rate, rows, slope}, {{keep_prob, Array::Scalar(0.25f)}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].values<float>(), Each(::testing::AnyOf(0, 4)));
  EXPECT_NEAR(MomentsOf((*got)[0]).mean, 1, 0.09);
  EXPECT_THAT((*got)[1].values<float>(), Each(::testing::AnyOf(0, 1.25f)));
  EXPECT_NEAR(MomentsOf((*got)[1]).mean, 1, 0.03);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_THAT((*got)[2].Row(i).values<float>(), Each((*got)[2].item<float>({i, 0})));
  }
  EXPECT_TRUE(BitwiseEqual((*got)[0], (*got)[3])) << "the gradient has another mask";
  const auto all = session.Run(kept, {{keep_prob, Array::Scalar(1.0f)}});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->values<float>(), Each(1));
}

// In bfloat16 0.999 is 1.
TEST_F(RandomOps, DropoutOf16BitFloatsDropsAFewElements) {
  const Tensor x = Ones({400, 500}, DType::kBF16);
  const std::vector<Array> got = Run({Cast(nn::Dropout(x, 0.999), DType::kF32),
                                      Cast(nn::Dropout(x, {}, {.rate = 0.001}), DType::kF32)});
  for (const Array& kept : got) EXPECT_NEAR(200000 * (1 - MomentsOf(kept).mean), 200, 75);
}

TEST_F(RandomOps, FlipsHalfOfTheImages) {
  const Tensor images =
      Tile(Constant(Array::Of<float>({1, 2, 2, 1}, {1, 2, 3, 4})), {400, 1, 1, 1});
  const std::vector<Array> got =
      Run({image::RandomFlipLeftRight(images), image::RandomFlipUpDown(images)});
  for (int k = 0; k < 2; ++k) {
    int flipped = 0;
    const float other = k == 0 ? 2 : 3;
    for (int64_t i = 0; i < 400; ++i) {
      const float corner = got[k].item<float>({i, 0, 0, 0});
      ASSERT_TRUE(corner == 1 || corner == other);
      flipped += corner == other ? 1 : 0;
    }
    EXPECT_NEAR(flipped, 200, 50);
  }
}

TEST_F(RandomOps, RandomColorsAreWithinTheirLimits) {
  const Tensor image = Constant(Array::Of<float>({1, 2, 3}, {0.2f, 0.5f, 0.7f, 0.9f, 0.3f, 0.1f}));
  const Tensor bright = image::RandomBrightness(image, 0.3), hue = image::RandomHue(image, 0.1),
               contrast = image::RandomContrast(image, 0.5, 1.5),
               saturation = image::RandomSaturation(image, 0.5, 1.5);
  Session session = Open();
  std::vector<float> deltas;
  for (int run = 0; run < 20; ++run) {
    const auto got = session.Run({image, bright, contrast, hue, saturation});
    ASSERT_TRUE(got.ok()) << got.status();
    const auto at = [&](int k, int i) { return (*got)[k].item<float>({0, i / 3, i % 3}); };
    const float delta = at(1, 0) - at(0, 0);
    deltas.push_back(delta);
    EXPECT_LE(std::abs(delta), 0.3f);
    EXPECT_NEAR(at(1, 4) - at(0, 4), delta, 1e-6);
    const float factor = (at(2, 0) - at(2, 3)) / (at(0, 0) - at(0, 3));
    EXPECT_TRUE(factor >= 0.5f && factor <= 1.5f) << factor;
    // Hue and saturation keep the value, the largest channel.
    for (int k : {3, 4}) {
      EXPECT_NEAR(std::max({at(k, 0), at(k, 1), at(k, 2)}), 0.7f, 1e-5);
    }
  }
  EXPECT_GT(*std::max_element(deltas.begin(), deltas.end()), 0.05f);
  EXPECT_LT(*std::min_element(deltas.begin(), deltas.end()), -0.05f);
}

TEST_F(RandomOps, IntegersNeedAnUpperLimit) {
  RandomUniform({2}, 0, {}, {.dtype = DType::kI32});
  EXPECT_THAT(graph_.status().ToString(), HasSubstr("needs maxval"));
}

TEST_F(RandomOps, ACropLargerThanTheValueIsAnError) {
  const Tensor crop = RandomCrop(Zeros({3, 3}), {4, 2});
  Session session = Open();
  EXPECT_THAT(session.Run(crop).status().ToString(), HasSubstr("at least as large as the crop"));
}

}  // namespace
}  // namespace random_ops_test
}  // namespace penstock::session
