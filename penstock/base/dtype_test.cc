#include "penstock/base/dtype.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::base {
namespace dtype_test {

TEST(DType, NamesRoundTrip) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(*DTypeFromName(DTypeName(dtype)), dtype);
  }
  EXPECT_THAT(std::string(DTypeFromName("float").status().message()),
              ::testing::HasSubstr("float32"));
}

TEST(DType, KindsAreDisjoint) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_FALSE(IsFloat(dtype) && IsInteger(dtype));
    EXPECT_TRUE(IsNumeric(dtype) || (!IsFloat(dtype) && !IsInteger(dtype)));
  }
  EXPECT_TRUE(IsNumeric(DType::kBool));
  EXPECT_FALSE(IsNumeric(DType::kString));
}

// Round to nearest even, checked against its definition: no representable value is nearer.
template <typename Half>
void CheckRounding(float value) {
  const Half rounded(value);
  for (int step : {-1, 1}) {
    Half neighbor = rounded;
    neighbor.bits = static_cast<uint16_t>(neighbor.bits + step);
    const float other = neighbor;
    if (!std::isfinite(other) || std::signbit(other) != std::signbit(value)) continue;
    const double here = std::abs(double{float{rounded}} - value),
                 there = std::abs(double{other} - value);
    EXPECT_LE(here, there) << value;
    EXPECT_TRUE(here < there || rounded.bits % 2 == 0) << value;
  }
}

TEST(Float16, RoundsToNearestEven) {
  for (float v : {1.0f, 1.00048828125f, 1.0009765625f, 1.00146484375f, 3.14159f, 65504.0f, 1e-5f,
                  6e-8f, 2.98e-8f, 0.1f, 1.0039062f, 1.01171875f}) {
    CheckRounding<float16>(v);
    CheckRounding<float16>(-v);
    CheckRounding<bfloat16>(v);
    CheckRounding<bfloat16>(-v);
  }
}

TEST(Float16, EveryValueRoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 h;
    h.bits = static_cast<uint16_t>(bits);
    bfloat16 b;
    b.bits = static_cast<uint16_t>(bits);
    if (std::isnan(float{h})) {
      EXPECT_TRUE(std::isnan(float{float16(float{h})}));
    } else {
      EXPECT_EQ(float16(float{h}).bits, bits);
    }
    if (std::isnan(float{b})) {
      EXPECT_TRUE(std::isnan(float{bfloat16(float{b})}));
    } else {
      EXPECT_EQ(bfloat16(float{b}).bits, bits);
    }
  }
}

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(float{float16(65519.0f)}, 65504.0f);
  EXPECT_TRUE(std::isinf(float{float16(65520.0f)}));
  EXPECT_TRUE(std::isinf(float{float16(std::numeric_limits<float>::infinity())}));
}

}  // namespace dtype_test
}  // namespace penstock::base
