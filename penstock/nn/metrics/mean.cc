// Metrics that are a weighted mean of one value per example, and sums.
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/metrics/metric_table.h"

namespace penstock::nn {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

// A metric of f32 [batch, ...] values; the rest is shared.
struct MeanMetric : MetricBody {
  virtual Value Each(Value y_true, Value y_pred) const = 0;
  std::vector<ir::TensorType> States(const ir::TensorType&) const override { return MeanStates(); }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    if (!y_true.valid()) return {};
    const Value each = Each(y_true, y_pred);
    return each.valid() ? MeanUpdate(ir::Convert(each, DType::kF32), weights) : Values();
  }
  Value Result(const Values& states) const override { return MeanResult(states); }
};

// ---- Accuracies ----

Value Matches(Value a, Value b) { return ir::Convert(ir::Equal(a, b), DType::kF32); }

Value SparseMatches(absl::string_view name, Value y_true, Value y_pred) {
  const Value numbers = ClassNumbers(name, y_true, y_pred, "categorical_accuracy");
  if (!numbers.valid()) return Value();
  return Matches(ir::Convert(numbers, DType::kI32), ir::ArgMax(y_pred, -1));
}

bool SameOneHot(absl::string_view name, Value y_true, Value y_pred, absl::string_view sparse) {
  if (y_pred.rank() >= 2 && y_true.shape() == y_pred.shape()) return true;
  Mismatch(
      name, y_true, y_pred,
      absl::StrCat("labels and predictions [batch, classes] (for class indices use ", sparse, ")"));
  return false;
}

Value CategoricalMatches(absl::string_view name, Value y_true, Value y_pred) {
  if (!SameOneHot(name, y_true, y_pred, "sparse_categorical_accuracy")) return Value();
  return Matches(ir::ArgMax(y_true, -1), ir::ArgMax(y_pred, -1));
}

Value BinaryMatches(absl::string_view name, Value y_true, Value y_pred, double threshold) {
  if (!AlignLabels(name, y_true, y_pred)) return Value();
  const Value predicted = ir::Greater(y_pred, ir::SplatLike(y_pred, threshold));
  return Matches(y_true, ir::Convert(predicted, y_true.dtype()));
}

Value AnyMatches(absl::string_view name, Value y_true, Value y_pred) {
  if (y_pred.rank() == 1 || y_pred.shape().dim(-1) == 1)
    return BinaryMatches(name, y_true, y_pred, 0.5);
  const bool one_hot = y_true.shape() == y_pred.shape();
  return one_hot ? CategoricalMatches(name, y_true, y_pred) : SparseMatches(name, y_true, y_pred);
}

Value ExactMatches(absl::string_view name, Value y_true, Value y_pred) {
  return AlignLabels(name, y_true, y_pred) ? Matches(y_true, y_pred) : Value();
}

// Whether fewer than k predictions are larger than that of the class. NaN counts as the minimum.
Value InTopK(Value numbers, Value y_pred, int64_t k) {
  const Value smallest = ir::SplatLike(y_pred, -std::numeric_limits<double>::infinity());
  const Value one_hot = ir::OneHot(numbers, y_pred.shape().dim(-1), DType::kF32);
  const Value is_class =
      ir::And(ir::Greater(one_hot, ir::SplatLike(one_hot, 0.5)), ir::Equal(y_pred, y_pred));
  const Value of_class =
      ir::ReduceMax(ir::Select(is_class, y_pred, smallest), {-1}, /*keep_dims=*/true);
  const Value larger = ir::ReduceSum(ir::Convert(ir::Greater(y_pred, of_class), DType::kF32), {-1});
  return ir::Convert(ir::Less(larger, ir::SplatLike(larger, static_cast<double>(k))), DType::kF32);
}

absl::Status CheckK(int64_t k) {
  if (k >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("k must be at least 1, got ", k));
}

struct Accuracies : MeanMetric {
  using Function = Value (*)(absl::string_view, Value, Value);
  Accuracies(const char* n, Function f) : name_(n), function(f) {}
  absl::string_view name() const override { return name_; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  Value Each(Value y_true, Value y_pred) const override { return function(name_, y_true, y_pred); }
  const char* name_;
  Function function;
};

struct BinaryAccuracyMetric : MeanMetric {
  explicit BinaryAccuracyMetric(BinaryAccuracyOptions o = {}) : options(o) {}
  absl::string_view name() const override { return "binary_accuracy"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override { config("threshold", options.threshold); }
  Value Each(Value y_true, Value y_pred) const override {
    return BinaryMatches(name(), y_true, y_pred, options.threshold);
  }
  BinaryAccuracyOptions options;
};

struct TopK : MeanMetric {
  explicit TopK(TopKOptions o = {}) : options(o) {}
  absl::string_view name() const override { return "top_k_categorical_accuracy"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override { config("k", options.k); }
  absl::Status Check() const override { return CheckK(options.k); }
  Value Each(Value y_true, Value y_pred) const override {
    if (!SameOneHot(name(), y_true, y_pred, "sparse_top_k_categorical_accuracy")) return Value();
    return InTopK(ir::ArgMax(y_true, -1), y_pred, options.k);
  }
  TopKOptions options;
};

struct SparseTopK : MeanMetric {
  explicit SparseTopK(SparseTopKOptions o = {}) : options(o) {}
  absl::string_view name() const override { return "sparse_top_k_categorical_accuracy"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override {
    config("k", options.k)("from_sorted_ids", options.from_sorted_ids);
  }
  absl::Status Check() const override { return CheckK(options.k); }
  Value Each(Value y_true, Value y_pred) const override {
    const Value numbers = ClassNumbers(name(), y_true, y_pred, "top_k_categorical_accuracy");
    if (!numbers.valid()) return Value();
    if (!options.from_sorted_ids) return InTopK(numbers, y_pred, options.k);
    const int64_t first = std::min(options.k, y_pred.shape().dim(-1));
    const Value ids = ir::SliceAxis(y_pred, -1, 0, first);
    const Value label = ir::ExpandDims(ir::Convert(numbers, ids.dtype()), numbers.rank());
    return ir::ReduceMax(ir::Convert(ir::Equal(ids, label), DType::kF32), {-1});
  }
  SparseTopKOptions options;
};

// ---- Means of losses and of similar functions ----

struct MeanOfLossMetric : MetricBody {
  MeanOfLossMetric(std::shared_ptr<LossBody> b, absl::string_view n, MetricDirection d)
      : body(std::move(b)), name_(n), direction_(d) {}
  absl::string_view name() const override { return name_; }
  MetricDirection direction() const override { return direction_; }
  bool is_custom() const override { return body->is_custom(); }
  void Fields(Config& config) override { body->Fields(config); }
  absl::Status Check() const override { return body->Check(); }
  std::vector<ir::TensorType> States(const ir::TensorType&) const override { return MeanStates(); }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    const LossArguments arguments{.y_true = y_true,
                                  .y_pred = y_pred,
                                  .examples = weights.rank() == 1 ? weights : Value(),
                                  .value_axes = weights.rank()};
    LossValues values = Loss(body).Unreduced(arguments);
    if (!values.each.valid()) return {};
    if (values.each.rank() == 0)
      values.each = ir::BroadcastTo(values.each, base::Shape({y_pred.shape().dim(0)}));
    if (values.counted.valid()) {
      weights = BroadcastLeading("weights", weights, values.each.shape());
      if (!weights.valid()) return {};
      weights = weights * ir::Convert(values.counted, DType::kF32);
    }
    return MeanUpdate(values.each, weights);
  }
  Value Result(const Values& states) const override { return MeanResult(states); }
  std::shared_ptr<LossBody> body;
  std::string name_;
  MetricDirection direction_;
};

struct RootMeanSquared : MeanMetric {
  absl::string_view name() const override { return "root_mean_squared_error"; }
  MetricDirection direction() const override { return MetricDirection::kDown; }
  Value Each(Value y_true, Value y_pred) const override {
    return AlignLabels(name(), y_true, y_pred) ? ir::Square(y_pred - y_true) : Value();
  }
  Value Result(const Values& states) const override { return ir::Sqrt(MeanResult(states)); }
};

// Functions of labels and predictions along an axis: similarity and correlations.
using AlongAxis = Value (*)(Value y_true, Value y_pred, int64_t axis);

Value CosineOf(Value t, Value p, int64_t axis) {
  return ir::ReduceSum(UnitVectors(t, axis) * UnitVectors(p, axis), {axis});
}

Value Centered(Value x, int64_t axis) { return x - ir::ReduceMean(x, {axis}, /*keep_dims=*/true); }

Value VarianceOf(Value centered, int64_t axis) {
  return ir::ReduceMean(ir::Square(centered), {axis}, /*keep_dims=*/true);
}

Value PearsonOf(Value t, Value p, int64_t axis) {
  t = Centered(t, axis);
  p = Centered(p, axis);
  return ir::ReduceMean(t / ir::Sqrt(VarianceOf(t, axis)) * (p / ir::Sqrt(VarianceOf(p, axis))),
                        {axis});
}

// Lin, A concordance correlation coefficient to evaluate reproducibility, 1989.
Value ConcordanceOf(Value t, Value p, int64_t axis) {
  const Value t_mean = ir::ReduceMean(t, {axis}, true), p_mean = ir::ReduceMean(p, {axis}, true);
  const Value apart = VarianceOf(t - t_mean, axis) + VarianceOf(p - p_mean, axis) +
                      ir::Square(t_mean - p_mean) + kEpsilon;
  return ir::ReduceMean(2.0 * ((t - p_mean) * (p - p_mean)) / apart, {axis});
}

struct AxisMetric : MeanMetric {
  AxisMetric(const char* n, AlongAxis f, int64_t a = -1) : name_(n), function(f), axis(a) {}
  absl::string_view name() const override { return name_; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override { config("axis", axis); }
  Value Each(Value y_true, Value y_pred) const override {
    MatchRanks(y_true, y_pred);
    if (!AlignLabels(name(), y_true, y_pred)) return Value();
    const int64_t along = AxisAfterBatch(name(), y_pred, axis);
    return along < 0 ? Value() : function(y_true, y_pred, along);
  }
  const char* name_;
  AlongAxis function;
  int64_t axis;
};

// ---- Mean and sum of predictions ----

struct MeanOfPredictions : MetricBody {
  absl::string_view name() const override { return "mean"; }
  MetricDirection direction() const override { return MetricDirection::kUnknown; }
  std::vector<ir::TensorType> States(const ir::TensorType&) const override { return MeanStates(); }
  Values Update(Value, Value y_pred, Value weights) const override {
    return MeanUpdate(ir::Convert(y_pred, DType::kF32), weights);
  }
  Value Result(const Values& states) const override { return MeanResult(states); }
};

struct SumOfPredictions : MetricBody {
  absl::string_view name() const override { return "sum"; }
  MetricDirection direction() const override { return MetricDirection::kUnknown; }
  std::vector<ir::TensorType> States(const ir::TensorType&) const override {
    return {{DType::kF32, {}}};
  }
  Values Update(Value, Value y_pred, Value weights) const override {
    weights = BroadcastLeading("weights", weights, y_pred.shape());
    if (!weights.valid()) return {};
    const Value hidden = ir::Equal(weights, ir::SplatLike(weights, 0));
    return {ir::ReduceSum(
        ir::Select(hidden, ir::SplatLike(weights, 0), ir::Convert(y_pred, DType::kF32) * weights))};
  }
  Value Result(const Values& states) const override { return states[0]; }
};

// ---- R2 ----

struct R2 : MetricBody {
  explicit R2(R2ScoreOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "r2_score"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override {
    config("class_aggregation", options.class_aggregation)("num_regressors",
                                                           options.num_regressors);
  }
  absl::Status Check() const override {
    const std::string& how = options.class_aggregation;
    if (how != "uniform_average" && how != "variance_weighted_average") {
      return absl::InvalidArgumentError(absl::StrCat(
          "class_aggregation must be \"uniform_average\" or \"variance_weighted_average\" "
          "(one score for each output would not be a number), got \"",
          how, "\""));
    }
    if (options.num_regressors < 0)
      return absl::InvalidArgumentError("num_regressors must be non-negative");
    return absl::OkStatus();
  }
  // States: number of labels; for each output, the sums of weights, labels, squared labels, squared
  // errors.
  std::vector<ir::TensorType> States(const ir::TensorType& y_pred) const override {
    const int64_t outputs = y_pred.shape.rank() >= 2 ? y_pred.shape.dim(-1) : 1;
    const ir::TensorType of_each{DType::kF32, base::Shape({outputs})};
    return {{DType::kF32, {}}, of_each, of_each, of_each, of_each};
  }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    if (y_pred.rank() != 2) {
      Mismatch(name(), y_true, y_pred, "labels and predictions [batch, outputs]");
      return {};
    }
    const Value w = BroadcastLeading("weights", weights, y_pred.shape());
    if (!w.valid()) return {};
    const Value zero = ir::SplatLike(w, 0), hidden = ir::Equal(w, zero);
    const auto sum = [&](Value x) {
      return ir::ReduceSum(ir::Select(hidden, zero, ir::Convert(x, DType::kF32) * w), {0});
    };
    return {ir::ReduceSum(ir::Convert(ir::Not(hidden), DType::kF32)), ir::ReduceSum(w, {0}),
            sum(y_true), sum(ir::Square(y_true)), sum(ir::Square(y_true - y_pred))};
  }
  Value Result(const Values& s) const override {
    const Value number = s[0], weight = s[1], labels = s[2], squares = s[3], errors = s[4];
    const Value total = squares - labels * (labels / weight);
    Value scores = 1.0 - errors / total;
    const Value infinite =
        ir::Equal(ir::Abs(scores), ir::SplatLike(scores, std::numeric_limits<double>::infinity()));
    scores = ir::Select(infinite, ir::SplatLike(scores, 0), scores);
    const Value score = options.class_aggregation == "uniform_average"
                            ? ir::ReduceMean(scores)
                            : ir::ReduceSum(total * scores) / ir::ReduceSum(total);
    if (options.num_regressors == 0) return score;
    const double regressors = static_cast<double>(options.num_regressors);
    const Value left = number - (regressors + 1);
    const Value adjusted = 1.0 - (1.0 - score) * (number - 1.0) / left;
    return ir::Select(ir::Greater(left, ir::SplatLike(left, 0)), adjusted, score);
  }
  R2ScoreOptions options;
};

// ---- The table ----

using Body = std::shared_ptr<MetricBody>;

Body MakeAccuracy() { return std::make_shared<Accuracies>("accuracy", AnyMatches); }
Body MakeExact() { return std::make_shared<Accuracies>("exact_accuracy", ExactMatches); }
Body MakeSparse() {
  return std::make_shared<Accuracies>("sparse_categorical_accuracy", SparseMatches);
}
Body MakeCategorical() {
  return std::make_shared<Accuracies>("categorical_accuracy", CategoricalMatches);
}
Body MakeCosine() { return std::make_shared<AxisMetric>("cosine_similarity", CosineOf); }
Body MakePearson() { return std::make_shared<AxisMetric>("pearson_correlation", PearsonOf); }
Body MakeConcordance() {
  return std::make_shared<AxisMetric>("concordance_correlation", ConcordanceOf);
}

Body MeanOf(const Loss& loss, absl::string_view name) {
  return std::make_shared<MeanOfLossMetric>(loss.body(), name, MetricDirection::kDown);
}
template <Loss (*make)(const LossOptions&)>
Body OfLoss() {
  const Loss loss = make({});
  return MeanOf(loss, loss.name());
}
Body OfBinary() { return MeanOf(BinaryCrossentropy(), "binary_crossentropy"); }
Body OfCategorical() { return MeanOf(CategoricalCrossentropy(), "categorical_crossentropy"); }
Body OfSparse() {
  return MeanOf(SparseCategoricalCrossentropy(), "sparse_categorical_crossentropy");
}
Body OfLogCosh() { return MeanOf(LogCosh(), "logcosh"); }

constexpr MetricRow kMeanMetrics[] = {
    {"accuracy", "", "acc", MakeAccuracy},
    {"exact_accuracy", "Accuracy", "", MakeExact},
    {"sparse_categorical_accuracy", "SparseCategoricalAccuracy", "", MakeSparse},
    {"categorical_accuracy", "CategoricalAccuracy", "", MakeCategorical},
    {"binary_accuracy", "BinaryAccuracy", "", MakeMetric<BinaryAccuracyMetric>},
    {"top_k_categorical_accuracy", "TopKCategoricalAccuracy", "", MakeMetric<TopK>},
    {"sparse_top_k_categorical_accuracy", "SparseTopKCategoricalAccuracy", "top5",
     MakeMetric<SparseTopK>},
    {"mean_squared_error", "MeanSquaredError", "mse MSE", OfLoss<MeanSquaredError>},
    {"root_mean_squared_error", "RootMeanSquaredError", "", MakeMetric<RootMeanSquared>},
    {"mean_absolute_error", "MeanAbsoluteError", "mae MAE", OfLoss<MeanAbsoluteError>},
    {"mean_absolute_percentage_error", "MeanAbsolutePercentageError", "mape MAPE",
     OfLoss<MeanAbsolutePercentageError>},
    {"mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", "msle MSLE",
     OfLoss<MeanSquaredLogarithmicError>},
    {"logcosh", "LogCoshError", "log_cosh_error", OfLogCosh},
    {"cosine_similarity", "CosineSimilarity", "", MakeCosine},
    {"pearson_correlation", "PearsonCorrelation", "", MakePearson},
    {"concordance_correlation", "ConcordanceCorrelation", "", MakeConcordance},
    {"r2_score", "R2Score", "", MakeMetric<R2>},
    {"kl_divergence", "KLDivergence", "", OfLoss<KLDivergence>},
    {"poisson", "Poisson", "", OfLoss<Poisson>},
    {"binary_crossentropy", "BinaryCrossentropy", "bce BCE", OfBinary},
    {"categorical_crossentropy", "CategoricalCrossentropy", "", OfCategorical},
    {"sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", "", OfSparse},
    {"hinge", "Hinge", "", OfLoss<Hinge>},
    {"squared_hinge", "SquaredHinge", "", OfLoss<SquaredHinge>},
    {"categorical_hinge", "CategoricalHinge", "", OfLoss<CategoricalHinge>},
    {"mean", "Mean", "", MakeMetric<MeanOfPredictions>},
    {"sum", "Sum", "", MakeMetric<SumOfPredictions>},
};

}  // namespace

absl::Span<const MetricRow> MeanMetrics() { return kMeanMetrics; }

Metric Accuracy() { return Metric(MakeAccuracy()); }
Metric LogCoshErrorMetric() { return Metric(OfLogCosh()); }
Metric ExactAccuracy() { return Metric(MakeExact()); }
Metric SparseCategoricalAccuracy() { return Metric(MakeSparse()); }
Metric CategoricalAccuracy() { return Metric(MakeCategorical()); }
Metric BinaryAccuracy(const BinaryAccuracyOptions& options) {
  return Metric(std::make_shared<BinaryAccuracyMetric>(options));
}
Metric TopKCategoricalAccuracy(const TopKOptions& options) {
  return Metric(std::make_shared<TopK>(options));
}
Metric SparseTopKCategoricalAccuracy(const SparseTopKOptions& options) {
  return Metric(std::make_shared<SparseTopK>(options));
}
Metric MeanOfLoss(const Loss& loss) {
  // A user-defined function may be a score, so it has no direction, as in Keras.
  const MetricDirection direction =
      loss.is_custom() ? MetricDirection::kUnknown : MetricDirection::kDown;
  absl::string_view class_name = loss.body()->name();
  if (class_name == "cosine_similarity") class_name = "cosine_similarity_loss";
  return Metric(std::make_shared<MeanOfLossMetric>(loss.body(), class_name, direction))
      .Named(loss.name());
}
Metric MeanSquaredErrorMetric() { return MeanOfLoss(MeanSquaredError()); }
Metric RootMeanSquaredError() { return Metric(std::make_shared<RootMeanSquared>()); }
Metric CosineSimilarityMetric(const CorrelationOptions& options) {
  return Metric(std::make_shared<AxisMetric>("cosine_similarity", CosineOf, options.axis));
}
Metric PearsonCorrelation(const CorrelationOptions& options) {
  return Metric(std::make_shared<AxisMetric>("pearson_correlation", PearsonOf, options.axis));
}
Metric ConcordanceCorrelation(const CorrelationOptions& options) {
  return Metric(
      std::make_shared<AxisMetric>("concordance_correlation", ConcordanceOf, options.axis));
}
Metric Mean() { return Metric(std::make_shared<MeanOfPredictions>()); }
Metric Sum() { return Metric(std::make_shared<SumOfPredictions>()); }
Metric CustomMean(absl::string_view name, std::function<Value(Value y_true, Value y_pred)> function,
                  MetricDirection direction) {
  const Loss loss = CustomLoss(name, std::move(function));
  return Metric(std::make_shared<MeanOfLossMetric>(loss.body(), loss.name(), direction));
}
Metric R2Score(const R2ScoreOptions& options) { return Metric(std::make_shared<R2>(options)); }

}  // namespace penstock::nn
