#include "penstock/data/sources/small_files.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::data {
namespace small_files_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string HintFor(double open_seconds, double read_seconds, int64_t bytes, int64_t files,
                    std::vector<std::string> patterns = {"gs://b/*.jpg"}) {
  StageCounters counters;
  SmallFilesHint small(std::move(patterns));
  for (int64_t i = 0; i < files; ++i) small.Count(open_seconds, read_seconds, bytes, counters);
  return counters.hint();
}

TEST(SmallFilesHint, EstimatesSpeedupOfShardsAndPrintsCommand) {
  // Latency only: a range read transfers 2^20 / 32768 = 32 times as many bytes in the same time.
  EXPECT_THAT(HintFor(0.05, 0, 32768, 100),
              AllOf(HasSubstr("about 33 kB is a request of 50 ms"), HasSubstr("up to 32 times"),
                    HasSubstr("penstock pack 'gs://b/*.jpg' --out FOLDER")));
  // Latency 20 ms and 10 ms per 32 KiB, so 320 ms per range: (1 MiB / 340 ms) / (32 KiB / 30 ms).
  EXPECT_THAT(HintFor(0.02, 0.01, 32768, 100), HasSubstr("up to 3 times"));
}

TEST(SmallFilesHint, HasNoHintIfShardsWouldNotBeFaster) {
  EXPECT_EQ(HintFor(0.05, 0, 1 << 20, 100), "");    // files as large as range reads
  EXPECT_EQ(HintFor(0.001, 0.05, 32768, 100), "");  // limited by throughput
  EXPECT_EQ(HintFor(0.05, 0, 32768, SmallFilesHint::kFiles - 1), "");  // too few files to judge
  EXPECT_EQ(HintFor(0, 0, 0, 100), "");
}

TEST(SmallFilesHint, AbbreviatesLongListsOfPatterns) {
  EXPECT_THAT(HintFor(0.05, 0, 1000, 32, {"gs://b/a", "gs://b/c"}),
              HasSubstr("pack 'gs://b/a' 'gs://b/c' --out"));
  EXPECT_THAT(HintFor(0.05, 0, 1000, 32, std::vector<std::string>(1000, "gs://b/a")),
              HasSubstr("pack 'gs://b/a' ... --out"));
}

}  // namespace small_files_test
}  // namespace penstock::data
