#include "penstock/diagnose/diagnosis.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::diagnose {
namespace diagnosis_test {

using ::testing::HasSubstr;

// A pipeline of local shards that decodes 4000 images/s and could read 50,000, on 4 cores.
Symptoms Healthy() {
  Symptoms s;
  s.data = "shards/*.tfrec";
  s.source = Symptoms::Source::kShards;
  s.files = 64;
  s.elements = 1e6;
  s.bytes_per_element = 36'000;
  s.stored = {331, 331};
  s.given = {331, 331};
  s.cores = 4;
  s.threads = 4;
  s.batch_size = 128;
  s.shuffle = 1000;
  s.parallel_files = 8;
  s.storage_rate = 100'000;
  s.first_byte_seconds = 1e-4;
  s.read_rate = 50'000;
  s.decode_rate = 4000;
  s.whole_rate = 4000;
  s.decode_core_seconds = 1e-3;
  s.fill_seconds = 0.02;
  s.wait_p50_seconds = 0.032;
  s.wait_p99_seconds = 0.04;
  s.peak_bytes = int64_t{1} << 30;
  s.available_bytes = int64_t{16} << 30;
  return s;
}

const Finding* Find(const std::vector<Finding>& findings, absl::string_view rule) {
  const auto at = std::find_if(findings.begin(), findings.end(),
                               [&](const Finding& f) { return f.rule == rule; });
  return at == findings.end() ? nullptr : &*at;
}

TEST(Diagnosis, AnAcceleratorThatIsSlowerThanTheDataIsTheLimit) {
  Symptoms s = Healthy();
  s.target = 2000;
  const auto findings = Diagnose(s);
  ASSERT_EQ(findings.size(), 1u) << findings[0].rule;
  EXPECT_STREQ(findings[0].rule, "consumer-bound");
  EXPECT_EQ(findings[0].cost, 0);
  EXPECT_THAT(findings[0].shows, HasSubstr("4,000 images/s; the accelerator takes 2,000"));
}

TEST(Diagnosis, DecodingNamesTheCoresThatTheTargetTakes) {
  Symptoms s = Healthy();
  s.target = 8000;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "decode-bound");
  // It takes 1/4000 of a second and may take 1/8000: half of the time is lost.
  EXPECT_NEAR(findings[0].cost, 0.5, 1e-9);
  EXPECT_THAT(findings[0].change, HasSubstr("for 8,000 images/s it takes 7.4 cores, of which there "
                                            "are 4"));
  EXPECT_THAT(findings[0].shows, HasSubstr("without it 50,000 images/s, with it 4,000 images/s"));
}

TEST(Diagnosis, WithoutATargetACostIsThePartOfThePipelinesTime) {
  const auto findings = Diagnose(Healthy());
  EXPECT_STREQ(findings[0].rule, "decode-bound");
  EXPECT_NEAR(findings[0].cost, (1.0 / 4000 - 1.0 / 50'000) * 4000, 1e-9);
  EXPECT_THAT(findings[0].change, HasSubstr("each core more gives 1,087 images/s more"));
}

TEST(Diagnosis, LargeFilesForSmallImagesAreToBeResized) {
  Symptoms s = Healthy();
  s.given = {192, 192};
  EXPECT_THAT(Diagnose(s)[0].change,
              HasSubstr("penstock reshard 'shards/*.tfrec' --out SMALL --size 192 192"));
}

TEST(Diagnosis, IdleCoresAreNamed) {
  Symptoms s = Healthy();
  s.threads = 2;
  EXPECT_THAT(Diagnose(s)[0].change, HasSubstr("use all 4 cores: --threads 0"));
}

TEST(Diagnosis, SmallFilesAreToBePacked) {
  Symptoms s = Healthy();
  s.data = "photos";
  s.source = Symptoms::Source::kFiles;
  s.files = 1'000'000;
  s.storage_rate = 450;
  s.read_rate = 400;
  s.decode_rate = s.whole_rate = 390;
  s.files_read_rate = 400;
  s.shard_read_rate = 40'000;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "files-too-small");
  EXPECT_NEAR(findings[0].cost, 0.99 * 390 / 400, 0.01);
  EXPECT_THAT(findings[0].shows, HasSubstr("100.0 times"));
  EXPECT_THAT(findings[0].change, HasSubstr("penstock pack 'photos' --out SHARDS"));
  EXPECT_EQ(Find(findings, "storage-throughput"), nullptr) << "it is the files, not the disk";
}

TEST(Diagnosis, SmallFilesFarAwayAreKnownByTheirLatency) {
  Symptoms s = Healthy();
  s.source = Symptoms::Source::kFiles;
  s.remote = true;
  s.parallel_files = 16;
  s.first_byte_seconds = 0.1;
  s.storage_rate = s.read_rate = s.decode_rate = s.whole_rate = 160;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "files-too-small");
  EXPECT_NEAR(findings[0].cost, 1, 1e-9);
}

TEST(Diagnosis, TwoShardsCannotBeReadByFourCores) {
  Symptoms s = Healthy();
  s.files = 2;
  s.target = 20'000;
  s.storage_rate = 10'000;
  s.read_rate = 5000;
  const auto findings = Diagnose(s);
  const Finding* few = Find(findings, "too-few-shards");
  ASSERT_NE(few, nullptr);
  EXPECT_NEAR(few->cost, 4000 * 0.5 / 5000, 1e-9);
  EXPECT_THAT(few->change, HasSubstr("--shards 16"));
  s.files = 64;
  EXPECT_EQ(Find(Diagnose(s), "too-few-shards"), nullptr);
}

TEST(Diagnosis, LateStorageAsksForLargerShards) {
  Symptoms s = Healthy();
  s.remote = true;
  s.files = 100'000;  // ten images in each
  s.first_byte_seconds = 0.2;
  s.storage_rate = 8 * 10 / 0.2;
  s.read_rate = s.decode_rate = s.whole_rate = 400;
  const auto findings = Diagnose(s);
  const Finding* late = Find(findings, "storage-latency");
  ASSERT_NE(late, nullptr);
  EXPECT_NEAR(late->cost, 1, 1e-9);
  EXPECT_THAT(late->change, HasSubstr("--shard-size 100MB"));
}

TEST(Diagnosis, ASlowDiskIsToldInMegabytes) {
  Symptoms s = Healthy();
  s.storage_is_cold = true;
  s.storage_rate = s.read_rate = s.decode_rate = s.whole_rate = 1000;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "storage-throughput");
  EXPECT_NEAR(findings[0].cost, 1, 1e-9);
  EXPECT_THAT(findings[0].shows, HasSubstr("36 MB/s when the files are not in memory"));
}

TEST(Diagnosis, ParsingIsApartFromReading) {
  Symptoms s = Healthy();
  s.read_rate = s.decode_rate = s.whole_rate = 5000;
  s.decode_rate = 0;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "parse-bound");
  EXPECT_NEAR(findings[0].cost, 0.95, 1e-9);
}

TEST(Diagnosis, ABufferThatFillsLongerThanAnEpochIsTheFirstFinding) {
  Symptoms s = Healthy();
  s.elements = 8000;  // two seconds an epoch
  s.shuffle = 8000;
  s.fill_seconds = 38;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "shuffle-fills");
  EXPECT_NEAR(findings[0].cost, 0.95, 1e-9);
  EXPECT_THAT(findings[0].change, HasSubstr("--global-shuffle"));
}

TEST(Diagnosis, WhatIsCopiedIsTold) {
  Symptoms s = Healthy();
  s.decodes_in_batch = false;
  s.whole_rate = 3000;
  const auto findings = Diagnose(s);
  ASSERT_NE(Find(findings, "copied"), nullptr);
  EXPECT_EQ(Find(findings, "after-decoding"), nullptr);
  s.decodes_in_batch = true;
  ASSERT_NE(Find(Diagnose(s), "after-decoding"), nullptr);
}

TEST(Diagnosis, MemoryComesFirstWhenItIsGone) {
  Symptoms s = Healthy();
  s.peak_bytes = s.available_bytes + 1;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "memory-bound");
  EXPECT_EQ(findings[0].cost, 1);
  EXPECT_THAT(findings[0].shows, HasSubstr("16 GiB of 16 GiB"));
}

TEST(Diagnosis, MemoryIsGoneWhereTheBudgetEnds) {
  Symptoms s = Healthy();
  s.budget_bytes = int64_t{4} << 30;
  s.budget_peak_bytes = int64_t{2} << 30;
  EXPECT_EQ(Find(Diagnose(s), "memory-bound"), nullptr);
  s.budget_peak_bytes = s.budget_bytes;
  const auto findings = Diagnose(s);
  ASSERT_NE(Find(findings, "memory-bound"), nullptr);
  EXPECT_THAT(Find(findings, "memory-bound")->shows,
              HasSubstr("4.0 GiB of the 4.0 GiB that it may hold to work ahead"));
}

TEST(Diagnosis, BatchesThatComeLateAskForMoreAhead) {
  Symptoms s = Healthy();
  s.target = 2560;  // a step takes 0.05 s
  s.wait_p99_seconds = 1;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "uneven-batches");
  EXPECT_THAT(findings[0].change, HasSubstr("--prefetch 21"));
}

TEST(Diagnosis, ACpuThatTrainsAndDecodesSharesItsCores) {
  Symptoms s = Healthy();
  s.device_shares_cores = true;
  s.device_rate = 1000;
  s.training_rate = 700;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "shared-cores");
  EXPECT_NEAR(findings[0].cost, 0.3, 1e-9);
  EXPECT_THAT(Verdict(s), HasSubstr("waits 30 % of the time for data: it could train on 1,000 "
                                    "images/s and trains on 700"));
}

TEST(Diagnosis, CostsFallFromOneFindingToTheNext) {
  Symptoms s = Healthy();
  s.target = 1e6;
  s.files = 1;
  s.storage_rate = 9000;
  s.read_rate = 6000;
  s.whole_rate = 3000;
  s.fill_seconds = 60;
  const auto findings = Diagnose(s);
  EXPECT_GT(findings.size(), 4u);
  for (size_t i = 1; i < findings.size(); ++i)
    EXPECT_GE(findings[i - 1].cost, findings[i].cost) << findings[i].rule;
}

TEST(Diagnosis, ARungThatWasDisturbedCostsNothing) {
  Symptoms s = Healthy();
  s.decode_rate = 1500;  // and the whole pipeline, which decodes as well, 4000
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "decode-bound");
  EXPECT_THAT(findings[0].shows, HasSubstr("with it 4,000 images/s"));
  s.read_rate = s.storage_rate = 1000;
  EXPECT_STREQ(Diagnose(s)[0].rule, "storage-throughput");
}

TEST(Diagnosis, NothingMeasuredIsNothingFound) {
  const auto findings = Diagnose(Symptoms());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_STREQ(findings[0].rule, "consumer-bound");
}

TEST(Diagnosis, TheVerdictComparesWithTheTarget) {
  Symptoms s = Healthy();
  s.target = 16'000;
  EXPECT_THAT(Verdict(s), HasSubstr("waits 75 % of the time"));
  s.target = 1000;
  EXPECT_THAT(Verdict(s), HasSubstr("enough"));
}

}  // namespace diagnosis_test
}  // namespace penstock::diagnose
