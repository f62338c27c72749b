// Losses for regression and probability distributions.
#include <cmath>
#include <utility>

#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/losses/loss_table.h"

namespace penstock::nn {
namespace {

using ir::Value;

Value MeanOfLast(Value x) { return ir::ReduceMean(x, {-1}); }

// A loss without options: a formula of labels and predictions of one shape.
struct Formula {
  const char* name;
  Value (*call)(Value y_true, Value y_pred);
  LabelRule labels = LabelRule::kAny;
};

struct FormulaLoss : LossBody {
  explicit FormulaLoss(const Formula& f) : formula(f) {}
  absl::string_view name() const override { return formula.name; }
  LabelRule labels() const override { return formula.labels; }
  bool matches_ranks() const override { return true; }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    return formula.call(y_true, y_pred);
  }
  const Formula& formula;
};

constexpr Formula kSquaredError{"mean_squared_error",
                                [](Value t, Value p) { return MeanOfLast(ir::Square(t - p)); }};

constexpr Formula kAbsoluteError{"mean_absolute_error",
                                 [](Value t, Value p) { return MeanOfLast(ir::Abs(t - p)); }};

constexpr Formula kPercentageError{"mean_absolute_percentage_error", [](Value t, Value p) {
                                     const Value size =
                                         ir::Maximum(ir::Abs(t), ir::SplatLike(t, kEpsilon));
                                     return 100.0 * MeanOfLast(ir::Abs((t - p) / size));
                                   }};

constexpr Formula kSquaredLogarithmicError{
    "mean_squared_logarithmic_error", [](Value t, Value p) {
      const auto log = [](Value x) {
        return ir::Log(ir::Maximum(x, ir::SplatLike(x, kEpsilon)) + 1.0);
      };
      return MeanOfLast(ir::Square(log(p) - log(t)));
    }};

// log(cosh(x)) = x + softplus(-2x) - log 2, which cannot overflow.
constexpr Formula kLogCosh{"log_cosh", [](Value t, Value p) {
                             const Value x = p - t;
                             return MeanOfLast(x + ir::Softplus(x * -2.0) - std::log(2.0));
                           }};

constexpr Formula kPoisson{
    "poisson", [](Value t, Value p) { return MeanOfLast(p - t * ir::Log(p + kEpsilon)); },
    LabelRule::kNotNegative};

constexpr Formula kKlDivergence{"kl_divergence",
                                [](Value t, Value p) {
                                  t = Clip(t, kEpsilon, 1);
                                  p = Clip(p, kEpsilon, 1);
                                  return ir::ReduceSum(t * ir::Log(t / p), {-1});
                                },
                                LabelRule::kNotNegative};

struct HuberLoss : LossBody {
  explicit HuberLoss(HuberOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "huber"; }
  bool matches_ranks() const override { return true; }
  void Fields(Config& config) override { config("delta", options.delta); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    const double delta = options.delta;
    const Value error = y_pred - y_true, size = ir::Abs(error);
    return MeanOfLast(ir::Select(ir::LessEqual(size, ir::SplatLike(size, delta)),
                                 0.5 * ir::Square(error), delta * size - 0.5 * delta * delta));
  }
  HuberOptions options;
};

struct CosineSimilarityLoss : LossBody {
  explicit CosineSimilarityLoss(CosineSimilarityOptions o = {}) : options(std::move(o)) {}
  absl::string_view name() const override { return "cosine_similarity"; }
  bool matches_ranks() const override { return true; }
  void Fields(Config& config) override { config("axis", options.axis); }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    if (!AlignLabels(name(), y_true, y_pred)) return {};
    const int64_t axis = AxisAfterBatch(name(), y_pred, options.axis);
    if (axis < 0) return {};
    return -ir::ReduceSum(UnitVectors(y_true, axis) * UnitVectors(y_pred, axis), {axis});
  }
  CosineSimilarityOptions options;
};

template <const Formula& formula>
std::shared_ptr<LossBody> Make() {
  return std::make_shared<FormulaLoss>(formula);
}

constexpr LossRow kRegressionLosses[] = {
    {"mean_squared_error", "MeanSquaredError", "mse MSE", Make<kSquaredError>},
    {"mean_absolute_error", "MeanAbsoluteError", "mae MAE", Make<kAbsoluteError>},
    {"mean_absolute_percentage_error", "MeanAbsolutePercentageError", "mape MAPE",
     Make<kPercentageError>},
    {"mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", "msle MSLE",
     Make<kSquaredLogarithmicError>},
    {"log_cosh", "LogCosh", "logcosh", Make<kLogCosh>},
    {"huber", "Huber", "huber_loss", MakeLoss<HuberLoss>},
    {"poisson", "Poisson", "", Make<kPoisson>},
    {"kl_divergence", "KLDivergence", "kld KLD", Make<kKlDivergence>},
    // The other name is for MeanOfLoss: the metric cosine_similarity has the opposite sign.
    {"cosine_similarity", "CosineSimilarity", "cosine_similarity_loss",
     MakeLoss<CosineSimilarityLoss>},
};

}  // namespace

absl::Span<const LossRow> RegressionLosses() { return kRegressionLosses; }

Loss MeanSquaredError(const LossOptions& options) { return Loss(Make<kSquaredError>(), options); }
Loss MeanAbsoluteError(const LossOptions& options) { return Loss(Make<kAbsoluteError>(), options); }
Loss MeanAbsolutePercentageError(const LossOptions& options) {
  return Loss(Make<kPercentageError>(), options);
}
Loss MeanSquaredLogarithmicError(const LossOptions& options) {
  return Loss(Make<kSquaredLogarithmicError>(), options);
}
Loss LogCosh(const LossOptions& options) { return Loss(Make<kLogCosh>(), options); }
Loss Huber(const HuberOptions& options) {
  return Loss(std::make_shared<HuberLoss>(options), {options.reduction, options.name});
}
Loss Poisson(const LossOptions& options) { return Loss(Make<kPoisson>(), options); }
Loss KLDivergence(const LossOptions& options) { return Loss(Make<kKlDivergence>(), options); }
Loss CosineSimilarity(const CosineSimilarityOptions& options) {
  return Loss(std::make_shared<CosineSimilarityLoss>(options), {options.reduction, options.name});
}

}  // namespace penstock::nn
