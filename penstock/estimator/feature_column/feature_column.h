// Feature columns: how the columns of a dataset become the input of a model (tf.feature_column).
// Names, defaults and formulas are those of TensorFlow 1.15.
//
//   using namespace feature_column;                       // in a program, not in a header
//   FeatureColumn age = NumericColumn("age");
//   FeatureColumn city = CategoricalColumnWithVocabularyList("city", {"Bern", "Graz", "Lyon"});
//   std::vector<FeatureColumn> columns = {
//       BucketizedColumn(age, {18, 30, 65}), IndicatorColumn(city),
//       EmbeddingColumn(CategoricalColumnWithHashBucket("street", 1000), 8)};
//   tf::Tensor net = InputLayer(features, columns);       // f32[batch, 4 + 3 + 8]
//
// Strings cannot go to a device. Vocabularies and hash buckets are looked up on the host, by a
// stage of the dataset that the canned estimators add; other programs call ConvertOnHost in
// input_fn. It replaces a string column "city" by an int64 column of ids (HostKey).
//
// A categorical feature has the shape [batch] or [batch, n]. As in TensorFlow's dense features, an
// empty string or -1 is a missing value: it adds nothing to an indicator or an embedding. Unlike
// there, a sparse feature is a dense one that is padded with missing values (Dataset::PaddedBatch).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/dataset.h"
#include "penstock/estimator/named_tensors.h"
#include "penstock/record/example_parser.h"
#include "penstock/session/variable.h"

namespace penstock::feature_column {

using estimator::NamedTensors;

struct ColumnDef;  // column_def.h

// A description; cheap to copy.
class FeatureColumn {
 public:
  explicit FeatureColumn(std::shared_ptr<const ColumnDef> def) : def_(std::move(def)) {}
  const ColumnDef& def() const { return *def_; }
  const std::shared_ptr<const ColumnDef>& shared_def() const { return def_; }
  // TensorFlow's name: the key, "age_bucketized", "city_indicator", "city_embedding".
  std::string name() const;
  // Key of the feature: a column of the dataset.
  const std::string& key() const;
  bool is_categorical() const;  // gives ids: identity, vocabulary list, hash bucket, bucketized
  bool is_dense() const;        // gives numbers: numeric, bucketized, indicator, embedding
  // The error of an invalid argument; functions that use the column report it.
  const absl::Status& status() const;

 private:
  std::shared_ptr<const ColumnDef> def_;
};
using FeatureColumns = std::vector<FeatureColumn>;

struct NumericColumnOptions {
  base::Shape shape = {1};  // of one example
  // Value of an Example without this feature, for MakeParseExampleSchema.
  std::optional<double> default_value = {};
  base::DType dtype = base::DType::kF32;  // of the dataset's column in MakeParseExampleSchema
  // Gets the feature as float32; TensorFlow gives it in its own type.
  std::function<session::Tensor(const session::Tensor&)> normalizer_fn = nullptr;
};
FeatureColumn NumericColumn(absl::string_view key, NumericColumnOptions options = {});

// Which of the intervals (-inf, b0), [b0, b1), ..., [bn, inf) a number belongs to. `boundaries` is
// sorted; `source_column` is numeric.
FeatureColumn BucketizedColumn(const FeatureColumn& source_column, std::vector<double> boundaries);

// Values are ids from 0 to num_buckets - 1. Others become `default_value`; without one they are an
// error of the host stage, and missing where there is none.
FeatureColumn CategoricalColumnWithIdentity(absl::string_view key, int64_t num_buckets,
                                            std::optional<int64_t> default_value = {});

struct VocabularyListOptions {
  // Id of a value that is not in the list; -1: missing.
  int64_t default_value = -1;
  // Values that are not in the list get an id from the list's size on, by their hash; default_value
  // must be -1.
  int64_t num_oov_buckets = 0;
};
// Strings or integers: {"Bern", "Graz"}, {1990, 2000}.
class VocabularyList {
 public:
  VocabularyList(std::initializer_list<absl::string_view> words)  // NOLINT
      : words_(words.begin(), words.end()) {}
  VocabularyList(std::vector<std::string> words) : words_(std::move(words)) {}  // NOLINT
  VocabularyList(std::initializer_list<int64_t> numbers)                        // NOLINT
      : VocabularyList(std::vector<int64_t>(numbers)) {}
  VocabularyList(const std::vector<int64_t>& numbers) : integers_(true) {  // NOLINT
    for (const int64_t number : numbers) words_.push_back(std::to_string(number));
  }

  // Integers as decimal text.
  const std::vector<std::string>& words() const { return words_; }
  bool integers() const { return integers_; }

 private:
  std::vector<std::string> words_;
  bool integers_ = false;
};
// The id of a value is its place in the list.
FeatureColumn CategoricalColumnWithVocabularyList(absl::string_view key,
                                                  const VocabularyList& vocabulary_list,
                                                  const VocabularyListOptions& options = {});

// Ids are Fingerprint64(value) % hash_bucket_size, as TensorFlow computes them; integers are hashed
// as their decimal text.
FeatureColumn CategoricalColumnWithHashBucket(absl::string_view key, int64_t hash_bucket_size);

// How often each id occurs: f32[batch, buckets].
FeatureColumn IndicatorColumn(const FeatureColumn& categorical_column);

struct EmbeddingColumnOptions {
  std::string combiner = "mean";               // mean, sqrtn, sum: of several values of an example
  session::Initializer initializer = nullptr;  // truncated normal of deviation 1 / sqrt(dimension)
  std::optional<double> max_norm = {};         // rows of the table are clipped to this norm
  bool trainable = true;
};
// A row of a trained table for each id: f32[batch, dimension]. An example without a value gets
// zeros.
FeatureColumn EmbeddingColumn(const FeatureColumn& categorical_column, int64_t dimension,
                              EmbeddingColumnOptions options = {});

// The dense columns side by side, sorted by name as in TensorFlow (tf.feature_column.input_layer).
// Variables are named "<scope>/input_layer/<column>/...", the second layer's
// "<scope>/input_layer_1/...", with '_' for characters that names do not have.
session::Tensor InputLayer(const NamedTensors& features, const FeatureColumns& columns,
                           bool trainable = true,
                           base::SourceLocation where = base::SourceLocation::Current());

struct LinearModelOptions {
  int64_t units = 1;
  std::string sparse_combiner = "sum";  // of several values of an example: sum, mean, sqrtn
  bool trainable = true;
};
// A weighted sum of the columns and a bias: f32[batch, units] (tf.feature_column.linear_model).
// Categorical columns have a weight for each id. Variables are named
// "<scope>/linear_model/<column>/weights" and "<scope>/linear_model/bias_weights"; all begin as 0.
session::Tensor LinearModel(const NamedTensors& features, const FeatureColumns& columns,
                            const LinearModelOptions& options = {},
                            base::SourceLocation where = base::SourceLocation::Current());

// Name of the column that holds the ids of a vocabulary list or hash bucket column, made by
// ConvertOnHost: "city/ids_5c1f09aa"; the key itself for other columns.
std::string HostKey(const FeatureColumn& column);
// Adds a stage that looks up vocabularies and hash buckets, checks the ids of identity columns, and
// drops the string columns that it converts. The elements may be batches or single examples. A
// column that the dataset lacks is an error of the dataset's description.
data::Dataset ConvertOnHost(const data::Dataset& dataset, const FeatureColumns& columns);

// Features that ParseExample reads for these columns (tf.feature_column.make_parse_example_spec).
record::ExampleSchema MakeParseExampleSchema(const FeatureColumns& columns);

}  // namespace penstock::feature_column
