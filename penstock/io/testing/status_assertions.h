// GoogleTest assertions for absl::Status: ASSERT_OK(Status or StatusOr), EXPECT_OK,
// ASSERT_OK_AND_ASSIGN(declaration, StatusOr), EXPECT_THAT(status, IsStatus(code, message
// substring)).
#pragma once

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/status.h"

namespace penstock::io {

MATCHER_P2(IsStatus, code, substring, "") {
  const absl::Status& status = base::internal::StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         std::string(status.message()).find(substring) != std::string::npos;
}

MATCHER(IsOk, "is OK") {
  *result_listener << base::internal::StatusOf(arg).ToString();
  return arg.ok();
}

}  // namespace penstock::io

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::penstock::io::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::penstock::io::IsOk())
#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL_(PENSTOCK_CONCAT_(test_or_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                       \
  ASSERT_OK(result);                                                \
  declaration = *std::move(result)
