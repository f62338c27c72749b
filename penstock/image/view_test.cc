#include "penstock/image/view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "penstock/image/exif.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace view_test {

TEST(View, CropSharesMemory) {
  base::Array array = NoisyPicture({10, 12}, 3);
  const MutableImageView crop = MutableViewOf(array)->Crop({2, 3, 4, 5});
  EXPECT_EQ(crop.data, array.data<uint8_t>() + (2 * 12 + 3) * 3);
  EXPECT_EQ(crop.row(1) - crop.row(0), 12 * 3);
  EXPECT_EQ(crop.Crop({1, 1, 2, 2}).data, array.data<uint8_t>() + (3 * 12 + 4) * 3);
}

TEST(View, CopiesOnlyPixelsOfCrop) {
  base::Array array = NoisyPicture({10, 12}, 3);
  const ImageView crop = ViewOf(array)->Crop({2, 3, 4, 5});
  const base::Array copy = ToArray(crop);
  EXPECT_EQ(copy.shape(), (base::Shape{4, 5, 3}));
  EXPECT_EQ(MaxDifference(*ViewOf(copy), crop), 0);
}

TEST(View, TwoDimensionalArrayIsGray) {
  const base::Array array = base::Array::Zeros(base::DType::kU8, {4, 5});
  EXPECT_EQ(ViewOf(array)->channels, 1);
  EXPECT_EQ(ViewOf(array)->size(), (Size{4, 5}));
}

TEST(View, RejectsArraysThatAreNotImages) {
  for (const base::Array& array : {base::Array::Zeros(base::DType::kF32, {4, 5, 3}), base::Array(),
                                   base::Array::Zeros(base::DType::kU8, {4}),
                                   base::Array::Zeros(base::DType::kU8, {2, 4, 5, 3}),
                                   base::Array::Zeros(base::DType::kU8, {0, 5, 3})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ViewOf(array).status())) << array.ToString();
  }
}

TEST(View, CenterCropIsCentered) {
  EXPECT_EQ(*CenterCrop({10, 7}, {4, 7}), (Box{3, 0, 4, 7}));
  EXPECT_EQ(*CenterCrop({10, 7}, {5, 4}), (Box{2, 1, 5, 4}));  // TensorFlow: offset (10 - 5) // 2
  const auto too_large = CenterCrop({10, 7}, {4, 8});
  EXPECT_TRUE(absl::IsInvalidArgument(too_large.status()));
  EXPECT_NE(std::string(too_large.status().message()).find("4x8"), std::string::npos);
  EXPECT_FALSE(CenterCrop({10, 7}, {0, 3}).ok());
}

TEST(View, RandomCropsAreUniform) {
  base::Random random(7);
  std::map<std::pair<int, int>, int> seen;
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    const Box box = *RandomCrop({5, 8}, {3, 7}, random);
    ASSERT_TRUE(box.Inside({5, 8}));
    ASSERT_EQ(box.size(), (Size{3, 7}));
    ++seen[{box.y, box.x}];
  }
  ASSERT_EQ(seen.size(), 6u);  // 3 rows, 2 columns
  for (const auto& [place, count] : seen) EXPECT_NEAR(count, kDraws / 6.0, 150);
}

TEST(View, RandomCropsAreReproducible) {
  base::Random a(3);
  base::Random b(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(*RandomCrop({100, 90}, {32, 32}, a), *RandomCrop({100, 90}, {32, 32}, b));
  }
  EXPECT_FALSE(RandomCrop({31, 90}, {32, 32}, a).ok());
}

TEST(View, CoverBoxHasTargetAspectRatio) {
  EXPECT_EQ(CoverBox({480, 640}, {224, 224}), (Box{0, 80, 480, 480}));
  EXPECT_EQ(CoverBox({640, 480}, {224, 224}), (Box{80, 0, 480, 480}));
  EXPECT_EQ(CoverBox({100, 100}, {10, 20}), (Box{25, 0, 50, 100}));
  EXPECT_EQ(CoverBox({33, 44}, {3, 4}), (Box{0, 0, 33, 44}));
  EXPECT_EQ(CoverBox({1, 1000}, {1000, 1}), (Box{0, 499, 1, 1}));
}

// Kolmogorov-Smirnov statistic of `values` against the uniform distribution on [0, 1], times the
// square root of their number: above 2 with probability 1/1500.
double DistanceFromUniform(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double max_deviation = 0;
  const auto n = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    max_deviation = std::max({max_deviation, std::abs(values[i] - static_cast<double>(i) / n),
                              std::abs(values[i] - static_cast<double>(i + 1) / n)});
  }
  return max_deviation * std::sqrt(n);
}

TEST(View, RandomResizedCropsHaveUniformAreasAspectRatiosAndPositions) {
  base::Random random(11);
  const Size image{9000, 8000};
  // Every box with these scales and aspect ratios fits.
  const RandomResizedCrop crop = {.scale = {0.1, 0.5}, .ratio = {0.75, 4.0 / 3}};
  std::vector<double> areas, aspects, rows, columns;
  for (int i = 0; i < 4000; ++i) {
    const Box box = RandomResizedCropBox(image, crop, random);
    ASSERT_TRUE(box.Inside(image));
    const double area = static_cast<double>(box.height) * box.width / (9000.0 * 8000);
    areas.push_back((area - 0.1) / 0.4);
    aspects.push_back(std::log(static_cast<double>(box.width) / box.height / 0.75) /
                      std::log(16.0 / 9));
    rows.push_back((box.y + 0.5) / (image.height - box.height + 1));
    columns.push_back((box.x + 0.5) / (image.width - box.width + 1));
  }
  EXPECT_LT(DistanceFromUniform(areas), 2);
  EXPECT_LT(DistanceFromUniform(aspects), 2);
  EXPECT_LT(DistanceFromUniform(rows), 2);
  EXPECT_LT(DistanceFromUniform(columns), 2);
}

TEST(View, RandomResizedCropRedrawsIfItDoesNotFit) {
  // A box of relative area A and aspect ratio r fits into a square if A <= min(r, 1/r). With
  // redraws until it fits, A and log r are uniform over the boxes that fit, so the mean area is:
  double weight = 0;
  double sum = 0;
  const double max_log = std::log(4.0 / 3);
  for (int i = 0; i < 1000; ++i) {
    const double max_area = std::exp(-max_log * (i + 0.5) / 1000);
    weight += max_area - 0.08;
    sum += (max_area * max_area - 0.08 * 0.08) / 2;
  }
  base::Random random(5);
  double mean = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const Box box = RandomResizedCropBox({5000, 5000}, {}, random);
    mean += static_cast<double>(box.height) * box.width / 25e6 / kDraws;
  }
  EXPECT_NEAR(mean, sum / weight, 4 * 0.25 / std::sqrt(kDraws));
}

TEST(View, RandomResizedCropFallsBackToCenter) {
  base::Random random(1);
  // As in torchvision: the full shorter side, with the nearest allowed aspect ratio.
  EXPECT_EQ(RandomResizedCropBox({1000, 10}, {}, random), (Box{493, 0, 13, 10}));
  EXPECT_EQ(RandomResizedCropBox({10, 1000}, {}, random), (Box{0, 493, 10, 13}));
  EXPECT_EQ(RandomResizedCropBox({100, 100}, {.scale = {1, 1}, .ratio = {0.5, 2}}, random),
            (Box{0, 0, 100, 100}));
  EXPECT_EQ(RandomResizedCropBox({1, 1}, {}, random), (Box{0, 0, 1, 1}));
  EXPECT_EQ(RandomResizedCropBox({1, 50}, {.ratio = {0.001, 0.01}}, random).height, 1);
}

TEST(View, RandomResizedCropsAreReproducible) {
  base::Random a(3);
  base::Random b(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(RandomResizedCropBox({100, 90}, {}, a), RandomResizedCropBox({100, 90}, {}, b));
  }
}

TEST(View, RejectsRandomCropsWithoutArea) {
  EXPECT_TRUE(CheckRandomResizedCrop({}).ok());
  for (const RandomResizedCrop& crop :
       {RandomResizedCrop{.scale = {0, 1}}, RandomResizedCrop{.scale = {0.5, 0.4}},
        RandomResizedCrop{.scale = {0.5, 1.5}}, RandomResizedCrop{.ratio = {0, 1}},
        RandomResizedCrop{.ratio = {2, 1}}, RandomResizedCrop{.ratio = {1, HUGE_VAL}},
        RandomResizedCrop{.scale = {std::nan(""), 1}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckRandomResizedCrop(crop)));
  }
}

// As a user-defined Map function may: misuse must throw instead of aborting the process.
TEST(View, MisuseThrows) {
  base::Array pixels = base::Array::Zeros(base::DType::kU8, {4, 6, 3});
  base::Array other = base::Array::Zeros(base::DType::kU8, {4, 6, 1});
  const MutableImageView image = *MutableViewOf(pixels), narrow = *MutableViewOf(other);
  EXPECT_THROW(image.Crop({1, 1, 4, 2}), base::ContractError);
  EXPECT_THROW(image.Crop({-1, 0, 1, 1}), base::ContractError);
  EXPECT_THROW(CopyPixels(image, narrow), base::ContractError);
  EXPECT_THROW(CoverBox({0, 6}, {1, 1}), base::ContractError);
  EXPECT_THROW(Orient(image, 9, image), base::ContractError);
  EXPECT_THROW(Orient(image, 6, image), base::ContractError);
}

}  // namespace view_test
}  // namespace penstock::image
