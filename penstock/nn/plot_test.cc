#include "penstock/nn/plot.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace plot_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Network TwoPaths() {
  const Symbol x = Input({.shape = {4}, .name = "x"});
  const Symbol a = Dense({.units = 4, .name = "a"})(x);
  return Network({x}, {Add({.name = "<sum>"})({a, x})});
}

TEST(Plot, DotHasABoxForEachLayerAndAnArrowForEachInput) {
  const std::string dot = ToDot(TwoPaths(), {.show_shapes = true, .show_dtype = true});
  EXPECT_THAT(dot, AllOf(HasSubstr("n0 [label=<x (InputLayer)<BR/>(None, 4) float32>]"),
                         HasSubstr("n1 [label=<a (Dense)<BR/>(None, 4) float32>]"),
                         HasSubstr("n2 [label=<&lt;sum&gt; (Add)<BR/>(None, 4) float32>]")));
  EXPECT_THAT(dot, AllOf(HasSubstr("n0 -> n1;"), HasSubstr("n1 -> n2;"), HasSubstr("n0 -> n2;"),
                         Not(HasSubstr("n1 -> n0"))));
}

TEST(Plot, SvgBoxesAreOrderedAndDoNotOverlap) {
  const std::string svg = ToSvg(TwoPaths(), {.show_trainable = true});
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg xmlns"), HasSubstr(">x (InputLayer)</text>"),
                         HasSubstr("&lt;sum&gt; (Add)"), HasSubstr("</svg>")));
  EXPECT_LT(svg.find(">x (Input"), svg.find(">a (Dense"));
  // Three levels with one box each: three distinct heights.
  std::vector<std::string> heights;
  for (size_t at = svg.find("<rect x="); at != std::string::npos;
       at = svg.find("<rect x=", at + 1)) {
    const size_t y = svg.find("y=\"", at);
    heights.push_back(svg.substr(y, svg.find('"', y + 3) - y));
  }
  ASSERT_EQ(heights.size(), 3u);
  EXPECT_NE(heights[0], heights[1]);
  EXPECT_NE(heights[1], heights[2]);
}

}  // namespace plot_test
}  // namespace penstock::nn
