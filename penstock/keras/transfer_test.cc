// Transfer learning: pretrained layers from files, compiling again, learning rates of groups.
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace transfer_test {

using base::Array;
using base::BitwiseEqual;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array Random(base::Shape shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Zeros(base::DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(random.Uniform() - 0.5);
  }
  return out;
}

CompileOptions Compiling(OptimizerArg optimizer = SGD({.learning_rate = 0.1})) {
  return {.optimizer = std::move(optimizer), .loss = "mse", .client = runtime::TestClient(1)};
}

const Array kX = Random({16, 4}, 1), kY3 = Random({16, 3}, 2), kY2 = Random({16, 2}, 3);

// A trained model in a file.
class PretrainedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(model_.Compile(Compiling()).ok());
    ASSERT_TRUE(model_.Fit(kX, kY3, {.batch_size = 8, .verbose = 0}).ok());
    ASSERT_TRUE(model_.Save(file_).ok());
    weights_ = *model_.GetWeights();
  }
  void TearDown() override { std::remove(file_.c_str()); }

  Model model_ = Sequential(
      {Input({.shape = {4}}), Dense({.units = 5, .activation = "tanh", .name = "hidden"}),
       BatchNormalization({.momentum = 0.5, .name = "norm"}),
       Dense({.units = 3, .name = "logits"})},
      "pretrained");
  const std::string file_ =
      ::testing::TempDir() + "/transfer_" + std::to_string(base::EntropySeed()) + ".safetensors";
  NamedArrays weights_;
};

Model WithHead(const nn::Layer& backbone) {
  const nn::Symbol x = Input({.shape = {4}});
  return Model(x, Dense({.units = 2, .name = "head"})(backbone(x)));
}

TEST_F(PretrainedFile, IsALayerWithItsWeights) {
  const auto layer = FromFile(file_, {.until = "norm"});
  ASSERT_TRUE(layer.ok()) << layer.status();
  Model model = WithHead(*layer);
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const NamedArrays before = *model.GetWeights();
  ASSERT_EQ(before.size(), 2u + 4u + 2u);
  for (const auto& [name, array] : weights_) {
    if (name.rfind("logits", 0) == 0) continue;
    const Array* mine = before.Find("pretrained/" + name);
    ASSERT_NE(mine, nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(*mine, array)) << name;
  }
  // The layer computes what the model computes up to there.
  Model features(model_.inputs(), model_.GetLayer("norm").output());
  ASSERT_TRUE(features.Compile(Compiling()).ok());
  ASSERT_TRUE(features.SetWeights(weights_, {.by_name = true}).ok());
  const nn::Symbol x = Input({.shape = {4}});
  Model alone(x, (*layer)(x));
  ASSERT_TRUE(alone.Compile(Compiling()).ok());
  const auto expected = features.Predict(kX), got = alone.Predict(kX);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  for (int64_t i = 0; i < expected->num_elements(); ++i) {
    EXPECT_NEAR(got->data<float>()[i], expected->data<float>()[i], 1e-6);
  }
  // It is frozen by default.
  ASSERT_TRUE(model.Fit(kX, kY2, {.verbose = 0}).ok());
  const NamedArrays after = *model.GetWeights();
  for (const auto& [name, array] : after) {
    EXPECT_EQ(BitwiseEqual(array, *before.Find(name)), name.rfind("head", 0) != 0) << name;
  }
}

TEST_F(PretrainedFile, IsTrainedOnRequest) {
  const auto layer = FromFile(file_, {.trainable = true, .until = "norm", .name = "backbone"});
  ASSERT_TRUE(layer.ok()) << layer.status();
  Model model = WithHead(*layer);
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  ASSERT_TRUE(model.Fit(kX, kY2, {.verbose = 0}).ok());
  for (const char* name : {"hidden/kernel", "norm/gamma", "norm/moving_mean"}) {
    EXPECT_FALSE(BitwiseEqual(*model.GetWeights()->Find(std::string("backbone/") + name),
                              *weights_.Find(name)))
        << name;
  }
  // Initializing the weights again starts with the file's.
  CompileOptions again = Compiling();
  again.keep_weights = false;
  ASSERT_TRUE(model.Compile(again).ok());
  EXPECT_TRUE(BitwiseEqual(*model.GetWeights()->Find("backbone/hidden/kernel"),
                           *weights_.Find("hidden/kernel")));
}

TEST_F(PretrainedFile, ModelWithItIsSavedAndLoaded) {
  const auto layer = FromFile(file_);
  ASSERT_TRUE(layer.ok()) << layer.status();
  Model model = WithHead(*layer);
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  ASSERT_TRUE(model.Save(file_).ok());
  const auto again = Model::Load(file_, {.client = runtime::TestClient(1)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->network().CountParameters(/*trainable_only=*/true), 3 * 2 + 2);
  EXPECT_TRUE(BitwiseEqual(*again->GetWeights()->Find("pretrained/logits/kernel"),
                           *weights_.Find("logits/kernel")));
}

TEST_F(PretrainedFile, ErrorsNameFileAndSimilarLayers) {
  EXPECT_THAT(std::string(FromFile(file_, {.until = "nrom"}).status().message()),
              AllOf(HasSubstr(file_), HasSubstr("no layer 'nrom'"), HasSubstr("norm")));
  EXPECT_TRUE(absl::IsNotFound(FromFile(file_ + ".none").status()));
  ASSERT_TRUE(model_.SaveWeights(file_).ok());
  EXPECT_THAT(std::string(FromFile(file_).status().message()),
              AllOf(HasSubstr(file_), HasSubstr("no description of a model")));
}

TEST(SecondStage, KeepsWeightsAndResetsTheOptimizer) {
  Model model = Sequential({Input({.shape = {4}}), Dense({.units = 5, .name = "first"}),
                            Dense({.units = 2, .name = "head"})});
  ASSERT_TRUE(model.SetTrainable(false, {"first"}).ok());
  CompileOptions options = Compiling(Adam({.learning_rate = 0.01}));
  ASSERT_TRUE(model.Compile(options).ok());
  ASSERT_TRUE(model.Fit(kX, kY2, {.verbose = 0}).ok());
  EXPECT_EQ((*model.trainer())->layout().first_shared, 4 + 4);
  const NamedArrays trained = *model.GetWeights();
  ASSERT_TRUE(model.SetTrainable(true, {"first"}).ok());
  EXPECT_EQ((*model.trainer())->layout().first_shared, 4 + 4) << "before Compile";
  ASSERT_TRUE(model.Compile(options).ok());
  EXPECT_EQ((*model.trainer())->layout().first_shared, 4 + 8);
  for (const auto& [name, array] : trained) {
    EXPECT_TRUE(BitwiseEqual(array, *model.GetWeights()->Find(name))) << name;
  }
  const auto state = (*model.trainer())->State();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->Find("optimizer/iteration")->data<int32_t>()[0], 0);
  EXPECT_THAT(state->Find("optimizer/momentum/head/bias")->values<float>(), ElementsAre(0, 0));
}

TEST(SecondStage, SummaryShowsFlagsBeforeCompile) {
  Model model = Sequential({Input({.shape = {4}}), Dense({.units = 5, .name = "first"})});
  ASSERT_TRUE(model.SetTrainable(false).ok());
  EXPECT_THAT(model.Summary(), HasSubstr(" Trainable params: 0 (0.00 B)"));
  EXPECT_THAT(std::string(model.SetTrainable(true, {"frist"}).message()), HasSubstr("'first'"));
}

// With plain SGD a step is proportional to the rate.
TEST(LearningRateMultipliers, ScaleTheStepsOfTheirLayers) {
  NamedArrays moved[2];
  for (const bool grouped : {false, true}) {
    Model model = Sequential({Input({.shape = {4}}), Dense({.units = 5, .name = "first"}),
                              Dense({.units = 2, .name = "head"})});
    nn::SGDOptions sgd{.learning_rate = 0.1};
    if (grouped) sgd.learning_rate_multipliers = {{"first", 0.25}};
    ASSERT_TRUE(model.Compile(Compiling(SGD(sgd))).ok());
    const NamedArrays before = *model.GetWeights();
    ASSERT_TRUE(model.Fit(kX, kY2, {.batch_size = 16, .verbose = 0}).ok());
    const NamedArrays after = *model.GetWeights();
    for (const auto& [name, array] : after) {
      Array change = array.Clone();
      for (int64_t i = 0; i < change.num_elements(); ++i) {
        change.mutable_data<float>()[i] -= before.Find(name)->data<float>()[i];
      }
      moved[grouped].Set(name, change);
    }
  }
  for (const auto& [name, change] : moved[0]) {
    const double factor = name.rfind("first", 0) == 0 ? 0.25 : 1;
    for (int64_t i = 0; i < change.num_elements(); ++i) {
      EXPECT_NEAR(moved[1].Find(name)->data<float>()[i], factor * change.data<float>()[i], 2e-7)
          << name;
    }
  }
}

TEST(LearningRateMultipliers, PatternWithoutVariableIsAnErrorOfCompile) {
  Model model = Sequential({Input({.shape = {4}}), Dense({.units = 5, .name = "first"})});
  EXPECT_THAT(
      std::string(model.Compile(Compiling(SGD({.learning_rate_multipliers = {{"frist/*", 0.5}}})))
                      .message()),
      AllOf(HasSubstr("no variable matches 'frist/*'"), HasSubstr("'first/bias'")));
}

}  // namespace transfer_test
}  // namespace penstock::keras
