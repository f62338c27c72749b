// Layers with random behavior in training: their statistics and invariants. Their deterministic
// behavior is compared with Keras in tests/parity.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace layers_random_test {

using ir::testing::Doubles;

// Output in training; one program computes all layers.
class Training {
 public:
  void Add(const Layer& layer, const Array& x) {
    const auto dims = x.shape().dims();
    const Symbol in = Input({.shape = {dims.begin() + 1, dims.end()}, .dtype = x.dtype()});
    const Network network({in}, {layer(in)});
    ASSERT_TRUE(network.status().ok()) << network.status();
    inputs_.push_back(x);
    const Value parameter =
        graph_.Parameter({x.dtype(), x.shape()}, absl::StrCat("x", inputs_.size()));
    const Value key = ir::RandomKey(graph_, inputs_.size());
    const auto result =
        network.Apply({.graph = &graph_, .training = true, .key = key}, {}, {parameter});
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    results_.push_back(result.outputs[0]);
  }
  std::vector<Array> Run() {
    graph_.SetResults(results_);
    auto results = ir::testing::Run(graph_, inputs_);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *results : std::vector<Array>();
  }

 private:
  ir::Graph graph_{"training"};
  std::vector<Array> inputs_;
  Values results_;
};

Array Filled(const Shape& shape, const std::function<double(int64_t)>& value) {
  Array x = Array::Zeros(DType::kF32, shape);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(value(i));
  }
  return x;
}
Array Ones(const Shape& shape) {
  return Filled(shape, [](int64_t) { return 1; });
}

struct Moments {
  double mean = 0, variance = 0;
};
Moments MomentsOf(const std::vector<double>& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (double v : x) m.mean += v / n;
  for (double v : x) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

TEST(Noise, MatchesMeanAndVariance) {
  const Shape shape = {100, 200};
  Training training;
  training.Add(Dropout({.rate = 0.3}), Ones(shape));
  training.Add(GaussianDropout({.rate = 0.3}), Ones(shape));
  training.Add(GaussianNoise({.stddev = 0.5}), Ones(shape));
  training.Add(AlphaDropout({.rate = 0.2}),
               ir::testing::RandomArray(shape, 3, -1.7320508, 1.7320508, DType::kF32));
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 4);
  // Variances for inputs of 1: rate / (1 - rate), the same, and stddev^2; AlphaDropout preserves
  // mean 0 and variance 1.
  const Moments want[] = {{1, 0.3 / 0.7}, {1, 0.3 / 0.7}, {1, 0.25}, {0, 1}};
  for (int i = 0; i < 4; ++i) {
    const Moments m = MomentsOf(Doubles(got[i]));
    // Five standard errors over 20,000 samples.
    EXPECT_NEAR(m.mean, want[i].mean, 5 * std::sqrt(want[i].variance / 20000)) << i;
    EXPECT_NEAR(m.variance, want[i].variance, 0.05 * want[i].variance + 0.02) << i;
  }
  for (double v : Doubles(got[0])) EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.7) < 1e-6) << v;
}

TEST(SpatialDropout, DropsWholeChannels) {
  Training training;
  training.Add(SpatialDropout1D({.rate = 0.5}), Ones({40, 3, 10}));
  training.Add(SpatialDropout2D({.rate = 0.5}), Ones({40, 3, 2, 10}));
  training.Add(SpatialDropout3D({.rate = 0.5}), Ones({40, 3, 2, 2, 10}));
  training.Add(Dropout({.rate = 0.5, .noise_shape = {-1, 1, 10}}), Ones({40, 3, 10}));
  for (const Array& y : training.Run()) {
    const int64_t positions = y.num_elements() / 400;
    const std::vector<double> v = Doubles(y);
    int64_t kept = 0;
    for (int64_t example = 0; example < 40; ++example) {
      for (int64_t c = 0; c < 10; ++c) {
        const auto at = [&](int64_t p) { return v[(example * positions + p) * 10 + c]; };
        for (int64_t p = 1; p < positions; ++p) EXPECT_EQ(at(p), at(0));
        kept += at(0) == 2;
      }
    }
    EXPECT_NEAR(static_cast<double>(kept), 200, 50);  // five standard deviations
  }
}

TEST(StochasticDepth, DropsWholeExamples) {
  Training training;
  training.Add(StochasticDepth({.drop_path_rate = 0.25}), Ones({400, 3, 2}));
  training.Add(StochasticDepth({.drop_path_rate = 1}), Ones({4, 3, 2}));
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 2);
  const std::vector<double> v = Doubles(got[0]);
  int64_t kept = 0;
  for (int64_t example = 0; example < 400; ++example) {
    for (int64_t i = 1; i < 6; ++i) EXPECT_EQ(v[example * 6 + i], v[example * 6]);
    if (v[example * 6] == 0) continue;
    EXPECT_NEAR(v[example * 6], 1 / 0.75, 1e-6);
    ++kept;
  }
  EXPECT_NEAR(static_cast<double>(kept), 300, 44);  // five standard deviations
  for (double dropped : Doubles(got[1])) EXPECT_EQ(dropped, 0);
}

// 200 copies of an image [2, 3, 1] with six distinct values.
TEST(RandomFlip, MirrorsHalfOfTheImages) {
  const int64_t n = 200;
  const Array images = Filled({n, 2, 3, 1}, [](int64_t i) { return static_cast<double>(i % 6); });
  const std::pair<const char*, std::vector<double>> kModes[] = {
      {"horizontal", {2, 1, 0, 5, 4, 3}},
      {"vertical", {3, 4, 5, 0, 1, 2}},
      {"horizontal_and_vertical", {5, 4, 3, 2, 1, 0}},
  };
  Training training;
  for (const auto& [mode, mirrored] : kModes) training.Add(RandomFlip({.mode = mode}), images);
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 3);
  for (int m = 0; m < 3; ++m) {
    const std::vector<double> v = Doubles(got[m]);
    int flipped = 0;
    for (int64_t i = 0; i < n; ++i) {
      const std::vector<double> image(v.begin() + i * 6, v.begin() + (i + 1) * 6);
      if (image == kModes[m].second) {
        ++flipped;
      } else {
        EXPECT_THAT(image, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
      }
    }
    EXPECT_NEAR(flipped, 100, 36);  // five standard deviations
  }
}

// Each image is 100 plus or minus 3: a contrast factor c makes the difference 3 c.
TEST(RandomContrast, ScalesDifferencesFromTheMeanByFactorsInItsRange) {
  const int64_t n = 400;
  const Array images =
      Filled({n, 1, 3, 1}, [](int64_t i) { return 100.0 + 3.0 * static_cast<double>(i % 3 - 1); });
  Training training;
  training.Add(RandomContrast({.factor = 0.4}), images);
  training.Add(RandomContrast({.factor = {0.1, 0.5}}), images);
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 2);
  const std::pair<double, double> kRanges[] = {{0.6, 1.4}, {0.9, 1.5}};
  for (int k = 0; k < 2; ++k) {
    std::vector<double> contrasts;
    const std::vector<double> v = Doubles(got[k]);
    for (int64_t i = 0; i < n; ++i) {
      contrasts.push_back((v[i * 3 + 2] - v[i * 3 + 1]) / 3);
      EXPECT_NEAR(v[i * 3 + 1], 100, 1e-4);
      EXPECT_GE(contrasts.back(), kRanges[k].first - 1e-4);
      EXPECT_LE(contrasts.back(), kRanges[k].second + 1e-4);
    }
    const double extent = kRanges[k].second - kRanges[k].first;
    const Moments m = MomentsOf(contrasts);
    EXPECT_NEAR(m.mean, kRanges[k].first + extent / 2, 5 * extent / std::sqrt(12.0 * n));
    EXPECT_NEAR(m.variance, extent * extent / 12, extent * extent / 40);
  }
}

TEST(RandomBrightness, AddsOneValuePerImageAndKeepsBytes) {
  const int64_t n = 300;
  Array bytes = Array::Zeros(DType::kU8, {n, 2, 1, 1});
  for (int64_t i = 0; i < n; ++i) {
    bytes.mutable_data<uint8_t>()[2 * i] = 100;
    bytes.mutable_data<uint8_t>()[2 * i + 1] = 250;
  }
  Training training;
  training.Add(RandomBrightness({.factor = 0.2}), bytes);
  training.Add(RandomBrightness({.factor = {0.1, 0.3}, .value_range = {0, 1}}), Ones({n, 1, 1, 1}));
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 2);
  ASSERT_EQ(got[0].dtype(), DType::kU8);
  const std::vector<double> v = Doubles(got[0]);
  double min_value = 255, max_value = 0;
  for (int64_t i = 0; i < n; ++i) {
    min_value = std::min(min_value, v[2 * i]);
    max_value = std::max(max_value, v[2 * i]);
    EXPECT_EQ(v[2 * i + 1], std::min(255.0, v[2 * i] + 150));
  }
  EXPECT_GE(min_value, 49);
  EXPECT_LT(min_value, 60);
  EXPECT_LE(max_value, 151);
  EXPECT_GT(max_value, 140);
  for (double one : Doubles(got[1])) EXPECT_EQ(one, 1);  // clipped to the maximum value
}

// Constant images of 1, erased to 0: the boxes.
TEST(RandomErasing, ErasesBoxesOfTheScaleWithTheProbability) {
  const int64_t n = 400, side = 20, pixels = side * side;
  Training training;
  training.Add(RandomErasing({.factor = {0.25, 0.25}, .scale = {0.1, 0.4}, .fill_value = 0}),
               Ones({n, side, side, 1}));
  training.Add(RandomErasing(), Array::Zeros(DType::kU8, {n, side, side, 3}));
  training.Add(RandomErasing({.factor = {1, 1}, .scale = {1, 1}, .fill_value = {2, 300, 0.5}}),
               Ones({1, 2, 1, 3}));
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 3);
  EXPECT_THAT(Doubles(got[2]), ::testing::ElementsAre(2, 255, 0.5, 2, 255, 0.5));
  int erased = 0;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<double> image = Doubles(got[0].Row(i));
    std::set<int64_t> rows, columns;
    int64_t count = 0;
    for (int64_t p = 0; p < pixels; ++p) {
      if (image[p] != 0) continue;
      ++count, rows.insert(p / side), columns.insert(p % side);
    }
    if (count == 0) continue;
    ++erased;
    EXPECT_EQ(count, static_cast<int64_t>(rows.size() * columns.size()));
    // The squares of the sides as fractions are within the scale; a box covers whole pixels.
    for (const auto& indices : {rows, columns}) {
      const auto length = static_cast<double>(indices.size());
      EXPECT_EQ(*indices.rbegin() - *indices.begin() + 1, static_cast<int64_t>(length));
      EXPECT_GE(length, std::sqrt(0.1) * side - 1);
      EXPECT_LE(length, std::sqrt(0.4) * side + 1);
    }
  }
  EXPECT_NEAR(erased, 100, 43);  // five standard deviations
  // By default the probability is drawn from 0 to 1, and the noise is that of value_range: half of
  // it is clamped to 0.
  double sum = 0, bright = 0, filled = 0;
  for (double pixel : Doubles(got[1])) {
    sum += pixel, filled += pixel > 0, bright += pixel == 255;
  }
  // P(255 x > 255) of P(x > 0), for x of the normal distribution.
  EXPECT_NEAR(bright / filled, 0.3173, 0.01);
  // A quarter of the mean area of a box, (E sqrt(u))^2 = 0.161, of all pixels.
  EXPECT_NEAR(filled / static_cast<double>(n * pixels * 3), 0.25 * 0.161, 0.012);
}

// A plane of slope 1 to the right: sheared by f, it has slope f downward, except where the image is
// continued.
TEST(RandomShear, MovesColumnsByAFactorOfTheRowWithARandomSign) {
  const int64_t n = 100;
  const Array images = Filled({n, 9, 9, 1}, [](int64_t i) { return static_cast<double>(i % 9); });
  Training training;
  training.Add(RandomShear({.x_factor = {0.2, 0.4}}), images);
  const Array got = training.Run()[0];
  int positive = 0;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<double> image = Doubles(got.Row(i));
    const double factor = image[9 + 4] - image[4];
    EXPECT_GE(std::abs(factor), 0.2 - 1e-5);
    EXPECT_LE(std::abs(factor), 0.4 + 1e-5);
    for (int64_t y = 0; y < 9; ++y) {
      EXPECT_NEAR(image[y * 9 + 4], 4 + static_cast<double>(y) * factor, 1e-4);
    }
    positive += factor > 0;
  }
  EXPECT_NEAR(positive, 50, 25);  // five standard deviations
}

TEST(RandomGrayscale, MakesTheFractionOfImagesGray) {
  const int64_t n = 300;
  const Array images = Filled({n, 1, 1, 3}, [](int64_t i) {
    return std::vector<double>{200, 100, 50}[i % 3];
  });
  Training training;
  training.Add(RandomGrayscale({.factor = 0.3}), images);
  const std::vector<double> v = Doubles(training.Run()[0]);
  int gray = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_gray = v[3 * i] == v[3 * i + 1];
    gray += is_gray;
    const double want[] = {200, 100, 50};
    const double level = 0.2989 * 200 + 0.587 * 100 + 0.114 * 50;
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(v[3 * i + c], is_gray ? level : want[c], 1e-4);
  }
  EXPECT_NEAR(gray, 90, 40);  // five standard deviations
}

// Hue and saturation of the results, by the formulas of HSV; the value (maximum) does not change.
TEST(RandomColor, DrawsHueAndSaturationFromTheirRanges) {
  const int64_t n = 400;
  const Array images = Filled({n, 1, 1, 3}, [](int64_t i) {
    return std::vector<double>{0.8, 0.6, 0.4}[i % 3];
  });
  Training training;
  training.Add(RandomSaturation({.factor = {0.2, 0.4}, .value_range = {0, 1}}), images);
  training.Add(RandomHue({.factor = 0.2, .value_range = {0, 1}}), images);
  training.Add(RandomColorJitter({.value_range = {0, 1}, .hue_factor = 0.2}), images);
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 3);
  std::vector<double> factors, turns;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<double> rgb = Doubles(got[0].Row(i));
    EXPECT_NEAR(rgb[0], 0.8, 1e-6);
    const double saturation = (rgb[0] - rgb[2]) / rgb[0];  // 0.5 before
    const double times = saturation / 0.5;
    factors.push_back(times / (1 + times));  // from f / (1 - f)
    EXPECT_GE(factors.back(), 0.2 - 1e-5);
    EXPECT_LE(factors.back(), 0.4 + 1e-5);
    for (int k = 1; k < 3; ++k) {
      const std::vector<double> turned = Doubles(got[k].Row(i));
      EXPECT_NEAR(*std::max_element(turned.begin(), turned.end()), 0.8, 1e-5);
      EXPECT_NEAR(*std::min_element(turned.begin(), turned.end()), 0.4, 1e-5);
      // Between red (0) and yellow (1/6), or between red and magenta (-1/6): hue 1/12 turned by at
      // most a tenth.
      const double hue = turned[2] <= turned[1] ? (turned[1] - turned[2]) / 0.4 / 6
                                                : -(turned[2] - turned[1]) / 0.4 / 6;
      if (turned[0] >= 0.8 - 1e-5) turns.push_back(hue - 1.0 / 12);
    }
  }
  EXPECT_NEAR(MomentsOf(factors).mean, 0.3, 5 * 0.2 / std::sqrt(12.0 * n));
  const auto [minimum, maximum] = std::minmax_element(turns.begin(), turns.end());
  EXPECT_GE(*minimum, -0.1 - 1e-5);
  EXPECT_LT(*minimum, -0.09);
  EXPECT_GT(*maximum, 0.075);  // turned further, green is the maximum
}

TEST(RandomGaussianBlur, KeepsTheSumOfAPointInTheMiddle) {
  const int64_t n = 200;
  const Array images = Filled({n, 7, 7, 1}, [](int64_t i) { return i % 49 == 24 ? 100.0 : 0.0; });
  Training training;
  training.Add(RandomGaussianBlur({.factor = {0.5, 0.5}, .kernel_size = 5, .sigma = {0.3, 1}}),
               images);
  const Array got = training.Run()[0];
  std::set<double> middles;
  int blurred = 0;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<double> image = Doubles(got.Row(i));
    EXPECT_NEAR(std::accumulate(image.begin(), image.end(), 0.0), 100, 1e-3);
    // Symmetric, and only within two pixels.
    EXPECT_NEAR(image[23], image[25], 1e-5);
    EXPECT_NEAR(image[17], image[31], 1e-5);
    for (int64_t p : {0, 3, 21}) EXPECT_EQ(image[p], 0);
    blurred += image[24] < 99;
    middles.insert(image[24]);
  }
  EXPECT_NEAR(blurred, 100, 36);   // five standard deviations
  EXPECT_GT(middles.size(), 60u);  // each image has its own standard deviations
}

TEST(RandomInvertAndSolarization, DrawForEachImage) {
  const int64_t n = 200;
  Training training;
  training.Add(RandomInvert({.factor = {0.5, 0.5}}),
               Filled({n, 1, 1, 1}, [](int64_t) { return 55; }));
  training.Add(RandomPosterization({.factor = {1, 4}}),
               Filled({n, 1, 1, 1}, [](int64_t) { return 255; }));
  training.Add(Solarization({.threshold_factor = 1}),
               Filled({n, 1, 1, 1}, [](int64_t) { return 63.75; }));
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 3);
  int inverted = 0, solarized = 0;
  std::set<double> levels;
  for (int64_t i = 0; i < n; ++i) {
    const double invert = Doubles(got[0])[i], solarize = Doubles(got[2])[i];
    EXPECT_TRUE(invert == 55 || invert == 200) << invert;
    inverted += invert == 200;
    levels.insert(Doubles(got[1])[i]);
    EXPECT_TRUE(solarize == 63.75 || solarize == 191.25) << solarize;
    solarized += solarize == 191.25;
  }
  EXPECT_NEAR(inverted, 100, 36);
  EXPECT_THAT(levels, ::testing::ElementsAre(128, 192, 224));  // one, two, three bits
  EXPECT_NEAR(solarized, 50, 31);  // thresholds below a quarter of the range
}

// Each image gets its own random values: constant images are unchanged, others differ.
TEST(RandomAffine, TransformsEachImageIndependently) {
  const int64_t n = 20;
  const Array images =
      Filled({n, 9, 9, 1}, [](int64_t i) { return std::sin(static_cast<double>(i % 81)); });
  Training training;
  for (const bool constant : {false, true}) {
    const Array& x = constant ? Ones({n, 9, 9, 1}) : images;
    training.Add(RandomRotation({.factor = 0.5}), x);
    training.Add(RandomZoom({.height_factor = 0.3, .width_factor = 0.3}), x);
    training.Add(RandomTranslation({.height_factor = 0.3, .width_factor = 0.3}), x);
    training.Add(RandomCrop({.height = 4, .width = 5}), x);
    training.Add(RandomShear({.x_factor = 0.3, .y_factor = 0.3}), x);
  }
  const std::vector<Array> got = training.Run();
  ASSERT_EQ(got.size(), 10);
  for (int k = 0; k < 5; ++k) {
    std::set<std::vector<double>> different;
    for (int64_t i = 0; i < n; ++i) different.insert(Doubles(got[k].Row(i)));
    EXPECT_GT(different.size(), k == 3 ? 10u : 19u) << k;  // of 30 possible windows
    for (double v : Doubles(got[5 + k])) EXPECT_NEAR(v, 1, 1e-5) << k;
  }
}

}  // namespace layers_random_test
}  // namespace penstock::nn
