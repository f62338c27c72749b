#include "penstock/cli/training/recipe.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"

namespace penstock::cli {
namespace {

constexpr double kSgdLearningRate = 0.1;

// A schedule over `steps` steps after `warm` steps of linear warm-up.
using MakeSchedule = nn::Schedule (*)(double rate, int64_t steps, int64_t warm);

nn::Schedule Warmed(int64_t warm, nn::Schedule then) {
  return warm == 0 ? then : nn::WarmUp({.steps = warm}, std::move(then));
}

nn::Schedule Constant(double rate, int64_t, int64_t warm) { return Warmed(warm, rate); }

// With Keras's own warm-up, so that models of the default schedule can be saved for Keras.
nn::Schedule Cosine(double rate, int64_t steps, int64_t warm) {
  if (warm == 0) return nn::CosineDecay({.initial_learning_rate = rate, .decay_steps = steps});
  return nn::CosineDecay({.initial_learning_rate = 0,
                          .decay_steps = steps - warm,
                          .warmup_target = rate,
                          .warmup_steps = warm});
}

nn::Schedule Linear(double rate, int64_t steps, int64_t warm) {
  return Warmed(warm, nn::PolynomialDecay({.initial_learning_rate = rate,
                                           .decay_steps = steps - warm,
                                           .end_learning_rate = 0}));
}

// A tenth of the rate after half of the steps, and again after three quarters, as He et al. 2015
// trained ResNets on CIFAR.
nn::Schedule Step(double rate, int64_t steps, int64_t warm) {
  const auto boundary = [&](int64_t quarters) {
    return static_cast<double>(std::max<int64_t>(quarters - 1, steps * quarters / 4 - warm));
  };
  return Warmed(warm, nn::PiecewiseConstantDecay({.boundaries = {boundary(2), boundary(3)},
                                                  .values = {rate, rate / 10, rate / 100}}));
}

// The rise and the fall need two steps each, so a training of less than ten gets a part of a cycle.
nn::Schedule OneCycle(double rate, int64_t steps, int64_t warm) {
  const auto total = static_cast<double>(std::max<int64_t>(steps, 10));
  const double rise = warm == 0 ? 0.3 : static_cast<double>(warm) / total;
  return nn::OneCycle({.max_learning_rate = rate,
                       .total_steps = static_cast<int64_t>(total),
                       .pct_start = std::clamp(rise, 2 / total, 0.9)});
}

constexpr struct {
  const char* name;
  MakeSchedule make;
} kSchedules[] = {{"cosine", Cosine},
                  {"constant", Constant},
                  {"linear", Linear},
                  {"step", Step},
                  {"onecycle", OneCycle}};

std::string ScheduleNames() {
  return absl::StrJoin(kSchedules, ", ",
                       [](std::string* out, const auto& row) { absl::StrAppend(out, row.name); });
}

// Metrics of --metrics, for class indices as labels: names that nn::Metric knows.
constexpr struct {
  const char* name;
  int64_t min_classes;
} kMetrics[] = {{"top5", 6}, {"f1", 1}};

std::string MetricNames() {
  return absl::StrJoin(kMetrics, ", ",
                       [](std::string* out, const auto& row) { absl::StrAppend(out, row.name); });
}

}  // namespace

void Recipe::Describe(Options& options) {
  options
      .Add("--optimizer", optimizer_,
           absl::StrCat("Optimizer: ", absl::StrJoin(nn::OptimizerNames(), ", ")))
      .ShowDefault();
  options
      .Add("--learning-rate", learning_rate_,
           "Learning rate after the warm-up; default: 0.1 for sgd, otherwise Keras's default of "
           "the optimizer (0.001 for adam)")
      .AboveZero(1e6);
  options
      .Add("--schedule", schedule_,
           absl::StrCat("Learning rate schedule: ", ScheduleNames(),
                        ". step divides by 10 at 50 % and 75 % of the training"))
      .ShowDefault();
  options
      .Add("--warmup", warmup_,
           "Fraction of the training during which the learning rate rises linearly from 0")
      .Between(0, 0.9)
      .ShowDefault();
  options.Add("--momentum", momentum_, "Momentum of sgd").Between(0, 1).ShowDefault();
  options
      .Add("--weight-decay", weight_decay_,
           "Decoupled weight decay: variables shrink by this times the learning rate in each step; "
           "default: the optimizer's (0.004 for adamw, none for most)")
      .Between(0, 1e3);
  options.Add("--clip-norm", clip_norm_, "Clip the gradients' global norm to this maximum")
      .AboveZero(1e9);
  options
      .Add("--label-smoothing", label_smoothing_,
           "Fraction of each label that is spread over all classes")
      .Between(0, 1)
      .ShowDefault();
  options.Add(
      "--class-weight", class_weight_,
      "balanced: classes with fewer images weigh more in the loss, so that all have the same "
      "influence; reads the shards once more");
  options
      .Add("--ema", ema_,
           "Momentum of a moving average of the weights, which replaces them at the end: 0.999")
      .Between(0, 0.999999);
  options.Add("--metrics", metrics_,
              absl::StrCat("Metrics beside accuracy: ", MetricNames(), " (f1 is macro-averaged)"));
}

absl::Status Recipe::Check() const {
  if (!class_weight_.empty() && class_weight_ != "balanced") {
    return absl::InvalidArgumentError(
        absl::StrCat("--class-weight must be 'balanced', got '", class_weight_, "'"));
  }
  return Optimizer(100).status();
}

absl::StatusOr<double> Recipe::LearningRate() const {
  if (learning_rate_ > 0) return learning_rate_;
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Optimizer optimizer, nn::Optimizer::FromName(optimizer_));
  return optimizer.class_name() == "SGD" ? kSgdLearningRate : optimizer.learning_rate().constant();
}

absl::StatusOr<nn::Schedule> Recipe::Schedule(int64_t steps, double factor) const {
  PENSTOCK_ASSIGN_OR_RETURN(const double rate, LearningRate());
  steps = std::max<int64_t>(steps, 1);
  const int64_t warm = warmup_ == 0
                           ? 0
                           : std::clamp<int64_t>(std::llround(warmup_ * static_cast<double>(steps)),
                                                 1, std::max<int64_t>(1, steps - 1));
  for (const auto& row : kSchedules) {
    // A training of one step has no step after the warm-up.
    if (schedule_ == row.name) return row.make(rate * factor, std::max(steps, warm + 1), warm);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown --schedule '", schedule_, "'; available: ", ScheduleNames()));
}

absl::StatusOr<nn::Optimizer> Recipe::Optimizer(int64_t steps, double factor) const {
  absl::StatusOr<nn::Optimizer> plain = nn::Optimizer::FromName(optimizer_);
  if (!plain.ok()) return base::WithContext(plain.status(), "--optimizer");
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Schedule schedule, Schedule(steps, factor));
  nlohmann::ordered_json json = plain->ToJson();
  nlohmann::ordered_json& config = json["config"];
  config["learning_rate"] = schedule.ToJson();
  if (plain->class_name() == "SGD") config["momentum"] = momentum_;
  if (weight_decay_ >= 0) {
    config["weight_decay"] = weight_decay_;
    // Muon has another one for variables that are not matrices, among them all kernels of convolutions.
    if (plain->class_name() == "Muon") config["adam_weight_decay"] = weight_decay_;
  }
  if (clip_norm_ > 0) config["global_clipnorm"] = clip_norm_;
  if (ema_ > 0) {
    config["use_ema"] = true;
    config["ema_momentum"] = ema_;
  }
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer, nn::Optimizer::FromJson(json));
  PENSTOCK_RETURN_IF_ERROR(optimizer.Check());
  return optimizer;
}

nn::Loss Recipe::Loss() const {
  return nn::SparseCategoricalCrossentropy(
      {.from_logits = true, .label_smoothing = label_smoothing_});
}

absl::StatusOr<std::vector<keras::MetricArg>> Recipe::Metrics(int64_t classes) const {
  std::vector<keras::MetricArg> metrics = {"accuracy"};
  for (const std::string& name : metrics_) {
    const auto* row = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                   [&](const auto& known) { return name == known.name; });
    if (row == std::end(kMetrics)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown metric '", name, "' in --metrics; ", "available: ", MetricNames()));
    }
    if (classes < row->min_classes) {
      return absl::InvalidArgumentError(absl::StrCat("--metrics ", name, " needs at least ",
                                                     row->min_classes, " classes, got ", classes));
    }
    metrics.emplace_back(row->name);
  }
  return metrics;
}

absl::StatusOr<std::map<int64_t, double>> Recipe::ClassWeights(
    const std::vector<std::string>& shards) const {
  if (class_weight_.empty()) return std::map<int64_t, double>();
  const data::Dataset labels =
      data::Dataset::FromTfRecords(shards)
          .ParseExample({.features = {{.name = "class", .dtype = base::DType::kI64}}})
          .Batch(4096)
          .Prefetch(2);
  return keras::BalancedClassWeights(labels);
}

}  // namespace penstock::cli
