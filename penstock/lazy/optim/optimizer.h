// Optimizer: what all classes of torch.optim share: groups of parameters, state, step. The catalog
// of classes, and an example, is optimizers.h.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/lazy/ops.h"

namespace penstock::lazy::optim {

// Options of a group of parameters by PyTorch's names: "lr", "momentum", ... Flags are 0 or 1;
// betas are "beta1" and "beta2".
using Options = std::map<std::string, double>;

// Parameters with options of their own; those not given are the optimizer's.
struct ParamGroup {
  Tensors params = {};
  std::optional<double> lr = {}, weight_decay = {}, momentum = {};
  Options options = {};  // others by name
};
using ParamGroups = std::vector<ParamGroup>;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  struct Group {
    Tensors params;
    Options options;
    // Options that change from step to step: inputs of the step's program instead of constants in
    // it. Schedulers add to it.
    std::set<std::string> runtime = {"lr"};
  };
  std::vector<Group>& param_groups() { return groups_; }
  const std::vector<Group>& param_groups() const { return groups_; }
  Tensors parameters() const;  // of all groups
  void add_param_group(const ParamGroup& group);

  // Records the update of all parameters that have a gradient.
  void step(SourceLocation where = SourceLocation::Current()) { step_unless(Tensor(), where); }
  // The same, unless `skip`, a bool scalar on the parameters' device, is true (amp::GradScaler):
  // then parameters, state and step counts stay.
  void step_unless(const Tensor& skip, SourceLocation where = SourceLocation::Current());
  // Drops the gradients, or with set_to_none = false fills them with zeros.
  void zero_grad(bool set_to_none = true);

  // The state: "state/<parameter>/<slot>", parameters counted over all groups, as save::ReadWeights
  // returns the state_dict of PyTorch's optimizer; and the options, which PyTorch's files have as
  // metadata: "param_groups/<group>/<option>", f64 scalars.
  absl::StatusOr<base::NamedArrays> state_dict() const;
  // Sets the state, and those options that `state` has. INVALID_ARGUMENT, and nothing is set, for the
  // state of other parameters or groups, and for one that lacks a part: a moment, the step count.
  absl::Status load_state_dict(const base::NamedArrays& state);

 protected:
  Optimizer(std::string name, const ParamGroups& groups, Options defaults);

  // Inputs of the update of one parameter, of its type (float32 for 16-bit parameters).
  struct Update {
    ir::Value param, grad;
    ir::Value step;  // f32 scalar, 1 in the first update; invalid unless UsesStep
    ir::Values slots;
    const Options& options;
    const std::map<std::string, ir::Value>& runtime;

    bool Flag(const char* name) const { return options.at(name) != 0; }
    double Number(const char* name) const { return options.at(name); }
    // Scalars of the parameter's type.
    ir::Value Get(const char* name) const;       // the option
    ir::Value OneMinus(const char* name) const;  // 1 - the option
    ir::Value Scalar(ir::Value x) const { return ir::Convert(x, param.dtype()); }
    // 1 - option^step, accurate for options close to 1.
    ir::Value BiasCorrection(const char* name) const;
    // The gradient, negated to maximize, plus weight_decay times the parameter.
    ir::Value DecayedGradient() const;
    ir::Value Gradient() const;  // without the decay
  };
  struct Updated {
    ir::Value param;
    ir::Values slots;
  };
  // PyTorch's names of a parameter's state, without "step".
  virtual std::vector<std::string> Slots(const Options& options) const = 0;
  virtual bool UsesStep(const Options& /*options*/) const { return true; }
  // Whether PyTorch's files have the step count.
  virtual bool SavesStep() const { return true; }
  virtual bool IsScalarSlot(const std::string& /*slot*/) const { return false; }
  virtual double InitialSlot(const std::string& /*slot*/, const Options& /*options*/) const {
    return 0;
  }
  virtual Updated Apply(const Update& in) const = 0;

  void Require(bool valid, absl::string_view message) const;  // an error of the thread unless valid

 private:
  struct State {
    std::vector<std::string> names;  // of the slots
    Tensors slots;
    std::map<std::string, Tensor> idle = {};  // slots that the options do not need now
    Tensor step;  // f32 scalar: number of updates; shared by parameters updated together
  };
  struct Rate {
    double value;
    Tensor tensor;
  };
  void StepTogether(Group& group, const Tensors& params, const Tensor& skip, SourceLocation where);
  State MakeState(const Tensor& param, const Group& group) const;
  // Gives the state the slots that the group's options need now; slots of the same names stay.
  void FitState(State& state, const Tensor& param, const Group& group) const;
  // Parts of load_state_dict. LoadState: whether `arrays` has a part of the parameter's state.
  absl::Status LoadOptions(const base::NamedArrays& arrays, size_t index, Group& group) const;
  using StepCounts = std::map<std::pair<int, double>, Tensor>;  // by device and count
  absl::StatusOr<bool> LoadState(const base::NamedArrays& arrays, const std::string& prefix,
                                 const Tensor& param, const Options& options, StepCounts& steps,
                                 State& state) const;
  // The runtime options' tensors; nothing is transferred as long as an option stays the same.
  Tensors RuntimeOptions(const Group& group, const Device& device, DType dtype);

  const std::string name_;
  const Options defaults_;
  std::vector<Group> groups_;
  std::map<const TensorImpl*, State> states_;
  std::map<std::pair<std::string, const Group*>, std::map<std::pair<int, DType>, Rate>> rates_;
};

}  // namespace penstock::lazy::optim
