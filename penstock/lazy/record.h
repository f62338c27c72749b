// How functions of tensors are written, besides Record and RecordAll (tensor.h): views, in-place
// operations, factories, numbers that change from step to step.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

#include "penstock/lazy/tensor.h"
#include "penstock/lazy/view_kind.h"

namespace penstock::lazy {

// A tensor that shares x's memory. `forward` makes the view's value from x's; `update` makes x's
// value from its former one and the view's, for in-place operations on the view. Both are called
// again in later steps, so they refer to nothing but their arguments and copies of numbers.
// `detached`: the view has no history, as any view that is made under no_grad.
//
//   Tensor flip(const Tensor& x, SourceLocation where) {
//     return RecordView("flip", x, where, [](ir::Value v) { return ir::Reverse(v, {0}); },
//                       [](ir::Value, ir::Value view) { return ir::Reverse(view, {0}); });
//   }
Tensor RecordView(absl::string_view name, const Tensor& x, SourceLocation where,
                  std::function<ir::Value(ir::Value x)> forward,
                  std::function<ir::Value(ir::Value x, ir::Value view)> update,
                  bool detached = false);
// The same for a view of a kind that is known (view_kind.h).
Tensor RecordView(absl::string_view name, const Tensor& x, SourceLocation where, ViewKind kind,
                  bool detached = false);

// Replaces the contents of `target` by what `build` makes of its value (in[0]) and of the inputs'
// (in[1], ...). The result has the target's type: anything else is an error. An in-place operation
// on a leaf that requires a gradient is an error outside no_grad, as in PyTorch. Returns target.
// `overwrites`: in[0] is not a value, because the new contents do not depend on it; contents that
// were lost can be replaced this way.
//
//   Tensor& Tensor::mul_(const Tensor& other, SourceLocation where) {
//     return RecordInPlace("mul_", *this, {other}, where,
//                          [](const ir::Values& in) { return in[0] * in[1]; });
//   }
Tensor& RecordInPlace(absl::string_view name, Tensor& target, const Tensors& inputs,
                      SourceLocation where,
                      const std::function<ir::Value(const ir::Values& in)>& build,
                      bool overwrites = false);

// Lets `next`, a new tensor, take the place of `before`: if the step that computes it fails, it has
// the contents that `before` had before the step, as the target of an in-place operation has. For
// state that is a new tensor in each step because others may hold the old one (a generator's key,
// an optimizer's count of steps); lost with a step, it would take all later steps with it.
void Succeed(const Tensor& next, const Tensor& before);

// Record for functions that make tensors from none: `build` gets the graph of the device's trace,
// and the inputs' values. Inputs are on `device`.
Tensor RecordOn(const Device& device, absl::string_view name, const Tensors& inputs,
                SourceLocation where,
                const std::function<ir::Value(ir::Graph& graph, const ir::Values& in)>& build);

// A scalar that is an input of the step's program instead of a constant in it, so that another
// value in the next step (a learning rate, a step count) does not compile another program.
Tensor scalar_tensor(double value, DType dtype, const Device& device);
// The same for any array: a transfer that starts now.
Tensor device_data(const Array& values, const Device& device);

// Records an error of this thread, which xm::mark_step and reads of values return, unless there is
// one already.
void FailThread(const absl::Status& error);

}  // namespace penstock::lazy
