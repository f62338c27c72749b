// Tests of every option of `penstock predict`, each by a visible effect, and of its CSV files.
#include <cerrno>
#include <cmath>
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
#include "penstock/io/file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/system_call_faults.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::cli {
namespace predict_options_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;
using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;
using Arguments = std::vector<std::string>;

class PredictOptionsTest : public testing::CommandFixture {
 protected:
  void SetUp() override {
    MakeImages("images", 12);
    ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
    Train("m.safetensors", {});
  }
  void Train(const std::string& name, const Arguments& more) const {
    Arguments all{"train",    "--data", Path("shards/*.tfrec"), "--model", "mlp",
                  "--epochs", "8",      "--batch-size",         "8",       "--save",
                  Path(name)};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = Penstock(all);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  // Runs `predict` with these options, which override the defaults.
  CommandResult Run(const Arguments& options) const {
    Arguments all{"predict"};
    const auto given = [&](const char* option) {
      return std::find(options.begin(), options.end(), option) != options.end();
    };
    if (!given("--model")) all.insert(all.end(), {"--model", Path("m.safetensors")});
    if (!given("--images") && !given("--data")) {
      all.insert(all.end(), {"--images", Path("images/dark")});
    }
    all.insert(all.end(), options.begin(), options.end());
    return Penstock(all);
  }
  std::string Out(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  Json Rows(Arguments options) const {
    options.push_back("--json");
    return Json::parse(Out(options));
  }
  std::string Error(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_NE(result.code, 0) << result.out;
    return result.err;
  }
  // Lines of the CSV file that `predict` writes.
  std::vector<std::string> Csv(Arguments options) const {
    std::filesystem::remove(Path("s.csv"));
    options.insert(options.end(), {"--csv", Path("s.csv")});
    Out(options);
    std::vector<std::string> lines = absl::StrSplit(Bytes(Path("s.csv")), '\n');
    EXPECT_EQ(lines.back(), "");
    lines.pop_back();
    return lines;
  }
  void Corrupt(const std::string& file) const {
    std::ofstream(Path(file), std::ios::binary) << "no image";
  }

  // Returns for each option a function that tests its effect.
  std::map<std::string, std::function<void()>> Effects() {
    return {
        {"--model",
         [this] {
           Train("other.safetensors", {"--image-size", "5", "6", "--seed", "3"});
           const Arguments top{"--top", "2", "--count", "3"};
           const auto first_class = [&](Arguments models) {
             models.insert(models.begin(), "--model");
             models.insert(models.end(), top.begin(), top.end());
             std::vector<double> p;
             for (const Json& row : Rows(models)) {
               for (const Json& one : row["top"]) {
                 if (one["class"] == 0) p.push_back(one["probability"]);
               }
             }
             return p;
           };
           const auto a = first_class({Path("m.safetensors")});
           const auto b = first_class({Path("other.safetensors")});
           const auto mean = first_class({Path("m.safetensors"), Path("other.safetensors")});
           ASSERT_THAT(mean, SizeIs(3));
           EXPECT_NE(a, b);
           for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(mean[i], (a[i] + b[i]) / 2, 1e-6);
         }},
        {"--tta",
         [this] {
           EXPECT_NE(Rows({"--tta", "flip", "shift"}), Rows({}));
           EXPECT_THAT(Error({"--tta", "rotate"}), HasSubstr("flip and shift"));
         }},
        {"--images",
         [this] {
           EXPECT_THAT(Rows({"--images", Path("images"), "--count", "100"}), SizeIs(24));
           EXPECT_THAT(Rows({"--images", Path("images/*/1.png")}), SizeIs(2));
           EXPECT_THAT(Error({"--images", Path("nothing")}), HasSubstr("nothing"));
           std::filesystem::create_directory(Path("empty"));
           EXPECT_THAT(Error({"--images", Path("empty")}), HasSubstr("no images found"));
         }},
        {"--data",
         [this] {
           const Json rows = Rows({"--data", Path("shards/*.tfrec"), "--count", "3"});
           ASSERT_THAT(rows, SizeIs(3));
           EXPECT_TRUE(rows[0].contains("label"));
           EXPECT_FALSE(rows[0].contains("path"));
           std::ofstream(Path("none.tfrec")).close();
           EXPECT_THAT(Error({"--data", Path("none.tfrec")}), HasSubstr("no records found"));
           EXPECT_THAT(Error({"--data", "x", "--images", "y"}), HasSubstr("either"));
         }},
        {"--count",
         [this] {
           EXPECT_THAT(Rows({}), SizeIs(8));
           EXPECT_THAT(Rows({"--count", "9"}), SizeIs(9));
           EXPECT_THAT(Csv({}), SizeIs(13)) << "all images and the header";
           EXPECT_THAT(Csv({"--count", "2"}), SizeIs(3));
         }},
        {"--batch-size",
         [this] {
           EXPECT_EQ(Csv({"--batch-size", "5"}), Csv({}));
           EXPECT_EQ(Out({"--batch-size", "3"}), Out({}));
           EXPECT_THAT(Error({"--batch-size", "0"}), HasSubstr("--batch-size"));
         }},
        {"--top",
         [this] {
           EXPECT_THAT(Rows({"--top", "2"})[0]["top"], SizeIs(2));
         }},
        {"--csv",
         [this] {
           EXPECT_THAT(Csv({"--count", "2"}), ElementsAre("id,label", "0,dark", "1,dark"));
           EXPECT_THAT(Out({"--csv", Path("s.csv"), "--count", "2"}), HasSubstr("2 rows written"));
           const Json json = Json::parse(Out({"--csv", Path("s.csv"), "--json"}));
           EXPECT_EQ(json["rows"], 12);
           // Checked before the model is loaded.
           EXPECT_THAT(Error({"--csv", Path("images"), "--model", "none"}), HasSubstr("--csv"));
         }},
        {"--csv-values",
         [this] {
           EXPECT_THAT(Csv({"--csv-values", "class"})[1], "0,1");
           const auto rows = Csv({"--csv-values", "probabilities"});
           EXPECT_EQ(rows[0], "id,bright,dark");
           const std::vector<std::string> fields = absl::StrSplit(rows[1], ',');
           EXPECT_NEAR(std::stod(fields.at(1)) + std::stod(fields.at(2)), 1, 1e-6);
           EXPECT_THAT(Error({"--csv", Path("s.csv"), "--csv-values", "x"}),
                       HasSubstr("label, class, probabilities"));
           EXPECT_THAT(Error({"--csv-values", "class"}), HasSubstr("--csv"));
         }},
        {"--csv-id",
         [this] {
           EXPECT_EQ(Csv({"--csv-id", "file"})[1], "0.png,dark");
           EXPECT_EQ(Csv({"--csv-id", "path"})[1], Path("images/dark/0.png") + ",dark");
           EXPECT_THAT(Error({"--csv", Path("s.csv"), "--images", Path("images")}),
                       AllOf(HasSubstr("two images have the id '0'"), HasSubstr("--csv-id path")));
           EXPECT_THAT(
               Csv({"--data", Path("shards/*.tfrec"), "--count", "2"}),
               ElementsAre("id,label", ::testing::StartsWith("0,"), ::testing::StartsWith("1,")));
         }},
        {"--csv-header",
         [this] {
           EXPECT_EQ(Csv({"--csv-header", "image_id", "breed"})[0], "image_id,breed");
         }},
        {"--skip-corrupt",
         [this] {
           std::filesystem::copy(Path("images/dark"), Path("mixed"));
           Corrupt("mixed/3.png");
           EXPECT_THAT(Error({"--images", Path("mixed"), "--csv", Path("x.csv")}),
                       HasSubstr("mixed/3.png"));
           EXPECT_FALSE(std::filesystem::exists(Path("x.csv"))) << "whole or not at all";
           const CommandResult skipped =
               Run({"--images", Path("mixed"), "--csv", Path("x.csv"), "--skip-corrupt"});
           EXPECT_EQ(skipped.code, 0);
           EXPECT_THAT(skipped.err,
                       AllOf(HasSubstr("1 image was skipped"), HasSubstr("mixed/3.png")));
           EXPECT_THAT(Bytes(Path("x.csv")), AllOf(HasSubstr("2,dark"), Not(HasSubstr("3,dark"))));
           const Json json = Json::parse(Out(
               {"--images", Path("mixed"), "--csv", Path("x.csv"), "--skip-corrupt", "--json"}));
           EXPECT_EQ(json["skipped"]["count"], 1);
           for (int i = 0; i < 12; ++i) Corrupt(absl::StrCat("mixed/", i, ".png"));
           EXPECT_THAT(Error({"--images", Path("mixed"), "--skip-corrupt"}),
                       HasSubstr("none of the 8 images"));
         }},
        {"--show", [this] { EXPECT_GT(Out({"--show"}).size(), 2 * Out({}).size()); }},
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
         [this] {
           EXPECT_EQ(Csv({"--replicas", "2"}), Csv({}));
         }},
        {"--json", [this] { EXPECT_EQ(Rows({})[0]["name"], "dark"); }},
    };
  }
};

TEST_F(PredictOptionsTest, HaveTheirEffects) {
  const auto effects = Effects();
  const std::string help = Penstock({"predict", "--help"}).out;
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

// Names that need quotes in CSV, are not UTF-8, or look like patterns.
TEST_F(PredictOptionsTest, WritesHostileNamesToCsv) {
  std::filesystem::create_directory(Path("in [1]"));
  const std::string image = Bytes(Path("images/dark/0.png"));
  for (const char* name : {"a,b.png", "caf\xe9.png", "quo\"te.PNG", "two\nlines.png", "[x]*.png",
                           ".hidden.png", "notes.txt"}) {
    std::ofstream(folder_ / "in [1]" / name, std::ios::binary) << image;
  }
  Csv({"--images", Path("in [1]")});
  EXPECT_EQ(Bytes(Path("s.csv")),
            "id,label\n[x]*,dark\n\"a,b\",dark\ncaf\xe9,dark\n\"quo\"\"te\",dark\n"
            "\"two\nlines\",dark\n");
}

TEST_F(PredictOptionsTest, QuotesClassNames) {
  auto model = keras::Model::Load(Path("m.safetensors"), {.client = runtime::TestClient(1)});
  ASSERT_TRUE(model.ok()) << model.status();
  model->SetClassNames({"a,\"b\"", "<script>"});
  ASSERT_TRUE(model->Save(Path("m.safetensors")).ok());
  EXPECT_EQ(Csv({"--csv-values", "probabilities", "--count", "1"})[0],
            "id,\"a,\"\"b\"\"\",<script>");
}

// Shards as a Kaggle competition has them for testing: `id` and `image`, no `class`.
TEST_F(PredictOptionsTest, TakesIdsFromTheRecords) {
  auto fs = io::FileSystem::Default();
  auto writer = record::TfRecordWriter::Create(*fs, Path("test.tfrec"));
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const char* id : {"252d840db", "1c4736dea"}) {
    record::ExampleBuilder example;
    example.SetBytes("id", id);
    example.SetBytes("image", Bytes(Path("images/dark/0.png")));
    ASSERT_TRUE((*writer)->Append(example.Serialize()).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_THAT(Csv({"--data", Path("test.tfrec")}),
              ElementsAre("id,label", "252d840db,dark", "1c4736dea,dark"));
}

TEST_F(PredictOptionsTest, NamesTheImageWhoseScoresAreNotNumbers) {
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
  EXPECT_THAT(Error({"--model", Path("nan.safetensors"), "--csv", Path("x.csv")}),
              AllOf(HasSubstr("dark/0.png are not numbers"), HasSubstr("diverged")));
  EXPECT_FALSE(std::filesystem::exists(Path("x.csv")));
  // Without --csv the numbers are shown as they are.
  EXPECT_TRUE(Rows({"--model", Path("nan.safetensors")})[0]["probability"].is_null());
}

// The file is published at the end: an error there, or earlier, leaves the old one.
TEST_F(PredictOptionsTest, KeepsTheOldCsvFileAfterAnError) {
  std::ofstream(Path("s.csv")) << "old";
  const CommandResult failed = Penstock(
      {"predict", "--model", Path("m.safetensors"), "--images", Path("images/dark"), "--csv",
       Path("s.csv")},
      [] { io::ArmSystemCalls({.call = "rename", .error = EIO}); },
      [] { EXPECT_TRUE(io::DisarmSystemCalls().hit); });
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("s.csv"));
  EXPECT_EQ(Bytes(Path("s.csv")), "old");
}

// Images, shards and results in a bucket.
TEST_F(PredictOptionsTest, ReadsAndWritesObjectStores) {
  io::FileSystem& fs = *io::FileSystem::Default();
  for (auto* emulator : {&io::Emulator::Gcs, &io::Emulator::S3}) {
    const auto started = emulator();
    ASSERT_TRUE(started.ok()) << started.status();
    const auto bucket = (*started)->MakeBucket(fs);
    ASSERT_TRUE(bucket.ok()) << bucket.status();
    const auto at = [&](const char* name) { return io::JoinPath(*bucket, name); };
    for (const char* name : {"in/a.PNG", "in/below/b.png", "in/.hidden/c.png", "in/notes.txt"}) {
      ASSERT_TRUE(io::WriteFile(fs, at(name), Bytes(Path("images/dark/0.png"))).ok());
    }
    ASSERT_TRUE(io::WriteFile(fs, at("00-24.tfrec"), Bytes(Path("shards/00-24.tfrec"))).ok());
    const CommandResult predicted = Run({"--images", at("in"), "--csv", at("out/s.csv")});
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    EXPECT_THAT(predicted.out, Not(HasSubstr("endpoint_override"))) << "options may be secrets";
    EXPECT_EQ(*io::ReadFile(fs, at("out/s.csv")), "id,label\na,dark\nb,dark\n");
    const CommandResult evaluated =
        Penstock({"evaluate", "--model", Path("m.safetensors"), "--data", at("*.tfrec"),
                  "--confusion", at("page.html")});
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_THAT(*io::ReadFile(fs, at("page.html")), HasSubstr("24 images, accuracy 100.00 %"));
    EXPECT_THAT(Error({"--images", at("in"), "--csv",
                       io::JoinPath((*started)->BucketUri("missing"), "s.csv")}),
                HasSubstr("--csv"));
  }
}

}  // namespace predict_options_test
}  // namespace penstock::cli
