// Layers that adapt to a dataset before training.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace adapt_test {

using base::Array;
using ::testing::HasSubstr;

TEST(Adapt, NormalizationHasZeroMeanAndUnitVariance) {
  const Array x = Array::Of<float>({4, 2}, {1, 10, 2, 20, 3, 30, 6, 60});
  const Array y = Array::Of<float>({4, 1}, {0, 0, 0, 0});
  const data::Dataset dataset = data::Dataset::FromArrays({{"x", x}, {"y", y}}).Batch(3);
  const nn::Layer normalize = Normalization();
  EXPECT_THAT(std::string(Adapt(normalize, dataset).message()),
              HasSubstr("requires the name of one"));
  ASSERT_TRUE(Adapt(normalize, dataset, "x").ok());

  Model model = Sequential({Input({.shape = {2}}), normalize});
  ASSERT_TRUE(
      model
          .Compile(
              {.optimizer = "sgd", .loss = "mean_squared_error", .client = runtime::TestClient(1)})
          .ok());
  const auto out = model.Predict(x);
  ASSERT_TRUE(out.ok()) << out.status();
  // Mean 3 and variance 3.5; the other column is ten times that.
  const double want[] = {-2, -1, 0, 3};
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(out->values<float>()[i], want[i / 2] / std::sqrt(3.5), 1e-6);
  }
}

// It would be read forever.
TEST(Adapt, RejectsDataWithoutAnEnd) {
  const data::Dataset dataset =
      data::Dataset::FromArrays({{"x", Array::Of<float>({2, 1}, {1, 2})}}).Repeat().Batch(2);
  EXPECT_THAT(std::string(Adapt(Normalization(), dataset).message()),
              HasSubstr("the data has no end"));
}

TEST(BalancedClassWeights, CountTheClassesOfADataset) {
  const data::Dataset dataset = data::Dataset::FromArrays(
      {{"x", Array::Of<float>({4}, {1, 2, 3, 4})}, {"y", Array::Of<int64_t>({4}, {1, 1, 0, 1})}});
  for (const data::Dataset& each : {dataset, dataset.Batch(3)}) {
    const auto weights = BalancedClassWeights(each, "y");
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_THAT(*weights,
                ::testing::ElementsAre(::testing::Pair(0, 2), ::testing::Pair(1, 4.0 / 6)));
  }
  EXPECT_THAT(std::string(BalancedClassWeights(dataset).status().message()),
              HasSubstr("BalancedClassWeights requires the name of one"));
  EXPECT_THAT(std::string(BalancedClassWeights(dataset.Repeat(), "y").status().message()),
              HasSubstr("BalancedClassWeights reads the dataset to its end"));
}

TEST(Adapt, RejectsLayerWithoutAdapt) {
  const data::Dataset dataset =
      data::Dataset::FromArrays({{"x", Array::Of<float>({1, 1}, {1})}}).Batch(1);
  EXPECT_THAT(std::string(Adapt(Flatten(), dataset).message()),
              HasSubstr("Flatten does not support Adapt"));
}

}  // namespace adapt_test
}  // namespace penstock::keras
