#include "penstock/estimator/params.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/contract_error.h"

namespace penstock::estimator {
namespace params_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Params, ConvertsToTheTypeOfTheVariable) {
  const Params params = {{"units", 32},
                         {"rate", 0.5},
                         {"name", "small"},
                         {"bias", true},
                         {"shape", base::Shape{8, 1}},
                         {"hidden", ParamValue::Numbers{10, 20}}};
  const int64_t units = params["units"];
  const double rate = params["rate"], as_double = params["units"];
  const std::string name = params["name"];
  const bool bias = params["bias"];
  const base::Shape shape = params["shape"];
  const std::vector<double> hidden = params["hidden"];
  EXPECT_EQ(units, 32);
  EXPECT_EQ(rate, 0.5);
  EXPECT_EQ(as_double, 32);
  EXPECT_EQ(name, "small");
  EXPECT_TRUE(bias);
  EXPECT_EQ(shape, (base::Shape{8, 1}));
  EXPECT_EQ(hidden, (std::vector<double>{10, 20}));
}

TEST(Params, RejectsAnIntegerThatTheTypeCannotHold) {
  const Params params = {{"seed", int64_t{1} << 40}};
  EXPECT_EQ(params.Get("seed", int64_t{0}), int64_t{1} << 40);
  EXPECT_THAT([&] { (void)params.Get("seed", 0); },
              ThrowsMessage<base::ContractError>(
                  HasSubstr("params['seed'] is 1099511627776, which an int cannot hold")));
}

TEST(Params, ReturnsDefaultForMissingName) {
  const Params params = {{"rate", 0.5}};
  EXPECT_EQ(params.Get("rate", 0.1), 0.5);
  EXPECT_EQ(params.Get("momentum", 0.9), 0.9);
  EXPECT_EQ(params.Get("name", "none"), "none");
}

TEST(Params, RejectsMissingNameAndOtherType) {
  const Params params = {{"rate", 0.5}};
  EXPECT_THAT(
      [&] { (void)params["units"].AsInt(); },
      ThrowsMessage<base::ContractError>(HasSubstr("params has no 'units'; it has {rate: 0.5}")));
  EXPECT_THAT(
      [&] { (void)params["rate"].AsInt(); },
      ThrowsMessage<base::ContractError>(HasSubstr("params['rate'] is 0.5, not an integer")));
}

TEST(Params, SetReplaces) {
  Params params = {{"a", 1}};
  params.Set("a", "text");
  EXPECT_EQ(params["a"].AsString(), "text");
  EXPECT_EQ(params.size(), 1u);
}

}  // namespace params_test
}  // namespace penstock::estimator
