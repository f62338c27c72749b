#include "penstock/base/status.h"

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace penstock::base {
namespace status_test {

absl::StatusOr<int> Half(int n) {
  if (n % 2) return absl::InvalidArgumentError("odd");
  return n / 2;
}
absl::StatusOr<int> Quarter(int n) {
  PENSTOCK_ASSIGN_OR_RETURN(int half, Half(n));
  PENSTOCK_ASSIGN_OR_RETURN(half, Half(half));
  return half;
}

TEST(Status, MacrosReturnEarly) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

TEST(Status, WithContextPrependsAndKeepsCodeAndPayload) {
  absl::Status inner = absl::NotFoundError("gone");
  inner.SetPayload("k", absl::Cord("v"));
  const absl::Status outer = WithContext(inner, "shard 3");
  EXPECT_EQ(outer.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(outer.message(), "shard 3: gone");
  EXPECT_EQ(*outer.GetPayload("k"), "v");
  EXPECT_TRUE(WithContext(absl::OkStatus(), "x").ok());
}

}  // namespace status_test
}  // namespace penstock::base
