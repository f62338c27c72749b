
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_estimator.h"

namespace penstock::estimator {
namespace estimator_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using testing::Flowers;
using testing::SmallEstimator;
using testing::TemporaryFolder;
using testing::TestBatches;
using testing::TrainBatches;

TEST(Estimator, TrainsEvaluatesAndPredicts) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 60}), absl::OkStatus());
  const absl::StatusOr<EvalResult> result = estimator.Evaluate(TestBatches());
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_GT(result->at("accuracy"), 0.95);
  EXPECT_LT(result->at("loss"), 0.3);
  EXPECT_EQ(result->at("global_step"), 60);

  // Predictions come in the order of the input, a row for each example.
  const base::NamedArrays flowers = Flowers(30);
  absl::StatusOr<std::unique_ptr<Predictions>> stream = estimator.Predict(TestBatches());
  ASSERT_EQ(stream.status(), absl::OkStatus());
  int64_t count = 0, correct = 0;
  for (base::NamedArrays example;;) {
    const absl::StatusOr<bool> more = (*stream)->Next(&example);
    ASSERT_EQ(more.status(), absl::OkStatus());
    if (!*more) break;
    EXPECT_EQ(example.Find("probabilities")->shape(), base::Shape{3});
    correct +=
        example.Find("class")->item<int64_t>() == flowers.Find("label")->item<int64_t>({count});
    ++count;
  }
  EXPECT_EQ(count, 30);
  EXPECT_GE(correct, 29);
}

TEST(Estimator, ReturnsVariablesOfTheNewestCheckpoint) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path());
  EXPECT_EQ(*estimator.LatestCheckpoint(), "");
  EXPECT_TRUE(absl::IsNotFound(estimator.GetVariableNames().status()));
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 2}), absl::OkStatus());
  EXPECT_THAT(*estimator.LatestCheckpoint(), HasSubstr("model.ckpt-2"));
  EXPECT_THAT(*estimator.GetVariableNames(),
              ::testing::IsSupersetOf({"global_step", "hidden/bias", "hidden/kernel",
                                       "hidden/kernel/Adam", "logits/kernel"}));
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 2);
}

}  // namespace estimator_test
}  // namespace penstock::estimator
