#include "penstock/data/cache/rows_format.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace rows_format_test {

using base::Array;
using base::DType;

class Numbered : public OriginSource {
 public:
  std::string At(int64_t index) const override {
    return absl::StrCat("gs://bucket/train.tfrec:", index * 31, ":", index);
  }
};

const ElementSpec kSpec = {{"i", DType::kI64, {}},
                           {"image", DType::kU8, {-1, -1, 3}},
                           {"words", DType::kString, {-1}},
                           {"flag", DType::kBool, {2}},
                           {"lists", DType::kF32, {-1}}};

// `same`: all rows have the same shape.
BlockPtr MakeBlock(int64_t rows, bool same) {
  auto block = std::make_shared<Block>();
  block->rows = rows;
  Array i = Array::Uninitialized(DType::kI64, {rows});
  Array flag = Array::Uninitialized(DType::kBool, {rows, 2});
  std::vector<Array> images, words;
  std::vector<int64_t> splits = {0};
  for (int64_t r = 0; r < rows; ++r) {
    i.mutable_data<int64_t>()[r] = -r;
    flag.mutable_data<bool>()[2 * r] = r % 2 == 0;
    flag.mutable_data<bool>()[2 * r + 1] = r % 3 == 0;
    const int64_t n = same ? 2 : r % 4;
    Array image = Array::Uninitialized(DType::kU8, {n, 2, 3});
    for (int64_t k = 0; k < 6 * n; ++k) image.mutable_data<uint8_t>()[k] = uint8_t(r + k);
    images.push_back(image);
    std::vector<std::string> strings;
    for (int64_t k = 0; k < n; ++k) strings.push_back(std::string(static_cast<size_t>(r), 'a'));
    words.push_back(Array::Strings({n}, strings));
    splits.push_back(splits.back() + n);
  }
  Array lists = Array::Uninitialized(DType::kF32, {splits.back()});
  for (int64_t k = 0; k < splits.back(); ++k) lists.mutable_data<float>()[k] = float(k) / 2;
  block->columns = {Column(i), Column::List(images), Column::List(words), Column(flag),
                    Column::Ragged(lists, splits)};
  block->origins.Append(std::make_shared<Numbered>(), 7, rows);
  return block;
}

TEST(RowsFormat, RoundTripsRowsShapesAndOrigins) {
  for (bool same : {true, false}) {
    const BlockPtr block = MakeBlock(50, same);
    RowRefs rows;
    rows.Append(block, 40, 10);
    for (int64_t r = 39; r >= 0; r -= 3) rows.Append(block, r, 1);
    auto bytes = std::make_shared<const std::string>(SerializeRows(rows, kSpec));
    const auto parsed = ParseRows(*bytes, bytes, kSpec);
    bytes = nullptr;  // the strings keep the bytes alive
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    ASSERT_EQ((*parsed)->rows, rows.size());
    for (int64_t r = 0; r < rows.size(); ++r) {
      const auto [from, index] = rows.At(r);
      EXPECT_EQ((*parsed)->origins.At(r), from->origins.At(index));
      for (int c = 0; c < kSpec.size(); ++c) {
        EXPECT_TRUE(BitwiseEqual((*parsed)->columns[c].Row(r), from->columns[c].Row(index)))
            << kSpec[c].ToString() << " of row " << r;
      }
    }
    EXPECT_EQ((*parsed)->columns[1].dense(), same);
  }
}

TEST(RowsFormat, ConsecutiveOriginsUseFewBytes) {
  RowRefs rows;
  rows.Append(MakeBlock(200, true), 0, 200);
  EXPECT_LT(SerializeRows(rows, ElementSpec{}).size(), 200 * 12);
}

TEST(RowsFormat, RejectsTruncatedOrChangedBytes) {
  RowRefs rows;
  rows.Append(MakeBlock(5, false), 0, 5);
  const std::string bytes = SerializeRows(rows, kSpec);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto parsed = ParseRows(absl::string_view(bytes).substr(0, size), nullptr, kSpec);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(ParseRows(bytes + "x", nullptr, kSpec).ok());
  // After any changed byte, rows that parse still match the spec.
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int change : {1, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const auto parsed = ParseRows(changed, nullptr, kSpec);
      if (!parsed.ok()) continue;
      for (int c = 0; c < kSpec.size(); ++c) {
        for (int64_t r = 0; r < (*parsed)->rows; ++r) {
          EXPECT_TRUE(Fits((*parsed)->columns[c].RowShape(r), kSpec[c].shape));
        }
      }
    }
  }
}

TEST(RowsFormat, RejectsShapesThatDoNotFitSpec) {
  RowRefs rows;
  rows.Append(MakeBlock(3, true), 0, 3);
  const std::string bytes = SerializeRows(rows, kSpec);
  ElementSpec other = kSpec;
  other.Set({"image", DType::kU8, {3, -1, 3}});
  EXPECT_FALSE(ParseRows(bytes, nullptr, other).ok());
}

TEST(RowsFormat, RestoresErrorsOfElements) {
  const absl::Status error =
      RecoverableError(absl::OutOfRangeError("too: far"), "a.tfrec:7:1", "Map");
  const std::string bytes = SerializeError(error);
  EXPECT_TRUE(IsError(bytes));
  absl::Status parsed;
  PENSTOCK_CHECK_OK(ParseError(bytes, &parsed));
  EXPECT_EQ(parsed, error);  // including the flag of a recoverable error
  EXPECT_TRUE(IsRecoverable(parsed));
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(ParseError(absl::string_view(bytes).substr(0, size), &parsed).code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(ParseError(bytes + "x", &parsed).ok());
  std::string ok = bytes;
  ok[1] = 0;  // the code of OK, which is not an error
  EXPECT_FALSE(ParseError(ok, &parsed).ok());
  RowRefs rows;
  rows.Append(MakeBlock(3, true), 0, 3);
  EXPECT_FALSE(IsError(SerializeRows(rows, kSpec)));
}

}  // namespace rows_format_test
}  // namespace penstock::data
