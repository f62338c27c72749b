#include "penstock/image/encode.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "penstock/image/image.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace encode_test {

ImageView Pixels(const base::Array& array) { return *ViewOf(array); }

double MeanSquare(ImageView a, ImageView b) {
  double sum = 0;
  for (int y = 0; y < a.height; ++y) {
    for (int64_t i = 0; i < a.row_elements(); ++i) {
      sum += std::pow(static_cast<double>(a.row(y)[i]) - b.row(y)[i], 2);
    }
  }
  return sum / (static_cast<double>(a.row_elements()) * a.height);
}

TEST(Encode, PngRoundTripsPixels) {
  for (int channels : {1, 3}) {
    for (const Size size : {Size{1, 1}, Size{3, 200}, Size{57, 31}}) {
      const base::Array picture = NoisyPicture(size, channels);
      for (int compression : {0, 1, 6, 9}) {
        const auto file = EncodePng(Pixels(picture), {.compression = compression});
        ASSERT_TRUE(file.ok()) << file.status();
        const auto back = Decode(*file, {.channels = 0});
        ASSERT_TRUE(back.ok()) << back.status();
        EXPECT_TRUE(base::BitwiseEqual(*back, picture));
      }
    }
  }
}

TEST(Encode, EncodesCropWithoutSurroundings) {
  const base::Array picture = NoisyPicture({40, 50}, 3);
  const ImageView crop = Pixels(picture).Crop({3, 5, 20, 30});
  const base::Array copy = ToArray(crop);
  EXPECT_EQ(*EncodePng(crop), *EncodePng(Pixels(copy)));
  EXPECT_EQ(*EncodeJpeg(crop), *EncodeJpeg(Pixels(copy)));
}

TEST(Encode, JpegQualityControlsErrorAndSize) {
  const base::Array photo = *Decode(ReadTestdata("photo.png"));
  size_t size_before = 0;
  double error_before = 1e9;
  for (int quality : {10, 50, 90, 100}) {
    const auto file =
        EncodeJpeg(Pixels(photo), {.quality = quality, .subsampling = ChromaSubsampling::k444});
    ASSERT_TRUE(file.ok()) << file.status();
    const base::Array back = *Decode(*file);
    const double error = MeanSquare(Pixels(back), Pixels(photo));
    EXPECT_GT(file->size(), size_before);
    EXPECT_LT(error, error_before);
    size_before = file->size();
    error_before = error;
  }
  EXPECT_LT(error_before, 2.0);
}

// Sampling factors of the first component, from the frame header: 0x11, 0x21, or 0x22.
int Sampling(const std::string& jpeg, const char* frame_marker) {
  const size_t frame = jpeg.find(frame_marker);
  PENSTOCK_CHECK(frame != std::string::npos);
  return static_cast<uint8_t>(jpeg[frame + 11]);
}

TEST(Encode, JpegHasRequestedSubsampling) {
  const base::Array picture = NoisyPicture({33, 47}, 3);
  const struct {
    ChromaSubsampling subsampling;
    int factors;
  } cases[] = {{ChromaSubsampling::k420, 0x22},
               {ChromaSubsampling::k422, 0x21},
               {ChromaSubsampling::k444, 0x11}};
  for (const auto& c : cases) {
    const std::string file = *EncodeJpeg(Pixels(picture), {.subsampling = c.subsampling});
    EXPECT_EQ(Sampling(file, "\xff\xc0"), c.factors);
    EXPECT_EQ(ReadInfo(file)->size(), (Size{33, 47}));
    const std::string progressive =
        *EncodeJpeg(Pixels(picture), {.subsampling = c.subsampling, .progressive = true});
    EXPECT_EQ(Sampling(progressive, "\xff\xc2"), c.factors);
    // Progressive scans only reorder the coefficients.
    EXPECT_TRUE(base::BitwiseEqual(*Decode(progressive), *Decode(file)));
  }
}

TEST(Encode, OptimizedTablesAreSmallerAndKeepPixels) {
  const base::Array picture = NoisyPicture({64, 64}, 3);
  const std::string optimized = *EncodeJpeg(Pixels(picture));
  const std::string standard = *EncodeJpeg(Pixels(picture), {.optimize = false});
  EXPECT_LT(optimized.size(), standard.size());
  EXPECT_TRUE(base::BitwiseEqual(*Decode(optimized), *Decode(standard)));
}

TEST(Encode, GrayJpegHasOneChannel) {
  const base::Array picture = NoisyPicture({20, 21}, 1);
  const std::string file = *EncodeJpeg(Pixels(picture), {.quality = 100});
  EXPECT_EQ(ReadInfo(file)->channels, 1);
  EXPECT_LE(MaxDifference(Pixels(*Decode(file, {.channels = 1})), Pixels(picture)), 3);
}

TEST(Encode, RejectsUnsupportedImages) {
  const base::Array picture = NoisyPicture({4, 4}, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeJpeg(Pixels(picture), {.quality = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeJpeg(Pixels(picture), {.quality = 101}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EncodePng(Pixels(picture), {.compression = 10}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EncodePng(ImageView{}).status()));
  const base::Array two = NoisyPicture({4, 4}, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeJpeg(Pixels(two)).status()));
  const base::Array wide = base::Array::Zeros(base::DType::kU8, {1, 65501, 1});
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeJpeg(Pixels(wide)).status()));
}

}  // namespace encode_test
}  // namespace penstock::image
