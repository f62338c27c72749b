// Compares the networks of room models with Keras: layers, names, order, weights, and options of
// the layers; and, with equal weights, the outputs.
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
#include "penstock/nn/layers.h"
#include "penstock/nn/names.h"
#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests::models_test {
namespace {

using Json = nlohmann::ordered_json;

// A network that is compared: with `run` its outputs, too.
struct Request {
  const char* name;
  models::ImageNetOptions options;
  bool run = false;
};

// Every network of the table with its defaults, and unusual settings of each family. A family has
// one row at least whose outputs are compared.
std::vector<Request> Requests() {
  std::vector<Request> requests;
  for (const models::ModelInfo& model : models::Models()) {
    if (model.keras_name != nullptr) requests.push_back({model.name, {}});
  }
  const std::vector<Request> unusual = {
      {"resnet50", {.input_shape = {97, 64, 3}, .include_top = false}},
      {"resnet152_v2", {.input_shape = {64, 97, 3}, .include_top = false, .pooling = "max"}},
      {"vgg16", {.input_shape = {65, 32, 3}, .include_top = false, .pooling = "avg"}},
      {"mobilenet_v2", {.alpha = 0.35}},
      {"mobilenet_v2", {.classes = 11, .alpha = 1.4}},
      {"mobilenet_v2", {.input_shape = {71, 54, 3}, .include_top = false}},
      {"resnet50", {.input_shape = {32, 45, 3}, .classes = 7}, true},
      {"mobilenet_v2", {.input_shape = {45, 32, 3}, .classes = 5, .alpha = 0.5}, true},
      {"resnet50_v2", {.input_shape = {45, 37, 3}, .classes = 6}, true},
      {"vgg16", {.input_shape = {32, 47, 3}, .include_top = false}, true},
      {"densenet121", {.input_shape = {33, 64, 3}, .include_top = false, .pooling = "max"}},
      {"densenet121", {.input_shape = {39, 32, 3}, .classes = 3}, true},
      {"xception", {.input_shape = {71, 80, 3}, .include_top = false, .pooling = "avg"}},
      {"xception", {.input_shape = {75, 71, 3}, .classes = 4}, true},
      {"inception_v3", {.input_shape = {75, 90, 3}, .include_top = false, .pooling = "max"}},
      {"inception_v3", {.input_shape = {79, 75, 3}, .classes = 5}, true},
      {"inception_resnet_v2", {.input_shape = {75, 91, 3}, .include_top = false}},
      {"nasnet_mobile", {.input_shape = {37, 64, 3}, .include_top = false, .pooling = "avg"}},
      {"nasnet_mobile", {.input_shape = {32, 41, 3}, .classes = 6}, true},
      {"mobilenet", {.input_shape = {45, 32, 3}, .alpha = 0.3, .depth_multiplier = 2}, true},
      {"mobilenet", {.input_shape = {33, 64, 1}, .include_top = false, .pooling = "max"}},
      {"mobilenet_v3_small", {.input_shape = {45, 32, 3}, .classes = 5, .alpha = 1.3}, true},
      {"mobilenet_v3_large", {.include_top = false, .pooling = "avg", .minimalistic = true}},
      {"mobilenet_v3_large", {.alpha = 0.4, .include_preprocessing = false}},
      {"efficientnet_b0", {.imagenet_rescaling = true}},
      {"efficientnet_b1", {.input_shape = {45, 32, 3}, .classes = 5}, true},
      {"efficientnet_b2", {.input_shape = {71, 54, 3}, .include_top = false, .pooling = "max"}},
      {"efficientnet_v2_b2", {.input_shape = {45, 32, 3}, .classes = 5}, true},
      {"efficientnet_v2_b3", {.input_shape = {71, 54, 1}, .include_top = false, .pooling = "avg"}},
      {"efficientnet_v2_s", {.classes = 3, .include_preprocessing = false}},
      {"convnext_tiny", {.input_shape = {45, 37, 3}, .classes = 5}, true},
      {"convnext_small", {.input_shape = {64, 48, 3}, .include_top = false, .pooling = "max"}},
      {"convnext_tiny", {.input_shape = {33, 64, 1}, .include_top = false}},
  };
  requests.insert(requests.end(), unusual.begin(), unusual.end());
  return requests;
}

const models::ModelInfo& InfoOf(absl::string_view name) {
  const auto& all = models::Models();
  return *std::find_if(all.begin(), all.end(), [&](const auto& m) { return name == m.name; });
}

// The arguments of Keras's function.
Json KerasArguments(const Request& request) {
  const models::ImageNetOptions& options = request.options;
  const int64_t size = InfoOf(request.name).image_size;
  Json json;
  json["input_shape"] = options.input_shape;
  if (options.input_shape.empty()) json["input_shape"] = {size, size, 3};
  json["include_top"] = options.include_top;
  if (!options.pooling.empty()) json["pooling"] = std::string(options.pooling);
  json["classes"] = options.classes;
  if (options.alpha) json["alpha"] = *options.alpha;
  if (options.imagenet_rescaling) json["weights"] = "imagenet";
  if (options.depth_multiplier) json["depth_multiplier"] = *options.depth_multiplier;
  if (options.minimalistic) json["minimalistic"] = *options.minimalistic;
  if (options.include_preprocessing) {
    json["include_preprocessing"] = *options.include_preprocessing;
  }
  return json;
}

nn::Network Make(const Request& request) {
  auto network = models::ByName(request.name, request.options);
  return network.ok() ? *network : nn::Network(network.status());
}

// Keras's description of each network, computed once per program.
class KerasApplications : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    const auto fs = io::FileSystem::Default();
    Json json = Json::array();
    for (const Request& request : Requests()) {
      json.push_back({{"keras", InfoOf(request.name).keras_name},
                      {"arguments", KerasArguments(request)},
                      {"run", request.run}});
    }
    ASSERT_TRUE(io::WriteFile(*fs, folder / "requests.json", json.dump()).ok());
    const absl::Status ran = RunPython("interop/keras_models.py", {folder.path().string()});
    ASSERT_TRUE(ran.ok()) << ran;
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
Json* KerasApplications::models_ = nullptr;
base::NamedArrays* KerasApplications::tensors_ = nullptr;

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

TEST_F(KerasApplications, HaveTheSameLayersNamesOrderWeightsAndSummary) {
  const std::vector<Request> requests = Requests();
  ASSERT_EQ(models_->size(), requests.size());
  for (size_t k = 0; k < requests.size(); ++k) {
    const Json& model = (*models_)[k];
    SCOPED_TRACE(absl::StrCat(requests[k].name, " ", KerasArguments(requests[k]).dump()));
    const nn::Network network = Make(requests[k]);
    ASSERT_TRUE(network.status().ok()) << network.status();
    EXPECT_EQ(network.name(), model["name"]);
    EXPECT_EQ(network.CountParameters(), model["parameters"]);
    const std::vector<std::string> got = Layers(network), want = model["layers"];
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]);
    if (!requests[k].run) continue;  // one of each family at least
    std::string got_summary = network.Summary(), want_summary = model["summary"];
    absl::StripTrailingAsciiWhitespace(&got_summary);
    absl::StripTrailingAsciiWhitespace(&want_summary);
    ASSERT_EQ(got_summary, want_summary);
  }
}

// Whether an option is equal to Keras's. An initializer of Keras is represented by its class, ours
// is a text of name and arguments.
bool SameOption(const Json& got, const Json& want) {
  if (got.is_number() && want.is_number()) return got.get<double>() == want.get<double>();
  if (got.is_string() && want.is_string()) {
    const std::string text = got;
    return nn::SameName(text.substr(0, text.find('(')), want.get<std::string>());
  }
  if (!got.is_array() || !want.is_array() || got.size() != want.size()) return got == want;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!SameOption(got[i], want[i])) return false;
  }
  return true;
}

TEST_F(KerasApplications, HaveTheSameOptionsOfLayers) {
  const std::vector<Request> requests = Requests();
  int64_t compared = 0;
  for (size_t k = 0; k < requests.size(); ++k) {
    const nn::Network network = Make(requests[k]);
    size_t i = 0;
    for (const nn::Network::Use& use : network.uses()) {
      if (!use.layer.valid()) continue;
      Json got = nn::LayerConfig(use.layer);
      // A pooling layer without strides has those of its window.
      if (got.contains("strides") && got["strides"].is_null()) got["strides"] = got["pool_size"];
      for (const auto& [key, want] : (*models_)[k]["configs"].at(i++).items()) {
        ASSERT_TRUE(got.contains(key)) << use.layer.class_name() << " " << key;
        ASSERT_TRUE(SameOption(got[key], want))
            << requests[k].name << " " << use.name << ": " << key << " is " << got[key]
            << ", but Keras has " << want;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 10000);
}

TEST_F(KerasApplications, PreprocessImagesInTheSameWay) {
  const double pixel[] = {10, 100, 200};  // that of keras_models.py
  const std::vector<Request> requests = Requests();
  for (size_t k = 0; k < requests.size(); ++k) {
    const auto preprocessing = models::Preprocessing(requests[k].name);
    ASSERT_TRUE(preprocessing.ok()) << preprocessing.status();
    for (int c = 0; c < 3; ++c) {
      const double x = pixel[preprocessing->reverse_channels ? 2 - c : c];
      EXPECT_NEAR(x * preprocessing->scale[c] + preprocessing->offset[c],
                  (*models_)[k]["preprocessed"][c].get<double>(), 1e-5)
          << requests[k].name;
    }
  }
}

// A network that begins with these layers takes the images as they are.
TEST_F(KerasApplications, PreprocessImagesByLayersInTheSameWay) {
  const auto pixel = base::Array::Of<uint8_t>({1, 1, 1, 3}, {10, 100, 200});
  const std::vector<Request> requests = Requests();
  std::set<models::PreprocessMode> modes;
  for (size_t k = 0; k < requests.size(); ++k) {
    const models::PreprocessMode mode = models::Preprocessing(requests[k].name)->mode;
    if (models::PreprocessingLayers(mode).empty() || !modes.insert(mode).second) continue;
    nn::Symbol x = nn::Input({.shape = {1, 1, 3}, .dtype = base::DType::kU8});
    const nn::Symbol input = x;
    for (const nn::Layer& layer : models::PreprocessingLayers(mode)) x = layer(x);
    keras::Model model(input, x);
    ASSERT_TRUE(model.Compile({}).ok());
    const auto got = model.Predict(pixel);
    ASSERT_TRUE(got.ok()) << got.status();
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(got->data<float>()[c], (*models_)[k]["preprocessed"][c].get<double>(), 1e-5)
          << requests[k].name;
    }
  }
  EXPECT_EQ(modes.size(), 3u);
}

TEST_F(KerasApplications, GiveTheSameOutputsForTheSameWeights) {
  const std::vector<Request> requests = Requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].run) continue;
    SCOPED_TRACE(absl::StrCat(requests[i].name, " ", KerasArguments(requests[i]).dump()));
    base::NamedArrays weights;
    const std::string prefix = absl::StrCat(i, "/weight/");
    for (const auto& [name, array] : *tensors_) {
      if (absl::StartsWith(name, prefix)) weights.Append(absl::StripPrefix(name, prefix), array);
    }
    keras::Model model(Make(requests[i]));
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
    EXPECT_LT(difference, 1e-5 * largest);
    std::printf("%s: difference %.2g of %.2g\n", requests[i].name, difference, largest);
  }
}

// Byte inputs, in the types of each policy: noise, brighter in the channel of its class.
TEST(ImageNetModels, LearnFourImages) {
  base::Random random(5);
  base::Array x = base::Array::Uninitialized(base::DType::kU8, {4, 48, 48, 3});
  const auto y = base::Array::Of<int64_t>({4}, {0, 1, 2, 1});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t label = y.data<int64_t>()[i / (48 * 48 * 3)];
    const uint64_t brightness = i % 3 == label ? 128 : 0;
    x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(brightness + random.Below(128));
  }
  for (const auto& [name, policy] : {std::pair{"resnet50", "float32"},
                                     {"resnet50_v2", "float32"},
                                     {"mobilenet_v2", "mixed_bfloat16"}}) {
    SCOPED_TRACE(name);
    auto network = models::ByName(name, {.input_shape = {48, 48, 3},
                                         .classes = 3,
                                         .input_dtype = base::DType::kU8,
                                         .rescale = 1 / 255.0});
    ASSERT_TRUE(network.ok()) << network.status();
    keras::Model model(*std::move(network));
    const absl::Status compiled =
        model.Compile({.optimizer = keras::SGD({.learning_rate = 0.01}),
                       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                       .seed = 1,
                       .dtype_policy = policy});
    ASSERT_TRUE(compiled.ok()) << compiled;
    const auto history =
        model.Fit(x, y, {.batch_size = 4, .epochs = 10, .verbose = 0, .shuffle = false});
    ASSERT_TRUE(history.ok()) << history.status();
    const double first = *history->epochs.front().Get("loss"),
                 last = *history->epochs.back().Get("loss");
    std::printf("%s: loss %.3g, then %.3g\n", name, first, last);
    EXPECT_LT(last, 0.1 * first);
    EXPECT_GT(last, 0);
  }
}

}  // namespace
}  // namespace penstock::tests::models_test
