#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/save/saved_model/saved_model.h"

namespace penstock::estimator {
namespace estimator_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using testing::Flowers;
using testing::QuietConfig;
using testing::SmallEstimator;
using testing::SmallModelFn;
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

TEST(Estimator, PredictsWithLocalVariables) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(
      folder.path(), QuietConfig(), {},
      [](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        const session::Variable scale(
            base::Array::Scalar(2.0f), "scale",
            {.trainable = false, .collections = {session::graph_keys::kLocalVariables}});
        EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
        spec.predictions.Set("scale", features["x"] * scale);
        return spec;
      });
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  auto predictions = estimator.Predict(TestBatches());
  ASSERT_EQ(predictions.status(), absl::OkStatus());
  base::NamedArrays example;
  const absl::StatusOr<bool> more = (*predictions)->Next(&example);
  ASSERT_EQ(more.status(), absl::OkStatus());
  EXPECT_TRUE(*more);
}

// yield_single_examples = False is for predictions that have no row for each example.
TEST(Estimator, PredictsWholeBatchesOfAnyShape) {
  const TemporaryFolder folder;
  Estimator estimator =
      SmallEstimator(folder.path(), QuietConfig(), {},
                     [](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
                       EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
                       spec.predictions.Set("mean", session::ReduceMean(features["x"]));
                       return spec;
                     });
  auto batches = estimator.Predict(TestBatches(10, 8), {.yield_single_examples = false});
  ASSERT_EQ(batches.status(), absl::OkStatus());
  base::NamedArrays batch;
  for (const int64_t rows : {8, 2}) {
    ASSERT_TRUE((*batches)->Next(&batch).value());
    EXPECT_EQ(batch.Find("class")->shape(), base::Shape{rows});
    EXPECT_EQ(batch.Find("mean")->shape(), base::Shape());
  }
  EXPECT_FALSE((*batches)->Next(&batch).value());
  auto examples = estimator.Predict(TestBatches(10, 8));
  ASSERT_EQ(examples.status(), absl::OkStatus());
  EXPECT_THAT(std::string((*examples)->Next(&batch).status().message()),
              ::testing::AllOf(HasSubstr("the prediction 'mean' is float32[]"),
                               HasSubstr("yield_single_examples = false returns whole batches")));
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

TEST(Estimator, ExportsTheSignatureThatIsChosen) {
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(
      folder.path(), QuietConfig(), {},
      [](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
        EstimatorSpec spec = SmallModelFn(features, labels, mode, {});
        spec.export_outputs = {{"scores", ClassificationOutput(spec.predictions["probabilities"])},
                               {"value", RegressionOutput(spec.predictions["probabilities"])}};
        return spec;
      });
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  const auto outputs = [&](const std::string& signature) -> std::string {
    const auto exported = estimator.ExportSavedModel(
        folder.path() + "/export",
        BuildRawServingInputReceiverFn(
            {{.name = "x", .dtype = base::DType::kF32, .shape = {-1, 4}}}),
        {.signature = signature});
    if (!exported.ok()) return std::string(exported.status().message());
    const auto function = save::ReadServingFunction(*io::FileSystem::Default(), *exported);
    return function.ok() ? function->outputs[0].name : std::string(function.status().message());
  };
  EXPECT_EQ(outputs("scores"), "scores");
  EXPECT_EQ(outputs("value"), "outputs");
  EXPECT_THAT(outputs(kServingDefault),
              HasSubstr("export_outputs have no 'serving_default'; they are scores, value"));
}

TEST(Estimator, EvaluatesAndPredictsOnAnotherDevice) {
  RunConfig config = QuietConfig();
  config.evaluation_master = "moon";
  const TemporaryFolder folder;
  Estimator estimator = SmallEstimator(folder.path(), config);
  ASSERT_EQ(estimator.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
  EXPECT_THAT(std::string(estimator.Evaluate(TestBatches()).status().message()), HasSubstr("moon"));
  EXPECT_THAT(std::string(estimator.Predict(TestBatches()).status().message()), HasSubstr("moon"));
}

}  // namespace estimator_test
}  // namespace penstock::estimator
