#include "penstock/record/example.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/array.h"
#include "penstock/base/random.h"

namespace penstock::record {
namespace example_test {

using base::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Encodes a field of type bytes; the size must be below 128, the field number below 16.
std::string Field(int number, absl::string_view content) {
  return absl::StrCat(std::string(1, static_cast<char>(number << 3 | 2)),
                      std::string(1, static_cast<char>(content.size())), content);
}

std::string Entry(absl::string_view name, absl::string_view feature) {
  return Field(1, absl::StrCat(Field(1, name), Field(2, feature)));
}

std::string Example(absl::string_view entries) { return Field(1, entries); }

std::string Int64Feature(absl::string_view list) { return Field(3, list); }
std::string FloatFeature(absl::string_view list) { return Field(2, list); }
std::string BytesFeature(absl::string_view list) { return Field(1, list); }

template <typename T>
std::vector<T> ValuesOf(absl::string_view record, const std::string& name) {
  const FeatureMap features = ReadExample(record).value();
  const auto values = features.at(name).values<T>();
  return std::vector<T>(values.begin(), values.end());
}

TEST(ExampleBuilder, BytesEqualProtobufs) {
  // tfrecord_test.cc compares with TensorFlow's bytes; here the expected bytes are spelled out.
  ExampleBuilder example;
  example.SetInt64List("n", {1, 300, -1});
  example.SetBytes("b", "xy");
  example.SetFloat("f", 1.0f);
  const std::string ints("\x01\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
  EXPECT_EQ(
      example.Serialize(),
      Example(absl::StrCat(Entry("b", BytesFeature(Field(1, "xy"))),
                           Entry("f", FloatFeature(Field(1, absl::string_view("\0\0\x80?", 4)))),
                           Entry("n", Int64Feature(Field(1, ints))))));
  EXPECT_EQ(ExampleBuilder().Serialize(), Example(""));
}

TEST(ExampleBuilder, BytesDoNotDependOnTheOrderOfSetting) {
  ExampleBuilder one;
  one.SetInt64("a", 1);
  one.SetInt64("b", 2);
  ExampleBuilder other;
  other.SetFloat("b", 7);
  other.SetInt64("b", 2);
  other.SetInt64("a", 1);
  EXPECT_EQ(one.Serialize(), other.Serialize());
  std::string reused = "old content";
  one.SerializeTo(&reused);
  EXPECT_EQ(reused, other.Serialize());
  one.Clear();
  EXPECT_EQ(one.Serialize(), ExampleBuilder().Serialize());
}

TEST(Example, RoundTripsExtremesOfEachType) {
  const std::string all_bytes = [] {
    std::string s;
    for (int i = 0; i < 256; ++i) s.push_back(static_cast<char>(i));
    return s;
  }();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ExampleBuilder example;
  example.SetBytesList("b", {"", all_bytes, std::string(100000, 'x')});
  example.SetInt64List("i", {kMin, -1, 0, 1, 127, 128, kMax});
  example.SetFloatList("f", {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(),
                             -std::numeric_limits<float>::infinity(), nan});
  example.SetInt64List("none", {});
  example.SetInt64("", 5);
  const std::string record = example.Serialize();
  EXPECT_THAT(ValuesOf<absl::string_view>(record, "b"),
              ElementsAre("", all_bytes, std::string(100000, 'x')));
  EXPECT_THAT(ValuesOf<int64_t>(record, "i"), ElementsAre(kMin, -1, 0, 1, 127, 128, kMax));
  const std::vector<float> floats = ValuesOf<float>(record, "f");
  ASSERT_THAT(floats, SizeIs(5));
  EXPECT_TRUE(std::signbit(floats[1]));
  EXPECT_EQ(floats[2], std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isnan(floats[4]));
  EXPECT_THAT(ValuesOf<int64_t>(record, "none"), IsEmpty());
  EXPECT_THAT(ValuesOf<int64_t>(record, ""), ElementsAre(5));
}

TEST(Example, StringsAreViewsIntoTheRecord) {
  ExampleBuilder example;
  example.SetBytes("image", "pixels");
  const std::string record = example.Serialize();
  const absl::string_view value = ValuesOf<absl::string_view>(record, "image")[0];
  EXPECT_GE(value.data(), record.data());
  EXPECT_LE(value.data() + value.size(), record.data() + record.size());
}

TEST(Example, SetArrayRoundTripsEachType) {
  const FeatureMap features = {{"b", Array::Strings({2}, {"x", ""})},
                               {"f", Array::Of<float>({3}, {1, 2, 3})},
                               {"i", Array::Of<int64_t>({0}, {})},
                               {"nothing", Array()}};
  ExampleBuilder example;
  for (const auto& [name, values] : features) example.SetArray(name, values);
  const std::string record = example.Serialize();
  const FeatureMap read = ReadExample(record).value();
  ASSERT_EQ(read.size(), 4u);
  for (const auto& [name, values] : features) {
    if (!values.valid()) {
      EXPECT_FALSE(read.at(name).valid());
      continue;
    }
    EXPECT_TRUE(BitwiseEqual(read.at(name), values)) << name;
  }
}

TEST(Example, ReadsPackedUnpackedAndMixedNumbers) {
  // Int64List: 1; packed {2, 300}; 3. FloatList: 1.0; packed {2.0}; 1.0.
  const std::string ints = absl::StrCat("\x08\x01", Field(1, "\x02\xac\x02"), "\x08\x03");
  const std::string one("\x0d\0\0\x80?", 5);
  const std::string floats = absl::StrCat(one, Field(1, absl::string_view("\0\0\0@", 4)), one);
  const std::string record =
      Example(absl::StrCat(Entry("i", Int64Feature(ints)), Entry("f", FloatFeature(floats))));
  EXPECT_THAT(ValuesOf<int64_t>(record, "i"), ElementsAre(1, 2, 300, 3));
  EXPECT_THAT(ValuesOf<float>(record, "f"), ElementsAre(1, 2, 1));
}

TEST(Example, MergesLikeProtobuf) {
  // The last entry with a given name wins, also across two Features messages.
  const std::string seven = Int64Feature(Field(1, "\x07"));
  const std::string eight = Int64Feature(Field(1, "\x08"));
  EXPECT_THAT(ValuesOf<int64_t>(
                  Example(Entry("n", seven)) + Example(Entry("m", seven) + Entry("n", eight)), "n"),
              ElementsAre(8));
  // Two parts of a list are concatenated; a list of another type replaces it.
  EXPECT_THAT(ValuesOf<int64_t>(Example(Entry("n", seven + eight)), "n"), ElementsAre(7, 8));
  EXPECT_THAT(ValuesOf<int64_t>(Example(Entry("n", BytesFeature(Field(1, "x")) + eight)), "n"),
              ElementsAre(8));
  // Value before key; missing value; missing key.
  EXPECT_THAT(ValuesOf<int64_t>(Example(Field(1, Field(2, seven) + Field(1, "n"))), "n"),
              ElementsAre(7));
  EXPECT_FALSE(ReadExample(Example(Field(1, Field(1, "n"))))->at("n").valid());
  EXPECT_THAT(ValuesOf<int64_t>(Example(Field(1, Field(2, seven))), ""), ElementsAre(7));
}

TEST(Example, SkipsUnknownFields) {
  const std::string group("\x7b\x7b\x08\x05\x7c\x7c", 6);       // nested groups, field number 15
  const std::string fixed64 = "\x79" + std::string(8, '\xff');  // field number 15
  const std::string unknown = absl::StrCat(group, fixed64, Field(14, "bytes"), "\x70\x01");
  const std::string wrong_type("\x08\x05", 2);  // field number 1, but a varint
  const std::string feature = absl::StrCat(unknown, wrong_type, Int64Feature(Field(1, "\x07")));
  const std::string record =
      absl::StrCat(unknown, wrong_type, Example(absl::StrCat(unknown, Entry("n", feature))));
  EXPECT_THAT(ValuesOf<int64_t>(record, "n"), ElementsAre(7));
}

TEST(Example, MalformedRecordErrorNamesByte) {
  struct Case {
    std::string record;
    const char* what;
  };
  const std::string many_groups(101, '\x0b');
  const Case cases[] = {
      {"\x0a", "a length is truncated, at byte 1 of 1"},
      {"\x0a\x05x", "a field extends past the end, at byte 2 of 3"},
      {std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11), "extends past the end"},
      {"\x80", "a field tag is truncated"},
      {std::string("\x00\x00", 2), "a field number is invalid"},
      {"\x80\x80\x80\x80\x80\x01", "a field number is invalid"},
      {"\x0f", "invalid wire type"},
      {"\x0c", "invalid wire type"},
      {"\x09\x01", "a field extends past the end"},
      {std::string(11, '\xff'), "a field tag is truncated"},
      {"\x0b\x08", "a varint is truncated"},
      {"\x0b", "a group has no end tag"},
      {"\x0b\x14", "does not match its group"},
      {many_groups, "groups are nested too deep"},
      {Example(Entry("n", Int64Feature(Field(1, "\x80")))), "integers is truncated"},
      {Example(Entry("n", FloatFeature(Field(1, "123")))), "floats is truncated"},
      {Example(Field(1, Field(2, "") + Field(2, ""))), "a feature has two values"},
  };
  for (const Case& c : cases) {
    const absl::Status status = ReadExample(c.record).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.what));
  }
}

TEST(Example, TruncatedRecordIsErrorOrIncomplete) {
  ExampleBuilder example;
  example.SetBytes("image", std::string(200, 'x'));
  example.SetInt64List("class", {1, 300});
  example.SetFloat("score", 1);
  const std::string record = example.Serialize();
  for (size_t size = 1; size < record.size(); ++size) {
    EXPECT_FALSE(ReadExample(absl::string_view(record).substr(0, size)).ok()) << size;
  }
}

TEST(Example, RandomBytesStayInBounds) {
  // Memory errors are caught by the sanitizers; example_fuzz.cc runs longer.
  ExampleBuilder example;
  example.SetBytesList("image", {"abc", "defg"});
  example.SetInt64List("class", {1, 300});
  example.SetFloatList("score", {1, 2});
  const std::string record = example.Serialize();
  base::Random random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = record;
    for (uint64_t k = random.Below(4) + 1; k > 0; --k) {
      bad[random.Below(bad.size())] = static_cast<char>(random.Next());
    }
    const std::vector<char> exact(bad.begin(), bad.end());
    const absl::string_view view(exact.data(), exact.size());
    const absl::StatusOr<FeatureMap> features = ReadExample(view);
    EXPECT_TRUE(features.ok() || absl::IsDataLoss(features.status()));
  }
}

TEST(DescribeExample, ListsNamesTypesAndCounts) {
  ExampleBuilder example;
  example.SetBytes("image", "pixels");
  example.SetInt64List("class", {1, 2});
  example.SetArray("nothing", Array());
  EXPECT_EQ(DescribeExample(example.Serialize()),
            "class int64 (2), image bytes (1), nothing empty");
  EXPECT_EQ(DescribeExample(example.Serialize(), 1), "class int64 (2), ... 2 more");
  EXPECT_EQ(DescribeExample(""), "nothing");
  EXPECT_THAT(DescribeExample("\x0a"), HasSubstr("not a tf.train.Example"));
}

}  // namespace example_test
}  // namespace penstock::record
