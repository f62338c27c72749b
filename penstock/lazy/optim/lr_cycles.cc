// Cyclic and composed schedulers.
#include <cmath>

#include "penstock/lazy/optim/lr_scheduler.h"
#include "penstock/lazy/optim/state_parts.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy::optim::lr_scheduler {

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  Begin();
}
double MultiplicativeLR::Rate(size_t, double lr) const {
  return last_epoch_ > 0 ? lr * factor_(last_epoch_) : lr;
}
// The rate as it is: there is no formula for it.
double MultiplicativeLR::RateFromStart(size_t i) const {
  return optimizer_.param_groups()[i].options.at("lr");
}

// ---- CyclicLR ----

CyclicLR::CyclicLR(Optimizer& optimizer, double base_lr, double max_lr,
                   const CyclicOptions& options)
    : LRScheduler(optimizer), base_lr_(base_lr), max_lr_(max_lr), options_(options) {
  Require(options.step_size_up > 0 && options.step_size_down.value_or(1) > 0,
          "step_size_up and step_size_down must be above 0");
  Require(options.scale_fn != nullptr || options.mode == "triangular" ||
              options.mode == "triangular2" || options.mode == "exp_range",
          "mode must be \"triangular\", \"triangular2\" or \"exp_range\"");
  Require(options.scale_mode == "cycle" || options.scale_mode == "iterations",
          "scale_mode must be \"cycle\" or \"iterations\"");
  options_.step_size_up = std::max<int64_t>(options_.step_size_up, 1);
  for (size_t i = 0; i < base_lrs_.size(); ++i) {
    Optimizer::Group& group = optimizer.param_groups()[i];
    group.options["lr"] = group.options["initial_lr"] = base_lrs_[i] = base_lr;
    if (!options.cycle_momentum) continue;
    CycleMomentum(group);
  }
  Begin();
  SetMomentum();
}

double CyclicLR::Share() const {
  const auto up = static_cast<double>(options_.step_size_up),
             down = static_cast<double>(
                 std::max<int64_t>(options_.step_size_down.value_or(options_.step_size_up), 1));
  const double total = up + down, step = static_cast<double>(last_epoch_);
  const double cycle = std::floor(1 + step / total), x = 1 + step / total - cycle;
  const double rising = up / total;
  const double height = x <= rising ? x / rising : (x - 1) / (rising - 1);
  double scale = 1;
  if (options_.scale_fn != nullptr) {
    scale = options_.scale_fn(options_.scale_mode == "cycle" ? cycle : step);
  } else if (options_.mode == "triangular2") {
    scale = 1 / std::pow(2, cycle - 1);
  } else if (options_.mode == "exp_range") {
    scale = std::pow(options_.gamma, step);
  }
  return height * scale;
}

double CyclicLR::Rate(size_t, double) const { return base_lr_ + (max_lr_ - base_lr_) * Share(); }

void CyclicLR::SetMomentum() {
  if (!options_.cycle_momentum) return;
  SetGroupMomentum(options_.max_momentum -
                   (options_.max_momentum - options_.base_momentum) * Share());
}

void CyclicLR::step() {
  LRScheduler::step();
  SetMomentum();
}

// ---- ChainedScheduler ----

ChainedScheduler::ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers)
    : schedulers_(std::move(schedulers)) {
  if (!schedulers_.empty()) return;
  FailThread(absl::InvalidArgumentError("lr_scheduler: ChainedScheduler needs schedulers"));
}

void ChainedScheduler::step() {
  for (const auto& scheduler : schedulers_) scheduler->step();
}

std::vector<double> ChainedScheduler::get_last_lr() const {
  return schedulers_.empty() ? std::vector<double>() : schedulers_.back()->get_last_lr();
}

base::NamedArrays ChainedScheduler::state_dict() const {
  base::NamedArrays state;
  AppendStates(schedulers_, state);
  return state;
}

absl::Status ChainedScheduler::load_state_dict(const base::NamedArrays& state) {
  return LoadStates(schedulers_, state);
}

}  // namespace penstock::lazy::optim::lr_scheduler
