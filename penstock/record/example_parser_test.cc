#include "penstock/record/example_parser.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/record/example.h"

namespace penstock::record {
namespace example_parser_test {

using base::Array;
using base::DType;
using base::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Views = std::vector<absl::string_view>;

std::string Where(int64_t i) { return absl::StrCat("a.tfrec:", 100 * i, ":", i); }

Views ViewsOf(const std::vector<std::string>& records) {
  return Views(records.begin(), records.end());
}

// Parses `records` as one batch in one range.
struct Batch {
  std::vector<Array> columns;
  std::vector<Ragged> ragged;
};
absl::StatusOr<Batch> Parse(const ExampleParser& parser, const std::vector<std::string>& records) {
  Batch batch{parser.NewColumns(static_cast<int64_t>(records.size())), {}};
  RaggedRows ragged;
  PENSTOCK_RETURN_IF_ERROR(
      parser.ParseRange(ViewsOf(records), 0, absl::MakeSpan(batch.columns), &ragged, Where));
  batch.ragged = parser.JoinRagged({ragged});
  return batch;
}

ExampleParser ParserOf(std::vector<ExampleFeature> features) {
  return ExampleParser::Create({std::move(features)}).value();
}

absl::Status CreateStatus(std::vector<ExampleFeature> features) {
  return ExampleParser::Create({std::move(features)}).status();
}

// A record with one feature of each type.
std::string Record(int64_t i) {
  ExampleBuilder example;
  example.SetBytes("image", absl::StrCat("image", i));
  example.SetInt64("class", i);
  example.SetFloatList("box", {1.0f * i, 2.0f * i, 3.0f * i, 4.0f * i});
  std::vector<int64_t> steps(static_cast<size_t>(i % 5), i);
  example.SetInt64List("steps", steps);
  example.SetFloat("not in the schema", 1);
  return example.Serialize();
}

std::vector<ExampleFeature> RecordFeatures() {
  return {{.name = "class", .dtype = DType::kI64},
          {.name = "image", .dtype = DType::kString},
          {.name = "box", .dtype = DType::kF32, .shape = {2, 2}},
          {.name = "steps", .dtype = DType::kI64, .variable_length = true}};
}

TEST(ExampleParser, FixedFeaturesBecomeColumns) {
  const std::vector<std::string> records = {Record(1), Record(2)};
  const Batch batch = Parse(ParserOf(RecordFeatures()), records).value();
  EXPECT_EQ(batch.columns[0].shape(), Shape({2}));
  EXPECT_THAT(batch.columns[0].values<int64_t>(), ElementsAre(1, 2));
  EXPECT_THAT(batch.columns[1].values<absl::string_view>(), ElementsAre("image1", "image2"));
  EXPECT_EQ(batch.columns[2].shape(), Shape({2, 2, 2}));
  EXPECT_THAT(batch.columns[2].values<float>(), ElementsAre(1, 2, 3, 4, 2, 4, 6, 8));
  EXPECT_FALSE(batch.columns[3].valid());
}

TEST(ExampleParser, StringsAreViewsIntoTheRecords) {
  const std::vector<std::string> records = {Record(1)};
  const Batch batch = Parse(ParserOf(RecordFeatures()), records).value();
  const absl::string_view image = batch.columns[1].values<absl::string_view>()[0];
  EXPECT_GE(image.data(), records[0].data());
  EXPECT_LT(image.data(), records[0].data() + records[0].size());
}

TEST(ExampleParser, VariableLengthFeaturesBecomeRaggedColumns) {
  std::vector<std::string> records;
  for (int64_t i : {2, 5, 3}) records.push_back(Record(i));
  const Ragged steps = Parse(ParserOf(RecordFeatures()), records)->ragged[3];
  EXPECT_EQ(steps.rows(), 3);
  EXPECT_THAT(steps.row_splits.values<int64_t>(), ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(steps.values.values<int64_t>(), ElementsAre(2, 2, 3, 3, 3));
  EXPECT_THAT(steps.Row(0).values<int64_t>(), ElementsAre(2, 2));
  EXPECT_THAT(steps.Row(1).values<int64_t>(), IsEmpty());
}

TEST(ExampleParser, VariableLengthFeatureHasStepsOfShape) {
  ExampleBuilder one;
  one.SetFloatList("boxes", {1, 2, 3, 4});
  ExampleBuilder two;
  two.SetFloatList("boxes", {5, 6});
  const ExampleParser parser =
      ParserOf({{.name = "boxes", .dtype = DType::kF32, .shape = {2}, .variable_length = true}});
  const Ragged boxes = Parse(parser, {one.Serialize(), two.Serialize()})->ragged[0];
  EXPECT_EQ(boxes.values.shape(), Shape({3, 2}));
  EXPECT_THAT(boxes.row_splits.values<int64_t>(), ElementsAre(0, 2, 3));
  EXPECT_EQ(boxes.Row(1).shape(), Shape({1, 2}));

  two.SetFloatList("boxes", {5, 6, 7});
  EXPECT_EQ(Parse(parser, {one.Serialize(), two.Serialize()}).status().message(),
            "a.tfrec:100:1: feature 'boxes' has 3 values (expected float32[?,2]); the record has: "
            "boxes float32 (3)");
}

TEST(ExampleParser, ManyThreadsFillOneBatch) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kRange = 37;
  std::vector<std::string> records;
  for (int64_t i = 0; i < kRows; ++i) records.push_back(Record(i));
  const Views views = ViewsOf(records);
  const ExampleParser parser = ParserOf(RecordFeatures());

  std::vector<Array> columns = parser.NewColumns(kRows);
  const int64_t ranges = (kRows + kRange - 1) / kRange;
  std::vector<RaggedRows> ragged(ranges);
  std::vector<absl::Status> statuses(ranges);
  base::ThreadPool pool(4);
  base::ParallelFor(pool, 0, ranges, [&](int64_t r) {
    statuses[r] = parser.ParseRange(absl::MakeConstSpan(views).subspan(r * kRange, kRange),
                                    r * kRange, absl::MakeSpan(columns), &ragged[r], Where);
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  const Ragged steps = parser.JoinRagged(ragged)[3];
  ASSERT_EQ(steps.rows(), kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_EQ(columns[0].values<int64_t>()[i], i);
    ASSERT_EQ(columns[1].values<absl::string_view>()[i], absl::StrCat("image", i));
    ASSERT_EQ(columns[2].Row(i).values<float>()[3], 4.0f * i);
    ASSERT_EQ(steps.Row(i).num_elements(), i % 5);
  }
}

TEST(ExampleParser, ReusedRaggedRowsStartEmpty) {
  const ExampleParser parser = ParserOf(RecordFeatures());
  RaggedRows ragged;
  for (int64_t i : {3, 4}) {
    const std::string record = Record(i);
    const absl::string_view view = record;
    std::vector<Array> columns = parser.NewColumns(1);
    PENSTOCK_CHECK_OK(parser.ParseRange({view}, 0, absl::MakeSpan(columns), &ragged, Where));
    EXPECT_EQ(parser.JoinRagged({ragged})[3].values.num_elements(), i);
  }
}

TEST(ExampleParser, MissingFeatureErrorNamesRecordAndItsFeatures) {
  ExampleBuilder example;
  example.SetBytes("image", "x");
  example.SetInt64List("Class", {1, 2});
  example.SetFloatList("box", {1, 2, 3, 4});
  EXPECT_EQ(Parse(ParserOf(RecordFeatures()), {Record(0), example.Serialize()}).status().message(),
            "a.tfrec:100:1: feature 'class' is missing (expected int64[]); the record has: "
            "Class int64 (2), box float32 (4), image bytes (1)");
}

TEST(ExampleParser, WrongTypeOrCountErrorNamesBoth) {
  const ExampleParser parser = ParserOf({{.name = "class", .dtype = DType::kI64, .shape = {2}}});
  auto message = [&](const ExampleBuilder& example) {
    return std::string(Parse(parser, {example.Serialize()}).status().message());
  };
  ExampleBuilder example;
  example.SetFloat("class", 1);
  EXPECT_EQ(message(example),
            "a.tfrec:0:0: feature 'class' is float32 (expected int64[2]); the record has: "
            "class float32 (1)");
  example.SetInt64List("class", {1, 2, 3});
  EXPECT_EQ(message(example),
            "a.tfrec:0:0: feature 'class' has 3 values (expected int64[2]); the record has: "
            "class int64 (3)");
  example.SetInt64("class", 1);
  EXPECT_THAT(message(example), HasSubstr("has 1 value (expected int64[2])"));
  example.SetInt64List("class", {});
  EXPECT_THAT(message(example), HasSubstr("has 0 values (expected int64[2])"));
  example.SetArray("class", Array());
  EXPECT_THAT(message(example), HasSubstr("is empty (expected int64[2])"));
}

TEST(ExampleParser, DoesNotWriteExcessValues) {
  ExampleBuilder example;
  example.SetInt64List("n", std::vector<int64_t>(1000, 7));
  const std::string record = example.Serialize();
  const absl::string_view view = record;
  const ExampleParser parser = ParserOf({{.name = "n", .dtype = DType::kI64, .shape = {3}}});
  std::vector<Array> columns = {Array::Zeros(DType::kI64, {2, 3})};
  EXPECT_FALSE(parser.ParseRange({view}, 0, absl::MakeSpan(columns), nullptr, Where).ok());
  EXPECT_THAT(columns[0].Row(1).values<int64_t>(), ElementsAre(0, 0, 0));
}

TEST(ExampleParser, DefaultsReplaceMissingFeatures) {
  const ExampleParser parser = ParserOf(
      {{.name = "weight", .dtype = DType::kF32, .default_value = Array::Scalar(1.5f)},
       {.name = "box", .dtype = DType::kF32, .shape = {2}, .default_value = Array::Scalar(7.0f)},
       {.name = "pair",
        .dtype = DType::kI64,
        .shape = {2},
        .default_value = Array::Of<int64_t>({2}, {3, 4})},
       {.name = "label", .dtype = DType::kString, .default_value = Array::Strings({}, {"none"})},
       {.name = "tags",
        .dtype = DType::kString,
        .variable_length = true,
        .default_value = Array::Strings({2}, {"a", "b"})},
       {.name = "steps", .dtype = DType::kI64, .variable_length = true}});
  ExampleBuilder full;
  full.SetFloat("weight", 2);
  full.SetFloatList("box", {1, 2});
  full.SetInt64List("pair", {5, 6});
  full.SetBytes("label", "cat");
  full.SetBytesList("tags", {});
  full.SetInt64("steps", 9);
  const std::vector<std::string> records = {ExampleBuilder().Serialize(), full.Serialize()};
  const Batch batch = Parse(parser, records).value();
  EXPECT_THAT(batch.columns[0].values<float>(), ElementsAre(1.5f, 2));
  EXPECT_THAT(batch.columns[1].values<float>(), ElementsAre(7, 7, 1, 2));
  EXPECT_THAT(batch.columns[2].values<int64_t>(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(batch.columns[3].values<absl::string_view>(), ElementsAre("none", "cat"));
  // An empty list counts as present, so the default does not apply.
  EXPECT_THAT(batch.ragged[4].row_splits.values<int64_t>(), ElementsAre(0, 2, 2));
  EXPECT_THAT(batch.ragged[4].values.values<absl::string_view>(), ElementsAre("a", "b"));
  EXPECT_THAT(batch.ragged[5].row_splits.values<int64_t>(), ElementsAre(0, 0, 1));
}

TEST(ExampleParser, DefaultStringsOutliveTheParser) {
  const std::string record = ExampleBuilder().Serialize();
  Batch batch;
  {
    const std::string text = "longer than a string holds in itself, so on the heap";
    const ExampleParser parser = ParserOf(
        {{.name = "a", .dtype = DType::kString, .default_value = Array::Strings({}, {text})},
         {.name = "b",
          .dtype = DType::kString,
          .variable_length = true,
          .default_value = Array::Strings({1}, {text})}});
    batch = Parse(parser, {record}).value();
  }
  EXPECT_THAT(std::string(batch.columns[0].values<absl::string_view>()[0]), HasSubstr("heap"));
  EXPECT_THAT(std::string(batch.ragged[1].values.values<absl::string_view>()[0]),
              HasSubstr("heap"));
}

TEST(ExampleParser, MalformedRecordErrorNamesRecord) {
  const absl::Status status =
      Parse(ParserOf(RecordFeatures()), {Record(0), Record(1).substr(0, 40)}).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.tfrec:100:1: not a tf.train.Example: a field extends past the end"));
}

TEST(ExampleParser, FindsEachOfManyFeatures) {
  // Names that share their first and last characters and their length.
  ExampleBuilder example;
  std::vector<ExampleFeature> features;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = absl::StrCat("embedding_", 1000 + i, "_normalized");
    features.push_back({.name = name, .dtype = DType::kI64});
    example.SetInt64(name, i);
    example.SetInt64(absl::StrCat(name, "_other"), -1);
  }
  const Batch batch = Parse(ParserOf(features), {example.Serialize()}).value();
  for (int i = 0; i < 1000; ++i) ASSERT_THAT(batch.columns[i].values<int64_t>(), ElementsAre(i));
}

TEST(ExampleParser, AcceptsNoRecordsAndNoFeatures) {
  const Batch none = Parse(ParserOf(RecordFeatures()), {}).value();
  EXPECT_EQ(none.columns[2].shape(), Shape({0, 2, 2}));
  EXPECT_THAT(none.ragged[3].row_splits.values<int64_t>(), ElementsAre(0));
  EXPECT_TRUE(Parse(ParserOf({}), {Record(0)}).ok());
}

TEST(ExampleParser, RejectsInvalidSchemas) {
  auto message = [](std::vector<ExampleFeature> features) {
    const absl::Status status = CreateStatus(std::move(features));
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(message({{.name = "a", .dtype = DType::kI64}, {.name = "a", .dtype = DType::kF32}}),
            "schema, feature 'a': duplicate name");
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kU8}}), HasSubstr("not uint8"));
  EXPECT_THAT(message({{.name = "a"}}), HasSubstr("the features of an Example"));
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kI64, .shape = {2, -1}}}),
              HasSubstr("unknown extent"));
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kI64, .shape = {kHuge, kHuge}}}),
              HasSubstr("overflows int64"));
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kI64, .shape = {1, 1, 1, 1, 1, 1, 1, 1}}}),
              HasSubstr("too many dimensions"));
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kI64, .shape = {0}, .variable_length = true}}),
              HasSubstr("at least one value"));
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kI64, .default_value = Array::Scalar(1.0f)}}),
              HasSubstr("the default is float32[], expected one value or int64[]"));
  EXPECT_THAT(message({{.name = "a",
                        .dtype = DType::kI64,
                        .shape = {3},
                        .default_value = Array::Of<int64_t>({2}, {1, 2})}}),
              HasSubstr("the default is int64[2]"));
  EXPECT_THAT(message({{.name = "a", .dtype = DType::kI64, .default_value = Array()}}),
              HasSubstr("the default is"));
}

TEST(InferSchema, DistinguishesFixedFromVariableLength) {
  std::vector<std::string> records;
  for (int i = 0; i < 3; ++i) {
    ExampleBuilder example;
    example.SetInt64("class", i);
    example.SetFloatList("box", {1, 2, 3, 4});
    example.SetBytesList("tags", std::vector<absl::string_view>(static_cast<size_t>(i), "tag"));
    if (i != 1) example.SetInt64("sometimes", 1);
    example.SetInt64List("never", {});
    example.SetArray("nothing", Array());
    records.push_back(example.Serialize());
  }
  const ExampleSchema schema = InferSchema(ViewsOf(records)).value();
  EXPECT_EQ(schema.ToString(), "box float32[4], class int64[], sometimes int64[?], tags string[?]");
  EXPECT_TRUE(Parse(ParserOf(schema.features), records).ok());
  EXPECT_THAT(InferSchema({})->features, IsEmpty());
}

TEST(InferSchema, NamesInconsistentRecord) {
  ExampleBuilder one;
  one.SetInt64("class", 1);
  ExampleBuilder two;
  two.SetFloat("class", 1);
  EXPECT_EQ(InferSchema(ViewsOf({one.Serialize(), two.Serialize()})).status().message(),
            "record 1: feature 'class' is float32, and int64 in earlier records");
  EXPECT_THAT(std::string(InferSchema({"\x0a"}).status().message()), HasSubstr("record 0: not a"));
}

}  // namespace example_parser_test
}  // namespace penstock::record
