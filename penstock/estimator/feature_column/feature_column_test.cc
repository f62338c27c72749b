#include "penstock/estimator/feature_column/feature_column.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/feature_column/fingerprint.h"
#include "penstock/session/data.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/optimizer.h"
#include "penstock/session/variable.h"

namespace penstock::feature_column {
namespace feature_column_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Features of one batch: numbers, strings, ids with missing values.
data::Dataset Rows() {
  return data::Dataset::FromArrays(
             {{"age", Array::Of<float>({4}, {3, 18, 40, 70})},
              {"size", Array::Of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
              {"city", Array::Strings({4}, {"Bern", "Graz", "Rome", ""})},
              {"tags", Array::Of<int64_t>({4, 3}, {0, 2, 2, 1, -1, -1, -1, -1, -1, 0, 1, 2})}})
      .Batch(4);
}

// The value of InputLayer, or of LinearModel whose weights are set.
absl::StatusOr<Array> Evaluate(const data::Dataset& dataset, const FeatureColumns& columns,
                               const NamedArrays& variables = {}, bool linear = false) {
  session::Graph graph;
  const auto scope = graph.AsDefault();
  const session::Element element = session::MakeOneShotIterator(dataset).GetNext();
  std::vector<NamedTensors::Entry> entries;
  for (int i = 0; i < element.size(); ++i) entries.emplace_back(element.names()[i], element[i]);
  const NamedTensors features(std::move(entries));
  const session::Tensor out =
      linear ? LinearModel(features, columns) : InputLayer(features, columns);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  session::Session session;
  if (!session::GlobalVariables().empty()) {
    PENSTOCK_RETURN_IF_ERROR(session.Run(session::GlobalVariablesInitializer()));
  }
  for (const auto& [name, value] : variables) {
    PENSTOCK_RETURN_IF_ERROR(session.SetVariableValue(name, value));
  }
  return session.Run(out);
}

std::vector<float> Values(const absl::StatusOr<Array>& array) {
  EXPECT_EQ(array.status(), absl::OkStatus());
  if (!array.ok()) return {};
  return std::vector<float>(array->values<float>().begin(), array->values<float>().end());
}

TEST(FeatureColumn, NamesAreTensorFlows) {
  const FeatureColumn age = NumericColumn("age");
  const FeatureColumn city = CategoricalColumnWithHashBucket("city", 10);
  EXPECT_EQ(age.name(), "age");
  EXPECT_EQ(BucketizedColumn(age, {1, 2}).name(), "age_bucketized");
  EXPECT_EQ(IndicatorColumn(city).name(), "city_indicator");
  EXPECT_EQ(EmbeddingColumn(city, 3).name(), "city_embedding");
  EXPECT_EQ(EmbeddingColumn(BucketizedColumn(age, {1}), 3).name(), "age_bucketized_embedding");
}

TEST(InputLayer, SortsColumnsByName) {
  const auto values = Values(Evaluate(
      ConvertOnHost(Rows(), {CategoricalColumnWithHashBucket("city", 2)}),
      {NumericColumn("size", {.shape = {2}}),
       NumericColumn("age", {.normalizer_fn = [](const session::Tensor& x) { return x * 0.5; }})}));
  EXPECT_THAT(values, ElementsAre(1.5, 1, 2, 9, 3, 4, 20, 5, 6, 35, 7, 8));
}

TEST(InputLayer, BucketizesWithBoundariesInTheUpperBucket) {
  const auto rows = ConvertOnHost(Rows(), {CategoricalColumnWithHashBucket("city", 2)});
  EXPECT_THAT(Values(Evaluate(rows, {BucketizedColumn(NumericColumn("age"), {18, 65})})),
              ElementsAre(1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1));
}

TEST(InputLayer, PutsNanIntoTheLastBucket) {
  const auto rows =
      data::Dataset::FromArrays({{"age", base::Array::Of<float>({3}, {NAN, -INFINITY, INFINITY})}})
          .Batch(3);
  EXPECT_THAT(Values(Evaluate(rows, {BucketizedColumn(NumericColumn("age"), {18})})),
              ElementsAre(0, 1, 1, 0, 0, 1));
}

TEST(InputLayer, IndicatorsCountAndSkipMissingValues) {
  const FeatureColumn vocabulary =
      CategoricalColumnWithVocabularyList("city", {"Graz", "Bern"}, {.num_oov_buckets = 1});
  EXPECT_THAT(Values(Evaluate(ConvertOnHost(Rows(), {vocabulary}), {IndicatorColumn(vocabulary)})),
              ElementsAre(0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0));
  const FeatureColumn tags = CategoricalColumnWithIdentity("tags", 3);
  const auto rows = ConvertOnHost(Rows(), {tags, CategoricalColumnWithHashBucket("city", 2)});
  EXPECT_THAT(Values(Evaluate(rows, {IndicatorColumn(tags)})),
              ElementsAre(1, 0, 2, 0, 1, 0, 0, 0, 0, 1, 1, 1));
}

TEST(InputLayer, HashBucketsAreFingerprints) {
  const FeatureColumn hash = CategoricalColumnWithHashBucket("city", 5);
  const auto values = Values(Evaluate(ConvertOnHost(Rows(), {hash}), {IndicatorColumn(hash)}));
  const char* cities[] = {"Bern", "Graz", "Rome"};
  ASSERT_EQ(values.size(), 20u);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t id = 0; id < 5; ++id) {
      const bool is_id = row < 3 && HashBucket(cities[row], 5) == id;
      EXPECT_EQ(values[row * 5 + id], is_id ? 1 : 0) << row << " " << id;
    }
  }
}

// A row of zeros has a norm without a gradient.
TEST(InputLayer, EmbeddingsOfALimitedNormTrainFromZero) {
  session::Graph graph;
  const auto scope = graph.AsDefault();
  const session::Tensor ids = session::Constant(Array::Of<int64_t>({2, 1}, {0, 1}));
  const session::Tensor net =
      InputLayer(NamedTensors{{"tags", ids}},
                 {EmbeddingColumn(CategoricalColumnWithIdentity("tags", 4), 2,
                                  {.initializer = session::ZerosInitializer(), .max_norm = 1.0})});
  const session::Operation step =
      session::train::GradientDescentOptimizer(0.1).Minimize(session::ReduceSum(net - 1.0f));
  session::Session session;
  ASSERT_EQ(session.Run(session::GlobalVariablesInitializer()), absl::OkStatus());
  ASSERT_EQ(session.Run(step), absl::OkStatus());
  const auto table = session.GetVariableValue("input_layer/tags_embedding/embedding_weights");
  EXPECT_THAT(Values(table),
              ::testing::Pointwise(::testing::FloatNear(1e-6f),
                                   {-0.1f, -0.1f, -0.1f, -0.1f, 0.f, 0.f, 0.f, 0.f}));
}

TEST(InputLayer, EmbeddingsCombineTheValuesOfAnExample) {
  const FeatureColumn tags = CategoricalColumnWithIdentity("tags", 3);
  const auto rows = ConvertOnHost(Rows(), {tags, CategoricalColumnWithHashBucket("city", 2)});
  const NamedArrays table = {{"input_layer/tags_embedding/embedding_weights",
                              Array::Of<float>({3, 2}, {1, 10, 2, 20, 4, 40})}};
  const auto combined = [&](const std::string& combiner) {
    return Values(Evaluate(rows, {EmbeddingColumn(tags, 2, {.combiner = combiner})}, table));
  };
  EXPECT_THAT(combined("sum"), ElementsAre(9, 90, 2, 20, 0, 0, 7, 70));
  EXPECT_THAT(combined("mean"), ElementsAre(3, 30, 2, 20, 0, 0, ::testing::FloatEq(7.0f / 3),
                                            ::testing::FloatEq(70.0f / 3)));
  EXPECT_THAT(combined("sqrtn"), ElementsAre(::testing::FloatEq(9 / std::sqrt(3.0f)),
                                             ::testing::FloatEq(90 / std::sqrt(3.0f)), 2, 20, 0, 0,
                                             ::testing::FloatEq(7 / std::sqrt(3.0f)),
                                             ::testing::FloatEq(70 / std::sqrt(3.0f))));
}

TEST(LinearModel, AddsWeightsOfIdsAndNumbers) {
  const FeatureColumn city = CategoricalColumnWithVocabularyList("city", {"Bern", "Graz"});
  const FeatureColumn bucket = BucketizedColumn(NumericColumn("age"), {18});
  const NamedArrays weights = {
      {"linear_model/city/weights", Array::Of<float>({2, 1}, {10, 20})},
      {"linear_model/size/weights", Array::Of<float>({2, 1}, {1, -1})},
      {"linear_model/age_bucketized/weights", Array::Of<float>({2, 1}, {100, 200})},
      {"linear_model/bias_weights", Array::Of<float>({1}, {0.5})}};
  EXPECT_THAT(Values(Evaluate(ConvertOnHost(Rows(), {city}),
                              {city, NumericColumn("size", {.shape = {2}}), bucket}, weights,
                              /*linear=*/true)),
              ElementsAre(100 + 10 - 1 + 0.5, 200 + 20 - 1 + 0.5, 200 - 1 + 0.5, 200 - 1 + 0.5));
}

TEST(FeatureColumn, ReportsInvalidArguments) {
  const FeatureColumn age = NumericColumn("age");
  const FeatureColumn city = CategoricalColumnWithHashBucket("city", 10);
  EXPECT_THAT(BucketizedColumn(age, {2, 1}).status().message(), HasSubstr("sorted"));
  EXPECT_THAT(BucketizedColumn(age, {}).status().message(), HasSubstr("must not be empty"));
  EXPECT_THAT(BucketizedColumn(city, {1}).status().message(), HasSubstr("a numeric column"));
  EXPECT_THAT(IndicatorColumn(age).status().message(), HasSubstr("a categorical column"));
  EXPECT_THAT(EmbeddingColumn(city, 0).status().message(), HasSubstr("dimension is 0"));
  EXPECT_THAT(EmbeddingColumn(city, 2, {.combiner = "max"}).status().message(),
              HasSubstr("'max' is not mean, sqrtn or sum"));
  EXPECT_THAT(CategoricalColumnWithHashBucket("city", 0).status().message(),
              HasSubstr("hash_bucket_size is 0"));
  EXPECT_THAT(CategoricalColumnWithVocabularyList("c", {"a", "a"}).status().message(),
              HasSubstr("'a' twice"));
  EXPECT_THAT(CategoricalColumnWithIdentity("c", 3, 3).status().message(),
              HasSubstr("default_value is 3"));
  EXPECT_THAT(NumericColumn("").status().message(), HasSubstr("must not be empty"));
  // An invalid source is the error of what contains it.
  EXPECT_THAT(IndicatorColumn(CategoricalColumnWithHashBucket("city", 0)).status().message(),
              HasSubstr("hash_bucket_size is 0"));
}

// Names as TensorFlow has them.
TEST(InputLayer, VariablesOfSeveralLayersAndOfAnyKeys) {
  session::Graph graph;
  const auto scope = graph.AsDefault();
  const NamedTensors features({{"flower/class (id)", session::Zeros({4}, DType::kI64)}});
  const FeatureColumns columns = {
      EmbeddingColumn(CategoricalColumnWithIdentity("flower/class (id)", 3), 2)};
  InputLayer(features, columns);
  InputLayer(features, columns);
  LinearModel(features, {CategoricalColumnWithIdentity("flower/class (id)", 3)});
  ASSERT_EQ(graph.status(), absl::OkStatus());
  std::vector<std::string> names;
  for (const session::Variable& variable : session::GlobalVariables()) {
    names.push_back(variable.name());
  }
  EXPECT_THAT(names, ElementsAre("input_layer/flower_class__id__embedding/embedding_weights:0",
                                 "input_layer_1/flower_class__id__embedding/embedding_weights:0",
                                 "linear_model/flower_class__id_/weights:0",
                                 "linear_model/bias_weights:0"));
}

TEST(InputLayer, ReportsMistakes) {
  const FeatureColumn city = CategoricalColumnWithHashBucket("city", 10);
  const auto rows = ConvertOnHost(Rows(), {city});
  const auto message = [&](const FeatureColumns& columns) {
    return std::string(Evaluate(rows, columns).status().message());
  };
  EXPECT_THAT(message({}), HasSubstr("there are no feature columns"));
  EXPECT_THAT(message({NumericColumn("weight")}),
              HasSubstr("there is no feature 'weight'; there are age, size, tags, city/ids_"));
  EXPECT_THAT(message({NumericColumn("size")}), HasSubstr("has the shape [?,2]"));
  EXPECT_THAT(message({city}), HasSubstr("is not dense: wrap it in IndicatorColumn"));
  EXPECT_THAT(message({NumericColumn("age"), NumericColumn("age")}),
              HasSubstr("two feature columns 'age'"));
  EXPECT_THAT(
      message({NumericColumn("age"), IndicatorColumn(CategoricalColumnWithHashBucket("age", 3))}),
      HasSubstr("call feature_column::ConvertOnHost"));
}

TEST(ConvertOnHost, ChecksIdsOfIdentityColumns) {
  const auto rows = ConvertOnHost(Rows(), {CategoricalColumnWithIdentity("tags", 2),
                                           CategoricalColumnWithHashBucket("city", 2)});
  EXPECT_THAT(Evaluate(rows, {NumericColumn("age")}).status().message(),
              HasSubstr("feature 'tags' has the value 2, but its feature column has ids from 0 to "
                        "1"));
  EXPECT_FALSE(ConvertOnHost(Rows(), {CategoricalColumnWithHashBucket("none", 2)}).status().ok());
  // The ids of two columns of one feature have to be those of both.
  const auto both =
      ConvertOnHost(Rows(), {CategoricalColumnWithIdentity("tags", 3),
                             IndicatorColumn(CategoricalColumnWithIdentity("tags", 2)),
                             CategoricalColumnWithHashBucket("city", 2)});
  EXPECT_THAT(Evaluate(both, {NumericColumn("age")}).status().message(),
              HasSubstr("feature 'tags' has the value 2"));
}

TEST(MakeParseExampleSchema, ListsFeaturesOnce) {
  const FeatureColumn age = NumericColumn("age", {.default_value = 1});
  const record::ExampleSchema schema = MakeParseExampleSchema(
      {BucketizedColumn(age, {1}), age,
       IndicatorColumn(CategoricalColumnWithVocabularyList("city", {"Bern"}))});
  EXPECT_EQ(schema.ToString(), "age float32[1], city string[]");
}

}  // namespace feature_column_test
}  // namespace penstock::feature_column
