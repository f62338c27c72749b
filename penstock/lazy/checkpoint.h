// torch.utils.checkpoint: rematerialization. What a function of tensors computes is not kept for
// backward(), which computes it again from the function's inputs (Chen et al.: Training deep nets
// with sublinear memory cost, 2016).
//
//   for (const auto& block : blocks) x = torch::utils::checkpoint::checkpoint(block, x);
//   y = torch::utils::checkpoint::checkpoint([&](const Tensor& x) { return f(g(x)); }, x);
//   y = torch::utils::checkpoint::checkpoint_sequential(layers, 4, x);
//
// The function is called once: the recorded operations are computed twice, with the same random
// numbers (PyTorch's preserve_rng_state), and what else it changes (running statistics) is changed
// once. Gradients go to its arguments and to everything else it uses (parameters), as PyTorch's
// use_reentrant=False. Hooks of tensors that it makes within are not called. If it ends the step
// (xm::mark_step), its result is returned as it is, without rematerialization.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>

#include "penstock/lazy/nn/containers.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::utils::checkpoint {

namespace internal {
template <typename Argument>
void Collect(const Argument& argument, Tensors& tensors) {
  if constexpr (std::same_as<Argument, Tensor>) tensors.push_back(argument);
  if constexpr (std::same_as<Argument, Tensors>) {
    tensors.insert(tensors.end(), argument.begin(), argument.end());
  }
}
Tensors Checkpoint(const Tensors& args, const std::function<Tensors()>& run);
}  // namespace internal

// `function` of the arguments: a Tensor, or Tensors.
template <typename Function, typename... Args>
auto checkpoint(const Function& function, const Args&... args) {
  using Result = std::remove_cvref_t<decltype(function(args...))>;
  static_assert(std::same_as<Result, Tensor> || std::same_as<Result, Tensors>,
                "the function returns a Tensor or Tensors");
  Tensors tensors;
  (internal::Collect(args, tensors), ...);
  if constexpr (std::same_as<Result, Tensors>) {
    return internal::Checkpoint(tensors, [&] { return function(args...); });
  } else {
    return internal::Checkpoint(tensors, [&] { return Tensors{function(args...)}; })[0];
  }
}

// The modules in `segments` runs of about equal length, each but the last one a checkpoint.
Tensor checkpoint_sequential(const nn::Sequential& modules, int64_t segments, Tensor input);

}  // namespace penstock::lazy::utils::checkpoint
