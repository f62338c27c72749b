#include "penstock/lazy/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/lazy/nn/module.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy::optim {
namespace {

// Type in which an update is computed, and of its state: small increments of a 16-bit sum would be
// lost.
DType UpdateType(DType dtype) { return base::BitWidth(dtype) < 32 ? DType::kF32 : dtype; }

Tensor Filled(const Shape& shape, DType dtype, double value, const Device& device) {
  Array array = Array::Zeros(dtype, shape);
  if (value != 0) {
    base::VisitNumeric(dtype, [&](auto zero) {
      using T = decltype(zero);
      std::fill_n(array.mutable_data<T>(), array.num_elements(), static_cast<T>(value));
    });
  }
  return device_data(array, device);
}

}  // namespace

// ---- Update ----

ir::Value Optimizer::Update::Get(const char* name) const {
  const auto found = runtime.find(name);
  if (found != runtime.end()) return found->second;
  return ir::Splat(*param.graph(), {param.dtype(), {}}, options.at(name));
}

ir::Value Optimizer::Update::OneMinus(const char* name) const {
  const auto found = runtime.find(name);
  if (found != runtime.end()) return 1.0 - found->second;
  return ir::Splat(*param.graph(), {param.dtype(), {}}, 1 - options.at(name));
}

ir::Value Optimizer::Update::BiasCorrection(const char* name) const {
  const auto found = runtime.find(name);
  const double number = options.at(name);
  // log(0) times the step is -infinity, whose Expm1 is -1.
  const ir::Value log = found != runtime.end()
                            ? ir::Convert(ir::Log(found->second), DType::kF32)
                            : ir::Splat(*step.graph(), step.type(), std::log(number));
  return Scalar(-ir::Expm1(step * log));
}

ir::Value Optimizer::Update::Gradient() const { return Flag("maximize") ? -grad : grad; }

ir::Value Optimizer::Update::DecayedGradient() const {
  return Number("weight_decay") == 0 ? Gradient() : Gradient() + param * Get("weight_decay");
}

// ---- Groups ----

Optimizer::Optimizer(std::string name, const ParamGroups& groups, Options defaults)
    : name_(std::move(name)), defaults_(std::move(defaults)) {
  for (const ParamGroup& group : groups) add_param_group(group);
  Require(!parameters().empty(), "there are no parameters");
}

void Optimizer::Require(bool valid, absl::string_view message) const {
  if (!valid) FailThread(absl::InvalidArgumentError(absl::StrCat(name_, ": ", message)));
}

void Optimizer::add_param_group(const ParamGroup& given) {
  Group group{given.params, defaults_};
  Options options = given.options;
  if (given.lr) options["lr"] = *given.lr;
  if (given.weight_decay) options["weight_decay"] = *given.weight_decay;
  if (given.momentum) options["momentum"] = *given.momentum;
  for (const auto& [name, value] : options) {
    Require(defaults_.count(name) > 0, absl::StrCat("there is no option ", name));
    group.options[name] = value;
  }
  for (const char* name : {"lr", "weight_decay", "eps"}) {
    const auto found = group.options.find(name);
    if (found == group.options.end()) continue;
    Require(found->second >= 0, absl::StrCat(name, " must not be negative, got ", found->second));
  }
  for (const char* name : {"beta1", "beta2", "rho"}) {
    const auto found = group.options.find(name);
    if (found == group.options.end()) continue;
    Require(found->second >= 0 && found->second < 1,
            absl::StrCat(name, " must be from 0 to below 1, got ", found->second));
  }
  std::set<const TensorImpl*> seen;
  for (const Tensor& other : parameters()) seen.insert(other.impl().get());
  for (const Tensor& param : group.params) {
    if (!param.defined() || !base::IsFloat(param.dtype()) || !param.is_leaf()) {
      FailOp(name_, {param}, "can only optimize float leaf tensors", SourceLocation());
      return;
    }
    if (!seen.insert(param.impl().get()).second) {
      FailOp(name_, {param}, "the parameter appears twice; pass each one once", SourceLocation());
      return;
    }
  }
  groups_.push_back(std::move(group));
}

Tensors Optimizer::parameters() const {
  Tensors all;
  for (const Group& group : groups_) {
    all.insert(all.end(), group.params.begin(), group.params.end());
  }
  return all;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (Tensor& param : parameters()) {
    if (!param.grad().defined()) continue;
    if (set_to_none) {
      param.set_grad(Tensor());
    } else {
      const no_grad guard;
      param.grad().detach().zero_();
    }
  }
}

// ---- step ----

Optimizer::State Optimizer::MakeState(const Tensor& param, const Group& group) const {
  State state;
  const DType dtype = UpdateType(param.dtype());
  state.names = Slots(group.options);
  for (const std::string& slot : state.names) {
    state.slots.push_back(Filled(IsScalarSlot(slot) ? Shape() : param.sizes(), dtype,
                                 InitialSlot(slot, group.options), param.device()));
  }
  return state;
}

void Optimizer::FitState(State& state, const Tensor& param, const Group& group) const {
  State fitting = MakeState(param, group);
  for (size_t i = 0; i < state.names.size(); ++i) state.idle[state.names[i]] = state.slots[i];
  for (size_t i = 0; i < fitting.names.size(); ++i) {
    const auto old = state.idle.find(fitting.names[i]);
    if (old == state.idle.end()) continue;
    fitting.slots[i] = old->second;
    state.idle.erase(old);
  }
  state.names = std::move(fitting.names);
  state.slots = std::move(fitting.slots);
}

Tensors Optimizer::RuntimeOptions(const Group& group, const Device& device, DType dtype) {
  Tensors tensors;
  for (const std::string& name : group.runtime) {
    Rate& rate = rates_[{name, &group}][{device.index(), dtype}];
    const double value = group.options.at(name);
    if (!rate.tensor.defined() || rate.value != value) {
      rate = {value, scalar_tensor(value, dtype, device)};
    }
    tensors.push_back(rate.tensor);
  }
  return tensors;
}

void Optimizer::step_unless(const Tensor& skip, SourceLocation where) {
  const no_grad guard;
  for (Group& group : groups_) {
    // Parameters that share a program's scalars: the step count, the type, the device.
    std::vector<Tensors> together;
    std::map<std::tuple<const TensorImpl*, DType, int>, size_t> places;
    const std::vector<std::string> slots = Slots(group.options);
    for (const Tensor& param : group.params) {
      if (!param.grad().defined()) continue;
      const auto [state, is_new] = states_.try_emplace(param.impl().get());
      if (is_new) state->second = MakeState(param, group);
      // An option that the program has changed since (momentum) may need others.
      if (state->second.names != slots) FitState(state->second, param, group);
      const auto key =
          std::make_tuple(state->second.step.impl().get(), param.dtype(), param.device().index());
      const auto [place, is_first] = places.try_emplace(key, together.size());
      if (is_first) together.emplace_back();
      together[place->second].push_back(param);
    }
    for (const Tensors& params : together) StepTogether(group, params, skip, where);
  }
}

void Optimizer::StepTogether(Group& group, const Tensors& params, const Tensor& skip,
                             SourceLocation where) {
  const Device device = params[0].device();
  const DType dtype = UpdateType(params[0].dtype());
  const bool uses_step = UsesStep(group.options);
  Tensors inputs = RuntimeOptions(group, device, dtype);
  Tensor step = states_[params[0].impl().get()].step;
  if (uses_step && !step.defined()) step = Filled({}, DType::kF32, 0, device);
  if (uses_step) inputs.push_back(step);
  for (const Tensor& param : params) {
    inputs.push_back(param);
    inputs.push_back(param.grad());
    const Tensors& slots = states_[param.impl().get()].slots;
    inputs.insert(inputs.end(), slots.begin(), slots.end());
  }
  if (skip.defined()) inputs.push_back(skip);
  const Tensors results = RecordAll(name_, inputs, where, [&](const ir::Values& in) {
    const auto unless_skipped = [&](ir::Value before, ir::Value after) {
      return skip.defined() ? ir::Select(in.back(), before, after) : after;
    };
    size_t next = 0;
    std::map<std::string, ir::Value> runtime;
    for (const std::string& name : group.runtime) runtime[name] = in[next++];
    ir::Value count;
    ir::Values out;
    if (uses_step) {
      count = in[next] + 1.0;
      out.push_back(unless_skipped(in[next++], count));
    }
    for (const Tensor& param : params) {
      const size_t slots = states_[param.impl().get()].slots.size();
      const ir::Value value = ir::Convert(in[next], dtype), grad = ir::Convert(in[next + 1], dtype);
      next += 2;
      const ir::Values state(in.begin() + next, in.begin() + next + slots);
      next += slots;
      const Updated updated = Apply({value, grad, count, state, group.options, runtime});
      out.push_back(
          unless_skipped(in[next - 2 - slots], ir::Convert(updated.param, param.dtype())));
      for (size_t i = 0; i < slots; ++i) {
        out.push_back(unless_skipped(state[i], updated.slots[i]));
      }
    }
    return out;
  });
  if (results.empty()) return;
  size_t next = 0;
  if (uses_step) {
    Succeed(results[next], step);
    step = results[next++];
  }
  for (const Tensor& param : params) {
    State& state = states_[param.impl().get()];
    Tensor(param).copy_(results[next++], where);
    for (Tensor& slot : state.slots) slot.copy_(results[next++], where);
    state.step = step;
  }
}

// ---- state_dict ----

absl::StatusOr<base::NamedArrays> Optimizer::state_dict() const {
  base::NamedArrays arrays;
  int index = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const auto& [name, value] : groups_[g].options) {
      arrays.Append(absl::StrCat("param_groups/", g, "/", name), Array::Scalar(value));
    }
    for (const Tensor& param : groups_[g].params) {
      const std::string prefix = absl::StrCat("state/", index++, "/");
      const auto found = states_.find(param.impl().get());
      if (found == states_.end()) continue;
      if (found->second.step.defined()) {
        PENSTOCK_ASSIGN_OR_RETURN(Array step, found->second.step.cpu());
        arrays.Append(prefix + "step", std::move(step));
      }
      const State& state = found->second;
      for (size_t i = 0; i < state.names.size(); ++i) {
        PENSTOCK_ASSIGN_OR_RETURN(Array value, state.slots[i].cpu());
        arrays.Append(prefix + state.names[i], std::move(value));
      }
    }
  }
  return arrays;
}

namespace {

bool IsNumber(const Array& array) {
  return base::IsNumeric(array.dtype()) && array.num_elements() == 1;
}

// Whether a key is of one of the first `count` elements of a list.
bool IsOneOf(absl::string_view key, absl::string_view list, size_t count) {
  size_t index = 0;
  return absl::ConsumePrefix(&key, list) &&
         absl::SimpleAtoi(key.substr(0, key.find('/')), &index) && index < count;
}

absl::Status NotANumber(absl::string_view optimizer, absl::string_view key, const Array& array) {
  return absl::InvalidArgumentError(absl::StrCat(optimizer, ": ", key,
                                                 " must be one number, at least 0, and is ",
                                                 array.ToString(4), ", ", array.TypeString()));
}

}  // namespace

absl::Status Optimizer::LoadOptions(const base::NamedArrays& arrays, size_t index,
                                    Group& group) const {
  // A scheduler that is made afterwards goes on from it.
  const std::string prefix = absl::StrCat("param_groups/", index, "/");
  if (arrays.Find(prefix + "initial_lr") != nullptr) group.options.try_emplace("initial_lr", 0);
  for (auto& [name, value] : group.options) {
    const Array* found = arrays.Find(prefix + name);
    if (found == nullptr) continue;
    if (!IsNumber(*found)) return NotANumber(name_, prefix + name, *found);
    value = found->item<double>();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Optimizer::LoadState(const base::NamedArrays& arrays,
                                          const std::string& prefix, const Tensor& param,
                                          const Options& options, StepCounts& steps,
                                          State& state) const {
  size_t found = 0;
  for (size_t i = 0; i < state.names.size(); ++i) {
    const std::string key = prefix + state.names[i];
    const Array* values = arrays.Find(key);
    if (values == nullptr) continue;
    if (!(values->shape() == state.slots[i].sizes())) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ": ", key, " is ", values->TypeString(),
                                                     ", but the parameter is ", param.ToString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Array cast, values->Cast(state.slots[i].dtype()));
    state.slots[i] = device_data(cast, param.device());
    ++found;
  }
  const Array* step = arrays.Find(prefix + "step");
  if (step != nullptr && (!IsNumber(*step) || !(step->item<double>() >= 0))) {
    return NotANumber(name_, prefix + "step", *step);
  }
  const bool has_any = std::any_of(arrays.begin(), arrays.end(), [&](const auto& entry) {
    return absl::StartsWith(entry.first, prefix);
  });
  if (has_any && found < state.names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", prefix, " has ", found, " of ",
                                                   absl::StrJoin(state.names, ", "),
                                                   "; is it the state of another optimizer, or "
                                                   "was it saved with other options?"));
  }
  double count = 1;
  if (step != nullptr) {
    count = step->item<double>();
  } else if (found == 0 || !UsesStep(options)) {
    return found > 0;
  } else if (SavesStep()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": the state has moments of ", prefix, ", but no ", prefix, "step"));
  }
  Tensor& shared = steps[{param.device().index(), count}];
  if (!shared.defined()) shared = Filled({}, DType::kF32, count, param.device());
  state.step = shared;
  return true;
}

absl::Status Optimizer::load_state_dict(const base::NamedArrays& arrays) {
  size_t index = 0;
  std::map<const TensorImpl*, State> states;
  std::vector<Group> groups = groups_;
  for (size_t g = 0; g < groups.size(); ++g) {
    PENSTOCK_RETURN_IF_ERROR(LoadOptions(arrays, g, groups[g]));
    StepCounts steps;
    for (const Tensor& param : groups[g].params) {
      State state = MakeState(param, groups[g]);
      PENSTOCK_ASSIGN_OR_RETURN(const bool any,
                                LoadState(arrays, absl::StrCat("state/", index++, "/"), param,
                                          groups[g].options, steps, state));
      if (any) states[param.impl().get()] = std::move(state);
    }
  }
  for (const auto& [key, array] : arrays) {
    if (IsOneOf(key, "state/", index) || IsOneOf(key, "param_groups/", groups.size())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": '", key, "' is not of one of its ", index,
                     " parameters (state/0/...) or ", groups.size(),
                     " groups (param_groups/0/...); is it the state of another optimizer, or of "
                     "a model?"));
  }
  groups_ = std::move(groups);
  states_ = std::move(states);
  return absl::OkStatus();
}

}  // namespace penstock::lazy::optim
