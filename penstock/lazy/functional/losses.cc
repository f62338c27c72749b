// Losses.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/functional/reduction.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

bool SameShapes(absl::string_view name, const Tensor& x, const Tensor& target,
                SourceLocation where) {
  if (!x.defined() || !target.defined() || x.sizes() == target.sizes()) return true;
  FailOp(name, {x, target}, "the input and the target must have one shape", where);
  return false;
}

// A loss of two tensors, element by element, in their common float type.
Tensor Elementwise(absl::string_view name, const Tensor& input, const Tensor& target,
                   absl::string_view reduction, SourceLocation where,
                   const std::function<Value(Value x, Value target)>& loss) {
  const Tensor x = lazy::internal::Cast(name, input), y = lazy::internal::Cast(name, target);
  if (!KnownReduction(name, reduction, where)) return Tensor();
  const Operand operands[] = {Operand(x, where), Operand(y, where)};
  return lazy::internal::Promoted(
      name, operands, lazy::internal::FloatType(lazy::internal::ResultType(operands)),
      [&](const Values& in) { return Reduced(loss(in[0], in[1]), reduction); });
}

// ---- Cross entropy ----

struct ClassLoss {
  absl::string_view name, reduction;
  int64_t ignore_index;
  double smoothing;
  bool log_probabilities;  // x has them; else logits
};

// max(x, 0), with the gradient of PyTorch's clamp_min: 1 at 0, where relu's is 0.
Value Hinge(Value x) {
  const Value zero = SplatLike(x, 0);
  return ir::Select(ir::Less(x, zero), zero, x);
}

// x with the classes last: [N, ..., C].
Value ClassesLast(Value x) {
  if (x.rank() <= 2) return x;
  ir::Axes order{0};
  for (int64_t i = 2; i < x.rank(); ++i) order.push_back(i);
  order.push_back(1);
  return ir::Transpose(x, order);
}

// The element of x's last axis at each class index. A select, as keras's
// sparse_categorical_crossentropy does it, so that both agree bit for bit.
Value Chosen(Value x, Value chosen) {
  return ir::ReduceSum(ir::Select(chosen, x, SplatLike(x, 0)), {-1});
}

// sum of losses / sum of weights, or what `reduction` says.
Value Weighted(Value losses, Value weights, absl::string_view reduction) {
  if (reduction == "none" || !losses.valid() || !weights.valid()) return losses;
  if (reduction == "sum") return ir::ReduceSum(losses);
  // The sums may be too large for 16-bit numbers, whose mean is not.
  const Value total = ir::ReduceSum(lazy::internal::Widened(losses));
  return ir::Convert(total / ir::ReduceSum(lazy::internal::Widened(weights)), losses.dtype());
}

Value IndexLoss(Value x, Value target, Value class_weight, const ClassLoss& options) {
  const int64_t classes = x.shape().dim(-1);
  const Value logs = options.log_probabilities ? x : ir::LogSoftmax(x, -1);
  const Value one_hot = ir::Greater(ir::OneHot(target, classes, logs.dtype()),
                                    ir::Splat(*x.graph(), {logs.dtype(), {}}, 0.5));
  const Value counted = ir::Compare(
      target, SplatLike(target, static_cast<double>(options.ignore_index)), ir::Comparison::kNe);
  const Value in_range = ir::And(ir::GreaterEqual(target, SplatLike(target, 0)),
                                 ir::Less(target, SplatLike(target, static_cast<double>(classes))));
  const Value picked = Chosen(logs, one_hot), zero = SplatLike(picked, 0);
  Value weights = ir::Convert(counted, logs.dtype());
  Value losses = -picked;
  if (class_weight.valid()) {
    const Value each = Chosen(ir::BroadcastTo(class_weight, logs.shape()), one_hot);
    losses = losses * each;
    weights = weights * each;
  }
  const Value nan = SplatLike(picked, std::numeric_limits<double>::quiet_NaN());
  losses = ir::Select(counted, ir::Select(in_range, losses, nan), zero);
  const Value nll = Weighted(losses, weights, options.reduction);
  if (options.smoothing == 0) return nll;
  Value smooth = -ir::ReduceSum(class_weight.valid() ? logs * class_weight : logs, {-1});
  smooth = Weighted(ir::Select(counted, smooth, zero), weights, options.reduction);
  return nll * (1 - options.smoothing) +
         smooth * (options.smoothing / static_cast<double>(classes));
}

Value ProbabilityLoss(Value x, Value target, Value class_weight, const ClassLoss& options) {
  const double classes = static_cast<double>(x.shape().dim(-1));
  if (options.smoothing > 0) {
    target = target * (1 - options.smoothing) + options.smoothing / classes;
  }
  Value terms = ir::LogSoftmax(x, -1) * target;
  if (class_weight.valid()) terms = terms * class_weight;
  return Reduced(-ir::ReduceSum(terms, {-1}), options.reduction);
}

// Empty: shapes and types fit.
std::string WrongClassShapes(const Tensor& x, const Tensor& target, const Tensor& weight) {
  if (!base::IsFloat(x.dtype()) || x.dim() == 0)
    return "expects logits [N, C, ...] of a float type";
  const int64_t axis = x.dim() == 1 ? 0 : 1;
  if (weight.defined() && (weight.dim() != 1 || weight.size(0) != x.size(axis))) {
    return absl::StrCat("weight must be a vector of ", x.size(axis), " elements");
  }
  if (base::IsFloat(target.dtype())) {
    return x.sizes() == target.sizes()
               ? ""
               : "a target of probabilities must have the shape of x; class indices are integers";
  }
  if (target.dtype() == DType::kBool) return "class indices must be integers";
  bool fits = target.dim() == x.dim() - 1;
  for (int64_t i = 0; fits && i < target.dim(); ++i) {
    fits = target.size(i) == x.size(i < axis ? i : i + 1);
  }
  return fits ? "" : "class indices must have the shape of x without its class dim: [N, ...]";
}

Tensor ClassLossOf(const Tensor& input, const Tensor& target, const Tensor& weight,
                   const ClassLoss& options, SourceLocation where) {
  const Tensor x = lazy::internal::Cast(options.name, input);
  Tensors inputs{x, target};
  if (weight.defined()) inputs.push_back(weight);
  if (!KnownReduction(options.name, options.reduction, where)) return Tensor();
  if (!x.defined() || !target.defined()) {
    return FailOp(options.name, inputs, "an input is undefined", where);
  }
  std::string wrong = WrongClassShapes(x, target, weight);
  if (wrong.empty() && (options.smoothing < 0 || options.smoothing > 1)) {
    wrong = absl::StrCat("label_smoothing must be from 0 to 1, got ", options.smoothing);
  }
  if (wrong.empty() && options.log_probabilities && base::IsFloat(target.dtype())) {
    wrong = "class indices must be integers";
  }
  if (!wrong.empty()) return FailOp(options.name, inputs, wrong, where);
  return Record(options.name, inputs, where, [&](const Values& in) {
    const Value logits = ClassesLast(in[0]);
    const Value class_weight = in.size() > 2 ? ir::Convert(in[2], in[0].dtype()) : Value();
    if (base::IsFloat(in[1].dtype())) {
      return ProbabilityLoss(logits, ClassesLast(ir::Convert(in[1], in[0].dtype())), class_weight,
                             options);
    }
    return IndexLoss(
        logits,
        ir::Convert(in[1], base::BitWidth(in[1].dtype()) < 32 ? DType::kI32 : in[1].dtype()),
        class_weight, options);
  });
}

// ---- Parts of other losses ----

Value SmoothL1Value(Value x, Value y, double beta) {
  const Value distance = ir::Abs(x - y);
  if (beta == 0) return distance;
  const Value limit = SplatLike(distance, beta);
  return ir::Select(ir::Less(distance, limit), ir::Square(distance) * (0.5 / beta),
                    distance - 0.5 * beta);
}

Value HuberValue(Value x, Value y, double delta) {
  const Value distance = ir::Abs(x - y);
  const Value limit = SplatLike(distance, delta);
  return ir::Select(ir::LessEqual(distance, limit), ir::Square(distance) * 0.5,
                    (distance - 0.5 * delta) * delta);
}

Value LogOf(Value x) { return ir::Maximum(ir::Log(x), SplatLike(x, -100)); }

// -(y log x + (1 - y) log(1 - x)). PyTorch's gradient, which is finite where x is 0 or 1.
Value BinaryLoss(Value x, Value y) {
  const Values made = ir::CustomGradient(
      {x, y},
      [](ir::Graph&, const Values& in) -> Values {
        return {-(in[1] * LogOf(in[0]) + (1.0 - in[1]) * LogOf(1.0 - in[0]))};
      },
      [](ir::Graph&, const ir::BackwardIn& in) -> Values {
        const Value p = in.inputs[0], target = in.inputs[1], cotangent = in.cotangents[0];
        const Value slope = (p - target) / ir::Maximum((1.0 - p) * p, SplatLike(p, 1e-12));
        return {cotangent * slope, cotangent * (LogOf(1.0 - p) - LogOf(p))};
      });
  return made.empty() ? Value() : made[0];
}

Value LogitsValue(Value x, Value y, Value pos_weight) {
  if (!pos_weight.valid()) return ir::Softplus(x) - x * y;
  // (1 - y) x + (1 + (p - 1) y) log(1 + exp(-x)).
  return (1.0 - y) * x + (1.0 + (pos_weight - 1.0) * y) * ir::Softplus(-x);
}

}  // namespace

Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options,
                     SourceLocation where) {
  return ClassLossOf(
      x, target, options.weight,
      {"cross_entropy", options.reduction, options.ignore_index, options.label_smoothing, false},
      where);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossOptions& options,
                SourceLocation where) {
  return ClassLossOf(x, target, options.weight,
                     {"nll_loss", options.reduction, options.ignore_index, 0, true}, where);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, absl::string_view reduction,
                SourceLocation where) {
  return Elementwise("mse_loss", x, target, reduction, where,
                     [](Value a, Value b) { return ir::Square(a - b); });
}
Tensor l1_loss(const Tensor& x, const Tensor& target, absl::string_view reduction,
               SourceLocation where) {
  return Elementwise("l1_loss", x, target, reduction, where,
                     [](Value a, Value b) { return ir::Abs(a - b); });
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, absl::string_view reduction,
                      double beta, SourceLocation where) {
  if (beta < 0) return FailOp("smooth_l1_loss", {x}, "beta must not be negative", where);
  return Elementwise("smooth_l1_loss", x, target, reduction, where,
                     [=](Value a, Value b) { return SmoothL1Value(a, b, beta); });
}
Tensor huber_loss(const Tensor& x, const Tensor& target, absl::string_view reduction, double delta,
                  SourceLocation where) {
  if (delta <= 0) return FailOp("huber_loss", {x}, "delta must be above 0", where);
  return Elementwise("huber_loss", x, target, reduction, where,
                     [=](Value a, Value b) { return HuberValue(a, b, delta); });
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& factors,
                            absl::string_view reduction, SourceLocation where) {
  constexpr char kName[] = "binary_cross_entropy";
  if (!KnownReduction(kName, reduction, where) || !SameShapes(kName, input, target, where)) {
    return Tensor();
  }
  Tensor x = input, weight = factors;
  Tensor* const all[] = {&x, &weight};
  lazy::internal::CastAll(kName, all);
  Tensors inputs{x, target};
  if (weight.defined()) inputs.push_back(weight);
  return Record(kName, inputs, where, [&](const Values& in) {
    Value losses = BinaryLoss(in[0], ir::Convert(in[1], in[0].dtype()));
    if (in.size() > 2) losses = losses * in[2];
    return Reduced(losses, reduction);
  });
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options, SourceLocation where) {
  constexpr char kName[] = "binary_cross_entropy_with_logits";
  Tensor x = input, weight = options.weight, of_positives = options.pos_weight;
  Tensor* const all[] = {&x, &weight, &of_positives};
  lazy::internal::CastAll(kName, all);
  if (!KnownReduction(kName, options.reduction, where) || !SameShapes(kName, x, target, where)) {
    return Tensor();
  }
  Tensors inputs{x, target};
  if (weight.defined()) inputs.push_back(weight);
  if (of_positives.defined()) inputs.push_back(of_positives);
  return Record(kName, inputs, where, [&](const Values& in) {
    const Value pos_weight = of_positives.defined() ? in.back() : Value();
    Value losses = LogitsValue(in[0], ir::Convert(in[1], in[0].dtype()), pos_weight);
    if (weight.defined()) losses = losses * in[2];
    return Reduced(losses, options.reduction);
  });
}

Tensor kl_div(const Tensor& input, const Tensor& wanted, absl::string_view reduction,
              bool log_target, SourceLocation where) {
  if (!KnownReduction("kl_div", reduction, where, true)) return Tensor();
  Tensor x = input, target = wanted;
  Tensor* const both[] = {&x, &target};
  lazy::internal::CastAll("kl_div", both);
  return Record("kl_div", {x, target}, where, [&](const Values& in) {
    const Value t = in[1];
    Value losses;
    if (log_target) {
      losses = ir::Exp(t) * (t - in[0]);
    } else {
      const Value positive = ir::Greater(t, SplatLike(t, 0));
      const Value log = ir::Log(ir::Select(positive, t, SplatLike(t, 1)));
      losses = t * log - t * in[0];
    }
    if (reduction != "batchmean" || losses.rank() == 0) return Reduced(losses, reduction);
    return ir::ReduceSum(losses) / static_cast<double>(losses.shape().dim(0));
  });
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps,
                         SourceLocation where) {
  Tensor x = lazy::internal::Cast("cosine_similarity", a),
         y = lazy::internal::Cast("cosine_similarity", b);
  if (x.defined() && y.defined() && x.sizes() != y.sizes()) {  // `dim` is one of the common shape
    const Tensors both = broadcast_tensors({x, y}, where);
    x = both[0];
    y = both[1];
  }
  const Tensor product = sum(mul(Operand(x, where), Operand(y, where)), dim, false, where);
  const auto size = [&](const Tensor& v) {
    return clamp_min(norm(v, 2, dim, false, where), eps, where);
  };
  return div(Operand(product, where),
             Operand(mul(Operand(size(x), where), Operand(size(y), where)), where));
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, absl::string_view reduction,
                        SourceLocation where) {
  return Elementwise("soft_margin_loss", x, target, reduction, where,
                     [](Value a, Value y) { return ir::Softplus(-(y * a)); });
}

Tensor margin_ranking_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                           double margin, absl::string_view reduction, SourceLocation where) {
  if (!KnownReduction("margin_ranking_loss", reduction, where)) return Tensor();
  Tensor a = first, b = second;
  Tensor* const both[] = {&a, &b};
  lazy::internal::CastAll("margin_ranking_loss", both);
  return Record("margin_ranking_loss", {a, b, target}, where, [&](const Values& in) {
    const Value y = ir::Convert(in[2], in[0].dtype());
    return Reduced(Hinge(-y * (in[0] - in[1]) + margin), reduction);
  });
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin,
                            absl::string_view reduction, SourceLocation where) {
  return Elementwise("hinge_embedding_loss", x, target, reduction, where, [=](Value a, Value y) {
    const Value zero = SplatLike(a, 0);
    const Value apart = ir::Select(ir::Equal(y, SplatLike(y, 1)), zero, Hinge(margin - a));
    return apart + ir::Select(ir::Equal(y, SplatLike(y, -1)), zero, a);
  });
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             absl::string_view reduction, SourceLocation where) {
  const Tensor similarity = cosine_similarity(a, b, -1, 1e-8, where);
  return Elementwise(
      "cosine_embedding_loss", similarity, target, reduction, where, [=](Value c, Value y) {
        return ir::Select(ir::Greater(y, SplatLike(y, 0)), 1.0 - c, Hinge(c - margin));
      });
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, absl::string_view reduction,
                           SourceLocation where) {
  constexpr char kName[] = "triplet_margin_loss";
  const Tensor x = lazy::internal::Cast(kName, anchor);
  const auto distance = [&](const Tensor& other) {
    const Operand y(lazy::internal::Cast(kName, other), where);
    const Tensor difference = sub(Operand(x, where), y);
    return norm(add(Operand(difference, where), Operand(eps, where)), p, -1, false, where);
  };
  return Elementwise(kName, distance(positive), distance(negative), reduction, where,
                     [=](Value near, Value far) { return Hinge(near - far + margin); });
}

}  // namespace penstock::lazy::nn::functional
