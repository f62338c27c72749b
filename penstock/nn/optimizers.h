// Catalog of optimizers. Names, defaults and formulas are Keras 3's (keras.optimizers); LARS is
// not in Keras.
//
//   Optimizer optimizer = SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
//   optimizer = AdamW({.learning_rate = 1e-3,
//                      .weight_decay = 0.05,
//                      .exclude_from_weight_decay = {"bias"},
//                      .global_clipnorm = 1,
//                      .use_ema = true});
//
// An options struct has an optimizer's own options and those that every optimizer has, in Keras's
// order. The latter, from weight_decay to gradient_accumulation_steps, are repeated in each struct,
// because designated initializers do not reach the fields of a base class; OptimizerOptions
// (optimizer.h) documents them. A struct that lacks one of them does not compile
// (optimizer_body.h), and a test compares their defaults.
#pragma once

#include "penstock/nn/optimizer.h"

namespace penstock::nn {

// Stochastic gradient descent: velocity = momentum * velocity - learning_rate * gradient; variable
// += velocity, or with Nesterov momentum variable += momentum * velocity - learning_rate * gradient
// (Sutskever et al. 2013).
struct SGDOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer SGD(const SGDOptions& options = {});

// Updates by the sign of a moving average of gradients (Chen et al.: Symbolic discovery, 2023).
struct LionOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Lion(const LionOptions& options = {});

// Layer-wise adaptive rate scaling for large batches (You, Gitman and Ginsburg 2017): the gradient,
// plus weight_decay_rate times the variable, is scaled by
//   eeta |variable| / (|gradient| + weight_decay_rate |variable| + epsilon)
// before SGD with momentum. Variables whose names contain one of `exclude_from_layer_adaptation`
// (usually "bias", "gamma", "beta") use the global rate; those in exclude_from_weight_decay have no
// weight_decay_rate.
struct LARSOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay_rate = 0;
  double eeta = 0.001;
  double epsilon = 0;
  bool nesterov = false;
  std::vector<std::string> exclude_from_layer_adaptation = {};
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer LARS(const LARSOptions& options = {});

// Adam (Kingma and Ba 2014), in the form of section 2.1 (the rate includes the bias correction), as
// in Keras.
struct AdamOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Adam(const AdamOptions& options = {});

// Adam with decoupled weight decay (Loshchilov and Hutter 2017).
struct AdamWOptions {
  Schedule learning_rate = 0.001;
  std::optional<double> weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer AdamW(const AdamWOptions& options = {});

// Adam with the maximum of past gradients instead of the mean of squares (Kingma and Ba 2014,
// section 7).
struct AdamaxOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Adamax(const AdamaxOptions& options = {});

// Adam with Nesterov momentum (Dozat 2015).
struct NadamOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Nadam(const NadamOptions& options = {});

// LAMB: layer-wise adaptive Adam for large batches (You et al. 2019).
struct LambOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Lamb(const LambOptions& options = {});

// Muon (Jordan et al. 2024): orthogonalizes the momentum of a matrix before the update, whose size
// is that of Liu et al. (Muon is scalable, 2025). Variables that are not matrices, and those whose
// names contain "embedding" or one of `exclude_layers`, are updated by Adam.
struct MuonOptions {
  Schedule learning_rate = 0.001;
  double adam_beta_1 = 0.9;
  double adam_beta_2 = 0.999;
  std::optional<double> adam_weight_decay = 0.004;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = 0.004;
  std::vector<std::string> exclude_layers = {};
  bool exclude_embeddings = true;
  double muon_a = 3.4445;
  double muon_b = -4.7750;
  double muon_c = 2.0315;
  double adam_lr_ratio = 1;
  double momentum = 0.95;
  int64_t ns_steps = 5;
  bool nesterov = true;
  std::optional<double> rms_rate = 0.2;  // nullopt: the update is not scaled by the matrix's size
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Muon(const MuonOptions& options = {});

// gradient / sqrt(mean square of gradients), or / sqrt(variance) if centered (Hinton 2012, Graves
// 2013).
struct RMSpropOptions {
  Schedule learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer RMSprop(const RMSpropOptions& options = {});

// Adagrad (Duchi et al. 2011).
struct AdagradOptions {
  Schedule learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Adagrad(const AdagradOptions& options = {});

// Adadelta (Zeiler 2012); the paper's learning rate is 1.
struct AdadeltaOptions {
  Schedule learning_rate = 0.001;
  double rho = 0.95;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Adadelta(const AdadeltaOptions& options = {});

// Adafactor (Shazeer and Stern 2018): stores only the row and column means of a matrix's mean
// squares. relative_step has no effect, as in Keras: the rate is at most 1 / sqrt(step).
struct AdafactorOptions {
  Schedule learning_rate = 0.001;
  double beta_2_decay = -0.8;
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;
  bool relative_step = true;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Adafactor(const AdafactorOptions& options = {});

// Follow the regularized leader (McMahan et al. 2013).
struct FtrlOptions {
  Schedule learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;
  std::optional<double> weight_decay = {};
  std::vector<std::string> exclude_from_weight_decay = {};
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  std::optional<double> loss_scale_factor = {};
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
};
Optimizer Ftrl(const FtrlOptions& options = {});

// Dynamic loss scaling for `inner`: a step with non-finite gradients is skipped and halves the
// scale; dynamic_growth_steps consecutive finite ones double it. For the policy "mixed_float16".
// The loss_scale_factor of `inner` is then ignored.
inline Optimizer LossScaleOptimizer(const Optimizer& inner, const LossScaleOptions& options = {}) {
  return inner.WithLossScaling(options);
}

}  // namespace penstock::nn
