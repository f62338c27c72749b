#include "penstock/nn/network_size.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace network_size_test {

NetworkSize SizeFrom(const Network& network) {
  const auto size = SizeOf(network);
  EXPECT_TRUE(size.ok()) << size.status();
  return size.value_or(NetworkSize());
}

TEST(SizeOf, CountsVariablesAndProducts) {
  const Symbol x = Input({.shape = {12, 10, 4}});
  Symbol y = Conv2D({.filters = 8, .kernel_size = 3, .padding = "same"})(x);
  y = BatchNormalization()(y);
  y = DepthwiseConv2D({.kernel_size = 5, .strides = 2})(y);  // [4, 3, 8]
  y = Dense({.units = 6, .use_bias = false})(y);             // at each of the 12 positions
  y = Dense({.units = 3})(Flatten()(y));
  const Network network({x}, {y});
  const int64_t conv = 12 * 10 * 8 * 3 * 3 * 4, depthwise = 4 * 3 * 8 * 5 * 5,
                dense = 4 * 3 * 8 * 6, last = 4 * 3 * 6 * 3;
  const NetworkSize size = SizeFrom(network);
  EXPECT_EQ(size.multiply_adds, conv + depthwise + dense + last);
  EXPECT_EQ(size.parameters, (3 * 3 * 4 * 8 + 8) + 4 * 8 + (5 * 5 * 8 + 8) + 8 * 6 + (72 * 3 + 3));
  EXPECT_EQ(size.bytes, 4 * size.parameters);
  // Computing in bfloat16 changes neither the variables' types nor the products.
  const NetworkSize mixed = SizeFrom(network.WithPolicy("mixed_bfloat16"));
  EXPECT_EQ(mixed.bytes, size.bytes);
  EXPECT_EQ(mixed.multiply_adds, size.multiply_adds);
  // The 16 moving averages remain in float32.
  EXPECT_EQ(SizeFrom(network.WithPolicy("bfloat16")).bytes, 2 * size.parameters + 2 * 16);
}

// A shared layer is stored once and computed at each of its uses; augmentation is for training.
TEST(SizeOf, CountsSharedLayersLoopsAndPredictionOnly) {
  const Symbol x = Input({.shape = {9, 5}});
  const Layer dense = Dense({.units = 5, .use_bias = false});
  const Network twice({x}, {dense(dense(x))});
  EXPECT_EQ(SizeFrom(twice).parameters, 5 * 5);
  EXPECT_EQ(SizeFrom(twice).multiply_adds, 2 * 9 * 5 * 5);
  const Network recurrent({x}, {SimpleRNN({.units = 7})(x)});
  EXPECT_EQ(SizeFrom(recurrent).multiply_adds, 9 * (5 * 7 + 7 * 7));
  const Symbol image = Input({.shape = {8, 8, 3}});
  EXPECT_EQ(SizeFrom(Network({image}, {RandomRotation({.factor = 0.5})(image)})).multiply_adds, 0);
}

TEST(SizeOf, ReturnsTheErrorOfTheNetwork) {
  const Symbol x = Input({.shape = {4, 4, 3}});
  const Network broken({x}, {Conv2D({.filters = 2, .kernel_size = 5})(x)});
  EXPECT_EQ(SizeOf(broken).status(), broken.status());
  EXPECT_THAT(std::string(SizeOf(broken).status().message()), ::testing::HasSubstr("conv2d"));
}

}  // namespace network_size_test
}  // namespace penstock::nn
