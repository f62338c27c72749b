#include "penstock/nn/names.h"

#include <string>

#include "gtest/gtest.h"

namespace penstock::nn {
namespace names_test {

TEST(Names, SnakeCaseMatchesKeras) {
  const std::pair<const char*, const char*> kNames[] = {
      {"Dense", "dense"},
      {"Conv2D", "conv2d"},
      {"BatchNormalization", "batch_normalization"},
      {"MaxPooling2D", "max_pooling2d"},
      {"GlobalAveragePooling2D", "global_average_pooling2d"},
      {"ReLU", "re_lu"},
      {"RandomTranslation", "random_translation"},
      {"Conv2DTranspose", "conv2d_transpose"},
      {"L1L2", "l1l2"},
      {"Res2Net", "res2_net"},
      {"L2Normalization", "l2_normalization"},
  };
  for (const auto& [class_name, name] : kNames) EXPECT_EQ(SnakeCase(class_name), name);
}

TEST(Names, ClassNamesMatchFunctionNames) {
  EXPECT_TRUE(SameName("HeNormal", "he_normal"));
  EXPECT_TRUE(SameName("L1L2", "l1_l2"));
  EXPECT_FALSE(SameName("L1", "l1_l2"));
}

TEST(Names, StarMatchesAcrossSlashes) {
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("*", "a/b"));
  EXPECT_TRUE(MatchesPattern("backbone/*", "backbone/block1/conv/kernel"));
  EXPECT_TRUE(MatchesPattern("*_bn/*a", "block1_bn/beta_bn/gamma"));
  EXPECT_TRUE(MatchesPattern("conv?", "conv2"));
  EXPECT_FALSE(MatchesPattern("conv?", "conv"));
  EXPECT_FALSE(MatchesPattern("conv?", "conv12"));
  EXPECT_FALSE(MatchesPattern("backbone/*", "backbone"));
  EXPECT_FALSE(MatchesPattern("backbone", "backbone/conv"));
  EXPECT_FALSE(MatchesPattern("", "a"));
  EXPECT_TRUE(MatchesPathOrParent("backbone", "backbone/conv/kernel"));
  EXPECT_TRUE(MatchesPathOrParent("b*/conv", "backbone/conv/kernel"));
  EXPECT_FALSE(MatchesPathOrParent("back", "backbone/conv/kernel"));
  // Quadratic, not exponential, in the number of stars.
  EXPECT_FALSE(MatchesPattern("a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

TEST(Names, SimilarNamesComeFirst) {
  // Distances 1, 3, 6, 7, 7; the sixth, of 10, is left out.
  EXPECT_EQ(SimilarNames("avgpool", {"conv1", "avg_pool", "max_pool", "predictions", "a", "b"}),
            "'avg_pool', 'max_pool', 'a', 'conv1', 'b'");
  EXPECT_EQ(SimilarNames("x", {}), "");
}

}  // namespace names_test
}  // namespace penstock::nn
