// Mixed precision must not reduce accuracy: trains a small convolutional network on scikit-learn's
// handwritten digits in float32 and mixed_bfloat16, with the same five seeds.
#include <cmath>

#include "gtest/gtest.h"

#include "penstock/keras/keras.h"

#include "tests/interop/small_data.h"

namespace penstock::tests::digits_policy_test {
namespace {

using base::DType;

nn::Network Net() {
  const nn::Symbol image = keras::Input({.shape = {8, 8, 1}, .dtype = DType::kU8, .name = "image"});
  nn::Symbol x = keras::Rescaling({.scale = 1 / 16.0})(image);
  for (const int64_t filters : {16, 32}) {
    x = keras::Conv2D({.filters = filters, .kernel_size = 3, .padding = "same", .use_bias = false})(
        x);
    x = keras::ReLU()(keras::BatchNormalization({.momentum = 0.9})(x));
    x = keras::MaxPooling2D()(x);
  }
  return nn::Network({image}, {keras::Dense({.units = 10})(keras::Flatten()(x))});
}

// Accuracy on the held-out digits.
absl::StatusOr<double> Accuracy(const std::string& policy, uint64_t seed, const Examples& train,
                                const Examples& test) {
  keras::Model model(Net());
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::Adam({.learning_rate = 0.005}),
                     .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                     .metrics = {"accuracy"},
                     .seed = seed,
                     .dtype_policy = policy}));
  PENSTOCK_RETURN_IF_ERROR(
      model.Fit(train.x, train.y, {.batch_size = 32, .epochs = 5, .verbose = 0}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs logs,
                            model.Evaluate(test.x, test.y, {.batch_size = 359}));
  return *logs.Find("accuracy");
}

struct Sample {
  double mean = 0, variance_of_mean = 0;
};

Sample Summarize(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  Sample sample;
  for (double v : values) sample.mean += v / n;
  for (double v : values)
    sample.variance_of_mean += (v - sample.mean) * (v - sample.mean) / (n - 1) / n;
  return sample;
}

TEST(Digits, MixedPrecisionReachesTheAccuracyOfFloat32) {
  const auto digits = Digits();
  ASSERT_TRUE(digits.ok()) << digits.status();
  const auto& [train, test] = *digits;
  std::map<std::string, Sample> samples;
  for (const char* policy : {"float32", "mixed_bfloat16"}) {
    std::vector<double> accuracies;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const auto accuracy = Accuracy(policy, seed, train, test);
      ASSERT_TRUE(accuracy.ok()) << accuracy.status();
      accuracies.push_back(*accuracy);
    }
    samples[policy] = Summarize(accuracies);
    RecordProperty(policy, std::to_string(samples[policy].mean));
  }
  const Sample &full = samples["float32"], &mixed = samples["mixed_bfloat16"];
  EXPECT_GT(full.mean, 0.95);
  // Three standard errors of the difference, but at least one digit in a hundred, because kernels
  // round differently on other machines.
  const double noise =
      std::max(3 * std::sqrt(full.variance_of_mean + mixed.variance_of_mean), 0.01);
  EXPECT_NEAR(mixed.mean, full.mean, noise);
}

}  // namespace
}  // namespace penstock::tests::digits_policy_test
