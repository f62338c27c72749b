// Compares decoded, cropped, resized, flipped, and normalized images with TensorFlow.
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/image/image.h"

#include "tests/python.h"

namespace penstock::tests::images_test {
namespace {

using base::Array;
using base::DType;

// Tolerances for pixels 0..255: the bound of resize.h plus TensorFlow's own rounding of floats.
constexpr double kTolerance = 0.025;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  PENSTOCK_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename T>
std::vector<T> ReadValues(const std::string& path) {
  const std::string bytes = ReadFile(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
  return values;
}

struct Case {
  std::string file, filter;
  image::Box box;
  int height, width, antialias, flip;
};

std::vector<Case> ReadCases(const TemporaryFolder& folder) {
  std::istringstream lines(ReadFile(folder / "cases"));
  std::vector<Case> cases;
  Case c;
  while (lines >> c.file >> c.box.y >> c.box.x >> c.box.height >> c.box.width >> c.height >>
         c.width >> c.filter >> c.antialias >> c.flip) {
    cases.push_back(c);
  }
  return cases;
}

TEST(Images, AreTensorFlows) {
  const TemporaryFolder folder;
  const absl::Status written = RunPython("interop/tensorflow_images.py", {folder.path().string()});
  ASSERT_TRUE(written.ok()) << written;
  const std::vector<Case> cases = ReadCases(folder);
  ASSERT_EQ(cases.size(), 96);
  image::Decoder decoder;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    SCOPED_TRACE(absl::StrCat(c.file, ", ", c.box.ToString(), " to ", c.height, "x", c.width, ", ",
                              c.filter, c.antialias ? ", antialias" : ""));
    const std::string jpeg = ReadFile(folder / c.file);
    image::DecodeOptions options = {
        .crop = c.box,
        .resize = image::Resize{.height = c.height,
                                .width = c.width,
                                .filter = c.filter == "area"       ? image::Filter::kArea
                                          : c.filter == "bilinear" ? image::Filter::kBilinear
                                                                   : image::Filter::kBicubic,
                                .antialias = c.antialias != 0},
        .flip = c.flip != 0};
    const auto bytes = decoder.Decode(jpeg, options);
    const auto floats = decoder.Decode(jpeg, options, DType::kF32);
    options.normalize = {
        .scale = 1 / 255.0f, .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};
    const auto normalized = decoder.Decode(jpeg, options, DType::kF32);
    const auto halves = decoder.Decode(jpeg, options, DType::kBF16);
    ASSERT_TRUE(bytes.ok() && floats.ok() && normalized.ok() && halves.ok()) << bytes.status();
    const auto want = ReadValues<float>(folder / absl::StrCat(i, ".f32"));
    const auto want_normalized = ReadValues<float>(folder / absl::StrCat(i, ".normalized.f32"));
    const auto want_halves =
        ReadValues<base::bfloat16>(folder / absl::StrCat(i, ".normalized.bf16"));
    ASSERT_EQ(want.size(), static_cast<size_t>(bytes->num_elements()));
    ASSERT_EQ(want_halves.size(), want.size());
    constexpr double kNormalizedTolerance = kTolerance / 255 / 0.224 + 1e-6;
    for (size_t k = 0; k < want.size(); ++k) {
      ASSERT_NEAR(floats->data<float>()[k], want[k], kTolerance);
      ASSERT_NEAR(bytes->data<uint8_t>()[k], want[k], 0.5 + kTolerance);
      ASSERT_NEAR(normalized->data<float>()[k], want_normalized[k], kNormalizedTolerance);
      // Equal floats round to equal bfloat16 values. Our floats differ within the tolerance, so
      // their bfloat16 values may differ by half a step, at most 1/256 of the value.
      ASSERT_EQ(base::bfloat16(want_normalized[k]).bits, want_halves[k].bits);
      ASSERT_NEAR(
          halves->data<base::bfloat16>()[k], want_normalized[k],
          (std::abs(want_normalized[k]) + kNormalizedTolerance) / 256 + kNormalizedTolerance);
    }
  }
}

}  // namespace
}  // namespace penstock::tests::images_test
