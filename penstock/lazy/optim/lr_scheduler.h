// torch.optim.lr_scheduler: learning rates by step. Names, defaults and formulas are PyTorch's;
// step() is called after the optimizer's step (or once an epoch). The rates are computed on the
// host in float64, and reach the device as an input of the next step's program.
//
//   torch::optim::lr_scheduler::OneCycleLR scheduler(optimizer, 0.1, {.total_steps = 1000});
//   ...
//   optimizer.step();
//   scheduler.step();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/lazy/optim/optimizer.h"

namespace penstock::lazy::optim::lr_scheduler {

// Refers to the optimizer, which outlives it.
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  virtual void step();
  // The rates of all groups.
  std::vector<double> get_last_lr() const;
  int64_t last_epoch() const { return last_epoch_; }

  // For checkpoints: the number of steps and the initial rates; the rates themselves are in the
  // optimizer's state_dict. An invalid state is an error and changes nothing.
  virtual base::NamedArrays state_dict() const;
  virtual absl::Status load_state_dict(const base::NamedArrays& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  // The rate of group `i`, whose rate is `lr` now, at last_epoch().
  virtual double Rate(size_t i, double lr) const = 0;
  // The same from last_epoch() alone, for step(0) of SequentialLR.
  virtual double RateFromStart(size_t i) const { return Rate(i, base_lrs_[i]); }
  void Begin();  // PyTorch's initial step; the constructors of the classes call it
  virtual void SetEpoch(int64_t epoch) { last_epoch_ = epoch; }
  void Require(bool valid, absl::string_view message) const;
  // cycle_momentum: the scheduler sets the group's momentum (Adam's first beta), which it must have.
  void CycleMomentum(Optimizer::Group& group) const;
  void SetGroupMomentum(double momentum);  // of all groups

  Optimizer& optimizer_;
  std::vector<double> base_lrs_;
  int64_t last_epoch_ = -1;

 private:
  friend class SequentialLR;
  void StepFromStart();  // step(0)
};

class LambdaLR : public LRScheduler {
 public:
  // rate = base * factor(epoch).
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t epoch)> factor);

 protected:
  double Rate(size_t i, double lr) const override;

 private:
  std::function<double(int64_t)> factor_;
};

// rate = rate * factor(epoch), from epoch 1 on.
class MultiplicativeLR : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, std::function<double(int64_t epoch)> factor);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  std::function<double(int64_t)> factor_;
};

class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const int64_t step_size_;
  const double gamma_;
};

class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const std::vector<int64_t> milestones_;
  const double gamma_;
};

class ConstantLR : public LRScheduler {
 public:
  ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const double factor_;
  const int64_t total_iters_;
};

class LinearLR : public LRScheduler {
 public:
  LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
           int64_t total_iters = 5);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const double start_, end_;
  const int64_t total_iters_;
};

class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const double gamma_;
};

class PolynomialLR : public LRScheduler {
 public:
  PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const int64_t total_iters_;
  const double power_;
};

class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t T_max, double eta_min = 0);

 protected:
  double Rate(size_t i, double lr) const override;
  double RateFromStart(size_t i) const override;

 private:
  const int64_t t_max_;
  const double eta_min_;
};

class CosineAnnealingWarmRestarts : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t T_0, int64_t T_mult = 1,
                              double eta_min = 0);

 protected:
  double Rate(size_t i, double lr) const override;

 private:
  const int64_t t_0_, t_mult_;
  const double eta_min_;
};

struct OneCycleOptions {
  int64_t total_steps = 0;                  // or:
  int64_t epochs = 0, steps_per_epoch = 0;  // their product
  double pct_start = 0.3;
  std::string anneal_strategy = "cos";  // or "linear"
  // Cycles the momentum (or beta1) against the rate.
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
// Smith and Topin: Super-convergence, 2018.
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, double max_lr, const OneCycleOptions& options);
  void step() override;

 protected:
  double Rate(size_t i, double lr) const override;

 private:
  struct Phase {
    double end;
    double start_lr, end_lr, start_momentum, end_momentum;
  };
  double At(bool momentum) const;
  void SetMomentum();

  OneCycleOptions options_;
  std::vector<Phase> phases_;
};

struct CyclicOptions {
  int64_t step_size_up = 2000;
  std::optional<int64_t> step_size_down = {};          // default: step_size_up
  std::string mode = "triangular";                     // or "triangular2", "exp_range"
  double gamma = 1;                                    // of exp_range: gamma^steps
  std::function<double(double x)> scale_fn = nullptr;  // instead of the mode's
  std::string scale_mode = "cycle";                    // of scale_fn's x; or "iterations"
  // Cycles the momentum (or beta1) against the rate.
  bool cycle_momentum = true;
  double base_momentum = 0.8, max_momentum = 0.9;
};
// Smith: Cyclical learning rates for training neural networks, 2017.
class CyclicLR : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, double base_lr, double max_lr, const CyclicOptions& options = {});
  void step() override;

 protected:
  double Rate(size_t i, double lr) const override;

 private:
  double Share() const;  // of max_lr - base_lr at last_epoch()
  void SetMomentum();

  const double base_lr_, max_lr_;
  CyclicOptions options_;
};

struct PlateauOptions {
  std::string mode = "min";  // or "max"
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";  // or "abs"
  int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;
};
class ReduceLROnPlateau {
 public:
  // For checkpoints; an invalid state is an error and changes nothing.
  base::NamedArrays state_dict() const;
  absl::Status load_state_dict(const base::NamedArrays& state);
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  void step(double metric);
  std::vector<double> get_last_lr() const;

 private:
  bool IsBetter(double metric) const;

  Optimizer& optimizer_;
  const PlateauOptions options_;
  double best_;
  int64_t bad_epochs_ = 0, cooldown_ = 0;
};

// schedulers[i] from milestones[i - 1] to milestones[i]: a warmup, then another schedule.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
               std::vector<int64_t> milestones);
  void step() override;
  // With the states of the schedulers, as "schedulers/0/last_epoch".
  base::NamedArrays state_dict() const override;
  absl::Status load_state_dict(const base::NamedArrays& state) override;

 protected:
  double Rate(size_t, double lr) const override { return lr; }

 private:
  absl::Status Load(const base::NamedArrays& state);

  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
  std::vector<int64_t> milestones_;
};

// All of the schedulers, each of which changes what the ones before it made of the rate.
class ChainedScheduler {
 public:
  explicit ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers);
  void step();
  std::vector<double> get_last_lr() const;
  // The states of the schedulers, as "schedulers/0/last_epoch".
  base::NamedArrays state_dict() const;
  absl::Status load_state_dict(const base::NamedArrays& state);

 private:
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
};

}  // namespace penstock::lazy::optim::lr_scheduler
