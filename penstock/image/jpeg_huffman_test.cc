// Our Huffman decoder and libjpeg's own produce the same pixels and reject the same files.
#include "penstock/image/jpeg_huffman.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/image/testing/jpeg_outcome.h"
#include "penstock/image/testing/make_jpeg.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace jpeg_huffman_test {

// A picture of one color, and one of random black and white dots, which fill every block with
// nonzero coefficients.
base::Array Flat(Size size, int channels) {
  base::Array picture =
      base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, channels});
  std::fill_n(picture.mutable_data<uint8_t>(), picture.num_elements(), uint8_t{99});
  return picture;
}
base::Array Dots(Size size, int channels) {
  base::Array picture =
      base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, channels});
  base::Random random(2);
  uint8_t* p = picture.mutable_data<uint8_t>();
  for (int64_t i = 0; i < picture.num_elements(); ++i) p[i] = random.Below(2) == 0 ? 0 : 255;
  return picture;
}

void ExpectSame(JpegHuffman& ours, const std::string& file, const std::string& what) {
  const JpegOutcome want = DecodeJpegWith(nullptr, file, JCS_RGB);
  const JpegOutcome got = DecodeJpegWith(&ours, file, JCS_RGB);
  ASSERT_EQ(got.ok, want.ok) << what << ": ours says \"" << got.error << "\", libjpeg \""
                             << want.error << "\"";
  ASSERT_TRUE(got.pixels == want.pixels) << what;
}

TEST(JpegHuffmanTest, MatchesLibjpeg) {
  // One decoder for all files, as in Decoder: tables of one file must not be used for another.
  JpegHuffman ours;
  for (const int channels : {1, 3}) {
    for (const Size size : {Size{1, 1}, Size{8, 8}, Size{37, 61}, Size{96, 130}}) {
      const std::vector<base::Array> pictures = {NoisyPicture(size, channels), Flat(size, channels),
                                                 Dots(size, channels)};
      for (const int quality : {1, 40, 75, 90, 100}) {
        for (const auto& [horizontal, vertical] :
             {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
          for (const bool optimize : {false, true}) {
            for (const unsigned restart : {0u, 1u, 3u}) {
              for (size_t i = 0; i < pictures.size(); ++i) {
                const MakeJpegOptions options = {quality, horizontal, vertical, optimize, restart};
                const std::string file = MakeJpeg(*ViewOf(pictures[i]), options);
                const std::string what =
                    absl::StrCat(size.ToString(), "x", channels, ", picture ", i, ", quality ",
                                 quality, ", ", horizontal, "x", vertical,
                                 optimize ? ", own tables" : "", ", restarts every ", restart);
                const JpegOutcome got = DecodeJpegWith(&ours, file, JCS_GRAYSCALE);
                ASSERT_TRUE(got.ok && got.installed) << what << ": " << got.error;
                ASSERT_NO_FATAL_FAILURE(ExpectSame(ours, file, what));
              }
            }
          }
        }
      }
    }
  }
}

TEST(JpegHuffmanTest, DeclinesProgressiveFiles) {
  JpegHuffman ours;
  const base::Array picture = NoisyPicture({40, 50}, 3);
  const std::string file = MakeJpeg(*ViewOf(picture), {.progressive = true});
  const JpegOutcome got = DecodeJpegWith(&ours, file, JCS_RGB);
  EXPECT_TRUE(got.ok) << got.error;
  EXPECT_FALSE(got.installed);
  ExpectSame(ours, file, "progressive");
}

// A file truncated at any byte is an error, never a partial picture.
TEST(JpegHuffmanTest, RejectsTruncationAtEveryByte) {
  JpegHuffman ours;
  const base::Array picture = NoisyPicture({24, 40}, 3);
  for (const unsigned restart : {0u, 2u}) {
    const std::string file = MakeJpeg(*ViewOf(picture), {.restart_interval = restart});
    for (size_t size = 0; size < file.size(); ++size) {
      const JpegOutcome got = DecodeJpegWith(&ours, file.substr(0, size), JCS_RGB);
      ASSERT_FALSE(got.ok) << size << " of " << file.size() << " bytes";
      // Appending an end-of-image marker does not make up for the missing pixels.
      ASSERT_NO_FATAL_FAILURE(
          ExpectSame(ours, file.substr(0, size) + "\xff\xd9", absl::StrCat("cut at ", size)));
    }
  }
}

TEST(JpegHuffmanTest, MatchesLibjpegOnCorruptFiles) {
  JpegHuffman ours;
  base::Random random(7);
  int refused = 0;
  constexpr int kFiles = 6000;
  for (int i = 0; i < kFiles; ++i) {
    const int channels = i % 3 == 0 ? 1 : 3;
    const base::Array picture = NoisyPicture({30, 44}, channels);
    std::string file = MakeJpeg(*ViewOf(picture), {.quality = i % 2 == 0 ? 90 : 30,
                                                   .horizontal = 1 + i % 2,
                                                   .optimize = i % 5 == 0,
                                                   .restart_interval = i % 4 == 0 ? 2u : 0u});
    const int changes = 1 + static_cast<int>(random.Below(4));
    for (int c = 0; c < changes; ++c) {
      // Most changes are in the second half, which holds the coefficients.
      const size_t from = c % 4 == 3 ? 0 : file.size() / 2;
      const size_t at = from + random.Below(file.size() - from);
      file[at] = static_cast<char>(random.Below(3) == 0 ? 0xff : random.Below(256));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSame(ours, file, absl::StrCat("file ", i)));
    refused += DecodeJpegWith(&ours, file, JCS_RGB).ok ? 0 : 1;
  }
  // Both outcomes occurred.
  EXPECT_GT(refused, kFiles / 20);
  EXPECT_LT(refused, kFiles - kFiles / 20);
}

}  // namespace jpeg_huffman_test
}  // namespace penstock::image
