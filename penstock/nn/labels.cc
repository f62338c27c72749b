#include "penstock/nn/labels.h"

#include "absl/strings/str_cat.h"

namespace penstock::nn {

using base::DType;
using base::Shape;
using ir::Value;

namespace {

Shape Leading(const Shape& shape, int count) { return Shape(shape.dims().subspan(0, count)); }

bool Equal(const Shape& a, const Shape& b) { return a == b; }

// The likely mistake behind these shapes; "" if unknown.
std::string LikelyMistake(const Shape& labels, const Shape& predictions) {
  const int64_t last = predictions.rank() > 0 ? predictions.dim(-1) : 0;
  const bool numbers =
      labels.rank() + 1 == predictions.rank() ||
      (labels.rank() == predictions.rank() && labels.rank() > 1 && labels.dim(-1) == 1);
  if (predictions.rank() >= 2 && last > 1 && numbers &&
      Equal(Leading(labels, predictions.rank() - 1),
            Leading(predictions, predictions.rank() - 1))) {
    return absl::StrCat(
        "; if the labels are class indices, use a loss or metric whose name begins with sparse_, "
        "or make them one-hot; if there is one number to predict, give the last layer 1 unit "
        "instead of ",
        last);
  }
  if (labels.rank() == predictions.rank() && labels.rank() >= 2 &&
      Equal(Leading(labels, labels.rank() - 1), Leading(predictions, labels.rank() - 1))) {
    return absl::StrCat("; the last layer has ", last, " units and the labels ", labels.dim(-1),
                        " columns");
  }
  return "";
}

}  // namespace

Value Mismatch(absl::string_view who, Value y_true, Value y_pred, absl::string_view expected) {
  y_pred.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(who, " expects ", expected, "; got labels ", y_true.type().ToString(),
                   " and predictions ", y_pred.type().ToString())));
  return Value();
}

bool AlignLabels(absl::string_view who, Value& y_true, Value& y_pred) {
  if (!y_true.valid() || !y_pred.valid()) return false;
  y_true = ir::Convert(y_true, y_pred.dtype());
  Value labels = y_true, predictions = y_pred;
  if (labels.rank() + 1 == predictions.rank() && predictions.shape().dim(-1) == 1)
    labels = ir::ExpandDims(labels, labels.rank());
  if (predictions.rank() + 1 == labels.rank() && labels.shape().dim(-1) == 1)
    predictions = ir::ExpandDims(predictions, predictions.rank());
  if (labels.rank() == 0 || !(labels.shape() == predictions.shape())) {
    Mismatch(who, y_true, y_pred,
             absl::StrCat("labels and predictions of one shape, [batch, ...]",
                          LikelyMistake(y_true.shape(), y_pred.shape())));
    return false;
  }
  if (labels.rank() == 1) {
    labels = ir::ExpandDims(labels, 1);
    predictions = ir::ExpandDims(predictions, 1);
  }
  y_true = labels;
  y_pred = predictions;
  return true;
}

bool MatchRanks(Value& y_true, Value& y_pred, int value_axes) {
  if (!y_true.valid() || !y_pred.valid()) return false;
  const bool labels_are_less = y_true.rank() < y_pred.rank();
  Value &less = labels_are_less ? y_true : y_pred, &more = labels_are_less ? y_pred : y_true;
  if (less.rank() == 0 || less.rank() + 1 != more.rank() || more.shape().dim(-1) != 1) return false;
  if (less.rank() > value_axes) {
    more = ir::Squeeze(more, {-1});
  } else {
    less = ir::ExpandDims(less, less.rank());
  }
  return true;
}

Value ClassNumbers(absl::string_view who, Value y_true, Value y_pred, absl::string_view one_hot) {
  if (!y_true.valid() || !y_pred.valid()) return Value();
  const std::string instead =
      one_hot.empty() ? "" : absl::StrCat(" (for one-hot labels use ", one_hot, ")");
  Value numbers = y_true;
  if (y_pred.rank() >= 2 && numbers.rank() == y_pred.rank() && numbers.shape().dim(-1) == 1)
    numbers = ir::Squeeze(numbers, {-1});
  if (y_pred.rank() < 2 || numbers.rank() + 1 != y_pred.rank() ||
      !Equal(numbers.shape(), Leading(y_pred.shape(), numbers.rank()))) {
    return Mismatch(
        who, y_true, y_pred,
        absl::StrCat("class indices [batch, ...] and predictions [batch, ..., classes]", instead));
  }
  // A byte cannot represent the number of classes, which may be 256.
  const bool narrow = !base::IsInteger(numbers.dtype()) || base::ByteWidth(numbers.dtype()) < 4;
  return narrow ? ir::Convert(numbers, DType::kI32) : numbers;
}

Value WidePredictions(Value y_pred) {
  const bool narrow = !base::IsFloat(y_pred.dtype()) || base::ByteWidth(y_pred.dtype()) < 4;
  return narrow ? ir::Convert(y_pred, DType::kF32) : y_pred;
}

int64_t AxisAfterBatch(absl::string_view who, Value x, int64_t axis) {
  const int64_t from_front = axis < 0 ? axis + x.rank() : axis;
  if (from_front >= 1 && from_front < x.rank()) return from_front;
  x.graph()->Fail(
      absl::InvalidArgumentError(absl::StrCat(who, ": axis ", axis, " is not one of predictions ",
                                              x.type().ToString(), " after the batch, axis 0")));
  return -1;
}

Value MoveToLast(Value x, int64_t axis) {
  if (axis == x.rank() - 1) return x;
  ir::Axes order;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return ir::Transpose(x, order);
}

Value BroadcastLeading(absl::string_view what, Value x, const Shape& shape) {
  if (!x.valid()) return x;
  // An additional last axis of 1, as in weights [batch, 1] for losses [batch].
  if (x.rank() == shape.rank() + 1 && x.shape().dim(-1) == 1) x = ir::Squeeze(x, {-1});
  bool fits = x.rank() <= shape.rank();
  ir::Axes axes;
  for (int i = 0; fits && i < x.rank(); ++i) {
    fits = x.shape().dim(i) == shape.dim(i) || x.shape().dim(i) == 1;
    axes.push_back(i);
  }
  if (!fits) {
    x.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat(what, " have the first axes of ", ir::TensorType{x.dtype(), shape}.ToString(),
                     ", one number for each example or each step; got ", x.type().ToString())));
    return Value();
  }
  std::vector<int64_t> dims(x.shape().begin(), x.shape().end());
  dims.resize(shape.rank(), 1);
  return ir::BroadcastTo(ir::Reshape(x, Shape(dims)), shape);
}

Value Clip(Value x, double low, double high) {
  return ir::Minimum(ir::Maximum(x, ir::SplatLike(x, low)), ir::SplatLike(x, high));
}

Value DivideNoNan(Value a, Value b) {
  const Value nothing = ir::Equal(b, ir::SplatLike(b, 0));
  const Value quotient = a / ir::Select(nothing, ir::SplatLike(b, 1), b);
  return ir::Select(nothing, ir::SplatLike(quotient, 0), quotient);
}

Value MeanAfterBatch(Value x) {
  ir::Axes rest;
  for (int64_t i = 1; i < x.rank(); ++i) rest.push_back(i);
  return rest.empty() ? x : ir::ReduceMean(x, rest);
}

Value UnitVectors(Value x, int64_t axis) {
  const Value squares = ir::ReduceSum(ir::Square(x), {axis}, /*keep_dims=*/true);
  return x * ir::Rsqrt(ir::Maximum(squares, ir::SplatLike(squares, kEpsilon * kEpsilon)));
}

}  // namespace penstock::nn
