// The catalogue of optimizers. Names, defaults and formulas are Keras 3's (keras.optimizers); LARS
// is not in Keras.
//
//   Optimizer optimizer = SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
//   optimizer = AdamW({.weight_decay = 0.05},
//                     {.exclude_from_weight_decay = {"bias"}, .use_ema = true});
//
// The first argument has an optimizer's own options, the second those that all have (optimizer.h).
#pragma once

#include "penstock/nn/optimizer.h"

namespace penstock::nn {

// velocity = momentum velocity - rate gradient; variable += velocity, or with Nesterov's look ahead
// momentum velocity - rate gradient (Sutskever et al. 2013).
struct SGDOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
};
Optimizer SGD(const SGDOptions& options = {}, const OptimizerOptions& common = {});

// Steps by the sign of an average of gradients (Chen et al.: Symbolic discovery, 2023).
struct LionOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
};
Optimizer Lion(const LionOptions& options = {}, const OptimizerOptions& common = {});

// Layer-wise adaptive rate scaling for large batches (You, Gitman and Ginsburg 2017): the gradient,
// with weight_decay_rate times the variable added to it, is scaled by
//   eeta |variable| / (|gradient| + weight_decay_rate |variable| + epsilon)
// before SGD with momentum. Variables in whose names one of `exclude_from_layer_adaptation` appears
// (usually "bias", "gamma", "beta") keep the global rate; exclude_from_weight_decay leaves
// weight_decay_rate out.
struct LARSOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay_rate = 0;
  double eeta = 0.001;
  double epsilon = 0;
  bool nesterov = false;
  std::vector<std::string> exclude_from_layer_adaptation = {};
};
Optimizer LARS(const LARSOptions& options = {}, const OptimizerOptions& common = {});

// Kingma and Ba 2014, in the form of section 2.1 (the rate carries the bias correction), as Keras.
struct AdamOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
Optimizer Adam(const AdamOptions& options = {}, const OptimizerOptions& common = {});

// Adam with decoupled weight decay (Loshchilov and Hutter 2017). A weight_decay among the common
// options goes before this one.
struct AdamWOptions {
  Schedule learning_rate = 0.001;
  double weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
Optimizer AdamW(const AdamWOptions& options = {}, const OptimizerOptions& common = {});

// Adam by the largest gradient so far instead of the mean of squares (Kingma and Ba 2014, section
// 7).
struct AdamaxOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
};
Optimizer Adamax(const AdamaxOptions& options = {}, const OptimizerOptions& common = {});

// Adam with Nesterov's momentum (Dozat 2015).
struct NadamOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
};
Optimizer Nadam(const NadamOptions& options = {}, const OptimizerOptions& common = {});

// Adam scaled layer by layer, for large batches (You et al. 2019).
struct LambOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
};
Optimizer Lamb(const LambOptions& options = {}, const OptimizerOptions& common = {});

// Jordan et al. 2024: the momentum of a matrix is made orthogonal before the step, whose size is
// that of Liu et al. (Muon is scalable, 2025). What is no matrix, and variables in whose names
// "embedding" or one of `exclude_layers` appears, goes by Adam. A weight_decay among the common
// options goes before this one.
struct MuonOptions {
  Schedule learning_rate = 0.001;
  double adam_beta_1 = 0.9;
  double adam_beta_2 = 0.999;
  std::optional<double> adam_weight_decay = 0.004;
  double epsilon = 1e-7;
  double weight_decay = 0.004;
  std::vector<std::string> exclude_layers = {};
  bool exclude_embeddings = true;
  double muon_a = 3.4445;
  double muon_b = -4.7750;
  double muon_c = 2.0315;
  double adam_lr_ratio = 1;
  double momentum = 0.95;
  int64_t ns_steps = 5;
  bool nesterov = true;
  std::optional<double> rms_rate = 0.2;  // none: the step is not scaled by the matrix's size
};
Optimizer Muon(const MuonOptions& options = {}, const OptimizerOptions& common = {});

// gradient / sqrt(its mean square), or its variance when centered (Hinton 2012, Graves 2013).
struct RMSpropOptions {
  Schedule learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
};
Optimizer RMSprop(const RMSpropOptions& options = {}, const OptimizerOptions& common = {});

// Duchi et al. 2011.
struct AdagradOptions {
  Schedule learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
};
Optimizer Adagrad(const AdagradOptions& options = {}, const OptimizerOptions& common = {});

// Zeiler 2012; the paper's rate is 1.
struct AdadeltaOptions {
  Schedule learning_rate = 0.001;
  double rho = 0.95;
  double epsilon = 1e-7;
};
Optimizer Adadelta(const AdadeltaOptions& options = {}, const OptimizerOptions& common = {});

// Shazeer and Stern 2018: of a matrix's mean squares only the means of rows and columns are kept.
// relative_step changes nothing, as in Keras: the rate is never more than 1 / sqrt(step).
struct AdafactorOptions {
  Schedule learning_rate = 0.001;
  double beta_2_decay = -0.8;
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;
  bool relative_step = true;
};
Optimizer Adafactor(const AdafactorOptions& options = {}, const OptimizerOptions& common = {});

// Follow the regularized leader (McMahan et al. 2013).
struct FtrlOptions {
  Schedule learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;
};
Optimizer Ftrl(const FtrlOptions& options = {}, const OptimizerOptions& common = {});

// `inner` with a loss that is multiplied by a scale which follows the gradients: a step whose
// gradients are not finite is skipped and halves it, dynamic_growth_steps finite ones in a row
// double it. For the policy "mixed_float16". inner's own loss_scale_factor is not used then.
inline Optimizer LossScaleOptimizer(const Optimizer& inner, const LossScaleOptions& options = {}) {
  return inner.WithLossScaling(options);
}

}  // namespace penstock::nn
