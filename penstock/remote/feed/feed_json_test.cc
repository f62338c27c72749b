// Hostile texts in place of those that a client and a worker send each other about feeds. The fuzz target beside it
// (feed_json_fuzz.cc) tries any text.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/data/cache/uploaded_rows.h"
#include "penstock/data/travel/report_json.h"
#include "penstock/remote/feed/batch_description.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {
namespace feed_json_test {

using ::testing::HasSubstr;

const char* const kHostile[] = {
    "",  "7",          "[]",       "null",
    "{", "{\"a\":1}}", "\xff\xfe", "[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]"};

TEST(FeedJson, RejectsWhatIsNoObject) {
  for (const char* text : kHostile) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(train::FeedRequestFromJson(text).ok());
    EXPECT_FALSE(BatchDescriptionFromJson(text).ok());
    EXPECT_FALSE(data::ReportFromJson(text).ok());
    EXPECT_FALSE(data::PartDescription::FromJson(text).ok());
  }
}

TEST(FeedJson, RejectsWrongRequests) {
  for (const char* text :
       {R"({"devices":[-1]})", R"({"devices":[1e9]})", R"({"devices":[9000000000000000000]})",
        R"({"devices":"0"})", R"({"batch_rows":-1})", R"({"batch_rows":1e300})",
        R"({"state":"seed=7"})", R"({"state":7})", R"({"seed":-1})", R"({"inputs":[1]})",
        R"({"class_weight":[1]})", R"({"class_weight":[{"class":"a"}]})", R"({"rows":[{}]})",
        R"({"new_field":1})"}) {
    const absl::Status status = train::FeedRequestFromJson(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the options of a feed: "));
  }
}

TEST(FeedJson, RejectsWrongBatches) {
  for (const char* text :
       {R"({"depth":0})", R"({"depth":-5})", R"({"depth":1e18})", R"({"batch_rows":-1})",
        R"({"inputs":[{"dtype":"f32","shape":[-1]}]})", R"({"inputs":[{"dtype":"none"}]})",
        R"({"inputs":[{"dtype":"f32","shape":[9000000000000000000,9000000000000000000]}]})",
        R"({"inputs":[{"dtype":"f32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]})",
        R"({"inputs":[{"dtype":"string","shape":[1]}]})", R"({"labels":7})"}) {
    EXPECT_FALSE(BatchDescriptionFromJson(text).ok()) << text;
  }
  // From a newer worker.
  EXPECT_TRUE(BatchDescriptionFromJson(R"({"depth":1,"new_field":1})").ok());
}

TEST(FeedJson, RejectsWrongReports) {
  for (const char* text : {R"({"stages":[{"inputs":[0]}]})", R"({"stages":[{"inputs":[-1]}]})",
                           R"({"stages":[{"inputs":[7]},{}]})", R"({"stages":[{"work":"magic"}]})",
                           R"({"stages":{}})", R"({"seconds":"long"})", R"({"decisions":[[]]})"}) {
    EXPECT_FALSE(data::ReportFromJson(text).ok()) << text;
  }
}

// Valid texts with bytes replaced, removed and repeated: an error, or what is written and read back the same.
TEST(FeedJson, DamagedTextsAreErrorsOrRoundTrip) {
  const uint64_t seed = base::EntropySeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  base::Random random(seed);
  const std::vector<std::string> texts = {
      train::FeedRequestToJson({.dataset = "",
                                .dataset_id = 3,
                                .seed = 7,
                                .state = data::IteratorState{.seed = 7, .elements = 2},
                                .class_weight = {{1, 2.5}},
                                .batch_rows = 8,
                                .devices = {0, 1},
                                .rows = {5}}),
      ToJson({.types = {.inputs = {{base::DType::kF32, {8, 4}}}, .depth = 4},
              .state = "s",
              .report = "{}",
              .batch_rows = 8}),
      data::ReportToJson({.stages = {{.stage = "Range(9)"}, {.stage = "Batch(4)", .inputs = {0}}},
                          .decisions = {"a"}})};
  const auto below = [&](size_t n) {
    return static_cast<size_t>(random.Uniform() * static_cast<double>(n));
  };
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = texts[below(texts.size())];
    for (size_t changes = below(3); changes > 0; --changes) {
      const size_t at = below(text.size());
      switch (below(3)) {
        case 0:
          text[at] = "0123456789-.e\"[]{},:\xff\\n"[below(23)];
          break;
        case 1:
          text.erase(at, 1 + below(4));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(12)));
      }
    }
    if (const auto request = train::FeedRequestFromJson(text); request.ok()) {
      ++read;
      const std::string written = train::FeedRequestToJson(*request);
      const auto again = train::FeedRequestFromJson(written);
      ASSERT_TRUE(again.ok()) << text << "\n" << again.status();
      EXPECT_EQ(train::FeedRequestToJson(*again), written);
    }
    if (const auto batch = BatchDescriptionFromJson(text); batch.ok()) {
      ++read;
      const std::string written = ToJson(*batch);
      const auto again = BatchDescriptionFromJson(written);
      ASSERT_TRUE(again.ok()) << text << "\n" << again.status();
      EXPECT_EQ(ToJson(*again), written);
    }
    if (const auto report = data::ReportFromJson(text); report.ok()) {
      ++read;
      const std::string written = data::ReportToJson(*report);
      const auto again = data::ReportFromJson(written);
      ASSERT_TRUE(again.ok()) << text << "\n" << again.status();
      EXPECT_EQ(data::ReportToJson(*again), written);
    }
  }
  EXPECT_GT(read, 300);
}

}  // namespace feed_json_test
}  // namespace penstock::remote
