// Tests of probabilities, test-time augmentation and averages of models, against plain loops.
#include "penstock/cli/classify/classifier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/cli/testing/command_fixture.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::cli {
namespace classifier_test {

using base::Array;
using base::DType;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Of(ScoreKind kind, std::vector<float> scores, size_t classes) {
  std::vector<double> probabilities(classes);
  ToProbabilities(kind, scores, absl::MakeSpan(probabilities));
  return probabilities;
}

TEST(ToProbabilities, FollowsTheMeaningOfTheScores) {
  const auto near = [](double x) { return DoubleNear(x, 1e-9); };
  // Softmax of large logits does not overflow: exp(0) / (exp(0) + exp(-1)).
  EXPECT_THAT(Of(ScoreKind::kLogits, {1000, 999}, 2),
              ElementsAre(near(0.7310585786300049), near(0.2689414213699951)));
  EXPECT_THAT(Of(ScoreKind::kProbabilities, {0.25, 0.75}, 2), ElementsAre(0.25, 0.75));
  EXPECT_THAT(Of(ScoreKind::kBinaryLogits, {1}, 2),
              ElementsAre(near(0.2689414213699951), near(0.7310585786300049)));
  EXPECT_THAT(Of(ScoreKind::kBinaryProbabilities, {0.125}, 2), ElementsAre(0.875, 0.125));
  // Several sigmoid units are independent.
  EXPECT_THAT(Of(ScoreKind::kBinaryProbabilities, {0.5, 0.75}, 2), ElementsAre(0.5, 0.75));
  EXPECT_THAT(Of(ScoreKind::kLogits, {-3}, 1), ElementsAre(1));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Of(ScoreKind::kLogits, {nan, 1}, 2)[1]));
}

class ClassifierTest : public testing::CommandFixture {
 protected:
  struct Spec {
    int64_t height = 5, width = 7, units = 3;
    std::string activation = "";
    keras::LossesArg loss = nn::SparseCategoricalCrossentropy({.from_logits = true});
    std::vector<std::string> class_names = {};
    uint64_t seed = 1;
  };
  // Saves a linear model; returns its weights.
  base::NamedArrays Save(const std::string& name, const Spec& spec) const {
    const nn::Symbol x = nn::Input({.shape = {spec.height, spec.width, 1}, .dtype = DType::kU8});
    const nn::Symbol y = nn::Dense({.units = spec.units, .activation = spec.activation})(
        nn::Flatten()(nn::Rescaling({.scale = 1 / 255.0})(x)));
    keras::Model model({x}, {y}, "linear");
    EXPECT_TRUE(
        model.Compile({.loss = spec.loss, .client = runtime::TestClient(1), .seed = spec.seed})
            .ok());
    model.SetClassNames(spec.class_names);
    EXPECT_TRUE(model.Save(Path(name)).ok());
    return *model.GetWeights();
  }
  absl::StatusOr<Classifier> Load(const std::vector<std::string>& names,
                                  const TestTimeViews& views = {}) const {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(Path(name));
    return Classifier::Load(paths, views, DeviceOptions());
  }
  std::string LoadError(const std::vector<std::string>& names) const {
    const auto loaded = Load(names);
    EXPECT_FALSE(loaded.ok());
    return std::string(loaded.status().message());
  }
};

Array RandomImages(int64_t rows, int64_t height, int64_t width, uint64_t seed = 3) {
  base::Random random(seed);
  Array images = Array::Uninitialized(DType::kU8, {rows, height, width, 1});
  uint8_t* pixels = images.mutable_data<uint8_t>();
  for (int64_t i = 0; i < images.num_elements(); ++i) {
    pixels[i] = static_cast<uint8_t>(random.Below(256));
  }
  return images;
}

// The mean of the softmax over the views of one image, by plain loops.
std::vector<double> Reference(const base::NamedArrays& weights, const Array& image,
                              const TestTimeViews& views) {
  const Array kernel = *weights.Find("dense/kernel"), bias = *weights.Find("dense/bias");
  const int64_t height = image.dim(0), width = image.dim(1), units = bias.dim(0);
  std::vector<std::pair<int64_t, int64_t>> shifts{{0, 0}};
  if (views.shift) shifts.insert(shifts.end(), {{-1, 0}, {1, 0}, {0, -1}, {0, 1}});
  std::vector<double> mean(static_cast<size_t>(units));
  for (int flip = 0; flip <= (views.flip ? 1 : 0); ++flip) {
    for (const auto& [dy, dx] : shifts) {
      std::vector<double> e(static_cast<size_t>(units));
      double sum = 0;
      for (int64_t u = 0; u < units; ++u) {
        double score = bias.values<float>()[u];
        for (int64_t y = 0; y < height; ++y) {
          for (int64_t x = 0; x < width; ++x) {
            const int64_t from_x = flip ? width - 1 - x : x;
            const int64_t sy = std::clamp<int64_t>(y - dy, 0, height - 1);
            const int64_t sx = std::clamp<int64_t>(from_x - dx, 0, width - 1);
            score += image.values<uint8_t>()[sy * width + sx] / 255.0 *
                     kernel.values<float>()[(y * width + x) * units + u];
          }
        }
        sum += e[u] = std::exp(score);
      }
      const double count = static_cast<double>(shifts.size()) * (views.flip ? 2 : 1);
      for (int64_t u = 0; u < units; ++u) mean[u] += e[u] / sum / count;
    }
  }
  return mean;
}

TEST_F(ClassifierTest, AveragesTheProbabilitiesOfTheViews) {
  const base::NamedArrays weights = Save("m.safetensors", {});
  const Array images = RandomImages(4, 5, 7);
  for (const TestTimeViews& views : {TestTimeViews{}, TestTimeViews{.flip = true},
                                     TestTimeViews{.shift = true}, TestTimeViews{true, true}}) {
    SCOPED_TRACE(views.count());
    auto classifier = Load({"m.safetensors"}, views);
    ASSERT_TRUE(classifier.ok()) << classifier.status();
    // The second call has fewer rows than the program, which pads them.
    for (const int64_t rows : {4, 1}) {
      const auto got = classifier->Probabilities({{"image", images.Slice(0, rows)}});
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->shape(), base::Shape({rows, 3}));
      for (int64_t i = 0; i < rows; ++i) {
        const std::vector<double> want = Reference(weights, images.Row(i), views);
        for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(got->item<double>({i, c}), want[c], 1e-6);
      }
    }
  }
}

TEST_F(ClassifierTest, AveragesModelsOfSeveralInputSizes) {
  const auto one = Save("1.safetensors", {.seed = 1});
  const auto two = Save("2.safetensors", {.height = 3, .width = 4, .seed = 2});
  const Array large = RandomImages(2, 5, 7), small = RandomImages(2, 3, 4);
  auto classifier = Load({"1.safetensors", "2.safetensors"}, {.flip = true});
  ASSERT_TRUE(classifier.ok()) << classifier.status();
  ASSERT_EQ(classifier->shapes().size(), 2u);
  const auto got = classifier->Probabilities({{"image", large}, {"image_1", small}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (int64_t i = 0; i < 2; ++i) {
    const auto a = Reference(one, large.Row(i), {.flip = true});
    const auto b = Reference(two, small.Row(i), {.flip = true});
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(got->item<double>({i, c}), (a[c] + b[c]) / 2, 1e-6);
    }
  }
}

TEST_F(ClassifierTest, RejectsModelsOfOtherClasses) {
  Save("three.safetensors", {.class_names = {"a", "b", "c"}});
  Save("two.safetensors", {.units = 2, .class_names = {"a", "b"}});
  Save("order.safetensors", {.class_names = {"a", "c", "b"}});
  Save("unnamed.safetensors", {});
  EXPECT_THAT(LoadError({"three.safetensors", "two.safetensors"}), HasSubstr("it has 2 classes"));
  EXPECT_THAT(LoadError({"three.safetensors", "order.safetensors"}),
              HasSubstr("its class 1 is 'c', but that of"));
  const auto both = Load({"unnamed.safetensors", "three.safetensors"});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->class_names(), ElementsAre("a", "b", "c"));
}

TEST_F(ClassifierTest, TakesTheMeaningOfScoresFromTheLossOrTheLastLayer) {
  const Array images = RandomImages(1, 5, 7);
  const auto sum = [&](const Spec& spec) {
    Save("m.safetensors", spec);
    auto classifier = Load({"m.safetensors"});
    EXPECT_TRUE(classifier.ok()) << classifier.status();
    const auto got = classifier->Probabilities({{"image", images}});
    EXPECT_TRUE(got.ok()) << got.status();
    double total = 0;
    for (const double p : got->values<double>()) total += p;
    return std::pair(got->dim(1), total);
  };
  const auto one = DoubleNear(1, 1e-6);
  EXPECT_THAT(sum({.activation = "softmax", .loss = "sparse_categorical_crossentropy"}).second,
              one);
  EXPECT_THAT(sum({.activation = "softmax", .loss = "mse"}).second, one);
  const auto binary = sum({.units = 1, .activation = "sigmoid", .loss = "binary_crossentropy"});
  EXPECT_EQ(binary.first, 2) << "one unit has two classes";
  EXPECT_THAT(binary.second, one);
  Save("m.safetensors", {.loss = "mse"});
  EXPECT_THAT(LoadError({"m.safetensors"}), HasSubstr("neither a softmax nor a sigmoid"));
}

}  // namespace classifier_test
}  // namespace penstock::cli
