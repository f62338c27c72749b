// The types in which a mixed-precision training step computes, checked in the text of its program.
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/step_program.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace policy_test {

using base::DType;
using ::testing::HasSubstr;

nn::Network Net() {
  const nn::Symbol image = nn::Input({.shape = {6, 6, 2}, .dtype = DType::kU8, .name = "image"});
  nn::Symbol x = nn::Rescaling({.scale = 1 / 255.0})(image);
  x = nn::Conv2D({.filters = 4, .kernel_size = 3})(x);
  x = nn::ReLU()(nn::BatchNormalization()(x));
  x = nn::GlobalAveragePooling2D()(nn::MaxPooling2D()(x));
  return nn::Network({image}, {nn::Dense({.units = 3})(x)});
}

absl::StatusOr<ir::Program> Step(const std::string& policy, ir::MatmulPrecision precision) {
  const Objective objective{
      .network = Net().WithPolicy(policy),
      .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {nn::Accuracy()}}},
      .optimizer = nn::SGD({.momentum = 0.9}),
      .matmul_precision = precision};
  PENSTOCK_RETURN_IF_ERROR(objective.network.status());
  return TrainStep(objective, StateLayout::Make(objective),
                   {.inputs = {{DType::kU8, {8, 6, 6, 2}}}, .labels = {{DType::kI64, {8}}}},
                   /*num_replicas=*/2, /*halt_on_nan=*/false);
}

std::vector<std::string> LinesWith(const ir::Program& program, absl::string_view what) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(program.text, '\n')) {
    if (absl::StrContains(line, what)) lines.emplace_back(line);
  }
  return lines;
}

TEST(MixedPrecision, MultipliesIn16BitsAndAccumulatesIn32) {
  for (const std::string policy : {"mixed_bfloat16", "bfloat16"}) {
    const auto program = Step(policy, ir::MatmulPrecision::kDefault);
    ASSERT_TRUE(program.ok()) << program.status();
    // Forward, and backward to the weights (the image has no gradient).
    const auto convolutions = LinesWith(*program, "stablehlo.convolution");
    const auto products = LinesWith(*program, "stablehlo.dot_general");
    EXPECT_EQ(convolutions.size(), 2u);
    EXPECT_EQ(products.size(), 3u);
    for (const auto* lines : {&convolutions, &products}) {
      for (const std::string& line : *lines) EXPECT_THAT(line, HasSubstr("bf16>, tensor<")) << line;
    }
    const auto sums = LinesWith(*program, "applies stablehlo.add");
    EXPECT_GE(sums.size(), 6u);
    for (const std::string& line : sums) EXPECT_FALSE(absl::StrContains(line, "bf16")) << line;
    // The reducers' arguments reveal the type in which replicas are summed.
    const auto reducers = LinesWith(*program, "^bb0(");
    EXPECT_GE(reducers.size(), 2u);
    int of_16_bits = 0;
    for (const std::string& line : reducers) of_16_bits += absl::StrContains(line, "bf16");
    EXPECT_LE(of_16_bits, 2) << "more than the max-pooling's select and scatter";
  }
}

TEST(MixedPrecision, KeepsStateInFloat32) {
  const auto full = Step("float32", ir::MatmulPrecision::kDefault);
  const auto mixed = Step("mixed_bfloat16", ir::MatmulPrecision::kDefault);
  ASSERT_TRUE(full.ok() && mixed.ok()) << full.status() << mixed.status();
  EXPECT_EQ(mixed->parameters, full->parameters);
  EXPECT_EQ(mixed->results, full->results);
  EXPECT_THAT(full->text, ::testing::Not(HasSubstr("bf16")));
}

TEST(MatmulPrecision, AppliesToEveryProductAndConvolution) {
  const auto program = Step("float32", ir::MatmulPrecision::kHighest);
  ASSERT_TRUE(program.ok()) << program.status();
  const size_t count = LinesWith(*program, "stablehlo.convolution").size() +
                       LinesWith(*program, "stablehlo.dot_general").size();
  EXPECT_EQ(LinesWith(*program, "HIGHEST").size(), count);
  // The plugin accepts the attribute.
  const auto compiled = runtime::TestClient(2)->Compile(*program, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(LinesWith(*Step("float32", ir::MatmulPrecision::kDefault), "HIGH").empty());
  EXPECT_THAT(std::string(ir::MatmulPrecisionFromName("exact").status().message()),
              HasSubstr("default, high, highest"));
}

TEST(MixedPrecision, LearnsLikeFloat32AndPredictsInFloat32) {
  const data::Dataset points = data::Dataset::FromArrays(testing::Points(200)).Batch(20);
  double accuracy_of_float32 = 0;
  for (const std::string policy : {"float32", "mixed_bfloat16", "bfloat16", "mixed_float16"}) {
    nn::Optimizer optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9});
    if (policy == "mixed_float16") optimizer = nn::LossScaleOptimizer(optimizer);
    const auto trainer = testing::SmallTrainer(
        {.network = testing::SmallNet(0, /*batch_norm=*/true).WithPolicy(policy),
         .optimizer = optimizer,
         .replicas = 2});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto history = (*trainer)->Fit(points, {.epochs = 15});
    ASSERT_TRUE(history.ok()) << history.status();
    const auto predicted = (*trainer)->Predict(points);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    EXPECT_EQ((*predicted)[0].TypeString(), "float32[200,3]");
    const double accuracy = *(*trainer)->Evaluate(points)->Get("accuracy");
    if (policy == "float32") {
      accuracy_of_float32 = accuracy;
      EXPECT_GT(accuracy, 0.85);
    }
    EXPECT_NEAR(accuracy, accuracy_of_float32, 0.03) << policy;
  }
}

TEST(MixedPrecision, LoadsWeightsSavedUnderAnotherPolicy) {
  const auto make = [](const char* policy) {
    return *testing::SmallTrainer({.network = testing::SmallNet().WithPolicy(policy)});
  };
  const auto full = make("float32"), narrow = make("bfloat16");
  const auto weights = full->Weights();
  ASSERT_TRUE(weights.ok()) << weights.status();
  ASSERT_TRUE(narrow->SetWeights(*weights).ok());
  const auto rounded = narrow->Weights();
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  for (const auto& [name, array] : *weights) {
    EXPECT_TRUE(BitwiseEqual(*rounded->Find(name), *array.Cast(DType::kBF16))) << name;
  }
  EXPECT_TRUE(full->SetWeights(*rounded).ok());
}

}  // namespace policy_test
}  // namespace penstock::train
