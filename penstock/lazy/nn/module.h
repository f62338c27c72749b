// Module: base class of networks and their parts, in libtorch's manner. A module owns parameters,
// buffers and modules under names; copies of a handle (Linear, Conv2d, ...) are the same module.
//
//   struct Net : torch::nn::Module {
//     torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(784, 64));
//     torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(64, 10, {.bias = false}));
//     torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.5));
//     torch::Tensor forward(const torch::Tensor& x) {
//       return fc2(dropout(torch::relu(fc1(torch::flatten(x, 1)))));
//     }
//   };
//   auto net = std::make_shared<Net>();
//   net->to(device);
//   net->train();
//   torch::Tensor y = net->forward(x);
//   PENSTOCK_RETURN_IF_ERROR(net->load_state_dict(weights.arrays));   // of torch.save
//
// Parameters are made on this thread's device (xm::xla_device()); initial values are computed on
// the host from the seed of manual_seed. A module belongs to one thread at a time.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/lazy/hooks.h"
#include "penstock/lazy/ops.h"

namespace penstock::lazy::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Keys of a module that a state does not have, and the reverse.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys, unexpected_keys;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // ---- Registration; names are not empty, have no '.', and are used once ----
  // A leaf that optimizers change. An undefined tensor (a bias that is disabled) is not registered.
  Tensor register_parameter(const std::string& name, Tensor tensor, bool requires_grad = true);
  // State that is no parameter; in state_dict unless not persistent.
  Tensor register_buffer(const std::string& name, Tensor tensor, bool persistent = true);
  template <typename M>
  M register_module(const std::string& name, M module) {
    AddModule(name, AsModule(module));
    return module;
  }

  // ---- Contents, depth first in order of registration ----
  Tensors parameters(bool recurse = true) const;  // shared ones once
  NamedTensors named_parameters(bool recurse = true) const;
  Tensors buffers(bool recurse = true) const;
  NamedTensors named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> children() const;
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& named_children() const {
    return modules_;
  }
  // This module ("") and all below it, by path ("layer1.0.conv1"); shared ones once.
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::vector<Module*> modules();
  // The module at that path; null, and an error of the thread, if there is none.
  Module* get_submodule(const std::string& path);
  // Calls fn(path, module) for this module (path "") and all below it.
  void apply(const std::function<void(const std::string& path, Module& module)>& fn);

  // ---- Hooks: called by handles (module(x), a Sequential), not by a direct module->forward(x), as
  // in PyTorch. `args` and `output`: the tensors among the arguments, and those of the result. A hook
  // may return other ones of the same number, a Tensor for one, or nothing.
  //
  //   model->layer4->register_forward_hook(
  //       [&](nn::Module&, const Tensors& args, const Tensors& output) { features = output[0]; });
  using ForwardPreHook = std::function<Tensors(Module& module, const Tensors& args)>;
  using ForwardHook =
      std::function<Tensors(Module& module, const Tensors& args, const Tensors& output)>;
  template <typename Hook>
  RemovableHandle register_forward_pre_hook(Hook hook) {
    return pre_hooks_.Add([hook = std::move(hook)](Module& module, const Tensors& args) mutable {
      return HookResult([&] { return hook(module, args); });
    });
  }
  template <typename Hook>
  RemovableHandle register_forward_hook(Hook hook) {
    return hooks_.Add([hook = std::move(hook)](Module& module, const Tensors& args,
                                               const Tensors& output) mutable {
      return HookResult([&] { return hook(module, args, output); });
    });
  }
  // For those who call a forward: whether there are hooks, and calls of them, which replace tensors.
  bool has_forward_hooks() const { return !pre_hooks_.empty() || !hooks_.empty(); }
  void RunForwardPreHooks(const std::vector<Tensor*>& args);
  void RunForwardHooks(const std::vector<Tensor*>& args, const std::vector<Tensor*>& output);

  // ---- State ----
  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  // Moves parameters and buffers; they stay the same tensors, so optimizers keep them. `dtype`
  // converts floats only.
  void to(const Device& device);
  void to(DType dtype);
  void zero_grad(bool set_to_none = true);  // drops gradients; false: fills them with zeros
  void requires_grad_(bool requires_grad = true);

  // Parameters and persistent buffers under PyTorch's names ("layer1.0.conv1.weight").
  NamedTensors state_dict(const std::string& prefix = "") const;
  // Their values on the host, for save::WriteWeights.
  absl::StatusOr<base::NamedArrays> state_arrays() const;
  // Sets them. With `strict`, missing and unexpected keys are errors that list them; another shape
  // is an error always, and then nothing is changed. Values are converted to the tensor's type.
  // `incompatible`, if not null, receives the keys, also after an error.
  absl::Status load_state_dict(const base::NamedArrays& arrays, bool strict = true,
                               IncompatibleKeys* incompatible = nullptr);

 private:
  friend class ModuleTransfer;
  template <typename M>
  static std::shared_ptr<Module> AsModule(const std::shared_ptr<M>& module) {
    return module;
  }
  template <typename M>
  static std::shared_ptr<Module> AsModule(const M& holder) requires requires {
    holder.ptr();
  }
  { return holder.ptr(); }
  template <typename Call>
  static Tensors HookResult(const Call& call) {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return {};
    } else if constexpr (std::same_as<decltype(call()), Tensor>) {
      const Tensor one = call();
      return one.defined() ? Tensors{one} : Tensors();
    } else {
      return call();
    }
  }
  void AddModule(const std::string& name, std::shared_ptr<Module> module);
  bool CheckName(const std::string& name) const;
  void Collect(const std::string& prefix, bool recurse, bool buffers, bool persistent_only,
               NamedTensors& out) const;

  struct Buffer {
    std::string name;
    Tensor tensor;
    bool persistent;
  };
  NamedTensors parameters_;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
  lazy::internal::HookList<ForwardPreHook> pre_hooks_;
  lazy::internal::HookList<ForwardHook> hooks_;
  bool training_ = true;
};

namespace internal {

// The tensors of an argument or a result of forward; results that are structs of tensors have an
// overload beside their declaration.
inline void CollectTensors(Tensor& x, std::vector<Tensor*>& out) { out.push_back(&x); }
inline void CollectTensors(Tensors& xs, std::vector<Tensor*>& out) {
  for (Tensor& x : xs) out.push_back(&x);
}
inline void CollectTensors(std::pair<Tensor, Tensor>& xs, std::vector<Tensor*>& out) {
  out.insert(out.end(), {&xs.first, &xs.second});
}
template <typename Other>
void CollectTensors(Other&, std::vector<Tensor*>&) {}

// forward of these arguments, and the module's hooks.
template <typename Impl, typename... Args>
auto CallForward(Impl& impl, Args&&... args) {
  using Result = std::remove_cvref_t<decltype(impl.forward(std::forward<Args>(args)...))>;
  if (!impl.has_forward_hooks()) return Result(impl.forward(std::forward<Args>(args)...));
  std::tuple<std::decay_t<Args>...> own(std::forward<Args>(args)...);
  return std::apply(
      [&](auto&... each) {
        std::vector<Tensor*> given, made;
        (CollectTensors(each, given), ...);
        impl.RunForwardPreHooks(given);
        Result result(impl.forward(each...));
        CollectTensors(result, made);
        impl.RunForwardHooks(given, made);
        return result;
      },
      own);
}

}  // namespace internal

// Handle of a module, shared by its copies; calling it calls forward. `Linear fc{nullptr}` is
// empty.
template <typename Impl>
class ModuleHolder {
 public:
  // A template, so that the 0 of Dropout(0) is a number.
  template <std::same_as<std::nullptr_t> Null>
  ModuleHolder(Null) {}  // NOLINT(google-explicit-constructor)
  explicit ModuleHolder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  Impl* operator->() const { return impl_.get(); }
  Impl& operator*() const { return *impl_; }
  const std::shared_ptr<Impl>& ptr() const { return impl_; }
  explicit operator bool() const { return impl_ != nullptr; }

  auto operator()(const Tensor& x, SourceLocation where = SourceLocation::Current()) const {
    if constexpr (requires(Impl & impl) { impl.forward(x, where); }) {
      return internal::CallForward(*impl_, x, where);
    } else {
      return internal::CallForward(*impl_, x);
    }
  }
  // Only for arguments that forward takes: whether a handle is a std::function of others is asked
  // by the constructors of std::function.
  template <typename A, typename B, typename... Args>
  requires(!std::same_as<std::remove_cvref_t<B>, SourceLocation> &&
           requires(Impl & impl, A&& a, B&& b, Args&&... args) {
             impl.forward(std::forward<A>(a), std::forward<B>(b), std::forward<Args>(args)...);
           }) auto
  operator()(A&& a, B&& b, Args&&... args) const {
    return internal::CallForward(*impl_, std::forward<A>(a), std::forward<B>(b),
                                 std::forward<Args>(args)...);
  }

 private:
  std::shared_ptr<Impl> impl_;
};

// Defines the handle Name of NameImpl with a constructor of these parameters.
#define PENSTOCK_LAZY_MODULE(Name, parameters, arguments)                              \
  class Name : public ::penstock::lazy::nn::ModuleHolder<Name##Impl> {                 \
   public:                                                                             \
    using ModuleHolder::ModuleHolder;                                                  \
    explicit Name parameters : ModuleHolder(std::make_shared<Name##Impl> arguments) {} \
  }

// A parameter's tensor on this thread's device.
Tensor MakeParameter(const Array& values);

namespace internal {
// Replaces the contents of a root tensor, type and device included; nothing is recorded. Views of
// it and recorded values are not changed.
void SetContents(const Tensor& x, const Tensor& contents);
}  // namespace internal

}  // namespace penstock::lazy::nn
