// Losses of several predictions at a time: segmentation overlap, pairs, sequences.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/losses/loss_table.h"

namespace penstock::nn {
namespace {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

using OptionalAxes = std::optional<std::vector<int64_t>>;

// ---- Overlap ----

// Prepares labels, predictions and axes of an overlap loss; false after an error. Zeros padding if
// the batch is summed.
bool PrepareOverlap(absl::string_view who, Value& y_true, Value& y_pred, Value examples,
                    const OptionalAxes& requested, ir::Axes& axes) {
  if (!AlignLabels(who, y_true, y_pred)) return false;
  axes.clear();
  if (requested.has_value()) {
    for (int64_t axis : *requested) {
      axes.push_back(axis < 0 ? axis + y_pred.rank() : axis);
      if (axes.back() < 0 || axes.back() >= y_pred.rank()) {
        y_pred.graph()->Fail(absl::InvalidArgumentError(
            absl::StrCat(who, ": there is no axis ", axis, " in ", y_pred.type().ToString())));
        return false;
      }
    }
  } else {
    for (int64_t i = 0; i < y_pred.rank(); ++i) axes.push_back(i);
  }
  const bool over_batch = std::find(axes.begin(), axes.end(), 0) != axes.end();
  if (over_batch && examples.valid()) {
    const Value real = BroadcastLeading(
        "examples", ir::Greater(examples, ir::SplatLike(examples, 0)), y_pred.shape());
    y_true = ir::Select(real, y_true, ir::SplatLike(y_true, 0));
    y_pred = ir::Select(real, y_pred, ir::SplatLike(y_pred, 0));
  }
  return true;
}

// Combines losses whose first axis is not the batch into one number for the whole batch.
Value WithoutBatch(Value loss, const ir::Axes& axes) {
  const bool over_batch = std::find(axes.begin(), axes.end(), 0) != axes.end();
  return over_batch && loss.valid() && loss.rank() > 0 ? ir::ReduceMean(loss) : loss;
}

struct DiceLoss : LossBody {
  explicit DiceLoss(DiceOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "dice"; }
  std::optional<bool> expects_probabilities() const override { return true; }
  void Fields(Config& config) override { config("axis", options.axis); }
  LossValues Call(Value y_true, Value y_pred, Value examples) const override {
    ir::Axes axes;
    if (!PrepareOverlap(name(), y_true, y_pred, examples, options.axis, axes)) return {};
    const Value both = ir::ReduceSum(y_true * y_pred, axes);
    const Value all = ir::ReduceSum(y_true, axes) + ir::ReduceSum(y_pred, axes) + kEpsilon;
    return WithoutBatch(1.0 - 2.0 * both / all, axes);
  }
  DiceOptions options;
};

struct TverskyLoss : LossBody {
  explicit TverskyLoss(TverskyOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "tversky"; }
  std::optional<bool> expects_probabilities() const override { return true; }
  void Fields(Config& config) override {
    config("alpha", options.alpha)("beta", options.beta)("axis", options.axis);
  }
  LossValues Call(Value y_true, Value y_pred, Value examples) const override {
    ir::Axes axes;
    if (!PrepareOverlap(name(), y_true, y_pred, examples, options.axis, axes)) return {};
    const Value both = ir::ReduceSum(y_true * y_pred, axes);
    const Value missed = ir::ReduceSum((1.0 - y_pred) * y_true, axes);
    const Value surplus = ir::ReduceSum(y_pred * (1.0 - y_true), axes);
    return WithoutBatch(
        1.0 - both / (both + missed * options.alpha + surplus * options.beta + kEpsilon), axes);
  }
  TverskyOptions options;
};

// ---- Pairs ----

struct CircleLoss : LossBody {
  explicit CircleLoss(CircleOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "circle"; }
  void Fields(Config& config) override {
    config("gamma", options.gamma)("margin", options.margin)("remove_diagonal",
                                                             options.remove_diagonal);
  }
  LossValues Call(Value y_true, Value y_pred, Value examples) const override {
    if (y_true.rank() == 2 && y_true.shape().dim(1) == 1) y_true = ir::Squeeze(y_true, {1});
    if (y_true.rank() != 1 || y_pred.rank() != 2 ||
        y_true.shape().dim(0) != y_pred.shape().dim(0)) {
      return Mismatch(name(), y_true, y_pred,
                      "class indices [batch] and embeddings [batch, size] of length 1");
    }
    ir::Graph& graph = *y_pred.graph();
    const int64_t batch = y_pred.shape().dim(0);
    const Shape pairs({batch, batch});
    const Value labels = ir::Convert(y_true, DType::kI32);
    const Value row = ir::ExpandDims(labels, 1), column = ir::ExpandDims(labels, 0);
    Value same = ir::Equal(ir::BroadcastTo(row, pairs), ir::BroadcastTo(column, pairs));
    Value other = ir::Not(same);
    if (options.remove_diagonal) {
      const ir::TensorType places{DType::kI32, pairs};
      same =
          ir::And(same, ir::Not(ir::Equal(ir::Iota(graph, places, 0), ir::Iota(graph, places, 1))));
    }
    if (examples.valid()) {
      const Value real = ir::BroadcastTo(
          ir::ExpandDims(ir::Greater(examples, ir::SplatLike(examples, 0)), 0), pairs);
      same = ir::And(same, real);
      other = ir::And(other, real);
    }
    const Value cosine =
        ir::DotGeneral(y_pred, y_pred, {.lhs_contracting = {1}, .rhs_contracting = {1}});
    const Value zero = ir::SplatLike(cosine, 0);
    const Value distance = ir::Maximum(1.0 - cosine, zero);
    const double margin = options.margin, gamma = options.gamma;
    const auto weight = [&](Value far, Value mask) {
      return ir::Maximum(far * ir::Convert(mask, far.dtype()), zero);
    };
    const Value to_same = -gamma * weight(distance + margin, same) * (margin - distance);
    const Value to_other = gamma * weight(1 + margin - distance, other) * (1 - margin - distance);
    const Value loss =
        ir::Softplus(LogSumExpWhere(same, to_same) + LogSumExpWhere(other, to_other));
    return {loss, ir::Greater(loss, ir::SplatLike(loss, 0))};
  }

  // -inf if a row of the mask is empty.
  static Value LogSumExpWhere(Value mask, Value x) {
    const Value nothing = ir::SplatLike(x, -std::numeric_limits<double>::infinity());
    return ir::LogSumExp(ir::Select(mask, x, nothing), {1});
  }
  CircleOptions options;
};

// ---- Sequences ----

// Forward algorithm over log probabilities, with two states for each label: the label was just
// emitted, or blanks after the first n labels ("blank", n = 0...length).
struct CtcLoss : LossBody {
  static constexpr double kLogZero = -1e5;  // as Keras: finite, so that gradients are
  static constexpr int64_t kBlank = 0;

  absl::string_view name() const override { return "ctc"; }
  std::optional<bool> expects_probabilities() const override { return false; }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (y_true.rank() != 2 || y_pred.rank() != 3 ||
        y_true.shape().dim(0) != y_pred.shape().dim(0) || y_true.shape().dim(1) < 1) {
      return Mismatch(name(), y_true, y_pred,
                      "labels [batch, length], padded with 0, and logits [batch, steps, classes]");
    }
    ir::Graph& graph = *y_pred.graph();
    const DType dtype = y_pred.dtype();
    const int64_t batch = y_pred.shape().dim(0), steps = y_pred.shape().dim(1),
                  classes = y_pred.shape().dim(2), length = y_true.shape().dim(1);
    const Value labels = ir::Convert(y_true, DType::kI32);
    const Value is_label = ir::Not(ir::Equal(labels, ir::SplatLike(labels, kBlank)));
    const Value lengths = ir::ReduceSum(ir::Convert(is_label, DType::kI32), {1});

    // Steps first: [steps, batch, ...].
    const Value log_p = ir::LogSoftmax(y_pred, -1);
    const Value blanks = ir::Transpose(ir::SliceAxis(log_p, 2, kBlank, kBlank + 1), {1, 0, 2});
    const Value one_hot = ir::OneHot(labels, classes, dtype);
    const Value emissions = ir::Transpose(
        ir::DotGeneral(
            log_p, one_hot,
            {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {0}, .rhs_batch = {0}}),
        {1, 0, 2});
    // 1 where the next label is the same: a blank must separate them.
    Value repeated = ir::Splat(graph, {dtype, Shape({batch, length})}, 0);
    if (length > 1) {
      const Value same =
          ir::Equal(ir::SliceAxis(labels, 1, 0, length - 1), ir::SliceAxis(labels, 1, 1, length));
      repeated = ir::Pad(ir::Convert(same, dtype), 0, {{}, {.low = 0, .high = 1}});
    }
    const Value blank_start =
        ir::Concatenate({ir::Splat(graph, {dtype, Shape({batch, 1})}, 0),
                         ir::Splat(graph, {dtype, Shape({batch, length})}, kLogZero)},
                        1);
    const Value label_start = ir::Splat(graph, {dtype, Shape({batch, length})}, kLogZero);
    const Values done = ir::For(
        steps, {blank_start, label_start, emissions, blanks, repeated},
        [&](ir::Graph& inside, Value step, const Values& at) -> Values {
          const auto now = [&](Value x) {
            const Value zero = ir::Splat(inside, {DType::kI32, {}}, 0);
            std::vector<int64_t> sizes(x.shape().begin(), x.shape().end());
            sizes[0] = 1;
            return ir::Squeeze(ir::DynamicSlice(x, {step, zero, zero}, sizes), {0});
          };
          const Value emission = now(at[2]), blank = now(at[3]), label = at[1];
          const Value before = Reach(at[0], label + kLogZero * at[4]);
          const Value next_label =
              ir::LogAddExp(ir::SliceAxis(before, 1, 0, length) + emission, label + emission);
          const Value next_blank = Reach(before + blank, label + blank + kLogZero * (1.0 - at[4]));
          return {next_blank, next_label, at[2], at[3], at[4]};
        });
    const Value last = Reach(done[0], done[1]);
    const Value end = ir::OneHot(lengths, length + 1, dtype);
    return -ir::ReduceSum(last * end, {1});
  }

  // The blank state after label n is reached from `added`, that label.
  static Value Reach(Value blank, Value added) {
    const int64_t length = blank.shape().dim(1);
    return ir::Concatenate(
        {ir::SliceAxis(blank, 1, 0, 1), ir::LogAddExp(ir::SliceAxis(blank, 1, 1, length), added)},
        1);
  }
};

constexpr LossRow kStructuredLosses[] = {
    {"dice", "Dice", "", MakeLoss<DiceLoss>},
    {"tversky", "Tversky", "", MakeLoss<TverskyLoss>},
    {"circle", "Circle", "", MakeLoss<CircleLoss>},
    {"ctc", "CTC", "", MakeLoss<CtcLoss>},
};

}  // namespace

absl::Span<const LossRow> StructuredLosses() { return kStructuredLosses; }

Loss Dice(const DiceOptions& options) {
  return Loss(std::make_shared<DiceLoss>(options), {options.reduction, options.name});
}
Loss Tversky(const TverskyOptions& options) {
  return Loss(std::make_shared<TverskyLoss>(options), {options.reduction, options.name});
}
Loss Circle(const CircleOptions& options) {
  return Loss(std::make_shared<CircleLoss>(options), {options.reduction, options.name});
}
Loss CTC(const LossOptions& options) { return Loss(std::make_shared<CtcLoss>(), options); }

}  // namespace penstock::nn
