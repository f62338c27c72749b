#include "penstock/keras/keras_file.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/keras/pretrained.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace keras_file_test {

using ::testing::HasSubstr;

class KerasFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "keras_file_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  Model Compiled(uint64_t seed, const OptimizerArg& optimizer) const {
    Model model =
        Sequential({Input({.shape = {4}, .name = "x"}),
                    Dense({.units = 5, .activation = "tanh", .name = "hidden"}),
                    BatchNormalization({.name = "norm"}), Dense({.units = 3, .name = "scores"})});
    const absl::Status compiled =
        model.Compile({.optimizer = optimizer,
                       .loss = SparseCategoricalCrossentropy({.from_logits = true}),
                       .metrics = {"accuracy"},
                       .client = client_,
                       .seed = seed});
    EXPECT_TRUE(compiled.ok()) << compiled;
    return model;
  }

  absl::Status Train(Model& model) const {
    return model.Fit(x_, y_, {.batch_size = 4, .verbose = 0, .shuffle = false}).status();
  }

  static void ExpectSame(const base::NamedArrays& got, const base::NamedArrays& want,
                         const std::string& prefix = "") {
    for (const auto& [name, array] : want) {
      if (name.compare(0, prefix.size(), prefix) != 0) continue;
      const base::Array* mine = got.Find(name);
      ASSERT_NE(mine, nullptr) << name;
      ASSERT_EQ(mine->TypeString(), array.TypeString()) << name;
      ASSERT_EQ(mine->ToString(), array.ToString()) << name;
    }
  }

  const std::shared_ptr<runtime::Client> client_ = runtime::TestClient(1);
  std::filesystem::path folder_;
  const base::Array x_ =
      base::Array::Of<float>({4, 4}, {1, 0, 2, 0, 0, 1, 0, 3, 1, 1, 0, 0, 0.5, 0, 0, 1});
  const base::Array y_ = base::Array::Of<int64_t>({4}, {0, 1, 2, 1});
};

TEST_F(KerasFile, KeepsWeightsAndOptimizerBitForBit) {
  for (const OptimizerArg& optimizer :
       {OptimizerArg(Adam({.amsgrad = true, .use_ema = true})), OptimizerArg("nadam"),
        OptimizerArg(RMSprop({.momentum = 0.5, .centered = true})), OptimizerArg("adafactor"),
        OptimizerArg(SGD({.learning_rate = CosineDecay({.decay_steps = 9}),
        .momentum = 0.9,
        .gradient_accumulation_steps = 2})),
        OptimizerArg("lion"), OptimizerArg("ftrl"), OptimizerArg("muon")}) {
    SCOPED_TRACE(optimizer.Get()->class_name());
    Model model = Compiled(1, optimizer);
    ASSERT_TRUE(Train(model).ok());
    model.SetClassNames({"cat", "dog", "other"});
    for (const std::string name : {"x.keras", "x.h5"}) {
      SCOPED_TRACE(name);
      const absl::Status saved = model.Save(Path(name));
      ASSERT_TRUE(saved.ok()) << saved;
      auto again = Model::Load(Path(name), {.client = client_});
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->class_names(), model.class_names());
      ExpectSame(*again->GetWeights(), *model.GetWeights());
      ExpectSame(*(*again->trainer())->State(), *(*model.trainer())->State(), "optimizer/");
    }
  }
}

TEST_F(KerasFile, WeightsAloneAreLoadedByPlaceOrName) {
  Model model = Compiled(1, "sgd");
  for (const std::string name : {"x.weights.h5", "x.h5"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(model.SaveWeights(Path(name)).ok());
    Model other = Compiled(2, "sgd");
    const absl::Status loaded = other.LoadWeights(Path(name));
    ASSERT_TRUE(loaded.ok()) << loaded;
    ExpectSame(*other.GetWeights(), *model.GetWeights());
    const auto report = Compiled(2, "sgd").LoadWeights(Path(name), {.by_name = true});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loaded.size(), 8u) << report->ToString();
    // A file that describes no model.
    EXPECT_FALSE(Model::Load(Path(name), {.client = client_}).ok());
  }
}

TEST_F(KerasFile, ReportsLayersThatDoNotFit) {
  ASSERT_TRUE(Compiled(1, "sgd").SaveWeights(Path("x.weights.h5")).ok());
  Model other = Sequential({Input({.shape = {4}}), Dense({.units = 5, .name = "hidden"}),
                            Dense({.units = 7, .name = "scores"})});
  ASSERT_TRUE(other.Compile({.loss = "mse", .client = client_}).ok());
  EXPECT_THAT(std::string(other.LoadWeights(Path("x.weights.h5")).message()),
              HasSubstr("x.weights.h5"));
  const auto report =
      other.LoadWeights(Path("x.weights.h5"), {.by_name = true, .skip_mismatch = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loaded.size(), 2u) << report->ToString();
  EXPECT_EQ(report->skipped.size(), 2u) << report->ToString();
  EXPECT_EQ(report->unused.size(), 4u) << report->ToString();
}

TEST_F(KerasFile, WhatKerasLacksIsAnErrorBeforeAnythingIsWritten) {
  Model model = Compiled(1, "lars");
  EXPECT_THAT(std::string(model.Save(Path("x.keras")).message()), HasSubstr("LARS"));
  EXPECT_THAT(std::string(model.CheckSavable("x.keras").message()), HasSubstr("LARS"));
  EXPECT_TRUE(model.CheckSavable().ok());
  EXPECT_FALSE(std::filesystem::exists(Path("x.keras")));
  const absl::Status fit =
      model
          .Fit(x_, y_,
               {.batch_size = 4,
                .verbose = 0,
                .callbacks = {ModelCheckpoint(model, {.filepath = Path("x{epoch}.keras")})}})
          .status();
  EXPECT_THAT(std::string(fit.message()), HasSubstr("LARS"));
}

// Keras has a list of metrics for each output; Penstock's weighted_metrics are those of all.
TEST_F(KerasFile, ModelsOfSeveralOutputs) {
  const nn::Symbol x = Input({.shape = {4}, .name = "x"});
  const base::Array y = base::Array::Of<float>({4, 1}, {1, 2, 3, 4});
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted);
    Model model({x}, {Dense({.units = 1, .name = "a"})(x), Dense({.units = 1, .name = "b"})(x)});
    CompileOptions options{.loss = std::vector<LossArg>{"mse", "mae"}, .client = client_};
    if (weighted) options.weighted_metrics = {"mse"};
    ASSERT_TRUE(model.Compile(options).ok());
    for (const std::string name : {"two.keras", "two.h5"}) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(model.Save(Path(name)).ok());
      auto loaded = Model::Load(Path(name), {.client = client_});
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      const std::vector<base::Array> labels = {y, y};
      const auto want = model.Evaluate(x_, labels, {.verbose = 0});
      const auto got = loaded->Evaluate(x_, labels, {.verbose = 0});
      ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
      for (const auto& [metric, value] : *want) EXPECT_EQ(*got->Find(metric), value) << metric;
      EXPECT_EQ(want->Find("a_mse") != nullptr, weighted);
    }
  }
}

TEST_F(KerasFile, CheckpointsAndPretrainedLayers) {
  Model model = Compiled(1, "adam");
  const auto history =
      model.Fit(x_, y_,
                {.batch_size = 4,
                 .verbose = 0,
                 .callbacks = {ModelCheckpoint(model, {.filepath = Path("e{epoch}.keras")})}});
  ASSERT_TRUE(history.ok()) << history.status();
  const auto layer = FromFile(Path("e1.keras"), {.until = "norm"});
  ASSERT_TRUE(layer.ok()) << layer.status();
  EXPECT_NE(layer->initial_weights()->Find("hidden/kernel"), nullptr);
}

// A model whose compile arguments Penstock lacks can still predict.
TEST_F(KerasFile, LoadsWithoutArgumentsOfCompile) {
  Model model = Compiled(1, "adam");
  ASSERT_TRUE(model.Save(Path("x.keras")).ok());
  auto file = save::ReadWeights(*io::FileSystem::Default(), Path("x.keras"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::string& config = file->metadata.at("config.json");
  config.replace(config.find("\"Adam\""), 6, "\"Eve\"");
  ASSERT_TRUE(save::WriteWeights(*io::FileSystem::Default(), Path("x.keras"), *file).ok());
  EXPECT_THAT(std::string(Model::Load(Path("x.keras"), {.client = client_}).status().message()),
              HasSubstr("unknown optimizer 'Eve'"));
  auto loaded = Model::Load(Path("x.keras"), {.client = client_, .compile = false});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->Predict(x_).ok());
  EXPECT_THAT(std::string(Train(*loaded).message()), HasSubstr("call Compile before Fit"));
}

}  // namespace keras_file_test
}  // namespace penstock::keras
