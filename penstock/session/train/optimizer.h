// Optimizers: tf.train.Optimizer and its subclasses, with the names, defaults and order of
// arguments of TensorFlow 1.15.
//
//   tf::train::AdamOptimizer optimizer(1e-3);
//   tf::Operation step = optimizer.Minimize(loss, tf::train::GetOrCreateGlobalStep());
//
// In two steps, with something between:
//
//   auto pairs = optimizer.ComputeGradients(loss);                    // {gradient, variable}
//   for (auto& pair : pairs) pair.gradient = tf::ClipByNorm(pair.gradient, 5);
//   tf::Operation step = optimizer.ApplyGradients(pairs, global_step);
//
// An optimizer of room nn, with what those have in addition (decoupled weight decay, clipping by
// the global norm, moving averages, loss scaling), under Keras's formulas:
//
//   tf::train::Optimizer optimizer(penstock::nn::AdamW({.learning_rate = 1e-3, .global_clipnorm = 1}));
//
// The update of all variables, their slots and the global step is one operation. The formulas are
// those of TensorFlow's kernels (tensorflow/core/kernels/training_ops.cc); where Keras's are the
// same, the class of room nn computes them, so results are equal bit for bit.
//
// Slots are non-trainable variables with TensorFlow's names: "w/Momentum", "w/Adam", "w/Adam_1",
// "beta1_power". A Saver exchanges them with TensorFlow's checkpoints.
//
// Differences from TensorFlow 1.15: gradients of embeddings are dense tensors, so that Adadelta,
// Momentum and RMSProp also decay the slots of rows without a gradient, Ftrl sets such rows to 0 in
// its first update, and clipping sees the sum of a row's gradients. use_locking, gate_gradients,
// aggregation_method and colocate_gradients_with_ops have no meaning here and are left out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/nn/optimizer.h"
#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session::train {

// A learning rate: a number, or a scalar tensor (a schedule of learning_rate.h, a placeholder).
class LearningRate {
 public:
  LearningRate(double number) : number_(number) {}  // NOLINT: Optimizer(0.1)
  LearningRate(const Tensor& tensor) : tensor_(tensor), is_tensor_(true) {}   // NOLINT
  LearningRate(const Variable& variable) : LearningRate(variable.Value()) {}  // NOLINT

  bool is_tensor() const { return is_tensor_; }
  double number() const { return number_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  double number_ = 0;
  Tensor tensor_;
  bool is_tensor_ = false;
};

// A variable and the gradient of the loss with respect to it; an invalid gradient (TensorFlow's
// None): the loss does not depend on the variable, which is not updated.
struct GradientAndVariable {
  Tensor gradient;
  Variable variable;
};
using GradientsAndVariables = std::vector<GradientAndVariable>;

struct MinimizeOptions {
  std::string name = "";  // of the operation; empty: the optimizer's
  Tensor grad_loss = {};  // gradient of `loss`, of its shape; invalid: ones
};

// An optimizer of room nn; base of the classes below and of wrappers (tpu::CrossShardOptimizer),
// which override the virtual functions. Copies share the slots. An optimizer may be used in several
// graphs, and has slots of its own in each.
class Optimizer {
 public:
  // `name`: of operations and slots; empty: the class's ("AdamW"). The learning rate is that of
  // `optimizer`, whose schedule counts the updates in the variable "<name>/iteration".
  explicit Optimizer(const ::penstock::nn::Optimizer& optimizer, absl::string_view name = "");
  // The same with another learning rate.
  Optimizer(const ::penstock::nn::Optimizer& optimizer, const LearningRate& learning_rate,
            absl::string_view name = "");
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;
  // A copy of the whole object, for wrappers that take any optimizer. A wrapper overrides it.
  virtual std::shared_ptr<Optimizer> Clone() const { return std::make_shared<Optimizer>(*this); }

  // The operation that updates `var_list` (empty: all trainable variables) by the gradients of
  // `loss`, and adds 1 to `global_step` if it is given. An error of the graph if the loss depends
  // on none of them.
  Operation Minimize(const Tensor& loss, const Variable& global_step = {},
                     const Variables& var_list = {}, const MinimizeOptions& options = {},
                     SourceLocation where = SourceLocation::Current());

  // Gradients of `loss` with respect to `var_list` (empty: all trainable variables).
  virtual GradientsAndVariables ComputeGradients(const Tensor& loss, const Variables& var_list = {},
                                                 const Tensor& grad_loss = {},
                                                 SourceLocation where = SourceLocation::Current());
  // The operation that applies the gradients. Creates the slots on the first call; they have to be
  // initialized as all variables.
  virtual Operation ApplyGradients(const GradientsAndVariables& gradients_and_variables,
                                   const Variable& global_step = {}, absl::string_view name = "",
                                   SourceLocation where = SourceLocation::Current());

  virtual std::string name() const;
  // A slot of a variable by TensorFlow's name of it ("momentum", "m", "v", "accumulator"); invalid
  // if there is none (yet).
  virtual Variable GetSlot(const Variable& variable, absl::string_view name) const;
  virtual std::vector<std::string> GetSlotNames() const;
  // The slots and the optimizer's other variables in the default graph, in creation order.
  virtual Variables variables() const;

 protected:
  // How a class differs from an optimizer of room nn by default.
  struct Traits {
    // TensorFlow's names of the slots, in the order of Optimizer::Slots of room nn; empty: the
    // same.
    std::vector<std::string> slot_names = {};
    // Names in the graph's variables, "w/<name>" for each slot; empty: the optimizer's name.
    std::vector<std::string> slot_variables = {};
    // Adam: the number of updates follows from the variables "beta1_power" and "beta2_power", as in
    // TensorFlow, of which there is none otherwise.
    bool has_beta_powers = false;
    double beta1 = 0, beta2 = 0;
    // Whether formulas or a schedule depend on the number of updates, so that it is counted.
    bool counts_updates = true;
  };
  Optimizer(const ::penstock::nn::Optimizer& optimizer, const LearningRate& learning_rate,
            absl::string_view name, Traits traits);
  // A wrapper's: it overrides every virtual function.
  Optimizer() = default;

 private:
  void MakeShared(SourceLocation where);
  const Variables& SlotsOf(const VariableDef& variable, SourceLocation where);
  Tensor ScaledGradient(const Tensor& loss, const Tensor& grad_loss, SourceLocation where);

  struct State;
  struct GraphVariables;
  struct VariablesOfGraph;
  GraphVariables& InGraph(Graph& graph) const;
  const GraphVariables* FindInGraph(const Graph* graph) const;  // null: none yet

  std::shared_ptr<const State> state_;
};

// variable -= learning_rate * gradient.
class GradientDescentOptimizer : public Optimizer {
 public:
  explicit GradientDescentOptimizer(const LearningRate& learning_rate,
                                    absl::string_view name = "GradientDescent");
};

// accumulation = momentum * accumulation + gradient; variable -= learning_rate * accumulation, or
// with use_nesterov learning_rate * (gradient + momentum * accumulation). Slot "momentum". Keras
// (::penstock::nn::SGD) multiplies by the learning rate before accumulating.
class MomentumOptimizer : public Optimizer {
 public:
  MomentumOptimizer(const LearningRate& learning_rate, double momentum,
                    absl::string_view name = "Momentum", bool use_nesterov = false);
};

// Adam (Kingma and Ba 2014). Slots "m" and "v". Keras's formula with another epsilon.
class AdamOptimizer : public Optimizer {
 public:
  explicit AdamOptimizer(const LearningRate& learning_rate = 0.001, double beta1 = 0.9,
                         double beta2 = 0.999, double epsilon = 1e-8,
                         absl::string_view name = "Adam");
};

// accumulator += gradient^2; variable -= learning_rate * gradient / sqrt(accumulator). Slot
// "accumulator".
class AdagradOptimizer : public Optimizer {
 public:
  explicit AdagradOptimizer(const LearningRate& learning_rate,
                            double initial_accumulator_value = 0.1,
                            absl::string_view name = "Adagrad");
};

// rms = decay * rms + (1 - decay) * gradient^2, which begins at 1 (in Keras at 0);
// momentum_slot = momentum * momentum_slot + learning_rate * gradient / sqrt(rms + epsilon);
// variable -= momentum_slot. With `centered` the variance replaces rms in the root. Slots "rms",
// "mg" (centered) and "momentum".
class RMSPropOptimizer : public Optimizer {
 public:
  explicit RMSPropOptimizer(const LearningRate& learning_rate, double decay = 0.9,
                            double momentum = 0, double epsilon = 1e-10, bool centered = false,
                            absl::string_view name = "RMSProp");
};

// Adadelta (Zeiler 2012). Slots "accum" and "accum_update".
class AdadeltaOptimizer : public Optimizer {
 public:
  explicit AdadeltaOptimizer(const LearningRate& learning_rate = 0.001, double rho = 0.95,
                             double epsilon = 1e-8, absl::string_view name = "Adadelta");
};

// Follow the regularized leader (McMahan et al. 2013). Slots "accum" and "linear".
struct FtrlOptions {
  std::string name = "Ftrl";
  std::string accum_name = "", linear_name = "";  // of the slots' variables; empty: `name`
  double l2_shrinkage_regularization_strength = 0;
};
class FtrlOptimizer : public Optimizer {
 public:
  explicit FtrlOptimizer(const LearningRate& learning_rate, double learning_rate_power = -0.5,
                         double initial_accumulator_value = 0.1,
                         double l1_regularization_strength = 0,
                         double l2_regularization_strength = 0, const FtrlOptions& options = {});
};

// tf.train.get_global_step() and others; the same as those of namespace session.
using session::GetGlobalStep;
using session::GetOrCreateGlobalStep;

}  // namespace penstock::session::train
