// How hooks of tensors are kept and called. Internal to room lazy.
#pragma once

#include <functional>
#include <memory>

#include "penstock/lazy/hooks.h"
#include "penstock/lazy/tensor.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy {

struct TensorHooks {
  internal::HookList<std::function<Tensor(const Tensor& grad)>> list;
  std::weak_ptr<TensorImpl> retains;  // retain_grad: the tensor whose grad the gradient is added to
};

// Calls the hooks with a gradient, a value of the trace's open segment, and returns the one that
// goes on. Invalid after an error of the graph: that of an operation of a hook, or a hook that
// returned a tensor of another type, shape or device.
ir::Value CallHooks(const TensorHooks& hooks, Trace& trace, ir::Value gradient, bool create_graph);

}  // namespace penstock::lazy
