// Compares with Keras how models become files and files become models: descriptions of networks and
// of compile's arguments, names and order of variables. (keras_files_test compares the files
// themselves.)
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/keras_file.h"
#include "penstock/keras/pretrained.h"
#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests::keras_models_test {
namespace {

using base::Array;
using base::NamedArrays;
using Json = nlohmann::ordered_json;

// Arrays whose names begin with `prefix`, by the rest of the name.
std::map<std::string, Array> Under(const NamedArrays& arrays, const std::string& prefix) {
  std::map<std::string, Array> under;
  for (const auto& [name, array] : arrays) {
    if (absl::StartsWith(name, prefix)) under.emplace(name.substr(prefix.size()), array);
  }
  return under;
}

// A file of Keras 3 as room save reads it.
save::Weights ArchiveOf(const Json& model, const NamedArrays& tensors) {
  save::Weights file;
  const std::string prefix = absl::StrCat(model["name"].get<std::string>(), "/keras/");
  for (const auto& [name, array] : Under(tensors, prefix)) file.arrays.Append(name, array);
  file.metadata = {{"config.json", model["config"]}, {"metadata.json", "{}"}};
  return file;
}

// A legacy file of the same model.
save::Weights LegacyOf(const Json& model, const NamedArrays& tensors) {
  save::Weights file;
  for (const std::string name : model["legacy_weights"]) {
    file.arrays.Append(
        name, *tensors.Find(absl::StrCat(model["name"].get<std::string>(), "/legacy/", name)));
  }
  file.metadata = {{"model_config", model["legacy"]}, {"layer_names", model["layer_names"].dump()}};
  if (const std::string training = model["training"]; !training.empty()) {
    file.metadata["training_config"] = training;
  }
  return file;
}

absl::StatusOr<keras::Model> ModelOf(const save::Weights& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const keras::SavedModel saved, keras::ReadKerasModel(file, {}));
  keras::Model model(saved.network);
  PENSTOCK_RETURN_IF_ERROR(model.Compile(saved.compile));
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(saved.weights));
  return model;
}

void ExpectNear(const Array& got, const Array& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const auto a = got.Cast(base::DType::kF64), b = want.Cast(base::DType::kF64);
  ASSERT_TRUE(a.ok() && b.ok()) << what;
  double largest = 1;
  for (const double v : b->values<double>()) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double x = a->data<double>()[i], y = b->data<double>()[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    ASSERT_NEAR(x, y, tolerance * largest) << what << ", element " << i;
  }
}

// Compares summaries up to the lines of the optimizer, which a network does not have.
void ExpectSameLines(const std::string& got, const std::string& want) {
  const std::vector<std::string> a = absl::StrSplit(got, '\n'), b = absl::StrSplit(want, '\n');
  for (size_t i = 0; i < b.size() && !absl::StartsWith(b[i], " Optimizer"); ++i) {
    ASSERT_LT(i, a.size());
    if (absl::StartsWith(b[i], " Total")) continue;
    ASSERT_EQ(a[i], b[i]) << "line " << i + 1;
  }
}

class KerasModels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const absl::Status ran =
        RunPython("interop/keras_config.py", {"make", folder_->path().string()});
    ASSERT_TRUE(ran.ok()) << ran;
    const auto text = io::ReadFile(*io::FileSystem::Default(), *folder_ / "models.json");
    ASSERT_TRUE(text.ok()) << text.status();
    models_ = new Json(Json::parse(*text));
    const auto file =
        save::ReadWeights(*io::FileSystem::Default(), *folder_ / "models.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    tensors_ = new NamedArrays(file->arrays);
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete models_;
    delete tensors_;
  }

  static std::vector<Array> Arrays(const Json& model, const char* kind, const char* count) {
    std::vector<Array> arrays;
    for (int i = 0; i < model[count].get<int>(); ++i) {
      const std::string name = model["name"];
      arrays.push_back(*tensors_->Find(absl::StrCat(name, "/", kind, "/", i)));
    }
    return arrays;
  }

  static void ExpectOutputs(const Json& model, const keras::Model& got, const char* what) {
    keras::Model& predicting = const_cast<keras::Model&>(got);
    std::vector<Array> x = Arrays(model, "x", "inputs");
    const auto y = predicting.PredictAll(keras::ArraysArg(x));
    ASSERT_TRUE(y.ok()) << y.status();
    const std::vector<Array> want = Arrays(model, "y", "outputs");
    ASSERT_EQ(y->size(), want.size());
    const bool narrow = model["name"] == "mixed";
    for (size_t i = 0; i < want.size(); ++i) {
      ExpectNear((*y)[i], want[i], narrow ? 1e-2 : 1e-5,
                 absl::StrCat(what, ", output ", i, " ", got.network().outputs()[i].name));
    }
  }

  // Adds the file of a model to what `keras_config.py check` opens.
  static void AddFile(const std::string& name, const keras::Model& model, Json& ours,
                      NamedArrays& arrays) {
    const auto file = keras::KerasModelFile(**model.trainer(), {}, keras::KerasLayout::kArchive);
    ASSERT_TRUE(file.ok()) << file.status();
    int64_t optimizer = 0;
    for (const auto& [path, array] : file->arrays) {
      arrays.Append(absl::StrCat(name, "/", path), array);
      optimizer += absl::StartsWith(path, "optimizer/") ? 1 : 0;
    }
    ours.push_back(
        {{"name", name}, {"config", file->metadata.at("config.json")}, {"optimizer", optimizer}});
  }

  // Trains each of the models that Keras has begun to train for one epoch, and saves it.
  static void ContinueTrainings() {
    const auto text = io::ReadFile(*io::FileSystem::Default(), *folder_ / "trainings.json");
    ASSERT_TRUE(text.ok()) << text.status();
    for (const std::string name : Json::parse(*text)) {
      SCOPED_TRACE(name);
      auto model = keras::Model::Load(*folder_ / (name + ".keras"));
      ASSERT_TRUE(model.ok()) << model.status();
      const auto history = model->Fit(*tensors_->Find("train/x"), *tensors_->Find("train/y"),
                                      {.batch_size = 8, .verbose = 0, .shuffle = false});
      ASSERT_TRUE(history.ok()) << history.status();
      const absl::Status saved = model->Save(*folder_ / ("ours_" + name + ".keras"));
      ASSERT_TRUE(saved.ok()) << saved;
    }
  }

  // Reads and writes a model in each of Keras's formats.
  static void ExchangeFiles() {
    const Array &x = *tensors_->Find("file/x"), &y = *tensors_->Find("file/y");
    for (const std::string name : {"file.keras", "file.h5"}) {
      auto model = keras::Model::Load(*folder_ / name);
      ASSERT_TRUE(model.ok()) << model.status();
      const auto got = model->Predict(x);
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectNear(*got, y, 1e-5, name);
      const absl::Status saved = model->Save(*folder_ / ("ours_" + name));
      ASSERT_TRUE(saved.ok()) << saved;
    }
    // Weights by their places, into a model whose layers have other names.
    auto model = keras::Model::Load(*folder_ / "file.keras", {.compile = false});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_FALSE(model->Evaluate(x, y).ok());
    ASSERT_TRUE(model->Compile({.loss = "mse", .seed = 3}).ok());
    for (const std::string name : {"file.weights.h5", "file.h5", "file.keras"}) {
      ASSERT_TRUE(model->Compile({.loss = "mse", .seed = 3}).ok());
      const absl::Status loaded = model->LoadWeights(*folder_ / name);
      ASSERT_TRUE(loaded.ok()) << loaded;
      ExpectNear(*model->Predict(x), y, 1e-5, name);
      ASSERT_TRUE(model->Compile({.loss = "mse", .seed = 3}).ok());
      const auto report = model->LoadWeights(*folder_ / name, {.by_name = true});
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->loaded.size(), 10u) << report->ToString();
      ExpectNear(*model->Predict(x), y, 1e-5, name);
    }
    const absl::Status saved = model->SaveWeights(*folder_ / "ours_file.weights.h5");
    ASSERT_TRUE(saved.ok()) << saved;
    const auto layer = keras::FromFile(*folder_ / "file.keras", {.until = "first"});
    ASSERT_TRUE(layer.ok()) << layer.status();
    EXPECT_NE(layer->initial_weights()->Find("first/kernel"), nullptr);
  }

  static TemporaryFolder* folder_;
  static Json* models_;
  static NamedArrays* tensors_;
};
TemporaryFolder* KerasModels::folder_ = nullptr;
Json* KerasModels::models_ = nullptr;
NamedArrays* KerasModels::tensors_ = nullptr;

TEST_F(KerasModels, AreReadWithTheirSummaryWeightsAndOutputs) {
  for (const Json& json : *models_) {
    const std::string name = json["name"];
    SCOPED_TRACE(name);
    for (const bool legacy : {false, true}) {
      SCOPED_TRACE(legacy ? "legacy" : "Keras 3");
      if (legacy && json["legacy"] == "") continue;
      const save::Weights file = legacy ? LegacyOf(json, *tensors_) : ArchiveOf(json, *tensors_);
      const auto network = keras::ReadKerasNetwork(file, {});
      ASSERT_TRUE(network.ok()) << network.status();
      std::string got = network->network.Summary(), want = json["summary"];
      absl::StripTrailingAsciiWhitespace(&got);
      absl::StripTrailingAsciiWhitespace(&want);
      // Keras lists inputs and calls in another order where these differ in their distance from the
      // outputs, and states shapes that some layers do not have.
      if (name != "catalog" && name != "shared" && name != "crossed") ExpectSameLines(got, want);
      if (json["outputs"] == 0) continue;
      const auto model = ModelOf(file);
      ASSERT_TRUE(model.ok()) << model.status();
      ExpectOutputs(json, *model, name.c_str());
    }
  }
}

TEST_F(KerasModels, AreWrittenSoThatKerasPredictsTheSameAndGoesOnTraining) {
  Json ours = Json::array();
  NamedArrays arrays;
  for (const Json& json : *models_) {
    const std::string name = json["name"];
    SCOPED_TRACE(name);
    if (json["outputs"] == 0 || name == "crossed") continue;
    const auto model = ModelOf(ArchiveOf(json, *tensors_));
    ASSERT_TRUE(model.ok()) << model.status();
    AddFile(name, *model, ours, arrays);
  }
  ContinueTrainings();
  ExchangeFiles();
  ASSERT_FALSE(HasFailure());
  const auto fs = io::FileSystem::Default();
  ASSERT_TRUE(io::WriteFile(*fs, *folder_ / "ours.json", ours.dump()).ok());
  ASSERT_TRUE(save::WriteWeights(*fs, *folder_ / "ours.safetensors", {.arrays = arrays}).ok());
  const absl::Status ran =
      RunPython("interop/keras_config.py", {"check", folder_->path().string()});
  ASSERT_TRUE(ran.ok()) << ran;
  const auto checked = save::ReadWeights(*fs, *folder_ / "checked.safetensors");
  ASSERT_TRUE(checked.ok()) << checked.status();
  for (const Json& json : *models_) {
    if (json["name"] == "crossed") continue;
    const std::vector<Array> want = Arrays(json, "y", "outputs");
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string name = absl::StrCat(json["name"].get<std::string>(), "/y/", i);
      ASSERT_NE(checked->arrays.Find(name), nullptr) << name;
      ExpectNear(*checked->arrays.Find(name), want[i], 1e-5, name);
    }
  }
  // 20 steps of training, of which four are ours.
  int compared = 0;
  for (const auto& [name, want] : *tensors_) {
    if (!absl::StartsWith(name, "train/") || !absl::StrContains(name, "/end/")) continue;
    ASSERT_NE(checked->arrays.Find(name), nullptr) << name;
    ExpectNear(*checked->arrays.Find(name), want, 1e-4, name);
    ++compared;
  }
  EXPECT_EQ(compared, 5 * 8);
  for (const char* name : {"ours_file.keras", "ours_file.h5", "ours_file.weights.h5"}) {
    ExpectNear(*checked->arrays.Find(absl::StrCat("file/", name)), *tensors_->Find("file/y"), 1e-5,
               name);
  }
}

}  // namespace
}  // namespace penstock::tests::keras_models_test
