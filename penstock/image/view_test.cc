#include "penstock/image/view.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace {

TEST(View, ACropIsAViewOfTheSameMemory) {
  base::Array array = NoisyPicture({10, 12}, 3);
  const MutableImageView crop = MutableViewOf(array)->Crop({2, 3, 4, 5});
  EXPECT_EQ(crop.data, array.data<uint8_t>() + (2 * 12 + 3) * 3);
  EXPECT_EQ(crop.row(1) - crop.row(0), 12 * 3);
  EXPECT_EQ(crop.Crop({1, 1, 2, 2}).data, array.data<uint8_t>() + (3 * 12 + 4) * 3);
}

TEST(View, CopiesOnlyThePixelsOfACrop) {
  base::Array array = NoisyPicture({10, 12}, 3);
  const ImageView crop = ViewOf(array)->Crop({2, 3, 4, 5});
  const base::Array copy = ToArray(crop);
  EXPECT_EQ(copy.shape(), (base::Shape{4, 5, 3}));
  EXPECT_EQ(MaxDifference(*ViewOf(copy), crop), 0);
}

TEST(View, AnArrayOfTwoDimensionsIsGray) {
  const base::Array array = base::Array::Zeros(base::DType::kU8, {4, 5});
  EXPECT_EQ(ViewOf(array)->channels, 1);
  EXPECT_EQ(ViewOf(array)->size(), (Size{4, 5}));
}

TEST(View, RefusesArraysThatAreNoImage) {
  for (const base::Array& array : {base::Array::Zeros(base::DType::kF32, {4, 5, 3}), base::Array(),
                                   base::Array::Zeros(base::DType::kU8, {4}),
                                   base::Array::Zeros(base::DType::kU8, {2, 4, 5, 3}),
                                   base::Array::Zeros(base::DType::kU8, {0, 5, 3})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ViewOf(array).status())) << array.ToString();
  }
}

TEST(View, CentreCropsLieInTheMiddle) {
  EXPECT_EQ(*CentreCrop({10, 7}, {4, 7}), (Box{3, 0, 4, 7}));
  EXPECT_EQ(*CentreCrop({10, 7}, {5, 4}), (Box{2, 1, 5, 4}));  // TensorFlow: offset (10 - 5) // 2
  const auto too_large = CentreCrop({10, 7}, {4, 8});
  EXPECT_TRUE(absl::IsInvalidArgument(too_large.status()));
  EXPECT_NE(std::string(too_large.status().message()).find("4x8"), std::string::npos);
  EXPECT_FALSE(CentreCrop({10, 7}, {0, 3}).ok());
}

TEST(View, RandomCropsReachEveryPlaceEquallyOften) {
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
  for (const auto& [place, count] : seen) EXPECT_NEAR(count, kDraws / 6, 150);
}

TEST(View, RandomCropsRepeatWithTheirSeed) {
  base::Random a(3);
  base::Random b(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(*RandomCrop({100, 90}, {32, 32}, a), *RandomCrop({100, 90}, {32, 32}, b));
  }
  EXPECT_FALSE(RandomCrop({31, 90}, {32, 32}, a).ok());
}

TEST(View, CoverBoxHasTheTargetsAspect) {
  EXPECT_EQ(CoverBox({480, 640}, {224, 224}), (Box{0, 80, 480, 480}));
  EXPECT_EQ(CoverBox({640, 480}, {224, 224}), (Box{80, 0, 480, 480}));
  EXPECT_EQ(CoverBox({100, 100}, {10, 20}), (Box{25, 0, 50, 100}));
  EXPECT_EQ(CoverBox({33, 44}, {3, 4}), (Box{0, 0, 33, 44}));
  EXPECT_EQ(CoverBox({1, 1000}, {1000, 1}), (Box{0, 499, 1, 1}));
}

}  // namespace
}  // namespace penstock::image
