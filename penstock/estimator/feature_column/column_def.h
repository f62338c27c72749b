// ColumnDef: what a FeatureColumn describes. Internal to feature_column/.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/estimator/feature_column/feature_column.h"

namespace penstock::feature_column {

struct ColumnDef {
  enum class Kind {
    kNumeric,
    kBucketized,
    kIdentity,
    kVocabulary,
    kHashBucket,
    kIndicator,
    kEmbedding,
  };
  Kind kind = Kind::kNumeric;
  std::string key = {};
  absl::Status status = {};
  // Column inside: of kBucketized, kIndicator, kEmbedding.
  std::shared_ptr<const ColumnDef> source = nullptr;

  NumericColumnOptions numeric = {};    // kNumeric
  std::vector<double> boundaries = {};  // kBucketized
  int64_t buckets = 0;                  // kIdentity, kHashBucket
  std::optional<int64_t> identity_default = {};
  std::vector<std::string> vocabulary = {};  // kVocabulary; integers as decimal text
  bool integer_vocabulary = false;
  VocabularyListOptions vocabulary_options = {};
  int64_t dimension = 0;  // kEmbedding
  EmbeddingColumnOptions embedding = {};
};

// As FeatureColumn::name.
std::string ColumnName(const ColumnDef& column);
// Number of ids of a categorical column.
int64_t NumBuckets(const ColumnDef& column);
// Whether its ids are looked up by the host stage.
bool IsConvertedOnHost(const ColumnDef& column);
std::string HostKeyOf(const ColumnDef& column);
// The first column of the chain of sources: the one that has the feature itself.
const ColumnDef& Innermost(const ColumnDef& column);

}  // namespace penstock::feature_column
