// Tests of diagnose.h as a C++ program calls it. No expectation depends on the speed of the
// machine.
#include "penstock/diagnose/diagnose.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/pack/pack.h"

namespace penstock::diagnose {
namespace diagnose_test {

using ::testing::Contains;
using ::testing::HasSubstr;

class DiagnoseTest : public ::testing::Test {
 protected:
  DiagnoseTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                absl::StrCat("penstock-diagnose-", absl::Hex(base::EntropySeed()))) {}
  ~DiagnoseTest() override { std::filesystem::remove_all(folder_); }

  std::string Shards() const { return (folder_ / "shards").string(); }

  void MakeShards() const {
    const auto packed =
        pack::ImageArrays({.images = base::Array::Zeros(base::DType::kU8, {24, 16, 16, 3}),
                           .labels = base::Array::Zeros(base::DType::kI64, {24})},
                          {.out = Shards(), .shards = 3});
    ASSERT_TRUE(packed.ok()) << packed.status();
  }

  static DataBenchOptions Short() {
    return {.seconds = 0.05, .batches = 3, .threads = 1, .compare = false};
  }

  const std::filesystem::path folder_;
};

TEST_F(DiagnoseTest, DiagnosesPipelineAndReportsFindings) {
  MakeShards();
  std::vector<std::string> messages;
  DataBenchOptions options = Short();
  options.target = 1e9;  // faster than any machine decodes
  options.on_message = [&](absl::string_view line) { messages.emplace_back(line); };
  const auto found = DiagnosePipeline({.data = {Shards()}, .batch_size = 4}, options);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(messages, Contains("measuring storage ..."));
  EXPECT_THAT(messages, Contains("measuring decode ..."));
  EXPECT_EQ(found->measured.pipeline.rungs.size(), 3u);
  EXPECT_EQ(found->measured.pipeline.decoded, (image::Size{16, 16}));
  EXPECT_EQ(found->symptoms.target, 1e9);
  ASSERT_FALSE(found->findings.empty());
  EXPECT_GT(found->findings[0].cost, 0) << "the pipeline is slower than the target";
  const std::string text = PrintDiagnosis(*found);
  EXPECT_THAT(text, HasSubstr(Verdict(found->symptoms)));
  EXPECT_THAT(text, HasSubstr(found->findings[0].summary));
  const nlohmann::ordered_json json = DiagnosisJson(*found);
  EXPECT_EQ(json["findings"].size(), found->findings.size());
  EXPECT_EQ(json["findings"][0]["rule"], found->findings[0].rule);
}

TEST_F(DiagnoseTest, ResizesToRequestedSize) {
  MakeShards();
  const auto pipeline = MakePipeline(*io::FileSystem::Default(),
                                     {.data = {Shards()}, .batch_size = 4, .image_size = {8, 12}});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ(pipeline->stored, (image::Size{16, 16}));
  EXPECT_EQ(pipeline->decoded, (image::Size{8, 12}));
}

TEST_F(DiagnoseTest, RejectsInvalidInputs) {
  MakeShards();
  const auto code = [&](PipelineOptions pipeline) {
    return DiagnosePipeline(pipeline, Short()).status().code();
  };
  EXPECT_EQ(code({.data = {(folder_ / "none/*.tfrec").string()}}), absl::StatusCode::kNotFound);
  EXPECT_EQ(code({.data = {Shards()}, .batch_size = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.data = {Shards()}, .image_size = {-1, 5}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.data = {Shards()}, .columns = {"none"}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DiagnoseTraining({.dataset = data::Dataset::Range(0, 4)}, Short()).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "the model is null";
  // An unfinished conversion.
  auto packed = pack::ImageArrays({.images = base::Array::Zeros(base::DType::kU8, {4, 16, 16, 3}),
                                   .labels = base::Array::Zeros(base::DType::kI64, {4})},
                                  {.out = (folder_ / "half").string(), .shards = 2});
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::filesystem::path plan = folder_ / "half/pack-plan.json";
  auto text = io::ReadFile(*io::FileSystem::Default(), plan.string());
  ASSERT_TRUE(text.ok());
  nlohmann::json json = nlohmann::json::parse(*text);
  json["finished"] = false;
  ASSERT_TRUE(io::WriteFile(*io::FileSystem::Default(), plan.string(), json.dump()).ok());
  EXPECT_EQ(code({.data = {(folder_ / "half").string()}}), absl::StatusCode::kFailedPrecondition);
}

}  // namespace diagnose_test
}  // namespace penstock::diagnose
