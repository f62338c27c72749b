#include "penstock/nn/named_call.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"

namespace penstock::nn {
namespace named_call_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::vector<std::string> Parsed(const char* text) {
  const auto call = ParseNamedCall(text);
  if (!call.ok()) return {std::string(call.status().message())};
  std::vector<std::string> out{call->name};
  for (const auto& argument : call->arguments) out.push_back(argument.key + ":" + argument.value);
  return out;
}

TEST(NamedCall, ParsesPositionalAndKeywordArguments) {
  EXPECT_THAT(Parsed("zeros"), ElementsAre("zeros"));
  EXPECT_THAT(Parsed("zeros( )"), ElementsAre("zeros"));
  EXPECT_THAT(Parsed("constant(-1e-3)"), ElementsAre("constant", ":-1e-3"));
  EXPECT_THAT(Parsed("variance_scaling(2, fan_in, distribution = uniform)"),
              ElementsAre("variance_scaling", ":2", ":fan_in", "distribution:uniform"));
  EXPECT_THAT(Parsed("max_norm(3,axis=[0, 1])"), ElementsAre("max_norm", ":3", "axis:[0, 1]"));
}

TEST(NamedCall, RejectsInvalidSyntax) {
  for (const char* text :
       {"", "()", "a b", "l1(", "l1)", "l1(0.1", "l1(,)", "l1(0.1,)", "l1(a=)", "l1(=1)",
        "l1(a=1, 2)", "l1([1)", "l1([[1]])", "l1(f(2))", "l1(a=b=c)", "l1('x')", "l1(1)2"}) {
    EXPECT_THAT(ParseNamedCall(text).status().message(), HasSubstr("not of the form")) << text;
  }
}

TEST(NamedCall, ConvertsKerasObjects) {
  const auto text = [](const char* json) { return *NamedCallFromJson(Json::parse(json)); };
  EXPECT_EQ(text(R"({"module": "keras.initializers", "class_name": "HeNormal",
                     "config": {"seed": null}, "registered_name": null})"),
            "he_normal");
  EXPECT_EQ(text(R"({"class_name": "VarianceScaling", "config": {"scale": 2.5, "mode": "fan_in",
                     "distribution": "uniform", "seed": 7, "input_axes": null}})"),
            "variance_scaling(scale=2.5, mode=fan_in, distribution=uniform)");
  EXPECT_EQ(text(R"({"class_name": "MaxNorm", "config": {"max_value": 3, "axis": [0, 1]}})"),
            "max_norm(max_value=3, axis=[0, 1])");
  EXPECT_EQ(text(R"({"class_name": "function", "config": "relu"})"), "relu");
  EXPECT_FALSE(NamedCallFromJson(Json::parse(R"({"config": {}})")).ok());
  const auto array = NamedCallFromJson(Json::parse(
      R"({"class_name": "Constant", "config": {"value": {"class_name": "__numpy__"}}})"));
  EXPECT_THAT(array.status().message(), HasSubstr("Constant's 'value'"));
}

TEST(NamedCall, OptionsAcceptKerasObjects) {
  const Json json = Json::parse(R"({"kernel_initializer": {"class_name": "Constant",
                                    "config": {"value": 0.5}}})");
  std::string initializer;
  Config config = Config::Reader(json);
  config("kernel_initializer", initializer);
  EXPECT_TRUE(config.Finish().ok());
  EXPECT_EQ(initializer, "constant(value=0.5)");
}

std::string ArgumentError(const char* text) {
  const NamedCall call = *ParseNamedCall(text);
  double rate = 0;
  std::string mode;
  std::vector<int64_t> axes;
  CallArguments arguments(call);
  return std::string(arguments("rate", rate)("mode", mode)("axis", axes).Finish().message());
}

TEST(CallArguments, AssignByPositionAndByKey) {
  const NamedCall call = *ParseNamedCall("f(0.5, axis=[-1, 2])");
  double rate = 0;
  std::string mode = "kept";
  std::vector<int64_t> axes;
  EXPECT_TRUE(CallArguments(call)("rate", rate)("mode", mode)("axis", axes).Finish().ok());
  EXPECT_EQ(rate, 0.5);
  EXPECT_EQ(mode, "kept");
  EXPECT_THAT(axes, ElementsAre(-1, 2));
}

TEST(CallArguments, ErrorsNameTheArgument) {
  EXPECT_EQ(ArgumentError("f(1, m, 3)"), "");
  EXPECT_EQ(ArgumentError("f(x)"), "f's rate is 'x'; it takes a number");
  EXPECT_EQ(ArgumentError("f(nan)"), "f's rate is 'nan'; it takes a number");
  EXPECT_EQ(ArgumentError("f(1, [2])"), "f's mode is '[2]'; it takes a string");
  EXPECT_EQ(ArgumentError("f(axis=[0.5])"),
            "f's axis is '[0.5]'; it takes an integer or a list of them");
  EXPECT_EQ(ArgumentError("f(1, m, 3, 4)"), "f takes rate, mode, axis; it was given 4 arguments");
  EXPECT_EQ(ArgumentError("f(axes=0)"), "f takes rate, mode, axis; it has no 'axes'");
  EXPECT_EQ(ArgumentError("f(1, rate=2)"), "f's rate is repeated");
  EXPECT_EQ(ArgumentError("f(mode=a, mode=b)"), "f's mode is repeated");
}

}  // namespace named_call_test
}  // namespace penstock::nn
