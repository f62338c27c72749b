// Decodes random PNGs and JPEGs, valid and corrupt, and compares with TensorFlow. The duration is
// set by PENSTOCK_FUZZ_SECONDS (random_cases.h). jpeg_random_test.cc compares many more JPEGs with
// libjpeg.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/image/image.h"
#include "penstock/image/testing/random_jpeg.h"

#include "tests/python.h"

namespace penstock::tests::images_random_test {
namespace {

constexpr int kPngs = 400;
constexpr int kJpegs = 200;

std::string ReadAllOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  PENSTOCK_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Parses "HEIGHT WIDTH CHANNELS\n" followed by the pixels.
std::string Shown(const base::Array& image) {
  std::string out = absl::StrCat(image.dim(0), " ", image.dim(1), " ", image.dim(2), "\n");
  out.append(reinterpret_cast<const char*>(image.data<uint8_t>()),
             static_cast<size_t>(image.num_elements()));
  return out;
}

// Maximum difference of two samples; 256 if the sizes differ.
int LargestDifference(const std::string& a, const std::string& b) {
  const size_t line = a.find('\n');
  if (a.size() != b.size() || a.substr(0, line) != b.substr(0, line)) return 256;
  int max_difference = 0;
  for (size_t i = line; i < a.size(); ++i) {
    max_difference =
        std::max(max_difference, std::abs(static_cast<uint8_t>(a[i]) - static_cast<uint8_t>(b[i])));
  }
  return max_difference;
}

void Compare(image::Decoder& decoder, const std::string& path, bool damaged) {
  const std::string file = ReadAllOf(path);
  const auto info = image::ReadInfo(file);
  const bool cmyk = absl::EndsWith(path, ".jpg") && info.ok() && info->channels == 4;
  for (int channels : {1, 3}) {
    SCOPED_TRACE(absl::StrCat(channels, " channels"));
    const auto got = decoder.Decode(file, {.channels = channels});
    const std::string expected = absl::StrCat(path, ".", channels);
    const bool theirs = std::filesystem::exists(expected);
    // For a corrupt file the two decoders may differ in what they recover, or in which corruption
    // they detect. TensorFlow does not convert CMYK to gray.
    if (!damaged && !(cmyk && channels == 1)) {
      EXPECT_EQ(got.ok(), theirs) << got.status();
    }
    if (!got.ok() || !theirs) continue;
    // libpng converts RGB to gray with 16 bits of precision.
    const int tolerance = absl::EndsWith(path, ".png") && channels == 1 ? 1 : 0;
    EXPECT_LE(LargestDifference(Shown(*got), ReadAllOf(expected)), tolerance);
  }
}

TEST(RandomImages, DecodeAsInTensorFlow) {
  image::Decoder decoder;
  for (base::RandomCases cases(1); cases.Next();) {
    SCOPED_TRACE(cases.Describe());
    base::Random random(cases.seed());
    const TemporaryFolder folder;
    std::vector<std::string> made;
    for (int i = 0; i < kJpegs; ++i) {
      image::RandomJpeg jpeg = image::MakeRandomJpeg(random);
      // TensorFlow's libjpeg is built without arithmetic coding.
      if (absl::StrContains(jpeg.what, "arithmetic")) jpeg.bytes.clear();
      made.push_back(jpeg.what);
      if (jpeg.bytes.empty()) continue;
      if (i % 4 == 3) jpeg.bytes = image::DropLastScans(jpeg.bytes, random);
      std::ofstream(folder / absl::StrCat(i, ".jpg"), std::ios::binary) << jpeg.bytes;
    }
    const absl::Status decoded =
        RunPython("interop/tensorflow_random_images.py",
                  {folder.path().string(), absl::StrCat(cases.seed()), absl::StrCat(kPngs)});
    ASSERT_TRUE(decoded.ok()) << decoded;
    for (int i = 0; i < kJpegs; ++i) {
      const std::string path = folder / absl::StrCat(i, ".jpg");
      if (!std::filesystem::exists(path)) continue;
      SCOPED_TRACE(absl::StrCat("JPEG ", i, ": ", made[static_cast<size_t>(i)]));
      Compare(decoder, path, /*damaged=*/false);
    }
    for (int i = 0; i < kPngs; ++i) {
      const std::string path = folder / absl::StrCat(i, ".png");
      const std::string how = ReadAllOf(path + ".how");
      SCOPED_TRACE(absl::StrCat("PNG ", i, ": ", how));
      Compare(decoder, path, !absl::EndsWith(how, ": whole"));
    }
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace penstock::tests::images_random_test
