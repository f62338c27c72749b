#include "penstock/base/json_dump.h"

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace penstock::base {
namespace json_dump_test {

using Json = nlohmann::ordered_json;

TEST(DumpJson, KeepsOrderOfKeys) {
  const Json json = {{"b", 1}, {"a", {2, 3}}};
  EXPECT_EQ(DumpJson(json), R"({"b":1,"a":[2,3]})");
  EXPECT_EQ(DumpJson(json, 1), "{\n \"b\": 1,\n \"a\": [\n  2,\n  3\n ]\n}");
}

TEST(DumpJson, ReplacesInvalidUtf8) {
  EXPECT_EQ(DumpJson(Json::object({{"caf\xe9", "x\xffz"}})), "{\"caf\ufffd\":\"x\ufffdz\"}");
  EXPECT_EQ(DumpJson("\u00e9 \""), "\"\u00e9 \\\"\"");
}

TEST(ReplaceInvalidUtf8, KeepsValidText) {
  const std::string valid = "\u00e9\n\"\\ \U0001f600" + std::string(1, '\0');
  EXPECT_EQ(ReplaceInvalidUtf8(valid), valid);
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
}

TEST(ReplaceInvalidUtf8, ReplacesEachInvalidSequence) {
  EXPECT_EQ(ReplaceInvalidUtf8("x\xffz\xfe"), "x\ufffdz\ufffd");
  EXPECT_EQ(ReplaceInvalidUtf8("\xe2\x82"), "\ufffd");  // a truncated character
  EXPECT_EQ(ReplaceInvalidUtf8("\xc3("), "\ufffd(");
}

}  // namespace json_dump_test
}  // namespace penstock::base
