// Losses of class margins and of distributions; distances of pairs.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/functional/reduction.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

Tensor ReducedTensor(const Tensor& losses, absl::string_view reduction, SourceLocation where) {
  if (reduction == "none") return losses;
  return reduction == "sum" ? sum(losses, {}, false, where) : mean(losses, {}, false, where);
}

// log(n!) by Stirling's approximation, 0 for n up to 1.
Value Stirling(Value n) {
  const Value above = ir::Greater(n, SplatLike(n, 1)), safe = ir::Select(above, n, SplatLike(n, 1));
  const Value log = safe * ir::Log(safe) - safe + ir::Log(safe * (2 * M_PI)) * 0.5;
  return ir::Select(above, log, SplatLike(n, 0));
}

// Empty: the shapes fit.
std::string WrongMargins(const Tensor& x, const Tensor& target, const MultiMarginOptions& options) {
  if (!x.defined() || !target.defined()) return "an input is undefined";
  if (!base::IsFloat(x.dtype()) || x.dim() < 1 || x.dim() > 2 || x.size(-1) == 0 ||
      !base::IsInteger(target.dtype()) || target.dim() != x.dim() - 1 ||
      target.numel() * x.size(-1) != x.numel()) {
    return "expects scores [N, C] of floats and class indices [N], or [C] and a scalar";
  }
  if (options.p != 1 && options.p != 2) return absl::StrCat("p must be 1 or 2, got ", options.p);
  if (options.weight.defined() &&
      (options.weight.dim() != 1 || options.weight.size(0) != x.size(-1))) {
    return absl::StrCat("weight must be a vector of ", x.size(-1), " elements");
  }
  return "";
}

}  // namespace

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim,
                         SourceLocation where) {
  const Tensor difference = sub(Operand(a, where), Operand(b, where));
  return norm(add(Operand(difference, where), Operand(eps, where)), p, -1, keepdim, where);
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginOptions& options, SourceLocation where) {
  constexpr char kName[] = "multi_margin_loss";
  const Tensor x = lazy::internal::Cast(kName, input);
  Tensors inputs{x, target};
  if (options.weight.defined()) inputs.push_back(options.weight);
  if (!KnownReduction(kName, options.reduction, where)) return Tensor();
  const std::string wrong = WrongMargins(x, target, options);
  if (!wrong.empty()) return FailOp(kName, inputs, wrong, where);
  return Record(kName, inputs, where, [&](const Values& in) {
    const int64_t classes = in[0].shape().dim(-1), last = in[0].rank() - 1;
    const Value is_target = ir::Greater(ir::OneHot(in[1], classes, in[0].dtype()),
                                        ir::Splat(*in[0].graph(), {in[0].dtype(), {}}, 0.5));
    const Value zero = SplatLike(in[0], 0);
    const Value score = ir::ReduceSum(ir::Select(is_target, in[0], zero), {last}, true);
    Value terms = ir::Relu(options.margin - score + in[0]);
    if (options.p == 2) terms = ir::Square(terms);
    terms = ir::Select(is_target, zero, terms);
    if (in.size() > 2) {
      const Value weight = ir::BroadcastTo(ir::Convert(in[2], in[0].dtype()), in[0].shape());
      terms = terms * ir::ReduceSum(ir::Select(is_target, weight, zero), {last}, true);
    }
    return Reduced(ir::ReduceSum(terms, {last}) / static_cast<double>(classes), options.reduction);
  });
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   absl::string_view reduction, SourceLocation where) {
  constexpr char kName[] = "multilabel_soft_margin_loss";
  if (!KnownReduction(kName, reduction, where)) return Tensor();
  if (x.defined() && x.dim() == 0) return FailOp(kName, {x}, "expects [..., C]", where);
  Tensor losses =
      binary_cross_entropy_with_logits(x, target, {.weight = weight, .reduction = "none"}, where);
  return ReducedTensor(mean(losses, -1, false, where), reduction, where);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& counts, const PoissonNllOptions& options,
                        SourceLocation where) {
  constexpr char kName[] = "poisson_nll_loss";
  if (!KnownReduction(kName, options.reduction, where)) return Tensor();
  const Operand operands[] = {Operand(lazy::internal::Cast(kName, input), where),
                              Operand(lazy::internal::Cast(kName, counts), where)};
  const DType dtype = lazy::internal::FloatType(lazy::internal::ResultType(operands));
  return lazy::internal::Promoted(kName, operands, dtype, [&](const Values& in) {
    const Value x = in[0], target = in[1];
    Value losses =
        options.log_input ? ir::Exp(x) - target * x : x - target * ir::Log(x + options.eps);
    if (options.full) losses = losses + Stirling(target);
    return Reduced(losses, options.reduction);
  });
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options, SourceLocation where) {
  constexpr char kName[] = "gaussian_nll_loss";
  if (!KnownReduction(kName, options.reduction, where)) return Tensor();
  if (!lazy::internal::IsFloatTensor(x) || !lazy::internal::IsFloatTensor(variance)) {
    return FailOp(kName, {x, target, variance}, "expects floats", where);
  }
  const bool lacks_last = variance.sizes() != x.sizes() && variance.dim() == x.dim() - 1;
  const Tensor each = lacks_last ? unsqueeze(variance, -1, where) : variance;
  bool fits = each.dim() == x.dim();
  for (int64_t i = 0; fits && i < x.dim(); ++i) {
    fits = each.size(i) == x.size(i) || (i == x.dim() - 1 && each.size(i) == 1);
  }
  if (!fits) {
    return FailOp(kName, {x, target, variance},
                  "the variance must have x's shape, or 1 in the last dim, or lack it", where);
  }
  const Operand operands[] = {Operand(x, where), Operand(target, where), Operand(each, where)};
  return lazy::internal::Promoted(
      kName, operands, lazy::internal::ResultType(operands), [&](const Values& in) {
        // Clamped without changing the gradient, as in PyTorch.
        const Value least = ir::Maximum(in[2], SplatLike(in[2], options.eps));
        const Value var = in[2] + ir::StopGradient(least - in[2]);
        Value losses = (ir::Log(var) + ir::Square(in[0] - in[1]) / var) * 0.5;
        if (options.full) losses = losses + 0.5 * std::log(2 * M_PI);
        return Reduced(losses, options.reduction);
      });
}

}  // namespace penstock::lazy::nn::functional
