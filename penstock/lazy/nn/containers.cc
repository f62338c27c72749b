#include "penstock/lazy/nn/containers.h"

#include "absl/strings/str_cat.h"

#include "penstock/lazy/record.h"

namespace penstock::lazy::nn {
namespace {

// What a list returns for a place that it does not have; forward_ is empty.
const AnyModule& NoModule() {
  static const AnyModule* const kNone = new AnyModule(std::shared_ptr<Module>());
  return *kNone;
}

}  // namespace

Tensor AnyModule::operator()(const Tensor& x, SourceLocation where) const {
  if (forward_ == nullptr || module_ == nullptr) {
    return FailOp("forward", {x}, "the module has no forward(Tensor)", where);
  }
  if (!module_->has_forward_hooks()) return forward_(x, where);
  Tensor given = x;
  module_->RunForwardPreHooks({&given});
  Tensor made = forward_(given, where);
  module_->RunForwardHooks({&given}, {&made});
  return made;
}

ModuleListImpl::ModuleListImpl(std::initializer_list<AnyModule> modules) {
  for (const AnyModule& module : modules) push_back(module);
}
ModuleListImpl::ModuleListImpl(std::initializer_list<NamedModule> modules) {
  for (const auto& [name, module] : modules) push_back(name, module);
}

void ModuleListImpl::push_back(const AnyModule& module) {
  push_back(absl::StrCat(list_.size()), module);
}
void ModuleListImpl::push_back(const std::string& name, const AnyModule& module) {
  if (module.ptr() == nullptr) {
    FailThread(
        absl::InvalidArgumentError(absl::StrCat("module \"", name, "\" is empty (nullptr)")));
    return;
  }
  register_module(name, module);
  list_.push_back(module);
}

const AnyModule& ModuleListImpl::operator[](size_t i) const {
  if (i < list_.size()) return list_[i];
  FailThread(absl::InvalidArgumentError(
      absl::StrCat("there is no module ", i, " in a list of ", list_.size())));
  return NoModule();
}

const AnyModule& ModuleListImpl::operator[](absl::string_view name) const {
  for (size_t i = 0; i < named_children().size(); ++i) {
    if (named_children()[i].first == name) return list_[i];
  }
  FailThread(absl::InvalidArgumentError(absl::StrCat("there is no module named \"", name, "\"")));
  return NoModule();
}

ParameterListImpl::ParameterListImpl(const Tensors& parameters) { extend(parameters); }
void ParameterListImpl::append(const Tensor& parameter) {
  list_.push_back(register_parameter(absl::StrCat(list_.size()), parameter));
}
void ParameterListImpl::extend(const Tensors& parameters) {
  for (const Tensor& parameter : parameters) append(parameter);
}
Tensor ParameterListImpl::operator[](size_t i) const {
  if (i < list_.size()) return list_[i];
  FailThread(absl::InvalidArgumentError(
      absl::StrCat("there is no parameter ", i, " in a list of ", list_.size())));
  return Tensor();
}

Tensor SequentialImpl::forward(Tensor x, SourceLocation where) {
  for (const AnyModule& module : *this) x = module(x, where);
  return x;
}

}  // namespace penstock::lazy::nn
