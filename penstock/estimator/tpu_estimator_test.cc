#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/estimator.h"
#include "penstock/estimator/testing/small_model.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/tpu.h"

namespace penstock::estimator {
namespace tpu_estimator_test {

using testing::Flowers;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::TemporaryFolder;
using testing::TestBatches;

// As SmallModelFn, as a TPUEstimator's model_fn.
TPUEstimatorSpec TpuModelFn(const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
                            const Params& params) {
  namespace tf = session;
  const EstimatorSpec plain = testing::SmallModelFn(features, labels, mode, params);
  TPUEstimatorSpec spec{.mode = mode, .predictions = plain.predictions, .loss = plain.loss};
  if (mode == ModeKeys::kTrain) {
    tf::tpu::CrossShardOptimizer optimizer(tf::train::GradientDescentOptimizer(0.1));
    spec.train_op = optimizer.Minimize(spec.loss, tf::GetGlobalStep());
  }
  if (mode == ModeKeys::kEval) {
    spec.eval_metrics = {
        .metric_fn = [](const NamedTensors& t) -> EvalMetricOps {
          return {{"accuracy", tf::metrics::Accuracy(t["labels"], t["class"])}};
        },
        .tensors = {{"labels", labels.Single()}, {"class", plain.predictions["class"]}}};
  }
  return spec;
}

data::Dataset TrainInput(const Params& params) {
  return data::Dataset::FromArrays(Flowers(96)).Repeat().Batch(params["batch_size"]);
}
data::Dataset TestInput(const Params& params) {
  return data::Dataset::FromArrays(Flowers(30)).Batch(params["batch_size"]);
}

TPUEstimatorOptions Options(const std::string& model_dir, int shards, int64_t loop) {
  TPUEstimatorOptions options{.model_fn = TpuModelFn,
                              .model_dir = model_dir,
                              .config = QuietConfig(),
                              .train_batch_size = 24,
                              .eval_batch_size = 8,
                              .predict_batch_size = 8};
  options.config.tpu_config = {.iterations_per_loop = loop, .num_shards = shards};
  return options;
}

TEST(TPUEstimator, ShardsTakeTheStepsOfOneDevice) {
  const TemporaryFolder one, four;
  TPUEstimator single(Options(one.path(), 1, 1)), sharded(Options(four.path(), 4, 5));
  ASSERT_EQ(single.Train(TrainInput, {.max_steps = 12}), absl::OkStatus());
  ASSERT_EQ(sharded.Train(TrainInput, {.max_steps = 12}), absl::OkStatus());
  EXPECT_EQ(sharded.GetVariableValue("global_step")->item<int64_t>(), 12);
  const base::Array a = *single.GetVariableValue("hidden/kernel"),
                    b = *sharded.GetVariableValue("hidden/kernel");
  ASSERT_EQ(a.shape(), b.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-5) << i;
  }
}

TEST(TPUEstimator, EvaluatesAndPredictsAllExamplesInOrder) {
  const TemporaryFolder folder;
  TPUEstimator estimator(Options(folder.path(), 4, 10));
  ASSERT_EQ(estimator.Train(TrainInput, {.max_steps = 60}), absl::OkStatus());
  const absl::StatusOr<EvalResult> result = estimator.Evaluate(TestInput);
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_GT(result->at("accuracy"), 0.9);
  EXPECT_EQ(result->at("global_step"), 60);
  // 30 examples are three full batches and one that is padded.
  absl::StatusOr<std::unique_ptr<Predictions>> stream = estimator.Predict(TestInput);
  ASSERT_EQ(stream.status(), absl::OkStatus());
  const base::NamedArrays flowers = Flowers(30);
  int64_t count = 0, correct = 0;
  for (base::NamedArrays example;; ++count) {
    const absl::StatusOr<bool> more = (*stream)->Next(&example);
    ASSERT_EQ(more.status(), absl::OkStatus());
    if (!*more) break;
    ASSERT_LT(count, 30);
    correct +=
        example.Find("class")->item<int64_t>() == flowers.Find("label")->item<int64_t>({count});
  }
  EXPECT_EQ(count, 30);
  EXPECT_GE(correct, 27);
}

// A shard's mean has one row, so that four shards have four for eight examples.
TEST(TPUEstimator, RejectsPredictionsWithoutARowForEachExample) {
  const TemporaryFolder folder;
  TPUEstimatorOptions options = Options(folder.path(), 4, 1);
  options.model_fn = [](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
                        const Params& params) {
    TPUEstimatorSpec spec = TpuModelFn(features, labels, mode, params);
    spec.predictions = {{"mean", session::ReduceMean(spec.predictions["probabilities"])}};
    return spec;
  };
  TPUEstimator estimator(std::move(options));
  for (const bool single : {true, false}) {
    auto stream = estimator.Predict(TestInput, {.yield_single_examples = single});
    ASSERT_EQ(stream.status(), absl::OkStatus());
    base::NamedArrays example;
    EXPECT_THAT(std::string((*stream)->Next(&example).status().message()),
                ::testing::HasSubstr("have 4 rows for a batch of 8 examples"));
  }
}

// params["batch_size"] of model_fn and input_fn.
TEST(TPUEstimator, GivesTheBatchSizeOfAShard) {
  for (const auto pipeline : {InputPipelineConfig::kPerHostV2, InputPipelineConfig::kPerHostV1}) {
    const TemporaryFolder folder;
    int64_t of_input = 0, of_model = 0, rows = 0;
    TPUEstimatorOptions options = Options(folder.path(), 4, 2);
    options.config.tpu_config.per_host_input_for_training = pipeline;
    options.model_fn = [&](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
                           const Params& params) {
      of_model = params["batch_size"];
      rows = features["x"].shape().dim(0);
      return TpuModelFn(features, labels, mode, params);
    };
    TPUEstimator estimator(std::move(options));
    ASSERT_EQ(estimator.Train(
                  [&](const Params& params) {
                    of_input = params["batch_size"];
                    return TrainInput(params);
                  },
                  {.max_steps = 2}),
              absl::OkStatus());
    EXPECT_EQ(of_model, 6);
    EXPECT_EQ(rows, 6);
    EXPECT_EQ(of_input, pipeline == InputPipelineConfig::kPerHostV2 ? 6 : 24);
  }
}

TEST(TPUEstimator, WithoutTpuIsAnEstimator) {
  const TemporaryFolder folder;
  TPUEstimatorOptions options = Options(folder.path(), 4, 5);
  options.use_tpu = false;
  options.model_fn = testing::SmallModelFn;
  TPUEstimator estimator(std::move(options));
  ASSERT_EQ(estimator.Train(TrainInput, {.max_steps = 7}), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 7);
  EXPECT_EQ(estimator.Evaluate(TestInput).status(), absl::OkStatus());
}

TEST(TPUEstimator, EndsWithTheInputWithinADeviceLoop) {
  const TemporaryFolder folder;
  TPUEstimatorOptions options = Options(folder.path(), 2, 3);
  options.config.save_checkpoints_steps = 3;
  TPUEstimator estimator(std::move(options));
  // 96 examples are 4 steps: a loop of 3 and one of 1.
  const auto once = [](const Params& params) {
    return data::Dataset::FromArrays(Flowers(96)).Batch(params["batch_size"]);
  };
  ASSERT_EQ(estimator.Train(once), absl::OkStatus());
  EXPECT_EQ(estimator.GetVariableValue("global_step")->item<int64_t>(), 4);
  EXPECT_TRUE(absl::EndsWith(*estimator.LatestCheckpoint(), "model.ckpt-4"));
}

TEST(TPUEstimator, RunsTheHostCallWithEachExecution) {
  const TemporaryFolder folder;
  TPUEstimatorOptions options = Options(folder.path(), 2, 1);
  options.model_fn = [](const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
                        const Params& params) {
    TPUEstimatorSpec spec = TpuModelFn(features, labels, mode, params);
    spec.host_call = {.host_fn = [](const NamedTensors& t) -> session::Operations {
                        const session::Variable sum(base::Array::Zeros(base::DType::kF32, {}),
                                                    "host_sum", {.trainable = false});
                        return {session::AssignAdd(sum, session::ReduceSum(t[0]))};
                      },
                      .tensors = session::Tensors{session::Constant(2.0)}};
    return spec;
  };
  TPUEstimator estimator(std::move(options));
  ASSERT_EQ(estimator.Train(TrainInput, {.max_steps = 3}), absl::OkStatus());
  // 2 of each of 2 shards in 3 steps.
  EXPECT_EQ(estimator.GetVariableValue("host_sum")->item<float>(), 12);
}

TEST(TPUEstimator, RejectsTooFewExamplesForAllShards) {
  const TemporaryFolder folder;
  TPUEstimator estimator(Options(folder.path(), 4, 2));
  EXPECT_THAT(estimator
                  .Train([](const Params& params) {
                    return data::Dataset::FromArrays(Flowers(9)).Batch(params["batch_size"]);
                  })
                  .message(),
              HasSubstr("fewer examples than one batch of all shards, 24"));
}

}  // namespace tpu_estimator_test
}  // namespace penstock::estimator
