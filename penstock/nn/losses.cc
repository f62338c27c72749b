#include "penstock/nn/losses.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/ir/op_def.h"
#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/losses/loss_table.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using base::DType;
using ir::Value;

// "crossentropy": chosen by the shapes, as in Keras's compile.
struct AnyCrossentropy : LossBody {
  absl::string_view name() const override { return "crossentropy"; }
  LossValues Call(Value y_true, Value y_pred, Value examples) const override {
    const Loss loss = y_pred.rank() == 1 || y_pred.shape().dim(-1) == 1 ? BinaryCrossentropy()
                      : y_true.rank() < y_pred.rank() || y_true.shape().dim(-1) == 1
                          ? SparseCategoricalCrossentropy()
                          : CategoricalCrossentropy();
    return loss.body()->Call(y_true, y_pred, examples);
  }
  bool has_class_labels() const override { return true; }
  std::optional<bool> expects_probabilities() const override { return true; }
};

struct FunctionLoss : LossBody {
  FunctionLoss(absl::string_view name, std::function<Value(Value, Value)> f)
      : name_(name), function(std::move(f)) {}
  absl::string_view name() const override { return name_; }
  bool is_custom() const override { return true; }
  bool has_class_labels() const override { return true; }  // the program decides what labels are
  bool matches_ranks() const override { return true; }
  LossValues Call(Value y_true, Value y_pred, Value) const override {
    const Value each = function(y_true, y_pred);
    ir::Graph& graph = *y_pred.graph();
    if (!each.valid() || each.graph() != &graph || !graph.status().ok()) return each;
    // A mean over the rows would count the padding of a smaller last batch, and cover only one
    // replica's part.
    if (each.rank() > 0 && each.shape().dim(0) == y_pred.shape().dim(0)) return each;
    graph.Fail(absl::InvalidArgumentError(absl::StrCat(
        "the function '", name_, "' returned ", each.type().ToString(),
        "; it must return values for each of the ", y_pred.shape().dim(0),
        " rows, [batch, ...] (average over the other axes only, or over none: the mean over the "
        "rows is taken without the padding of a smaller last batch)")));
    return Value();
  }
  std::string name_;
  std::function<Value(Value, Value)> function;
};

std::vector<LossRow> AllLosses() {
  std::vector<LossRow> rows;
  for (const auto& family : {ClassificationLosses(), RegressionLosses(), StructuredLosses()})
    rows.insert(rows.end(), family.begin(), family.end());
  rows.push_back({"crossentropy", "crossentropy", "ce", MakeLoss<AnyCrossentropy>});
  return rows;
}

// Sum and number of f32 values.
Value Total(Value x) { return ir::ReduceSum(x); }
double Count(Value x) { return static_cast<double>(x.shape().num_elements()); }

// Whether a loss's own code, which may be user-defined, returned a value; otherwise an error of the
// graph.
bool CheckReturned(absl::string_view loss, const LossValues& values, ir::Graph& graph) {
  if (!graph.status().ok()) return false;  // an earlier error is the cause
  absl::string_view wrong;
  if (!values.each.valid()) {
    wrong = "an invalid value, ir::Value(); it must return the result of an operation";
  } else if (values.each.graph() != &graph ||
             (values.counted.valid() && values.counted.graph() != &graph)) {
    wrong = "a value of another graph; a value is valid only in the call that made it";
  } else {
    return true;
  }
  graph.Fail(absl::InvalidArgumentError(absl::StrCat("the loss '", loss, "' returned ", wrong)));
  return false;
}

// Number of axes of weights or a mask, without a last axis of 1 ([batch, 1]).
int AxesOf(const Value& weights) {
  if (!weights.valid()) return 0;
  return weights.rank() > 1 && weights.shape().dim(-1) == 1 ? weights.rank() - 1 : weights.rank();
}

// False, with an error of the graph, if a function of labels [batch] and predictions [batch, 1]
// returned [batch, batch]: it has taken an axis from one of the two that MatchRanks gave it.
bool CheckNotBroadcast(absl::string_view loss, const Value& each, const LossArguments& given) {
  const base::Shape& shape = each.shape();
  const int64_t rows = given.y_pred.shape().dim(0);
  if (given.y_true.rank() + given.y_pred.rank() != 3 || rows == 1 || shape.rank() != 2 ||
      shape.dim(1) != rows) {
    return true;
  }
  const base::Shape column({rows, 1});
  given.y_pred.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
      "the function '", loss, "' returned ", each.type().ToString(), " for labels ",
      given.y_true.type().ToString(), " and predictions ", given.y_pred.type().ToString(),
      "; it gets both as ", column.ToString(),
      ", as in Keras: an axis that it removes from or adds to one of them makes them broadcast")));
  return false;
}

// ---- Warnings ----

enum class Producer { kUnknown, kProbabilities, kLinear };

// Operation that produced `x`: the last one of a softmax or sigmoid, or a layer without activation.
Producer ProducerOf(Value x) {
  constexpr int kFarEnough = 16;
  for (int i = 0; i < kFarEnough; ++i) {
    const ir::Node& node = x.node();
    const absl::string_view op = node.op->name;
    const auto is = [](Value v, absl::string_view name) { return v.node().op->name == name; };
    if (op == "stablehlo.logistic") return Producer::kProbabilities;
    if (op == "stablehlo.divide" && is(node.operands[0], "stablehlo.exponential"))
      return Producer::kProbabilities;
    if (op == "stablehlo.dot_general" || op == "stablehlo.convolution") return Producer::kLinear;
    const bool passes = op == "stablehlo.convert" || op == "stablehlo.reshape" ||
                        op == "stablehlo.transpose" || op == "stablehlo.add";
    if (!passes) break;
    x = node.operands[0];
  }
  return Producer::kUnknown;
}

// ---- Labels on the host ----

absl::Status WrongLabel(absl::string_view loss, int64_t index, double label,
                        absl::string_view expected) {
  // StrCat alone rounds to six digits: class 1000003 would be "1e+06".
  constexpr double kExact = int64_t{1} << 53;
  const std::string given = label == std::trunc(label) && std::abs(label) <= kExact
                                ? absl::StrCat(static_cast<int64_t>(label))
                                : absl::StrCat(label);
  return absl::InvalidArgumentError(
      absl::StrCat(loss, " expects ", expected, "; label ", index, " of the batch is ", given));
}

absl::Status CheckClassNumbers(absl::string_view loss, absl::Span<const double> labels,
                               int64_t classes, std::optional<int64_t> ignored) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const double label = labels[i];
    if (ignored.has_value() && label == static_cast<double>(*ignored)) continue;
    if (label != std::floor(label)) {
      return WrongLabel(loss, i, label,
                        "class indices, which are whole (for probabilities of classes use "
                        "categorical_crossentropy)");
    }
    if (label < 0 || label >= static_cast<double>(classes)) {
      const bool from_one = label == static_cast<double>(classes);
      return WrongLabel(
          loss, i, label,
          absl::StrCat("class indices from 0 to ", classes - 1, ", since the last layer has ",
                       classes, " units",
                       from_one ? " (are the classes counted from 1? subtract 1)" : ""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view loss, absl::Span<const double> labels, double high,
                        absl::string_view expected) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!(labels[i] >= 0 && labels[i] <= high)) return WrongLabel(loss, i, labels[i], expected);
  }
  return absl::OkStatus();
}

// `inner`: number of labels of one class that follow each other, of the axes after the classes.
absl::Status CheckDistributions(absl::string_view loss, absl::Span<const double> labels,
                                int64_t classes, int64_t inner) {
  constexpr double kFar = 0.05;  // tolerance for labels rounded to a digit or two
  if (classes < 1 || inner < 1) return absl::OkStatus();
  const int64_t rows = static_cast<int64_t>(labels.size()) / (classes * inner) * inner;
  for (int64_t row = 0; row < rows; ++row) {
    const double* const first = labels.data() + row / inner * classes * inner + row % inner;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += first[c * inner];
    if (std::abs(sum - 1) > kFar) {
      return absl::InvalidArgumentError(absl::StrCat(
          loss,
          " expects labels that sum to 1 over the classes (one-hot, or probabilities); those "
          "of row ",
          row, " sum to ", sum, " (for several classes at once use binary_crossentropy)"));
    }
  }
  return absl::OkStatus();
}

// Number of elements for each index of an axis and of those before it.
int64_t ElementsAfter(const base::Shape& shape, int64_t axis) {
  int64_t count = 1;
  for (int64_t i = axis + 1; i < shape.rank(); ++i) count *= shape.dim(static_cast<int>(i));
  return count;
}

}  // namespace

LossValues Loss::Unreduced(const LossArguments& arguments) const {
  auto [y_true, y_pred, mask, examples, value_axes] = arguments;
  if (!y_true.valid() || !y_pred.valid()) return {};
  if (const absl::Status status = Check(); !status.ok()) {
    y_pred.graph()->Fail(status);
    return {};
  }
  if (y_pred.rank() == 0 || y_true.rank() == 0) {
    return Mismatch(name(), y_true, y_pred, "labels and predictions with a batch axis");
  }
  const bool matched =
      body_->matches_ranks() && MatchRanks(y_true, y_pred, std::max(value_axes, AxesOf(mask)));
  LossValues values = body_->Call(y_true, WidePredictions(y_pred), examples);
  if (!CheckReturned(name(), values, *y_pred.graph())) return {};
  if (matched && is_custom() && !CheckNotBroadcast(name(), values.each, arguments)) return {};
  values.each = ir::Convert(values.each, DType::kF32);
  if (mask.valid()) {
    if (values.each.rank() == 0)
      values.each = ir::BroadcastTo(values.each, base::Shape({y_pred.shape().dim(0)}));
    mask = BroadcastLeading("masks", ir::Convert(mask, DType::kBool), values.each.shape());
    values.counted = values.counted.valid() ? ir::And(values.counted, mask) : mask;
    if (!mask.valid()) return {};
  }
  if (values.counted.valid())
    values.each = ir::Select(values.counted, values.each, ir::SplatLike(values.each, 0));
  return values;
}

LossTerms Loss::Terms(const LossArguments& arguments) const {
  const LossValues values = Unreduced(arguments);
  if (!values.each.valid()) return {};
  const base::Shape batch({arguments.y_pred.shape().dim(0)});
  LossTerms terms;
  terms.all_count = !values.counted.valid();
  terms.sum =
      values.each.rank() == 0 ? ir::BroadcastTo(values.each, batch) : MeanAfterBatch(values.each);
  terms.count = values.counted.valid() ? MeanAfterBatch(ir::Convert(values.counted, DType::kF32))
                                       : ir::Splat(*values.each.graph(), {DType::kF32, batch}, 1);
  // A loss of the whole batch is one value, divided among the examples.
  terms.values = Count(values.each) / static_cast<double>(batch.dim(0));
  return terms;
}

Value Loss::PerExample(Value y_true, Value y_pred, Value mask) const {
  const LossArguments arguments{.y_true = y_true, .y_pred = y_pred, .mask = mask};
  const LossValues values = Unreduced(arguments);
  if (!values.each.valid()) return Value();
  if (values.each.rank() == 0)
    return ir::BroadcastTo(values.each, base::Shape({y_pred.shape().dim(0)}));
  const Value each = MeanAfterBatch(values.each);
  if (!values.counted.valid()) return each;
  const Value counted = Total(ir::Convert(values.counted, DType::kF32));
  return each * DivideNoNan(ir::SplatLike(counted, Count(values.counted)), counted);
}

Value Loss::operator()(Value y_true, Value y_pred, Value sample_weight, Value mask) const {
  const LossValues values = Unreduced(
      {.y_true = y_true, .y_pred = y_pred, .mask = mask, .value_axes = AxesOf(sample_weight)});
  if (!values.each.valid()) return Value();
  Value each = values.each, weights;
  if (sample_weight.valid()) {
    if (each.rank() == 0) each = ir::BroadcastTo(each, base::Shape({y_pred.shape().dim(0)}));
    weights =
        BroadcastLeading("sample weights", ir::Convert(sample_weight, DType::kF32), each.shape());
    if (!weights.valid()) return Value();
    // Selected, not multiplied: a value with weight 0 may be NaN.
    const Value hidden = ir::Equal(weights, ir::SplatLike(weights, 0));
    each = ir::Select(hidden, ir::SplatLike(each, 0), each * weights);
  }
  if (reduction() == "none" || each.rank() == 0) return each;
  if (reduction() == "sum") return Total(each);
  const Value counted = values.counted.valid() ? ir::Convert(values.counted, DType::kF32) : Value();
  if (reduction() == "mean_with_sample_weight" && weights.valid())
    return DivideNoNan(Total(each), Total(counted.valid() ? weights * counted : weights));
  return counted.valid() ? DivideNoNan(Total(each), Total(counted)) : Total(each) / Count(each);
}

Loss Loss::WithReduction(const Reduction& reduction) const {
  Loss loss = *this;
  loss.options_.reduction = reduction;
  return loss;
}

Loss Loss::Named(absl::string_view name) const {
  Loss loss = *this;
  loss.options_.name = std::string(name);
  return loss;
}

absl::Status Loss::Check() const {
  PENSTOCK_RETURN_IF_ERROR(CheckName("loss", options_.name));
  const auto& known = Reduction::kNames;
  if (std::find(std::begin(known), std::end(known), reduction()) == std::end(known)) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": unknown reduction '", reduction(),
                                                   "'; available: ", absl::StrJoin(known, ", ")));
  }
  return base::WithContext(body_->Check(), name());
}

absl::Status Loss::CheckLabels(const base::Array& y_true, const ir::TensorType& y_pred) const {
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array wide, y_true.Cast(DType::kF64));
  const auto labels = wide.values<double>();
  const base::Shape& shape = y_pred.shape;
  const int64_t axis = body_->class_axis() + (body_->class_axis() < 0 ? shape.rank() : 0);
  // Building the program reports an axis that there is not.
  const bool has_axis = axis >= 0 && axis < shape.rank();
  const int64_t classes = has_axis ? shape.dim(static_cast<int>(axis)) : 0;
  switch (body_->labels()) {
    case LabelRule::kClassNumbers:
      if (!has_axis) return absl::OkStatus();
      return CheckClassNumbers(name(), labels, classes, body_->ignored_class());
    case LabelRule::kZeroToOne:
      return CheckRange(name(), labels, 1, "labels of 0 and 1 (hinge takes -1 and 1)");
    case LabelRule::kDistribution:
      // Probably class indices: building the program reports what this loss expects.
      if (y_true.rank() != y_pred.shape.rank()) return absl::OkStatus();
      PENSTOCK_RETURN_IF_ERROR(
          CheckRange(name(), labels, 1, "one-hot labels, or probabilities from 0 to 1"));
      return CheckDistributions(name(), labels, classes, ElementsAfter(y_true.shape(), axis));
    case LabelRule::kNotNegative:
      return CheckRange(name(), labels, HUGE_VAL, "labels that are non-negative");
    case LabelRule::kAny:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::string Loss::LogitsWarning(Value y_pred) const {
  const std::optional<bool> takes_probabilities = body_->expects_probabilities();
  if (!takes_probabilities.has_value() || !y_pred.valid()) return "";
  const Producer producer = ProducerOf(y_pred);
  if (*takes_probabilities && producer == Producer::kLinear) {
    return absl::StrCat(name(),
                        " expects probabilities, but the last layer has no activation: set "
                        "from_logits, or end with a softmax (several classes) or a sigmoid (one)");
  }
  if (!*takes_probabilities && producer == Producer::kProbabilities) {
    return absl::StrCat(
        name(),
        " with from_logits expects numbers before a softmax or sigmoid, but the last "
        "layer has one: leave out from_logits or the activation");
  }
  return "";
}

std::string Loss::class_name() const {
  if (is_custom()) return "";
  for (const LossRow& row : AllLosses()) {
    if (row.name == body_->name()) return row.class_name;
  }
  return "";
}

nlohmann::ordered_json Loss::ToJson() const {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  Config config = Config::Writer(fields);
  body_->Fields(config);
  fields["reduction"] = reduction();
  if (name() != body_->name()) fields["name"] = options_.name;
  nlohmann::ordered_json json{{"name", std::string(body_->name())}, {"config", std::move(fields)}};
  if (is_custom()) json["custom"] = true;
  return json;
}

absl::StatusOr<Loss> Loss::FromJson(const nlohmann::ordered_json& json) {
  const char* key = json.is_object() && json.contains("class_name") ? "class_name" : "name";
  if (!json.is_object() || !json.contains(key) || !json[key].is_string() ||
      !json.contains("config") || !json["config"].is_object()) {
    return absl::InvalidArgumentError("a loss is {\"name\" or \"class_name\", \"config\"}");
  }
  // A custom loss, whose name may be that of a built-in loss.
  if (json.contains("custom")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the loss '", json[key].get<std::string>(),
                     "' is a function of the program that saved it, and is not in the file"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(Loss loss, FromName(json[key].get<std::string>()));
  const nlohmann::ordered_json& fields = json["config"];
  Config config = Config::Reader(fields);
  loss.body_->Fields(config);
  config("reduction", loss.options_.reduction);
  const auto reduction = fields.find("reduction");
  if (reduction != fields.end() && reduction->is_null()) loss.options_.reduction = Reduction::kNone;
  if (const auto name = fields.find("name"); name != fields.end() && name->is_string())
    loss.options_.name = name->get<std::string>();
  if (absl::Status status = config.Finish(); !status.ok())
    return base::WithContext(status, loss.name());
  PENSTOCK_RETURN_IF_ERROR(loss.Check());
  return loss;
}

absl::StatusOr<Loss> Loss::FromName(absl::string_view name) {
  for (const LossRow& row : AllLosses()) {
    const std::vector<absl::string_view> aliases = absl::StrSplit(row.aliases, ' ');
    if (name == row.name || name == row.class_name ||
        (!name.empty() && std::find(aliases.begin(), aliases.end(), name) != aliases.end())) {
      return Loss(row.make());
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown loss '", name, "'; available: ", absl::StrJoin(Names(), ", ")));
}

std::vector<std::string> Loss::Names() {
  std::vector<std::string> names;
  for (const LossRow& row : AllLosses()) names.push_back(row.name);
  return names;
}

Loss CustomLoss(absl::string_view name, std::function<Value(Value y_true, Value y_pred)> function) {
  return Loss(std::make_shared<FunctionLoss>(name, std::move(function)));
}

}  // namespace penstock::nn
