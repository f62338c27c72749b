// Transfers and compilations during Model::Load.
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace load_test {

using base::Array;
using ::testing::HasSubstr;

Model Classifier() {
  return Sequential({Input({.shape = {4}}),
                     Dense({.units = 8, .activation = "relu", .name = "hidden"}),
                     BatchNormalization({.name = "norm"}), Dense({.units = 3, .name = "logits"})});
}

class LoadedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    Model model = Classifier();
    ASSERT_TRUE(model.Compile({.optimizer = "adam", .client = runtime::TestClient(1)}).ok());
    ASSERT_TRUE(model.Save(file_).ok());
    weights_ = *model.GetWeights();
  }
  void TearDown() override { std::remove(file_.c_str()); }

  const std::string file_ =
      ::testing::TempDir() + "/load_" + std::to_string(base::EntropySeed()) + ".safetensors";
  base::NamedArrays weights_;
};

// One transfer per state entry and replica, not one for the initial values and another for the
// weights of the file.
TEST_F(LoadedModel, TransfersEachArrayOnce) {
  for (const int replicas : {1, 2}) {
    SCOPED_TRACE(replicas);
    const auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(replicas));
    const auto model = Model::Load(file_, {.client = client, .replicas = replicas});
    ASSERT_TRUE(model.ok()) << model.status();
    const int entries = (*model->trainer())->layout().size();
    EXPECT_GT(entries, static_cast<int>(weights_.size()));
    EXPECT_EQ(client->puts(), replicas * entries);
    const auto loaded = model->GetWeights();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    for (const auto& [name, array] : weights_) {
      const Array* other = loaded->Find(name);
      ASSERT_NE(other, nullptr) << name;
      EXPECT_TRUE(std::equal(array.values<float>().begin(), array.values<float>().end(),
                             other->values<float>().begin()))
          << name;
    }
  }
}

// The list is part of the description; a damaged one is an error that names the option.
TEST_F(LoadedModel, RestoresBatchAugmentation) {
  Model model = Classifier();
  ASSERT_TRUE(model
                  .Compile({.loss = SparseCategoricalCrossentropy(
                                {.from_logits = true, .label_smoothing = 0.1}),
                            .batch_augmentation = {MixUp({.alpha = 0.4}), MixUp()},
                            .client = runtime::TestClient(1)})
                  .ok());
  ASSERT_TRUE(model.Save(file_).ok());
  const auto loaded = Model::Load(file_, {.client = runtime::TestClient(1)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& objective = (*loaded->trainer())->objective();
  ASSERT_EQ(objective.batch_augmentation.size(), 2u);
  EXPECT_EQ(objective.batch_augmentation[0].ToJson(), MixUp({.alpha = 0.4}).ToJson());
  EXPECT_EQ(objective.targets[0].loss.ToJson()["config"]["label_smoothing"], 0.1);

  auto file = save::ReadWeights(*io::FileSystem::Default(), file_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string& description = file->metadata.at("penstock_model");
  const size_t at = description.find("\"alpha\":0.4");
  ASSERT_NE(at, std::string::npos) << description;
  description.replace(at, 11, "\"alpha\":-1");
  ASSERT_TRUE(save::WriteWeights(*io::FileSystem::Default(), file_, *file).ok());
  EXPECT_THAT(
      std::string(Model::Load(file_, {.client = runtime::TestClient(1)}).status().message()),
      HasSubstr("MixUp's alpha must be above 0, got -1"));
}

// An initializer that requires a matrix, in a file whose kernel is not one: it would fail if it
// ran.
TEST_F(LoadedModel, RunsNoInitializer) {
  auto file = save::ReadWeights(*io::FileSystem::Default(), file_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string& description = file->metadata.at("penstock_model");
  const std::string before = "\"gamma_initializer\":\"ones\"";
  const size_t at = description.find(before);
  ASSERT_NE(at, std::string::npos) << description;
  description.replace(at, before.size(), "\"gamma_initializer\":\"orthogonal\"");
  ASSERT_TRUE(save::WriteWeights(*io::FileSystem::Default(), file_, *file).ok());
  auto model = Model::Load(file_, {.client = runtime::TestClient(1)});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->Predict(Array::Zeros(base::DType::kF32, {2, 4})).ok());
  // The same layers with different initial values.
  const auto clone = model->Clone();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_THAT(
      std::string(Model(clone->network()).Compile({.client = runtime::TestClient(1)}).message()),
      HasSubstr("orthogonal"));
}

}  // namespace load_test
}  // namespace penstock::keras
