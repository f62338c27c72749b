// Tests of the commands `penstock bench data` and `penstock doctor`. No expectation depends on the
// speed of the machine.
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/diagnose/data_files.h"
#include "penstock/diagnose/measure.h"
#include "penstock/diagnose/pipeline.h"
#include "penstock/diagnose/symptoms.h"
#include "penstock/formats/npy.h"

namespace penstock::cli {
namespace bench_test {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::Penstock;
using Json = nlohmann::json;

class BenchTest : public testing::CommandFixture {
 protected:
  static std::vector<std::string> Bounded(std::vector<std::string> command) {
    for (const char* word : {"--seconds", "0.2", "--batches", "4", "--threads", "2", "--json"})
      command.emplace_back(word);
    return command;
  }

  static Json BenchData(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "data"});
    const CommandResult result = Penstock(Bounded(std::move(arguments)));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? Json::parse(result.out) : Json();
  }

  static std::vector<std::string> Rungs(const Json& bench) {
    std::vector<std::string> names;
    for (const Json& rung : bench["ladder"]) names.push_back(rung["rung"]);
    return names;
  }

  void Pack() {
    MakeImages("images", 20);
    ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards"), "--shards", "2"}).code, 0);
  }
};

TEST_F(BenchTest, MeasuresEachRungOfShards) {
  Pack();
  const Json bench = BenchData({Path("shards"), "--batch", "8"});
  EXPECT_EQ(bench["format"], "shards");
  EXPECT_EQ(bench["files"], 2);
  EXPECT_EQ(bench["batch_size"], 8);
  EXPECT_EQ(bench["threads"], 2);
  EXPECT_THAT(Rungs(bench), ::testing::ElementsAre("storage, cold", "storage", "read and parse",
                                                   "and decode", "whole pipeline"));
  for (const Json& rung : bench["ladder"]) EXPECT_GT(rung["elements_per_second"], 0) << rung;
  EXPECT_EQ(bench["warm"]["batches"], 4);
  EXPECT_EQ(bench["warm"]["elements"], 32);
  EXPECT_GT(bench["warm"]["peak_rss"], 0);
  EXPECT_THAT(bench["plan"], HasSubstr("DecodeImage"));
  EXPECT_EQ(bench["files_and_shards"]["elements"], 40);
  EXPECT_GT(bench["files_and_shards"]["files"]["read_warm"], 0);
}

TEST_F(BenchTest, PacksFolderOfImagesForComparison) {
  MakeImages("images", 5);
  std::filesystem::create_directories(folder_ / "scratch");
  const Json bench = BenchData({Path("images"), "--shuffle", "0", "--batch", "4", "--size", "16",
                                "12", "--scratch", Path("scratch")});
  EXPECT_EQ(bench["format"], "images");
  EXPECT_EQ(bench["files"], 10);
  EXPECT_THAT(Rungs(bench), ::testing::ElementsAre("storage, cold", "storage", "read", "and decode",
                                                   "whole pipeline"));
  EXPECT_THAT(bench["plan"], HasSubstr("16x12"));
  EXPECT_EQ(bench["files_and_shards"]["elements"], 10);
  EXPECT_GT(bench["files_and_shards"]["shards"]["read_cold"], 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "scratch")) << "the sample was not removed";
}

TEST_F(BenchTest, FusesAugmentationWithDecoding) {
  Pack();
  const Json bench =
      BenchData({Path("shards"), "--augment", "--size", "6", "6", "--batch", "4", "--no-compare"});
  EXPECT_THAT(bench["plan"], HasSubstr("random crop"));
}

TEST_F(BenchTest, MeasuresArraysCsvAndText) {
  base::NamedArrays arrays;
  arrays.Set("x", base::Array::Zeros(base::DType::kU8, {64, 3}));
  ASSERT_TRUE(formats::WriteNpz(*io::FileSystem::Default(), Path("a.npz"), arrays).ok());
  std::ofstream(Path("b.csv")) << "x,y\n1,2\n3,4\n";
  std::ofstream(Path("c.txt")) << "one\ntwo\nthree\n";
  EXPECT_EQ(BenchData({Path("a.npz"), "--batch", "16"})["noun"], "rows");
  const Json csv = BenchData({Path("b.csv"), "--batch", "2"});
  EXPECT_THAT(Rungs(csv), ::testing::Contains("and parse"));
  EXPECT_EQ(csv["files_and_shards"], nullptr);
  EXPECT_EQ(BenchData({Path("c.txt"), "--batch", "2"})["noun"], "lines");
}

TEST_F(BenchTest, PrintsEveryRung) {
  Pack();
  const CommandResult result = Penstock({"bench", "data", Path("shards/*.tfrec"), "--batches", "3",
                                         "--seconds", "0.2", "--no-compare"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* word : {"first batch", "wait p99", "cold", "warm", "storage", "read and parse",
                           "and decode", "whole pipeline", "Shuffle", "not compared"})
    EXPECT_THAT(result.out, HasSubstr(word));
}

TEST_F(BenchTest, RequestsBatchesAtTargetRate) {
  Pack();
  const Json bench = BenchData({Path("shards"), "--batch", "4", "--target", "1000"});
  // Four batches of four elements at 1000 elements/s: one request every 4 ms.
  EXPECT_GE(bench["warm"]["seconds"].get<double>(), 0.012);
}

TEST_F(BenchTest, ReportsInvalidArguments) {
  const auto error = [](std::vector<std::string> arguments) {
    const CommandResult result = Penstock(std::move(arguments));
    EXPECT_EQ(result.code, 1) << result.out;
    return result.err;
  };
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_THAT(error({"bench", "data", Path("empty")}), HasSubstr("it is empty; expected *.tfrec"));
  EXPECT_THAT(error({"bench", "data", Path("gone")}), HasSubstr(Path("gone")));
  EXPECT_THAT(error({"bench", "data", Path("*.tfrec")}), HasSubstr("nothing matches"));
  EXPECT_THAT(error({"doctor", Path("gone")}), HasSubstr("penstock doctor: "));
  std::ofstream(Path("what")) << "is this?";
  EXPECT_THAT(error({"bench", "data", Path("what")}),
              HasSubstr("choose the format: shards, images"));
  std::ofstream(Path("x.csv")) << "a\n1\n";
  std::ofstream(Path("x.txt")) << "a\n";
  EXPECT_THAT(error({"bench", "data", Path("x.csv"), Path("x.txt")}), HasSubstr("mixed formats"));
  EXPECT_THAT(error({"bench", "data", Path("x.csv"), "--format", "parquet"}),
              HasSubstr("unknown format 'parquet'"));
  EXPECT_THAT(error({"bench", "data", folder_.string(), "--format", "parquet"}),
              HasSubstr("unknown format 'parquet'"));
  EXPECT_THAT(error({"bench", "data", Path("x.txt"), "--global-shuffle"}),
              HasSubstr("a global shuffle requires shards"));
  EXPECT_EQ(Penstock({"bench"}).code, 2);
  EXPECT_EQ(Penstock({"bench", "data"}).code, 2);
  EXPECT_EQ(Penstock({"doctor"}).code, 2);
  EXPECT_THAT(Penstock({"doctor", "--", "predict", "--model", "m"}).err,
              HasSubstr("'predict' is not a training; diagnose one with penstock doctor -- train"));
  EXPECT_THAT(Penstock({"doctor", "--", "penstock"}).err, HasSubstr("no training; diagnose one"));
}

TEST_F(BenchTest, SkipsUndecodableImagesOrNamesThem) {
  MakeImages("images", 4);
  std::ofstream(folder_ / "images/dark/zz.png") << "no image";
  const std::vector<std::string> command{"bench", "data", Path("images"), "--batch", "2"};
  const CommandResult rejected = Penstock(Bounded(command));
  EXPECT_EQ(rejected.code, 1);
  EXPECT_THAT(rejected.err, HasSubstr("zz.png"));
  EXPECT_THAT(rejected.err, HasSubstr("skip unreadable"));
  std::vector<std::string> skipping = command;
  skipping.emplace_back("--skip-unreadable");
  const CommandResult skipped = Penstock(Bounded(skipping));
  EXPECT_EQ(skipped.code, 0) << skipped.err;
}

TEST_F(BenchTest, ReadsSelectedColumns) {
  Pack();
  const Json all = BenchData({Path("shards"), "--columns", "class,size", "--batch", "4"});
  EXPECT_EQ(all["noun"], "records");
  EXPECT_THAT(Rungs(all), ::testing::Not(::testing::Contains("and decode")));
  const CommandResult wrong = Penstock({"bench", "data", Path("shards"), "--columns", "klass"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("no feature 'klass'; the records have: class int64[]"));
}

TEST_F(BenchTest, DiagnosesPipeline) {
  Pack();
  std::vector<std::string> command{"doctor", Path("shards"), "--batch", "8", "--target", "1e12"};
  const CommandResult result = Penstock(Bounded(command));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["required"], 1e12);
  EXPECT_THAT(json["verdict"], HasSubstr("an accelerator of that speed is idle 100 % of the time"));
  ASSERT_FALSE(json["findings"].empty());
  EXPECT_NE(json["findings"][0]["rule"], "consumer-bound");
  EXPECT_FALSE(json["findings"][0]["change"].get<std::string>().empty());
}

TEST_F(BenchTest, DiagnosesTrainingWithoutSaving) {
  Pack();
  std::vector<std::string> command = Bounded({"doctor"});
  for (const std::string& word :
       {std::string("--"), std::string("penstock"), std::string("train"), std::string("--data"),
        Path("shards/*.tfrec"), std::string("--model"), std::string("mlp"),
        std::string("--batch-size"), std::string("8"), std::string("--save"), Path("m.safetensors"),
        std::string("--checkpoints"), Path("run")})
    command.push_back(word);
  const CommandResult result = Penstock(command);
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_GT(json["training"], 0);
  EXPECT_GT(json["training_on_data_in_memory"], 0);
  EXPECT_EQ(json["measured"]["batch_size"], 8);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));

  for (const std::vector<std::string>& option :
       std::vector<std::vector<std::string>>{{"--batch-size", "4"},
                                             {"--shuffle", "7"},
                                             {"--image-size", "4", "4"},
                                             {"--image-feature", "x"}}) {
    std::vector<std::string> both = command;
    both.insert(both.begin() + 1, option.begin(), option.end());
    const CommandResult ignored = Penstock(both);
    EXPECT_EQ(ignored.code, 1) << option[0];
    EXPECT_THAT(ignored.err, HasSubstr("are those of the training"));
  }
  const CommandResult wrong = Penstock({"doctor", "--", "train", "--no-such-option"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("penstock train: "));
}

TEST_F(BenchTest, PrefersShardsToOtherFilesOfFolder) {
  Pack();
  const auto found = diagnose::FindDataFiles(*io::FileSystem::Default(), {Path("shards")}, "");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->format, diagnose::DataFormat::kShards);
  EXPECT_EQ(found->files.size(), 2u) << "no index, no classes.txt";
  const auto all =
      diagnose::FindDataFiles(*io::FileSystem::Default(), {Path("shards/*.tfrec*")}, "");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->files, found->files);
  EXPECT_EQ(all->bytes, found->bytes);
}

TEST_F(BenchTest, DetectsDecodingIntoBatch) {
  Pack();
  for (const bool skip : {false, true}) {
    diagnose::PipelineOptions options{
        .data = {Path("shards")}, .batch_size = 4, .skip_unreadable = skip};
    const auto pipeline = diagnose::MakePipeline(*io::FileSystem::Default(), options);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    diagnose::DataBench bench;
    bench.pipeline = *pipeline;
    for (const diagnose::Rung& rung : pipeline->rungs) {
      const auto measured = diagnose::Measure(rung.once, {.batches = 2});
      ASSERT_TRUE(measured.ok()) << measured.status();
      bench.rungs.push_back(*measured);
    }
    EXPECT_EQ(diagnose::SymptomsOf(bench, int64_t{1} << 40).decodes_in_batch, !skip);
  }
}

TEST(Measure, ComputesQuantiles) {
  std::vector<double> values;
  EXPECT_EQ(diagnose::Quantile(values, 0.5), 0);
  for (int i = 100; i > 0; --i) values.push_back(i);
  EXPECT_EQ(diagnose::Quantile(values, 0.5), 51);
  EXPECT_EQ(diagnose::Quantile(values, 0.99), 100);
  EXPECT_EQ(diagnose::Quantile(values, 1), 100);
}

TEST(Measure, FormatsNumbersWithUnits) {
  EXPECT_EQ(diagnose::PrintRate(1234567.4), "1,234,567");
  EXPECT_EQ(diagnose::PrintRate(999), "999");
  EXPECT_EQ(diagnose::PrintRate(8.527), "8.53");
  EXPECT_EQ(diagnose::PrintSeconds(35e-6), "35 us");
  EXPECT_EQ(diagnose::PrintSeconds(0.0214), "21.4 ms");
  EXPECT_EQ(diagnose::PrintSeconds(1260), "21 min");
}

}  // namespace bench_test
}  // namespace penstock::cli
