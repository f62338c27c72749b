// Crafted model files: each is rejected with a clear error, before memory is allocated for its
// contents.
#include <cstdio>
#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/nn/json_depth.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace hostile_model_test {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr int64_t kHuge = int64_t{1} << 62;

class HostileModel : public ::testing::Test {
 protected:
  void SetUp() override {
    Model model = Sequential({Input({.shape = {8}}), Dense({.units = 2, .name = "l"})});
    ASSERT_TRUE(model.Compile({.optimizer = "sgd", .loss = "mse", .client = client_}).ok());
    ASSERT_TRUE(model.Save(file_).ok());
    auto weights = save::ReadWeights(*io::FileSystem::Default(), file_);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = *std::move(weights);
    good_ = Json::parse(weights_.metadata.at("penstock_model"));
  }
  void TearDown() override { std::remove(file_.c_str()); }

  // Error of loading the valid file with this description instead. Every error names the file, and
  // none is NOT_FOUND, because a caller that trains a new model on NOT_FOUND would overwrite the
  // file.
  std::string LoadError(const std::string& description) {
    save::Weights weights = weights_;
    weights.metadata["penstock_model"] = description;
    EXPECT_TRUE(save::WriteWeights(*io::FileSystem::Default(), file_, weights).ok());
    const absl::Status status = Model::Load(file_, {.client = client_}).status();
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(file_)) << description.substr(0, 2000);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    }
    return std::string(status.message());
  }
  // Likewise, with other layers after an input of this shape.
  std::string ErrorOfLayer(const std::string& class_name, const Json& config,
                           const Json& shape = {8}, const Json& inputs = {0}) {
    Json json = good_;
    json["network"]["layers"] = {
        {{"name", "x"},
         {"class_name", "InputLayer"},
         {"config", {{"shape", shape}, {"dtype", "float32"}}}},
        {{"name", "l"}, {"class_name", class_name}, {"config", config}, {"inputs", inputs}}};
    json["network"]["inputs"] = {0};
    json["network"]["outputs"] = {1};
    return LoadError(json.dump());
  }
  // Nests `middle` in repeated `before` and `after`.
  static std::string Nested(const std::string& before, const std::string& middle,
                            const std::string& after, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += before;
    text += middle;
    for (int i = 0; i < times; ++i) text += after;
    return text;
  }

  const std::shared_ptr<runtime::Client> client_ = runtime::TestClient(1);
  const std::string file_ =
      ::testing::TempDir() + "/hostile_" + std::to_string(base::EntropySeed()) + ".safetensors";
  save::Weights weights_;
  Json good_;
};

TEST_F(HostileModel, BaselineFileLoads) { EXPECT_EQ(LoadError(good_.dump()), ""); }

TEST_F(HostileModel, RejectsSizesThatOverflow) {
  EXPECT_THAT(ErrorOfLayer("Dense", {{"units", kHuge}}),
              HasSubstr("option 'units': 4611686018427387904 is too large"));
  // Each size alone is valid; this model does not come from a file.
  Model wide = Sequential({Input({.shape = {8}}), Dense({.units = kHuge, .name = "wide"})});
  EXPECT_THAT(std::string(wide.Compile({.loss = "mse", .client = client_}).message()),
              HasSubstr("which exceeds any memory"));
  EXPECT_NE(ErrorOfLayer("Reshape", {{"target_shape", {kHuge, kHuge}}}), "");
  EXPECT_NE(ErrorOfLayer("Reshape", {{"target_shape", {-1, 0}}}), "");
  EXPECT_NE(ErrorOfLayer("Dense", {{"units", 2}}, {kHuge, kHuge, 4}), "");
  EXPECT_NE(ErrorOfLayer("Dense", {{"units", 2}}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), "");
  EXPECT_NE(ErrorOfLayer("Dense", {{"units", 2}}, {-1, 3}), "");
  EXPECT_NE(ErrorOfLayer("Dense", {{"units", UINT64_MAX}}), "");
  EXPECT_NE(ErrorOfLayer("Embedding", {{"input_dim", kHuge}, {"output_dim", kHuge}}), "");
  EXPECT_NE(ErrorOfLayer("ZeroPadding1D", {{"padding", INT64_MAX}}, {8, 3}), "");
  EXPECT_NE(ErrorOfLayer("UpSampling1D", {{"size", kHuge}}, {8, 3}), "");
  EXPECT_NE(ErrorOfLayer("RepeatVector", {{"n", kHuge}}), "");
  EXPECT_NE(ErrorOfLayer("Conv1D", {{"filters", kHuge}, {"kernel_size", 3}}, {8, 3}), "");
  EXPECT_NE(ErrorOfLayer("Conv1D", {{"filters", 2}, {"kernel_size", kHuge}}, {8, 3}), "");
}

// The file describes gigabytes but contains a few bytes.
TEST_F(HostileModel, ComparesShapesWithTheTensorsBeforeInitializing) {
  EXPECT_THAT(
      ErrorOfLayer("Dense", {{"units", 1 << 30}}),
      HasSubstr("want a variable 'l/kernel', f32[8,1073741824]; the file has float32[8,2]"));
  EXPECT_THAT(ErrorOfLayer("BatchNormalization", Json::object()), HasSubstr("'l/gamma'"));
}

TEST_F(HostileModel, RejectsReferencesThatAreNotLayers) {
  for (const Json& inputs :
       {Json(int64_t{1} << 32), Json(0.5), Json(-1), Json(1), Json("0"), Json(nullptr),
        Json::array({0, int64_t{1} << 32}), Json::array({0}), Json::array({0, 0.5})}) {
    EXPECT_NE(ErrorOfLayer("Dense", {{"units", 2}}, {8}, Json::array({inputs})), "")
        << inputs.dump();
  }
  EXPECT_NE(ErrorOfLayer("Dense", {{"units", 2}}, {8}, Json::array()), "");
}

TEST_F(HostileModel, RejectsDeepNesting) {
  const auto replaced = [&](const char* key, const std::string& value) {
    Json json = good_;
    json[key] = "PLACE";
    std::string text = json.dump();
    const std::string place = "\"PLACE\"";
    return text.replace(text.find(place), place.size(), value);
  };
  for (const int depth : {300, 10'000, 100'000}) {
    SCOPED_TRACE(depth);
    const std::string lists = Nested("[", "", "]", depth);
    const std::string layers =
        R"({"name":"n","layers":[{"name":"x","class_name":"InputLayer","config":)"
        R"({"shape":[8],"dtype":"float32"}},{"name":"l","class_name":"TimeDistributed","config":)" +
        Nested(R"({"layer":{"class_name":"TimeDistributed","config":)", "{}", "}}", depth) +
        R"(,"inputs":[0]}],"inputs":[0],"outputs":[1]})";
    for (const std::string& text :
         {lists, replaced("targets", lists), replaced("network", lists),
          replaced("network", layers),
          replaced("optimizer",
                   R"({"class_name":"SGD","config":{"learning_rate":)" +
                       Nested(R"({"class_name":"WarmUp","config":{"then":)", "1", "}}", depth) +
                       "}}"),
          replaced("optimizer",
                   Nested(R"({"class_name":"LossScaleOptimizer","config":{"inner_optimizer":)", "1",
                          "}}", depth))}) {
      EXPECT_THAT(LoadError(text), HasSubstr("levels deep"));
    }
  }
}

TEST_F(HostileModel, RejectsUnknownNames) {
  EXPECT_THAT(ErrorOfLayer("Dens", {{"units", 2}}), HasSubstr("unknown layer class 'Dens'"));
  const auto changed = [&](const char* pointer, const Json& value) {
    Json json = good_;
    json[Json::json_pointer(pointer)] = value;
    return LoadError(json.dump());
  };
  EXPECT_THAT(changed("/optimizer/class_name", "sdg"), HasSubstr("unknown optimizer 'sdg'"));
  EXPECT_THAT(changed("/optimizer/config/learning_rate",
                      {{"class_name", "Warm"}, {"config", Json::object()}}),
              HasSubstr("unknown schedule 'Warm'"));
  EXPECT_THAT(changed("/targets/0/loss", {{"name", "msee"}, {"config", Json::object()}}),
              HasSubstr("unknown loss 'msee'"));
  EXPECT_THAT(
      changed("/targets/0/metrics", Json::array({{{"name", "acc0"}, {"config", Json::object()}}})),
      HasSubstr("unknown metric 'acc0'"));
}

TEST_F(HostileModel, RejectsOtherJson) {
  for (const char* text :
       {"", "{", "[]", "null", "1", "\"x\"", "{\"version\":\"1\"}", "{\"version\":4294967297}"}) {
    EXPECT_NE(LoadError(text), "") << text;
  }
  for (const char* key : {"network", "targets", "optimizer", "version"}) {
    for (const Json& value : {Json(), Json::array(), Json::object(), Json("x"), Json(-1)}) {
      Json json = good_;
      json[key] = value;
      EXPECT_NE(LoadError(json.dump()), "") << key << " " << value.dump();
    }
    Json json = good_;
    json.erase(key);
    EXPECT_NE(LoadError(json.dump()), "") << key;
  }
}

}  // namespace hostile_model_test
}  // namespace penstock::keras
