#include "penstock/nn/losses.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"

namespace penstock::nn {
namespace {

using base::DType;
using ir::Value;

// Keras's backend epsilon.
constexpr double kEpsilon = 1e-7;

Value Mismatch(absl::string_view loss, Value y_true, Value y_pred, absl::string_view wanted) {
  y_pred.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(loss, " wants ", wanted, "; got labels ", y_true.type().ToString(),
                   " and predictions ", y_pred.type().ToString())));
  return Value();
}

// log p, from logits or from probabilities.
Value LogProbabilities(Value y_pred, bool from_logits) {
  if (from_logits) return ir::LogSoftmax(y_pred, -1);
  const Value p = y_pred / ir::ReduceSum(y_pred, {-1}, true);
  return ir::Log(ir::Clamp(ir::SplatLike(p, kEpsilon), p, ir::SplatLike(p, 1 - kEpsilon)));
}

struct Sparse : LossBody {
  explicit Sparse(CrossentropyOptions o = {}) : options(o) {}
  absl::string_view name() const override { return "sparse_categorical_crossentropy"; }
  void Fields(Config& config) override { config("from_logits", options.from_logits); }
  Value Call(Value y_true, Value y_pred) const override {
    if (y_pred.rank() >= 2 && y_true.rank() == y_pred.rank() && y_true.shape().dim(-1) == 1) {
      y_true = ir::Squeeze(y_true, {-1});
    }
    if (y_pred.rank() < 2 || !(y_true.shape().Prepend(0) == Shape0(y_pred.shape()))) {
      return Mismatch(
          name(), y_true, y_pred,
          "class numbers [batch] and predictions [batch, classes] (for one-hot labels use "
          "categorical_crossentropy)");
    }
    const int64_t classes = y_pred.shape().dim(-1);
    // Bytes cannot hold the number of classes, which may be 256.
    if (base::IsFloat(y_true.dtype()) || base::ByteWidth(y_true.dtype()) < 4)
      y_true = ir::Convert(y_true, DType::kI32);
    const Value chosen = ir::OneHot(y_true, classes, y_pred.dtype());
    const Value log_p = LogProbabilities(y_pred, options.from_logits);
    const Value loss = -ir::ReduceSum(
        ir::Select(ir::Greater(chosen, ir::SplatLike(chosen, 0.5)), log_p, ir::SplatLike(log_p, 0)),
        {-1});
    const Value zero = ir::SplatLike(y_true, 0),
                limit = ir::SplatLike(y_true, static_cast<double>(classes));
    const Value known = ir::And(ir::GreaterEqual(y_true, zero), ir::Less(y_true, limit));
    return ir::Select(known, loss, ir::SplatLike(loss, std::numeric_limits<double>::quiet_NaN()));
  }

  // Predictions' shape [batch, ..., classes] as [0, batch, ...]: labels' shape with a marker in
  // front.
  static base::Shape Shape0(const base::Shape& predictions) {
    return base::Shape(predictions.dims().subspan(0, predictions.rank() - 1)).Prepend(0);
  }
  CrossentropyOptions options;
};

struct Categorical : LossBody {
  explicit Categorical(CrossentropyOptions o = {}) : options(o) {}
  absl::string_view name() const override { return "categorical_crossentropy"; }
  void Fields(Config& config) override {
    config("from_logits", options.from_logits)("label_smoothing", options.label_smoothing);
  }
  Value Call(Value y_true, Value y_pred) const override {
    if (y_pred.rank() < 2 || !(y_true.shape() == y_pred.shape())) {
      return Mismatch(name(), y_true, y_pred,
                      "labels and predictions [batch, classes] (for class numbers use "
                      "sparse_categorical_crossentropy)");
    }
    y_true = ir::Convert(y_true, y_pred.dtype());
    const double smoothing = options.label_smoothing;
    if (smoothing != 0) {
      y_true = y_true * (1 - smoothing) + smoothing / static_cast<double>(y_pred.shape().dim(-1));
    }
    return -ir::ReduceSum(y_true * LogProbabilities(y_pred, options.from_logits), {-1});
  }
  CrossentropyOptions options;
};

struct SquaredError : LossBody {
  absl::string_view name() const override { return "mean_squared_error"; }
  void Fields(Config&) override {}
  Value Call(Value y_true, Value y_pred) const override {
    if (y_true.rank() + 1 == y_pred.rank() && y_pred.shape().dim(-1) == 1)
      y_true = ir::ExpandDims(y_true, y_true.rank());
    if (y_pred.rank() < 1 || !(y_true.shape() == y_pred.shape())) {
      return Mismatch(name(), y_true, y_pred, "labels and predictions of one shape");
    }
    const Value difference = ir::Convert(y_true, y_pred.dtype()) - y_pred;
    if (y_pred.rank() == 1) return ir::Square(difference);
    return ir::ReduceMean(ir::Square(difference), {-1});
  }
};

struct Row {
  const char* name;
  const char* alias;
  std::shared_ptr<LossBody> (*make)();
};

constexpr Row kTable[] = {
    {"sparse_categorical_crossentropy", "sparse_categorical_crossentropy",
     []() -> std::shared_ptr<LossBody> { return std::make_shared<Sparse>(); }},
    {"categorical_crossentropy", "categorical_crossentropy",
     []() -> std::shared_ptr<LossBody> { return std::make_shared<Categorical>(); }},
    {"mean_squared_error", "mse",
     []() -> std::shared_ptr<LossBody> { return std::make_shared<SquaredError>(); }},
};

}  // namespace

ir::Value Loss::PerExample(Value y_true, Value y_pred) const {
  if (!y_true.valid() || !y_pred.valid()) return Value();
  if (base::IsFloat(y_pred.dtype()) && base::ByteWidth(y_pred.dtype()) < 4)
    y_pred = ir::Convert(y_pred, DType::kF32);
  Value loss = body_->Call(y_true, y_pred);
  if (!loss.valid()) return loss;
  ir::Axes rest;
  for (int64_t i = 1; i < loss.rank(); ++i) rest.push_back(i);
  if (!rest.empty()) loss = ir::ReduceMean(loss, rest);
  return ir::Convert(loss, DType::kF32);
}

nlohmann::ordered_json Loss::ToJson() const {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  Config config = Config::Writer(fields);
  body_->Fields(config);
  return {{"name", std::string(name())}, {"config", std::move(fields)}};
}

absl::StatusOr<Loss> Loss::FromJson(const nlohmann::ordered_json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() ||
      !json.contains("config")) {
    return absl::InvalidArgumentError("a loss is {\"name\", \"config\"}");
  }
  PENSTOCK_ASSIGN_OR_RETURN(Loss loss, FromName(json["name"].get<std::string>()));
  Config config = Config::Reader(json["config"]);
  loss.body_->Fields(config);
  if (absl::Status status = config.Finish(); !status.ok())
    return base::WithContext(status, loss.name());
  return loss;
}

absl::StatusOr<Loss> Loss::FromName(absl::string_view name) {
  std::string known;
  for (const Row& row : kTable) {
    if (name == row.name || name == row.alias) return Loss(row.make());
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::NotFoundError(absl::StrCat("there is no loss '", name, "'; there are ", known));
}

Loss SparseCategoricalCrossentropy(const CrossentropyOptions& options) {
  return Loss(std::make_shared<Sparse>(options));
}
Loss CategoricalCrossentropy(const CrossentropyOptions& options) {
  return Loss(std::make_shared<Categorical>(options));
}
Loss MeanSquaredError() { return Loss(std::make_shared<SquaredError>()); }

}  // namespace penstock::nn
