#include "penstock/lazy/data/parallel_loader.h"

#include <atomic>
#include <latch>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xm_collectives.h"
#include "penstock/lazy/xmp.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy {
namespace parallel_loader_test {
namespace {

namespace data = utils::data;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Device At(int index) { return Device(runtime::TestClient(8), index); }

absl::StatusOr<data::Sample> Number(int64_t i) {
  return data::Sample{{"x", Array::Scalar<int64_t>(i)}, {"y", Array::Scalar<float>(i * 0.5f)}};
}

data::DatasetPtr Numbers(int64_t size,
                         std::function<absl::StatusOr<data::Sample>(int64_t)> get = Number) {
  return data::MapDataset(size, std::move(get));
}

std::vector<int64_t> ValuesOf(const Tensor& x) {
  const auto array = x.cpu();
  EXPECT_TRUE(array.ok()) << array.status();
  if (!array.ok()) return {};
  const auto values = array->values<int64_t>();
  return {values.begin(), values.end()};
}

template <typename Loader>
std::vector<std::vector<int64_t>> Pass(Loader&& loader) {
  std::vector<std::vector<int64_t>> batches;
  for (const pl::TensorBatch& batch : loader) batches.push_back(ValuesOf(batch["x"]));
  return batches;
}

TEST(MpDeviceLoader, BatchesAreOnTheDeviceInOrder) {
  for (const int workers : {0, 3}) {
    data::DataLoader loader(Numbers(10), {.batch_size = 4, .num_workers = workers});
    pl::MpDeviceLoader device_loader(loader, At(1));
    EXPECT_EQ(device_loader.size(), 3);
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_THAT(Pass(device_loader),
                  ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9)));
      EXPECT_TRUE(device_loader.status().ok()) << device_loader.status();
    }
  }
}

TEST(MpDeviceLoader, BatchHasTensorsByPositionAndName) {
  data::DataLoader loader(Numbers(2), {.batch_size = 2});
  pl::MpDeviceLoader device_loader(loader, At(1));
  pl::TensorBatch batch;
  ASSERT_TRUE(*device_loader.Next(&batch));
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[1].ToString(), "f32[2] on xla:1");
  EXPECT_EQ(batch["y"].impl(), batch[1].impl());
  EXPECT_EQ(batch.begin()->first, "x");
  EXPECT_FALSE(batch["z"].defined());
  EXPECT_FALSE(batch[2].defined());
  EXPECT_FALSE(*device_loader.Next(&batch));
  EXPECT_TRUE(*device_loader.Next(&batch));  // another pass
}

TEST(MpDeviceLoader, MarksAStepForEachBatchAndAtTheEnd) {
  data::DataLoader loader(Numbers(6), {.batch_size = 1});
  for (const int per_execution : {1, 2}) {
    pl::MpDeviceLoader device_loader(loader, At(1), {.batches_per_execution = per_execution});
    met::clear_all();
    EXPECT_EQ(Pass(device_loader).size(), 6u);
    // Next is called 7 times; the last call also ends the last step.
    EXPECT_EQ(met::counter_value("MarkStep"), 7 / per_execution + 1);
    EXPECT_EQ(met::metric_data("TransferToDeviceTime")->total_samples, 6);
    EXPECT_EQ(met::metric_data("OutboundData")->accumulator, 6 * 12);
  }
}

TEST(MpDeviceLoader, ErrorOfAnExampleComesAfterTheBatchesBeforeIt) {
  data::DataLoader loader(Numbers(10,
                                  [](int64_t i) -> absl::StatusOr<data::Sample> {
                                    if (i == 7) return absl::DataLossError("JPEG is corrupt");
                                    return Number(i);
                                  }),
                          {.batch_size = 2, .num_workers = 2});
  pl::MpDeviceLoader device_loader(loader, At(1));
  EXPECT_EQ(Pass(device_loader).size(), 3u);
  EXPECT_EQ(device_loader.status(), absl::DataLossError("dataset, get(7): JPEG is corrupt"));
}

TEST(MpDeviceLoader, TextCannotBeOnADevice) {
  data::DataLoader loader(Numbers(2, [](int64_t) -> absl::StatusOr<data::Sample> {
    return data::Sample{{"path", Array::Strings({}, {"a.jpg"})}};
  }));
  pl::MpDeviceLoader device_loader(loader, At(1));
  EXPECT_TRUE(Pass(device_loader).empty());
  EXPECT_THAT(device_loader.status().message(),
              AllOf(HasSubstr("'path'"), HasSubstr("xla:1"), HasSubstr("leave it out")));
}

TEST(MpDeviceLoader, ErrorOfTheStepEndsThePass) {
  data::DataLoader loader(Numbers(4));
  pl::MpDeviceLoader device_loader(loader, At(1));
  int batches = 0;
  for (const pl::TensorBatch& batch : device_loader) {
    ++batches;
    Record("bad", {batch["x"], batch["y"]}, SourceLocation::Current(),
           [](const ir::Values& in) { return in[0] * in[1]; });
  }
  EXPECT_EQ(batches, 1);
  EXPECT_THAT(device_loader.status().message(), HasSubstr("bad"));
}

TEST(MpDeviceLoader, AnAbandonedPassEndsItsThreads) {
  std::atomic<int> calls = 0;
  {
    data::DataLoader loader(Numbers(10000,
                                    [&](int64_t i) {
                                      ++calls;
                                      return Number(i);
                                    }),
                            {.batch_size = 1, .num_workers = 2});
    pl::MpDeviceLoader device_loader(loader, At(1),
                                     {.loader_prefetch_size = 2, .device_prefetch_size = 1});
    for (const pl::TensorBatch& batch : device_loader) {
      if (ValuesOf(batch["x"])[0] == 3) break;
    }
    EXPECT_TRUE(device_loader.status().ok());
  }
  EXPECT_LT(calls, 40);  // read, in the queues, ahead in the workers
}

TEST(MpDeviceLoader, RejectsOptionsBelowOne) {
  data::DataLoader loader(Numbers(4));
  pl::MpDeviceLoader device_loader(loader, At(1), {.device_prefetch_size = 0});
  EXPECT_TRUE(Pass(device_loader).empty());
  EXPECT_THAT(device_loader.status().message(), HasSubstr("at least 1"));
  pl::MpDeviceLoader nowhere(loader, Device());
  EXPECT_TRUE(Pass(nowhere).empty());
  EXPECT_THAT(nowhere.status().message(), HasSubstr("invalid"));
}

TEST(ParallelLoader, DevicesGetEquallyManyBatchesInTurn) {
  data::DataLoader loader(Numbers(5), {.batch_size = 1});
  pl::ParallelLoader parallel(loader, {At(0), At(1)});
  EXPECT_THAT(Pass(parallel.per_device_loader(At(0))), ElementsAre(ElementsAre(0), ElementsAre(2)));
  EXPECT_THAT(Pass(parallel.per_device_loader(At(1))), ElementsAre(ElementsAre(1), ElementsAre(3)));
  pl::PerDeviceLoader other = parallel.per_device_loader(At(2));
  EXPECT_TRUE(Pass(other).empty());
  EXPECT_THAT(other.status().message(), HasSubstr("no batches for xla:2"));
}

// The other devices must not take the end of their batches for the end of the data.
TEST(ParallelLoader, ABatchThatOneDeviceCannotTakeIsAnErrorOfAll) {
  data::DataLoader loader(Numbers(100, [](int64_t i) -> absl::StatusOr<data::Sample> {
    if (i == 3) return data::Sample{{"x", Array::Strings({}, {"a.jpg"})}};
    return Number(i);
  }));
  pl::ParallelLoader parallel(loader, {At(0), At(1)}, {.loader_prefetch_size = 1});
  for (const int device : {1, 0}) {
    pl::PerDeviceLoader batches = parallel.per_device_loader(At(device));
    const size_t count = Pass(batches).size();
    EXPECT_THAT(batches.status().message(), HasSubstr("leave it out")) << device;
    EXPECT_LT(count, 10u);
  }
}

TEST(ParallelLoader, DevicesReadOneAfterTheOtherAreAnErrorAndNoDeadlock) {
  data::DataLoader loader(Numbers(12), {});
  pl::ParallelLoader parallel(
      loader, {At(0), At(1)},
      {.loader_prefetch_size = 1, .device_prefetch_size = 1, .timeout_seconds = 0.05});
  pl::PerDeviceLoader first = parallel.per_device_loader(At(0));
  EXPECT_THAT(Pass(first).size(), AllOf(testing::Ge(2u), testing::Lt(6u)));
  EXPECT_EQ(first.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(first.status().message(), AllOf(HasSubstr("no batch for xla:0 for 0.05 s"),
                                              HasSubstr("nothing reads those of xla:1"),
                                              HasSubstr("read the devices in turn")));
}

TEST(ParallelLoader, ClosedLoaderGivesNoMore) {
  data::DataLoader loader(Numbers(100), {.batch_size = 1});
  pl::ParallelLoader parallel(loader, {At(1)});
  pl::PerDeviceLoader batches = parallel.per_device_loader(At(1));
  pl::TensorBatch batch;
  ASSERT_TRUE(*batches.Next(&batch));
  parallel.close();
  EXPECT_EQ(batches.Next(&batch).status().code(), absl::StatusCode::kCancelled);
}

TEST(ParallelLoader, ReplicasReadTheirPartsOfAShuffledDataset) {
  std::vector<int64_t> sums(4);
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        const auto dataset = Numbers(40);
        data::DataLoader loader(
            dataset, {.batch_size = 5,
                      .sampler = std::make_shared<data::DistributedSampler>(dataset->size()),
                      .num_workers = 1});
        pl::MpDeviceLoader device_loader(loader, device);
        Tensor total = tensor(Array::Scalar<int64_t>(0), device);
        for (const pl::TensorBatch& batch : device_loader) {
          total.add_(xm::all_reduce(
              "sum", Record("sum", {batch["x"]}, SourceLocation::Current(),
                            [](const ir::Values& in) { return ir::ReduceSum(in[0]); })));
        }
        PENSTOCK_RETURN_IF_ERROR(device_loader.status());
        sums[index] = ValuesOf(total)[0];
        return absl::OkStatus();
      },
      {.nprocs = 4, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(sums, ElementsAre(780, 780, 780, 780));
}

TEST(ParallelLoader, FewerBatchesOnOneOrdinalAreAnError) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        data::DataLoader loader(Numbers(index == 1 ? 2 : 3));
        pl::MpDeviceLoader device_loader(loader, device);
        for (const pl::TensorBatch& batch : device_loader) {
          xm::all_reduce("sum", Tensors{batch["y"]});
        }
        return device_loader.status();
      },
      {.nprocs = 2, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ordinal 0 waits in"), HasSubstr("all_reduce"),
                                      HasSubstr("ordinal 1 has returned")));
}

TEST(ParallelLoader, ErrorOfOneReplicasDatasetCancelsLoadersOfOthers) {
  std::latch release(1);
  std::atomic<int> cancelled = 0;
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        data::DataLoader loader(Numbers(3, [&, index](int64_t i) -> absl::StatusOr<data::Sample> {
          if (index == 0) return absl::NotFoundError("no file 3.jpg");
          release.wait();  // a slow disk
          return Number(i);
        }));
        pl::MpDeviceLoader device_loader(loader, device);
        pl::TensorBatch batch;
        const auto more = device_loader.Next(&batch);
        if (index == 0) return more.status();
        if (absl::IsCancelled(more.status()) && ++cancelled == 1) release.count_down();
        return more.status();
      },
      {.nprocs = 2, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_EQ(status, absl::NotFoundError("ordinal 0: dataset, get(0): no file 3.jpg"));
  EXPECT_EQ(cancelled, 1);
}

}  // namespace
}  // namespace parallel_loader_test
}  // namespace penstock::lazy
