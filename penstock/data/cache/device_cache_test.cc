#include "penstock/data/cache/device_cache.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/testing/conformance.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace device_cache_test {

using base::Array;
using ::testing::HasSubstr;

Dataset Numbers(int64_t rows) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(i);
  return Dataset::FromArrays({{"value", Array::Of<int64_t>({rows}, values)}});
}

Dataset RowNumbersOf(const Dataset& dataset, int64_t rows) {
  const auto split = SplitAtDeviceCache(dataset);
  EXPECT_TRUE(split.ok() && split->has_value()) << split.status();
  return *RowNumbers(**split, rows, {.file_system = io::FileSystem::Default()});
}

// A row's number is its value, so both datasets have the same elements, and their iterators the same states.
TEST(DeviceCacheData, RowNumbersComeAsTheRows) {
  const auto dataset = [](const Dataset& rows) {
    return rows.Shuffle(50).Repeat(2).Take(1500).Shard(2, 1).Batch(7).Skip(1).Prefetch(2);
  };
  const Dataset cached = dataset(Numbers(1000).Cache("device"));
  const Dataset numbers = RowNumbersOf(cached, 1000);
  EXPECT_EQ(numbers.ToString(), cached.ToString());
  EXPECT_EQ(*numbers.Cardinality(), *cached.Cardinality());
  const Dataset travelled = *DatasetFromJson(*DatasetToJson(numbers));
  EXPECT_EQ(travelled.ToString(), cached.ToString());
  for (const Dataset& other : {numbers, travelled}) {
    const auto want = *cached.MakeIterator({.seed = 5}), got = *other.MakeIterator({.seed = 5});
    for (base::NamedArrays a, b; *want->Next(&a);) {
      ASSERT_TRUE(*got->Next(&b));
      EXPECT_TRUE(BitwiseEqual(*a.Find("value"), *b.Find("value")));
      EXPECT_EQ(want->State().ToString(), got->State().ToString());
    }
    base::NamedArrays end;
    EXPECT_FALSE(*got->Next(&end));
  }
}

TEST(DeviceCacheData, TravelsAsAStage) {
  const Dataset dataset = Dataset::Range(0, 10).Cache("device").Batch(2);
  const Dataset read = *DatasetFromJson(*DatasetToJson(dataset));
  EXPECT_EQ(read.ToString(), dataset.ToString());
  EXPECT_TRUE((*SplitAtDeviceCache(read)).has_value());
  EXPECT_FALSE((*SplitAtDeviceCache(Dataset::Range(0, 10).Batch(2))).has_value());
}

TEST(DeviceCacheData, RejectsMoreRowsThanThereAreNumbers) {
  EXPECT_FALSE(
      DatasetFromJson(R"({"format": 1, "pipeline": [{"stage": "RowNumbers", "rows": -1}]})").ok());
  EXPECT_FALSE(
      DatasetFromJson(R"({"format": 1, "pipeline": [{"stage": "RowNumbers", "rows": 2147483648}]})")
          .ok());
}

}  // namespace device_cache_test
}  // namespace penstock::data
