#include "penstock/pack/recompress.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/image/encode.h"

namespace penstock::pack {
namespace recompress_test {

// Three stripes of 20 columns each: dark, medium, bright.
base::Array Stripes(int channels) {
  base::Array pixels = base::Array::Uninitialized(base::DType::kU8, {30, 60, channels});
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 60; ++x) {
      for (int c = 0; c < channels; ++c)
        pixels.mutable_data<uint8_t>()[(y * 60 + x) * channels + c] =
            static_cast<uint8_t>(x / 20 * 100);
    }
  }
  return pixels;
}

std::string Png(int channels) { return *image::EncodePng(*image::ViewOf(Stripes(channels))); }

TEST(Recompress, KeepsBytesAndDetectsCorruptionWithoutOptions) {
  const auto image = Recompress(Png(3), {});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->bytes, Png(3));
  EXPECT_EQ(image->size, (image::Size{30, 60}));
  const std::string cut = Png(3).substr(0, Png(3).size() / 2);
  EXPECT_FALSE(Recompress(cut, {}).ok());
}

TEST(Recompress, CropsCenterToNewAspectRatio) {
  const auto image = Recompress(Png(1), {.size = {10, 6}});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size, (image::Size{10, 6}));
  EXPECT_EQ(image::ReadInfo(image->bytes)->format, image::Format::kPng);
  const auto pixels = image::Decode(image->bytes, {.channels = 0});
  ASSERT_EQ(pixels->shape(), (base::Shape{10, 6, 1}));
  // The 18 columns about the center lie in the middle stripe.
  for (uint8_t p : pixels->values<uint8_t>()) EXPECT_EQ(p, 100);
}

TEST(Recompress, EncodesJpegOfGivenQuality) {
  const auto good = Recompress(Png(3), {.quality = 95}), poor = Recompress(Png(3), {.quality = 20});
  ASSERT_TRUE(good.ok() && poor.ok());
  EXPECT_EQ(image::ReadInfo(good->bytes)->format, image::Format::kJpeg);
  EXPECT_EQ(image::ReadInfo(good->bytes)->size(), (image::Size{30, 60}));
  EXPECT_LT(poor->bytes.size(), good->bytes.size());
  const auto pixels = image::Decode(good->bytes);
  EXPECT_NEAR(pixels->values<uint8_t>()[0], 0, 6);
  EXPECT_NEAR(pixels->values<uint8_t>()[59 * 3], 200, 6);
}

}  // namespace recompress_test
}  // namespace penstock::pack
