#include "penstock/lazy/xmp.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xm_collectives.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy {
namespace xmp_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

xmp::SpawnOptions Eight() {
  return {.nprocs = 8, .client = runtime::TestClient(8), .timeout_seconds = 3600};
}

TEST(Spawn, EachThreadHasItsOrdinalAndDevice) {
  std::vector<int> devices(8, -1);
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        EXPECT_EQ(xm::get_ordinal(), index);
        EXPECT_EQ(xm::get_local_ordinal(), index);
        EXPECT_EQ(xm::xrt_world_size(), 8);
        EXPECT_EQ(xm::is_master_ordinal(), index == 0);
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        devices[index] = device.index();
        return absl::OkStatus();
      },
      Eight());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(devices, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(xm::xrt_world_size(), 1);
  EXPECT_EQ(xm::get_ordinal(), 0);
  EXPECT_EQ(xm::get_ordinal(-1), -1);
  EXPECT_TRUE(xm::is_master_ordinal());
}

TEST(Spawn, DefaultIsAllDevices) {
  std::atomic<int> threads = 0;
  const absl::Status status =
      xmp::spawn([&](int) { ++threads; }, {.client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(threads, 2);
}

TEST(Spawn, FurtherArgumentsAreGivenToEachThread) {
  std::atomic<int> sum = 0;
  const absl::Status status = xmp::spawn(
      [&](int index, int a, const std::string& b) {
        sum += index + a + static_cast<int>(b.size());
        return absl::OkStatus();
      },
      std::tuple(10, std::string("abc")), {.nprocs = 2, .client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(sum, 2 * 13 + 1);
}

TEST(Spawn, RejectsNumbersOfProcessesThatItCannotRun) {
  const auto nothing = [](int) { return absl::OkStatus(); };
  EXPECT_THAT(xmp::spawn(nothing, {.nprocs = 9, .client = runtime::TestClient(8)}).message(),
              HasSubstr("nprocs is 9, but cpu has 8 device(s)"));
  EXPECT_THAT(xmp::spawn(nothing, {.nprocs = -1}).message(), HasSubstr("-1"));
  for (const double seconds : {0.0, -1.0, std::nan("")}) {
    const absl::Status status = xmp::spawn(
        nothing, {.nprocs = 1, .client = runtime::TestClient(8), .timeout_seconds = seconds});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << seconds;
    EXPECT_THAT(status.message(), HasSubstr("timeout_seconds must be above 0"));
  }
  EXPECT_TRUE(xmp::spawn(nothing, {.nprocs = 2,
                                   .client = runtime::TestClient(8),
                                   .timeout_seconds = std::numeric_limits<double>::infinity()})
                  .ok());
  const absl::Status nested = xmp::spawn([&](int) { return xmp::spawn(nothing, Eight()); },
                                         {.nprocs = 1, .client = runtime::TestClient(8)});
  EXPECT_THAT(nested.message(), HasSubstr("inside of xmp::spawn"));
}

TEST(Spawn, ErrorOfOneThreadEndsTheOthersAndIsReturned) {
  std::atomic<int> cancelled = 0;
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        if (index == 3) return absl::DataLossError("cannot read x");
        const auto payloads = xm::rendezvous("end");
        if (absl::IsCancelled(payloads.status())) ++cancelled;
        return payloads.status();
      },
      Eight());
  EXPECT_EQ(status, absl::DataLossError("ordinal 3: cannot read x"));
  EXPECT_EQ(cancelled, 7);
}

TEST(Spawn, ExceptionOfOneThreadIsAnErrorWithItsOrdinal) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        if (index == 5) throw std::runtime_error("out of luck");
        return xm::rendezvous("end").status();
      },
      Eight());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ordinal 5"), HasSubstr("out of luck")));
}

TEST(Spawn, AMissingRendezvousNamesOrdinalsTagAndLine) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        if (index == 2) return absl::OkStatus();
        return xm::rendezvous("epoch end").status();
      },
      Eight());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ordinals 0, 1, 3, 4, 5, 6 and 7 wait in "
                              "rendezvous 'epoch end' (xmp_test.cc:"),
                    HasSubstr("ordinal 2 has returned")));
}

TEST(Spawn, DifferentTagsNameBoth) {
  const absl::Status status =
      xmp::spawn([&](int index) { return xm::rendezvous(index == 1 ? "b" : "a").status(); },
                 {.nprocs = 2, .client = runtime::TestClient(2), .timeout_seconds = 3600});
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("ordinal 0 waits in rendezvous 'a'"),
                                                   HasSubstr("ordinal 1 waits in rendezvous 'b'")));
}

Tensor Numbers(int64_t size, float value) {
  Array array = Array::Uninitialized(DType::kF32, {size});
  for (int64_t i = 0; i < size; ++i) array.mutable_data<float>()[i] = value;
  return tensor(array, *xm::xla_device());
}

TEST(Spawn, DifferentStepsNameOrdinalsAndCollectives) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        const Tensor x = Numbers(index == 2 ? 12 : 10, 1);
        const Tensor sum = xm::all_reduce(xm::REDUCE_SUM, x);
        return xm::mark_step();
      },
      {.nprocs = 4, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ordinals 0, 1 and 3 wait in mark_step with collectives (first: "
                              "all_reduce of f32[10] at xmp_test.cc:"),
                    HasSubstr("ordinal 2 waits in mark_step"),
                    HasSubstr("first difference: parameter of f32[10] at xmp_test.cc:"),
                    HasSubstr("on ordinal 0, parameter of f32[12] at xmp_test.cc:")));
}

TEST(Spawn, DifferentConstantsAreShown) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        const Tensor sum = xm::all_reduce(xm::REDUCE_SUM, Numbers(3, 1) * (index + 0.5));
        return xm::mark_step();
      },
      {.nprocs = 2, .client = runtime::TestClient(2), .timeout_seconds = 3600});
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("first difference: constant"), HasSubstr("0.5"), HasSubstr("1.5")));
}

TEST(Spawn, FewerStepsOnOneOrdinalAreAnError) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        for (int step = 0; step < (index == 1 ? 1 : 2); ++step) {
          const Tensor sum = xm::all_reduce(xm::REDUCE_SUM, Numbers(10, 1));
          PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
        }
        return absl::OkStatus();
      },
      {.nprocs = 2, .client = runtime::TestClient(2), .timeout_seconds = 3600});
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("ordinal 0 waits in"), HasSubstr("ordinal 1 has returned")));
}

// An ordinal may do what others do not, as long as it does not communicate.
TEST(Spawn, StepsWithoutCollectivesNeedNoOtherOrdinal) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        for (int step = 0; step < index; ++step) {
          const Tensor x = Numbers(4, 1), y = Record("double", {x}, SourceLocation::Current(),
                                                     [](const ir::Values&in) { return in[0] * 2; });
          PENSTOCK_ASSIGN_OR_RETURN(const Array value, y.cpu());
          EXPECT_EQ(value.values<float>()[0], 2);
        }
        return absl::OkStatus();
      },
      {.nprocs = 2, .client = runtime::TestClient(2), .timeout_seconds = 3600});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Spawn, TheSameProgramOnAnotherDeviceIsNoRecompilation) {
  met::clear_all();
  const absl::Status status =
      xmp::spawn([&](int) -> absl::Status { return (Numbers(3, 1) * 7).cpu().status(); },
                 {.nprocs = 2, .client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(met::counter_value("UncachedCompile"), 2);
  EXPECT_THAT(met::recompilation_report(), Not(HasSubstr("devices")));
  EXPECT_LE(met::Metrics::Process().Recompilations().size(), 1u);  // beside other tests' programs
}

TEST(Spawn, AProcessCanSpawnAgainAfterAFailure) {
  const auto fails = [](int) { return absl::InternalError("x"); };
  EXPECT_FALSE(xmp::spawn(fails, Eight()).ok());
  EXPECT_TRUE(xmp::spawn([](int) { return xm::rendezvous("a").status(); }, Eight()).ok());
}

TEST(MpModelWrapper, ReplicasGetCopiesWithTheSameValues) {
  xmp::MpModelWrapper wrapper([] { return nn::Linear(3, 2); });
  std::vector<Array> weights(8);
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        PENSTOCK_ASSIGN_OR_RETURN(const nn::Linear linear, wrapper.to(device));
        EXPECT_EQ(linear->parameters()[0].device(), device);
        PENSTOCK_ASSIGN_OR_RETURN(weights[index], linear->parameters()[0].cpu());
        const no_grad guard;
        linear->parameters()[0].fill_(index);  // a copy: the others keep their values
        return xm::mark_step();
      },
      Eight());
  EXPECT_TRUE(status.ok()) << status;
  for (const Array& weight : weights) EXPECT_TRUE(base::BitwiseEqual(weight, weights[0]));
}

TEST(MpModelWrapper, ErrorOfTheFunctionIsReturnedByTo) {
  xmp::MpModelWrapper wrapper([]() -> nn::Linear { throw std::runtime_error("no weights"); });
  EXPECT_THAT(wrapper.to(Device(runtime::TestClient(8), 0)).status().message(),
              HasSubstr("no weights"));
}

TEST(MpModelWrapper, RejectsAModelOrADeviceThatIsNone) {
  const Device device(runtime::TestClient(8), 0);
  xmp::MpModelWrapper none([] { return std::shared_ptr<nn::LinearImpl>(); });
  EXPECT_THAT(none.to(device).status().message(), HasSubstr("returned null"));
  xmp::MpModelWrapper later(
      [calls = 0]() mutable { return calls++ == 0 ? nn::Linear(3, 2) : nn::Linear(nullptr); });
  EXPECT_THAT(later.to(Device()).status().message(), HasSubstr("the device is invalid"));
  EXPECT_THAT(later.to(device).status().message(), HasSubstr("returned null"));
}

TEST(MpSerialExecutor, RunsOneAtATime) {
  xmp::MpSerialExecutor serial;
  int running = 0, most = 0;
  const absl::Status status = xmp::spawn(
      [&](int index) {
        const int result = serial.run([&] {
          most = std::max(most, ++running);
          std::this_thread::yield();
          --running;
          return index;
        });
        EXPECT_EQ(result, index);
        return absl::OkStatus();
      },
      Eight());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace xmp_test
}  // namespace penstock::lazy
