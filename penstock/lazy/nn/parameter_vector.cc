#include "penstock/lazy/nn/parameter_vector.h"

#include "absl/strings/str_cat.h"

namespace penstock::lazy::nn::utils {

Tensor parameters_to_vector(const Tensors& parameters, SourceLocation where) {
  Tensors flat;
  for (const Tensor& parameter : parameters) flat.push_back(reshape(parameter, {-1}, where));
  return cat(flat, 0, where);
}

void vector_to_parameters(const Tensor& vec, const Tensors& parameters, SourceLocation where) {
  int64_t total = 0;
  for (const Tensor& parameter : parameters) total += parameter.numel();
  if (!vec.defined() || vec.dim() != 1 || vec.numel() != total) {
    FailOp("vector_to_parameters", {vec},
           absl::StrCat("expects a vector of ", total, " elements, as the parameters have"), where);
    return;
  }
  const no_grad guard;
  int64_t at = 0;
  for (Tensor parameter : parameters) {
    const Tensor part = narrow(vec, 0, at, parameter.numel(), where);
    parameter.copy_(reshape(part, parameter.sizes(), where), where);
    at += parameter.numel();
  }
}

}  // namespace penstock::lazy::nn::utils
