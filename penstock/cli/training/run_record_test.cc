#include "penstock/cli/training/run_record.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"

namespace penstock::cli {
namespace run_record_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunRecord, LeavesOutKeysOfStores) {
  const std::string record = RunRecord(
      {{{.name = "--csv-log"}, {"s3://AKIA:SECRET@bucket/log.csv"}}, {{.name = "--seed"}, {"5"}}});
  EXPECT_THAT(record, AllOf(HasSubstr("bucket/log.csv"), Not(HasSubstr("SECRET"))));
}

TEST(RunRecord, KeepsEarlierRecords) {
  const auto fs = io::MakeMemoryFileSystem();
  EXPECT_EQ(*SaveRunRecord(*fs, "memory://bucket/run", "a"), "memory://bucket/run/options.json");
  EXPECT_EQ(*SaveRunRecord(*fs, "memory://bucket/run", "b"), "memory://bucket/run/options-2.json");
  EXPECT_EQ(*SaveRunRecord(*fs, "memory://bucket/run", "a"), "memory://bucket/run/options.json");
}

}  // namespace run_record_test
}  // namespace penstock::cli
