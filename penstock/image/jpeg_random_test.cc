// Random JPEGs, complete, without their last scans, and corrupt: pixels and errors equal those of
// plain libjpeg, and a crop equals that part of the full image.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/image/image.h"
#include "penstock/image/testing/jpeg_outcome.h"
#include "penstock/image/testing/random_jpeg.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace jpeg_random_test {

constexpr int64_t kMaxPixels = 1 << 20;

// Compares with plain libjpeg, which cannot convert CMYK to RGB.
void ExpectAsLibjpeg(const std::string& file, int channels, bool damaged,
                     const absl::StatusOr<base::Array>& got) {
  const J_COLOR_SPACE space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  const JpegOutcome want = DecodeJpegWith(nullptr, file, space, kMaxPixels);
  if (want.refused) return;
  // More than 512 bytes before the end of the file, libjpeg-turbo silently accepts invalid Huffman
  // codes.
  const bool stricter = damaged && want.ok && absl::IsDataLoss(got.status()) &&
                        absl::StrContains(got.status().message(), "bad Huffman code");
  if (stricter) return;
  ASSERT_EQ(got.ok(), want.ok) << got.status() << "; libjpeg says \"" << want.error << "\"";
  if (!want.ok) return;
  ASSERT_EQ(static_cast<size_t>(got->num_elements()), want.pixels.size());
  ASSERT_TRUE(std::equal(want.pixels.begin(), want.pixels.end(), got->data<uint8_t>()));
}

void ExpectCropsOfTheWhole(Decoder& decoder, const std::string& file, int channels,
                           const base::Array& whole, base::Random& random) {
  const Size size = ViewOf(whole)->size();
  for (int i = 0; i < 8; ++i) {
    const Size crop{1 + static_cast<int>(random.Below(static_cast<uint64_t>(size.height))),
                    1 + static_cast<int>(random.Below(static_cast<uint64_t>(size.width)))};
    const Box box = *RandomCrop(size, crop, random);
    const auto part =
        decoder.Decode(file, {.max_pixels = kMaxPixels, .channels = channels, .crop = box});
    ASSERT_TRUE(part.ok()) << part.status() << ", " << box.ToString();
    ASSERT_EQ(MaxDifference(*ViewOf(*part), ViewOf(whole)->Crop(box)), 0) << box.ToString();
  }
}

TEST(RandomJpegs, MatchLibjpegAndCropsMatchFullDecode) {
  Decoder decoder;  // shared by all images, as in training
  int64_t decoded = 0, refused = 0;
  for (base::RandomCases cases(400); cases.Next();) {
    base::Random random(cases.seed());
    const RandomJpeg made = MakeRandomJpeg(random);
    if (made.bytes.empty()) continue;
    const uint64_t kind = random.Below(10);
    std::string file = kind < 5 ? made.bytes : DropLastScans(made.bytes, random);
    if (kind >= 8) file = Corrupt(file, random);
    SCOPED_TRACE(absl::StrCat(cases.Describe(), ", ", made.what, ", kind ", kind));
    for (int channels : {1, 3}) {
      const auto whole = decoder.Decode(file, {.max_pixels = kMaxPixels, .channels = channels});
      ++(whole.ok() ? decoded : refused);
      const auto info = ReadInfo(file);
      if (info.ok() && info->channels < 4) ExpectAsLibjpeg(file, channels, kind >= 8, whole);
      if (whole.ok()) ExpectCropsOfTheWhole(decoder, file, channels, *whole, random);
    }
    if (testing::Test::HasFailure()) break;
  }
  RecordProperty("decoded", static_cast<int>(decoded));
  RecordProperty("refused", static_cast<int>(refused));
}

}  // namespace jpeg_random_test
}  // namespace penstock::image
