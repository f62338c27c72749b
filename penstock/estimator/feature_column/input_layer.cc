// InputLayer and LinearModel: feature columns in a graph.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "penstock/estimator/feature_column/column_def.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::feature_column {
namespace {

using base::DType;
using base::SourceLocation;
using session::Tensor;
using session::Tensors;
using Kind = ColumnDef::Kind;

// Adds the columns of one model to the default graph.
class ColumnBuilder {
 public:
  ColumnBuilder(const NamedTensors& features, bool trainable, SourceLocation where)
      : features_(features), trainable_(trainable), where_(where) {}

  // f32[batch, n].
  Tensor Dense(const ColumnDef& column) {
    switch (column.kind) {
      case Kind::kNumeric:
        return Numeric(column);
      case Kind::kBucketized:
        return Bucketized(column);
      case Kind::kIndicator:
        return Indicator(*column.source);
      case Kind::kEmbedding:
        return Embedding(column);
      default:
        break;
    }
    return Fail(absl::StrCat("the categorical column '", ColumnName(column),
                             "' is not dense: wrap it in IndicatorColumn or EmbeddingColumn"));
  }

  // int64[batch, n]; -1: missing.
  Tensor Ids(const ColumnDef& column) {
    if (column.kind == Kind::kBucketized) return BucketIds(column);
    const std::string key = HostKeyOf(column);
    const Tensor* feature = features_.Find(key);
    if (feature == nullptr && features_.Contains(column.key)) {
      return Fail(absl::StrCat("the values of feature '", column.key,
                               "' are not looked up yet: call "
                               "feature_column::ConvertOnHost(dataset, columns) in input_fn"));
    }
    if (feature == nullptr) return Missing(key);
    Tensor ids = session::Cast(AsMatrix(*feature), DType::kI64);
    if (column.kind != Kind::kIdentity) return ids;
    const Tensor known =
        session::LogicalAnd(session::GreaterEqual(ids, 0), session::Less(ids, column.buckets));
    const int64_t otherwise = column.identity_default.value_or(-1);
    // A missing value stays missing.
    return session::Where(session::LogicalOr(known, session::Equal(ids, -1)), ids, otherwise);
  }

  // Rows of `table` by ids, combined over the values of an example: f32[batch, width].
  Tensor Lookup(const Tensor& table, const Tensor& ids, absl::string_view combiner) {
    const Tensor rows = session::Gather(table, session::Maximum(ids, 0));
    const Tensor present =
        session::Cast(session::ExpandDims(session::GreaterEqual(ids, 0), -1), DType::kF32);
    const Tensor sum = session::ReduceSum(rows * present, 1);
    if (combiner == "sum") return sum;
    const Tensor count = session::Maximum(session::ReduceSum(present, 1), 1);
    return sum / (combiner == "sqrtn" ? session::Sqrt(count) : count);
  }

  Tensor Fail(absl::string_view message) {
    return session::FailOp(features_.tensors(), "feature_column", message, where_);
  }

  session::Variable GetVariable(absl::string_view name, const base::Shape& shape,
                                session::Initializer initializer, bool trainable = true) {
    return session::GetVariable(name, shape, DType::kF32, std::move(initializer),
                                {.trainable = trainable_ && trainable}, where_);
  }

 private:
  Tensor Missing(absl::string_view key) {
    return Fail(absl::StrCat("there is no feature '", key, "'; there are ",
                             features_.empty() ? "none" : absl::StrJoin(features_.names(), ", ")));
  }

  // [batch] as [batch, 1].
  Tensor AsMatrix(const Tensor& feature) {
    if (feature.shape().has_rank() && feature.shape().rank() == 1) {
      return session::ExpandDims(feature, 1);
    }
    return feature;
  }

  Tensor Numeric(const ColumnDef& column) {
    const Tensor* feature = features_.Find(column.key);
    if (feature == nullptr) return Missing(column.key);
    const int64_t size = column.numeric.shape.num_elements();
    if (feature->shape().has_rank()) {
      int64_t given = 1;
      const base::Shape& shape = feature->shape().shape();
      for (int i = 1; i < shape.rank(); ++i) given = shape.dim(i) < 0 ? -1 : given * shape.dim(i);
      if (shape.rank() == 0 || (given >= 0 && given != size)) {
        return Fail(absl::StrCat("feature '", column.key, "' has the shape ",
                                 feature->shape().ToString(), ", but its numeric column has ",
                                 column.numeric.shape.ToString(), " for each example"));
      }
    }
    Tensor values = session::Cast(*feature, DType::kF32);
    if (column.numeric.normalizer_fn != nullptr) values = column.numeric.normalizer_fn(values);
    return session::Reshape(values, {-1, size});
  }

  // Bucket of each number: int64[batch, n].
  Tensor Buckets(const ColumnDef& column) {
    const std::vector<float> boundaries(column.boundaries.begin(), column.boundaries.end());
    const Tensor limits = session::Constant(
        base::Array::Of<float>({static_cast<int64_t>(boundaries.size())}, boundaries));
    // NaN is in the last bucket, as in TensorFlow.
    const Tensor reached = session::LogicalNot(
        session::Less(session::ExpandDims(Numeric(*column.source), -1), limits));
    return session::ReduceSum(session::Cast(reached, DType::kI64), -1);
  }

  Tensor Bucketized(const ColumnDef& column) {
    const int64_t buckets = static_cast<int64_t>(column.boundaries.size()) + 1;
    return session::Reshape(session::OneHot(Buckets(column), buckets), {-1, NumBuckets(column)});
  }

  // As one categorical column, number i has ids of its own.
  Tensor BucketIds(const ColumnDef& column) {
    const int64_t buckets = static_cast<int64_t>(column.boundaries.size()) + 1;
    const int64_t size = column.source->numeric.shape.num_elements();
    std::vector<int64_t> first(size);
    for (int64_t i = 0; i < size; ++i) first[i] = i * buckets;
    return Buckets(column) +
           session::Constant(base::Array::Of<int64_t>({size}, absl::MakeConstSpan(first)));
  }

  Tensor Indicator(const ColumnDef& categorical) {
    return session::ReduceSum(session::OneHot(Ids(categorical), NumBuckets(categorical)), 1);
  }

  Tensor Embedding(const ColumnDef& column) {
    session::Initializer initializer = column.embedding.initializer;
    if (initializer == nullptr) {
      initializer = session::TruncatedNormalInitializer(
          0, 1 / std::sqrt(static_cast<double>(column.dimension)));
    }
    Tensor table = GetVariable("embedding_weights", {NumBuckets(*column.source), column.dimension},
                               std::move(initializer), column.embedding.trainable);
    if (column.embedding.max_norm.has_value()) {
      table = session::ClipByNorm(table, *column.embedding.max_norm, {1}, "", where_);
    }
    return Lookup(table, Ids(*column.source), column.embedding.combiner);
  }

  const NamedTensors& features_;
  const bool trainable_;
  const SourceLocation where_;
};

// The columns sorted by name, or an error: TensorFlow's order.
absl::StatusOr<std::vector<const ColumnDef*>> Sorted(const FeatureColumns& columns) {
  std::vector<const ColumnDef*> sorted;
  for (const FeatureColumn& column : columns) {
    if (!column.status().ok()) return column.status();
    sorted.push_back(&column.def());
  }
  if (sorted.empty()) return absl::InvalidArgumentError("there are no feature columns");
  std::stable_sort(sorted.begin(), sorted.end(), [](const ColumnDef* a, const ColumnDef* b) {
    return ColumnName(*a) < ColumnName(*b);
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (ColumnName(*sorted[i - 1]) == ColumnName(*sorted[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are two feature columns '", ColumnName(*sorted[i]), "'"));
    }
  }
  return sorted;
}

// TensorFlow's scope of a column: "sepal_length__cm_".
std::string ScopeName(const ColumnDef& column) {
  return absl::StrReplaceAll(session::AsName(ColumnName(column)), {{"/", "_"}});
}

}  // namespace

Tensor InputLayer(const NamedTensors& features, const FeatureColumns& columns, bool trainable,
                  SourceLocation where) {
  ColumnBuilder builder(features, trainable, where);
  const absl::StatusOr<std::vector<const ColumnDef*>> sorted = Sorted(columns);
  if (!sorted.ok()) return builder.Fail(sorted.status().message());
  const session::VariableScope scope(std::nullopt, "input_layer");
  Tensors parts;
  for (const ColumnDef* column : *sorted) {
    const session::VariableScope column_scope(std::nullopt, ScopeName(*column));
    parts.push_back(builder.Dense(*column));
  }
  return parts.size() == 1 ? parts[0] : session::Concat(parts, 1, "concat", where);
}

Tensor LinearModel(const NamedTensors& features, const FeatureColumns& columns,
                   const LinearModelOptions& options, SourceLocation where) {
  ColumnBuilder builder(features, options.trainable, where);
  const absl::StatusOr<std::vector<const ColumnDef*>> sorted = Sorted(columns);
  if (!sorted.ok()) return builder.Fail(sorted.status().message());
  const session::VariableScope scope(std::nullopt, "linear_model");
  Tensor sum;
  const auto add = [&sum](const Tensor& term) { sum = sum.valid() ? sum + term : term; };
  for (const ColumnDef* column : *sorted) {
    const session::VariableScope column_scope(std::nullopt, ScopeName(*column));
    if (FeatureColumn(std::make_shared<const ColumnDef>(*column)).is_categorical()) {
      const Tensor weights = builder.GetVariable("weights", {NumBuckets(*column), options.units},
                                                 session::ZerosInitializer());
      add(builder.Lookup(weights, builder.Ids(*column), options.sparse_combiner));
      continue;
    }
    const Tensor values = builder.Dense(*column);
    if (!values.valid()) return values;
    const int64_t width = values.shape().has_rank() ? values.shape().dim(-1) : -1;
    if (width < 0) return builder.Fail("the width of a dense column is unknown");
    const Tensor weights =
        builder.GetVariable("weights", {width, options.units}, session::ZerosInitializer());
    add(session::MatMul(values, weights));
  }
  const Tensor bias =
      builder.GetVariable("bias_weights", {options.units}, session::ZerosInitializer());
  return sum + bias;
}

}  // namespace penstock::feature_column
