#include "penstock/nn/names.h"

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
  };
  for (const auto& [class_name, name] : kNames) EXPECT_EQ(SnakeCase(class_name), name);
}

TEST(Names, ClassNamesMatchFunctionNames) {
  EXPECT_TRUE(SameName("HeNormal", "he_normal"));
  EXPECT_TRUE(SameName("L1L2", "l1_l2"));
  EXPECT_FALSE(SameName("L1", "l1_l2"));
}

}  // namespace names_test
}  // namespace penstock::nn
