#include "penstock/lazy/xm_devices.h"

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xmp.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy {
namespace xm_devices_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(XmDevices, NamesKindAndMemory) {
  const absl::Status status = xmp::spawn(
      [](int) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        const std::string kind = xm::xla_device_hw(device);
        PENSTOCK_ASSIGN_OR_RETURN(const auto names, xm::get_xla_supported_devices(kind));
        EXPECT_THAT(names, ElementsAre("xla:0", "xla:1"));
        PENSTOCK_ASSIGN_OR_RETURN(const auto none, xm::get_xla_supported_devices("toaster"));
        EXPECT_THAT(none, IsEmpty());
        PENSTOCK_ASSIGN_OR_RETURN(const xm::MemoryInfo memory, xm::get_memory_info(device));
        EXPECT_NE(memory.kb_free, 0);
        return absl::OkStatus();
      },
      {.nprocs = 1, .client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(xm::xla_device_hw(Device()), "");
  EXPECT_FALSE(xm::get_memory_info(Device()).ok());
}

// The formulas of torch_xla's RateTracker.
TEST(XmTraining, RatesAreSmoothed) {
  base::FakeClock clock;
  xm::RateTracker tracker(0.25, &clock);
  EXPECT_EQ(tracker.rate(), 0);
  EXPECT_EQ(tracker.global_rate(), 0);
  tracker.add(10);
  tracker.add(30);
  clock.Advance(2);
  EXPECT_DOUBLE_EQ(tracker.rate(), 20);
  tracker.add(40);
  clock.Advance(1);
  EXPECT_DOUBLE_EQ(tracker.rate(), 0.75 * 40 + 0.25 * 20);
  EXPECT_DOUBLE_EQ(tracker.global_rate(), 80.0 / 3);
}

TEST(XmTraining, DoesOnSelectedOrdinalsAndSendsData) {
  std::atomic<int> calls = 0;
  const absl::Status status = xmp::spawn(
      [&](int) -> absl::Status {
        PENSTOCK_RETURN_IF_ERROR(xm::do_on_ordinals([&] {
          ++calls;
          return absl::OkStatus();
        }));
        const auto fail = [] { return absl::InternalError("the target failed"); };
        const absl::Status failed = xm::do_on_ordinals(fail, {1});
        EXPECT_EQ(failed.ok(), xm::get_ordinal() == 0) << failed;
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        PENSTOCK_ASSIGN_OR_RETURN(const auto names, xm::xla_real_devices({device}));
        EXPECT_THAT(names, ElementsAre(xm::xla_device_hw(device) + ":" +
                                       std::to_string(xm::get_ordinal())));
        const Tensors sent = xm::send_cpu_data_to_device(
            {Array::Scalar(2.0f), Array::Scalar<int64_t>(xm::get_ordinal())}, device);
        EXPECT_EQ(*sent[0].item<float>(), 2);
        EXPECT_EQ(*sent[1].item<int64_t>(), xm::get_ordinal());
        return absl::OkStatus();
      },
      {.nprocs = 2, .client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(xm::xla_real_devices({Device()}).ok());
}

TEST(XmDevices, UnlazyComputesTheValues) {
  EXPECT_FALSE(xm::unlazy({Tensor()}).ok());
  const Tensor x = tensor(Array::Scalar(2.0f), Device(runtime::TestClient(2), 1));
  const Tensor y = x * 3;
  EXPECT_TRUE(xm::unlazy({y}).ok());
  EXPECT_EQ(*y.item<float>(), 6);
}

TEST(BroadcastMasterParam, ReplicasGetTheParametersAndBuffersOfOrdinal0) {
  std::vector<base::NamedArrays> states(4);
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device norm_device, xm::xla_device());
        const nn::BatchNorm2d norm(3);
        const no_grad guard;
        // Inputs of the step: constants in it would make another program on each ordinal.
        const Tensor offset = tensor(Array::Scalar(static_cast<float>(index)), norm_device);
        for (Tensor each : norm->parameters()) each.copy_(offset + 5);
        for (Tensor each : norm->buffers()) each.copy_(offset + 7);
        xm::broadcast_master_param(*norm);
        PENSTOCK_ASSIGN_OR_RETURN(states[index], norm->state_arrays());
        return absl::OkStatus();
      },
      {.nprocs = 4, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  ASSERT_TRUE(status.ok()) << status;
  for (const base::NamedArrays& state : states) {
    EXPECT_EQ(state.Find("weight")->item<float>({0}), 5);
    EXPECT_EQ(state.Find("running_var")->item<float>({2}), 7);
    EXPECT_EQ(state.Find("num_batches_tracked")->item<int64_t>(), 7);
  }
}

}  // namespace
}  // namespace xm_devices_test
}  // namespace penstock::lazy
