// Metrics over many thresholds: areas under curves, and the maximum of one quantity at a given
// minimum of another.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/metrics/metric_decisions.h"
#include "penstock/nn/metrics/metric_table.h"

namespace penstock::nn {
namespace {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

// Limit: each threshold has an element in every table of counts.
constexpr int64_t kMaxThresholds = 1'000'000;

// Thresholds from 0 to 1.
struct Thresholds {
  std::vector<double> values;
  // Scores are compared by bucket, as in Keras: the bucket of 0.3 begins with the first float32
  // whose product with the number of buckets is above it.
  bool even = true;
  // The first and last thresholds are slightly outside [0, 1], so that every score is above the
  // former and below the latter.
  bool open = false;

  static Thresholds Even(int64_t count, bool open) {
    Thresholds thresholds{.values = {}, .open = open};
    for (int64_t i = 0; i < count; ++i)
      thresholds.values.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
    return thresholds;
  }
  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

// AUC's option `thresholds`, with 0 and 1 added.
Thresholds Given(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.insert(values.begin(), 0);
  values.push_back(1);
  Thresholds thresholds{.values = values, .open = true};
  const double buckets = static_cast<double>(values.size() - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const double even = static_cast<double>(i) / buckets;
    if (std::abs(values[i] - even) > kEpsilon + 1e-5 * even) thresholds.even = false;
  }
  thresholds.values.front() -= kEpsilon;
  thresholds.values.back() += kEpsilon;
  return thresholds;
}

// bool [score's shape, thresholds]: the score is above the threshold.
Value AboveEach(const Thresholds& thresholds, Value score) {
  ir::Graph& graph = *score.graph();
  const Value scores = ir::ExpandDims(score, score.rank());
  const ir::TensorType type{score.dtype(), Shape({thresholds.size()})};
  if (!thresholds.even) {
    const base::Array values = base::Array::Of<double>(type.shape, thresholds.values);
    return ir::Greater(scores, ir::Constant(graph, *values.Cast(score.dtype())));
  }
  const double buckets = static_cast<double>(thresholds.size() - 1);
  Value bucket = ir::Ceil(Clip(scores, 0, 1) * buckets) - 1.0;
  if (thresholds.open) bucket = ir::Maximum(bucket, ir::SplatLike(bucket, 0));
  return ir::GreaterEqual(bucket, ir::Iota(graph, type, 0));
}

// True positives, false positives, true negatives, false negatives at each threshold: [thresholds],
// or [labels, thresholds] if each label is separate.
constexpr int kNumCounts = 4;
struct Counts {
  Value tp, fp, tn, fn;
  explicit Counts(const Values& s) : tp(s[0]), fp(s[1]), tn(s[2]), fn(s[3]) {}
  Value Recall() const { return DivideNoNan(tp, tp + fn); }
  Value Precision() const { return DivideNoNan(tp, tp + fp); }
  Value Specificity() const { return DivideNoNan(tn, tn + fp); }
};

Values CountAtEach(const Thresholds& thresholds, const Decisions& d, bool by_label) {
  const auto flat = [&](Value x) {
    return by_label ? x : ir::Reshape(x, Shape({x.shape().num_elements()}));
  };
  const Value truth = flat(d.truth), weights = flat(d.weights);
  const Value zero = ir::SplatLike(weights, 0);
  const Value above = AboveEach(thresholds, flat(d.score));
  Values counts;
  Values totals;
  for (const Value& of : {ir::Select(truth, weights, zero), ir::Select(truth, zero, weights)}) {
    const Value each = ir::ExpandDims(of, of.rank());
    counts.push_back(ir::ReduceSum(ir::Select(above, each, ir::SplatLike(each, 0)), {0}));
    totals.push_back(ir::ReduceSum(each, {0}));
  }
  return {counts[0], counts[1], totals[1] - counts[1], totals[0] - counts[0]};
}

// ---- Areas ----

// x[i] and x[i + 1] along the last axis.
Value Fore(Value x) { return ir::SliceAxis(x, -1, 0, x.shape().dim(-1) - 1); }
Value Aft(Value x) { return ir::SliceAxis(x, -1, 1, x.shape().dim(-1)); }

// Davis and Goadrich, The relationship between precision-recall and ROC curves, 2006: precision
// between two thresholds is interpolated as its counts are.
Value InterpolatedPrecisionRecall(const Counts& c) {
  const Value dtp = Fore(c.tp) - Aft(c.tp), p = c.tp + c.fp;
  const Value zero = ir::SplatLike(dtp, 0), one = ir::SplatLike(dtp, 1);
  const Value slope = DivideNoNan(dtp, ir::Maximum(Fore(p) - Aft(p), zero));
  const Value intercept = Aft(c.tp) - slope * Aft(p);
  const Value both = ir::And(ir::Greater(Fore(p), zero), ir::Greater(Aft(p), zero));
  const Value ratio = ir::Select(both, DivideNoNan(Fore(p), ir::Maximum(Aft(p), zero)), one);
  return ir::ReduceSum(
      DivideNoNan(slope * (dtp + intercept * ir::Log(ratio)), ir::Maximum(Aft(c.tp + c.fn), zero)),
      {-1});
}

// Precision-recall-gain (Flach and Kull, Precision-recall-gain curves, 2015).
void Gains(const Counts& c, Value& recall, Value& precision) {
  const Value scale = DivideNoNan(c.tp + c.fn, c.tn + c.fp);
  const Value zero = ir::SplatLike(c.tp, 0), none = ir::Equal(c.tp, zero);
  recall = ir::Select(none, zero, 1.0 - scale * DivideNoNan(c.fn, c.tp));
  precision = ir::Select(none, ir::SplatLike(c.tp, 1), 1.0 - scale * DivideNoNan(c.fp, c.tp));
  recall = ir::Maximum(recall, zero);
}

struct AucMetric : MetricBody {
  explicit AucMetric(AucOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "auc"; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override {
    config("num_thresholds", options.num_thresholds)("curve", options.curve)(
        "summation_method", options.summation_method)("multi_label", options.multi_label)(
        "num_labels", options.num_labels);
    config.Optional("label_weights", options.label_weights);
    config("from_logits", options.from_logits);
    config.Optional("thresholds", options.thresholds);
  }
  absl::Status Check() const override {
    const std::string &curve = options.curve, &method = options.summation_method;
    if (curve != "ROC" && curve != "PR" && curve != "PRGAIN") {
      return absl::InvalidArgumentError(
          absl::StrCat("a curve must be \"ROC\", \"PR\" or \"PRGAIN\", got \"", curve, "\""));
    }
    if (method != "interpolation" && method != "minoring" && method != "majoring") {
      return absl::InvalidArgumentError(absl::StrCat(
          "summation_method must be \"interpolation\", \"minoring\" or \"majoring\", got \"",
          method, "\""));
    }
    for (double threshold : options.thresholds) {
      if (!(threshold >= 0 && threshold <= 1))
        return absl::InvalidArgumentError(
            absl::StrCat("thresholds must be from 0 to 1, got ", threshold));
    }
    if (options.thresholds.empty() &&
        (options.num_thresholds < 2 || options.num_thresholds > kMaxThresholds)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "num_thresholds must be from 2 to ", kMaxThresholds, ", got ", options.num_thresholds));
    }
    return absl::OkStatus();
  }
  Thresholds MakeThresholds() const {
    return options.thresholds.empty()
               ? Thresholds::Even(std::max<int64_t>(options.num_thresholds, 2), /*open=*/true)
               : Given(options.thresholds);
  }
  std::vector<ir::TensorType> States(const ir::TensorType& y_pred) const override {
    const int64_t thresholds = MakeThresholds().size();
    const int64_t labels = y_pred.shape.rank() >= 1 ? y_pred.shape.dim(-1) : 1;
    const Shape shape = options.multi_label ? Shape({labels, thresholds}) : Shape({thresholds});
    return std::vector<ir::TensorType>(kNumCounts, {DType::kF32, shape});
  }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    if (options.from_logits) y_pred = ir::Sigmoid(y_pred);
    Decisions d = MakeDecisions(name(), y_true, y_pred, weights);
    if (!d.truth.valid()) return {};
    const int64_t labels = d.score.shape().dim(-1);
    const int64_t expected = options.num_labels.value_or(
        options.label_weights.empty() ? labels
                                      : static_cast<int64_t>(options.label_weights.size()));
    if (expected != labels || (options.multi_label && d.score.rank() != 2)) {
      Mismatch(name(), y_true, y_pred,
               absl::StrCat("labels and predictions [batch, ", expected, "]"));
      return {};
    }
    if (!options.multi_label && !options.label_weights.empty())
      d.weights = d.weights * LabelWeights(*d.weights.graph());
    return CountAtEach(MakeThresholds(), d, options.multi_label);
  }
  Value Result(const Values& states) const override {
    const Counts counts(states);
    const Value area = Area(counts);  // scalar, or one for each label
    if (area.rank() == 0) return area;
    if (options.label_weights.empty()) return ir::ReduceMean(area);
    const Value weights = LabelWeights(*area.graph());
    return DivideNoNan(ir::ReduceSum(area * weights), ir::ReduceSum(weights));
  }

  Value LabelWeights(ir::Graph& graph) const {
    const auto& weights = options.label_weights;
    const Shape shape({static_cast<int64_t>(weights.size())});
    return ir::Constant(graph, *base::Array::Of<double>(shape, weights).Cast(DType::kF32));
  }

  Value Area(const Counts& c) const {
    if (options.curve == "PR" && options.summation_method == "interpolation")
      return InterpolatedPrecisionRecall(c);
    Value x = c.Recall(), y = c.Precision();
    if (options.curve == "ROC") {
      y = x;
      x = DivideNoNan(c.fp, c.fp + c.tn);
    } else if (options.curve == "PRGAIN") {
      Gains(c, x, y);
    }
    const Value height = options.summation_method == "interpolation" ? (Fore(y) + Aft(y)) / 2.0
                         : options.summation_method == "minoring"    ? ir::Minimum(Fore(y), Aft(y))
                                                                     : ir::Maximum(Fore(y), Aft(y));
    return ir::ReduceSum((Fore(x) - Aft(x)) * height, {-1});
  }
  AucOptions options;
};

// ---- Maximum of one quantity at a given minimum of another ----

struct AtKind {
  const char* name;
  const char* key;  // Keras's name of the given quantity
  Value (Counts::*given)() const;
  Value (Counts::*best)() const;
};

constexpr AtKind kSensitivityAtSpecificity{"sensitivity_at_specificity", "specificity",
                                           &Counts::Specificity, &Counts::Recall};
constexpr AtKind kSpecificityAtSensitivity{"specificity_at_sensitivity", "sensitivity",
                                           &Counts::Recall, &Counts::Specificity};
constexpr AtKind kPrecisionAtRecall{"precision_at_recall", "recall", &Counts::Recall,
                                    &Counts::Precision};
constexpr AtKind kRecallAtPrecision{"recall_at_precision", "precision", &Counts::Precision,
                                    &Counts::Recall};

struct AtMetric : MetricBody {
  explicit AtMetric(const AtKind& k, AtOptions o = {}) : kind(k), options(o) {}
  absl::string_view name() const override { return kind.name; }
  MetricDirection direction() const override { return MetricDirection::kUp; }
  void Fields(Config& config) override {
    config(kind.key, options.at)("num_thresholds", options.num_thresholds)("class_id",
                                                                           options.class_id);
  }
  absl::Status Check() const override {
    if (!(options.at >= 0 && options.at <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kind.key, " must be from 0 to 1, got ", options.at));
    }
    if (options.num_thresholds < 1 || options.num_thresholds > kMaxThresholds) {
      return absl::InvalidArgumentError(absl::StrCat(
          "num_thresholds must be from 1 to ", kMaxThresholds, ", got ", options.num_thresholds));
    }
    return absl::OkStatus();
  }
  Thresholds MakeThresholds() const {
    if (options.num_thresholds <= 1) return {.values = {0.5}, .even = false};
    return Thresholds::Even(options.num_thresholds, /*open=*/false);
  }
  std::vector<ir::TensorType> States(const ir::TensorType&) const override {
    return std::vector<ir::TensorType>(kNumCounts, {DType::kF32, Shape({MakeThresholds().size()})});
  }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    const Decisions d = MakeDecisions(name(), y_true, y_pred, weights, {}, options.class_id);
    return d.truth.valid() ? CountAtEach(MakeThresholds(), d, /*by_label=*/false) : Values();
  }
  Value Result(const Values& states) const override {
    const Counts counts(states);
    const Value given = (counts.*kind.given)(), best = (counts.*kind.best)();
    const Value enough = ir::GreaterEqual(given, ir::SplatLike(given, options.at));
    return ir::ReduceMax(ir::Select(enough, best, ir::SplatLike(best, 0)));
  }
  const AtKind& kind;
  AtOptions options;
};

template <const AtKind& kind>
std::shared_ptr<MetricBody> MakeAt() {
  return std::make_shared<AtMetric>(kind);
}

constexpr MetricRow kCurveMetrics[] = {
    {"auc", "AUC", "", MakeMetric<AucMetric>},
    {"sensitivity_at_specificity", "SensitivityAtSpecificity", "",
     MakeAt<kSensitivityAtSpecificity>},
    {"specificity_at_sensitivity", "SpecificityAtSensitivity", "",
     MakeAt<kSpecificityAtSensitivity>},
    {"precision_at_recall", "PrecisionAtRecall", "", MakeAt<kPrecisionAtRecall>},
    {"recall_at_precision", "RecallAtPrecision", "", MakeAt<kRecallAtPrecision>},
};

}  // namespace

absl::Span<const MetricRow> CurveMetrics() { return kCurveMetrics; }

Metric AUC(const AucOptions& options) { return Metric(std::make_shared<AucMetric>(options)); }
Metric SensitivityAtSpecificity(const AtOptions& options) {
  return Metric(std::make_shared<AtMetric>(kSensitivityAtSpecificity, options));
}
Metric SpecificityAtSensitivity(const AtOptions& options) {
  return Metric(std::make_shared<AtMetric>(kSpecificityAtSensitivity, options));
}
Metric PrecisionAtRecall(const AtOptions& options) {
  return Metric(std::make_shared<AtMetric>(kPrecisionAtRecall, options));
}
Metric RecallAtPrecision(const AtOptions& options) {
  return Metric(std::make_shared<AtMetric>(kRecallAtPrecision, options));
}

}  // namespace penstock::nn
