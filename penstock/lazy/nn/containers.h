// Sequential, ModuleList, ModuleDict, ParameterList.
//
//   auto model = nn::Sequential({nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 3)});
//   auto named = nn::Sequential({{"hidden", nn::Linear(4, 16)}, {"out", nn::Linear(16, 3)}});
//   y = model(x);
#pragma once

#include <initializer_list>

#include "penstock/lazy/nn/module.h"

namespace penstock::lazy::nn {

// Any module, callable with one tensor if its forward is.
class AnyModule {
 public:
  template <typename Impl>
  AnyModule(ModuleHolder<Impl> holder)  // NOLINT(google-explicit-constructor)
      : AnyModule(holder.ptr()) {}
  template <typename M>
  requires std::derived_from<M, Module> AnyModule(
      std::shared_ptr<M> module)  // NOLINT(google-explicit-constructor)
      : module_(module) {
    if constexpr (requires(Tensor x, SourceLocation at) { Tensor(module->forward(x, at)); }) {
      forward_ = [m = module.get()](const Tensor& x, SourceLocation at) {
        return m->forward(x, at);
      };
    } else if constexpr (requires(Tensor x) { Tensor(module->forward(x)); }) {
      forward_ = [m = module.get()](const Tensor& x, SourceLocation) { return m->forward(x); };
    }
  }

  const std::shared_ptr<Module>& ptr() const { return module_; }
  template <typename M>
  M* as() const {
    return dynamic_cast<M*>(module_.get());  // null if it is another class
  }
  Tensor operator()(const Tensor& x, SourceLocation where = SourceLocation::Current()) const;

 private:
  std::shared_ptr<Module> module_;
  std::function<Tensor(const Tensor& x, SourceLocation where)> forward_;
};
using NamedModule = std::pair<std::string, AnyModule>;

// Modules in order, under names; by default their places, "0", "1", ...
class ModuleListImpl : public Module {
 public:
  ModuleListImpl(std::initializer_list<AnyModule> modules = {});
  ModuleListImpl(std::initializer_list<NamedModule> modules);
  void push_back(const AnyModule& module);
  void push_back(const std::string& name, const AnyModule& module);
  void append(const AnyModule& module) { push_back(module); }
  template <typename List>
  void extend(const List& modules) {
    for (const auto& module : modules) push_back(module);
  }
  size_t size() const { return list_.size(); }
  // The module at that place (from the front) or of that name; an error of the thread and an empty
  // one if there is none.
  const AnyModule& operator[](size_t i) const;
  const AnyModule& operator[](absl::string_view name) const;
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  std::vector<AnyModule> list_;
};
class ModuleList : public ModuleHolder<ModuleListImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit ModuleList(std::initializer_list<AnyModule> modules = {})
      : ModuleHolder(std::make_shared<ModuleListImpl>(modules)) {}
  const AnyModule& operator[](size_t i) const { return (**this)[i]; }
  auto begin() const { return (**this).begin(); }
  auto end() const { return (**this).end(); }
};
class ModuleDict : public ModuleHolder<ModuleListImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit ModuleDict(std::initializer_list<NamedModule> modules)
      : ModuleHolder(std::make_shared<ModuleListImpl>(modules)) {}
  const AnyModule& operator[](absl::string_view name) const { return (**this)[name]; }
};

// Parameters under their places, "0", "1", ...
class ParameterListImpl : public Module {
 public:
  ParameterListImpl(const Tensors& parameters = {});
  void append(const Tensor& parameter);
  void extend(const Tensors& parameters);
  size_t size() const { return list_.size(); }
  // An error of the thread and an undefined tensor if there is none at that place.
  Tensor operator[](size_t i) const;
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  Tensors list_;
};
class ParameterList : public ModuleHolder<ParameterListImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit ParameterList(const Tensors& parameters = {})
      : ModuleHolder(std::make_shared<ParameterListImpl>(parameters)) {}
  Tensor operator[](size_t i) const { return (**this)[i]; }
  auto begin() const { return (**this).begin(); }
  auto end() const { return (**this).end(); }
};

class SequentialImpl : public ModuleListImpl {
 public:
  using ModuleListImpl::ModuleListImpl;
  Tensor forward(Tensor x, SourceLocation where = SourceLocation::Current());
};
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit Sequential(std::initializer_list<AnyModule> modules = {})
      : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
  explicit Sequential(std::initializer_list<NamedModule> modules)
      : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
  const AnyModule& operator[](size_t i) const { return (**this)[i]; }
};

}  // namespace penstock::lazy::nn
