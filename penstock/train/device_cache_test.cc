// Cache("device"): rows stay in the memory of the devices, and batches are gathered there.
#include "penstock/train/device_cache.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/losses.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/testing/small_training.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace device_cache_test {

using base::NamedArrays;
using data::Dataset;
using ::testing::AllOf;
using testing::CachedPoints;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

struct Notes : Callback {
  void Note(absl::string_view text) override { notes.emplace_back(text); }
  std::vector<std::string> notes;
};

void ExpectSameWeights(Trainer& a, Trainer& b) {
  const NamedArrays want = *a.Weights(), got = *b.Weights();
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, array] : want) EXPECT_TRUE(BitwiseEqual(*got.Find(name), array)) << name;
}

TEST(DeviceCache, TrainsBitForBitAsCacheInMemory) {
  for (const auto& [replicas, steps] : {std::pair(1, 1), std::pair(2, 4)}) {
    SCOPED_TRACE(absl::StrCat(replicas, " replicas, ", steps, " steps"));
    const testing::SmallOptions small = {.replicas = replicas, .steps_per_execution = steps};
    const auto memory = *SmallTrainer(small), device = *SmallTrainer(small);
    const auto notes = std::make_shared<Notes>();
    FitOptions options = {.epochs = 3, .class_weight = {{1, 2.5}}};
    options.validation_data = CachedPoints("", 40);
    const absl::StatusOr<History> want = memory->Fit(CachedPoints(""), options);
    options.validation_data = CachedPoints("device", 40);
    options.callbacks = {notes};
    const absl::StatusOr<History> got = device->Fit(CachedPoints("device"), options);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectSameWeights(*memory, *device);
    EXPECT_EQ(*got->epochs.back().Find("val_loss"), *want->epochs.back().Find("val_loss"));
    EXPECT_THAT(notes->notes,
                Contains(AllOf(HasSubstr("cache: 76 rows, "), HasSubstr(" free on "))));
  }
}

TEST(DeviceCache, ReadsItsInputOnceForAllTrainingsAndDevices) {
  std::atomic<int> calls = 0;
  const Dataset dataset = CachedPoints("device", 76, &calls);
  ASSERT_TRUE((*SmallTrainer())->Fit(dataset, {.epochs = 3}).ok());
  ASSERT_TRUE((*SmallTrainer())->Evaluate(dataset).ok());
  EXPECT_EQ(calls, 76);
  // Of another client: once more. On another of its devices: they are copied from the first one.
  const std::shared_ptr<runtime::Client> client = runtime::TestClient(2);
  const auto cache = [&](int devices) {
    return *CacheOnDevices(**data::SplitAtDeviceCache(dataset), *client,
                           client->devices().subspan(0, static_cast<size_t>(devices)), "", {});
  };
  EXPECT_THAT(cache(1).note, HasSubstr("cache: 76 rows"));
  const CachedOnDevices both = cache(2);
  EXPECT_EQ(both.note, "");
  EXPECT_EQ(calls, 2 * 76);
  ASSERT_EQ(both.rows->replicas.size(), 2u);
  for (size_t i = 0; i < both.rows->names.size(); ++i) {
    EXPECT_TRUE(BitwiseEqual(*both.rows->replicas[0][i].Get(), *both.rows->replicas[1][i].Get()));
    EXPECT_EQ(both.rows->replicas[1][i].device().index, 1);
  }
}

TEST(DeviceCache, RepeatsOverEpochsAndSkips) {
  const auto memory = *SmallTrainer(), device = *SmallTrainer();
  const FitOptions options = {.epochs = 3, .steps_per_epoch = 7};
  ASSERT_TRUE(memory->Fit(CachedPoints("").Repeat().Skip(2).Prefetch(2), options).ok());
  ASSERT_TRUE(device->Fit(CachedPoints("device").Repeat().Skip(2).Prefetch(2), options).ok());
  ExpectSameWeights(*memory, *device);
}

TEST(DeviceCache, ReadByAnIteratorReturnsTheElements) {
  const auto trainer = *SmallTrainer();
  EXPECT_TRUE(BitwiseEqual(
      (*trainer->Predict(
          Dataset::FromArrays({{"x", *Points(20).Find("x")}}).Cache("device").Batch(8)))[0],
      (*trainer->Predict(Dataset::FromArrays({{"x", *Points(20).Find("x")}}).Batch(8)))[0]));
}

TEST(DeviceCache, ChecksLabelsOfTheFirstBatch) {
  NamedArrays points = Points(16);
  base::Array labels = points.Find("y")->Clone();
  labels.mutable_data<int64_t>()[3] = 17;
  points.Set("y", labels);
  const absl::Status memory =
      (*SmallTrainer())->Fit(Dataset::FromArrays(points).Batch(8), {}).status();
  const absl::Status device =
      (*SmallTrainer())->Fit(Dataset::FromArrays(points).Cache("device").Batch(8), {}).status();
  EXPECT_FALSE(memory.ok());
  EXPECT_EQ(device, memory);
}

TEST(DeviceCache, StagesThatNeedElementsOnTheHostMayNotFollow) {
  const auto error = [](const Dataset& dataset) {
    return std::string((*SmallTrainer())->Fit(dataset, {}).status().message());
  };
  EXPECT_THAT(
      error(CachedPoints("device").Map(
          [](const NamedArrays&, NamedArrays*) { return absl::OkStatus(); }, {.name = "later"})),
      AllOf(HasSubstr("stage Map(later"), HasSubstr("put it before Cache(\"device\")")));
  EXPECT_THAT(
      error(Dataset::Zip({Dataset::FromArrays(Points(8)).Cache("device"), Dataset::Range(0, 8)})
                .Batch(8)),
      AllOf(HasSubstr("stage Zip"), HasSubstr("joins datasets")));
  EXPECT_THAT(error(Dataset::FromArrays(Points(8)).Repeat().Cache("device").Batch(8)),
              HasSubstr("infinite"));
  NamedArrays named = Points(8);
  named.Set("name", base::Array::Strings({8}, {"a", "b", "c", "d", "e", "f", "g", "h"}));
  EXPECT_THAT(error(Dataset::FromArrays(named).Cache("device").Batch(8)),
              HasSubstr("column name: string"));
}

TEST(DeviceCache, SaysWhatFits) {
  RowsRoom room = {.free = {.bytes = 1 << 20, .where = "TPU_0"}};
  EXPECT_TRUE(CheckRowsFit(room, 1024, 1 << 20).ok());
  const absl::Status status = CheckRowsFit(room, 50'000, 50'000 * 3072);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("50,000 rows take 146 MiB"), HasSubstr("1.0 MiB are free"),
                    HasSubstr("TPU_0"), HasSubstr("holds 341 rows"), HasSubstr("Cache(\"worker\")"),
                    HasSubstr("uint8")));
  room.devices = room.copies = 2;
  EXPECT_FALSE(CheckRowsFit(room, 1024, 1 << 20).ok());
  EXPECT_EQ(
      DescribeRows({.free = {.bytes = int64_t{16} << 30, .where = "TPU_0"}}, 50'000, 50'000 * 3072),
      "cache: 50,000 rows, 146 MiB of 16 GiB free on the device (TPU_0)");
}

}  // namespace device_cache_test
}  // namespace penstock::train
