// The description of a model in its checkpoints: what belongs to it, and what older files contain.
#include "penstock/train/loop/model_fingerprint.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/optimizers.h"

namespace penstock::train {
namespace model_fingerprint_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

// A block of `layers` dense layers, as a layer.
Objective Of(nn::Remat remat, int layers = 2, double rate = 0) {
  const nn::Symbol in = nn::Input({.shape = {4}}), x = nn::Input({.shape = {4}});
  nn::Symbol y = nn::Dropout({.rate = rate})(in);
  for (int i = 0; i < layers; ++i) y = nn::Dense({.units = 4, .activation = "tanh"})(y);
  const nn::Layer block = nn::Nested(nn::Network({in}, {y}), {.name = "block", .remat = remat});
  const nn::Layer head = nn::Dense({.units = 2, .name = "head"});
  head.SetRemat(remat);
  return {.network = nn::Network({x}, {head(block(x))}),
          .targets = {{.loss = nn::MeanSquaredError()}},
          .optimizer = nn::SGD({.learning_rate = 0.1})};
}

std::string Error(const Json& saved, const Objective& objective) {
  return std::string(CheckFingerprint(saved, objective).message());
}

TEST(ModelFingerprint, LacksWhatMayDifferWhenATrainingResumes) {
  const Json plain = ModelFingerprint(Of(false));
  EXPECT_EQ(plain, ModelFingerprint(Of(true)));
  EXPECT_EQ(plain, ModelFingerprint(Of(nn::Remat::kActivations)));
  EXPECT_EQ(plain, ModelFingerprint(Of(false, 2, /*rate=*/0.5)));
  EXPECT_THAT(plain.dump(), Not(HasSubstr("remat")));
  EXPECT_THAT(Error(plain, Of(true, 3)),
              AllOf(HasSubstr("of another model"), HasSubstr("trained by SGD")));
}

// The last key of a layer's options in files of version 0.1.0 before rematerialization was left
// out.
std::string WithRemat(const std::string& line) {
  return absl::StrCat(line.substr(0, line.size() - 1), ",\"remat\":true}");
}

TEST(ModelFingerprint, FilesThatSayWhatIsRematerializedFit) {
  Json saved = ModelFingerprint(Of(false));
  std::string& head = saved["layers"].back().get_ref<std::string&>();
  ASSERT_EQ(head.substr(0, 5), "Dense");
  head = WithRemat(head);
  for (const nn::Remat remat : {nn::Remat(false), nn::Remat(true)}) {
    EXPECT_EQ(Error(saved, Of(remat)), "");
  }
  head = absl::StrReplaceAll(head, {{"\"units\":2", "\"units\":3"}});
  EXPECT_THAT(Error(saved, Of(true)), HasSubstr("\"units\":3"));
}

// Long lines are cut, and end in a hash of the whole line.
TEST(ModelFingerprint, CutLinesThatSayWhatIsRematerializedFit) {
  const Objective plain = Of(false, 12), remat = Of(true, 12);
  Json saved = ModelFingerprint(plain);
  size_t layer = 0;
  for (size_t i = 0; i < saved["layers"].size(); ++i) {
    if (!plain.network.uses()[i].layer.valid() || plain.network.uses()[i].name != "block") continue;
    layer = i;
  }
  const std::string cut = saved["layers"][layer];
  ASSERT_THAT(cut, HasSubstr("... #"));
  // FNV-1a of the line that an older version made of the layer's options.
  Json config = nn::LayerConfig(remat.network.uses()[layer].layer);
  const std::function<void(Json&)> strip = [&](Json& json) {
    for (const char* key :
         {"name", "trainable", "dtype", "seed", "rate", "kernel_initializer", "bias_initializer",
          "kernel_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint",
          "bias_constraint", "batch_shape", "build_config"}) {
      if (json.is_object()) json.erase(key);
    }
    for (Json& inner : json) {
      if (inner.is_structured()) strip(inner);
    }
  };
  strip(config);
  EXPECT_EQ(config["remat"], true);
  const std::string whole = absl::StrCat(cut.substr(0, cut.find(' ')), " ", config.dump());
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : whole) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  saved["layers"][layer] = absl::StrCat(whole.substr(0, 400), "... #", absl::Hex(hash));
  ASSERT_NE(saved["layers"][layer], cut) << "the hash is of another line";
  EXPECT_EQ(Error(saved, remat), "");
  EXPECT_EQ(Error(saved, plain), "");
  EXPECT_NE(Error(saved, Of(true, 11)), "");
}

}  // namespace model_fingerprint_test
}  // namespace penstock::train
