#include "penstock/train/history.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::train {
namespace history_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Validation runs after every second epoch.
History Losses() {
  return {.epochs = {Logs{{"loss", 4}, {"accuracy", 0.25}},
                     Logs{{"loss", 2}, {"accuracy", 0.5}, {"val_loss", 3}},
                     Logs{{"loss", 1}, {"accuracy", 1}}},
          .stats = {},
          .stop_reason = ""};
}

TEST(History, ReturnsEachMetricByName) {
  const History history = Losses();
  EXPECT_THAT(history["loss"], ElementsAre(4, 2, 1));
  EXPECT_THAT(history["val_loss"], ElementsAre(3));
  EXPECT_THAT(history["los"], IsEmpty());
  EXPECT_THAT(history.names(), ElementsAre("loss", "accuracy", "val_loss"));
}

TEST(History, DrawsChartsInText) {
  EXPECT_EQ(Losses().ToText({.names = {"val_loss"}, .width = 5, .height = 4}),
            "loss  * 1  o validation 3\n"
            "         4 |*\n"
            "           |  o\n"
            "           |  *\n"
            "         1 |    *\n"
            "           +-----\n"
            "            1   3 epoch\n");
  const std::string all = Losses().ToText();
  EXPECT_THAT(all, AllOf(HasSubstr("loss"), HasSubstr("accuracy")));
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(all, '\n')).size(), 2u * 13 + 2);
}

TEST(History, DrawsConstantSingleAndNonFiniteValues) {
  History history{.epochs = {Logs{{"loss", 2}, {"nan", std::nan("")}, {"huge", 1e308}}},
                  .stats = {},
                  .stop_reason = ""};
  const std::string text = history.ToText();
  EXPECT_THAT(text, AllOf(HasSubstr("loss  * 2"), Not(HasSubstr("nan"))));
  history.epochs.push_back(Logs{{"loss", HUGE_VAL}, {"huge", -1e308}});
  EXPECT_THAT(history.ToText(), HasSubstr("huge"));
  EXPECT_THAT(history.ToSvg(), Not(HasSubstr("nan")));
  // Numbers whose differences or margins overflow or underflow.
  constexpr double kMax = std::numeric_limits<double>::max(), kLeast = 5e-324;
  for (const auto& [first, last] : {std::pair(kMax, kMax),
                                    {-kMax, -kMax},
                                    {kMax, -kMax},
                                    {kLeast, 0.0},
                                    {kLeast, kLeast},
                                    {-kLeast, kLeast},
                                    {0.0, 2 * kLeast}}) {
    const History extreme{
        .epochs = {Logs{{"loss", first}}, Logs{{"loss", last}}}, .stats = {}, .stop_reason = ""};
    EXPECT_THAT(extreme.ToText(), HasSubstr("loss  *"));
    EXPECT_THAT(extreme.ToSvg(), AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))))
        << first << " " << last;
  }
  EXPECT_EQ(History().ToText(), "");
  EXPECT_THAT(History().ToSvg(), HasSubstr("<svg"));
  EXPECT_NE(history.ToText({.width = -1, .height = 0}), "");
}

TEST(History, DrawsSvgWithCurvePerMetric) {
  History history = Losses();
  history.epochs[0].Set("a<b", 1);
  const std::string svg = history.ToSvg();
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(svg, "<polyline")).size(), 1u + 4);
  EXPECT_THAT(svg, AllOf(HasSubstr(">validation<"), HasSubstr("a&lt;b"), Not(HasSubstr("a<b")),
                         HasSubstr("epoch 2: 3")));
  history.epochs[0].Set("caf\xe9\x01", 1);
  EXPECT_THAT(history.ToSvg(), HasSubstr(">caf\uFFFD <")) << "XML is UTF-8 without controls";
}

}  // namespace history_test
}  // namespace penstock::train
