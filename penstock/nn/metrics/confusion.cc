// Metrics of decisions at one threshold: counts, precision, recall, F scores.
#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/metrics/metric_decisions.h"
#include "penstock/nn/metrics/metric_table.h"

namespace penstock::nn {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

Value Decisions::SumWhere(Value chosen, const ir::Axes& axes) const {
  return ir::ReduceSum(ir::Select(chosen, weights, ir::SplatLike(weights, 0)), axes);
}

namespace {

// Compares every score with every other of its row: a sort would be slower for so few.
Value KeepTopK(Value score, int64_t k) {
  const int rank = score.rank();
  const int64_t classes = score.shape().dim(-1);
  const Value mine = ir::ExpandDims(score, rank), others = ir::ExpandDims(score, rank - 1);
  const ir::TensorType pairs{DType::kI32, Shape({classes, classes})};
  const Value before =
      ir::Less(ir::Iota(*score.graph(), pairs, 1), ir::Iota(*score.graph(), pairs, 0));
  const Value ahead = ir::Or(ir::Greater(others, mine), ir::And(ir::Equal(others, mine), before));
  const Value place = ir::ReduceSum(ir::Convert(ahead, DType::kF32), {-1});
  const Value kept = ir::Less(place, ir::SplatLike(place, static_cast<double>(k)));
  return ir::Select(kept, score, ir::SplatLike(score, kExcludedScore));
}

}  // namespace

Decisions MakeDecisions(absl::string_view who, Value y_true, Value y_pred, Value weights,
                        std::optional<int64_t> top_k, std::optional<int64_t> class_id) {
  if (!AlignLabels(who, y_true, y_pred)) return {};
  if (top_k.has_value()) y_pred = KeepTopK(y_pred, *top_k);
  if (class_id.has_value()) {
    if (*class_id < 0 || *class_id >= y_pred.shape().dim(-1)) {
      y_pred.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
          who, ": there is no class ", *class_id, " in predictions ", y_pred.type().ToString())));
      return {};
    }
    y_true = ir::SliceAxis(y_true, -1, *class_id, *class_id + 1);
    y_pred = ir::SliceAxis(y_pred, -1, *class_id, *class_id + 1);
  }
  weights = BroadcastLeading("weights", weights, y_pred.shape());
  if (!weights.valid()) return {};
  return {ir::Not(ir::Equal(y_true, ir::SplatLike(y_true, 0))), y_pred, weights};
}

namespace {

const ir::TensorType kScalar{DType::kF32, {}};

absl::Status CheckThreshold(double threshold) {
  if (threshold >= 0 && threshold <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a threshold must be from 0 to 1, got ", threshold,
                   " (for logits, put a sigmoid or softmax before the metric)"));
}

Value IsAbove(Value score, double threshold) {
  return ir::Greater(score, ir::SplatLike(score, threshold));
}

// ---- Counts ----

struct CountMetric : MetricBody {
  CountMetric(const char* n, bool t, bool p, CountOptions o = {})
      : name_(n), truth(t), positive(p), options(o) {}
  absl::string_view name() const override { return name_; }
  // As in Keras: a higher count of true positives may just mean more positives.
  MetricDirection direction() const override { return MetricDirection::kUnknown; }
  void Fields(Config& config) override { config("thresholds", options.thresholds); }
  absl::Status Check() const override { return CheckThreshold(options.thresholds); }
  std::vector<ir::TensorType> States(const ir::TensorType&) const override { return {kScalar}; }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    const Decisions d = MakeDecisions(name_, y_true, y_pred, weights);
    if (!d.truth.valid()) return {};
    const Value above = IsAbove(d.score, options.thresholds);
    return {
        d.SumWhere(ir::And(truth ? d.truth : ir::Not(d.truth), positive ? above : ir::Not(above)))};
  }
  Value Result(const Values& states) const override { return states[0]; }
  const char* name_;
  bool truth, positive;  // counted combination
  CountOptions options;
};

// ---- Precision and recall ----

struct PrecisionMetric : MetricBody {
  explicit PrecisionMetric(bool r, PrecisionOptions o = {}) : recall(r), options(o) {}
  absl::string_view name() const override { return recall ? "recall" : "precision"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override {
    config("thresholds", options.thresholds)("top_k", options.top_k)("class_id", options.class_id);
  }
  absl::Status Check() const override {
    if (options.top_k.value_or(1) < 1)
      return absl::InvalidArgumentError(
          absl::StrCat("top_k must be at least 1, got ", *options.top_k));
    return CheckThreshold(options.thresholds.value_or(0.5));
  }
  // States: true positives; false positives (precision) or false negatives (recall).
  std::vector<ir::TensorType> States(const ir::TensorType&) const override {
    return {kScalar, kScalar};
  }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    const Decisions d =
        MakeDecisions(name(), y_true, y_pred, weights, options.top_k, options.class_id);
    if (!d.truth.valid()) return {};
    const double all = options.top_k.has_value() ? kExcludedScore : 0.5;
    const Value above = IsAbove(d.score, options.thresholds.value_or(all));
    const Value wrong =
        recall ? ir::And(d.truth, ir::Not(above)) : ir::And(ir::Not(d.truth), above);
    return {d.SumWhere(ir::And(d.truth, above)), d.SumWhere(wrong)};
  }
  Value Result(const Values& states) const override {
    return DivideNoNan(states[0], states[0] + states[1]);
  }
  bool recall;
  PrecisionOptions options;
};

// ---- F scores ----

// Whether labels are [batch] or [batch, 1] beside predictions [batch, classes].
bool AreClassNumbers(Value y_true, Value y_pred) {
  if (y_true.rank() == 0 || y_true.shape().dim(0) != y_pred.shape().dim(0)) return false;
  return y_true.rank() == 1 || (y_true.rank() == 2 && y_true.shape().dim(1) == 1);
}

struct FScore : MetricBody {
  FScore(bool one, FBetaOptions o = {}) : is_f1(one), options(std::move(o)) {}
  MetricDirection direction() const override { return MetricDirection::kUp; }
  absl::string_view name() const override { return is_f1 ? "f1_score" : "fbeta_score"; }
  void Fields(Config& config) override {
    config("average", options.average)("threshold", options.threshold);
    if (!is_f1) config("beta", options.beta);
  }
  absl::Status Check() const override {
    const std::string& average = options.average;
    if (average != "micro" && average != "macro" && average != "weighted") {
      return absl::InvalidArgumentError(absl::StrCat(
          "average must be \"micro\", \"macro\" or \"weighted\" (one score for each class "
          "would not be a number), got \"",
          average, "\""));
    }
    if (options.beta <= 0)
      return absl::InvalidArgumentError(absl::StrCat("beta must be above 0, got ", options.beta));
    return CheckThreshold(options.threshold.value_or(0.5));
  }
  // States: true positives, false positives, false negatives, labels; per class, except for micro.
  std::vector<ir::TensorType> States(const ir::TensorType& y_pred) const override {
    const int64_t classes = y_pred.shape.rank() >= 1 ? y_pred.shape.dim(-1) : 1;
    const ir::TensorType each{DType::kF32, Shape({classes})};
    return std::vector<ir::TensorType>(4, options.average == "micro" ? kScalar : each);
  }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    if (!y_true.valid()) return {};
    if (y_pred.rank() == 2 && y_pred.shape().dim(1) > 1 && AreClassNumbers(y_true, y_pred)) {
      y_true =
          ir::OneHot(ClassNumbers(name(), y_true, y_pred, ""), y_pred.shape().dim(1), DType::kF32);
    }
    if (y_pred.rank() != 2 || !(y_true.shape() == y_pred.shape())) {
      Mismatch(name(), y_true, y_pred,
               "predictions [batch, classes], and labels of 0 and 1 of that shape or class indices "
               "[batch]");
      return {};
    }
    weights = BroadcastLeading("weights", weights, y_pred.shape());
    if (!weights.valid()) return {};
    Value above;
    if (options.threshold.has_value()) {
      above = IsAbove(y_pred, *options.threshold);
    } else {
      // A row of zeros has no maximum.
      const Value largest = ir::ReduceMax(y_pred, {-1}, /*keep_dims=*/true);
      above = ir::And(ir::GreaterEqual(y_pred, largest), IsAbove(ir::Abs(y_pred), 1e-9));
    }
    const Value t = ir::Convert(y_true, DType::kF32), p = ir::Convert(above, DType::kF32);
    const ir::Axes axes = options.average == "micro" ? ir::Axes{0, 1} : ir::Axes{0};
    const auto sum = [&](Value x) { return ir::ReduceSum(x * weights, axes); };
    return {sum(p * t), sum(p * (1.0 - t)), sum((1.0 - p) * t), sum(t)};
  }
  Value Result(const Values& s) const override {
    const Value precision = s[0] / (s[0] + s[1] + kEpsilon);
    const Value recall = s[0] / (s[0] + s[2] + kEpsilon);
    const double squared = options.beta * options.beta;
    const Value score =
        precision * recall / (squared * precision + recall + kEpsilon) * (1 + squared);
    if (options.average != "weighted") return ir::ReduceMean(score);
    return ir::ReduceSum(score * (s[3] / (ir::ReduceSum(s[3]) + kEpsilon)));
  }
  bool is_f1;
  FBetaOptions options;
};

// ---- The table ----

using Body = std::shared_ptr<MetricBody>;

Body TruePositive(const CountOptions& o = {}) {
  return std::make_shared<CountMetric>("true_positives", true, true, o);
}
Body TrueNegative(const CountOptions& o = {}) {
  return std::make_shared<CountMetric>("true_negatives", false, false, o);
}
Body FalsePositive(const CountOptions& o = {}) {
  return std::make_shared<CountMetric>("false_positives", false, true, o);
}
Body FalseNegative(const CountOptions& o = {}) {
  return std::make_shared<CountMetric>("false_negatives", true, false, o);
}

constexpr MetricRow kConfusionMetrics[] = {
    {"true_positives", "TruePositives", "", [] { return TruePositive(); }},
    {"true_negatives", "TrueNegatives", "", [] { return TrueNegative(); }},
    {"false_positives", "FalsePositives", "", [] { return FalsePositive(); }},
    {"false_negatives", "FalseNegatives", "", [] { return FalseNegative(); }},
    {"precision", "Precision", "",
     []() -> Body { return std::make_shared<PrecisionMetric>(false); }},
    {"recall", "Recall", "", []() -> Body { return std::make_shared<PrecisionMetric>(true); }},
    {"fbeta_score", "FBetaScore", "f_beta_score",
     []() -> Body { return std::make_shared<FScore>(false); }},
    {"f1_score", "F1Score", "f1", []() -> Body { return std::make_shared<FScore>(true); }},
};

}  // namespace

absl::Span<const MetricRow> ConfusionMetrics() { return kConfusionMetrics; }

Metric TruePositives(const CountOptions& options) { return Metric(TruePositive(options)); }
Metric TrueNegatives(const CountOptions& options) { return Metric(TrueNegative(options)); }
Metric FalsePositives(const CountOptions& options) { return Metric(FalsePositive(options)); }
Metric FalseNegatives(const CountOptions& options) { return Metric(FalseNegative(options)); }
Metric Precision(const PrecisionOptions& options) {
  return Metric(std::make_shared<PrecisionMetric>(false, options));
}
Metric Recall(const PrecisionOptions& options) {
  return Metric(std::make_shared<PrecisionMetric>(true, options));
}
Metric FBetaScore(const FBetaOptions& options) {
  return Metric(std::make_shared<FScore>(false, options));
}
Metric F1Score(const F1Options& options) {
  return Metric(std::make_shared<FScore>(
      true, FBetaOptions{.average = options.average, .threshold = options.threshold}));
}

}  // namespace penstock::nn
