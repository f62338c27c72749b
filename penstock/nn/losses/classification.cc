// Classification losses: crossentropies and hinges.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/losses/loss_table.h"

namespace penstock::nn {
namespace {

using ir::Value;

absl::Status CheckSmoothing(double smoothing) {
  if (smoothing >= 0 && smoothing <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("label_smoothing must be from 0 to 1, got ", smoothing));
}

// Probabilities clipped to values with a finite logarithm.
Value Cut(Value p) { return Clip(p, kEpsilon, 1 - kEpsilon); }

// Probabilities normalized to sum 1 over the last axis, and clipped.
Value Normalized(Value p) { return Cut(p / ir::ReduceSum(p, {-1}, /*keep_dims=*/true)); }

Value LogProbabilities(Value y_pred, bool from_logits) {
  return from_logits ? ir::LogSoftmax(y_pred, -1) : ir::Log(Normalized(y_pred));
}

// Rejects a softmax over one class, which is 1 whatever the network computes.
bool HasClasses(absl::string_view who, Value y_true, Value y_pred, int64_t axis) {
  if (y_pred.shape().dim(static_cast<int>(axis)) > 1) return true;
  Mismatch(who, y_true, y_pred,
           "predictions of two classes or more (for a single probability use binary_crossentropy)");
  return false;
}

// Aligns one-hot labels and predictions to one shape, with the classes last; false after an error.
bool AlignOneHot(absl::string_view who, Value& y_true, Value& y_pred, int64_t axis,
                 absl::string_view sparse) {
  if (y_pred.rank() < 2 || !(y_true.shape() == y_pred.shape())) {
    Mismatch(
        who, y_true, y_pred,
        absl::StrCat("labels and predictions [batch, classes]",
                     sparse.empty() ? "" : absl::StrCat(" (for class indices use ", sparse, ")")));
    return false;
  }
  axis = AxisAfterBatch(who, y_pred, axis);
  if (axis < 0 || !HasClasses(who, y_true, y_pred, axis)) return false;
  y_true = MoveToLast(ir::Convert(y_true, y_pred.dtype()), axis);
  y_pred = MoveToLast(y_pred, axis);
  return true;
}

Value SmoothOneHot(Value y_true, double smoothing) {
  if (smoothing == 0) return y_true;
  return y_true * (1 - smoothing) + smoothing / static_cast<double>(y_true.shape().dim(-1));
}

Value SmoothBinary(Value y_true, double smoothing) {
  return smoothing == 0 ? y_true : y_true * (1 - smoothing) + 0.5 * smoothing;
}

// ---- Categorical ----

struct Categorical : LossBody {
  explicit Categorical(CrossentropyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "categorical_crossentropy"; }
  LabelRule labels() const override { return LabelRule::kDistribution; }
  int64_t class_axis() const override { return options.axis; }
  std::optional<bool> expects_probabilities() const override { return !options.from_logits; }
  void Fields(Config& config) override {
    config("from_logits", options.from_logits)("label_smoothing", options.label_smoothing)(
        "axis", options.axis);
  }
  absl::Status Check() const override { return CheckSmoothing(options.label_smoothing); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignOneHot(name(), y_true, y_pred, options.axis, "sparse_categorical_crossentropy"))
      return {};
    y_true = SmoothOneHot(y_true, options.label_smoothing);
    return -ir::ReduceSum(y_true * LogProbabilities(y_pred, options.from_logits), {-1});
  }
  CrossentropyOptions options;
};

struct CategoricalFocal : LossBody {
  explicit CategoricalFocal(CategoricalFocalCrossentropyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "categorical_focal_crossentropy"; }
  LabelRule labels() const override { return LabelRule::kDistribution; }
  int64_t class_axis() const override { return options.axis; }
  std::optional<bool> expects_probabilities() const override { return !options.from_logits; }
  void Fields(Config& config) override {
    config("alpha", options.alpha)("gamma", options.gamma)("from_logits", options.from_logits)(
        "label_smoothing", options.label_smoothing)("axis", options.axis);
  }
  absl::Status Check() const override { return CheckSmoothing(options.label_smoothing); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignOneHot(name(), y_true, y_pred, options.axis, "")) return {};
    y_true = SmoothOneHot(y_true, options.label_smoothing);
    const Value p = Normalized(options.from_logits ? ir::Softmax(y_pred, -1) : y_pred);
    const Value factor = options.alpha * ir::Power(1.0 - p, ir::SplatLike(p, options.gamma));
    return -ir::ReduceSum(factor * y_true * ir::Log(p), {-1});
  }
  CategoricalFocalCrossentropyOptions options;
};

// ---- Class indices ----

// The loss where `numbers` are valid class indices, NaN elsewhere.
Value NanOutside(Value numbers, int64_t classes, Value loss) {
  const Value zero = ir::SplatLike(numbers, 0),
              limit = ir::SplatLike(numbers, static_cast<double>(classes));
  const Value known = ir::And(ir::GreaterEqual(numbers, zero), ir::Less(numbers, limit));
  return ir::Select(known, loss, ir::SplatLike(loss, std::numeric_limits<double>::quiet_NaN()));
}

// The element of x's last axis at each class index.
Value Chosen(Value x, Value numbers) {
  const Value one_hot = ir::OneHot(numbers, x.shape().dim(-1), x.dtype());
  return ir::ReduceSum(
      ir::Select(ir::Greater(one_hot, ir::SplatLike(one_hot, 0.5)), x, ir::SplatLike(x, 0)), {-1});
}

struct Sparse : LossBody {
  explicit Sparse(SparseCrossentropyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "sparse_categorical_crossentropy"; }
  LabelRule labels() const override { return LabelRule::kClassNumbers; }
  int64_t class_axis() const override { return options.axis; }
  std::optional<int64_t> ignored_class() const override { return options.ignore_class; }
  std::optional<bool> expects_probabilities() const override { return !options.from_logits; }
  void Fields(Config& config) override {
    config("from_logits", options.from_logits)("ignore_class", options.ignore_class)("axis",
                                                                                     options.axis);
    std::optional<double> smoothing;
    if (options.label_smoothing != 0) smoothing = options.label_smoothing;
    config.IfGiven("label_smoothing", smoothing);
    options.label_smoothing = smoothing.value_or(0);
  }
  absl::Status Check() const override { return CheckSmoothing(options.label_smoothing); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    const int64_t axis = y_pred.rank() < 2 ? 1 : AxisAfterBatch(name(), y_pred, options.axis);
    if (axis < 0) return {};
    if (y_pred.rank() >= 2 && axis != y_pred.rank() - 1) {
      if (y_true.rank() == y_pred.rank()) y_true = MoveToLast(y_true, axis);
      y_pred = MoveToLast(y_pred, axis);
    }
    Value numbers = ClassNumbers(name(), y_true, y_pred, "categorical_crossentropy");
    if (!numbers.valid() || !HasClasses(name(), y_true, y_pred, y_pred.rank() - 1)) return {};
    Value counted;
    if (options.ignore_class.has_value()) {
      const Value ignored =
          ir::Equal(numbers, ir::SplatLike(numbers, static_cast<double>(*options.ignore_class)));
      counted = ir::Not(ignored);
      numbers = ir::Select(ignored, ir::SplatLike(numbers, 0), numbers);
      y_pred = ir::Select(ir::ExpandDims(ignored, ignored.rank()),
                          ir::Splat(*y_pred.graph(), {y_pred.dtype(), {}}, 0), y_pred);
    }
    const Value log = LogProbabilities(y_pred, options.from_logits);
    Value loss = -Chosen(log, numbers);
    if (const double smoothing = options.label_smoothing; smoothing != 0) {
      loss = loss * (1 - smoothing) - smoothing * ir::ReduceMean(log, {-1});
    }
    return {NanOutside(numbers, y_pred.shape().dim(-1), loss), counted};
  }
  SparseCrossentropyOptions options;
};

struct GeneralizedCrossEntropy : LossBody {
  explicit GeneralizedCrossEntropy(GeneralizedCrossEntropyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "categorical_generalized_cross_entropy"; }
  LabelRule labels() const override { return LabelRule::kClassNumbers; }
  std::optional<bool> expects_probabilities() const override { return true; }
  void Fields(Config& config) override { config("q", options.q); }
  absl::Status Check() const override {
    if (options.q > 0 && options.q < 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("q must be between 0 and 1, got ", options.q));
  }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    const Value numbers = ClassNumbers(name(), y_true, y_pred, "categorical_crossentropy");
    if (!numbers.valid() || !HasClasses(name(), y_true, y_pred, y_pred.rank() - 1)) return {};
    const Value p = Chosen(y_pred, numbers);
    const Value loss = (1.0 - ir::Power(p, ir::SplatLike(p, options.q))) / options.q;
    return NanOutside(numbers, y_pred.shape().dim(-1), loss);
  }
  GeneralizedCrossEntropyOptions options;
};

// ---- Binary ----

struct Binary : LossBody {
  explicit Binary(CrossentropyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "binary_crossentropy"; }
  LabelRule labels() const override { return LabelRule::kZeroToOne; }
  bool matches_ranks() const override { return true; }
  std::optional<bool> expects_probabilities() const override { return !options.from_logits; }
  void Fields(Config& config) override {
    config("from_logits", options.from_logits)("label_smoothing", options.label_smoothing)(
        "axis", options.axis);
  }
  absl::Status Check() const override { return CheckSmoothing(options.label_smoothing); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    const int64_t axis = AxisAfterBatch(name(), y_pred, options.axis);
    if (axis < 0) return {};
    const Value t = SmoothBinary(y_true, options.label_smoothing);
    if (options.from_logits) {
      return ir::ReduceMean(t * ir::Softplus(-y_pred) + (1.0 - t) * ir::Softplus(y_pred), {axis});
    }
    const Value p = Cut(y_pred);
    return -ir::ReduceMean(t * ir::Log(p) + (1.0 - t) * ir::Log(1.0 - p), {axis});
  }
  CrossentropyOptions options;
};

struct BinaryFocal : LossBody {
  explicit BinaryFocal(BinaryFocalCrossentropyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "binary_focal_crossentropy"; }
  LabelRule labels() const override { return LabelRule::kZeroToOne; }
  bool matches_ranks() const override { return true; }
  std::optional<bool> expects_probabilities() const override { return !options.from_logits; }
  void Fields(Config& config) override {
    config("apply_class_balancing", options.apply_class_balancing)("alpha", options.alpha)(
        "gamma", options.gamma)("from_logits", options.from_logits)(
        "label_smoothing", options.label_smoothing)("axis", options.axis);
  }
  absl::Status Check() const override { return CheckSmoothing(options.label_smoothing); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    const int64_t axis = AxisAfterBatch(name(), y_pred, options.axis);
    if (axis < 0) return {};
    const Value t = SmoothBinary(y_true, options.label_smoothing);
    const Value p = options.from_logits ? ir::Sigmoid(y_pred) : y_pred, cut = Cut(p);
    Value loss = -(t * ir::Log(cut) + (1.0 - t) * ir::Log(1.0 - cut));
    const Value of_truth = t * p + (1.0 - t) * (1.0 - p);
    loss = ir::Power(1.0 - of_truth, ir::SplatLike(p, options.gamma)) * loss;
    if (options.apply_class_balancing)
      loss = (t * options.alpha + (1.0 - t) * (1 - options.alpha)) * loss;
    return ir::ReduceMean(loss, {axis});
  }
  BinaryFocalCrossentropyOptions options;
};

// ---- Hinges ----

// Labels of 0 and 1 converted to -1 and 1; others unchanged.
Value HingeLabels(Value y_true, Value examples) {
  Value binary = ir::Or(ir::Equal(y_true, ir::SplatLike(y_true, 0)),
                        ir::Equal(y_true, ir::SplatLike(y_true, 1)));
  if (examples.valid()) {
    const Value padding = ir::Equal(examples, ir::SplatLike(examples, 0));
    binary = ir::Or(binary, BroadcastLeading("examples", padding, binary.shape()));
  }
  const Value least = ir::ReduceMin(ir::Convert(binary, y_true.dtype()));
  return ir::Select(ir::Greater(least, ir::SplatLike(least, 0)), 2.0 * y_true - 1.0, y_true);
}

struct HingeLoss : LossBody {
  explicit HingeLoss(bool s) : squared(s) {}
  absl::string_view name() const override { return squared ? "squared_hinge" : "hinge"; }
  bool matches_ranks() const override { return true; }
  LossValues Call(Value y_true, Value y_pred, Value examples) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    const Value t = HingeLabels(y_true, examples);
    const Value short_of = ir::Maximum(1.0 - t * y_pred, ir::SplatLike(y_pred, 0));
    return ir::ReduceMean(squared ? ir::Square(short_of) : short_of, {-1});
  }
  bool squared;
};

struct CategoricalHingeLoss : LossBody {
  absl::string_view name() const override { return "categorical_hinge"; }
  // Labels of 0 and 1, or of -1 and 1: no rule.
  bool has_class_labels() const override { return true; }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignOneHot(name(), y_true, y_pred, -1, "")) return {};
    const Value truth = ir::ReduceSum(y_true * y_pred, {-1});
    const Value best_other = ir::ReduceMax((1.0 - y_true) * y_pred, {-1});
    return ir::Maximum(best_other - truth + 1.0, ir::SplatLike(truth, 0));
  }
};

template <bool squared>
std::shared_ptr<LossBody> MakeHinge() {
  return std::make_shared<HingeLoss>(squared);
}

constexpr LossRow kClassificationLosses[] = {
    {"sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", "", MakeLoss<Sparse>},
    {"categorical_crossentropy", "CategoricalCrossentropy", "", MakeLoss<Categorical>},
    {"binary_crossentropy", "BinaryCrossentropy", "bce BCE", MakeLoss<Binary>},
    {"binary_focal_crossentropy", "BinaryFocalCrossentropy", "", MakeLoss<BinaryFocal>},
    {"categorical_focal_crossentropy", "CategoricalFocalCrossentropy", "",
     MakeLoss<CategoricalFocal>},
    {"categorical_generalized_cross_entropy", "CategoricalGeneralizedCrossEntropy", "",
     MakeLoss<GeneralizedCrossEntropy>},
    {"hinge", "Hinge", "", MakeHinge<false>},
    {"squared_hinge", "SquaredHinge", "", MakeHinge<true>},
    {"categorical_hinge", "CategoricalHinge", "", MakeLoss<CategoricalHingeLoss>},
};

}  // namespace

absl::Span<const LossRow> ClassificationLosses() { return kClassificationLosses; }

Loss SparseCategoricalCrossentropy(const SparseCrossentropyOptions& options) {
  return Loss(std::make_shared<Sparse>(options), {options.reduction, options.name});
}
Loss CategoricalCrossentropy(const CrossentropyOptions& options) {
  return Loss(std::make_shared<Categorical>(options), {options.reduction, options.name});
}
Loss BinaryCrossentropy(const CrossentropyOptions& options) {
  return Loss(std::make_shared<Binary>(options), {options.reduction, options.name});
}
Loss BinaryFocalCrossentropy(const BinaryFocalCrossentropyOptions& options) {
  return Loss(std::make_shared<BinaryFocal>(options), {options.reduction, options.name});
}
Loss CategoricalFocalCrossentropy(const CategoricalFocalCrossentropyOptions& options) {
  return Loss(std::make_shared<CategoricalFocal>(options), {options.reduction, options.name});
}
Loss CategoricalGeneralizedCrossEntropy(const GeneralizedCrossEntropyOptions& options) {
  return Loss(std::make_shared<GeneralizedCrossEntropy>(options),
              {options.reduction, options.name});
}
Loss Hinge(const LossOptions& options) { return Loss(MakeHinge<false>(), options); }
Loss SquaredHinge(const LossOptions& options) { return Loss(MakeHinge<true>(), options); }
Loss CategoricalHinge(const LossOptions& options) {
  return Loss(std::make_shared<CategoricalHingeLoss>(), options);
}

}  // namespace penstock::nn
