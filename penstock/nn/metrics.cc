#include "penstock/nn/metrics.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/losses.h"

namespace penstock::nn {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

Value Mismatch(absl::string_view metric, Value y_true, Value y_pred, absl::string_view wanted) {
  y_pred.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(metric, " wants ", wanted, "; got labels ", y_true.type().ToString(),
                   " and predictions ", y_pred.type().ToString())));
  return Value();
}

// Averages f32[batch, ...] over everything but the batch.
Value PerExampleMean(Value x) {
  ir::Axes rest;
  for (int64_t i = 1; i < x.rank(); ++i) rest.push_back(i);
  return rest.empty() ? x : ir::ReduceMean(x, rest);
}

Value Matches(Value a, Value b) {
  return PerExampleMean(ir::Convert(ir::Equal(a, b), DType::kF32));
}

Value SparseMatches(absl::string_view name, Value y_true, Value y_pred) {
  if (y_true.rank() == y_pred.rank() && y_true.shape().dim(-1) == 1)
    y_true = ir::Squeeze(y_true, {-1});
  if (y_pred.rank() < 2 || y_true.rank() != y_pred.rank() - 1) {
    return Mismatch(name, y_true, y_pred, "class numbers [batch] and predictions [batch, classes]");
  }
  return Matches(ir::Convert(y_true, DType::kI32), ir::ArgMax(y_pred, -1));
}

Value CategoricalMatches(absl::string_view name, Value y_true, Value y_pred) {
  if (y_pred.rank() < 2 || !(y_true.shape() == y_pred.shape())) {
    return Mismatch(name, y_true, y_pred, "labels and predictions [batch, classes]");
  }
  return Matches(ir::ArgMax(y_true, -1), ir::ArgMax(y_pred, -1));
}

Value BinaryMatches(absl::string_view name, Value y_true, Value y_pred) {
  if (y_true.rank() + 1 == y_pred.rank() && y_pred.shape().dim(-1) == 1)
    y_pred = ir::Squeeze(y_pred, {-1});
  if (!(y_true.shape() == y_pred.shape())) {
    return Mismatch(name, y_true, y_pred, "labels and predictions of one shape");
  }
  const Value predicted = ir::Convert(ir::Greater(y_pred, ir::SplatLike(y_pred, 0.5)), DType::kF32);
  return Matches(ir::Convert(y_true, DType::kF32), predicted);
}

Value AnyMatches(absl::string_view name, Value y_true, Value y_pred) {
  if (y_pred.rank() >= 1 && (y_pred.rank() == 1 || y_pred.shape().dim(-1) == 1)) {
    return BinaryMatches(name, y_true, y_pred);
  }
  const bool one_hot = y_true.shape() == y_pred.shape();
  return one_hot ? CategoricalMatches(name, y_true, y_pred) : SparseMatches(name, y_true, y_pred);
}

Value SquaredErrors(absl::string_view, Value y_true, Value y_pred) {
  return MeanSquaredError().PerExample(y_true, y_pred);
}

// A metric that is the mean of one number for each example.
struct Row {
  const char* name;
  const char* alias;
  Value (*per_example)(absl::string_view name, Value y_true, Value y_pred);
};

constexpr Row kTable[] = {
    {"accuracy", "acc", AnyMatches},
    {"sparse_categorical_accuracy", "sparse_categorical_accuracy", SparseMatches},
    {"categorical_accuracy", "categorical_accuracy", CategoricalMatches},
    {"binary_accuracy", "binary_accuracy", BinaryMatches},
    {"mean_squared_error", "mse", SquaredErrors},
};

struct MeanOfExamples : MetricBody {
  explicit MeanOfExamples(const Row& r) : row(r) {}
  absl::string_view name() const override { return row.name; }
  std::vector<ir::TensorType> States() const override { return MeanStates(); }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    return MeanUpdate(row.per_example(row.name, y_true, y_pred), weights);
  }
  Value Result(const Values& states) const override { return MeanResult(states); }
  const Row& row;
};

Metric Make(absl::string_view name) {
  absl::StatusOr<Metric> metric = Metric::FromName(name);
  PENSTOCK_CHECK_OK(metric);
  return *metric;
}

}  // namespace

ir::Values Metric::Update(Value y_true, Value y_pred, Value weights) const {
  if (!y_true.valid() || !y_pred.valid()) return Values(States().size());
  if (base::IsFloat(y_pred.dtype()) && base::ByteWidth(y_pred.dtype()) < 4)
    y_pred = ir::Convert(y_pred, DType::kF32);
  return body_->Update(y_true, y_pred, weights);
}

absl::StatusOr<Metric> Metric::FromName(absl::string_view name) {
  std::string known;
  for (const Row& row : kTable) {
    if (name == row.name || name == row.alias) return Metric(std::make_shared<MeanOfExamples>(row));
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::NotFoundError(absl::StrCat("there is no metric '", name, "'; there are ", known));
}

Metric Accuracy() { return Make("accuracy"); }
Metric SparseCategoricalAccuracy() { return Make("sparse_categorical_accuracy"); }
Metric CategoricalAccuracy() { return Make("categorical_accuracy"); }
Metric BinaryAccuracy() { return Make("binary_accuracy"); }
Metric MeanSquaredErrorMetric() { return Make("mean_squared_error"); }

ir::Values MeanUpdate(Value values, Value weights) {
  // A weight of zero hides whatever the padded example gave, NaN included.
  const Value counted = ir::Greater(weights, ir::SplatLike(weights, 0));
  const Value weighted = ir::Select(counted, values * weights, ir::SplatLike(weights, 0));
  return {ir::ReduceSum(weighted), ir::ReduceSum(weights)};
}

Value MeanResult(const Values& states) {
  const Value nothing = ir::Equal(states[1], ir::SplatLike(states[1], 0));
  return ir::Select(nothing, ir::SplatLike(states[0], 0),
                    states[0] / ir::Select(nothing, ir::SplatLike(states[1], 1), states[1]));
}

std::vector<ir::TensorType> MeanStates() { return {{DType::kF32, {}}, {DType::kF32, {}}}; }

}  // namespace penstock::nn
