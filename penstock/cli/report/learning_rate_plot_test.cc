// Tests of the drawings of a learning rate range test.
#include "penstock/cli/report/learning_rate_plot.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::cli {
namespace learning_rate_plot_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

keras::LearningRateCurve Curve(const std::vector<double>& smoothed) {
  keras::LearningRateCurve curve;
  for (size_t i = 0; i < smoothed.size(); ++i) {
    curve.points.push_back({.rate = std::pow(10.0, static_cast<double>(i) - 3),
                            .loss = smoothed[i],
                            .smoothed = smoothed[i]});
  }
  return curve;
}

TEST(LearningRatePlot, DrawsTheCurveAndTheProposedRate) {
  keras::LearningRateCurve curve = Curve({4, 3, 1, 2});
  curve.proposed = 1e-2;
  EXPECT_EQ(LearningRateText(curve, 25, 4),
            "smoothed loss\n"
            "         4 |*       |\n"
            "           |        *\n"
            "           |        |               *\n"
            "         1 |        |       *\n"
            "           ++-------+-------+-------+\n"
            "            1e-3    1e-2    1e-1    1e0 learning rate\n");
}

TEST(LearningRatePlot, StaysLegibleWhenTheLossDiverges) {
  const std::string text = LearningRateText(Curve({4, 3, 1, 1e30}));
  EXPECT_THAT(text, HasSubstr("         8 |")) << "cut at twice the first loss";
  const std::string svg = LearningRateSvg(Curve({4, 3, 1, 1e30}));
  EXPECT_THAT(svg, AllOf(HasSubstr("<polyline"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(LearningRatePlot, DrawsFlatShortAndEmptyCurves) {
  for (const std::vector<double>& losses :
       {std::vector<double>{}, {1.0}, {2.0, 2.0, 2.0}, {-1.0, -2.0}}) {
    EXPECT_THAT(LearningRateText(Curve(losses)), HasSubstr("learning rate"));
    EXPECT_THAT(LearningRateSvg(Curve(losses)), AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan"))));
  }
}

}  // namespace learning_rate_plot_test
}  // namespace penstock::cli
