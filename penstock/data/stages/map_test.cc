#include <atomic>
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace map_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::TestSource;

absl::Status Square(const NamedArrays& in, NamedArrays* out) {
  const int64_t x = in.Find("x")->item<int64_t>();
  out->Set("square", Array::Scalar<int64_t>(x * x));
  return absl::OkStatus();
}
const MapOptions kSquare = {
    .name = "square", .reads = {"x"}, .makes = {{"square", DType::kI64, {}}}, .drops = {"v", "s"}};

TEST(Map, AddsColumnsAndForwardsOthers) {
  const Dataset dataset = TestSource({.rows = 30}).Map(Square, kSquare);
  EXPECT_EQ(dataset.spec().ToString(), "{x: int64[], square: int64[]}");
  auto iterator = dataset.MakeIterator();
  NamedArrays element;
  for (int64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(element.Find("x")->item<int64_t>(), i);
    EXPECT_EQ(element.Find("square")->item<int64_t>(), i * i);
  }
}

TEST(Map, ReplacesAColumnInPlace) {
  const Dataset dataset = TestSource().Map(
      [](const NamedArrays& in, NamedArrays* out) {
        EXPECT_EQ(in.size(), 1);
        out->Set("x", *in.Find("x")->Cast(DType::kF32));
        return absl::OkStatus();
      },
      {.reads = {"x"}, .makes = {{"x", DType::kF32, {}}}});
  EXPECT_EQ(dataset.spec().ToString(), "{x: float32[], v: float32[2], s: string[]}");
  EXPECT_THAT((*ReadAll(dataset))[3], HasSubstr("x=float32[] {3}"));
}

TEST(Map, ReceivesWholeBatch) {
  const Dataset dataset = TestSource({.rows = 6})
                              .Batch(4)
                              .Map(
                                  [](const NamedArrays& in, NamedArrays* out) {
                                    out->Set("rows", Array::Scalar<int64_t>(in.Find("v")->dim(0)));
                                    return absl::OkStatus();
                                  },
                                  {.makes = {{"rows", DType::kI64, {}}}, .drops = {"x", "v", "s"}});
  EXPECT_EQ(*ReadAll(dataset), (std::vector<std::string>{"rows=int64[] {4}", "rows=int64[] {2}"}));
}

TEST(Map, MakesStrings) {
  const Dataset dataset = TestSource({.rows = 50})
                              .Map(
                                  [](const NamedArrays& in, NamedArrays* out) {
                                    const absl::string_view s =
                                        in.Find("s")->data<absl::string_view>()[0];
                                    out->Set("s", Array::Strings({}, {"<" + std::string(s) + ">"}));
                                    return absl::OkStatus();
                                  },
                                  {.reads = {"s"}});
  EXPECT_THAT((*ReadAll(dataset))[42], HasSubstr("\"<row 42>\""));
  EXPECT_THAT((*ReadAll(dataset.Batch(50)))[0], HasSubstr("\"<row 42>\""));
}

TEST(Map, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Map(Square, kSquare); }, {.max_ahead = 1500});
  ExpectConforms([](const Dataset& d) { return d.Map(Square, kSquare).Batch(3); });
  ExpectConforms([](const Dataset& d) { return d.Map(Square, kSquare).Cache().Shuffle(4); },
                 {.max_ahead = 1500});
  ExpectConforms([](const Dataset& d) {
    return d.Map(Square, kSquare).Shuffle(5).Repeat(2).Skip(3).Batch(4);
  });
}

TEST(Map, NamesTheElementThatFails) {
  const auto fail = [](const NamedArrays& in, NamedArrays*) {
    return in.Find("x")->item<int64_t>() < 7 ? absl::OkStatus() : absl::DataLossError("too large");
  };
  const Dataset dataset = TestSource().Map(
      [&](const NamedArrays& in, NamedArrays* out) {
        *out = in;
        return fail(in, out);
      },
      {.name = "check"});
  for (const Dataset& d : {dataset, dataset.Batch(4), dataset.Batch(100), dataset.Cache()}) {
    const auto got = ReadAll(d);
    EXPECT_EQ(got.status().message(), "source:7: Map: too large") << d.ToString();
    EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(Map, ErrorNamesExpectedAndActualColumns) {
  const auto wrong = [](const NamedArrays&, NamedArrays* out) {
    out->Set("square", Array::Scalar<float>(1));
    return absl::OkStatus();
  };
  EXPECT_THAT(std::string(ReadAll(TestSource().Map(wrong, kSquare)).status().message()),
              AllOf(HasSubstr("source:0"), HasSubstr("square: int64[]"), HasSubstr("float32[]")));
  const auto nothing = [](const NamedArrays&, NamedArrays*) { return absl::OkStatus(); };
  EXPECT_THAT(std::string(ReadAll(TestSource().Map(nothing, kSquare)).status().message()),
              HasSubstr("no such column"));
}

TEST(Map, RejectsMissingColumns) {
  EXPECT_THAT(std::string(TestSource().Map(Square, {.reads = {"y"}}).status().message()),
              AllOf(HasSubstr("Map(function"), HasSubstr("'y'"), HasSubstr("x: int64[]")));
  EXPECT_FALSE(TestSource().Map(Square, {.drops = {"y"}}).status().ok());
  EXPECT_FALSE(TestSource().Map(nullptr).status().ok());
}

TEST(Map, IsNotCalledForSkippedElements) {
  std::atomic<int> calls = 0;
  const auto count = [&](const NamedArrays& in, NamedArrays* out) {
    ++calls;
    return Square(in, out);
  };
  const Dataset dataset = TestSource({.rows = 20}).Map(count, kSquare).Skip(15);
  EXPECT_EQ(ReadAll(dataset)->size(), 5);
  EXPECT_EQ(calls, 5);
  calls = 0;
  EXPECT_EQ(ReadAll(TestSource({.rows = 20}).Map(count, kSquare).Batch(4), {.skip = 3})->size(), 2);
  EXPECT_EQ(calls, 8);
}

TEST(Map, PrintsThatFunctionIsLocal) {
  EXPECT_THAT(TestSource().Map(Square, kSquare).ToString(),
              HasSubstr("Map(square, C++ of this process)"));
}

}  // namespace map_test
}  // namespace penstock::data
