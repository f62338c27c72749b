#include "penstock/train/callbacks/summaries.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace summaries_test {

using base::Array;
using base::DType;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

Array Floats(base::Shape shape, const std::vector<float>& values) {
  return Array::Of<float>(std::move(shape), values);
}

// tests/interop/tensorboard_test.cc compares the values with TensorFlow's.
TEST(Summaries, HistogramCountsWhatIsNotFinite) {
  const std::string some = *HistogramSummary("w", Floats({4}, {1, kNan, -kInfinity, 2}));
  EXPECT_THAT(some, HasSubstr("w/not_finite"));
  EXPECT_EQ(some.find("w/not_finite"), some.rfind("w/not_finite"));
  EXPECT_THAT(*HistogramSummary("w", Floats({2}, {1, 2})), Not(HasSubstr("not_finite")));
  // Without any number there is no distribution, only the count.
  EXPECT_LT(HistogramSummary("w", Floats({1}, {kNan}))->size(), 30u);
  EXPECT_EQ(*HistogramSummary("w", Floats({0}, {})), "");
  EXPECT_TRUE(HistogramSummary("w", Floats({2}, {3e38f, -3e38f})).ok());
}

TEST(Summaries, RejectWhatIsNoNumberOrImage) {
  const Array text = Array::Strings({1}, {"a"});
  EXPECT_THAT(HistogramSummary("w", text).status().message(), HasSubstr("summary 'w'"));
  for (const base::Shape& shape :
       {base::Shape({4}), base::Shape({1, 2, 2, 2}), base::Shape({1, 0, 2, 1}),
        base::Shape({1, 70000, 1, 1}), base::Shape({1, 1, 2, 2, 3})}) {
    EXPECT_THAT(ImageSummary("i", Array::Zeros(DType::kU8, shape)).status().message(),
                HasSubstr("image summary 'i': expected [batch, height, width, channels]"))
        << shape.ToString();
  }
  EXPECT_EQ(*ImageSummary("i", Array::Zeros(DType::kF32, {0, 2, 2, 3})), "");
  EXPECT_EQ(*ImageSummary("i", Array::Zeros(DType::kF32, {2, 2, 2, 3}), 0), "");
  EXPECT_TRUE(ImageSummary("i", Floats({1, 2}, {kNan, kInfinity})).ok());
}

TEST(Summaries, CountConfusionTakesTheFormsOfLabels) {
  const Array outputs = Floats({4, 3}, {.1F, .8F, .1F, .9F, 0, .1F, .2F, .2F, .6F, .5F, .5F, 0});
  const std::vector<int64_t> expected{1, 0, 0, 0, 1, 1, 1, 0, 0};  // labels 1, 2, 1, 0
  const std::vector<int32_t> labels{1, 2, 1, 0};
  for (const base::Shape& shape : {base::Shape({4}), base::Shape({4, 1})}) {
    const auto counts = CountConfusion(Array::Of<int32_t>(shape, labels), outputs);
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_THAT(counts->values<int64_t>(), ::testing::ElementsAreArray(expected));
  }
  const auto one_hot =
      CountConfusion(Floats({4, 3}, {0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0}), outputs);
  EXPECT_THAT(one_hot->values<int64_t>(), ::testing::ElementsAreArray(expected));
  const auto binary =
      CountConfusion(Array::Of<int32_t>({3}, {0, 1, 1}), Floats({3, 1}, {.4F, .6F, .5F}));
  EXPECT_THAT(binary->values<int64_t>(), ::testing::ElementsAre(1, 0, 1, 1));
}

TEST(Summaries, CountConfusionRejectsWhatIsNoClass) {
  const Array outputs = Floats({2, 3}, {1, 0, 0, 0, 1, 0});
  for (const float wrong : {-1.0F, 3.0F, 0.5F, kNan, 1e30F}) {
    EXPECT_THAT(CountConfusion(Floats({2}, {0, wrong}), outputs).status().message(),
                HasSubstr("of row 1 is no class from 0 to 2"));
  }
  EXPECT_THAT(CountConfusion(Floats({3}, {0, 1, 2}), outputs).status().message(),
              HasSubstr("a confusion matrix needs outputs [rows, classes]"));
  EXPECT_FALSE(CountConfusion(Floats({2}, {0, 1}), Floats({2, 0}, {})).ok());
  EXPECT_FALSE(CountConfusion(Floats({2}, {0, 1}), Floats({2}, {0, 1})).ok());
}

TEST(Summaries, ConfusionHasImageTableAndAccuracy) {
  const Array counts = Array::Of<int64_t>({2, 2}, {8, 2, 1, 9});
  const std::string summary = *ConfusionSummary("c", counts, {"a|b", "d\ne"});
  EXPECT_THAT(summary, HasSubstr("| true \\ predicted | a\\|b | d e |\n|---|---:|---:|\n"
                                 "| a\\|b | 8 | 2 |\n| d e | 1 | 9 |"));
  EXPECT_THAT(summary, HasSubstr("c/image"));
  EXPECT_THAT(summary, HasSubstr("c/accuracy"));
  // A thousand classes are an image without a table.
  const auto many = ConfusionSummary("c", Array::Zeros(DType::kI64, {1000, 1000}));
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_THAT(*many, Not(HasSubstr("c/table")));
  EXPECT_FALSE(ConfusionSummary("c", Array::Zeros(DType::kI64, {2, 3})).ok());
  EXPECT_FALSE(ConfusionSummary("c", Array::Zeros(DType::kI64, {0, 0})).ok());
}

}  // namespace summaries_test
}  // namespace penstock::train
