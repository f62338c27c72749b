#include "penstock/lazy/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/lazy/optim/state_parts.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy::optim::lr_scheduler {
namespace {

double Cosine(double start, double end, double share) {
  return end + (start - end) / 2 * (std::cos(M_PI * share) + 1);
}

// A number of steps, which counts from -1.
absl::StatusOr<int64_t> CountIn(const base::NamedArrays& state, absl::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(const double count, NumberIn("lr_scheduler", state, name));
  if (!(count >= -1 && count < 9e15) || count != std::floor(count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lr_scheduler: ", name, " is ", count, ", not a number of steps"));
  }
  return static_cast<int64_t>(count);
}

}  // namespace

// ---- LRScheduler ----

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (Optimizer::Group& group : optimizer.param_groups()) {
    group.options.try_emplace("initial_lr", group.options.at("lr"));
    base_lrs_.push_back(group.options.at("initial_lr"));
  }
}

void LRScheduler::Require(bool valid, absl::string_view message) const {
  if (!valid) FailThread(absl::InvalidArgumentError(absl::StrCat("lr_scheduler: ", message)));
}

namespace {

const char* MomentumOf(const Optimizer::Group& group) {
  return group.options.count("beta1") > 0 ? "beta1" : "momentum";
}

}  // namespace

void LRScheduler::CycleMomentum(Optimizer::Group& group) const {
  const char* const name = MomentumOf(group);
  Require(group.options.count(name) > 0, "cycle_momentum needs an optimizer with momentum");
  group.runtime.insert(name);
}

void LRScheduler::SetGroupMomentum(double momentum) {
  for (Optimizer::Group& group : optimizer_.param_groups()) {
    group.options[MomentumOf(group)] = momentum;
  }
}

void LRScheduler::Begin() { LRScheduler::step(); }

void LRScheduler::step() {
  SetEpoch(last_epoch_ + 1);
  auto& groups = optimizer_.param_groups();
  for (size_t i = 0; i < base_lrs_.size() && i < groups.size(); ++i) {
    double& lr = groups[i].options["lr"];
    lr = Rate(i, lr);
  }
}

void LRScheduler::StepFromStart() {
  SetEpoch(0);
  auto& groups = optimizer_.param_groups();
  for (size_t i = 0; i < base_lrs_.size() && i < groups.size(); ++i) {
    groups[i].options["lr"] = RateFromStart(i);
  }
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (const Optimizer::Group& group : optimizer_.param_groups()) {
    rates.push_back(group.options.at("lr"));
  }
  return rates;
}

base::NamedArrays LRScheduler::state_dict() const {
  const Shape groups({static_cast<int64_t>(base_lrs_.size())});
  return {{"last_epoch", Array::Scalar<int64_t>(last_epoch_)},
          {"base_lrs", Array::Of<double>(groups, absl::MakeConstSpan(base_lrs_))}};
}

absl::Status LRScheduler::load_state_dict(const base::NamedArrays& state) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t epoch, CountIn(state, "last_epoch"));
  // Checkpoints of earlier versions have no base_lrs.
  if (const Array* rates = state.Find("base_lrs"); rates != nullptr) {
    if (!base::IsNumeric(rates->dtype()) ||
        rates->num_elements() != static_cast<int64_t>(base_lrs_.size())) {
      return absl::InvalidArgumentError(absl::StrCat("lr_scheduler: base_lrs is ",
                                                     rates->TypeString(), ", but there are ",
                                                     base_lrs_.size(), " parameter groups"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Array wide, rates->Cast(DType::kF64));
    const auto values = wide.values<double>();
    base_lrs_.assign(values.begin(), values.end());
  }
  last_epoch_ = epoch;
  return absl::OkStatus();
}

// ---- Products with constant factors ----

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  Begin();
}
double LambdaLR::Rate(size_t i, double) const { return base_lrs_[i] * factor_(last_epoch_); }

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(std::max<int64_t>(step_size, 1)), gamma_(gamma) {
  Require(step_size > 0, absl::StrCat("step_size must be above 0, got ", step_size));
  Begin();
}
double StepLR::Rate(size_t, double lr) const {
  return last_epoch_ == 0 || last_epoch_ % step_size_ != 0 ? lr : lr * gamma_;
}
double StepLR::RateFromStart(size_t i) const {
  return base_lrs_[i] * std::pow(gamma_, static_cast<double>(last_epoch_ / step_size_));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  Begin();
}
double MultiStepLR::Rate(size_t, double lr) const {
  const auto times = std::count(milestones_.begin(), milestones_.end(), last_epoch_);
  return times == 0 ? lr : lr * std::pow(gamma_, static_cast<double>(times));
}
double MultiStepLR::RateFromStart(size_t i) const {
  const auto passed = std::count_if(milestones_.begin(), milestones_.end(),
                                    [&](int64_t at) { return at <= last_epoch_; });
  return base_lrs_[i] * std::pow(gamma_, static_cast<double>(passed));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
  Begin();
}
double ExponentialLR::Rate(size_t, double lr) const { return last_epoch_ == 0 ? lr : lr * gamma_; }
double ExponentialLR::RateFromStart(size_t i) const {
  return base_lrs_[i] * std::pow(gamma_, static_cast<double>(last_epoch_));
}

// ---- Warmup ----

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LRScheduler(optimizer), factor_(factor), total_iters_(total_iters) {
  Require(factor > 0 && factor <= 1, "factor must be above 0 and at most 1");
  Begin();
}
double ConstantLR::Rate(size_t, double lr) const {
  if (last_epoch_ == 0) return lr * factor_;
  return last_epoch_ == total_iters_ ? lr / factor_ : lr;
}
double ConstantLR::RateFromStart(size_t i) const {
  return base_lrs_[i] * (last_epoch_ >= total_iters_ ? 1 : factor_);
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   int64_t total_iters)
    : LRScheduler(optimizer), start_(start_factor), end_(end_factor), total_iters_(total_iters) {
  Require(start_factor > 0 && start_factor <= 1, "start_factor must be above 0 and at most 1");
  Require(end_factor >= 0 && end_factor <= 1, "end_factor must be from 0 to 1");
  Begin();
}
double LinearLR::Rate(size_t, double lr) const {
  if (last_epoch_ == 0) return lr * start_;
  if (last_epoch_ > total_iters_) return lr;
  const auto total = static_cast<double>(total_iters_),
             before = static_cast<double>(last_epoch_ - 1);
  return lr * (1 + (end_ - start_) / (total * start_ + before * (end_ - start_)));
}
double LinearLR::RateFromStart(size_t i) const {
  const double done = static_cast<double>(std::min(total_iters_, last_epoch_));
  if (total_iters_ <= 0) return base_lrs_[i] * start_;
  return base_lrs_[i] * (start_ + (end_ - start_) * done / static_cast<double>(total_iters_));
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : LRScheduler(optimizer), total_iters_(std::max<int64_t>(total_iters, 1)), power_(power) {
  Require(total_iters > 0, "total_iters must be above 0");
  Begin();
}
double PolynomialLR::Rate(size_t, double lr) const {
  if (last_epoch_ == 0 || last_epoch_ > total_iters_) return lr;
  const auto total = static_cast<double>(total_iters_), at = static_cast<double>(last_epoch_);
  return lr * std::pow((1 - at / total) / (1 - (at - 1) / total), power_);
}
double PolynomialLR::RateFromStart(size_t i) const {
  const double done = static_cast<double>(std::min(total_iters_, last_epoch_));
  return base_lrs_[i] * std::pow(1 - done / static_cast<double>(total_iters_), power_);
}

// ---- Cosine ----

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t T_max, double eta_min)
    : LRScheduler(optimizer), t_max_(std::max<int64_t>(T_max, 1)), eta_min_(eta_min) {
  Require(T_max > 0, absl::StrCat("T_max must be above 0, got ", T_max));
  Begin();
}
// PyTorch's recursion, which keeps what a program changed the rate to.
double CosineAnnealingLR::Rate(size_t i, double lr) const {
  const auto total = static_cast<double>(t_max_), at = static_cast<double>(last_epoch_);
  if (last_epoch_ == 0) return lr;
  if ((last_epoch_ - 1 - t_max_) % (2 * t_max_) == 0) {
    return lr + (base_lrs_[i] - eta_min_) * (1 - std::cos(M_PI / total)) / 2;
  }
  return (1 + std::cos(M_PI * at / total)) / (1 + std::cos(M_PI * (at - 1) / total)) *
             (lr - eta_min_) +
         eta_min_;
}
double CosineAnnealingLR::RateFromStart(size_t i) const {
  return Cosine(base_lrs_[i], eta_min_,
                static_cast<double>(last_epoch_) / static_cast<double>(t_max_));
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t T_0,
                                                         int64_t T_mult, double eta_min)
    : LRScheduler(optimizer),
      t_0_(std::max<int64_t>(T_0, 1)),
      t_mult_(std::max<int64_t>(T_mult, 1)),
      eta_min_(eta_min) {
  Require(T_0 > 0 && T_mult > 0, "T_0 and T_mult must be above 0");
  Begin();
}
double CosineAnnealingWarmRestarts::Rate(size_t i, double) const {
  int64_t at = last_epoch_, length = t_0_;
  if (t_mult_ == 1) at %= length;
  while (at >= length && length < std::numeric_limits<int64_t>::max() / t_mult_) {
    at -= length;
    length *= t_mult_;
  }
  return Cosine(base_lrs_[i], eta_min_, static_cast<double>(at) / static_cast<double>(length));
}

// ---- OneCycleLR ----

OneCycleLR::OneCycleLR(Optimizer& optimizer, double max_lr, const OneCycleOptions& options)
    : LRScheduler(optimizer), options_(options) {
  if (options_.total_steps == 0 &&
      __builtin_mul_overflow(options.epochs, options.steps_per_epoch, &options_.total_steps)) {
    options_.total_steps = 0;  // rejected
  }
  Require(options_.total_steps > 0, "OneCycleLR needs total_steps, or epochs and steps_per_epoch");
  Require(options.pct_start >= 0 && options.pct_start <= 1, "pct_start must be from 0 to 1");
  Require(options.anneal_strategy == "cos" || options.anneal_strategy == "linear",
          "anneal_strategy must be \"cos\" or \"linear\"");
  const double initial = max_lr / options.div_factor, least = initial / options.final_div_factor;
  const auto total = static_cast<double>(options_.total_steps);
  const double low = options.base_momentum, high = options.max_momentum;
  phases_ = {{options.pct_start * total - 1, initial, max_lr, high, low}};
  if (options.three_phase) {
    phases_.push_back({2 * options.pct_start * total - 2, max_lr, initial, low, high});
    phases_.push_back({total - 1, initial, least, high, high});
  } else {
    phases_.push_back({total - 1, max_lr, least, low, high});
  }
  for (Optimizer::Group& group : optimizer.param_groups()) {
    group.options["initial_lr"] = initial;
    if (!options.cycle_momentum) continue;
    CycleMomentum(group);
  }
  Begin();
  SetMomentum();
}

double OneCycleLR::At(bool momentum) const {
  double start = 0;
  for (size_t i = 0; i < phases_.size(); ++i) {
    const Phase& phase = phases_[i];
    const auto step = static_cast<double>(last_epoch_);
    if (step > phase.end && i + 1 < phases_.size()) {
      start = phase.end;
      continue;
    }
    const double from = momentum ? phase.start_momentum : phase.start_lr,
                 to = momentum ? phase.end_momentum : phase.end_lr;
    // A phase without steps (pct_start * total_steps is 1) is over at once.
    const double share = phase.end == start ? 1 : (step - start) / (phase.end - start);
    return options_.anneal_strategy == "cos" ? Cosine(from, to, share) : (to - from) * share + from;
  }
  return 0;
}

double OneCycleLR::Rate(size_t, double) const { return At(false); }

void OneCycleLR::SetMomentum() {
  if (options_.cycle_momentum) SetGroupMomentum(At(true));
}

void OneCycleLR::step() {
  if (last_epoch_ >= options_.total_steps) {
    Require(false, absl::StrCat("OneCycleLR has total_steps = ", options_.total_steps,
                                "; step() was called more often"));
    return;
  }
  LRScheduler::step();
  SetMomentum();
}

// ---- ReduceLROnPlateau ----

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer), options_(options) {
  best_ = std::numeric_limits<double>::infinity() * (options.mode == "min" ? 1 : -1);
  const bool valid = options.factor < 1 && (options.mode == "min" || options.mode == "max") &&
                     (options.threshold_mode == "rel" || options.threshold_mode == "abs");
  if (valid) return;
  FailThread(absl::InvalidArgumentError(
      "ReduceLROnPlateau: factor must be below 1, mode \"min\" or \"max\", threshold_mode "
      "\"rel\" or \"abs\""));
}

bool ReduceLROnPlateau::IsBetter(double metric) const {
  const double t = options_.threshold;
  if (options_.mode == "min") {
    return metric < (options_.threshold_mode == "rel" ? best_ * (1 - t) : best_ - t);
  }
  return metric > (options_.threshold_mode == "rel" ? best_ * (1 + t) : best_ + t);
}

void ReduceLROnPlateau::step(double metric) {
  if (IsBetter(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  for (Optimizer::Group& group : optimizer_.param_groups()) {
    double& lr = group.options["lr"];
    const double reduced = std::max(lr * options_.factor, options_.min_lr);
    if (lr - reduced > options_.eps) lr = reduced;
  }
  cooldown_ = options_.cooldown;
  bad_epochs_ = 0;
}

base::NamedArrays ReduceLROnPlateau::state_dict() const {
  return {{"best", Array::Scalar(best_)},
          {"num_bad_epochs", Array::Scalar<int64_t>(bad_epochs_)},
          {"cooldown_counter", Array::Scalar<int64_t>(cooldown_)}};
}

absl::Status ReduceLROnPlateau::load_state_dict(const base::NamedArrays& state) {
  PENSTOCK_ASSIGN_OR_RETURN(const double best, NumberIn("lr_scheduler", state, "best"));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t bad_epochs, CountIn(state, "num_bad_epochs"));
  PENSTOCK_ASSIGN_OR_RETURN(cooldown_, CountIn(state, "cooldown_counter"));
  best_ = best;
  bad_epochs_ = bad_epochs;
  return absl::OkStatus();
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> rates;
  for (const Optimizer::Group& group : optimizer_.param_groups()) {
    rates.push_back(group.options.at("lr"));
  }
  return rates;
}

// ---- SequentialLR ----

SequentialLR::SequentialLR(Optimizer& optimizer,
                           std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  Require(!schedulers_.empty() && milestones_.size() + 1 == schedulers_.size(),
          "SequentialLR needs one milestone less than schedulers");
  const auto no_scheduler = [&](const auto& scheduler) {
    return scheduler == nullptr || &scheduler->optimizer_ != &optimizer;
  };
  const auto end = std::remove_if(schedulers_.begin(), schedulers_.end(), no_scheduler);
  Require(end == schedulers_.end(), "every scheduler of SequentialLR must be one of its optimizer");
  schedulers_.erase(end, schedulers_.end());
  last_epoch_ = 0;
  // The schedulers' constructors have set rates; the first one begins again.
  for (Optimizer::Group& group : optimizer.param_groups()) {
    group.options["lr"] = group.options.at("initial_lr");
  }
  for (const auto& scheduler : schedulers_) --scheduler->last_epoch_;
  if (!schedulers_.empty()) schedulers_[0]->LRScheduler::step();
}

void SequentialLR::step() {
  ++last_epoch_;
  const auto at = static_cast<size_t>(
      std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch_) - milestones_.begin());
  if (at >= schedulers_.size()) return;
  if (at > 0 && milestones_[at - 1] == last_epoch_) {
    schedulers_[at]->StepFromStart();
  } else {
    schedulers_[at]->step();
  }
}

base::NamedArrays SequentialLR::state_dict() const {
  base::NamedArrays state = LRScheduler::state_dict();
  AppendStates(schedulers_, state);
  return state;
}

absl::Status SequentialLR::load_state_dict(const base::NamedArrays& state) {
  const base::NamedArrays before = state_dict();
  const absl::Status loaded = Load(state);
  if (!loaded.ok()) PENSTOCK_RETURN_IF_ERROR(base::WithContext(Load(before), loaded.message()));
  return loaded;
}

absl::Status SequentialLR::Load(const base::NamedArrays& state) {
  PENSTOCK_RETURN_IF_ERROR(LoadStates(schedulers_, state));
  return LRScheduler::load_state_dict(state);
}

}  // namespace penstock::lazy::optim::lr_scheduler
