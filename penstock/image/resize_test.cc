#include "penstock/image/resize.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/image/image.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace resize_test {

// Reference implementation: the formula of resize.h in double, each output pixel from all input
// pixels.
double Weight(const ResizeOptions& options, double scale, int i, int j) {
  if (options.filter == Filter::kArea) {
    const double begin = std::max<double>(j, i * scale);
    const double end = std::min<double>(j + 1, (i + 1) * scale);
    return std::max(0.0, end - begin);
  }
  const double stretch = options.antialias ? std::max(1.0, scale) : 1.0;
  const double t = std::abs(((i + 0.5) * scale - (j + 0.5)) / stretch);
  if (options.filter == Filter::kBilinear) return std::max(0.0, 1 - t);
  if (t < 1) return 1.5 * t * t * t - 2.5 * t * t + 1;
  if (t < 2) return -0.5 * t * t * t + 2.5 * t * t - 4 * t + 2;
  return 0;
}

std::vector<double> Weights(const ResizeOptions& options, int in, int out, int i) {
  std::vector<double> weights;
  double sum = 0;
  for (int j = 0; j < in; ++j) {
    weights.push_back(Weight(options, static_cast<double>(in) / out, i, j));
    sum += weights.back();
  }
  for (double& w : weights) w /= sum;
  return weights;
}

// Maximum distance of a sample from the exact value, minus the 0.5 that rounding explains.
double MaxError(ImageView in, const ResizeOptions& options, ImageView out) {
  double max_difference = 0;
  for (int y = 0; y < out.height; ++y) {
    const std::vector<double> down = Weights(options, in.height, out.height, y);
    for (int x = 0; x < out.width; ++x) {
      const std::vector<double> right = Weights(options, in.width, out.width, x);
      for (int c = 0; c < in.channels; ++c) {
        double exact = 0;
        for (int j = 0; j < in.height; ++j) {
          if (down[j] == 0) continue;
          for (int k = 0; k < in.width; ++k) {
            exact += down[j] * right[k] * in.row(j)[k * in.channels + c];
          }
        }
        exact = std::clamp(exact, 0.0, 255.0);
        max_difference =
            std::max(max_difference, std::abs(exact - out.row(y)[x * in.channels + c]) - 0.5);
      }
    }
  }
  return max_difference;
}

// Maximum error of a pixel before it is rounded (see resize.h).
constexpr double kTolerance = 0.02;

base::Array Resized(ImageView in, const ResizeOptions& options, Size size) {
  base::Array out =
      base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, in.channels});
  Resizer().ResizeInto(in, options, *MutableViewOf(out));
  return out;
}

constexpr ResizeOptions kAllOptions[] = {{Filter::kArea, false},
                                         {Filter::kBilinear, false},
                                         {Filter::kBilinear, true},
                                         {Filter::kBicubic, false},
                                         {Filter::kBicubic, true}};

TEST(Resize, MatchesFormula) {
  for (const ResizeOptions& options : kAllOptions) {
    for (int channels : {1, 2, 3, 4}) {
      for (const Size in : {Size{23, 31}, Size{1, 1}, Size{2, 40}, Size{64, 5}}) {
        const base::Array picture = NoisyPicture(in, channels);
        for (const Size size :
             {Size{23, 31}, Size{11, 17}, Size{30, 64}, Size{1, 1}, Size{7, 50}}) {
          const base::Array out = Resized(*ViewOf(picture), options, size);
          EXPECT_LT(MaxError(*ViewOf(picture), options, *ViewOf(out)), kTolerance)
              << in.ToString() << " to " << size.ToString() << ", filter "
              << static_cast<int>(options.filter) << ", antialias " << options.antialias;
        }
      }
    }
  }
}

TEST(Resize, MatchesTensorFlow) {
  const base::Array photo = *Decode(ReadTestdata("photo.png"));
  const char* names[] = {"area", "bilinear", "bicubic"};
  for (const ResizeOptions& options : kAllOptions) {
    for (const Size size : {Size{11, 13}, Size{29, 64}, Size{50, 20}}) {
      const std::string name =
          absl::StrCat("resize_", names[static_cast<int>(options.filter)], "_", size.ToString(),
                       options.antialias ? "_antialias" : "", ".u8");
      const std::string golden = ReadTestdata(name);
      const base::Array out = Resized(*ViewOf(photo), options, size);
      ASSERT_EQ(golden.size(), static_cast<size_t>(out.num_bytes())) << name;
      int different = 0;
      int max_difference = 0;
      for (size_t i = 0; i < golden.size(); ++i) {
        const int difference = std::abs(static_cast<uint8_t>(golden[i]) - out.data<uint8_t>()[i]);
        different += difference != 0;
        max_difference = std::max(max_difference, difference);
      }
      // Ties may round to either side, and TensorFlow tabulates the bicubic weights.
      EXPECT_LE(max_difference, 1) << name;
      const double allowed = options.filter == Filter::kBicubic && !options.antialias ? 0.1 : 0.01;
      EXPECT_LE(different, allowed * static_cast<double>(golden.size())) << name;
    }
  }
}

TEST(Resize, SameSizeIsCopy) {
  const base::Array picture = NoisyPicture({19, 33}, 3);
  for (const ResizeOptions& options : kAllOptions) {
    EXPECT_TRUE(base::BitwiseEqual(Resized(*ViewOf(picture), options, {19, 33}), picture));
  }
}

TEST(Resize, KeepsConstantImage) {
  base::Array flat = base::Array::Zeros(base::DType::kU8, {37, 41, 3});
  std::fill_n(flat.mutable_data<uint8_t>(), flat.num_bytes(), uint8_t{255});
  for (const ResizeOptions& options : kAllOptions) {
    for (const Size size : {Size{3, 5}, Size{100, 7}, Size{1, 1}}) {
      const base::Array out = Resized(*ViewOf(flat), options, size);
      for (uint8_t sample : out.values<uint8_t>()) ASSERT_EQ(sample, 255);
    }
  }
}

TEST(Resize, LargeReductionIsMean) {
  const base::Array picture = NoisyPicture({3000, 2}, 1);
  double mean = 0;
  for (uint8_t sample : picture.values<uint8_t>()) mean += sample;
  mean /= static_cast<double>(picture.num_elements());
  const base::Array out = Resized(*ViewOf(picture), {.filter = Filter::kArea}, {1, 1});
  EXPECT_NEAR(out.data<uint8_t>()[0], mean, 0.501);
}

TEST(Resize, RebuildsTablesWhenSizesAlternate) {
  Resizer resizer;
  for (int round = 0; round < 2; ++round) {
    for (const ResizeOptions& options : kAllOptions) {
      for (const Size in : {Size{20, 30}, Size{30, 20}}) {
        const base::Array picture = NoisyPicture(in, 3);
        base::Array out = base::Array::Uninitialized(base::DType::kU8, {9, 14, 3});
        resizer.ResizeInto(*ViewOf(picture), options, *MutableViewOf(out));
        EXPECT_TRUE(base::BitwiseEqual(out, Resized(*ViewOf(picture), options, {9, 14})));
      }
    }
  }
}

TEST(Resize, StaysWithinViews) {
  const base::Array picture = NoisyPicture({30, 30}, 3);
  const ImageView crop = ViewOf(picture)->Crop({3, 4, 20, 21});
  const base::Array copy = ToArray(crop);
  base::Array canvas = base::Array::Zeros(base::DType::kU8, {20, 20, 3});
  const Box box{5, 6, 8, 9};
  Resizer().ResizeInto(crop, {.filter = Filter::kBicubic}, MutableViewOf(canvas)->Crop(box));
  const base::Array expected = Resized(*ViewOf(copy), {.filter = Filter::kBicubic}, {8, 9});
  EXPECT_EQ(MaxDifference(ViewOf(canvas)->Crop(box), *ViewOf(expected)), 0);
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 20; ++x) {
      if (y >= 5 && y < 13 && x >= 6 && x < 15) continue;
      ASSERT_EQ(ViewOf(canvas)->row(y)[x * 3], 0);
    }
  }
}

template <typename T>
std::vector<T> ResizedTo(ImageView in, const ResizeOptions& options, Size size) {
  std::vector<T> out(static_cast<size_t>(size.height) * size.width * in.channels);
  const auto view = TightView(out.data(), size, in.channels);
  if (in.size() == size) {
    Resizer().ConvertInto(in, options, view);
  } else {
    Resizer().ResizeInto(in, options, view);
  }
  return out;
}

constexpr Normalize kImageNet = {
    .scale = 1 / 255.0f, .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};

TEST(Resize, NormalizesFloats) {
  for (const ResizeOptions& plain : kAllOptions) {
    for (int channels : {1, 3}) {
      const base::Array picture = NoisyPicture({23, 31}, channels);
      const ImageView in = *ViewOf(picture);
      for (const Size size : {Size{11, 17}, Size{30, 64}, Size{23, 31}, Size{1, 1}}) {
        ResizeOptions options = plain;
        options.normalize = kImageNet;
        const std::vector<float> out = ResizedTo<float>(in, options, size);
        for (int y = 0; y < size.height; ++y) {
          const std::vector<double> down = Weights(options, in.height, size.height, y);
          for (int x = 0; x < size.width; ++x) {
            const std::vector<double> right = Weights(options, in.width, size.width, x);
            for (int c = 0; c < channels; ++c) {
              double exact = 0;
              for (int j = 0; j < in.height; ++j) {
                for (int k = 0; k < in.width; ++k) {
                  exact += down[j] * right[k] * in.row(j)[k * channels + c];
                }
              }
              exact = std::clamp(exact, 0.0, 255.0);
              const double expected = (exact / 255 - kImageNet.mean[c]) / kImageNet.std[c];
              ASSERT_NEAR(out[(y * size.width + x) * channels + c], expected,
                          kTolerance / 255 / kImageNet.std[c])
                  << size.ToString() << " at " << y << ", " << x << ", channel " << c;
            }
          }
        }
      }
    }
  }
}

TEST(Resize, ConvertsFloatsExactlyWithoutResize) {
  const base::Array picture = NoisyPicture({19, 33}, 3);
  const std::vector<float> out = ResizedTo<float>(*ViewOf(picture), {}, {19, 33});
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], picture.data<uint8_t>()[i]);
}

TEST(Resize, Bfloat16IsRoundedToNearestEven) {
  const base::Array picture = NoisyPicture({40, 50}, 3);
  for (const Size size : {Size{40, 50}, Size{17, 60}, Size{2, 3}}) {
    for (const Normalize& normalize : {Normalize{}, kImageNet, Normalize{.scale = 3e38f}}) {
      const ResizeOptions options = {.normalize = normalize};
      const auto floats = ResizedTo<float>(*ViewOf(picture), options, size);
      const auto halves = ResizedTo<base::bfloat16>(*ViewOf(picture), options, size);
      for (size_t i = 0; i < floats.size(); ++i) {
        ASSERT_EQ(halves[i].bits, base::bfloat16(floats[i]).bits) << floats[i];
      }
    }
  }
}

TEST(Resize, FlipIsMirrorImage) {
  for (const ResizeOptions& plain : kAllOptions) {
    for (int channels : {1, 3}) {
      const base::Array picture = NoisyPicture({20, 30}, channels);
      for (const Size size : {Size{9, 14}, Size{20, 30}, Size{33, 70}}) {
        ResizeOptions flipped = plain;
        flipped.flip = true;
        const auto want = ResizedTo<float>(*ViewOf(picture), plain, size);
        const auto got = ResizedTo<float>(*ViewOf(picture), flipped, size);
        for (int y = 0; y < size.height; ++y) {
          for (int x = 0; x < size.width * channels; ++x) {
            const int mirrored = (size.width - 1 - x / channels) * channels + x % channels;
            ASSERT_EQ(got[y * size.width * channels + x],
                      want[y * size.width * channels + mirrored]);
          }
        }
      }
    }
  }
}

TEST(Resize, SupportsFractionalWindows) {
  // One row, one channel: area averaging of [1.25, 7.75) to two pixels.
  const uint8_t row[9] = {200, 10, 20, 30, 40, 50, 60, 70, 200};
  float out[2];
  Resizer().ResizeInto(ImageView{row, 1, 9, 1, 9}, {0, 1.25, 1, 6.5}, {.filter = Filter::kArea},
                       TightView(out, {1, 2}, 1));
  EXPECT_NEAR(out[0], (0.75 * 10 + 20 + 30 + 0.5 * 40) / 3.25, kTolerance);
  EXPECT_NEAR(out[1], (0.5 * 40 + 50 + 60 + 0.75 * 70) / 3.25, kTolerance);
  // Bilinear, sampled at 2 and 6: between pixels 1 and 2, and between 5 and 6.
  Resizer().ResizeInto(ImageView{row, 1, 9, 1, 9}, {0, 0, 1, 8}, {}, TightView(out, {1, 2}, 1));
  EXPECT_NEAR(out[0], 15, kTolerance);
  EXPECT_NEAR(out[1], 55, kTolerance);
}

}  // namespace resize_test
}  // namespace penstock::image
