// Whether operations that this thread records have gradients, besides no_grad (tensor.h). Objects
// of a scope, as Python's with statements; the mode before returns with the scope's end.
//
//   const torch::set_grad_enabled mode(is_training);
//   loss = criterion(model(x), y);
#pragma once

#include "penstock/lazy/tensor.h"

namespace penstock::lazy {

bool is_grad_enabled();

class set_grad_enabled {
 public:
  [[nodiscard]] explicit set_grad_enabled(bool mode);
  ~set_grad_enabled();
  set_grad_enabled(const set_grad_enabled&) = delete;
  set_grad_enabled& operator=(const set_grad_enabled&) = delete;

 private:
  const bool outer_;
};

// With gradients again, within no_grad.
class enable_grad : public set_grad_enabled {
 public:
  [[nodiscard]] enable_grad() : set_grad_enabled(true) {}
};

// As no_grad; inference_mode(false) as enable_grad. Tensors made within it may be used with
// gradients later, which PyTorch forbids.
class inference_mode : public set_grad_enabled {
 public:
  [[nodiscard]] explicit inference_mode(bool mode = true) : set_grad_enabled(!mode) {}
};

}  // namespace penstock::lazy
