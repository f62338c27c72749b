// MixUp and CutMix: what they draw, against plain formulas and the distributions of the papers.
#include "penstock/nn/batch_augmentation.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/array.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::nn {
namespace batch_augmentation_test {

using base::Array;
using base::DType;
using base::Shape;
using ir::testing::Doubles;
using ::testing::HasSubstr;

struct Mixed {
  Array images;
  std::vector<double> partner, share;
};

// A program that mixes images of one type; the last `padding` rows are padding.
class Mixer {
 public:
  Mixer(const std::vector<BatchAugmentation>& augmentations, const Array& images,
        int64_t padding = 0)
      : images_(images) {
    const int64_t rows = images.dim(0);
    ir::Graph graph("mix");
    std::vector<float> mask(rows, 1);
    std::fill(mask.end() - padding, mask.end(), 0.0f);
    const ir::Value x = graph.Parameter({images.dtype(), images.shape()}, "x");
    const MixedBatch mixed = MixBatch(augmentations, graph.Parameter({DType::kU32, {2}}, "key"),
                                      {x}, ir::Constant(graph, Array::Of<float>({rows}, mask)));
    PENSTOCK_CHECK_OK(graph.status());
    graph.SetResults({mixed.inputs[0], mixed.partner, mixed.share});
    const auto program = ir::PrintStableHlo(graph);
    PENSTOCK_CHECK_OK(program);
    auto compiled = ir::testing::Executable::Compile(*program);
    PENSTOCK_CHECK_OK(compiled);
    executable_ = *std::move(compiled);
  }
  Mixed Run(uint32_t seed) const {
    const auto got = executable_->Run({images_, Array::Of<uint32_t>({2}, {7, seed})});
    PENSTOCK_CHECK_OK(got);
    return {(*got)[0], Doubles((*got)[1]), Doubles((*got)[2])};
  }

 private:
  Array images_;
  std::optional<ir::testing::Executable> executable_;
};

Mixed Mix(const std::vector<BatchAugmentation>& augmentations, const Array& images,
          uint32_t seed = 1) {
  return Mixer(augmentations, images).Run(seed);
}

// Pixel p of image i is 1000 i + p, so that every pixel identifies its origin.
Array Numbered(int64_t rows, int64_t height, int64_t width) {
  Array images = Array::Zeros(DType::kF32, {rows, height, width, 1});
  const int64_t pixels = height * width;
  for (int64_t i = 0; i < rows * pixels; ++i)
    images.mutable_data<float>()[i] = static_cast<float>(1000 * (i / pixels) + i % pixels);
  return images;
}

TEST(MixUp, BlendsEachImageWithItsPartner) {
  const Array images = Numbered(6, 2, 3);
  const Mixed mixed = Mix({MixUp({.alpha = 1})}, images);
  const std::vector<double> got = Doubles(mixed.images), x = Doubles(images);
  for (int64_t i = 0; i < 6; ++i) {
    const double own = mixed.share[i];
    const auto partner = static_cast<int64_t>(mixed.partner[i]);
    EXPECT_GE(own, 0);
    EXPECT_LE(own, 1);
    for (int64_t p = 0; p < 6; ++p) {
      EXPECT_NEAR(got[i * 6 + p], own * x[i * 6 + p] + (1 - own) * x[partner * 6 + p], 1e-2);
    }
  }
  EXPECT_EQ(std::set<double>(mixed.partner.begin(), mixed.partner.end()).size(), 6u);
}

TEST(MixUp, BytesAreRounded) {
  Array bytes = Array::Zeros(DType::kU8, {2, 1, 1, 1});
  bytes.mutable_data<uint8_t>()[1] = 200;
  const Mixed mixed = Mix({MixUp({.alpha = 1})}, bytes, 3);
  ASSERT_EQ(mixed.images.dtype(), DType::kU8);
  for (int64_t i = 0; i < 2; ++i) {
    const double own = i == 0 ? 0 : 200, other = mixed.partner[i] == 0 ? 0 : 200;
    EXPECT_EQ(Doubles(mixed.images)[i],
              std::nearbyint(mixed.share[i] * own + (1 - mixed.share[i]) * other));
  }
}

// Distribution function of Beta(0.2, 0.2) at 0.1, computed with SciPy.
constexpr double kBelowTenth = 0.33669;

// Mean 1/2, and variance 1 / (4 (2 alpha + 1)), of Beta(alpha, alpha).
TEST(MixUp, SharesHaveTheBetaDistribution) {
  const int64_t n = 20000;
  for (double alpha : {0.05, 0.2, 1.0, 4.0}) {
    const Mixed mixed = Mix({MixUp({.alpha = alpha})}, Array::Zeros(DType::kF32, {n, 1, 1, 1}), 5);
    double mean = 0, variance = 0;
    int64_t below_tenth = 0;
    for (double share : mixed.share) {
      ASSERT_TRUE(share >= 0 && share <= 1) << share;
      mean += share / n;
      below_tenth += share < 0.1;
    }
    for (double share : mixed.share) variance += (share - mean) * (share - mean) / n;
    const double want = 0.25 / (2 * alpha + 1);
    EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(want / n)) << alpha;
    EXPECT_NEAR(variance, want, 0.02 * want + 0.001) << alpha;
    const double fraction = static_cast<double>(below_tenth) / n;
    if (alpha == 1) {
      EXPECT_NEAR(fraction, 0.1, 0.011);  // uniform
    } else if (alpha == 0.2) {
      EXPECT_NEAR(fraction, kBelowTenth, 0.018);
    }
  }
}

TEST(CutMix, ReplacesARectangleWhoseAreaIsTheSharesComplement) {
  const int64_t rows = 40, height = 12, width = 9, pixels = height * width;
  const Mixed mixed = Mix({CutMix({.factor = {1, 1}})}, Numbered(rows, height, width), 2);
  const std::vector<double> got = Doubles(mixed.images);
  std::set<double> areas;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t count = 0, top = height, bottom = -1, left = width, right = -1;
    for (int64_t p = 0; p < pixels; ++p) {
      const auto from = static_cast<int64_t>(got[i * pixels + p]) / 1000;
      EXPECT_EQ(static_cast<int64_t>(got[i * pixels + p]) % 1000, p);  // at the same position
      if (from == i) continue;
      EXPECT_EQ(from, static_cast<int64_t>(mixed.partner[i]));
      ++count;
      top = std::min(top, p / width), bottom = std::max(bottom, p / width);
      left = std::min(left, p % width), right = std::max(right, p % width);
    }
    if (mixed.partner[i] == static_cast<double>(i)) continue;  // mixed with itself
    if (count > 0) {
      EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
    }
    EXPECT_NEAR(mixed.share[i], 1 - static_cast<double>(count) / pixels, 1e-6);
    areas.insert(mixed.share[i]);
  }
  EXPECT_GT(areas.size(), 8u);  // each image has its own box
}

// With factor {1, 1} the share is uniform; a box of random position covers the image evenly except
// at its border.
TEST(CutMix, SharesAreUniformForTheFactorOfThePaper) {
  const int64_t n = 4000;
  const Mixed mixed = Mix({CutMix({.factor = {1, 1}})}, Array::Zeros(DType::kF32, {n, 32, 32, 1}));
  const double mean = std::accumulate(mixed.share.begin(), mixed.share.end(), 0.0) / n;
  double variance = 0;
  for (double share : mixed.share) variance += (share - mean) * (share - mean) / n;
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(variance, 1.0 / 12, 0.006);
}

TEST(MixBatch, NeverMixesPaddingIntoRealExamples) {
  const Mixer mixer({MixUp()}, Numbered(8, 1, 1), /*padding=*/3);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Mixed mixed = mixer.Run(seed);
    std::set<double> partners(mixed.partner.begin(), mixed.partner.begin() + 5);
    EXPECT_THAT(partners, ::testing::ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(MixBatch, DrawsOneOfSeveralForEachBatch) {
  int boxes = 0;
  const int draws = 40;
  const Mixer mixer({MixUp({.alpha = 1}), CutMix()}, Numbered(4, 4, 4));
  for (uint32_t seed = 0; seed < draws; ++seed) {
    const Mixed mixed = mixer.Run(seed);
    // MixUp makes numbers that no pixel has.
    bool whole = true;
    for (double pixel : Doubles(mixed.images)) whole = whole && pixel == std::floor(pixel);
    boxes += whole;
  }
  EXPECT_GT(boxes, 4);  // five standard deviations around 20
  EXPECT_LT(boxes, 36);
}

TEST(MixBatch, NeedsTwoExamples) {
  ir::Graph graph("mix");
  const Value one = graph.Parameter({DType::kF32, {1, 4}}, "x");
  MixBatch({MixUp()}, ir::RandomKey(graph, 1), {one}, graph.Parameter({DType::kF32, {1}}, "mask"));
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("a batch size of at least 2"));
}

std::string WhyNot(const BatchAugmentation& augmentation, std::vector<ir::TensorType> inputs) {
  std::vector<Network::Port> ports;
  for (const ir::TensorType& type : inputs) ports.push_back({.name = "x", .type = type});
  return std::string(CheckBatchAugmentation({augmentation}, ports).message());
}

TEST(CheckBatchAugmentation, SaysWhatCannotBeMixed) {
  const ir::TensorType images{DType::kU8, {-1, 8, 8, 3}}, rows{DType::kF32, {-1, 5}},
      tokens{DType::kI32, {-1, 5}};
  EXPECT_EQ(WhyNot(MixUp(), {rows, images}), "");
  EXPECT_EQ(WhyNot(CutMix(), {images}), "");
  EXPECT_THAT(WhyNot(MixUp(), {tokens}), HasSubstr("whose integers cannot be mixed"));
  EXPECT_THAT(WhyNot(CutMix(), {rows}), HasSubstr("one input of images"));
  EXPECT_THAT(WhyNot(CutMix(), {images, images}), HasSubstr("it has 2 inputs"));
  EXPECT_THAT(WhyNot(MixUp({.alpha = 0}), {rows}), HasSubstr("alpha must be above 0, got 0"));
  EXPECT_THAT(WhyNot(CutMix({.factor = 1.5}), {images}), HasSubstr("within [0, 1], got [0, 1.5]"));
}

TEST(BatchAugmentation, IsRestoredFromItsJson) {
  for (const BatchAugmentation& one : {MixUp({.alpha = 0.4}), CutMix({.factor = {0.25, 0.5}})}) {
    const auto again = BatchAugmentation::FromJson(one.ToJson());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), one.ToJson());
  }
  EXPECT_EQ(CutMix({.factor = 0.5}).ToJson()["config"]["factor"].dump(), "[0.0,0.5]");
  const auto unknown =
      BatchAugmentation::FromJson({{"class_name", "Mosaic"}, {"config", nlohmann::json::object()}});
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("available: MixUp, CutMix"));
  const auto wrong =
      BatchAugmentation::FromJson({{"class_name", "MixUp"}, {"config", {{"alpha", "much"}}}});
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("option 'alpha'"));
}

}  // namespace batch_augmentation_test
}  // namespace penstock::nn
