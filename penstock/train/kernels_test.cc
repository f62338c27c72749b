// Training with kernels (room kernels) in its CPU programs.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/nn/layers.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace kernels_test {

using testing::ChangingBytes;
using ::testing::HasSubstr;
using testing::LargestDifference;

// A convolution, a residual block with batch normalization, pooling, and logits.
nn::Network ResidualNet() {
  const nn::Symbol image = nn::Input({.shape = {8, 8, 3}, .name = "x"});
  const auto convolved = [](nn::Symbol x, const char* name) {
    return nn::Conv2D(
        {.filters = 16, .kernel_size = 3, .padding = "same", .use_bias = false, .name = name})(x);
  };
  const nn::Symbol stem = nn::Activation({.activation = "relu"})(
      nn::BatchNormalization({.momentum = 0.9})(convolved(image, "stem")));
  const nn::Symbol inner = nn::BatchNormalization({.momentum = 0.9})(convolved(stem, "inner"));
  const nn::Symbol sum = nn::Activation({.activation = "relu"})(nn::Add()({inner, stem}));
  const nn::Symbol mean = nn::GlobalAveragePooling2D()(sum);
  return nn::Network({image}, {nn::Dense({.units = 3, .name = "logits"})(mean)});
}

base::NamedArrays Images(int64_t rows) {
  base::Random random(3);
  Array x = Array::Uninitialized(DType::kF32, {rows, 8, 8, 3}),
        y = Array::Uninitialized(DType::kI64, {rows});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(random.Uniform());
  }
  for (int64_t i = 0; i < rows; ++i) y.mutable_data<int64_t>()[i] = i % 3;
  return {{"x", x}, {"y", y}};
}

std::shared_ptr<runtime::Client> Open(bool kernels, const std::string& cache = "0") {
  auto client = runtime::OpenClient(
      {.device = "cpu",
       .cpu_devices = 8,
       .kernels = kernels,
       .compile_cache = cache,
       .log_path = absl::StrCat(::testing::TempDir(), "/kernels_", getpid(), ".log")});
  PENSTOCK_CHECK_OK(client);
  return *client;
}

struct Training {
  bool kernels = true;
  int replicas = 1;
  int64_t steps_per_execution = 1;
};

// State after ten steps; the last batch of an epoch is smaller.
base::NamedArrays Train(const Training& training) {
  auto strategy = Strategy::Create(Open(training.kernels), {.replicas = training.replicas});
  PENSTOCK_CHECK_OK(strategy);
  EXPECT_EQ(strategy->lowering().uses_kernels(), training.kernels) << strategy->lowering().reason();
  auto trainer = Trainer::Create(
      {.objective = {.network = ResidualNet(),
                     .targets = {{.loss =
                                      nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                     .optimizer = nn::SGD({.learning_rate = 0.05, .momentum = 0.9})},
       .strategy = *std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .steps_per_execution = training.steps_per_execution,
       .seed = 7});
  PENSTOCK_CHECK_OK(trainer);
  const auto dataset = data::Dataset::FromArrays(Images(149)).Batch(32);
  PENSTOCK_CHECK_OK((*trainer)->Fit(dataset, {.epochs = 2}));
  auto state = (*trainer)->Weights();
  PENSTOCK_CHECK_OK(state);
  return *state;
}

// Ten steps accumulate the rounding of gradients, which are sums of thousands of values.
constexpr double kTolerance = 2e-3;

TEST(TrainingWithKernels, MatchesTrainingWithoutKernels) {
  EXPECT_LT(LargestDifference(Train({}), Train({.kernels = false})), kTolerance);
}

TEST(TrainingWithKernels, MatchesTrainingWithoutKernelsInLoop) {
  const base::NamedArrays with = Train({.steps_per_execution = 4});
  EXPECT_LT(LargestDifference(with, Train({.kernels = false, .steps_per_execution = 4})),
            kTolerance);
  EXPECT_EQ(LargestDifference(with, Train({})), 0) << "the loop's numbers are not the steps'";
}

TEST(TrainingWithKernels, MatchesTrainingWithoutKernelsOnEightReplicas) {
  EXPECT_LT(LargestDifference(Train({.replicas = 8}), Train({.kernels = false, .replicas = 8})),
            kTolerance);
}

TEST(TrainingWithKernels, DonatesEntireStateAndCachesPrograms) {
  const std::string cache = testing::NewPath("_kernels");
  const nn::Network network = ResidualNet();
  const Objective objective{network,
                            {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                            nn::SGD({.learning_rate = 0.05, .momentum = 0.9})};
  const StateLayout layout = StateLayout::Make(objective);
  const int64_t bytes = ChangingBytes(layout);
  for (const int64_t depth : {1, 4}) {
    for (const bool kept : {false, true}) {
      const auto client = Open(true, cache);
      const auto lowering = kernels::Lowering::For(*client);
      const auto program = TrainStep(
          objective, layout,
          {.inputs = {{DType::kF32, {8, 8, 8, 3}}}, .labels = {{DType::kI64, {8}}}, .depth = depth},
          1, false, lowering);
      ASSERT_TRUE(program.ok()) << program.status();
      EXPECT_THAT(program->text, HasSubstr("penstock.convolution_kernel_gradient"));
      const auto executable = client->Compile(*program);
      ASSERT_TRUE(executable.ok()) << executable.status();
      EXPECT_EQ((*executable)->Memory()->aliased, bytes);
      EXPECT_EQ((*executable)->from_cache(), kept);
    }
  }
  std::filesystem::remove_all(cache);
}

}  // namespace kernels_test
}  // namespace penstock::train
