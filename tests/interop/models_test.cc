// Compares the networks of room models with Keras: layers, names, order, and weights; and, with
// equal weights, the outputs.
#include "penstock/models/models.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests {
namespace {

using Json = nlohmann::ordered_json;

// Keras's description of each network, computed once per program.
class KerasModels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    const absl::Status ran = RunPython("interop/keras_models.py", {folder.path().string()});
    ASSERT_TRUE(ran.ok()) << ran;
    const auto fs = io::FileSystem::Default();
    const auto text = io::ReadFile(*fs, folder / "models.json");
    ASSERT_TRUE(text.ok()) << text.status();
    models_ = new Json(Json::parse(*text));
    const auto outputs = save::ReadWeights(*fs, folder / "outputs.safetensors");
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    tensors_ = new base::NamedArrays(outputs->arrays);
  }
  static void TearDownTestSuite() {
    delete models_;
    delete tensors_;
  }

  static Json* models_;
  static base::NamedArrays* tensors_;
};
Json* KerasModels::models_ = nullptr;
base::NamedArrays* KerasModels::tensors_ = nullptr;

template <typename Options>
Options WithOptions(const Json& json) {
  Options options;
  options.input_shape = json.value("input_shape", options.input_shape);
  options.include_top = json.value("include_top", true);
  options.classes = json.value("classes", options.classes);
  return options;
}

nn::Network Make(const Json& model) {
  const Json& json = model["options"];
  if (model["model"] == "vgg16") return models::VGG16(WithOptions<models::VGG16Options>(json));
  if (model["model"] == "resnet" || model["model"] == "resnet_v2") {
    auto options = WithOptions<models::ResNetOptions>(json);
    options.depth = json["depth"];
    return model["model"] == "resnet" ? models::ResNet(options) : models::ResNetV2(options);
  }
  auto options = WithOptions<models::MobileNetV2Options>(json);
  options.alpha = json.value("alpha", options.alpha);
  return models::MobileNetV2(options);
}

// One line per layer, as written by keras_models.py.
std::vector<std::string> Layers(const nn::Network& network) {
  std::vector<std::string> lines;
  for (const nn::Network::Use& use : network.uses()) {
    if (!use.layer.valid()) continue;
    std::string& line = lines.emplace_back(
        absl::StrCat(use.name, " ", use.layer.class_name(), " ", use.type().ToString()));
    for (const nn::VariableSpec& v : network.variables()) {
      absl::string_view name = v.name;
      if (absl::ConsumePrefix(&name, use.name + "/"))
        absl::StrAppend(&line, " ", name, v.type.shape.ToString());
    }
  }
  return lines;
}

TEST_F(KerasModels, HaveTheSameLayersNamesOrderAndWeights) {
  for (const Json& model : *models_) {
    const nn::Network network = Make(model);
    ASSERT_TRUE(network.status().ok()) << network.status();
    EXPECT_EQ(network.name(), model["name"]);
    EXPECT_EQ(network.CountParameters(), model["parameters"]) << model["keras"];
    const std::vector<std::string> got = Layers(network), want = model["layers"];
    ASSERT_EQ(got.size(), want.size()) << model["keras"];
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << model["keras"];
  }
}

TEST_F(KerasModels, PrintTheSameSummary) {
  for (const Json& model : *models_) {
    std::string got = Make(model).Summary(), want = model["summary"];
    absl::StripTrailingAsciiWhitespace(&got);
    absl::StripTrailingAsciiWhitespace(&want);
    EXPECT_EQ(got, want) << model["keras"];
  }
}

TEST_F(KerasModels, GiveTheSameOutputsForTheSameWeights) {
  int compared = 0;
  for (size_t i = 0; i < models_->size(); ++i) {
    const Json& description = (*models_)[i];
    if (!description["run"]) continue;
    base::NamedArrays weights;
    const std::string prefix = absl::StrCat(i, "/weight/");
    for (const auto& [name, array] : *tensors_) {
      if (absl::StartsWith(name, prefix)) weights.Append(absl::StripPrefix(name, prefix), array);
    }
    keras::Model model(Make(description));
    ASSERT_TRUE(model.Compile({}).ok());
    const absl::Status set = model.SetWeights(weights);
    ASSERT_TRUE(set.ok()) << set;
    const auto got = model.Predict(*tensors_->Find(absl::StrCat(i, "/x")));
    ASSERT_TRUE(got.ok()) << got.status();
    const base::Array& want = *tensors_->Find(absl::StrCat(i, "/y"));
    ASSERT_EQ(got->TypeString(), want.TypeString());
    float largest = 0, difference = 0;
    for (int64_t k = 0; k < want.num_elements(); ++k) {
      largest = std::max(largest, std::abs(want.data<float>()[k]));
      difference = std::max(difference, std::abs(want.data<float>()[k] - got->data<float>()[k]));
    }
    EXPECT_GT(largest, 0.01);
    // Rounding errors of fifty layers accumulate.
    EXPECT_LT(difference, 1e-4 * largest) << description["keras"];
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

// Byte inputs, in the types of each policy.
TEST(ImageNetModels, LearnFourImages) {
  base::Random random(5);
  base::Array x = base::Array::Uninitialized(base::DType::kU8, {4, 48, 48, 3});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(random.Below(256));
  }
  const auto y = base::Array::Of<int64_t>({4}, {0, 1, 2, 1});
  for (const auto& [name, policy] :
       {std::pair{"resnet50", "float32"}, {"mobilenet_v2", "mixed_bfloat16"}}) {
    auto network = models::ByName(name, {.input_shape = {48, 48, 3}, .classes = 3});
    ASSERT_TRUE(network.ok()) << network.status();
    keras::Model model(*std::move(network));
    const absl::Status compiled =
        model.Compile({.optimizer = keras::SGD({.learning_rate = 0.01}),
                       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                       .dtype_policy = policy});
    ASSERT_TRUE(compiled.ok()) << compiled;
    const auto history =
        model.Fit(x, y, {.batch_size = 4, .epochs = 10, .verbose = 0, .shuffle = false});
    ASSERT_TRUE(history.ok()) << history.status();
    const double first = *history->epochs.front().Get("loss"),
                 last = *history->epochs.back().Get("loss");
    EXPECT_LT(last, 0.1 * first) << name;
    EXPECT_GT(last, 0) << name;
  }
}

}  // namespace
}  // namespace penstock::tests
