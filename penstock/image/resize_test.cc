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
namespace {

// The formula of resize.h, in double, every output pixel from all input pixels.
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

// The largest distance of a sample from the exact value, beyond what rounding explains.
double MaxError(ImageView in, const ResizeOptions& options, ImageView out) {
  double most = 0;
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
        most = std::max(most, std::abs(exact - out.row(y)[x * in.channels + c]) - 0.5);
      }
    }
  }
  return most;
}

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

TEST(Resize, IsTheFormula) {
  for (const ResizeOptions& options : kAllOptions) {
    for (int channels : {1, 2, 3, 4}) {
      for (const Size in : {Size{23, 31}, Size{1, 1}, Size{2, 40}, Size{64, 5}}) {
        const base::Array picture = NoisyPicture(in, channels);
        for (const Size size :
             {Size{23, 31}, Size{11, 17}, Size{30, 64}, Size{1, 1}, Size{7, 50}}) {
          const base::Array out = Resized(*ViewOf(picture), options, size);
          EXPECT_LT(MaxError(*ViewOf(picture), options, *ViewOf(out)), 1e-3)
              << in.ToString() << " to " << size.ToString() << ", filter "
              << static_cast<int>(options.filter) << ", antialias " << options.antialias;
        }
      }
    }
  }
}

TEST(Resize, AgreesWithTensorFlow) {
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
      int most = 0;
      for (size_t i = 0; i < golden.size(); ++i) {
        const int difference = std::abs(static_cast<uint8_t>(golden[i]) - out.data<uint8_t>()[i]);
        different += difference != 0;
        most = std::max(most, difference);
      }
      // Halves that fall to either side, and TensorFlow's table of bicubic weights.
      EXPECT_LE(most, 1) << name;
      const double allowed = options.filter == Filter::kBicubic && !options.antialias ? 0.1 : 0.01;
      EXPECT_LE(different, allowed * static_cast<double>(golden.size())) << name;
    }
  }
}

TEST(Resize, TheSameSizeIsACopy) {
  const base::Array picture = NoisyPicture({19, 33}, 3);
  for (const ResizeOptions& options : kAllOptions) {
    EXPECT_TRUE(base::BitwiseEqual(Resized(*ViewOf(picture), options, {19, 33}), picture));
  }
}

TEST(Resize, KeepsAFlatPictureFlat) {
  base::Array flat = base::Array::Zeros(base::DType::kU8, {37, 41, 3});
  std::fill_n(flat.mutable_data<uint8_t>(), flat.num_bytes(), uint8_t{255});
  for (const ResizeOptions& options : kAllOptions) {
    for (const Size size : {Size{3, 5}, Size{100, 7}, Size{1, 1}}) {
      const base::Array out = Resized(*ViewOf(flat), options, size);
      for (uint8_t sample : out.values<uint8_t>()) ASSERT_EQ(sample, 255);
    }
  }
}

TEST(Resize, ALargeReductionIsTheMean) {
  const base::Array picture = NoisyPicture({3000, 2}, 1);
  double mean = 0;
  for (uint8_t sample : picture.values<uint8_t>()) mean += sample;
  mean /= static_cast<double>(picture.num_elements());
  const base::Array out = Resized(*ViewOf(picture), {.filter = Filter::kArea}, {1, 1});
  EXPECT_NEAR(out.data<uint8_t>()[0], mean, 0.501);
}

TEST(Resize, KeepsTablesApartWhenSizesAlternate) {
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

TEST(Resize, ReadsAndWritesViewsOnly) {
  const base::Array picture = NoisyPicture({30, 30}, 3);
  const ImageView crop = ViewOf(picture)->Crop({3, 4, 20, 21});
  const base::Array copy = ToArray(crop);
  base::Array canvas = base::Array::Zeros(base::DType::kU8, {20, 20, 3});
  const Box box{5, 6, 8, 9};
  Resizer().ResizeInto(crop, {.filter = Filter::kBicubic}, MutableViewOf(canvas)->Crop(box));
  const base::Array wanted = Resized(*ViewOf(copy), {.filter = Filter::kBicubic}, {8, 9});
  EXPECT_EQ(MaxDifference(ViewOf(canvas)->Crop(box), *ViewOf(wanted)), 0);
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 20; ++x) {
      if (y >= 5 && y < 13 && x >= 6 && x < 15) continue;
      ASSERT_EQ(ViewOf(canvas)->row(y)[x * 3], 0);
    }
  }
}

}  // namespace
}  // namespace penstock::image
