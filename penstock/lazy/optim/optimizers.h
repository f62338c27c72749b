// torch.optim: the optimizers. Formulas, defaults and names of state are PyTorch's (not Keras's);
// https://pytorch.org/docs/stable/optim.html specifies each.
//
//   torch::optim::SGD optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.9});
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.step();                       // or xm::optimizer_step(optimizer)
//
//   // Parameter groups with options of their own:
//   torch::optim::AdamW adamw({{.params = kernels}, {.params = biases, .weight_decay = 0}},
//                             {.lr = 3e-4});
//
// The learning rate is an input of the step's program, so that a scheduler that changes it does not
// compile another one; the other options are constants of the program. State (momenta, step counts)
// stays on the device. A parameter without a gradient is not changed. zero_grad() drops gradients
// (set_to_none, the default since PyTorch 2.0). 16-bit parameters have float32 state.
#pragma once

#include <utility>

#include "penstock/lazy/optim/optimizer.h"

namespace penstock::lazy::optim {

using Betas = std::pair<double, double>;

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
class SGD : public Optimizer {
 public:
  SGD(const Tensors& params, const SGDOptions& options = {})
      : SGD(ParamGroups{ParamGroup{params}}, options) {}
  SGD(const ParamGroups& groups, const SGDOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  bool UsesStep(const Options& options) const override;
  bool SavesStep() const override { return false; }
  Updated Apply(const Update& in) const override;
};

struct AdamOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
};
class Adam : public Optimizer {
 public:
  Adam(const Tensors& params, const AdamOptions& options = {})
      : Adam(ParamGroups{ParamGroup{params}}, options) {}
  Adam(const ParamGroups& groups, const AdamOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  Updated Apply(const Update& in) const override;
};

// Decoupled weight decay (Loshchilov and Hutter 2017).
struct AdamWOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false;
};
class AdamW : public Optimizer {
 public:
  AdamW(const Tensors& params, const AdamWOptions& options = {})
      : AdamW(ParamGroups{ParamGroup{params}}, options) {}
  AdamW(const ParamGroups& groups, const AdamWOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  Updated Apply(const Update& in) const override;
};

struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false;
};
class Adamax : public Optimizer {
 public:
  Adamax(const Tensors& params, const AdamaxOptions& options = {})
      : Adamax(ParamGroups{ParamGroup{params}}, options) {}
  Adamax(const ParamGroups& groups, const AdamaxOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  Updated Apply(const Update& in) const override;
};

struct NAdamOptions {
  double lr = 2e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
};
class NAdam : public Optimizer {
 public:
  NAdam(const Tensors& params, const NAdamOptions& options = {})
      : NAdam(ParamGroups{ParamGroup{params}}, options) {}
  NAdam(const ParamGroups& groups, const NAdamOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  bool IsScalarSlot(const std::string& slot) const override { return slot == "mu_product"; }
  double InitialSlot(const std::string& slot, const Options&) const override {
    return slot == "mu_product" ? 1 : 0;
  }
  Updated Apply(const Update& in) const override;
};

struct RAdamOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
};
class RAdam : public Optimizer {
 public:
  RAdam(const Tensors& params, const RAdamOptions& options = {})
      : RAdam(ParamGroups{ParamGroup{params}}, options) {}
  RAdam(const ParamGroups& groups, const RAdamOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  Updated Apply(const Update& in) const override;
};

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
class Adagrad : public Optimizer {
 public:
  Adagrad(const Tensors& params, const AdagradOptions& options = {})
      : Adagrad(ParamGroups{ParamGroup{params}}, options) {}
  Adagrad(const ParamGroups& groups, const AdagradOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  double InitialSlot(const std::string& slot, const Options& options) const override;
  Updated Apply(const Update& in) const override;
};

struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false;
};
class Adadelta : public Optimizer {
 public:
  Adadelta(const Tensors& params, const AdadeltaOptions& options = {})
      : Adadelta(ParamGroups{ParamGroup{params}}, options) {}
  Adadelta(const ParamGroups& groups, const AdadeltaOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  bool UsesStep(const Options&) const override { return false; }
  Updated Apply(const Update& in) const override;
};

struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false;
};
class RMSprop : public Optimizer {
 public:
  RMSprop(const Tensors& params, const RMSpropOptions& options = {})
      : RMSprop(ParamGroups{ParamGroup{params}}, options) {}
  RMSprop(const ParamGroups& groups, const RMSpropOptions& options = {});

 protected:
  std::vector<std::string> Slots(const Options& options) const override;
  bool UsesStep(const Options&) const override { return false; }
  Updated Apply(const Update& in) const override;
};

}  // namespace penstock::lazy::optim
