#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/record/example.h"

namespace penstock::data {
namespace parse_example_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::ReadAll;

// Example i: name "n<i>", box {i, -i}, i tags "t"; those with odd i have weight i.
Dataset Examples(int64_t n) {
  std::vector<std::string> records;
  for (int64_t i = 0; i < n; ++i) {
    const float f = static_cast<float>(i);
    record::ExampleBuilder example;
    example.SetBytes("name", absl::StrCat("n", i));
    example.SetFloatList("box", {f, -f});
    example.SetInt64List("tags", std::vector<int64_t>(static_cast<size_t>(i % 5), 7));
    if (i % 2 == 1) example.SetFloat("weight", f);
    records.push_back(example.Serialize());
  }
  return Dataset::FromArrays(
      {{"id", Array::Zeros(DType::kU8, {n})}, {"record", Array::Strings({n}, records)}});
}

const record::ExampleFeature kName = {.name = "name", .dtype = DType::kString};
const record::ExampleFeature kBox = {.name = "box", .dtype = DType::kF32, .shape = {2}};
const record::ExampleFeature kTags = {
    .name = "tags", .dtype = DType::kI64, .variable_length = true};
const record::ExampleFeature kWeight = {
    .name = "weight", .dtype = DType::kF32, .default_value = Array::Scalar<float>(0.5)};

TEST(ParseExample, MakesColumnsOfSchema) {
  const Dataset dataset = Examples(40).ParseExample({.features = {kName, kBox, kTags, kWeight}});
  EXPECT_EQ(dataset.spec().ToString(),
            "{id: uint8[], name: string[], box: float32[2], tags: int64[?], weight: float32[]}");
  const auto got = *ReadAll(dataset);
  ASSERT_EQ(got.size(), 40);
  EXPECT_EQ(got[3],
            "id=uint8[] {0} name=string[] {\"n3\"} box=float32[2] {3, -3} "
            "tags=int64[3] {7, 7, 7} weight=float32[] {3}");
  EXPECT_EQ(got[20],
            "id=uint8[] {0} name=string[] {\"n20\"} box=float32[2] {20, -20} "
            "tags=int64[0] {} weight=float32[] {0.5}");
}

TEST(ParseExample, InfersTheSchemaFromTheFirstRecord) {
  // The first record has neither tags nor weight.
  const Dataset dataset = Examples(3).Shuffle(3).ParseExample();
  EXPECT_EQ(dataset.spec().ToString(), "{id: uint8[], box: float32[2], name: string[]}");
  EXPECT_EQ(ReadAll(dataset)->size(), 3u);
  const Dataset all = Examples(8).ParseExample({.infer_records = 100});
  EXPECT_EQ(all.spec().ToString(),
            "{id: uint8[], box: float32[2], name: string[], tags: int64[?], weight: float32[?]}");
  EXPECT_EQ(ReadAll(all)->size(), 8u);
}

TEST(ParseExample, ReportsSchemaInferenceErrors) {
  EXPECT_THAT(std::string(Examples(0).ParseExample().status().message()),
              HasSubstr("there is no record to infer the schema from"));
  EXPECT_THAT(std::string(Examples(1).ParseExample({.column = "x"}).status().message()),
              AllOf(HasSubstr("ParseExample"), HasSubstr("x")));
  EXPECT_THAT(std::string(Examples(1).ParseExample({.column = "id"}).status().message()),
              HasSubstr("not one record each"));
  EXPECT_FALSE(Examples(1).ParseExample({.infer_records = 0}).status().ok());
  // After Skip(1), the first record has one tag, but record 5 has five.
  const Dataset tags = Examples(6).Skip(1).ParseExample();
  EXPECT_TRUE(tags.status().ok());
}

// Without columns, a dataset would have elements in which the records are lost.
TEST(ParseExample, RejectsFirstRecordsThatMakeNoUsableSchema) {
  const auto message = [](const std::vector<std::string>& records) {
    return std::string(
        Dataset::FromArrays(
            {{"record", base::Array::Strings({static_cast<int64_t>(records.size())}, records)}})
            .ParseExample()
            .status()
            .message());
  };
  record::ExampleBuilder empty, many;
  empty.SetInt64List("x", {});
  EXPECT_THAT(message({"", "x"}), AllOf(HasSubstr("record 0 has no features with values"),
                                        HasSubstr("inferred from FromArrays({record")));
  EXPECT_THAT(message({std::string(empty.Serialize())}), HasSubstr("no features with values"));
  EXPECT_THAT(message({"\x0a"}),
              AllOf(HasSubstr("FromArrays({record"), HasSubstr("not a tf.train.Example")));
  for (int i = 0; i <= 10'000; ++i) many.SetInt64(absl::StrCat("feature", i), i);
  EXPECT_THAT(message({std::string(many.Serialize())}),
              HasSubstr("record 0 has 10001 features; the schema is inferred from 1 to 10000"));
}

TEST(ParseExample, WritesIntoBatches) {
  const Dataset dataset =
      Examples(100).ParseExample({.features = {kName, kBox}}).Shuffle(9).Batch(64);
  for (int threads : {1, 4}) {
    base::ThreadPool pool(threads);
    auto iterator = dataset.MakeIterator({.pool = &pool, .seed = 1});
    int64_t rows = 0;
    for (NamedArrays batch; *(*iterator)->Next(&batch);) {
      const Array& name = *batch.Find("name");
      const Array& box = *batch.Find("box");
      for (int64_t i = 0; i < name.dim(0); ++i, ++rows) {
        const float x = box.data<float>()[2 * i];
        EXPECT_EQ(name.data<absl::string_view>()[i], absl::StrCat("n", static_cast<int64_t>(x)));
        EXPECT_EQ(box.data<float>()[2 * i + 1], -x);
      }
    }
    EXPECT_EQ(rows, 100);
  }
}

TEST(ParseExample, StringsOutliveTheirRecords) {
  NamedArrays batch;
  {
    auto iterator = Examples(8).ParseExample({.features = {kName}}).Batch(8).MakeIterator();
    ASSERT_TRUE(*(*iterator)->Next(&batch));
  }
  EXPECT_EQ(batch.Find("name")->data<absl::string_view>()[5], "n5");
}

// Whether they are in a batch or not, the strings of a list are views into the record.
TEST(ParseExample, StringListsKeepTheirRecord) {
  record::ExampleBuilder example;
  example.SetBytesList("tags", {"first of the tags", "second of the tags"});
  struct Record {
    std::string bytes;
    absl::string_view view;
  };
  auto record = std::make_shared<Record>();
  record->bytes = example.Serialize();
  record->view = record->bytes;
  const std::weak_ptr<Record> alive = record;
  NamedArrays element;
  {
    const Dataset dataset =
        Dataset::FromArrays({{"record", Array::View(DType::kString, {1}, &record->view, record)}})
            .ParseExample(
                {.features = {{.name = "tags", .dtype = DType::kString, .variable_length = true}}});
    record = nullptr;
    auto iterator = dataset.MakeIterator();
    ASSERT_TRUE(*(*iterator)->Next(&element));
  }
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(element.Find("tags")->data<absl::string_view>()[1], "second of the tags");
}

TEST(ParseExample, ListsOfDifferentLengthsDoNotStack) {
  const Dataset dataset = Examples(6).ParseExample({.features = {kTags}});
  base::ThreadPool pool(1);
  // The first row computed determines the error; it depends on whether a pool thread or the reader
  // computes it.
  EXPECT_THAT(std::string(ReadAll(dataset.Batch(6), {.pool = &pool}).status().message()),
              ContainsRegex("arrays:[0-5]: ParseExample: row [0-5] of the batch has tags of shape "
                            "\\[[0-4]\\], but row [0-5] \\(arrays:[0-5]\\) has \\[[0-4]\\]; "));
  EXPECT_EQ(ReadAll(dataset.Batch(1))->size(), 6);
}

TEST(ParseExample, NamesTheRecordAndTheFeature) {
  const Dataset dataset =
      Examples(9).ParseExample({.features = {{.name = "weight", .dtype = DType::kF32}}});
  for (const Dataset& d : {dataset.Skip(1), dataset.Skip(1).Batch(8)}) {
    EXPECT_THAT(std::string(ReadAll(d).status().message()),
                AllOf(HasSubstr("arrays:2: ParseExample: record: feature 'weight' is missing")));
  }
}

TEST(ParseExample, RejectsColumnsWithoutRecords) {
  const auto features = record::ExampleSchema{.features = {kName}};
  EXPECT_THAT(std::string(Examples(1).ParseExample(features, {.column = "id"}).status().message()),
              HasSubstr("id: uint8[]"));
  EXPECT_THAT(std::string(Examples(1).ParseExample(features, {.column = "r"}).status().message()),
              HasSubstr("'r'"));
  EXPECT_FALSE(Examples(1).ParseExample({.features = {kName, kName}}).status().ok());
}

}  // namespace parse_example_test
}  // namespace penstock::data
