#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace window_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using testing::ExpectConforms;
using testing::ReadAll;
using testing::TestSource;

// As in tf.data: element j of window k is input element k * shift + j * stride.
std::vector<std::vector<int64_t>> Expected(int64_t rows, int64_t size, int64_t shift,
                                           int64_t stride, bool drop) {
  std::vector<std::vector<int64_t>> windows;
  for (int64_t first = 0; first < rows; first += shift) {
    std::vector<int64_t> window;
    for (int64_t j = 0; j < size && first + j * stride < rows; ++j) {
      window.push_back(first + j * stride);
    }
    if (!drop || static_cast<int64_t>(window.size()) == size) windows.push_back(window);
  }
  return windows;
}

TEST(Window, MatchesTfDataWindowsWithLeadingDimension) {
  for (int64_t rows : {0, 1, 7, 24}) {
    for (int64_t size : {1, 3, 4}) {
      for (int64_t shift : {1, 2, 3, 4, 9}) {
        for (int64_t stride : {1, 2, 5}) {
          for (bool drop : {false, true}) {
            SCOPED_TRACE(::testing::Message() << rows << " rows, " << size << ", " << shift << ", "
                                              << stride << ", " << drop);
            auto iterator =
                TestSource({.rows = rows})
                    .Window(size, {.shift = shift, .stride = stride, .drop_remainder = drop})
                    .MakeIterator();
            ASSERT_TRUE(iterator.ok()) << iterator.status();
            for (const auto& window : Expected(rows, size, shift, stride, drop)) {
              NamedArrays element;
              ASSERT_TRUE(*(*iterator)->Next(&element));
              const auto x = element.Find("x")->values<int64_t>();
              EXPECT_EQ(std::vector<int64_t>(x.begin(), x.end()), window);
              EXPECT_EQ(element.Find("v")->shape(),
                        base::Shape({static_cast<int64_t>(window.size()), 2}));
              EXPECT_EQ(element.Find("s")->data<absl::string_view>()[0],
                        "row " + std::to_string(window[0]));
            }
            NamedArrays element;
            EXPECT_FALSE(*(*iterator)->Next(&element));
          }
        }
      }
    }
  }
}

TEST(Window, SkipsGapsWhileItsInputIsPending) {
  for (int i = 0; i < 100; ++i) {
    auto iterator = Dataset::Zip({TestSource({.rows = 24, .portion = 1}), Dataset::Range(0, 24)})
                        .Enumerate()
                        .Window(2, {.shift = 5})
                        .MakeIterator();
    for (const auto& window : Expected(24, 2, 5, 1, false)) {
      NamedArrays element;
      ASSERT_TRUE(*(*iterator)->Next(&element));
      for (const char* column : {"x", "value", "index"}) {
        const auto values = element.Find(column)->values<int64_t>();
        EXPECT_EQ(std::vector<int64_t>(values.begin(), values.end()), window) << column;
      }
    }
  }
}

TEST(Window, ComputesEachElementOnceIfWindowsOverlap) {
  std::atomic<int64_t> calls = 0;
  const auto got = ReadAll(TestSource({.rows = 40})
                               .Map([&calls](const NamedArrays& in, NamedArrays* out) {
                                 ++calls;
                                 *out = in;
                                 return absl::OkStatus();
                               })
                               .Window(8, {.shift = 1}));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->size(), 40);
  EXPECT_EQ(calls, 40);
}

TEST(Window, RejectsInvalidParameters) {
  EXPECT_FALSE(TestSource().Window(0).status().ok());
  EXPECT_FALSE(TestSource().Window(2, {.shift = 0}).status().ok());
  EXPECT_FALSE(TestSource().Window(2, {.stride = 0}).status().ok());
  EXPECT_FALSE(TestSource().Window(INT64_MAX, {.stride = 2}).status().ok());
  EXPECT_EQ(TestSource().Window(3, {.drop_remainder = true}).spec()[1].ToString(),
            "v: float32[3,2]");
}

TEST(Window, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Window(3); });
  ExpectConforms([](const Dataset& d) { return d.Window(4, {.shift = 1}); });
  ExpectConforms([](const Dataset& d) { return d.Window(2, {.shift = 5, .drop_remainder = true}); },
                 {.max_ahead = 400});
}

}  // namespace window_test
}  // namespace penstock::data
