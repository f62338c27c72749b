#include "penstock/base/exceptions.h"

#include <new>
#include <stdexcept>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"

namespace penstock::base {
namespace exceptions_test {

using ::testing::HasSubstr;

TEST(CatchExceptions, ReturnsTheResultOfTheFunction) {
  EXPECT_TRUE(CatchExceptions([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(*CatchExceptions([]() -> absl::StatusOr<int> { return 3; }), 3);
  EXPECT_EQ(CatchExceptions([] { return absl::NotFoundError("x"); }), absl::NotFoundError("x"));
}

TEST(CatchExceptions, NamesTypeAndMessageOfAnException) {
  const absl::Status status =
      CatchExceptions([]() -> absl::Status { throw std::out_of_range("index 7"); });
  EXPECT_EQ(status, absl::InternalError("threw std::out_of_range: index 7"));
  EXPECT_FALSE(IsOutOfMemory(status));
}

TEST(CatchExceptions, NamesTypeOfThrownNonException) {
  const auto result = CatchExceptions([]() -> absl::StatusOr<bool> { throw 7; });
  EXPECT_EQ(result.status(), absl::InternalError("threw a value of type int"));
}

TEST(CatchExceptions, RecognizesOutOfMemory) {
  const absl::Status status = CatchExceptions([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out of memory"));
  EXPECT_TRUE(IsOutOfMemory(status));
  EXPECT_TRUE(IsOutOfMemory(WithContext(status, "there")));
  EXPECT_FALSE(IsOutOfMemory(absl::ResourceExhaustedError("disk full")));
}

}  // namespace exceptions_test
}  // namespace penstock::base
