#include "penstock/cli/print_json.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace penstock::cli {
namespace print_json_test {

TEST(PrintJson, IndentsAndReplacesInvalidUtf8) {
  ::testing::internal::CaptureStdout();
  PrintJson({{"path", "caf\xe9"}, {"count", 2}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "{\n  \"path\": \"caf\ufffd\",\n  \"count\": 2\n}\n");
}

}  // namespace print_json_test
}  // namespace penstock::cli
