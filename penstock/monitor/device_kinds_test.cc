#include "penstock/monitor/device_kinds.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::monitor {
namespace device_kinds_test {

TEST(DeviceKindsTest, FindsTheLongestPrefix) {
  EXPECT_EQ(FindDeviceKind("TPU v4")->bf16_flops, 275e12);
  EXPECT_EQ(FindDeviceKind("TPU v4 lite")->bf16_flops, 137.5e12);
  EXPECT_EQ(FindDeviceKind("TPU v5 lite")->bf16_flops, 197e12);
  EXPECT_EQ(FindDeviceKind("TPU v5p")->bf16_flops, 459e12);
  EXPECT_EQ(FindDeviceKind("NVIDIA H100 80GB HBM3")->bf16_flops, 989.4e12);
  EXPECT_EQ(FindDeviceKind("NVIDIA H100 PCIe")->bf16_flops, 756e12);
  EXPECT_EQ(FindDeviceKind("Tesla V100-SXM2-16GB")->bf16_flops, 125e12);
  EXPECT_EQ(FindDeviceKind("cpu"), nullptr);
  EXPECT_EQ(FindDeviceKind(""), nullptr);
}

TEST(DeviceKindsTest, EveryRowHasRatesAndASource) {
  for (const DeviceKind& kind : AllDeviceKinds()) {
    EXPECT_GT(kind.f32_flops, 1e12) << kind.prefix;
    EXPECT_GE(kind.bf16_flops, kind.f32_flops) << kind.prefix;
    EXPECT_NE(std::string(kind.source), "") << kind.prefix;
  }
}

TEST(DeviceKindsTest, TakesThePrecisionOfMatrixProducts) {
  EXPECT_EQ(PrecisionOf("%1 = stablehlo.dot_general %a, %b : (tensor<2x3xbf16>, ...)"),
            Precision::kBf16);
  EXPECT_EQ(PrecisionOf("%1 = stablehlo.convolution(%a, %b) : (tensor<2x3xf16>, ...)"),
            Precision::kBf16);
  EXPECT_EQ(PrecisionOf("%0 = stablehlo.add %a, %b : tensor<2xbf16>\n"
                        "%1 = stablehlo.dot_general %a, %b : (tensor<2x3xf32>, ...)"),
            Precision::kF32);
  EXPECT_EQ(PrecisionOf(""), Precision::kF32);
}

}  // namespace device_kinds_test
}  // namespace penstock::monitor
