#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace scan_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::TestSource;

// State: the sum of x so far, and the number of calls.
absl::Status Sum(const NamedArrays& in, NamedArrays* state, NamedArrays* out) {
  const int64_t sum = state->Find("sum")->item<int64_t>() + in.Find("x")->item<int64_t>();
  state->Set("sum", Array::Scalar<int64_t>(sum));
  out->Set("sum", Array::Scalar<int64_t>(sum));
  return absl::OkStatus();
}
const MapOptions kSum = {
    .name = "sum", .reads = {"x"}, .makes = {{"sum", DType::kI64, {}}}, .drops = {"v", "s"}};

Dataset Sums(const Dataset& dataset) {
  return dataset.Scan({{"sum", Array::Scalar<int64_t>(1000)}}, Sum, kSum);
}

std::vector<int64_t> Read(const Dataset& dataset) {
  std::vector<int64_t> sums;
  auto iterator = dataset.MakeIterator();
  for (NamedArrays element; *(*iterator)->Next(&element);) {
    for (int64_t sum : element.Find("sum")->values<int64_t>()) sums.push_back(sum);
  }
  return sums;
}

TEST(Scan, PassesStateBetweenElements) {
  for (const Dataset& dataset :
       {Sums(TestSource({.rows = 3000})), Sums(TestSource({.rows = 3000})).Batch(7)}) {
    const std::vector<int64_t> sums = Read(dataset);
    ASSERT_EQ(sums.size(), 3000);
    for (int64_t i = 0; i < 3000; ++i) ASSERT_EQ(sums[i], 1000 + i * (i + 1) / 2);
  }
  EXPECT_EQ(Sums(TestSource()).spec().ToString(), "{x: int64[], sum: int64[]}");
}

TEST(Scan, RestartsInEachPass) {
  EXPECT_EQ(Read(Sums(TestSource({.rows = 4})).Repeat(2)),
            (std::vector<int64_t>{1000, 1001, 1003, 1006, 1000, 1001, 1003, 1006}));
  EXPECT_EQ(Read(Sums(TestSource({.rows = 4}).Repeat(2))),
            (std::vector<int64_t>{1000, 1001, 1003, 1006, 1006, 1007, 1009, 1012}));
}

TEST(Scan, ErrorsNameElementAndChangedState) {
  const Dataset dataset =
      TestSource().Scan({{"n", Array::Scalar<int64_t>(0)}},
                        [](const NamedArrays& in, NamedArrays* state, NamedArrays* out) {
                          *out = in;
                          if (in.Find("x")->item<int64_t>() == 8)
                            state->Set("n", Array::Scalar<float>(0));
                          return absl::OkStatus();
                        });
  EXPECT_THAT(
      std::string(ReadAll(dataset).status().message()),
      HasSubstr("source:8: Scan: the function changed the state to {n: float32[]}, which was {n: "
                "int64[]}"));
  EXPECT_FALSE(TestSource().Scan({}, nullptr).status().ok());
}

TEST(Scan, FailedCallLeavesStateUnchanged) {
  const Dataset dataset = TestSource({.rows = 10})
                              .Scan(
                                  {{"sum", Array::Scalar<int64_t>(0)}},
                                  [](const NamedArrays& in, NamedArrays* state, NamedArrays* out) {
                                    PENSTOCK_RETURN_IF_ERROR(Sum(in, state, out));
                                    if (in.Find("x")->item<int64_t>() == 4)
                                      return absl::DataLossError("bad");
                                    return absl::OkStatus();
                                  },
                                  kSum)
                              .IgnoreErrors();
  EXPECT_EQ(Read(dataset), (std::vector<int64_t>{0, 1, 3, 6, 11, 17, 24, 32, 41}));
}

TEST(Scan, Conforms) {
  ExpectConforms(Sums, {.rows_depend_on_order = true, .max_ahead = 20000});
  ExpectConforms([](const Dataset& d) { return Sums(d).Batch(4); },
                 {.rows_depend_on_order = true, .max_ahead = 20000});
}

}  // namespace scan_test
}  // namespace penstock::data
