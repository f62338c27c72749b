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

TEST(Adapt, RejectsLayerWithoutAdapt) {
  const data::Dataset dataset =
      data::Dataset::FromArrays({{"x", Array::Of<float>({1, 1}, {1})}}).Batch(1);
  EXPECT_THAT(std::string(Adapt(Flatten(), dataset).message()),
              HasSubstr("Flatten does not support Adapt"));
}

}  // namespace adapt_test
}  // namespace penstock::keras
