// Tests of every option of `penstock train`, each by a visible effect.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::cli {
namespace train_options_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;
using Arguments = std::vector<std::string>;

class TrainOptionsTest : public testing::CommandFixture {
 protected:
  void SetUp() override {
    MakeImages("images", 12);
    ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  }

  // Runs a short training with these options, which override the defaults.
  CommandResult Run(const Arguments& options) const {
    Arguments all{"train", "--data", Path("shards/*.tfrec"), "--json"};
    const auto add = [&](const std::string& option, const std::string& value) {
      if (std::find(options.begin(), options.end(), option) == options.end()) {
        all.insert(all.end(), {option, value});
      }
    };
    add("--model", "mlp"), add("--epochs", "2"), add("--batch-size", "8");
    all.insert(all.end(), options.begin(), options.end());
    return Penstock(all);
  }
  // Returns the history that a training prints.
  Json History(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? Json::parse(result.out)["epochs"] : Json();
  }
  std::string Error(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_NE(result.code, 0) << result.out;
    return result.err;
  }
  keras::Model Saved(Arguments options) const {
    options.insert(options.end(), {"--save", Path("saved.safetensors")});
    const CommandResult result = Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    auto model = keras::Model::Load(Path("saved.safetensors"), {.client = runtime::TestClient(1)});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  size_t FilesIn(const std::string& folder) const {
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(folder))) {
      files += entry.is_regular_file() ? 1 : 0;
    }
    return files;
  }

  // Returns for each option a function that tests its effect.
  std::map<std::string, std::function<void()>> Effects() {
    const Json base = History({});
    const auto differs = [this, base](const std::string& option, const std::string& value) {
      return [this, base, option, value] { EXPECT_NE(History({option, value}), base) << option; };
    };
    return {
        {"--data",
         [this] {
           EXPECT_THAT(Error({"--data", Path("no/*.tfrec")}), HasSubstr("no/*.tfrec"));
         }},
        {"--batch-size", differs("--batch-size", "3")},
        {"--device",
         [this, base] {
           EXPECT_EQ(History({"--device", "cpu"}), base);
           EXPECT_THAT(Error({"--device", "abacus"}), HasSubstr("abacus"));
         }},
        {"--cpu-devices",
         [this] {
           EXPECT_THAT(Error({"--cpu-devices", "1", "--replicas", "2"}),
                       HasSubstr("--replicas 2 needs as many devices, but --cpu-devices is 1"));
         }},
        {"--replicas",
         [this, base] {
           const Json two = History({"--replicas", "2"});
           EXPECT_NEAR(two[1]["loss"].get<double>(), base[1]["loss"].get<double>(), 1e-3);
         }},
        {"--model",
         [this] {
           EXPECT_THAT(Error({"--model", "abacus"}), AllOf(HasSubstr("abacus"), HasSubstr("mlp")));
           EXPECT_EQ(Saved({}).network().name(), "mlp");
           // A network that preprocesses images itself gets the pixels from 0 to 255.
           const nn::Network inside =
               Saved({"--model", "mobilenet_v3_small", "--image-size", "32", "32", "--epochs", "1"})
                   .network();
           std::vector<double> scales;
           for (const auto& use : inside.uses()) {
             if (!use.layer.valid() || use.layer.class_name() != "Rescaling") continue;
             scales.push_back(nn::LayerConfig(use.layer)["scale"].get<double>());
           }
           EXPECT_THAT(scales, ElementsAre(1, 1 / 127.5));
         }},
        {"--classes",
         [this] {
           const keras::Model model = Saved({"--classes", "5"});
           EXPECT_EQ(model.network().outputs()[0].type.shape.dim(-1), 5);
           EXPECT_TRUE(model.class_names().empty()) << "the shards have names for two classes only";
         }},
        {"--image-size",
         [this] {
           EXPECT_EQ(Saved({"--image-size", "4", "6"}).network().inputs()[0].type.shape,
                     base::Shape({-1, 4, 6, 1}));
         }},
        {"--validation",
         [this] {
           EXPECT_TRUE(History({"--validation", Path("shards/*.tfrec")})[0].contains("val_loss"));
         }},
        {"--epochs",
         [this] {
           EXPECT_EQ(History({"--epochs", "3"}).size(), 3u);
         }},
        {"--learning-rate", differs("--learning-rate", "0.5")},
        {"--steps", differs("--steps", "1000")},
        {"--steps-per-execution",
         [this, base] {
           EXPECT_EQ(History({"--steps-per-execution", "3"}), base);
           EXPECT_THAT(Error({"--steps-per-execution", "0"}), HasSubstr("auto"));
         }},
        {"--policy",
         [this] {
           EXPECT_EQ(Saved({"--policy", "mixed_bfloat16"}).network().policy().name,
                     "mixed_bfloat16");
         }},
        {"--matmul-precision",
         [this, base] {
           EXPECT_EQ(History({"--matmul-precision", "highest"}), base) << "CPUs have one precision";
           EXPECT_THAT(Error({"--matmul-precision", "lowest"}), HasSubstr("lowest"));
         }},
        {"--shift",
         [this] {
           EXPECT_THAT(Saved({"--model", "resnet8", "--shift", "0.25"}).network().ToJson().dump(),
                       HasSubstr("RandomTranslation"));
         }},
        {"--shuffle", differs("--shuffle", "0")},
        {"--seed", differs("--seed", "5")},
        {"--save", [this] { EXPECT_THAT(Saved({}).class_names(), ElementsAre("bright", "dark")); }},
        {"--checkpoints",
         [this] {
           const Json first = History({"--checkpoints", Path("run")});
           EXPECT_EQ(
               History({"--checkpoints", Path("run"), "--epochs", "3", "--steps", "6"}).size(), 3u);
           EXPECT_EQ(first.size(), 2u);
         }},
        {"--checkpoint-every",
         [this] {
           const auto saved = [this](const char* run, const char* every) {
             History({"--checkpoints", Path(run), "--checkpoint-every", every});
             return Penstock({"inspect", Path(run)}).out;
           };
           // An epoch has 3 steps; the newest 3 checkpoints are kept.
           EXPECT_THAT(saved("by_steps", "2"),
                       AllOf(HasSubstr("step 3:"), HasSubstr("step 4:"), HasSubstr("step 6:")));
           EXPECT_THAT(saved("by_time", "1h30m"), ::testing::Not(HasSubstr("step 4:")));
           for (const char* wrong : {"0", "-1", "soon", "-5m", "0s"}) {
             EXPECT_THAT(Error({"--checkpoints", Path("run"), "--checkpoint-every", wrong}),
                         HasSubstr("--checkpoint-every is a number of steps (500) or a time"));
           }
         }},
        {"--csv-log",
         [this] {
           History({"--csv-log", Path("log.csv")});
           const std::vector<std::string> lines = absl::StrSplit(Bytes(Path("log.csv")), '\n');
           EXPECT_EQ(lines.size(), 4u);  // header, two epochs, empty rest
           EXPECT_THAT(lines[0], HasSubstr("loss"));
         }},
        {"--tensorboard",
         [this] {
           History({"--tensorboard", Path("board")});
           EXPECT_GT(FilesIn("board"), 0u);
         }},
        {"--dump-hlo",
         [this] {
           History({"--dump-hlo", Path("hlo")});
           EXPECT_GT(FilesIn("hlo"), 0u);
         }},
        {"--profile",
         [this] {
           History({"--profile", Path("profile")});
           EXPECT_TRUE(std::filesystem::exists(Path("profile/summary.txt")));
         }},
        {"--profile-steps",
         [this] {
           History({"--profile", Path("steps"), "--profile-steps", "2-3"});
           EXPECT_TRUE(std::filesystem::exists(Path("steps/trace.json")));
           EXPECT_THAT(Error({"--profile-steps", "2-3"}), HasSubstr("--profile"));
         }},
        {"--json",
         [this] {
           const CommandResult plain =
               Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs",
                         "1", "--batch-size", "8"});
           EXPECT_EQ(plain.code, 0) << plain.err;
           EXPECT_EQ(plain.out.find("\"epochs\""), std::string::npos);
         }},
    };
  }
};

TEST_F(TrainOptionsTest, HaveTheirEffects) {
  const auto effects = Effects();
  const std::string help = Penstock({"train", "--help"}).out;
  const std::regex option("^  (?:-h,)?(--[a-z-]+)", std::regex::multiline);
  std::set<std::string> options, tested{"--help"};
  for (std::sregex_iterator i(help.begin(), help.end(), option), end; i != end; ++i) {
    options.insert((*i)[1]);
  }
  for (const auto& [name, effect] : effects) tested.insert(name);
  EXPECT_EQ(options, tested) << "add a test of the option here";
  for (const auto& [name, effect] : effects) {
    SCOPED_TRACE(name);
    effect();
  }
}

TEST_F(TrainOptionsTest, PredictPrintsClassNames) {
  ASSERT_EQ(Run({"--epochs", "8", "--save", Path("m.safetensors")}).code, 0);
  const Arguments predict{
      "predict", "--model", Path("m.safetensors"), "--images", Path("images/dark/*.png"),
      "--count", "2"};
  const auto with = [&](const Arguments& more) {
    Arguments all = predict;
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = Penstock(all);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(with({}), ::testing::MatchesRegex("dark \\([0-9]+ %\\) .*\ndark .*\n"));
  EXPECT_THAT(with({"--top", "5"}),
              ::testing::MatchesRegex("dark \\([0-9]+ %\\), bright \\([0-9]+ %\\) .*\n.*\n"));
  const Json rows = Json::parse(with({"--top", "2", "--json"}));
  EXPECT_EQ(rows[0]["name"], "dark");
  EXPECT_EQ(rows[0]["class"], 1);
  ASSERT_EQ(rows[0]["top"].size(), 2u);
  EXPECT_EQ(rows[0]["top"][0]["probability"], rows[0]["probability"]);
  EXPECT_NEAR(rows[0]["top"][0]["probability"].get<double>() +
                  rows[0]["top"][1]["probability"].get<double>(),
              1, 1e-9);
  const CommandResult shards = Penstock({"predict", "--model", Path("m.safetensors"), "--data",
                                         Path("shards/*.tfrec"), "--count", "3"});
  EXPECT_THAT(shards.out, HasSubstr(" right"));
  // A model without class names prints numbers.
  ASSERT_EQ(Run({"--classes", "3", "--epochs", "8", "--save", Path("m.safetensors")}).code, 0);
  EXPECT_THAT(with({}), HasSubstr("1 ("));
}

}  // namespace train_options_test
}  // namespace penstock::cli
