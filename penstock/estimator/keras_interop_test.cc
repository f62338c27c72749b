#include "penstock/estimator/keras_interop.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_model.h"

namespace penstock::keras {
namespace keras_interop_test {

using estimator::testing::Flowers;
using estimator::testing::QuietConfig;
using estimator::testing::TemporaryFolder;
using ::testing::HasSubstr;

Model Classifier() {
  return Sequential({Input({.shape = {4}, .name = "x"}),
                     Dense({.units = 8, .activation = "relu", .name = "hidden"}),
                     BatchNormalization({.name = "norm"}), Dense({.units = 3, .name = "logits"})});
}

CompileOptions Arguments() {
  return {.optimizer = "adam",
          .loss = SparseCategoricalCrossentropy({.from_logits = true}),
          .metrics = {"accuracy"},
          .seed = 3};
}

data::Dataset Batches() { return data::Dataset::FromArrays(Flowers(64)).Batch(16); }

TEST(ModelToEstimator, TakesTheStepsOfFit) {
  Model model = Classifier();
  ASSERT_EQ(model.Compile(Arguments()), absl::OkStatus());
  const TemporaryFolder folder;
  auto estimator = ModelToEstimator(model, folder.path(), QuietConfig());
  ASSERT_EQ(estimator.status(), absl::OkStatus());
  // The model itself is trained afterwards.
  ASSERT_EQ((*estimator)->Train(Batches().Repeat(3)), absl::OkStatus());
  ASSERT_EQ(model.Fit(Batches(), {.epochs = 3, .verbose = 0}).status(), absl::OkStatus());
  const base::NamedArrays expected = *model.GetWeights();
  for (const auto& [name, value] : expected) {
    const absl::StatusOr<base::Array> ours = (*estimator)->GetVariableValue(name);
    ASSERT_EQ(ours.status(), absl::OkStatus());
    EXPECT_TRUE(base::BitwiseEqual(value, *ours)) << name << value << *ours;
  }
  const Logs logs = *model.Evaluate(Batches(), {.verbose = 0});
  const estimator::EvalResult result = *(*estimator)->Evaluate(Batches());
  EXPECT_NEAR(result.at("accuracy"), *logs.Find("accuracy"), 1e-6);
  EXPECT_NEAR(result.at("loss"), *logs.Find("loss"), 1e-5);
}

// A sum is not divided by the number of examples, and weighted metrics are metrics.
TEST(ModelToEstimator, ReducesTheLossAsFit) {
  Model model = Classifier();
  CompileOptions arguments = Arguments();
  arguments.optimizer = SGD({.learning_rate = 0.01});
  arguments.loss = SparseCategoricalCrossentropy({.from_logits = true, .reduction = "sum"});
  arguments.weighted_metrics = {"accuracy"};
  arguments.metrics = {};
  ASSERT_EQ(model.Compile(arguments), absl::OkStatus());
  const TemporaryFolder folder;
  auto estimator = ModelToEstimator(model, folder.path(), QuietConfig());
  ASSERT_EQ(estimator.status(), absl::OkStatus());
  ASSERT_EQ((*estimator)->Train(Batches()), absl::OkStatus());
  ASSERT_EQ(model.Fit(Batches(), {.verbose = 0}).status(), absl::OkStatus());
  const base::NamedArrays expected = *model.GetWeights();
  for (const auto& [name, value] : expected) {
    const absl::StatusOr<base::Array> ours = (*estimator)->GetVariableValue(name);
    ASSERT_EQ(ours.status(), absl::OkStatus());
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      EXPECT_NEAR(value.data<float>()[i], ours->data<float>()[i], 1e-5) << name;
    }
  }
  const Logs logs = *model.Evaluate(Batches(), {.verbose = 0});
  const estimator::EvalResult result = *(*estimator)->Evaluate(Batches());
  EXPECT_NEAR(result.at("accuracy"), *logs.Find("accuracy"), 1e-6);
}

TEST(ModelToEstimator, RejectsMaskedOutputs) {
  Model model = Sequential({Input({.shape = {5}, .dtype = base::DType::kI64}),
                            Embedding({.input_dim = 7, .output_dim = 4, .mask_zero = true}),
                            Dense({.units = 3})});
  ASSERT_EQ(model.Compile(Arguments()), absl::OkStatus());
  EXPECT_THAT(ModelToEstimator(model).status().message(), HasSubstr("has a mask"));
}

TEST(ModelToEstimator, NeedsACompiledModel) {
  EXPECT_THAT(ModelToEstimator(Classifier()).status().message(), HasSubstr("ModelToEstimator"));
}

TEST(KerasToTpuModel, TakesTheStepsOfFitWithReplicas) {
  CompileOptions arguments = Arguments();
  Model model = Classifier(), plain = Classifier();
  ASSERT_EQ(model.Compile(arguments), absl::OkStatus());
  const TPUDistributionStrategy strategy(session::tpu::TPUClusterResolver("cpu"), false,
                                         {.cpu_devices = 4});
  EXPECT_EQ(*strategy.num_replicas(), 4);
  auto tpu_model = KerasToTpuModel(std::move(model), strategy);
  ASSERT_EQ(tpu_model.status(), absl::OkStatus());
  arguments.client = *strategy.client();
  arguments.replicas = 4;
  ASSERT_EQ(plain.Compile(arguments), absl::OkStatus());
  ASSERT_EQ(tpu_model->Fit(Batches(), {.epochs = 2, .verbose = 0}).status(), absl::OkStatus());
  ASSERT_EQ(plain.Fit(Batches(), {.epochs = 2, .verbose = 0}).status(), absl::OkStatus());
  const base::NamedArrays ours = *tpu_model->GetWeights(), expected = *plain.GetWeights();
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(base::BitwiseEqual(value, *ours.Find(name))) << name;
  }
}

TEST(KerasToTpuModel, KeepsRematerialization) {
  CompileOptions arguments = Arguments();
  arguments.remat = {.mode = nn::RematMode::kFull};
  Model model = Classifier();
  ASSERT_EQ(model.Compile(arguments), absl::OkStatus());
  const auto count = [](Model& compiled) {
    const auto& uses = (*compiled.trainer())->objective().network.uses();
    return std::count_if(uses.begin(), uses.end(),
                         [](const auto& use) { return use.remat == nn::Remat::kFull; });
  };
  const auto before = count(model);
  EXPECT_GT(before, 0);
  const TPUDistributionStrategy strategy(session::tpu::TPUClusterResolver("cpu"), false,
                                         {.cpu_devices = 2});
  auto tpu_model = KerasToTpuModel(std::move(model), strategy);
  ASSERT_EQ(tpu_model.status(), absl::OkStatus());
  EXPECT_EQ(count(*tpu_model), before);
}

TEST(KerasToTpuModel, MayBeCompiledAfterwards) {
  const TPUDistributionStrategy strategy(session::tpu::TPUClusterResolver("cpu"), true,
                                         {.cpu_devices = 2});
  EXPECT_EQ(*strategy.num_replicas(), 1);
  auto tpu_model = KerasToTpuModel(Classifier(), strategy);
  ASSERT_EQ(tpu_model.status(), absl::OkStatus());
  ASSERT_EQ(tpu_model->Compile(Arguments()), absl::OkStatus());
  EXPECT_EQ((*tpu_model->trainer())->strategy().num_replicas(), 1);
  EXPECT_EQ(tpu_model->Fit(Batches(), {.verbose = 0}).status(), absl::OkStatus());
  const TPUDistributionStrategy too_many(session::tpu::TPUClusterResolver("cpu"), false,
                                         {.num_replicas = 3, .cpu_devices = 2});
  EXPECT_THAT(too_many.num_replicas().status().message(), HasSubstr("there are 2 devices"));
}

// By whatever opens addresses in the program, which in this one nothing does.
TEST(TPUDistributionStrategy, OpensAddresses) {
  const TPUDistributionStrategy strategy(session::tpu::TPUClusterResolver("localhost:1"));
  EXPECT_THAT(strategy.client().status().message(), HasSubstr("link penstock::remote for grpc://"));
}

}  // namespace keras_interop_test
}  // namespace penstock::keras
