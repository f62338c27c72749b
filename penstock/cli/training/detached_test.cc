#include "penstock/cli/training/detached.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/cli/command.h"

namespace penstock::cli {
namespace detached_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorOf(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--data", "gs://in/*.tfrec", "--checkpoints",
                                        "gs://out/run"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::string(
      CheckDetachedArguments(arguments, {"gs://in/"}, {"gs://out/"}).status().message());
}

// A new option is not allowed by accident.
TEST(DetachedOptions, TableKnowsEveryOptionOfTrain) {
  int count = 0;
  for (const OptionInfo& option : AllOptions()) {
    if (option.command != "train") continue;
    ++count;
    EXPECT_NE(DetachedRole(option.name), "") << option.name;
  }
  EXPECT_GT(count, 40);
}

// A flag that is off is not passed on as one that is on.
TEST(DetachedOptions, LeaveOutFlagsThatAreFalse) {
  const auto words = [](const std::string& suffix) {
    const auto checked = CheckDetachedArguments(
        {"--data=gs://in/a", "--checkpoints=gs://out/r", "--weights=gs://in/w",
         "--new-head" + suffix, "--tensorboard=gs://out/t", "--no-write-graph" + suffix},
        {"gs://in/"}, {"gs://out/"});
    EXPECT_TRUE(checked.ok()) << checked.status();
    return checked.ok() ? checked->first : std::vector<std::string>();
  };
  for (const char* const flag : {"--new-head", "--no-write-graph"}) {
    EXPECT_THAT(words(""), Contains(flag));
    EXPECT_THAT(words("=true"), Contains(flag));
    EXPECT_THAT(words("=false"), Not(Contains(flag)));
  }
  EXPECT_EQ(ErrorOf({"--find-learning-rate=false"}), "");
}

TEST(DetachedOptions, FilesMustBeBelowWhatTheWorkerAllows) {
  EXPECT_EQ(ErrorOf({}), "");
  for (const char* const option : {"--validation", "--weights"}) {
    EXPECT_EQ(ErrorOf({option, "gs://in/a"}), "") << option;
    EXPECT_EQ(ErrorOf({option, "gs://out/a"}), "") << option << ": what may be written";
    EXPECT_THAT(ErrorOf({option, "gs://other/a"}), AllOf(HasSubstr(option), HasSubstr("--read")));
    EXPECT_THAT(ErrorOf({option, "/etc/passwd"}), HasSubstr(option));
    EXPECT_THAT(ErrorOf({option, "gs://in/../other/a"}), HasSubstr(option));
  }
  for (const char* const option : {"--save", "--csv-log", "--tensorboard", "--profile"}) {
    EXPECT_EQ(ErrorOf({option, "gs://out/a.csv"}), "") << option;
    EXPECT_THAT(ErrorOf({option, "gs://in/a"}), AllOf(HasSubstr(option), HasSubstr("--write")));
    EXPECT_THAT(ErrorOf({option, "relative"}), HasSubstr(option));
  }
  EXPECT_THAT(ErrorOf({"--data", "gs://in/a", "gs://other/b"}), HasSubstr("gs://other/b"))
      << "each of several values";
}

// Its record is JSON: the worker's next run would start it with another file.
TEST(DetachedOptions, ArgumentsMustBeText) {
  EXPECT_EQ(ErrorOf({"--save", "gs://out/m\u00fcll.npz"}), "");
  EXPECT_THAT(ErrorOf({"--save", "gs://out/m\xfcll.npz"}),
              AllOf(HasSubstr("m\\xfcll.npz"), HasSubstr("not UTF-8")));
}

TEST(DetachedOptions, BoundsTheNumberOfArguments) {
  EXPECT_THAT(ErrorOf(std::vector<std::string>(100000, "gs://in/a")),
              AllOf(HasSubstr("at most 5000 arguments, not 100004"), HasSubstr("pattern")));
}

TEST(DetachedOptions, RejectsWhatMakesNoSenseOnTheWorker) {
  const std::vector<std::vector<std::string>> rejected = {{"--config", "/etc/passwd"},
                                                          {"--config=/etc/passwd"},
                                                          {"--device", "cpu"},
                                                          {"--take-over"},
                                                          {"--detach"},
                                                          {"--cpu-devices", "2"},
                                                          {"--monitor", "127.0.0.1:0"},
                                                          {"--monitor-profiler", "a:1"},
                                                          {"--dump-hlo", "gs://out/h"},
                                                          {"--find-learning-rate"}};
  for (const std::vector<std::string>& arguments : rejected) {
    EXPECT_THAT(ErrorOf(arguments), HasSubstr("cannot be used with --detach")) << arguments[0];
  }
  EXPECT_THAT(ErrorOf({"--no-such-option"}), HasSubstr("--no-such-option"));
  EXPECT_NE(ErrorOf({"--help"}), "");
  EXPECT_THAT(
      std::string(
          CheckDetachedArguments({"--data", "gs://in/a"}, {"gs://in/"}, {}).status().message()),
      HasSubstr("--detach needs --checkpoints"));
}

// What the process gets is what was checked, and not the text that came.
TEST(DetachedOptions, ReturnsTheArgumentsAsParsed) {
  const auto checked = CheckDetachedArguments(
      {"--data=gs://in/a", "--checkpoints=gs://out/r", "--replicas=4", "--json"}, {"gs://in/"},
      {"gs://out/"});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->second, 4);
  const std::vector<std::string>& words = checked->first;
  const auto data = std::find(words.begin(), words.end(), "--data");
  ASSERT_LT(data, words.end() - 1);
  EXPECT_EQ(data[1], "gs://in/a");
  EXPECT_NE(std::find(words.begin(), words.end(), "--json"), words.end());
  const auto again = CheckDetachedArguments(words, {"gs://in/"}, {"gs://out/"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->first, words);
}

TEST(AttachOptions, AcceptATrainingAndStop) {
  EXPECT_EQ(CheckArguments({"attach", "127.0.0.1:1", "4f3a91c2", "--stop"}), absl::OkStatus());
  EXPECT_FALSE(CheckArguments({"attach", "127.0.0.1:1", "a", "b"}).ok());
  EXPECT_EQ(CheckArguments({"train", "--data", "a", "--detach", "--checkpoints", "c", "--device",
                            "grpc://127.0.0.1:1"}),
            absl::OkStatus());
}

}  // namespace
}  // namespace detached_test
}  // namespace penstock::cli
