#include "penstock/cli/training/moving_averages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/models/by_name.h"

namespace penstock::cli {
namespace moving_averages_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MovingAverages, NotesATrainingThatIsTooShort) {
  const auto resnet = models::ByName("resnet20", {.input_shape = {32, 32, 3}, .classes = 2});
  ASSERT_TRUE(resnet.ok()) << resnet.status();
  // 0.99^138 = 0.25; 0.99^230 = 0.099.
  EXPECT_THAT(MovingAveragesNote(*resnet, 138),
              AllOf(HasSubstr("after 138 steps"), HasSubstr("momentum 0.99"), HasSubstr("by 25 %"),
                    HasSubstr("at least 230 steps")));
  EXPECT_EQ(MovingAveragesNote(*resnet, 230), "");
  EXPECT_NE(MovingAveragesNote(*resnet, 229), "");
  const auto mlp = models::ByName("mlp", {.input_shape = {8, 8, 3}, .classes = 2});
  ASSERT_TRUE(mlp.ok()) << mlp.status();
  EXPECT_EQ(MovingAveragesNote(*mlp, 1), "");
}

}  // namespace moving_averages_test
}  // namespace penstock::cli
