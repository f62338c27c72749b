#include <cstdlib>
#include <numeric>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"

namespace penstock::data {
namespace map_column_test {

using base::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadAll;

Dataset Rows() {
  return Dataset::FromArrays({{"x", Array::Of<uint8_t>({2, 2}, {0, 51, 102, 255})},
                              {"name", Array::Strings({2}, {"Ab", "c"})}});
}

TEST(MapColumn, MapsEachNumberToOneOfAnotherType) {
  const Dataset dataset =
      Rows().Map<uint8_t>("x", [](uint8_t pixel) { return static_cast<float>(pixel) / 255; });
  EXPECT_EQ(dataset.spec().ToString(), "{x: float32[2], name: string[]}");
  EXPECT_THAT(*ReadAll(dataset), ElementsAre("x=float32[2] {0, 0.2} name=string[] {\"Ab\"}",
                                             "x=float32[2] {0.4, 1} name=string[] {\"c\"}"));
}

TEST(MapColumn, MapsAnElementToOneNumber) {
  const Dataset dataset = Rows().Map<uint8_t>(
      "x",
      [](absl::Span<const uint8_t> x) { return std::accumulate(x.begin(), x.end(), int64_t{0}); },
      {.makes = "sum"});
  EXPECT_EQ(dataset.spec().ToString(), "{x: uint8[2], name: string[], sum: int64[]}");
  EXPECT_THAT(*ReadAll(dataset),
              ElementsAre("x=uint8[2] {0, 51} name=string[] {\"Ab\"} sum=int64[] {51}",
                          "x=uint8[2] {102, 255} name=string[] {\"c\"} sum=int64[] {357}"));
}

TEST(MapColumn, ChangesAnElementInPlaceWithoutTouchingTheSource) {
  const Array source = Array::Of<int32_t>({2, 2}, {1, 2, 3, 4});
  const Dataset dataset =
      Dataset::FromArrays({{"x", source}}).Map<int32_t>("x", [](absl::Span<int32_t> x) {
        std::swap(x[0], x[1]);
      });
  EXPECT_THAT(*ReadAll(dataset), ElementsAre("x=int32[2] {2, 1}", "x=int32[2] {4, 3}"));
  EXPECT_THAT(source.values<int32_t>(), ElementsAre(1, 2, 3, 4));
}

TEST(MapColumn, MapsStrings) {
  const Dataset dataset =
      Rows()
          .Map<absl::string_view>(
              "name", [](absl::string_view name) { return static_cast<int64_t>(name.size()); },
              {.makes = "length"})
          .Map<absl::string_view>(
              "name", [](absl::string_view name) { return absl::AsciiStrToLower(name); });
  EXPECT_THAT(*ReadAll(dataset),
              ElementsAre("x=uint8[2] {0, 51} name=string[] {\"ab\"} length=int64[] {2}",
                          "x=uint8[2] {102, 255} name=string[] {\"c\"} length=int64[] {1}"));
}

TEST(MapColumn, FailedResultIsErrorOfElement) {
  const Dataset dataset =
      Rows().Map<absl::string_view>("name", [](absl::string_view name) -> absl::StatusOr<bool> {
        if (name == "c") return absl::InvalidArgumentError("no good");
        return true;
      });
  EXPECT_EQ(dataset.spec()[1].ToString(), "name: bool[]");
  EXPECT_THAT(std::string(ReadAll(dataset).status().message()), HasSubstr("no good"));
  EXPECT_EQ(ReadAll(dataset.IgnoreErrors())->size(), 1u);
  const Dataset spans = Rows().Map<uint8_t>("x", [](absl::Span<uint8_t> x) {
    return x[0] > 100 ? absl::InvalidArgumentError("too bright") : absl::OkStatus();
  });
  EXPECT_THAT(std::string(ReadAll(spans).status().message()), HasSubstr("too bright"));
}

TEST(MapColumn, RejectsAnotherTypeAndAnUnknownColumn) {
  const auto same = [](float x) { return x; };
  EXPECT_THAT(std::string(Rows().Map<float>("x", same).status().message()),
              HasSubstr("x: uint8[2] holds no float32; call Map with the C++ type of uint8"));
  EXPECT_THAT(std::string(Rows().Map<float>("y", same).MakeIterator().status().message()),
              HasSubstr("y"));
}

}  // namespace map_column_test
}  // namespace penstock::data
