#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/estimator/feature_column/column_def.h"
#include "penstock/estimator/feature_column/fingerprint.h"

namespace penstock::feature_column {
namespace {

using Kind = ColumnDef::Kind;

FeatureColumn MakeColumn(ColumnDef def, std::string error = "") {
  if (def.source != nullptr) def.key = def.source->key;
  if (def.source != nullptr && !def.source->status.ok()) {
    def.status = def.source->status;
  } else if (!error.empty()) {
    def.status =
        absl::InvalidArgumentError(absl::StrCat("feature column '", ColumnName(def), "': ", error));
  } else if (def.key.empty()) {
    def.status = absl::InvalidArgumentError("a feature column's key must not be empty");
  }
  return FeatureColumn(std::make_shared<const ColumnDef>(std::move(def)));
}

bool IsCategorical(const ColumnDef& column) {
  switch (column.kind) {
    case Kind::kBucketized:
    case Kind::kIdentity:
    case Kind::kVocabulary:
    case Kind::kHashBucket:
      return true;
    case Kind::kNumeric:
    case Kind::kIndicator:
    case Kind::kEmbedding:
      break;
  }
  return false;
}

}  // namespace

const ColumnDef& Innermost(const ColumnDef& column) {
  const ColumnDef* inner = &column;
  while (inner->source != nullptr) inner = inner->source.get();
  return *inner;
}

std::string ColumnName(const ColumnDef& column) {
  switch (column.kind) {
    case Kind::kBucketized:
      return absl::StrCat(ColumnName(*column.source), "_bucketized");
    case Kind::kIndicator:
      return absl::StrCat(ColumnName(*column.source), "_indicator");
    case Kind::kEmbedding:
      return absl::StrCat(ColumnName(*column.source), "_embedding");
    default:
      return column.key;
  }
}

int64_t NumBuckets(const ColumnDef& column) {
  switch (column.kind) {
    case Kind::kBucketized:
      return column.source->numeric.shape.num_elements() *
             (static_cast<int64_t>(column.boundaries.size()) + 1);
    case Kind::kVocabulary:
      return static_cast<int64_t>(column.vocabulary.size()) +
             column.vocabulary_options.num_oov_buckets;
    default:
      return column.buckets;
  }
}

bool IsConvertedOnHost(const ColumnDef& column) {
  return column.kind == Kind::kVocabulary || column.kind == Kind::kHashBucket;
}

std::string HostKeyOf(const ColumnDef& column) {
  const ColumnDef& inner = Innermost(column);
  if (!IsConvertedOnHost(inner)) return inner.key;
  // Distinguishes several columns of one feature.
  const std::string text = absl::StrCat(inner.buckets, ",", inner.vocabulary_options.default_value,
                                        ",", inner.vocabulary_options.num_oov_buckets, ",",
                                        absl::StrJoin(inner.vocabulary, std::string(1, '\0')));
  return absl::StrCat(inner.key, "/ids_",
                      absl::Hex(static_cast<uint32_t>(Fingerprint64(text)), absl::kZeroPad8));
}

std::string FeatureColumn::name() const { return ColumnName(*def_); }
const std::string& FeatureColumn::key() const { return def_->key; }
const absl::Status& FeatureColumn::status() const { return def_->status; }
bool FeatureColumn::is_categorical() const { return IsCategorical(*def_); }
bool FeatureColumn::is_dense() const {
  return def_->kind == Kind::kBucketized || !IsCategorical(*def_);
}

std::string HostKey(const FeatureColumn& column) { return HostKeyOf(column.def()); }

FeatureColumn NumericColumn(absl::string_view key, NumericColumnOptions options) {
  std::string error;
  for (const int64_t dim : options.shape) {
    if (dim < 1) {
      error = absl::StrCat("the shape ", options.shape.ToString(), " must have extents above 0");
    }
  }
  if (!base::IsNumeric(options.dtype)) error = "the dtype must be numeric";
  return MakeColumn(
      {.kind = Kind::kNumeric, .key = std::string(key), .numeric = std::move(options)}, error);
}

FeatureColumn BucketizedColumn(const FeatureColumn& source_column, std::vector<double> boundaries) {
  std::string error;
  if (source_column.def().kind != Kind::kNumeric) {
    error = "the source of a bucketized column must be a numeric column";
  } else if (source_column.def().numeric.shape.rank() > 1) {
    error = "the source of a bucketized column must have at most one axis";
  } else if (boundaries.empty()) {
    error = "the boundaries must not be empty";
  }
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (std::isnan(boundaries[i]) || (i > 0 && !(boundaries[i - 1] < boundaries[i]))) {
      error = "the boundaries must be sorted in ascending order, without duplicates";
    }
  }
  return MakeColumn({.kind = Kind::kBucketized,
                     .source = source_column.shared_def(),
                     .boundaries = std::move(boundaries)},
                    error);
}

FeatureColumn CategoricalColumnWithIdentity(absl::string_view key, int64_t num_buckets,
                                            std::optional<int64_t> default_value) {
  std::string error;
  if (num_buckets < 1) {
    error = absl::StrCat("num_buckets is ", num_buckets, ", but must be at least 1");
  } else if (default_value.has_value() && (*default_value < 0 || *default_value >= num_buckets)) {
    error = absl::StrCat("default_value is ", *default_value, ", but must be from 0 to ",
                         num_buckets - 1);
  }
  return MakeColumn({.kind = Kind::kIdentity,
                     .key = std::string(key),
                     .buckets = num_buckets,
                     .identity_default = default_value},
                    error);
}

FeatureColumn CategoricalColumnWithVocabularyList(absl::string_view key,
                                                  const VocabularyList& vocabulary_list,
                                                  const VocabularyListOptions& options) {
  std::string error;
  const std::vector<std::string>& vocabulary = vocabulary_list.words();
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& word : vocabulary) {
    if (!seen.insert(word).second) {
      error = absl::StrCat("the vocabulary list contains '", word, "' twice");
    }
  }
  if (vocabulary.empty()) error = "the vocabulary list must not be empty";
  if (options.num_oov_buckets < 0) {
    error =
        absl::StrCat("num_oov_buckets is ", options.num_oov_buckets, ", but must not be negative");
  } else if (options.num_oov_buckets > 0 && options.default_value != -1) {
    error = "num_oov_buckets and default_value were given; give one of them";
  } else if (options.default_value < -1 ||
             options.default_value >= static_cast<int64_t>(vocabulary.size())) {
    error = absl::StrCat("default_value is ", options.default_value,
                         ", but must be -1 or a place in the vocabulary list of ",
                         vocabulary.size(), " values");
  }
  return MakeColumn({.kind = Kind::kVocabulary,
                     .key = std::string(key),
                     .vocabulary = vocabulary,
                     .integer_vocabulary = vocabulary_list.integers(),
                     .vocabulary_options = options},
                    error);
}

FeatureColumn CategoricalColumnWithHashBucket(absl::string_view key, int64_t hash_bucket_size) {
  return MakeColumn(
      {.kind = Kind::kHashBucket, .key = std::string(key), .buckets = hash_bucket_size},
      hash_bucket_size < 1
          ? absl::StrCat("hash_bucket_size is ", hash_bucket_size, ", but must be at least 1")
          : "");
}

FeatureColumn IndicatorColumn(const FeatureColumn& categorical_column) {
  return MakeColumn(
      {.kind = Kind::kIndicator, .source = categorical_column.shared_def()},
      categorical_column.is_categorical() ? "" : "an indicator needs a categorical column");
}

FeatureColumn EmbeddingColumn(const FeatureColumn& categorical_column, int64_t dimension,
                              EmbeddingColumnOptions options) {
  std::string error;
  if (!categorical_column.is_categorical()) {
    error = "an embedding needs a categorical column";
  } else if (dimension < 1) {
    error = absl::StrCat("the dimension is ", dimension, ", but must be at least 1");
  } else if (options.combiner != "mean" && options.combiner != "sqrtn" &&
             options.combiner != "sum") {
    error = absl::StrCat("the combiner '", options.combiner, "' is not mean, sqrtn or sum");
  } else if (options.max_norm.has_value() && !(*options.max_norm > 0)) {
    error = "max_norm must be above 0";
  }
  return MakeColumn({.kind = Kind::kEmbedding,
                     .source = categorical_column.shared_def(),
                     .dimension = dimension,
                     .embedding = std::move(options)},
                    error);
}

record::ExampleSchema MakeParseExampleSchema(const FeatureColumns& columns) {
  record::ExampleSchema schema;
  for (const FeatureColumn& column : columns) {
    const ColumnDef& inner = Innermost(column.def());
    record::ExampleFeature feature{.name = inner.key, .dtype = base::DType::kI64};
    if (inner.kind == Kind::kNumeric) {
      feature.dtype = base::IsFloat(inner.numeric.dtype) ? base::DType::kF32 : base::DType::kI64;
      feature.shape = inner.numeric.shape;
      if (inner.numeric.default_value.has_value()) {
        const base::Array number = base::Array::Scalar(*inner.numeric.default_value);
        if (auto cast = number.Cast(feature.dtype); cast.ok()) feature.default_value = *cast;
      }
    } else {
      if (IsConvertedOnHost(inner) && !inner.integer_vocabulary) {
        feature.dtype = base::DType::kString;
      }
      // Missing values.
      feature.default_value = feature.dtype == base::DType::kString
                                  ? base::Array::Strings({}, {""})
                                  : base::Array::Scalar<int64_t>(-1);
    }
    bool known = false;
    for (const auto& other : schema.features) known = known || other.name == feature.name;
    if (!known) schema.features.push_back(std::move(feature));
  }
  return schema;
}

}  // namespace penstock::feature_column
