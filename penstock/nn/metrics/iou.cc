// Intersection over union. Stores three sums per class; a confusion matrix, quadratic in the number
// of classes, is not needed.
#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/metrics/metric_table.h"

namespace penstock::nn {
namespace {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

enum class Kind { kIoU, kMean, kOneHot, kOneHotMean, kBinary };

struct IoUMetric : MetricBody {
  IoUMetric(Kind k, IoUOptions o, double t = 0) : kind(k), options(std::move(o)), threshold(t) {}

  MetricDirection direction() const override { return MetricDirection::kUp; }
  bool is_mean() const { return kind == Kind::kMean || kind == Kind::kOneHotMean; }
  bool is_one_hot() const { return kind == Kind::kOneHot || kind == Kind::kOneHotMean; }

  absl::string_view name() const override {
    switch (kind) {
      case Kind::kIoU:
        return "io_u";
      case Kind::kMean:
        return "mean_io_u";
      case Kind::kOneHot:
        return "one_hot_io_u";
      case Kind::kOneHotMean:
        return "one_hot_mean_io_u";
      case Kind::kBinary:
        return "binary_io_u";
    }
    return "";
  }
  void Fields(Config& config) override {
    if (!is_mean()) config("target_class_ids", options.target_class_ids);
    if (kind == Kind::kBinary) {
      config("threshold", threshold);
      return;
    }
    config("num_classes", options.num_classes)("ignore_class", options.ignore_class)(
        "sparse_y_pred", options.sparse_y_pred)("axis", options.axis);
    if (!is_one_hot()) config("sparse_y_true", options.sparse_y_true);
  }
  absl::Status Check() const override {
    if (options.num_classes < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_classes must be given, 2 or more; got ", options.num_classes));
    }
    if (!is_mean() && options.target_class_ids.empty())
      return absl::InvalidArgumentError("target_class_ids must be given: the classes to look at");
    for (int64_t id : options.target_class_ids) {
      if (id < 0 || id >= options.num_classes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "there is no target class ", id, "; classes are 0 to ", options.num_classes - 1));
      }
    }
    return absl::OkStatus();
  }

  // States per class: weights of labeled and predicted, of labeled, of predicted.
  std::vector<ir::TensorType> States(const ir::TensorType&) const override {
    return std::vector<ir::TensorType>(3, {DType::kF32, Shape({options.num_classes})});
  }
  Values Update(Value y_true, Value y_pred, Value weights) const override {
    if (!y_true.valid()) return {};
    if (kind == Kind::kBinary) y_pred = ir::GreaterEqual(y_pred, ir::SplatLike(y_pred, threshold));
    Value labels = ClassesOf(y_true, options.sparse_y_true);
    Value predictions = ClassesOf(y_pred, options.sparse_y_pred);
    if (!labels.valid() || !predictions.valid()) return {};
    if (!AlignLabels(name(), labels, predictions)) return {};
    weights = BroadcastLeading("weights", weights, labels.shape());
    if (!weights.valid()) return {};

    const Shape flat({labels.shape().num_elements(), 1});
    labels = ir::Reshape(labels, flat);
    predictions = ir::Reshape(predictions, flat);
    weights = ir::Reshape(weights, flat);
    Value counted = ir::And(IsClass(labels), IsClass(predictions));
    if (options.ignore_class.has_value()) {
      const Value ignored = ir::SplatLike(labels, static_cast<double>(*options.ignore_class));
      counted = ir::And(counted, ir::Not(ir::Equal(labels, ignored)));
    }
    const Value classes = ir::Iota(*labels.graph(), {DType::kI32, Shape({options.num_classes})}, 0);
    const Value labeled = ir::And(ir::Equal(labels, classes), counted);
    const Value predicted = ir::And(ir::Equal(predictions, classes), counted);
    const auto sum = [&](Value where) {
      return ir::ReduceSum(ir::Select(where, weights, ir::SplatLike(weights, 0)), {0});
    };
    return {sum(ir::And(labeled, predicted)), sum(labeled), sum(predicted)};
  }
  Value Result(const Values& states) const override {
    Value both = states[0], either = states[1] + states[2] - states[0];
    if (!is_mean()) {
      const Shape shape({static_cast<int64_t>(options.target_class_ids.size())});
      const Value ids =
          ir::Constant(*both.graph(), base::Array::Of<int64_t>(shape, options.target_class_ids));
      both = ir::Take(both, ids, 0);
      either = ir::Take(either, ids, 0);
    }
    // Classes that occur neither in labels nor in predictions do not count.
    const Value occurs = ir::Greater(either, ir::SplatLike(either, 1e-9));
    const Value each = ir::Select(occurs, both / (either + kEpsilon), ir::SplatLike(either, 0));
    return ir::ReduceSum(each) / (ir::ReduceSum(ir::Convert(occurs, DType::kF32)) + kEpsilon);
  }

  // i32 class indices.
  Value ClassesOf(Value x, bool sparse) const {
    if (sparse) return ir::Convert(x, DType::kI32);
    const int64_t axis = AxisAfterBatch(name(), x, options.axis);
    return axis < 0 ? Value() : ir::ArgMax(x, axis);
  }
  Value IsClass(Value x) const {
    return ir::And(ir::GreaterEqual(x, ir::SplatLike(x, 0)),
                   ir::Less(x, ir::SplatLike(x, static_cast<double>(options.num_classes))));
  }

  Kind kind;
  IoUOptions options;
  double threshold;
};

using Body = std::shared_ptr<MetricBody>;

Body OneHot(Kind kind, const OneHotIoUOptions& o) {
  return std::make_shared<IoUMetric>(kind, IoUOptions{.num_classes = o.num_classes,
                                                      .target_class_ids = o.target_class_ids,
                                                      .ignore_class = o.ignore_class,
                                                      .sparse_y_true = false,
                                                      .sparse_y_pred = o.sparse_y_pred,
                                                      .axis = o.axis});
}

Body Binary(const BinaryIoUOptions& o) {
  return std::make_shared<IoUMetric>(
      Kind::kBinary, IoUOptions{.num_classes = 2, .target_class_ids = o.target_class_ids},
      o.threshold);
}

constexpr MetricRow kIoUMetrics[] = {
    {"io_u", "IoU", "iou",
     []() -> Body { return std::make_shared<IoUMetric>(Kind::kIoU, IoUOptions{}); }},
    {"mean_io_u", "MeanIoU", "mean_iou",
     []() -> Body { return std::make_shared<IoUMetric>(Kind::kMean, IoUOptions{}); }},
    {"one_hot_io_u", "OneHotIoU", "one_hot_iou", [] { return OneHot(Kind::kOneHot, {}); }},
    {"one_hot_mean_io_u", "OneHotMeanIoU", "one_hot_mean_iou",
     [] { return OneHot(Kind::kOneHotMean, {}); }},
    {"binary_io_u", "BinaryIoU", "binary_iou", [] { return Binary({}); }},
};

}  // namespace

absl::Span<const MetricRow> IoUMetrics() { return kIoUMetrics; }

Metric IoU(const IoUOptions& options) {
  return Metric(std::make_shared<IoUMetric>(Kind::kIoU, options));
}
Metric MeanIoU(const IoUOptions& options) {
  return Metric(std::make_shared<IoUMetric>(Kind::kMean, options));
}
Metric OneHotIoU(const OneHotIoUOptions& options) { return Metric(OneHot(Kind::kOneHot, options)); }
Metric OneHotMeanIoU(const OneHotIoUOptions& options) {
  return Metric(OneHot(Kind::kOneHotMean, options));
}
Metric BinaryIoU(const BinaryIoUOptions& options) { return Metric(Binary(options)); }

}  // namespace penstock::nn
