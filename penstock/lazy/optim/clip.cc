#include "penstock/lazy/optim/clip.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/record.h"

namespace penstock::lazy::nn::utils {
namespace {

Tensors GradientsOf(const Tensors& parameters) {
  Tensors gradients;
  for (const Tensor& param : parameters) {
    if (param.grad().defined()) gradients.push_back(param.grad());
  }
  return gradients;
}

}  // namespace

Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite, SourceLocation where) {
  const no_grad guard;
  Tensors gradients = GradientsOf(parameters), norms;
  if (gradients.empty()) return zeros({}, {}, where);
  for (const Tensor& gradient : gradients) {
    norms.push_back(norm(gradient, norm_type, {}, false, where));
  }
  const Tensor total = norm(stack(norms, 0, where), norm_type, {}, false, where);
  if (error_if_nonfinite && total.defined()) {
    const auto value = total.to(DType::kF64).item<double>();
    if (!value.ok()) {
      FailThread(value.status());
      return Tensor();
    }
    if (!std::isfinite(*value)) {
      return FailOp("clip_grad_norm_", {},
                    absl::StrCat("the gradients' norm of type ", norm_type, " is ", *value,
                                 ", so they cannot be clipped; error_if_nonfinite = false scales "
                                 "them nevertheless"),
                    where);
    }
  }
  const Tensor factor =
      clamp_max(div(Operand(max_norm, where),
                    Operand(add(Operand(total, where), Operand(1e-6, where)), where)),
                1, where);
  for (Tensor& gradient : gradients) gradient.mul_(factor, where);
  return total;
}

void clip_grad_value_(const Tensors& parameters, double clip_value, SourceLocation where) {
  const no_grad guard;
  if (clip_value < 0) {
    FailOp("clip_grad_value_", {},
           absl::StrCat("clip_value must not be negative, got ", clip_value), where);
    return;
  }
  for (Tensor& gradient : GradientsOf(parameters)) {
    gradient.clamp_(-clip_value, clip_value, where);
  }
}

}  // namespace penstock::lazy::nn::utils
