#include "penstock/diagnose/diagnosis.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/diagnose/symptoms.h"

namespace penstock::diagnose {
namespace diagnosis_test {

using ::testing::HasSubstr;

// Returns the symptoms of a pipeline of local shards on 4 cores that decodes 4000 images/s and
// reads 50,000 images/s.
Symptoms Healthy() {
  Symptoms s;
  s.data = "shards/*.tfrec";
  s.source = Symptoms::Source::kShards;
  s.files = 64;
  s.elements = 1e6;
  s.bytes_per_element = 36'000;
  s.stored = {331, 331};
  s.decoded = {331, 331};
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

TEST(Symptoms, ExtrapolateAShuffleBufferToOnePassAtMost) {
  DataBench bench;
  bench.pipeline.data = {.format = DataFormat::kImages, .files = {"a.jpg"}, .bytes = 3'000'000'000};
  bench.pipeline.bytes_per_element = 1e7;  // 300 elements
  bench.pipeline.shuffle = 200;
  bench.requested_shuffle = 10000;
  bench.rungs.resize(3);
  bench.rungs[1].first_batch_seconds = 1;
  bench.rungs[2].first_batch_seconds = 11;
  const Symptoms s = SymptomsOf(bench, int64_t{16} << 30);
  EXPECT_NEAR(s.fill_seconds, 15, 1e-9);
  EXPECT_EQ(s.peak_bytes, 1'000'000'000);
}

TEST(Diagnosis, ReportsConsumerBoundForSlowAccelerator) {
  Symptoms s = Healthy();
  s.target = 2000;
  const auto findings = Diagnose(s);
  ASSERT_EQ(findings.size(), 1u) << findings[0].rule;
  EXPECT_STREQ(findings[0].rule, "consumer-bound");
  EXPECT_EQ(findings[0].cost, 0);
  EXPECT_THAT(findings[0].evidence, HasSubstr("4,000 images/s; the accelerator consumes 2,000"));
}

TEST(Diagnosis, ReportsCoresThatDecodingRequires) {
  Symptoms s = Healthy();
  s.target = 8000;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "decode-bound");
  // An image takes 1/4000 s and may take 1/8000 s: half of the time is lost.
  EXPECT_NEAR(findings[0].cost, 0.5, 1e-9);
  EXPECT_THAT(findings[0].advice, HasSubstr("8,000 images/s requires 7.4 cores; there are 4"));
  EXPECT_THAT(findings[0].evidence,
              HasSubstr("without it 50,000 images/s, with it 4,000 images/s"));
}

TEST(Diagnosis, CountsCostAsPartOfPipelineTimeWithoutTarget) {
  const auto findings = Diagnose(Healthy());
  EXPECT_STREQ(findings[0].rule, "decode-bound");
  EXPECT_NEAR(findings[0].cost, (1.0 / 4000 - 1.0 / 50'000) * 4000, 1e-9);
  EXPECT_THAT(findings[0].advice, HasSubstr("each additional core adds 1,087 images/s"));
}

TEST(Diagnosis, AdvisesToResizeLargeImages) {
  Symptoms s = Healthy();
  s.decoded = {192, 192};
  EXPECT_THAT(Diagnose(s)[0].advice,
              HasSubstr("penstock reshard 'shards/*.tfrec' --out SMALL --size 192 192"));
}

TEST(Diagnosis, AdvisesToUseIdleCores) {
  Symptoms s = Healthy();
  s.threads = 2;
  EXPECT_THAT(Diagnose(s)[0].advice, HasSubstr("use all 4 cores: --threads 0"));
}

TEST(Diagnosis, AdvisesToPackSmallFiles) {
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
  EXPECT_THAT(findings[0].evidence, HasSubstr("100.0 times"));
  EXPECT_THAT(findings[0].advice, HasSubstr("penstock pack 'photos' --out SHARDS"));
  EXPECT_EQ(Find(findings, "storage-throughput"), nullptr)
      << "the files are the cause, not the disk";
}

TEST(Diagnosis, DetectsSmallRemoteFilesByLatency) {
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

TEST(Diagnosis, AdvisesMoreShardsThanCores) {
  Symptoms s = Healthy();
  s.files = 2;
  s.target = 20'000;
  s.storage_rate = 10'000;
  s.read_rate = 5000;
  const auto findings = Diagnose(s);
  const Finding* few = Find(findings, "too-few-shards");
  ASSERT_NE(few, nullptr);
  EXPECT_NEAR(few->cost, 4000 * 0.5 / 5000, 1e-9);
  EXPECT_THAT(few->advice, HasSubstr("--shards 16"));
  s.files = 64;
  EXPECT_EQ(Find(Diagnose(s), "too-few-shards"), nullptr);
}

TEST(Diagnosis, AdvisesLargerShardsForHighLatency) {
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
  EXPECT_THAT(late->advice, HasSubstr("--shard-size 100MB"));
}

TEST(Diagnosis, ReportsThroughputOfSlowDisk) {
  Symptoms s = Healthy();
  s.storage_is_cold = true;
  s.storage_rate = s.read_rate = s.decode_rate = s.whole_rate = 1000;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "storage-throughput");
  EXPECT_NEAR(findings[0].cost, 1, 1e-9);
  EXPECT_THAT(findings[0].evidence, HasSubstr("36 MB/s if the files are not in the page cache"));
}

TEST(Diagnosis, SeparatesParsingFromReading) {
  Symptoms s = Healthy();
  s.read_rate = s.decode_rate = s.whole_rate = 5000;
  s.decode_rate = 0;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "parse-bound");
  EXPECT_NEAR(findings[0].cost, 0.95, 1e-9);
}

TEST(Diagnosis, RanksSlowFillingOfShuffleBufferFirst) {
  Symptoms s = Healthy();
  s.elements = 8000;  // two seconds an epoch
  s.shuffle = 8000;
  s.fill_seconds = 38;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "shuffle-fills");
  EXPECT_NEAR(findings[0].cost, 0.95, 1e-9);
  EXPECT_THAT(findings[0].advice, HasSubstr("--global-shuffle"));
}

TEST(Diagnosis, ReportsCopiesIntoBatch) {
  Symptoms s = Healthy();
  s.decodes_in_batch = false;
  s.whole_rate = 3000;
  const auto findings = Diagnose(s);
  ASSERT_NE(Find(findings, "copied"), nullptr);
  EXPECT_EQ(Find(findings, "after-decoding"), nullptr);
  s.decodes_in_batch = true;
  ASSERT_NE(Find(Diagnose(s), "after-decoding"), nullptr);
}

TEST(Diagnosis, RanksExhaustedMemoryFirst) {
  Symptoms s = Healthy();
  s.peak_bytes = s.available_bytes + 1;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "memory-bound");
  EXPECT_EQ(findings[0].cost, 1);
  EXPECT_THAT(findings[0].evidence, HasSubstr("16 GiB of 16 GiB"));
}

TEST(Diagnosis, ReportsExhaustedMemoryBudget) {
  Symptoms s = Healthy();
  s.budget_bytes = int64_t{4} << 30;
  s.budget_peak_bytes = int64_t{2} << 30;
  EXPECT_EQ(Find(Diagnose(s), "memory-bound"), nullptr);
  s.budget_peak_bytes = s.budget_bytes;
  const auto findings = Diagnose(s);
  ASSERT_NE(Find(findings, "memory-bound"), nullptr);
  EXPECT_THAT(Find(findings, "memory-bound")->evidence,
              HasSubstr("4.0 GiB of its memory budget of 4.0 GiB"));
}

TEST(Diagnosis, AdvisesMorePrefetchForLateBatches) {
  Symptoms s = Healthy();
  s.target = 2560;  // a step takes 0.05 s
  s.wait_p99_seconds = 1;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "uneven-batches");
  EXPECT_THAT(findings[0].advice, HasSubstr("--prefetch 21"));
}

TEST(Diagnosis, ReportsSharedCores) {
  Symptoms s = Healthy();
  s.device_shares_cores = true;
  s.device_rate = 1000;
  s.training_rate = 700;
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "shared-cores");
  EXPECT_NEAR(findings[0].cost, 0.3, 1e-9);
  EXPECT_THAT(Verdict(s), HasSubstr("is idle 30 % of the time, waiting for data. It trains on 700 "
                                    "images/s, and could train on 1,000"));
}

TEST(Diagnosis, SortsFindingsByDecreasingCost) {
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

TEST(Diagnosis, CorrectsRatesThatNoiseMadeTooLow) {
  Symptoms s = Healthy();
  s.decode_rate = 1500;  // the whole pipeline, which includes decoding, has 4000
  const auto findings = Diagnose(s);
  EXPECT_STREQ(findings[0].rule, "decode-bound");
  EXPECT_THAT(findings[0].evidence, HasSubstr("with it 4,000 images/s"));
  s.read_rate = s.storage_rate = 1000;
  EXPECT_STREQ(Diagnose(s)[0].rule, "storage-throughput");
}

TEST(Diagnosis, FindsNothingWithoutMeasurements) {
  const auto findings = Diagnose(Symptoms());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_STREQ(findings[0].rule, "consumer-bound");
}

TEST(Diagnosis, ComparesWithTargetInVerdict) {
  Symptoms s = Healthy();
  s.target = 16'000;
  EXPECT_THAT(Verdict(s), HasSubstr("is idle 75 % of the time"));
  s.target = 1000;
  EXPECT_THAT(Verdict(s), HasSubstr("enough"));
}

}  // namespace diagnosis_test
}  // namespace penstock::diagnose
