#include "penstock/lazy/nn/module.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/trace.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy::nn {
namespace internal {

void SetContents(const Tensor& x, const Tensor& contents) {
  if (!x.defined() || !contents.defined()) return;
  TensorImpl& to = *x.impl();
  const TensorImpl& from = *contents.impl();
  if (to.is_view() || from.data == nullptr) {
    FailOp("set_data", {x}, "only a tensor that is no view can be replaced", SourceLocation());
    return;
  }
  to.dtype = from.dtype;
  to.shape = from.shape;
  to.device = from.device;
  to.data = from.data;
  to.replaces = nullptr;
  to.segment = nullptr;
  to.value = ir::Value();
  to.history = false;
  to.origin = nullptr;
  to.plain = to.differentiable = {};
  ++to.version;
}

}  // namespace internal

namespace {

// Reads a tensor, changes its values on the host, and writes them to `device`.
void Rewrite(const Tensor& x, const Device& device, DType dtype) {
  if (!x.defined() || (x.device() == device && x.dtype() == dtype)) return;
  absl::StatusOr<Array> values = x.cpu();
  if (values.ok()) values = values->Cast(dtype);
  if (!values.ok()) return FailThread(base::WithContext(values.status(), "Module::to"));
  internal::SetContents(x, device_data(*values, device));
  if (x.grad().defined()) {
    const Tensor moved = x.grad().to(device).to(dtype);
    Tensor(x).set_grad(moved);
  }
}

}  // namespace

Tensor MakeParameter(const Array& values) {
  const absl::StatusOr<Device> device = xm::xla_device();
  if (!device.ok()) {
    FailThread(base::WithContext(device.status(), "the device of a module's parameters"));
    return Tensor();
  }
  return device_data(values, *device);
}

// ---- Registration ----

bool Module::CheckName(const std::string& name) const {
  const auto used = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& entry) { return entry.first == name; });
  };
  const bool is_buffer = std::any_of(buffers_.begin(), buffers_.end(),
                                     [&](const Buffer& b) { return b.name == name; });
  if (!name.empty() && name.find('.') == std::string::npos && !used(parameters_) &&
      !used(modules_) && !is_buffer) {
    return true;
  }
  FailThread(absl::InvalidArgumentError(
      absl::StrCat("the name \"", name,
                   "\" of a module's member must not be empty, contain '.', "
                   "or be used twice")));
  return false;
}

Tensor Module::register_parameter(const std::string& name, Tensor tensor, bool requires_grad) {
  if (!tensor.defined() || !CheckName(name)) return tensor;
  if (!tensor.is_leaf()) {
    return FailOp("register_parameter", {tensor},
                  absl::StrCat("the parameter \"", name, "\" must be a leaf; use detach().clone()"),
                  SourceLocation());
  }
  if (requires_grad) tensor.requires_grad_();
  parameters_.emplace_back(name, tensor);
  return tensor;
}

Tensor Module::register_buffer(const std::string& name, Tensor tensor, bool persistent) {
  if (tensor.defined() && CheckName(name)) buffers_.push_back({name, tensor, persistent});
  return tensor;
}

void Module::AddModule(const std::string& name, std::shared_ptr<Module> module) {
  if (module != nullptr && CheckName(name)) modules_.emplace_back(name, std::move(module));
}

// ---- Contents ----

void Module::Collect(const std::string& prefix, bool recurse, bool buffers, bool persistent_only,
                     NamedTensors& out) const {
  if (!buffers) {
    for (const auto& [name, x] : parameters_) out.emplace_back(prefix + name, x);
  } else {
    for (const Buffer& b : buffers_) {
      if (b.persistent || !persistent_only) out.emplace_back(prefix + b.name, b.tensor);
    }
  }
  if (!recurse) return;
  for (const auto& [name, module] : modules_) {
    module->Collect(absl::StrCat(prefix, name, "."), recurse, buffers, persistent_only, out);
  }
}

NamedTensors Module::named_parameters(bool recurse) const {
  NamedTensors all, once;
  Collect("", recurse, false, false, all);
  std::set<const TensorImpl*> seen;
  for (auto& entry : all) {
    if (seen.insert(entry.second.impl().get()).second) once.push_back(std::move(entry));
  }
  return once;
}

NamedTensors Module::named_buffers(bool recurse) const {
  NamedTensors all;
  Collect("", recurse, true, false, all);
  return all;
}

Tensors Module::parameters(bool recurse) const {
  Tensors out;
  for (auto& [name, x] : named_parameters(recurse)) out.push_back(x);
  return out;
}

Tensors Module::buffers(bool recurse) const {
  Tensors out;
  for (auto& [name, x] : named_buffers(recurse)) out.push_back(x);
  return out;
}

std::vector<std::shared_ptr<Module>> Module::children() const {
  std::vector<std::shared_ptr<Module>> out;
  for (const auto& [name, module] : modules_) out.push_back(module);
  return out;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> all;
  std::set<const Module*> seen;
  apply([&](const std::string& path, Module& module) {
    if (seen.insert(&module).second) all.emplace_back(path, &module);
  });
  return all;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> all;
  for (const auto& [path, module] : named_modules()) all.push_back(module);
  return all;
}

Module* Module::get_submodule(const std::string& path) {
  Module* at = this;
  if (path.empty()) return at;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    const auto& below = at->modules_;
    const auto found = std::find_if(below.begin(), below.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (found == below.end()) {
      FailThread(absl::NotFoundError(
          absl::StrCat("get_submodule: there is no module \"", name, "\" of \"", path, "\"")));
      return nullptr;
    }
    at = found->second.get();
  }
  return at;
}

// ---- Hooks ----

namespace {

Tensors CopiesOf(const std::vector<Tensor*>& tensors) {
  Tensors values;
  for (const Tensor* x : tensors) values.push_back(*x);
  return values;
}

// What a hook returned replaces the tensors.
void ReplaceTensors(absl::string_view name, const Tensors& returned,
                    const std::vector<Tensor*>& tensors) {
  if (returned.empty()) return;
  if (returned.size() != tensors.size()) {
    FailThread(absl::InvalidArgumentError(absl::StrCat(name, ": a hook returned ", returned.size(),
                                                       " tensors instead of ", tensors.size())));
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) *tensors[i] = returned[i];
}

}  // namespace

void Module::RunForwardPreHooks(const std::vector<Tensor*>& args) {
  for (const ForwardPreHook& hook : pre_hooks_.hooks()) {
    ReplaceTensors("forward_pre_hook", hook(*this, CopiesOf(args)), args);
  }
}

void Module::RunForwardHooks(const std::vector<Tensor*>& args, const std::vector<Tensor*>& output) {
  for (const ForwardHook& hook : hooks_.hooks()) {
    ReplaceTensors("forward_hook", hook(*this, CopiesOf(args), CopiesOf(output)), output);
  }
}

void Module::apply(const std::function<void(const std::string& path, Module& module)>& fn) {
  fn("", *this);
  for (const auto& [name, module] : modules_) {
    const std::string prefix = name;
    module->apply([&](const std::string& path, Module& at) {
      fn(path.empty() ? prefix : absl::StrCat(prefix, ".", path), at);
    });
  }
}

// ---- State ----

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, module] : modules_) module->train(on);
}

void Module::to(const Device& device) {
  for (const Tensors& list : {parameters(), buffers()}) {
    for (const Tensor& x : list) Rewrite(x, device, x.dtype());
  }
}

void Module::to(DType dtype) {
  for (const Tensors& list : {parameters(), buffers()}) {
    for (const Tensor& x : list) {
      if (base::IsFloat(x.dtype())) Rewrite(x, x.device(), dtype);
    }
  }
}

void Module::zero_grad(bool set_to_none) {
  for (Tensor& x : parameters()) {
    if (!x.grad().defined()) continue;
    if (set_to_none) {
      x.set_grad(Tensor());
    } else {
      const no_grad guard;
      x.grad().detach().zero_();
    }
  }
}

void Module::requires_grad_(bool requires_grad) {
  for (Tensor& x : parameters()) x.requires_grad_(requires_grad);
}

// ---- state_dict ----

// Each module's parameters, then its buffers, then its children, as in PyTorch.
NamedTensors Module::state_dict(const std::string& prefix) const {
  NamedTensors out;
  for (const auto& [name, x] : parameters_) out.emplace_back(prefix + name, x);
  for (const Buffer& b : buffers_) {
    if (b.persistent) out.emplace_back(prefix + b.name, b.tensor);
  }
  for (const auto& [name, module] : modules_) {
    for (auto& entry : module->state_dict(absl::StrCat(prefix, name, "."))) {
      out.push_back(std::move(entry));
    }
  }
  return out;
}

absl::StatusOr<base::NamedArrays> Module::state_arrays() const {
  base::NamedArrays arrays;
  for (const auto& [name, x] : state_dict()) {
    PENSTOCK_ASSIGN_OR_RETURN(Array values, x.cpu());
    arrays.Append(name, std::move(values));
  }
  return arrays;
}

namespace {

// Keys in quotes: "a", "b".
std::string KeysText(const std::vector<std::string>& keys) {
  return absl::StrJoin(keys, ", ", [](std::string* out, const std::string& key) {
    absl::StrAppend(out, "\"", key, "\"");
  });
}

// BatchNorm in PyTorch takes a state of its first version, without this count.
bool MayBeMissing(absl::string_view key) {
  return key.substr(key.rfind('.') + 1) == "num_batches_tracked";
}

// The values as a tensor of `x` takes them. PyTorch 0.3 saved scalars as vectors of one element.
absl::StatusOr<Array> Fitted(const std::string& key, const Array& values, const Tensor& x) {
  Array fitted = values;
  if (x.dim() == 0 && values.shape() == Shape({1})) {
    PENSTOCK_ASSIGN_OR_RETURN(fitted, values.Reshape({}));
  }
  if (!(fitted.shape() == x.sizes())) {
    return absl::InvalidArgumentError(absl::StrCat("size mismatch for ", key, ": its shape is ",
                                                   values.shape().ToString(), " in state_dict and ",
                                                   x.sizes().ToString(), " in the module"));
  }
  absl::StatusOr<Array> cast = fitted.Cast(x.dtype());
  if (cast.ok()) return cast;
  return base::WithContext(cast.status(), absl::StrCat("cannot copy ", key));
}

// What a state changes in a module's tensors, and what does not fit.
struct StateChanges {
  std::vector<std::pair<Tensor, Array>> fitting;
  std::vector<std::string> errors;
  IncompatibleKeys keys;
};

StateChanges ChangesOf(const NamedTensors& tensors, const base::NamedArrays& arrays) {
  StateChanges changes;
  std::set<std::string> known;
  for (const auto& [key, x] : tensors) {
    known.insert(key);
    const Array* values = arrays.Find(key);
    if (values == nullptr) {
      if (!MayBeMissing(key)) changes.keys.missing_keys.push_back(key);
      continue;
    }
    absl::StatusOr<Array> fitted = Fitted(key, *values, x);
    if (fitted.ok()) {
      changes.fitting.emplace_back(x, *std::move(fitted));
    } else {
      changes.errors.emplace_back(fitted.status().message());
    }
  }
  for (const auto& [key, values] : arrays) {
    if (known.count(key) == 0) changes.keys.unexpected_keys.push_back(key);
  }
  return changes;
}

// The error of a state that does not fit; OK if it does.
absl::Status CheckState(const StateChanges& changes, bool strict) {
  std::vector<std::string> errors;
  const bool missing = strict && !changes.keys.missing_keys.empty(),
             unexpected = strict && !changes.keys.unexpected_keys.empty();
  if (missing) {
    errors.push_back(
        absl::StrCat("Missing key(s) in state_dict: ", KeysText(changes.keys.missing_keys)));
  }
  if (unexpected) {
    errors.push_back(
        absl::StrCat("Unexpected key(s) in state_dict: ", KeysText(changes.keys.unexpected_keys)));
  }
  errors.insert(errors.end(), changes.errors.begin(), changes.errors.end());
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "load_state_dict: ", absl::StrJoin(errors, "; "),
      missing || unexpected ? "; strict = false ignores missing and unexpected keys" : ""));
}

}  // namespace

absl::Status Module::load_state_dict(const base::NamedArrays& arrays, bool strict,
                                     IncompatibleKeys* incompatible) {
  const StateChanges changes = ChangesOf(state_dict(), arrays);
  if (incompatible != nullptr) *incompatible = changes.keys;
  PENSTOCK_RETURN_IF_ERROR(CheckState(changes, strict));
  Tensors contents;  // all transfers before the first change
  for (const auto& [x, values] : changes.fitting) {
    contents.push_back(device_data(values, x.device()));
    if (!contents.back().defined()) {
      return base::WithContext(Recorder::OfThread().TakeError(), "load_state_dict");
    }
  }
  const no_grad guard;
  for (size_t i = 0; i < contents.size(); ++i) {
    Tensor x = changes.fitting[i].first;
    if (x.impl()->is_view()) {
      x.copy_(contents[i]);
    } else {
      internal::SetContents(x, contents[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::lazy::nn
