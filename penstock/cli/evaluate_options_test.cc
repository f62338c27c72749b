// Tests of every option of `penstock evaluate`, each by a visible effect.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::cli {
namespace evaluate_options_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;
using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;
using Arguments = std::vector<std::string>;

class EvaluateOptionsTest : public testing::CommandFixture {
 protected:
  // A model that separates the two classes, and shards in which one bright image is labeled dark.
  void SetUp() override {
    MakeImages("images", 12);
    ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
    Train("m.safetensors", {});
    std::filesystem::copy(Path("images"), Path("wrong"), std::filesystem::copy_options::recursive);
    std::filesystem::rename(Path("wrong/bright/3.png"), Path("wrong/dark/x.png"));
    ASSERT_EQ(Penstock({"pack", Path("wrong"), "--out", Path("test")}).code, 0);
  }
  void Train(const std::string& name, const Arguments& more) const {
    Arguments all{"train",    "--data", Path("shards/*.tfrec"), "--model", "mlp",
                  "--epochs", "8",      "--batch-size",         "8",       "--save",
                  Path(name)};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = Penstock(all);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  CommandResult Run(const Arguments& options) const {
    Arguments all{"evaluate"};
    const auto given = [&](const char* option) {
      return std::find(options.begin(), options.end(), option) != options.end();
    };
    if (!given("--model")) all.insert(all.end(), {"--model", Path("m.safetensors")});
    if (!given("--data")) all.insert(all.end(), {"--data", Path("test/*.tfrec")});
    all.insert(all.end(), options.begin(), options.end());
    return Penstock(all);
  }
  Json Result(Arguments options) const {
    options.push_back("--json");
    const CommandResult result = Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? Json::parse(result.out) : Json();
  }
  std::string Error(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_NE(result.code, 0) << result.out;
    return result.err;
  }

  // Returns for each option a function that tests its effect.
  std::map<std::string, std::function<void()>> Effects() {
    const Arguments confusion{"--confusion", Path("c.html")};
    return {
        {"--model",
         [this] {
           Train("other.safetensors", {"--image-size", "5", "6", "--seed", "3"});
           const Json json = Result({"--model", Path("m.safetensors"), Path("other.safetensors")});
           EXPECT_EQ(json["accuracy"], 23 / 24.0);
           EXPECT_TRUE(json.contains("log_loss"));
         }},
        {"--tta",
         [this, confusion] {
           const Json flipped = Result({"--tta", "flip"});
           EXPECT_EQ(flipped["accuracy"], 23 / 24.0);
           EXPECT_NE(flipped["log_loss"], Result(confusion)["log_loss"]);
           EXPECT_THAT(Error({"--tta", "rotate"}), HasSubstr("flip and shift"));
         }},
        {"--data",
         [this, confusion] {
           EXPECT_EQ(Result({"--data", Path("shards/*.tfrec")})["accuracy"], 1);
           EXPECT_THAT(Error({"--data", Path("no/*.tfrec")}), HasSubstr("no/*.tfrec"));
           std::ofstream(Path("none.tfrec")).close();
           Arguments empty = confusion;
           empty.insert(empty.end(), {"--data", Path("none.tfrec")});
           EXPECT_THAT(Error(empty), HasSubstr("no records found"));
           EXPECT_FALSE(std::filesystem::exists(Path("none.html")));
         }},
        {"--batch-size",
         [this, confusion] {
           Arguments small = confusion;
           small.insert(small.end(), {"--batch-size", "5"});
           EXPECT_EQ(Result(small)["confusion"], Result(confusion)["confusion"]);
           EXPECT_THAT(Error({"--batch-size", "0"}), HasSubstr("--batch-size"));
         }},
        {"--confusion",
         [this, confusion] {
           const Json json = Result(confusion);
           EXPECT_EQ(json["images"], 24);
           EXPECT_EQ(json["accuracy"], 23 / 24.0);
           ASSERT_THAT(json["classes"], SizeIs(2));
           EXPECT_EQ(json["classes"][0]["name"], "bright");
           EXPECT_EQ(json["classes"][0]["support"], 11);
           EXPECT_EQ(json["classes"][0]["precision"], 11 / 12.0);
           EXPECT_EQ(json["classes"][1]["recall"], 12 / 13.0);
           EXPECT_EQ(json["confusion"].dump(),
                     R"([{"images":11,"label":0,"predicted":0},{"images":1,"label":1,)"
                     R"("predicted":0},{"images":12,"label":1,"predicted":1}])");
           ASSERT_THAT(json["mistakes"], SizeIs(1));
           EXPECT_EQ(json["mistakes"][0]["predicted"], 0);
           EXPECT_GT(json["mistakes"][0]["probability"], 0.5);
           const std::string page = Bytes(Path("c.html"));
           EXPECT_THAT(page, AllOf(HasSubstr("dark, predicted as bright: 1 images"),
                                   HasSubstr("data:image/png;base64,"), HasSubstr("</html>")));
           const CommandResult text = Run(confusion);
           EXPECT_THAT(text.out, AllOf(HasSubstr("held-out accuracy: 95.8 %"),
                                       HasSubstr("1 images of dark predicted as bright"),
                                       HasSubstr("c.html")));
           // Checked before the model is loaded; existing files stay.
           std::ofstream(Path("kept.html")) << "kept";
           EXPECT_THAT(Error({"--confusion", Path("kept.html/x"), "--model", "none"}),
                       HasSubstr("--confusion"));
           EXPECT_EQ(Bytes(Path("kept.html")), "kept");
         }},
        {"--tensorboard",
         [this] {
           EXPECT_EQ(Result({"--tensorboard", Path("board")})["accuracy"], 23 / 24.0);
           EXPECT_EQ(Result({"--log-dir", Path("board")})["accuracy"], 23 / 24.0);
           std::string events;
           int files = 0;
           for (const auto& file : std::filesystem::directory_iterator(Path("board/validation"))) {
             events += Bytes(file.path().string());
             ++files;
           }
           EXPECT_EQ(files, 2);
           EXPECT_THAT(events, AllOf(HasSubstr("evaluation_log_loss"), HasSubstr("confusion/image"),
                                     HasSubstr("| dark | 1 | 12 |")));
           std::ofstream(Path("file")) << "kept";
           EXPECT_THAT(Error({"--tensorboard", Path("file/board"), "--model", "none"}),
                       HasSubstr("--tensorboard"));
         }},
        {"--device",
         [this] {
           EXPECT_THAT(Error({"--device", "abacus"}), HasSubstr("abacus"));
         }},
        {"--take-over",
         [this] {
           EXPECT_THAT(Error({"--device", "cpu", "--take-over"}),
                       HasSubstr("--take-over is for workers"));
         }},
        {"--cpu-devices",
         [this] {
           EXPECT_THAT(Error({"--cpu-devices", "1", "--replicas", "2"}), HasSubstr("--replicas 2"));
         }},
        {"--replicas",
         [this, confusion] {
           Arguments two = confusion;
           two.insert(two.end(), {"--replicas", "2"});
           EXPECT_EQ(Result(two)["confusion"], Result(confusion)["confusion"]);
         }},
        {"--json",
         [this] {
           EXPECT_EQ(Result({})["accuracy"], float{23} / 24);
           EXPECT_THAT(Run({}).out, HasSubstr("held-out accuracy: 95.8 %"));
         }},
    };
  }
};

TEST_F(EvaluateOptionsTest, HaveTheirEffects) {
  const auto effects = Effects();
  const std::string help = Penstock({"evaluate", "--help"}).out;
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

TEST_F(EvaluateOptionsTest, NamesTheRecordWhoseScoresAreNotNumbers) {
  auto model = keras::Model::Load(Path("m.safetensors"), {.client = runtime::TestClient(1)});
  ASSERT_TRUE(model.ok()) << model.status();
  const base::NamedArrays trained = *model->GetWeights();
  base::NamedArrays weights;
  for (const auto& [name, array] : trained) {
    base::Array copy = array.Clone();
    for (int64_t i = 0; i < copy.num_elements(); ++i) copy.mutable_data<float>()[i] = NAN;
    weights.Append(name, copy);
  }
  ASSERT_TRUE(model->SetWeights(weights).ok());
  ASSERT_TRUE(model->Save(Path("nan.safetensors")).ok());
  EXPECT_THAT(Error({"--model", Path("nan.safetensors"), "--confusion", Path("nan.html")}),
              HasSubstr("scores of record 0 are not numbers"));
  EXPECT_FALSE(std::filesystem::exists(Path("nan.html")));
}

// Shards with more classes than the model, and without classes.txt.
TEST_F(EvaluateOptionsTest, NamesALabelThatIsNoClassOfTheModel) {
  std::filesystem::copy(Path("images/dark"), Path("images/zebra"));
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("three")}).code, 0);
  std::filesystem::remove(Path("three/classes.txt"));
  EXPECT_THAT(Error({"--data", Path("three/*.tfrec"), "--confusion", Path("c.html")}),
              AllOf(HasSubstr("class 2 of record"), HasSubstr("which has 2")));
}

}  // namespace evaluate_options_test
}  // namespace penstock::cli
