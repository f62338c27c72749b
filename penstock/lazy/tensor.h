// Room lazy: PyTorch's programming model over XLA (torch_xla). Tensors live on devices; operations
// are recorded and run as one program when a value is needed or a step ends. It may use every room
// above it but the other front ends.
//
//   namespace torch = penstock::lazy;                 // in a program, not in a header
//   namespace xm = penstock::lazy::xm;
//   torch::Device device = xm::xla_device().value();
//   auto model = torch::nn::Sequential({torch::nn::Linear(4, 16), torch::nn::ReLU(),
//                                       torch::nn::Linear(16, 3)});
//   model->to(device);
//   torch::optim::SGD optimizer(model->parameters(), {.lr = 0.1});
//   for (auto& [x, y] : batches) {
//     optimizer.zero_grad();
//     torch::Tensor loss = torch::nn::functional::cross_entropy(model(x), y);
//     loss.backward();
//     xm::optimizer_step(optimizer);
//     PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
//   }
//
//   tensor.h      Tensor: recorded values, autograd, views
//   ops.h         functions of tensors, under PyTorch's names (torch.*, Tensor.*)
//   functional.h  torch::nn::functional; nn/: modules; optim/: optimizers, lr_scheduler
//   autograd.h    gradients as values, double backward; grad_mode.h: enable_grad and its kin;
//                 hooks.h, checkpoint.h (rematerialization); record.h: how functions are written
//   xm.h          torch_xla's xla_model: devices, mark_step, collectives, save; metrics.h: reports
//   xmp.h         spawn: one thread for each device; data/: DataLoader, samplers, ParallelLoader
//
// How it works. Every thread records into the trace of its device, an ir::Graph: a tensor is either
// a buffer on the device or a value of that graph. backward() differentiates the graph. A step's
// program is found by a hash of the recorded graph; only a graph that was not seen before is
// printed and compiled. Memory of tensors that the step replaces (parameters, the optimizer's
// state) is donated to the program.
//
// Errors. Recording never throws and never stops midway: an operation with invalid arguments
// returns an undefined tensor, operations on undefined tensors return undefined ones, and the
// thread keeps the first error, with the shapes that were passed and the line of the program.
// xm::mark_step and everything that reads a value return it, once; what was recorded without error
// stays, and the program can continue.
//
// Differences from PyTorch. An in-place operation on a tensor that a gradient needs is no error:
// the graph has the value that it saw. Under no_grad, or through detach(), it changes a tensor's
// contents and leaves its history as it is. There are no gradients across devices.
// docs/design/lazy.md says more.
//
// Thread safety: a tensor belongs to one thread at a time (xmp::spawn gives each replica its own).
// What a thread has recorded and not run has no value for other threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/base/source_location.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/hooks.h"
#include "penstock/lazy/tensor_methods.h"
#include "penstock/runtime/client.h"

namespace penstock::lazy {

using base::Array;
using base::DType;
using base::Shape;
using base::SourceLocation;

class TensorImpl;
class Context;

// A device that tensors live on: "xla:0", "xla:1". Equal for equal index and client. Cheap to copy.
class Device {
 public:
  Device() = default;
  Device(std::shared_ptr<runtime::Client> client, int index);
  bool valid() const { return context_ != nullptr; }
  int index() const { return index_; }
  // Null if the device is not valid.
  const std::shared_ptr<runtime::Client>& client() const;
  // What the tensors of one client share. Internal to the room.
  const std::shared_ptr<Context>& context() const { return context_; }
  std::string ToString() const;  // "xla:0"
  friend bool operator==(const Device&, const Device&) = default;

 private:
  std::shared_ptr<Context> context_;
  int index_ = 0;
};

// A tensor with PyTorch's meaning of sharing: copies of a Tensor are the same tensor; an in-place
// operation is seen through all of them and through views. Default-constructed: undefined.
class Tensor : public TensorMethods {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }
  // The following of an undefined tensor: kInvalid, {}, 0, an invalid device.
  DType dtype() const;
  const Shape& sizes() const;
  int64_t size(int64_t dim) const;
  int64_t dim() const;
  int64_t numel() const;
  int64_t nelement() const { return numel(); }
  int64_t element_size() const;  // bytes of one element
  bool is_floating_point() const;
  bool is_contiguous() const { return true; }  // in its logical shape, as every tensor here
  Device device() const;
  std::string ToString() const;  // "f32[32,10] on xla:0", without running anything

  // ---- Values: run the recorded operations that the value needs, and block ----
  absl::StatusOr<Array> cpu() const;
  template <typename T>
  absl::StatusOr<T> item() const {  // requires one element
    PENSTOCK_ASSIGN_OR_RETURN(const Array value, cpu());
    if (value.num_elements() != 1) return NotOneElement();
    return value.item<T>();
  }
  // All elements in row-major order, converted to T. PyTorch nests its lists by dims.
  template <typename T>
  absl::StatusOr<std::vector<T>> tolist() const {
    PENSTOCK_ASSIGN_OR_RETURN(const Array value, cpu());
    PENSTOCK_ASSIGN_OR_RETURN(const Array cast, value.Cast(base::DTypeOf<T>()));
    const auto values = cast.values<T>();
    return std::vector<T>(values.begin(), values.end());
  }

  // A copy on another device or of another type; this tensor if nothing changes.
  Tensor to(const Device& device, SourceLocation where = SourceLocation::Current()) const;
  Tensor to(DType dtype, SourceLocation where = SourceLocation::Current()) const;

  // ---- Autograd ----
  bool requires_grad() const;
  Tensor& requires_grad_(bool requires_grad = true);
  bool is_leaf() const;
  // The accumulated gradient; undefined if there is none.
  Tensor grad() const;
  void set_grad(const Tensor& grad);
  // Adds d this / d leaf to the grad of every leaf that requires one. `gradient`: the incoming
  // gradient; required unless this is a scalar. As in PyTorch a graph is differentiated once,
  // unless retain_graph.
  void backward(const Tensor& gradient = Tensor(), bool retain_graph = false,
                SourceLocation where = SourceLocation::Current()) const;
  Tensor detach() const;  // the same value without history; shares memory, as in PyTorch
  Tensor& detach_();
  // Calls `hook` with the gradient with respect to this tensor whenever backward() or
  // autograd::grad computes it, before it goes on (hooks.h). A hook that returns a Tensor replaces
  // the gradient by it, unless it is undefined; one that returns nothing leaves it. Of a tensor that
  // is modified in place later it is the gradient with respect to the value at this call.
  template <typename Hook>
  RemovableHandle register_hook(Hook hook, SourceLocation where = SourceLocation::Current()) const {
    if constexpr (std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>>) {
      return AddHook(
          [hook = std::move(hook)](const Tensor& grad) mutable {
            hook(grad);
            return Tensor();
          },
          where);
    } else {
      return AddHook(std::move(hook), where);
    }
  }
  // Lets backward() accumulate the gradient of a tensor that is no leaf in its grad, too.
  void retain_grad(SourceLocation where = SourceLocation::Current()) const;

  // ---- In place (the name ends with "_"); seen by views and by the tensor this is a view of ----
  Tensor& copy_(const Tensor& source, SourceLocation where = SourceLocation::Current());
  Tensor& fill_(Scalar value);
  Tensor& zero_();
  // The result's type, as promotion makes it, must fit into the tensor's: integers into floats, not
  // floats into integers, nor numbers into bools. copy_ and fill_ convert anything.
  Tensor& add_(const Tensor& other, Scalar alpha = 1,
               SourceLocation where = SourceLocation::Current());
  Tensor& sub_(const Tensor& other, Scalar alpha = 1,
               SourceLocation where = SourceLocation::Current());
  Tensor& mul_(const Tensor& other, SourceLocation where = SourceLocation::Current());
  Tensor& div_(const Tensor& other, SourceLocation where = SourceLocation::Current());
  Tensor& mul_(Scalar factor, SourceLocation where = SourceLocation::Current());
  Tensor& add_(Scalar value, SourceLocation where = SourceLocation::Current());
  // ... the others are in ops.h's table of methods.

 private:
  absl::Status NotOneElement() const;
  RemovableHandle AddHook(std::function<Tensor(const Tensor& grad)> hook,
                          SourceLocation where) const;

  std::shared_ptr<TensorImpl> impl_;
};
using Tensors = std::vector<Tensor>;

// A tensor with these values on `device` (torch.tensor(...).to(device)); the transfer starts now. A
// CPU device may use the array's memory without a copy: it must not be written afterwards.
Tensor tensor(const Array& values, const Device& device, bool requires_grad = false);

// Records an operation, for the functions of ops.h: `build` gets the inputs' values in the trace's
// graph, in PyTorch's (logical) shapes, and returns the results.
//
//   Tensor exp(const Tensor& x, SourceLocation where) {
//     return Record("exp", {x}, where, [](const ir::Values& in) { return ir::Exp(in[0]); });
//   }
//
// Inputs on different devices, or undefined ones, are an error that names the operation.
Tensor Record(absl::string_view name, const Tensors& inputs, SourceLocation where,
              const std::function<ir::Value(const ir::Values& inputs)>& build);
Tensors RecordAll(absl::string_view name, const Tensors& inputs, SourceLocation where,
                  const std::function<ir::Values(const ir::Values& inputs)>& build);
// Records an error about an operation and returns an undefined tensor.
Tensor FailOp(absl::string_view name, const Tensors& inputs, absl::string_view message,
              SourceLocation where);

// RAII: operations recorded by this thread meanwhile have no gradient (torch.no_grad).
class no_grad {
 public:
  explicit no_grad(bool enabled = true);
  ~no_grad();
  no_grad(const no_grad&) = delete;
  no_grad& operator=(const no_grad&) = delete;

 private:
  bool outer_;
};

}  // namespace penstock::lazy
