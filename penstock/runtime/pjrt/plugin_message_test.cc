#include "penstock/runtime/pjrt/plugin_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::runtime {
namespace plugin_message_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ir::Program Program() {
  ir::Program program;
  program.name = "step";
  program.text = "module {\n  %0 = one\n  %1 = two\n}\n";
  program.line_origins = {{}, {"net/a", "train.cc", 7}, {"net/b", "train.cc", 8}, {}};
  return program;
}

std::string Explain(absl::string_view message) {
  return std::string(ExplainCompileError(absl::InvalidArgumentError(message), Program()).message());
}

TEST(ExplainCompileError, LeavesSuccessAlone) {
  EXPECT_TRUE(ExplainCompileError(absl::OkStatus(), Program()).ok());
}

TEST(ExplainCompileError, StoresExecutableCode) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      ExplainCompileError(absl::ResourceExhaustedError("too big"), Program())));
}

TEST(ExplainCompileError, MapsLineOfTextToLayer) {
  for (const char* message :
       {"-:3:10: error: no", "<unknown>:3:10: error: no", "first\n-:3:10: error: no"}) {
    EXPECT_THAT(Explain(message),
                AllOf(HasSubstr("program 'step'"), HasSubstr("line 3 is: %1 = two"),
                      HasSubstr("from layer \"net/b\" (train.cc:8)")));
  }
}

TEST(ExplainCompileError, MapsUsersLineToLayer) {
  EXPECT_THAT(Explain("train.cc:7:1: error: no"),
              AllOf(HasSubstr("line 2 is: %0 = one"), HasSubstr("layer \"net/a\"")));
}

TEST(ExplainCompileError, NamesLocationOnce) {
  const std::string message = Explain("-:2:1: error: no\n-:2:5: note: here");
  EXPECT_EQ(message.find("line 2 is"), message.rfind("line 2 is"));
}

TEST(ExplainCompileError, IgnoresNumbersThatAreNotLocations) {
  for (const char* message : {"-:99:1: beyond the text", "at 12:30:45", "a:b:c", ":::", "-:3",
                              "-:3:", "-:0:0", "-:99999999999999999999:1", "other.cc:7:1"}) {
    EXPECT_THAT(Explain(message), Not(HasSubstr(" is: "))) << message;
  }
}

TEST(ExplainCompileError, ShowsLineWithoutOrigin) {
  EXPECT_THAT(Explain("-:1:1: error"),
              AllOf(HasSubstr("line 1 is: module {"), Not(HasSubstr("from"))));
}

}  // namespace plugin_message_test
}  // namespace penstock::runtime
