#include "penstock/pack/shard_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"

namespace penstock::pack {
namespace shard_plan_test {

using ::testing::HasSubstr;

class ShardPlanTest : public ::testing::Test {
 protected:
  ShardPlan Plan() {
    return {.job = {{"images", "7 (00ff)"}, {"--seed", "5"}},
            .shards = {{.shard = {.file = "00-2.tfrec", .records = 2, .bytes = 4}, .end = 3},
                       {.shard = {.file = "01-3.tfrec", .records = 3, .bytes = 5}, .end = 7}},
            .unreadable = {{.position = 1, .name = "a\xff.jpg", .why = "not \"an\" image"},
                           {.position = 5, .name = "b.jpg", .why = "cut off"}},
            .finished = true};
  }
  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

TEST_F(ShardPlanTest, RoundTrips) {
  EXPECT_FALSE(ReadShardPlan(*fs_, "memory://out")->has_value());
  ASSERT_TRUE(WriteShardPlan(*fs_, "memory://out", Plan()).ok());
  const auto read = ReadShardPlan(*fs_, "memory://out");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->job, Plan().job);
  ASSERT_EQ((*read)->shards.size(), 2u);
  EXPECT_EQ((*read)->shards[1].shard, Plan().shards[1].shard);
  EXPECT_EQ((*read)->next(), 7);
  EXPECT_EQ((*read)->records(), 5);
  ASSERT_EQ((*read)->unreadable.size(), 2u);
  EXPECT_EQ((*read)->unreadable[0].why, "not \"an\" image");
  EXPECT_TRUE((*read)->finished);
}

TEST_F(ShardPlanTest, ResumesBeforeFirstMissingOrTruncatedShard) {
  ASSERT_TRUE(io::WriteFile(*fs_, "memory://out/00-2.tfrec", "1234").ok());
  ASSERT_TRUE(io::WriteFile(*fs_, "memory://out/01-3.tfrec", "12345").ok());
  ShardPlan plan = Plan();
  EXPECT_EQ(*KeepIntactShards(*fs_, "memory://out", plan), "");
  EXPECT_TRUE(plan.finished);

  ASSERT_TRUE(io::WriteFile(*fs_, "memory://out/01-3.tfrec", "1234").ok());
  EXPECT_EQ(*KeepIntactShards(*fs_, "memory://out", plan), "01-3.tfrec");
  EXPECT_FALSE(plan.finished);
  EXPECT_EQ(plan.next(), 3);
  ASSERT_EQ(plan.unreadable.size(), 1u) << "later ones will be found again";
  EXPECT_EQ(plan.unreadable[0].position, 1);
}

TEST_F(ShardPlanTest, RejectsShardsOfDifferentSize) {
  const std::vector<std::string> shards = {"memory://out/00-2.tfrec", "memory://out/01-3.tfrec"};
  ASSERT_TRUE(WriteShardPlan(*fs_, "memory://out", Plan()).ok());
  ASSERT_TRUE(io::WriteFile(*fs_, shards[0], "1234").ok());
  ASSERT_TRUE(io::WriteFile(*fs_, shards[1], "12345").ok());
  ASSERT_TRUE(io::WriteFile(*fs_, "memory://out/02-9.tfrec", "another data set").ok());
  EXPECT_TRUE(CheckShardsComplete(*fs_, shards).ok());
  EXPECT_TRUE(CheckShardsComplete(*fs_, {"memory://out/02-9.tfrec"}).ok());

  ASSERT_TRUE(io::WriteFile(*fs_, shards[1], "1234").ok());
  const absl::Status cut = CheckShardsComplete(*fs_, shards);
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()),
              HasSubstr("memory://out/01-3.tfrec has 4 bytes, but was written with 5"));
  EXPECT_TRUE(CheckShardsComplete(*fs_, {shards[0]}).ok()) << "only the shards that are read count";
  ASSERT_TRUE(fs_->Remove("memory://out/pack-plan.json").ok());
  EXPECT_TRUE(CheckShardsComplete(*fs_, shards).ok());
}

TEST_F(ShardPlanTest, NamesCorruptPlanInError) {
  for (const char* text :
       {"", "{}", "[1", "{\"penstock_plan\": 2}", "{\"penstock_plan\": 1, \"job\": {\"a\": 3}}",
        R"({"penstock_plan": 1, "job": {}, "shards": [{"file": "../x", "records": 1, "bytes": 1,
            "end": 1}], "unreadable": [], "finished": true})"}) {
    ASSERT_TRUE(io::WriteFile(*fs_, "memory://out/pack-plan.json", text).ok());
    const auto plan = ReadShardPlan(*fs_, "memory://out");
    EXPECT_TRUE(absl::IsDataLoss(plan.status())) << text;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("memory://out/pack-plan.json"));
  }
}

TEST(JobDifference, DescribesDifferences) {
  const Job job{{"images", "7"}, {"--seed", "5"}};
  EXPECT_EQ(JobDifference(job, job), "");
  EXPECT_EQ(JobDifference(job, {{"images", "7"}, {"--seed", "6"}}), "seed was 5 and is now 6");
  EXPECT_EQ(JobDifference(job, {{"images", "8"}, {"--shard-size", "3"}}),
            "images was 7 and is now 8; shard size is new (3); seed was 5 and is no longer set");
}

TEST(Fingerprint, DependsOnOrderAndBoundaries) {
  const auto of = [](std::initializer_list<const char*> parts) {
    Fingerprint f;
    for (const char* part : parts) f.Add(absl::string_view(part));
    return f.ToString();
  };
  EXPECT_EQ(of({"ab", "c"}), of({"ab", "c"}));
  EXPECT_NE(of({"ab", "c"}), of({"a", "bc"}));
  EXPECT_NE(of({"ab", "c"}), of({"c", "ab"}));
  EXPECT_EQ(of({"x"}).size(), 16u);
}

}  // namespace shard_plan_test
}  // namespace penstock::pack
